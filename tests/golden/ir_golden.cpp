// Goldens of the IR: commands `print` (parse and print) and `verify` (parse and verify).
#include "support/catch.h"
#include "support/golden.h"

#include "ir/text/text.h"

using namespace cugrt;

static std::string run(const std::string &command, const std::string &input) {
  Diagnostics diagnostics;
  ir::Module module = ir::parse(input, diagnostics);
  if (!diagnostics.empty())
    return diagnostics.render("input", input);
  if (command == "verify") {
    ir::verify(module, diagnostics);
    return diagnostics.empty() ? "ok\n" : diagnostics.render("input", input);
  }
  REQUIRE(command == "print");
  std::string printed = ir::print(module);
  Diagnostics again;
  CHECK(ir::print(ir::parse(printed, again)) == printed); // printed text prints as itself
  CHECK(again.render("printed", printed).empty());
  return printed;
}

static const bool registered = test::register_goldens("ir", GOLDEN_FOLDER "/ir", run);
