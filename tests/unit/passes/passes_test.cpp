// Pass context, pass table, and the cloner that passes are made from.
#include "support/must.h"

#include "base/file.h"
#include "compiler/passes/pass.h"
#include "compiler/planner/lower/planner.h"
#include "ir/module/function_cloner.h"
#include "ir/text/text.h"

using namespace cugrt;
using namespace cugrt::passes;
using cugrt::test::must;

namespace {

/// The input section of a golden file.
std::string golden_input(const std::string &name) {
  const std::string text = read_file(TEST_GOLDEN_FOLDER "/" + name, 1 << 20).value();
  const std::string mark = "--- input\n";
  const size_t begin = text.find(mark) + mark.size();
  return text.substr(begin, text.find("\n--- ", begin) + 1 - begin);
}

ir::Module parse_text(const std::string &text) {
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

TEST_CASE("numbers among pass options have bounds") {
  PassContext context;
  CHECK(context.number("target.multiprocessors") == 64);
  CHECK(context.set_from_text("target.multiprocessors=132").ok());
  CHECK(context.number("target.multiprocessors") == 132);
  for (const char *wrong : {"", "0", "65537", "-1", "16x", " 16", "1e3", "99999999999999999999"}) {
    INFO(wrong);
    const Status status = context.set("target.multiprocessors", wrong);
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().find("a whole number from 1 to 65536") != std::string::npos);
  }
  CHECK(context.number("target.multiprocessors") == 132);
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
  const ir::Module module = parse_text(golden_input("ir/sample.txt"));
  ir::Module copy = ir::without_functions(module);
  for (const ir::Function &function : module.functions) {
    ir::Function clone = must(ir::FunctionCloner(function, copy).run());
    copy.functions.push_back(std::move(clone));
  }
  CHECK(ir::print(copy) == ir::print(module));
}

TEST_CASE("the default pipeline leaves no tensor-level op and plans every inner tensor") {
  const ir::Module module = parse_text(golden_input("passes/legalize-convolution.txt"));
  ir::Module result = must(run_passes(module, default_pipeline(), {}));
  size_t launches = 0, unplanned = 0;
  for (const ir::Binding &binding : result.functions[0].body().bindings) {
    CHECK(binding.kind != ir::BindingKind::op);
    launches += binding.kind == ir::BindingKind::launch;
    unplanned += binding.kind == ir::BindingKind::alloc;
  }
  CHECK(launches == 4);  // the convolution and the activation are one
  CHECK(unplanned == 2); // the two results
}

TEST_CASE("passes leave what they were given as it was") {
  const ir::Module module = parse_text(golden_input("passes/legalize-convolution.txt"));
  const std::string before = ir::print(module);
  REQUIRE(run_passes(module, default_pipeline(), {}).ok());
  CHECK(ir::print(module) == before);
}

// --- InlineFunctions and EliminateDeadFunctions --------------------------------------------------

namespace {

/// One kernel of a tensor to another, and private functions f0 .. f`depth`, each calling the one
/// before twice; f0 is `leaf`.
std::string doubling(int depth, const std::string &leaf) {
  std::string text = R"(cugrt 1
kernel @k {
  source "k.cu"
  entry "k"
  params (x: in f32, y: out f32)
  launch { grid (1, 1, 1) block (8, 1, 1) }
}
private func @f0(%x: tensor<[8], f32>, %y: inout tensor<[8], f32>) {
)" + leaf + "  return\n}\n";
  for (int i = 1; i <= depth; ++i) {
    const std::string callee = "  call @f" + std::to_string(i - 1) + "(%x, %y)\n";
    text += "private func @f" + std::to_string(i) +
            "(%x: tensor<[8], f32>, %y: inout tensor<[8], f32>) {\n" + callee + callee +
            "  return\n}\n";
  }
  return text + "func @main(%x: tensor<[8], f32>, %y: inout tensor<[8], f32>) {\n  call @f" +
         std::to_string(depth) + "(%x, %y)\n  return\n}\n";
}

ir::Module inlined(const std::string &text) {
  const Pass *const passes[] = {find_pass("InlineFunctions"), find_pass("EliminateDeadFunctions")};
  return must(run_passes(parse_text(text), passes, {}));
}

size_t most_launches(const ir::Module &module) {
  size_t most = 0;
  for (const ir::Function &function : module.functions) {
    size_t launches = 0;
    for (const ir::Binding &binding : function.body().bindings)
      launches += binding.kind == ir::BindingKind::launch;
    most = std::max(most, launches);
  }
  return most;
}

} // namespace

TEST_CASE("inlining ends at 65,536 bindings of a module that come from calls") {
  // A call leaves a name for what it takes and one for what it gives, so fk has 3 * 2^k - 2
  // bindings and 3 * (2^(k + 1) - 2) - 2 k have come from calls up to it: 49,120 for f13, and one
  // call of it more would be 73,695. What stays calls f13, 2^4 times.
  const ir::Module module = inlined(doubling(17, "  launch @k(%x, %y)\n"));
  CHECK(most_launches(module) == 8192);
  REQUIRE(module.functions.size() == 2);
  CHECK(module.functions[0].name == "f13");
  const std::vector<ir::Binding> &main = module.functions[1].body().bindings;
  REQUIRE(main.size() == 16);
  for (const ir::Binding &binding : main) {
    CHECK(binding.kind == ir::BindingKind::call);
    CHECK(binding.callee == 0);
  }
}

TEST_CASE("functions without steps do not make inlining explode") {
  for (const char *leaf : {"", "  %a = alias %x\n"}) {
    const ir::Module module = inlined(doubling(40, leaf)); // 2^40 calls
    size_t bindings = 0;
    for (const ir::Function &function : module.functions)
      bindings += function.body().bindings.size() + function.call_sites.size();
    CHECK(bindings < (size_t(1) << 22));
  }
}

TEST_CASE("what was inlined knows the calls that it came from") {
  const ir::Module module = inlined(doubling(1, "  launch @k(%x, %y)\n"));
  REQUIRE(module.functions.size() == 1);
  const ir::Function &main = module.functions[0];
  REQUIRE(main.body().bindings.size() == 2);
  REQUIRE(main.call_sites.size() == 3);
  for (const ir::Binding &binding : main.body().bindings) {
    const ir::CallSite &inner = main.call_sites.at(binding.call_site);
    CHECK(inner.callee == "f0");
    CHECK(inner.call == "call @f0(%x, %y)");
    CHECK(inner.steps == 1);
    const ir::CallSite &outer = main.call_sites.at(inner.parent);
    CHECK(outer.callee == "f1");
    CHECK(outer.steps == 2);
    CHECK(outer.parent == UINT32_MAX);
  }
  CHECK(main.body().bindings[0].call_site != main.body().bindings[1].call_site);
}

TEST_CASE("the default pipeline packs callees with their callers, each tensor with its own life") {
  // As inline-functions.txt works out: 4352 bytes. A call that stays has the callee's %p and %q
  // beside what it is given and what it gives, %a and %b: 4096 + 256 + 256 + 4096.
  const std::string text = golden_input("passes/inline-functions.txt");
  const ir::Module module = parse_text(text.substr(0, text.find("private func @outer")));
  for (const auto &[inlines, bytes] : {std::pair{true, 4352}, std::pair{false, 8704}}) {
    PassContext context;
    REQUIRE(context.set("inline.functions", inlines ? "true" : "false").ok());
    ir::Module lowered = must(run_passes(module, default_pipeline(), context));
    plan::Plan plan = must(plan::make_plan(lowered, {}));
    REQUIRE(plan.arenas.size() == 1);
    CHECK(plan.arenas[0].bytes == bytes);
    // Private ones that no step calls are no part of the plan.
    CHECK((plan.functions.size() == 1) == inlines);
  }
}

TEST_CASE("an error of a pass names the pass, the function, the op, the dtype and the place") {
  const ir::Module module = parse_text(golden_input("passes/bad-legalize-block-dtype.txt"));
  const Status status = run_passes(module, default_pipeline(), {}).take_status();
  CHECK(status.code() == Code::unsupported);
  CHECK(status.location() == "4:3");
  for (const char *word : {"LegalizeOps", "@main", "concat", "q4_0"})
    CHECK(status.message().find(word) != std::string::npos);
}

// --- RewriteCudaGraph ----------------------------------------------------------------------------

namespace {

std::string rewritten(const std::string &text, std::vector<std::string_view> passes) {
  ir::Module module = parse_text(text);
  std::vector<const Pass *> pipeline;
  for (std::string_view name : passes)
    pipeline.push_back(find_pass(name));
  Result<ir::Module> result = run_passes(std::move(module), pipeline, PassContext());
  return result.ok() ? ir::print(*result) : result.status().message();
}

const std::string kLiftedKernel = R"(cugrt 1

kernel @k {
  source "k.cu"
  entry "k"
  params (x: in any, y: out any, n: symbol i64)
  launch { grid (1, 1, 1) block (8, 1, 1) }
}

)";

const std::string kUnplanned =
    kLiftedKernel + R"(func @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %a = alloc : tensor<[8], f32>
  launch @k(%x, %a, 8)
  %b = alloc : tensor<[8], f32>
  launch @k(%a, %b, 8)
  %y = alloc : tensor<[8], f32>
  launch @k(%b, %y, 8)
  return %y
}
)";

} // namespace

TEST_CASE("RewriteCudaGraph lifts what is in planned storage, so it comes after PlanMemory") {
  CHECK(rewritten(kUnplanned, {"RewriteCudaGraph"}) == kUnplanned);
  CHECK(rewritten(kUnplanned, {"PlanMemory", "RewriteCudaGraph"})
            .find("run_or_capture\"(@main_cuda_graph_capture, %args, 0)") != std::string::npos);
  CHECK(all_passes().back().name == "RewriteCudaGraph");
}

TEST_CASE("a key of more symbols than a shape has dimensions is an error that names the function") {
  std::string sum, dims;
  for (char c = 'a'; c <= 'i'; ++c) { // nine
    dims += std::string(c == 'a' ? "" : ", ") + "%" + c + ": tensor<[" + c + "], f32>";
    sum += std::string(c == 'a' ? "" : " + ") + c;
  }
  const std::string text = kLiftedKernel + "func @main(%x: out tensor<[8], f32>, " + dims +
                           ") attributes {num_inputs = 1} {\n" +
                           "  %s = alloc_storage \"global\", 32\n"
                           "  %t = alloc_tensor %s, 0 : tensor<[8], f32>\n"
                           "  launch @k(%a, %t, " +
                           sum + ")\n  return\n}\n";
  const std::string message = rewritten(text, {"RewriteCudaGraph"});
  CHECK(message.find("in @main") != std::string::npos);
  CHECK(message.find("depends on 9 symbols") != std::string::npos);
}

TEST_CASE(
    "names of storages leave their regions, and functions are shared over storages of any size") {
  auto function = [](const std::string &name, int bytes) {
    return "\nfunc @" + name + R"((%w: tensor<[8], f32>) attributes {num_inputs = 0} {
  %s = alloc_storage "global", )" +
           std::to_string(bytes) + R"(
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%w, %a, 8)
  %same = alias %s
  %pair = tuple(%same, %a)
  host "look"(%a)
  kill %a
  %b = alloc_tensor %same, 0 : tensor<[8], f32>
  host "look"(%b)
  %c = get %pair, 0
  kill %c
  return
}
)";
  };
  for (int bytes : {32, 64, 128}) {
    const std::string text = rewritten(kLiftedKernel + function("one", 64) + function("two", bytes),
                                       {"RewriteCudaGraph"});
    INFO(text);
    CHECK(ir::parse_and_verify(text, "result").ok());
    const bool shared = text.find("@one_cuda_graph_capture, %args, 1") != std::string::npos;
    CHECK(shared == (bytes == 64)); // %pair holds a storage, so its type says how large
  }
}

TEST_CASE("tuples go into regions as they are, and come out as their parts") {
  const std::string text = rewritten(kLiftedKernel + R"(

func @tuples(%x: tensor<[8], f32>, %w: tensor<[8], f32>) attributes {num_inputs = 1} {
  %before = tuple(%w, 3)
  %s = alloc_storage "global", 64
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @k(%w, %a, 8)
  %v = get %before, 0
  %pair = tuple(%v, %a, "text")
  %nested = tuple(%pair, %before)
  %b = alloc_tensor %s, 32 : tensor<[8], f32>
  launch @k(%a, %b, 8)
  host "see"(%nested, %b)
  return
}
)",
                                     {"RewriteCudaGraph"});
  const std::string expected = R"(
  %before = tuple(%w, 3)
  %s = host "cuda_graph.get_cached_alloc"(@cuda_graph_alloc, 0) : storage<"global", 64>
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  %args = tuple(%w, %a, %before, %s)
  %v, %b = host "cuda_graph.run_or_capture"(@tuples_cuda_graph_capture, %args, 0) : (tensor<[8], f32>, tensor<[8], f32>)
  %pair = tuple(%v, %a, "text")
  %nested = tuple(%pair, %before)
  host "see"(%nested, %b)
  return
)";
  INFO(text);
  CHECK(text.find(expected) != std::string::npos);
  CHECK(rewritten(text, {"RewriteCudaGraph"}) == text);
  CHECK(rewritten(text, {"PlanMemory"}) == text);
}
