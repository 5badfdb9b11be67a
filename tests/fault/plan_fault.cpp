// Planning, writing and reading plans while host memory runs out: std::bad_alloc comes out, nothing
// leaks.
#include "support/alloc_fault.h"
#include "support/catch.h"
#include "support/describe_plan.h"

#include "base/file.h"
#include "compiler/planner/lower/planner.h"
#include "compiler/planner/rewrite/inline_calls.h"
#include "ir/text/text.h"
#include "plan/bytes/serialize.h"
#include "plan/validate/validate.h"

using namespace cugrt;

static ir::Module module_of(const std::string &name) {
  auto text = read_file(std::string(GOLDEN_FOLDER) + "/plan/" + name + ".txt", 1 << 20);
  REQUIRE(text.ok());
  size_t begin = text->find("--- input\n") + 10, end = text->find("--- command");
  auto module = ir::parse_and_verify(text->substr(begin, end - begin), name);
  REQUIRE(module.ok());
  return std::move(*module);
}

/// Every nth allocation of `work` fails once; nothing may be left behind.
template <class Work> static void check_faults(const Work &work, uint64_t stride) {
  work(); // tables that are made once
  int64_t before = test::live_allocations();
  bool clean = true;
  uint64_t failures = test::for_each_allocation(
      work, [&](uint64_t) { clean = clean && test::live_allocations() == before; }, 1000000,
      stride);
  CHECK(clean);
  CHECK(failures > 5);
}

TEST_CASE("the nth allocation failing in planning passes through and leaks nothing") {
  for (const char *name : {"chain", "control", "calls", "dynamism", "results"}) {
    INFO(name);
    ir::Module module = module_of(name);
    check_faults(
        [&] {
          plan::PlanReport report;
          auto inlined = plan::inline_calls(module, false);
          auto plan = plan::make_plan(inlined.ok() && *inlined ? **inlined : module, {}, &report);
          if (plan.ok())
            plan::describe(*plan);
        },
        1);
  }
}

TEST_CASE("the nth allocation failing in validating, writing or reading a plan leaks nothing") {
  ir::Module module = module_of("control");
  auto plan = plan::make_plan(module, {});
  REQUIRE(plan.ok());
  check_faults([&] { (void)plan::validate(*plan).ok(); }, 1);
  check_faults([&] { plan::to_bytes(*plan); }, 1);
  const std::string bytes = plan::to_bytes(*plan);
  check_faults([&] { (void)plan::from_bytes(bytes).ok(); }, 7);
}
