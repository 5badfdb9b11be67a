// Parsing, verifying and printing while host memory runs out: std::bad_alloc comes out, nothing
// leaks.
#include "support/alloc_fault.h"
#include "support/catch.h"

#include "base/file.h"
#include "ir/text/text.h"

using namespace cugrt;

static std::string input_of(const std::string &name) {
  auto text = read_file(std::string(GOLDEN_FOLDER) + "/ir/" + name + ".txt", 1 << 20);
  REQUIRE(text.ok());
  size_t begin = text->find("--- input\n") + 10, end = text->find("--- command");
  return text->substr(begin, end - begin);
}

TEST_CASE("the nth allocation failing in parse, verify or print passes through and leaks nothing") {
  for (const char *name : {"sample", "constants", "kernel-forms", "control-flow", "bad-recovery",
                           "bad-kill", "bad-ops", "strings", "constraints"}) {
    std::string text = input_of(name);
    auto work = [&] {
      Diagnostics diagnostics;
      ir::Module module = ir::parse(text, diagnostics);
      if (diagnostics.empty())
        ir::verify(module, diagnostics);
      std::string out = diagnostics.empty() ? ir::print(module) : diagnostics.render("m", text);
    };
    work(); // tables that are made once
    int64_t before = test::live_allocations();
    bool clean = true;
    uint64_t failures = test::for_each_allocation(
        work, [&](uint64_t) { clean = clean && test::live_allocations() == before; });
    clean = clean && test::live_allocations() == before; // before Catch2 allocates its own
    INFO(name);
    CHECK(clean);
    CHECK(failures > 50);
  }
}

TEST_CASE("parsing works again after memory ran out") {
  std::string text = input_of("sample");
  {
    test::FailAt fail(100, true);
    Diagnostics diagnostics;
    CHECK_THROWS_AS(ir::parse(text, diagnostics), std::bad_alloc);
  }
  CHECK(ir::parse_and_verify(text, "sample").ok());
  Diagnostics diagnostics;
  ir::parse(text, diagnostics);
  CHECK(diagnostics.empty());
}
