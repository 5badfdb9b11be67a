// Pass context, pass table, and the cloner that passes are made from.
#include "support/catch.h"

#include "ir/text.h"
#include "ir/function_cloner.h"
#include "passes/pass.h"
#include "support/file.h"

using namespace cugrt;
using namespace cugrt::passes;

namespace {

/// The input section of a golden file.
std::string golden_input(const std::string &name) {
  const std::string text = read_file(TEST_GOLDEN_FOLDER "/" + name, 1 << 20).value();
  const std::string mark = "--- input\n";
  const size_t begin = text.find(mark) + mark.size();
  return text.substr(begin, text.find("\n--- ", begin) + 1 - begin);
}

ir::Module parse(const std::string &text) {
  Diagnostics diagnostics;
  ir::Module module = ir::parse(text, diagnostics);
  INFO(diagnostics.render("text", text));
  REQUIRE(diagnostics.empty());
  return module;
}

} // namespace

TEST_CASE("an unknown pass option is an error that lists the known ones") {
  PassContext context;
  const Status status = context.set("memory.plans", "true");
  CHECK(status.code() == Code::not_found);
  CHECK(status.message().find("'memory.plans'") != std::string::npos);
  for (const OptionInfo &option : known_options())
    CHECK(status.message().find(option.name) != std::string::npos);
}

TEST_CASE("pass options have types, defaults and values") {
  PassContext context;
  for (const OptionInfo &option : known_options()) // the table's defaults are legal values
    CHECK(PassContext().set(option.name, option.default_value).ok());
  CHECK(context.flag("memory.plan"));
  CHECK(context.set("memory.plan", "false").ok());
  CHECK_FALSE(context.flag("memory.plan"));
  const Status status = context.set("memory.plan", "maybe");
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("true or false") != std::string::npos);
  CHECK_FALSE(context.flag("memory.plan")); // a refused value changes nothing
}

TEST_CASE("passes are found by name, and an unknown one is an error that lists them") {
  for (const Pass &pass : all_passes()) {
    CHECK(find_pass(pass.name) == &pass);
    CHECK_FALSE(pass.description.empty());
  }
  CHECK(find_pass("Nothing") == nullptr);
  const Status status = require_pass("Nothing").take_status();
  CHECK(status.code() == Code::not_found);
  CHECK(status.message().find("LegalizeOps") != std::string::npos);
}

TEST_CASE("a cloned function prints as the original does, whatever it holds") {
  const ir::Module module = parse(golden_input("ir/sample.txt"));
  ir::Module copy = ir::without_functions(module);
  for (const ir::Function &function : module.functions) {
    Result<ir::Function> clone = ir::FunctionCloner(function, copy).run();
    REQUIRE(clone.ok());
    copy.functions.push_back(std::move(*clone));
  }
  CHECK(ir::print(copy) == ir::print(module));
}

TEST_CASE("the default pipeline leaves no tensor-level op and plans every inner tensor") {
  const ir::Module module = parse(golden_input("passes/legalize-convolution.txt"));
  Result<ir::Module> result = run_passes(module, default_pipeline(), {});
  REQUIRE(result.ok());
  size_t launches = 0, unplanned = 0;
  for (const ir::Binding &binding : result->functions[0].body().bindings) {
    CHECK(binding.kind != ir::BindingKind::op);
    launches += binding.kind == ir::BindingKind::launch;
    unplanned += binding.kind == ir::BindingKind::alloc;
  }
  CHECK(launches == 5);
  CHECK(unplanned == 2); // the two results
}

TEST_CASE("passes leave what they were given as it was") {
  const ir::Module module = parse(golden_input("passes/legalize-convolution.txt"));
  const std::string before = ir::print(module);
  REQUIRE(run_passes(module, default_pipeline(), {}).ok());
  CHECK(ir::print(module) == before);
}

TEST_CASE("an error of a pass names the pass, the function, the op, the dtype and the place") {
  const ir::Module module = parse(golden_input("passes/bad-legalize-block-dtype.txt"));
  const Status status = run_passes(module, default_pipeline(), {}).take_status();
  CHECK(status.code() == Code::unsupported);
  CHECK(status.location() == "4:3");
  for (const char *word : {"LegalizeOps", "@main", "concat", "q4_0"})
    CHECK(status.message().find(word) != std::string::npos);
}
