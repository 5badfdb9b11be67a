// Groups over graphs of patterns, and what FuseOps and FuseKernels make of modules. Whole texts
// stand in the goldens fuse-ops.txt and fuse-kernels.txt.
#include "support/must.h"

#include "compiler/passes/op_groups.h"
#include "compiler/passes/pass.h"
#include "ir/text/text.h"

using namespace cugrt;
using namespace cugrt::passes;
using cugrt::test::contains;
using cugrt::test::must;
using enum ir::OpPattern;

namespace {

struct Op {
  ir::OpPattern pattern;
  std::vector<uint32_t> used_by{};
  bool used_outside = false;
};

using Groups = std::vector<uint32_t>;

/// By op: the last one of its group.
Groups groups(const std::vector<Op> &ops, GroupOptions options = {}) {
  OpGraph graph;
  for (const Op &op : ops)
    graph.nodes.push_back({op.pattern, op.used_outside || op.used_by.empty(), op.used_by});
  return group_ops(graph, options);
}

ir::Module parse(const std::string &text) { return must(ir::parse_and_verify(text, "text")); }

ir::Module run(const ir::Module &module, const std::vector<std::string> &names) {
  std::vector<const Pass *> list;
  for (const std::string &name : names)
    list.push_back(find_pass(name));
  ir::Module result = must(run_passes(module, list, {}));
  return parse(ir::print(result)); // what passes give is verified
}

size_t count(const ir::Module &module, ir::BindingKind kind) {
  size_t number = 0;
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const ir::Binding &binding : block.bindings)
        number += binding.kind == kind;
  return number;
}

std::string function(const std::string &params, const std::string &result,
                     const std::string &body) {
  return "cugrt 1\nfunc @main(" + params + ") -> (" + result + ") {\n" + body + "}\n";
}

} // namespace

TEST_CASE("a chain of elementwise ops is one group") {
  CHECK(groups({{elementwise, {1}}, {broadcast, {2}}, {elementwise}}) == Groups{2, 2, 2});
}

TEST_CASE("an op joins where all its paths meet, with what lies between") {
  // 0 -> 1, 2 -> 3
  CHECK(groups({{out_fusable, {1, 2}}, {elementwise, {3}}, {elementwise, {3}}, {elementwise}}) ==
        Groups{3, 3, 3, 3});
  // A reduction on one path keeps 0 apart; what is behind it on the other path still joins.
  CHECK(groups({{elementwise, {1, 2}}, {reduction, {3}}, {elementwise, {3}}, {elementwise}},
               {.after_reductions = false}) == Groups{0, 1, 3, 3});
}

TEST_CASE("of two products that are added, the first joins the sum") {
  CHECK(groups({{out_fusable, {2}}, {out_fusable, {2}}, {elementwise, {3}}, {elementwise}}) ==
        Groups{3, 1, 3, 3});
}

TEST_CASE("a product joins what is elementwise, and nothing that is broadcast or injective") {
  CHECK(groups({{out_fusable, {1}}, {broadcast}}) == Groups{0, 1});
  CHECK(groups({{out_fusable, {1}}, {injective}}) == Groups{0, 1});
  // The elementwise op behind it counts as a product then.
  CHECK(groups({{out_fusable, {1}}, {elementwise, {2}}, {injective}}) == Groups{1, 1, 2});
  CHECK(groups({{elementwise, {1}}, {injective}}) == Groups{1, 1});
}

TEST_CASE("nothing joins a product, an opaque op, or an op whose result is used elsewhere") {
  CHECK(groups({{elementwise, {1}}, {out_fusable}}) == Groups{0, 1});
  CHECK(groups({{elementwise, {1}}, {opaque, {2}}, {elementwise}}) == Groups{0, 1, 2});
  CHECK(groups({{elementwise, {1}, true}, {elementwise}}) == Groups{0, 1});
}

TEST_CASE("what is before a reduction joins it, and the reduction what is elementwise behind it") {
  const std::vector<Op> ops = {{broadcast, {1}}, {reduction, {2}}, {elementwise, {3}}, {reduction}};
  CHECK(groups(ops, {.after_reductions = false}) == Groups{1, 1, 3, 3});
  // The op between two reductions has joined the second one.
  CHECK(groups(ops) == Groups{1, 1, 3, 3});
  CHECK(groups({{broadcast, {1}}, {reduction, {2}}, {elementwise, {3}}, {elementwise}}) ==
        Groups{3, 3, 3, 3});
  CHECK(groups({{reduction, {2}}, {reduction, {2}}, {elementwise}}) == Groups{2, 1, 2});
  // What would move elements behind it does not take its op.
  const std::vector<Op> moved = {
      {reduction, {1}}, {elementwise, {2}}, {elementwise, {3}}, {injective, {4}}, {opaque}};
  CHECK(groups(moved) == Groups{2, 2, 2, 3, 4});
  CHECK(groups(moved, {.after_reductions = false}) == Groups{0, 3, 3, 3, 4});
}

TEST_CASE("a group has at most so many ops") {
  std::vector<Op> chain;
  for (uint32_t i = 1; i < 10; ++i)
    chain.push_back({elementwise, {i}});
  chain.push_back({elementwise});
  const Groups made = groups(chain, {.max_ops = 4});
  for (uint32_t last : made)
    CHECK(std::count(made.begin(), made.end(), last) <= 4);
  CHECK(groups(chain, {.max_ops = 10}) == Groups(10, 9));
}

TEST_CASE("layers of one form share their generated kernels") {
  std::string body = "  %h0 = relu(%x)\n";
  for (int layer = 0; layer < 5; ++layer) {
    const std::string n = std::to_string(layer);
    body += "  %m" + n + " = matmul(%h" + n + ", %w)\n  %a" + n + " = add(%m" + n + ", %b)\n  %h" +
            std::to_string(layer + 1) + " = silu(%a" + n + ")\n";
  }
  const ir::Module module =
      run(parse(function("%x: tensor<[n, 8], f32>, %w: tensor<[8, 8], f32>, %b: tensor<[8], f32>",
                         "tensor<[n, 8], f32>", body + "  return %h5\n")),
          {"FuseOps", "FuseKernels", "LegalizeOps"});
  CHECK(count(module, ir::BindingKind::launch) == 6);
  CHECK(module.kernels.size() == 2);
  CHECK(module.functions.size() == 1);
}

TEST_CASE("a generated kernel may write over what it reads at the same index only") {
  const ir::Module module =
      run(parse(function("%x: tensor<[8, 8], f32>, %b: tensor<[8], f32>, %h: tensor<[8, 8], f16>",
                         "tensor<[8, 8], f32>",
                         "  %c = cast(%h) {dtype = f32}\n"
                         "  %s = add(%c, %b)\n  %r = mul(%s, %x)\n  %n = neg(%r)\n"
                         "  return %n\n")),
          {"FuseOps", "FuseKernels"});
  REQUIRE(module.kernels.size() == 1);
  // %h has smaller elements, %b is spread; %x is read as it is.
  const ir::Function &main = module.functions[0];
  const ir::Binding &launch = main.body().bindings.back();
  REQUIRE(launch.kind == ir::BindingKind::launch);
  std::vector<std::string> over;
  for (const ir::KernelParam &param : module.kernels[0].params)
    for (uint32_t read : param.over)
      over.push_back(main.value(main.operands_of(launch)[read].value()).name);
  CHECK(over == std::vector<std::string>{"x"});
  const ir::Module twice =
      run(parse(function("%x: tensor<[8, 8], f32>", "tensor<[8, 8], f32>",
                         "  %t = transpose(%x)\n  %s = add(%t, %x)\n  return %s\n")),
          {"FuseOps", "FuseKernels"});
  for (const ir::KernelParam &param : twice.kernels.at(0).params)
    CHECK(param.over.empty()); // other threads read the transposed element
}

TEST_CASE("a group of more operands and strides than a kernel can take is several kernels") {
  // Each operand lacks the middle axis: a pointer and a stride.
  auto kernels = [](int ops) {
    std::string params = "%h0: tensor<[3, 4, 5], f32>", body;
    for (int i = 1; i <= ops; ++i) {
      const std::string n = std::to_string(i);
      params += ", %x" + n + ": tensor<[3, 1, 5], f32>";
      body += "  %h" + n + " = add(%h" + std::to_string(i - 1) + ", %x" + n + ")\n";
    }
    const ir::Module module =
        run(parse(function(params, "tensor<[3, 4, 5], f32>",
                           body + "  return %h" + std::to_string(ops) + "\n")),
            {"FuseOps", "FuseKernels", "LegalizeOps"});
    CHECK(count(module, ir::BindingKind::op) == 0);
    return count(module, ir::BindingKind::launch);
  };
  CHECK(kernels(100) == 1);
  CHECK(kernels(240) == 2);
  CHECK(kernels(1000) == 6);
}

TEST_CASE("ops are not fused over what may write or end what they read") {
  const std::string kernel =
      "cugrt 1\nkernel @k {\n  ptx \"k.ptx\"\n  entry \"k\"\n  params (x: inout f32)\n"
      "  launch { grid (1, 1, 1) block (1, 1, 1) }\n}\n";
  auto fuses = [&](const std::string &between) {
    return run(parse(kernel +
                     "func @other(%x: inout tensor<[4], f32>) {\n  return\n}\n"
                     "func @main(%x: inout tensor<[4], f32>, %c: bool) -> "
                     "(tensor<[4], f32>) {\n  %a = relu(%x)\n" +
                     between + "  %b = neg(%a)\n  return %b\n}\n"),
               {"FuseOps"})
               .functions.size() == 3;
  };
  CHECK(fuses(""));
  CHECK(fuses("  %t = alloc : tensor<[4], f32>\n"));
  CHECK(!fuses("  launch @k(%x)\n"));
  CHECK(!fuses("  call @other(%x)\n"));
  CHECK(!fuses("  host \"look\"(%x)\n"));
  CHECK(!fuses("  extern \"look\"(%x)\n"));
  CHECK(!fuses("  if %c using (%x) {\n    launch @k(%x)\n    yield\n  }\n"));
}

TEST_CASE("a mean takes in what is before and behind it; by the published rules, only what is "
          "behind it") {
  const ir::Module module = parse(function("%x: tensor<[4, 8], f32>", "tensor<[4], f32>",
                                           "  %e = exp(%x)\n  %m = reduce_mean(%e) {axes = [1]}\n"
                                           "  %s = sqrt(%m)\n  return %s\n"));
  auto group = [&](std::string_view rules) {
    PassContext context;
    REQUIRE(context.set("fuse.rules", rules).ok());
    const Pass *const passes[] = {find_pass("FuseOps")};
    ir::Module grouped = must(run_passes(module, passes, context));
    REQUIRE(grouped.functions.size() == 2);
    return grouped.functions[1].name;
  };
  CHECK(group("extended") == "fused_exp_reduce_mean_sqrt");
  CHECK(group("published") == "fused_reduce_mean_sqrt");
}

TEST_CASE("in the default pipeline what nothing uses keeps no ops apart") {
  const ir::Module module =
      parse(function("%x: tensor<[4, 8], f32>", "tensor<[4, 8], f32>",
                     "  %e = exp(%x)\n  %dead = softmax(%e)\n  %s = sqrt(%e)\n  return %s\n"));
  ir::Module lowered = must(run_passes(module, default_pipeline(), {}));
  CHECK(count(lowered, ir::BindingKind::launch) == 1);
}

TEST_CASE("a group that checks what its caller does not keep stays a call") {
  const std::string text = R"(cugrt 1
private func @group(%x: tensor<[m], f32>) -> (tensor<[m], f32>)
    attributes {upper_bounds = {m = 8}, primitive = true} {
  %a = relu(%x)
  %b = neg(%a)
  return %b
}
func @main(%x: tensor<[n], f32>) -> (tensor<[n], f32>) attributes {upper_bounds = {n = BOUND}} {
  %y = call @group(%x)
  return %y
}
)";
  auto calls = [&](const std::string &bound) {
    std::string bounded = text;
    bounded.replace(bounded.find("BOUND"), 5, bound);
    return count(run(parse(bounded), {"FuseKernels"}), ir::BindingKind::call);
  };
  CHECK(calls("8") == 0);
  CHECK(calls("9") == 1);
}

namespace {

/// The launches of a function of one result that are left after fusing.
size_t launches(const std::string &params, const std::string &result, const std::string &body) {
  return count(run(parse(function(params, result, body)),
                   {"FuseOps", "FuseKernels", "LegalizeOps", "EliminateDeadBindings"}),
               ir::BindingKind::launch);
}

} // namespace

TEST_CASE("comparisons, choices, integers and bools are fused like arithmetic on floats") {
  CHECK(launches("%x: tensor<[n, 8], f32>, %i: tensor<[n, 8], i32>", "tensor<[n, 8], i32>",
                 "  %c = clip(%x) {min = 0.0, max = 6.0}\n  %g = greater(%x, %c)\n"
                 "  %l = is_nan(%x)\n  %o = logical_or(%g, %l)\n  %s = mul(%i, %i)\n"
                 "  %w = where(%o, %s, %i)\n  return %w\n") == 1);
}

TEST_CASE("what chooses elements is computed where they are read") {
  const std::string params = "%x: tensor<[n, 8], f32>, %y: tensor<[n, 4], f32>, "
                             "%t: tensor<[100, 16], f32>, %ids: tensor<[n], i64>";
  CHECK(launches(params, "tensor<[n, 16], f32>",
                 "  %r = relu(%x)\n  %c = concat(%r, %y) {axis = 1}\n"
                 "  %p = pad(%c) {before = [0, 1], after = [0, 3], value = 1.0}\n"
                 "  %g = gather(%t, %ids)\n  %s = add(%p, %g)\n  return %s\n") == 1);
  // One kernel reads both halves.
  CHECK(launches(params, "tensor<[n, 4], f32>",
                 "  %a, %b = split(%x) {axis = 1, sections = [4, 4]}\n"
                 "  %s = silu(%a)\n  %m = mul(%s, %b)\n  return %m\n") == 1);
}

TEST_CASE(
    "sequences, one-hot rows and pads that repeat elements are computed where they are read") {
  CHECK(launches("%x: tensor<[n, 8], f32>, %ids: tensor<[n], i64>", "tensor<[n, 8], f32>",
                 "  %r = range() {length = 8, start = 0.5}\n"
                 "  %h = one_hot(%ids) {depth = 8, on = 2.0}\n"
                 "  %m = mul(%h, %r)\n  %s = add(%m, %x)\n  return %s\n") == 1);
  CHECK(launches("%x: tensor<[n], f32>", "tensor<[n], f32>",
                 "  %d = shape [n]\n  %r = range(%d) {step = 2.0}\n  %s = add(%r, %x)\n"
                 "  return %s\n") == 1);
  const std::string pad =
      "  %r = relu(%x)\n  %p = pad(%r) {before = [0, 2], after = [0, 3], mode = "
      "MODE}\n  %s = silu(%p)\n  return %s\n";
  auto padded = [&](const std::string &mode, const std::string &dims, const std::string &result) {
    std::string body = pad;
    body.replace(body.find("MODE"), 4, "\"" + mode + "\"");
    return launches("%x: tensor<[" + dims + "], f32>", "tensor<[" + result + "], f32>", body);
  };
  CHECK(padded("edge", "n, 8", "n, 13") == 1);
  CHECK(padded("reflect", "n, 8", "n, 13") == 1);
}

TEST_CASE("a slice that is a view stays one") {
  CHECK(launches("%x: tensor<[6, 8], f32>", "tensor<[24], f32>",
                 "  %s = slice(%x) {starts = [2], ends = [5]}\n"
                 "  %r = reshape(%s) {shape = [24]}\n  return %r\n") == 0);
}

TEST_CASE("argmax takes in what is before it, and what is behind its positions") {
  CHECK(launches("%x: tensor<[n, 8], f32>", "tensor<[n], f32>",
                 "  %e = exp(%x)\n  %m = argmax(%e)\n  %c = cast(%m) {dtype = f32}\n"
                 "  return %c\n") == 1);
}

TEST_CASE("a product's result that is used elsewhere than where it is stored is no epilogue") {
  // As a hand-written group: FuseOps would not make it.
  const std::string text = R"(cugrt 1
private func @group(%x: tensor<[4, 8], f32>, %w: tensor<[8, 8], f32>) -> (tensor<[4, 4], f32>)
    attributes {primitive = true} {
  %m = matmul(%x, %w)
  %s = BEHIND
  %r = relu(%s)
  return %r
}
func @main(%x: tensor<[4, 8], f32>, %w: tensor<[8, 8], f32>) -> (tensor<[4, 4], f32>) {
  %y = call @group(%x, %w)
  return %y
}
)";
  auto kernels = [&](const std::string &behind) {
    std::string with = text;
    with.replace(with.find("BEHIND"), 6, behind);
    return count(run(parse(with), {"FuseKernels", "LegalizeOps"}), ir::BindingKind::launch);
  };
  CHECK(kernels("slice(%m) {starts = [0], ends = [4], axes = [1]}") == 2);
}

TEST_CASE("indices are as wide as the largest tensor that a slice reads from") {
  auto options = [](const std::string &rows) {
    const ir::Module module =
        run(parse(function("%x: tensor<[" + rows + ", 16], f32>", "tensor<[4, 8], f32>",
                           "  %s = slice(%x) {starts = [0, 0], ends = [4, 8]}\n"
                           "  %r = relu(%s)\n  return %r\n")),
            {"FuseOps", "FuseKernels"});
    REQUIRE(module.kernels.size() == 1);
    const std::vector<std::string> &list = module.kernels[0].options;
    return std::find(list.begin(), list.end(), "-DINDEX=unsigned") != list.end();
  };
  CHECK(options("1000"));
  CHECK(!options("1000000000"));
}

// --- LiftTransformParams ---

namespace {

/// The module with what depends on weights alone lifted; %w, %b are weights.
ir::Module lift(const std::string &body, const std::string &result = "tensor<[4, 8], f32>") {
  return run(parse("cugrt 1\nkernel @touch {\n  ptx \"k.ptx\"\n  entry \"k\"\n"
                   "  params (x: inout f32)\n  launch { grid (1, 1, 1) block (1, 1, 1) }\n}\n"
                   "func @main(%x: tensor<[4, 8], f32>, %c: bool, %w: tensor<[8, 4], f32>, "
                   "%b: tensor<[8], f32>) -> (" +
                   result + ")\n    attributes {num_inputs = 2} {\n" + body + "}\n"),
             {"LiftTransformParams"});
}

/// Ops that are computed once.
size_t lifted(const std::string &body, const std::string &result = "tensor<[4, 8], f32>") {
  const ir::Module module = lift(body, result);
  if (module.functions.size() == 1)
    return 0;
  REQUIRE(module.functions.size() == 2);
  size_t ops = 0;
  for (const ir::Binding &binding : module.functions[1].body().bindings)
    ops += binding.kind == ir::BindingKind::op;
  return ops;
}

} // namespace

TEST_CASE("ops on weights alone become a function of weights, whose results are weights") {
  const ir::Module module = lift("  %t = transpose(%w)\n  %e = exp(%t)\n  %y = add(%x, %e)\n"
                                 "  %z = mul(%y, %b)\n  return %z\n");
  REQUIRE(module.functions.size() == 2);
  const ir::Function &main = module.functions[0], &transform = module.functions[1];
  CHECK(transform.name == "main_transform_params");
  CHECK(transform.num_inputs == 0);
  CHECK(transform.params.size() == 1); // %b is not among them
  CHECK(transform.body().bindings.size() == 2);
  REQUIRE(main.params.size() == 5);
  CHECK(main.num_inputs == 2);
  CHECK(main.value(main.params[4].value).name == "main_transform_params.0");
  CHECK(main.body().bindings.size() == 2);
  // Once more changes nothing.
  CHECK(run(module, {"LiftTransformParams"}).functions.size() == 2);
}

TEST_CASE("weights of two views that the function reads, too, are two") {
  const ir::Module module =
      lift("  %first = shape [0, 0]\n  %second = shape [4, 0]\n  %size = shape [4, 4]\n"
           "  %m = slice(%x, %first, %size)\n"
           "  %a = slice(%w, %first, %size)\n  %ea = exp(%a)\n"
           "  %d = slice(%w, %second, %size)\n  %ed = exp(%d)\n"
           "  %k = add(%m, %a)\n  %l = mul(%k, %ea)\n"
           "  %n = add(%l, %d)\n  %z = mul(%n, %ed)\n  return %z\n",
           "tensor<[4, 4], f32>");
  const std::string text = ir::print(module);
  CHECK(text.find("mul(%k, %main_transform_params.0)") != std::string::npos);
  CHECK(text.find("mul(%n, %main_transform_params.1)") != std::string::npos);
}

TEST_CASE("weights get the layouts that kernels read best, and stand in memory once") {
  // One row of f16, of f32 and of f64, weights w [8, 4] and u [4, 8] (f16), q of blocks.
  auto text = [](const std::string &body) {
    const ir::Module module =
        run(parse("cugrt 1\nfunc @main(%x: tensor<[1, 8], f16>, %f: tensor<[1, 32], f32>, "
                  "%d: tensor<[1, 32], f64>, %h: tensor<[1, 32], f16>, %m: tensor<[9, 8], f16>, "
                  "%p: tensor<[1, 8], u8>, %w: tensor<[8, 4], f16>, %v: tensor<[8, 4], i8>, "
                  "%u: tensor<[4, 8], f16>, %q: tensor<[4, 32], q4_0>) -> (tensor<[1, 4], f16>) "
                  "attributes {num_inputs = 6} {\n" +
                  body + "  return %y\n}\n"),
            {"LiftTransformParams"});
    return ir::print(module);
  };
  auto has = [](const std::string &in, const std::string &part) {
    return in.find(part) != std::string::npos;
  };
  // A transposed weight is read as it is.
  const std::string turned = text("  %t = transpose(%u)\n  %y = matmul(%x, %t)\n");
  CHECK(has(turned, "matmul(%x, %u) {transpose_b = true}"));
  CHECK(!has(turned, "= transpose("));
  // One that is not is turned once; not for many rows, nor where something else reads it.
  const std::string plain = text("  %y = matmul(%x, %w)\n");
  CHECK(has(plain, "matmul(%x, %main_transform_params.0) {transpose_b = true}"));
  CHECK(has(plain, "= transpose(%w)"));
  CHECK(!has(text("  %n = matmul(%m, %w)\n  %k = reduce_sum(%n) {axes = [0], keep_dims = true}\n"
                  "  %y = relu(%k)\n"),
             "transpose"));
  CHECK(!has(text("  %k = matmul(%x, %w)\n  %s = reduce_sum(%w) {axes = [0]}\n"
                  "  %y = add(%k, %s)\n"),
             "transpose"));
  const std::string bytes = text("  %k = matmul_integer(%p, %v)\n  %y = cast(%k) {dtype = f16}\n");
  CHECK(has(bytes, "matmul_integer(%p, %main_transform_params.0) {transpose_b = true}"));
  CHECK(has(bytes, "= transpose(%v)"));
  // Blocks are repacked once, but for products of f64.
  for (const std::string x : {"%h", "%f"}) {
    const std::string blocks =
        text("  %k = matmul_blocks(" + x + ", %q)\n  %y = cast(%k) {dtype = f16}\n");
    CHECK(has(blocks, "matmul_blocks(" + x + ", %main_transform_params.0) {repacked = true}"));
    CHECK(has(blocks, "= repack_blocks(%q)"));
  }
  // Rows of blocks are looked up in the layout that products want, or else as they are.
  const std::string rows =
      "  %i = range() {dtype = i32, length = 1}\n  %e = embedding_blocks(%q, %i)\n";
  const std::string tied =
      text(rows + "  %k = matmul_blocks(%e, %q)\n  %y = cast(%k) {dtype = f16}\n");
  CHECK(has(tied, "embedding_blocks(%main_transform_params.0, %i) {repacked = true}"));
  CHECK(!has(text(rows + "  %s = slice(%e) {starts = [0], ends = [4], axes = [1]}\n"
                         "  %y = cast(%s) {dtype = f16}\n"),
             "repack"));
  CHECK(!has(text("  %k = matmul_blocks(%d, %q)\n  %y = cast(%k) {dtype = f16}\n"), "repack"));
}

TEST_CASE("what several functions make alike of the same weights is one weight") {
  auto text = [](const std::string &name, const std::string &body) {
    return "func @" + name +
           "(%x: tensor<[4, 8], f32>, %w: tensor<[8, 4], f32>, %b: tensor<[8], f32>) -> "
           "(tensor<[4, 8], f32>)\n    attributes {num_inputs = 1} {\n" +
           body + "  return %y\n}\n";
  };
  // Of the second function, the first weight under other names, and one of its own; of the third,
  // another attribute; the fourth has nothing of its own, and computes it twice.
  const ir::Module module = run(
      parse("cugrt 1\n" + text("a", "  %t = transpose(%w)\n  %e = exp(%t)\n  %y = add(%x, %e)\n") +
            text("b", "  %s = exp(%b)\n  %q = transpose(%w)\n  %r = exp(%q)\n"
                      "  %p = add(%x, %s)\n  %y = add(%p, %r)\n") +
            text("c", "  %k = leaky_relu(%b) {alpha = 0.5}\n  %l = leaky_relu(%b) {alpha = 0.25}\n"
                      "  %p = add(%x, %k)\n  %y = add(%p, %l)\n") +
            text("d", "  %k = leaky_relu(%b) {alpha = 0.5}\n  %l = leaky_relu(%b) {alpha = 0.5}\n"
                      "  %p = mul(%x, %k)\n  %y = add(%p, %l)\n")),
      {"LiftTransformParams"});
  auto weights = [&](size_t number) {
    const ir::Function &function = module.functions[number];
    std::vector<std::string> names;
    for (size_t i = 3; i < function.params.size(); ++i)
      names.push_back(function.value(function.params[i].value).name);
    return names;
  };
  using Names = std::vector<std::string>;
  REQUIRE(module.functions.size() == 7); // three of weights
  CHECK(weights(0) == Names{"a_transform_params.0"});
  CHECK(weights(1) == Names{"b_transform_params.0", "a_transform_params.0"});
  CHECK(weights(2) == Names{"c_transform_params.0", "c_transform_params.1"});
  CHECK(weights(3) == Names{"c_transform_params.0"});
}

TEST_CASE("weights that share nothing are computed by functions that take few bytes each") {
  // Of 2 MiB each: %a and %b share a result, %d and %e a step; the constant joins nothing.
  const std::string matrix = "tensor<[512, 1024], f32>";
  const ir::Module module = run(
      parse(
          "cugrt 1\nconstant @k : tensor<[1], f32> = [2.0]\nfunc @main(%x: tensor<[1, 1024], f32>, "
          "%a: " +
          matrix + ", %b: " + matrix + ", %c: " + matrix + ", %d: " + matrix + ", %e: " + matrix +
          ") -> (tensor<[1, 1024], f32>, tensor<[1, 512], f32>, tensor<[1, 512], f32>, "
          "tensor<[1, 512], f32>)\n    attributes {num_inputs = 1} {\n  %k = constant @k\n"
          "  %p = concat(%a, %b) {axis = 0}\n  %q = mul(%c, %k)\n  %s = sub(%d, %e)\n"
          "  %t = mul(%s, %k)\n  %r = exp(%s)\n"
          "  %0 = matmul(%x, %p) {transpose_b = true}\n  %1 = matmul(%x, %q) {transpose_b = true}\n"
          "  %2 = matmul(%x, %t) {transpose_b = true}\n  %3 = matmul(%x, %r) {transpose_b = true}\n"
          "  return %0, %1, %2, %3\n}\n"),
      {"LiftTransformParams"});
  auto params = [&](size_t number) {
    const ir::Function &function = module.functions[number];
    std::vector<std::string> names;
    for (const ir::Parameter &param : function.params)
      names.push_back(function.value(param.value).name);
    return names;
  };
  using Names = std::vector<std::string>;
  REQUIRE(module.functions.size() == 4);
  CHECK(module.functions[1].name == "main_transform_params");
  CHECK(params(1) == Names{"a", "b"});
  CHECK(params(2) == Names{"c"});
  CHECK(params(3) == Names{"d", "e"});
  CHECK(params(0) == Names{"x", "a", "b", "c", "d", "e", "main_transform_params.0",
                           "main_transform_params_1.0", "main_transform_params_2.0",
                           "main_transform_params_2.1"});
}

TEST_CASE("what costs nothing, or depends on more than weights, stays") {
  CHECK(lifted("  %y = add(%x, %b)\n  return %y\n") == 0);
  CHECK(lifted("  %r = reshape(%w) {shape = [4, 8]}\n  %y = add(%x, %r)\n  return %y\n") == 0);
  // The reshape is needed by what is lifted in the first case, and a view in the second.
  CHECK(lifted("  %r = reshape(%w) {shape = [4, 8]}\n  %e = exp(%r)\n  %y = add(%x, %e)\n"
               "  return %y\n") == 2);
  CHECK(lifted("  %e = exp(%w)\n  %r = reshape(%e) {shape = [4, 8]}\n  %y = add(%x, %r)\n"
               "  return %y\n") == 1);
  // Both at once: it stays for who reads it in the function, and is computed where it is lifted
  // from.
  CHECK(lifted("  %r = reshape(%w) {shape = [4, 8]}\n  %e = exp(%r)\n  %y = add(%x, %e)\n"
               "  %z = mul(%y, %r)\n  return %z\n") == 2);
}

TEST_CASE("what becomes a view of a weight stays, whichever op it is") {
  struct Row {
    const char *op, *type;
    size_t lifted;
  };
  for (const Row &row : {Row{"cast(%w) {dtype = f32}", "[8, 4], f32", 0},
                         {"cast(%w) {dtype = f16}", "[8, 4], f16", 1},
                         {"slice(%w) {starts = [0], ends = [8], axes = [0]}", "[8, 4], f32", 0},
                         {"slice(%w) {starts = [2], ends = [4], axes = [0]}", "[2, 4], f32", 0},
                         {"slice(%w) {starts = [1], ends = [3], axes = [1]}", "[8, 2], f32", 1},
                         {"transpose(%w) {axes = [0, 1]}", "[8, 4], f32", 0},
                         {"transpose(%w)", "[4, 8], f32", 1},
                         {"split(%w) {axis = 0, sections = [8]}", "[8, 4], f32", 0},
                         {"split(%w) {axis = 1, sections = [4]}", "[8, 4], f32", 1},
                         {"concat(%w) {axis = 0}", "[8, 4], f32", 0},
                         {"concat(%w, %w) {axis = 0}", "[16, 4], f32", 1},
                         {"broadcast_to(%w, %same)", "[8, 4], f32", 0},
                         {"broadcast_to(%w, %twice)", "[2, 8, 4], f32", 0}}) {
    CAPTURE(row.op);
    const std::string type = row.type;
    const std::string dtype = type.substr(type.size() - 3);
    CHECK(lifted("  %same = shape [8, 4]\n  %twice = shape [2, 8, 4]\n  %v = " +
                     std::string(row.op) + "\n  %c1 = cast(%x) {dtype = " + dtype +
                     "}\n  %s = reduce_sum(%c1)\n  %y = add(%v, %s)\n  return %y\n",
                 "tensor<" + type + ">") == row.lifted);
  }
}

TEST_CASE("a long chain of slices does not become as many as its length squared") {
  constexpr int kSlices = 200, kWidth = 4096, kLast = kWidth - kSlices;
  auto slice = [](const std::string &of, int from, int to) {
    return "slice(" + of + ") {starts = [" + std::to_string(from) + "], ends = [" +
           std::to_string(to) + "], axes = [1]}\n";
  };
  std::string body = "%s0 = " + slice("%x", 1, kWidth) + "%a0 = " + slice("%s0", 0, kLast);
  for (int i = 1; i < kSlices; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    body += "%s" + n + " = " + slice("%s" + before, 1, kWidth - i) + "%t" + n + " = " +
            slice("%s" + n, 0, kLast) + "%r" + n + " = relu(%t" + n + ")\n%a" + n + " = add(%a" +
            before + ", %r" + n + ")\n";
  }
  body += "return %a" + std::to_string(kSlices - 1) + "\n";
  const std::string result = "tensor<[2, " + std::to_string(kLast) + "], f32>";
  const ir::Module module = parse(function("%x: tensor<[2, 4096], f32>", result, body));
  // Two slices a link before; one more of each in each of a few rounds.
  CHECK(count(run(module, {"FuseOps"}), ir::BindingKind::op) < 12 * kSlices);
}

TEST_CASE("a tensor that is returned, written, ended or renamed is no weight") {
  const std::string e = "  %t = transpose(%w)\n  %e = exp(%t)\n";
  CHECK(lifted(e + "  %y = add(%x, %e)\n  return %y\n") == 2);
  CHECK(lifted(e + "  return %e\n") == 1); // the transposition still is
  CHECK(lifted(e + "  launch @touch(%e)\n  %y = add(%x, %e)\n  return %y\n") == 1);
  CHECK(lifted(e + "  %y = add(%x, %e)\n  kill %e\n  return %y\n") == 1);
  CHECK(lifted(e + "  %a = alias %e\n  %y = add(%x, %a)\n  return %y\n") == 1);
  CHECK(lifted(e + "  host \"look\"(%e)\n  %y = add(%x, %e)\n  return %y\n") == 1);
}

TEST_CASE("what a branch reads of weights alone is computed once too, by what stands before it") {
  CHECK(lifted("  %t = transpose(%w)\n  %e = exp(%t)\n"
               "  %y = if %c using (%x, %e) -> tensor<[4, 8], f32> {\n    %s = add(%x, %e)\n"
               "    yield %s\n  } else {\n    %d = sub(%x, %e)\n    yield %d\n  }\n"
               "  return %y\n") == 2);
}

TEST_CASE(
    "a product is compiled with the variants that its bounds can reach, and launched by them") {
  struct Made {
    std::vector<std::string> entries, left_out;
  };
  auto product = [&](const std::string &rows, const std::string &dtype, const std::string &bound,
                     const std::string &columns = "64", const std::string &more = "") {
    const std::string attributes =
        bound.empty() ? "" : " attributes {upper_bounds = {" + rows + " = " + bound + "}}";
    const ir::Module module =
        run(parse("cugrt 1\nfunc @main(%x: tensor<[" + rows + ", 64], " + dtype +
                  ">, %w: tensor<[" + columns + ", 64], " + dtype + ">) -> (tensor<[" + rows +
                  ", " + columns + "], " + dtype + ">)" + attributes + " {\n  %y = matmul(%x, %w)" +
                  more + "\n  return %y\n}\n"),
            {"LegalizeOps"});
    REQUIRE(module.kernels.size() == 1);
    Made made;
    for (const ir::KernelVariant &variant : module.kernels[0].variants)
      made.entries.push_back(variant.entry);
    CHECK(!module.kernels[0].variants.back().predicate.valid());
    for (const std::string &option : module.kernels[0].options)
      if (option.starts_with("-DWITHOUT_"))
        made.left_out.push_back(option.substr(10));
    return made;
  };
  using Names = std::vector<std::string>;
  // One row; rows of 64 tiles of 64, which are as many as the device has multiprocessors, of 64
  // tiles of 128, and of more.
  CHECK(product("1", "f16", "").entries == Names{"matmul_gemv"});
  CHECK(product("1", "f16", "").left_out ==
        Names{"MMA", "MMA_SMALL", "MMA_LEAST", "TILED", "REGISTER_LARGE", "REGISTER"});
  CHECK(product("4096", "f16", "").entries == Names{"matmul_mma_least"});
  CHECK(product("8192", "f16", "").entries == Names{"matmul_mma_small"});
  CHECK(product("16384", "f16", "").entries == Names{"matmul_mma"});
  CHECK(product("n", "f16", "4096").entries == Names{"matmul_gemv", "matmul_mma_least"});
  CHECK(product("n", "f16", "").entries == Names{"matmul_gemv", "matmul_mma_large", "matmul_mma",
                                                 "matmul_mma_small", "matmul_mma_least"});
  CHECK(product("n", "f16", "").left_out == Names{"TILED", "REGISTER_LARGE", "REGISTER"});
  // Weights [out, in] are read by 128 rows where so many come, up to a known number or not.
  const auto tiles_of = [&](const std::string &rows, const char *bound, const char *columns) {
    Names tiles = product(rows, "f16", bound, columns, " {transpose_b = true}").entries;
    std::erase_if(tiles, [](const std::string &name) { return name.find("_mma") == name.npos; });
    return tiles;
  };
  CHECK(tiles_of("n", "128", "576") == Names{"matmul_mma_least"});
  CHECK(tiles_of("n", "512", "576") ==
        Names{"matmul_mma_tall", "matmul_mma_small", "matmul_mma_least"});
  CHECK(tiles_of("n", "512", "1088") ==
        Names{"matmul_mma", "matmul_mma_tall", "matmul_mma_small", "matmul_mma_least"});
  CHECK(tiles_of("512", "", "1088") == Names{"matmul_mma_small"});
  CHECK(product("n", "f32", "").left_out.empty());
  CHECK(product("8192", "f32", "").entries == Names{""}); // the declaration's
}

TEST_CASE("sums of tiles that are cut take at most twice what rows of both factors do") {
  struct Case {
    const char *dtype, *format;
    int64_t bytes, columns_of_32, columns_of_128;
  };
  // Sums of each number of rows fit, by the grid that it is launched with.
  const auto check = [](const Case &c, int64_t n, int64_t k, int64_t most) {
    const std::string wide = std::to_string(n), deep = std::to_string(k), rows = "tensor<[r, ",
                      dtype = std::string("], ") + c.dtype + ">";
    const bool blocks = c.format != std::string("f32");
    const ir::Module module = run(
        parse("cugrt 1\nfunc @main(%x: " + rows + deep + dtype + ", %w: tensor<[" + wide + ", " +
              deep + "], " + c.format + ">) -> (" + rows + wide + dtype +
              ") attributes {lower_bounds = {r = 1}, upper_bounds = {r = " + std::to_string(most) +
              "}} {\n" +
              (blocks ? "  %p = repack_blocks(%w)\n  %y = matmul_blocks(%x, %p) {repacked = true}"
                      : "  %y = matmul(%x, %w) {transpose_b = true}") +
              "\n  return %y\n}\n"),
        {"LegalizeOps"});
    int64_t sums = 0;
    for (const ir::Value &value : module.functions[0].values)
      if (value.name == "parts")
        sums = *module.exprs.as_constant(module.types[value.type].dims[0]);
    INFO(c.dtype << ", " << c.format << ", " << n << " x " << k << ", " << most
                 << " rows: " << sums);
    CHECK(sums >= 1);
    CHECK((sums == 1 || sums * 4 <= 2 * most * (n + k) * c.bytes));
    const std::string tall = blocks ? "matmul_repacked_tiles" : "matmul_tiles";
    bool has_tiles = false;
    for (const ir::Kernel &kernel : module.kernels)
      for (const ir::KernelVariant &variant : kernel.variants) {
        const bool is_small = variant.entry == tall + "_32";
        if (!is_small && variant.entry != tall)
          continue;
        has_tiles = true;
        int64_t places = 0;
        for (const std::string &option : kernel.options)
          if (const std::string name = is_small ? "-DPLACES_32=" : "-DPLACES=";
              option.starts_with(name))
            places = std::stoll(option.substr(name.size()));
        REQUIRE(places > 0);
        const int64_t height = is_small ? 32 : 128,
                      width = is_small ? c.columns_of_32 : c.columns_of_128;
        for (int64_t r = is_small ? 9 : 65; r <= (is_small ? std::min<int64_t>(most, 64) : most);
             r += 8) {
          std::vector<int64_t> symbols;
          for (const std::string &symbol : kernel.symbols)
            symbols.push_back(symbol == "rows" || symbol == "m" ? r
                              : symbol == "n"                   ? n
                              : symbol == "batch"               ? 1
                                                                : k);
          const int64_t tiles = (r + height - 1) / height * ((n + width - 1) / width),
                        rest = tiles % places,
                        parts = *module.exprs.evaluate(variant.grid[0], symbols) - (tiles - rest);
          CHECK(parts >= rest);
          CHECK((parts == rest || parts * height * width <= sums));
        }
      }
    CHECK(has_tiles);
  };
  for (const Case &c : {Case{"f32", "q4_1", 4, 64, 64}, Case{"f16", "q4_1", 2, 128, 128},
                        Case{"bf16", "q5_k", 2, 128, 64}, Case{"f32", "f32", 4, 64, 64}})
    for (const int64_t most : {16, 64, 200, 512}) {
      check(c, 1536, 512, most);
      check(c, 512, 1536, most);
      check(c, 14336, 4096, most);
    }
}

TEST_CASE("a preferred variant of matmul is taken by the products that can, and refused by none") {
  // A product of each dtype, with what follows it in one kernel or not.
  auto entries = [](std::string halves, std::string floats, bool fused, const char *wanted,
                    std::string last = "relu") -> Result<std::vector<std::string>> {
    const ir::Module module =
        parse("cugrt 1\nfunc @main(%x: tensor<[64, 64], f16>, %y: tensor<[64, 64], f32>) -> "
              "(tensor<[64, 64], f16>, tensor<[64, 64], f32>) {\n  %p = " +
              halves + "\n  %q = " + floats + "\n  %r = relu(%p)\n  %s = " + last +
              "(%q)\n  return %r, %s\n}\n");
    PassContext context;
    CHECK(context.set("codegen.matmul", wanted).ok());
    std::vector<const Pass *> passes;
    if (fused)
      passes = {find_pass("FuseOps"), find_pass("FuseKernels")};
    passes.push_back(find_pass("LegalizeOps"));
    CUGRT_ASSIGN(const ir::Module made, run_passes(module, passes, context));
    std::vector<std::string> names;
    for (const ir::Kernel &kernel : made.kernels)
      if (kernel.code.find("builtin:matmul.cu") != std::string::npos)
        for (const ir::KernelVariant &variant : kernel.variants)
          names.push_back(variant.entry.empty() ? kernel.entry : variant.entry);
    return names;
  };
  using Names = std::vector<std::string>;
  const std::string f16 = "matmul(%x, %x)", f32 = "matmul(%y, %y)";
  for (bool fused : {false, true}) {
    INFO("fused " << fused);
    CHECK(*entries(f16, f32, fused, "mma") == Names{"matmul_mma", "matmul_tiled"});
    CHECK(*entries(f16, f32, fused, "register") == Names{"matmul_register", "matmul_register"});
    CHECK(*entries(f16, "neg(%y)", fused, "mma_small") == Names{"matmul_mma_small"});
    CHECK(entries("neg(%x)", "neg(%y)", fused, "mma")->empty()); // nothing to prefer it for
    const Status refused = entries("neg(%x)", f32, fused, "mma").take_status();
    CHECK(refused.code() == Code::invalid_argument);
    CHECK(contains(refused.message(), "asks for mma, which multiplies f16 and bf16"));
  }
  // What can take it is a launch already when LegalizeOps finds the other.
  CHECK(*entries(f16, f32, true, "mma", "cumsum") == Names{"matmul_mma", "matmul_tiled"});
}
