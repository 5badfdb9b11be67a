// Goldens of the IR: commands `print` (parse and print) and `verify` (parse and verify).
#include "support/catch.h"
#include "support/golden.h"

#include "ir/text/text.h"

using namespace cugrt;

/// Line and column of every part, in the module's order.
static std::vector<std::pair<uint32_t, uint32_t>> places_of(const ir::Module &module) {
  std::vector<std::pair<uint32_t, uint32_t>> places;
  const auto add = [&](const auto &parts, auto location) {
    for (const auto &part : parts)
      places.emplace_back((part.*location).line, (part.*location).column);
  };
  add(module.kernels, &ir::Kernel::location);
  add(module.constants, &ir::Constant::location);
  add(module.functions, &ir::Function::location);
  for (const ir::Function &function : module.functions) {
    add(function.symbols, &ir::Symbol::location);
    add(function.constraints, &ir::Constraint::location);
    add(function.values, &ir::Value::location);
    add(function.blocks, &ir::Block::end_location);
    for (const ir::Block &block : function.blocks)
      add(block.bindings, &ir::Binding::location);
  }
  return places;
}

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
  CHECK(ir::print_with_places(module) == printed);
  CHECK(places_of(module) == places_of(ir::parse(printed, again)));
  return printed;
}

static const bool registered = test::register_goldens("ir", GOLDEN_FOLDER "/ir", run);
