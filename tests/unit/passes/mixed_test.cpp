// ToMixedPrecision: its options, and rules that hold for whole modules. What it makes of modules
// stands in the goldens mixed-precision*.txt.
#include "support/must.h"

#include "base/type/element.h"
#include "compiler/passes/pass.h"
#include "ir/text/text.h"

using namespace cugrt;
using namespace cugrt::passes;
using cugrt::test::must;

namespace {

constexpr const char *kNet = R"(cugrt 1
func @main(%x: tensor<[n, 4], f32>, %w: tensor<[4, 4], f32>, %scale: tensor<[4], f32>)
    -> (tensor<[n, 4], f32>, tensor<[n, 2], f32>) {
  %y = matmul(%x, %w)
  %act = gelu(%y)
  %norm = layer_norm(%act, %scale)
  %z = matmul(%norm, %w)
  %sum = add(%z, %norm)
  %left, %right = split(%z) {axis = 1, sections = [2, 2]}
  return %sum, %left
}
)";

using Settings = std::vector<std::pair<std::string, std::string>>;

std::string narrowed(const std::string &text, const Settings &settings) {
  PassContext context;
  for (const auto &[name, value] : settings)
    REQUIRE(context.set(name, value).ok());
  ir::Module module = must(ir::parse_and_verify(text, "text"));
  Result<ir::Module> result = find_pass("ToMixedPrecision")->run(module, context);
  return result.ok() ? ir::print(*result) : result.status().message();
}

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

} // namespace

TEST_CASE("a list of ops that names what is no op is an error that says so") {
  for (const char *option : {"mixed.allow", "mixed.follow", "mixed.deny"}) {
    PassContext context;
    CHECK(context.ops(option).empty());
    CHECK(context.set(option, "relu,matmul").ok());
    CHECK(context.ops(option) == std::vector<ir::Op>{ir::Op::relu, ir::Op::matmul});
    for (const char *wrong : {"relu,matmull", "relu,", ",relu", "relu, add", "relu;add"}) {
      const Status status = context.set(option, wrong);
      CHECK(status.code() == Code::not_found);
      CHECK(status.message().find(option) != std::string::npos);
    }
    CHECK(context.set(option, "matmull").message().find("'matmull'") != std::string::npos);
    CHECK(context.ops(option).size() == 2); // a refused value changes nothing
    CHECK(context.set(option, "").ok());
    CHECK(context.ops(option).empty());
  }
}

TEST_CASE("what mirrors as many elements as a symbol's bounds allow follows") {
  const std::string text = narrowed(R"(cugrt 1
func @main(%x: tensor<[b, 4, n], f32>, %w: tensor<[8, 4, 3], f32>, %v: tensor<[8, 8, 3], f32>)
    -> (tensor<[b, 8, n], f32>) attributes {lower_bounds = {n = 3}, upper_bounds = {n = 512}} {
  %a = conv1d(%x, %w) {padding = [1]}
  %p = pad(%a) {before = [0, 0, 2], after = [0, 0, 0], mode = "reflect"}
  %y = conv1d(%p, %v)
  return %y
}
)",
                                    {{"mixed.dtype", "f16"}});
  INFO(text);
  CHECK(count(text, "= cast(") == 4);
}

TEST_CASE("a stream that products or convolutions read is stored narrow, and others read that") {
  const std::string net = R"(cugrt 1
func @main(%x: tensor<[1, 8, 6, 6], f32>, %w: tensor<[8, 8, 1, 1], f32>, %s: tensor<[8, 1, 1], f32>)
    -> (tensor<[1, 8, 6, 6], f32>) {
  %a = conv2d(%x, %w)
  %n = mul(%a, %s)
  %b = conv2d(%n, %w)
  %sum = add(%b, %n)
  return %sum
}
)";
  const std::string text = narrowed(net, {{"mixed.dtype", "f16"}});
  INFO(text);
  CHECK(count(text, "%n_f32 = cast(%n_f16)") == 1);
  // A softmax would read what is rounded.
  CHECK(
      count(narrowed(replaced(net, "%sum = add(%b, %n)", "%e = softmax(%n)\n  %sum = add(%b, %e)"),
                     {{"mixed.dtype", "f16"}}),
            "cast(%n_f16)") == 0);
  // Where the number of each channel is a weight, it counts as a constant.
  const std::string scaled = narrowed(
      replaced(net, "f32>) {", "f32>) attributes {num_inputs = 1} {"), {{"mixed.dtype", "f16"}});
  INFO(scaled);
  CHECK(count(scaled, "%n = mul(%a, %s_f16)") == 1);
  CHECK(count(scaled, "%sum = add(%b, %n)") == 1);
  // Products read it through a reshape.
  const std::string rows = narrowed(R"(cugrt 1
func @main(%x: tensor<[1, 6, 8], f32>, %w: tensor<[8, 8], f32>, %s: tensor<[8], f32>)
    -> (tensor<[1, 6, 8], f32>) {
  %a = matmul(%x, %w)
  %d = shape [6, 8]
  %r = reshape(%a, %d)
  %n = mul(%r, %s)
  %e = shape [1, 6, 8]
  %v = reshape(%n, %e)
  %b = matmul(%v, %w)
  %sum = add(%b, %v)
  return %sum
}
)",
                                    {{"mixed.dtype", "f16"}});
  INFO(rows);
  CHECK(count(rows, "%v_f32 = cast(%v_f16)") == 1);
}

TEST_CASE(
    "sums over parts of channels are sums of slices, and the mean of one is of whole images") {
  const std::string text = narrowed(R"(cugrt 1
func @main(%x: tensor<[2, 8, 6, 6], f32>, %w: tensor<[16, 8, 1, 1], f32>,
    %g: tensor<[2, 2, 8, 1, 1], f32>) -> (tensor<[2, 8], f32>, tensor<[2, 1, 8, 6, 6], f32>) {
  %a = conv2d(%x, %w)
  %d = shape [2, 2, 8, 6, 6]
  %v = reshape(%a, %d)
  %s = reduce_sum(%v) {axes = [-4]}
  %m = reduce_mean(%s) {axes = [-1, 2]}
  %p = mul(%v, %g)
  %y = reduce_sum(%p) {axes = [1], keep_dims = true}
  return %m, %y
}
)",
                                    {{"mixed.dtype", "f16"}});
  INFO(text);
  CHECK(count(text, "reduce_sum(") == 0);
  CHECK(count(text, "= slice(") == 6); // two of the means, of the image and of %g
  CHECK(count(text, "axes = [2, 3], keep_dims = true") == 1);
}

TEST_CASE("small networks in f16 have at most a launch more than in f32") {
  struct {
    const char *params, *result, *body;
  } constexpr kNets[] = {
      // Odd channels: what a gate of pixels is made by, and a stream that grows.
      {"%w: tensor<[17, 16, 1, 1], f32>, %v: tensor<[32, 17, 1, 1], f32>, "
       "%u: tensor<[16, 33, 1, 1], f32>, %b: tensor<[17], f32>",
       "2, 32, 8, 8",
       "%m = reduce_mean(%x) {axes = [2, 3], keep_dims = true}\n  %s = conv2d(%m, %w, %b)\n"
       "  %r = relu(%s)\n  %g = conv2d(%r, %v)\n  %q = sigmoid(%g)\n  %a = conv2d(%x, %w)\n"
       "  %e = conv2d(%a, %v)\n  %f = mul(%e, %q)\n  %c = concat(%a, %x) {axis = 1}\n"
       "  %h = conv2d(%c, %u)\n  %k = slice(%c) {starts = [0], ends = [16], axes = [1]}\n"
       "  %n = add(%h, %k)\n  %o = conv2d(%n, %w)\n  %p = conv2d(%o, %v)\n  %y = add(%p, %f)"},
      // Transposed convolutions, with and without phases of columns, and their activations.
      {"%w: tensor<[16, 32, 4, 4], f32>, %v: tensor<[32, 16, 1, 8], f32>, "
       "%u: tensor<[16, 3, 3, 3], f32>, %b: tensor<[16], f32>",
       "2, 3, 18, 64",
       "%a = conv_transpose(%x, %w) {strides = [2, 2], padding = [1, 1]}\n  %c = relu(%a)\n"
       "  %d = conv_transpose(%c, %v, %b) {strides = [1, 4], padding = [0, 1]}\n"
       "  %e = tanh(%d)\n  %f = conv_transpose(%e, %u) {padding = [0, 2, 0, 2]}\n"
       "  %y = sigmoid(%f)"},
      // Weights of places that products are added to: they are no images.
      {"%w: tensor<[16, 16, 1, 1], f32>, %p: tensor<[1, 8, 8, 16], f32>", "2, 16, 8, 8",
       "%c = conv2d(%x, %w)\n  %t = transpose(%p) {axes = [0, 3, 1, 2]}\n  %u = softmax(%t)\n"
       "  %a = matmul(%c, %c)\n  %s = softmax(%a)\n  %b = add(%s, %u)\n"
       "  %m = reduce_sum(%b) {axes = [3], keep_dims = true}\n  %d = div(%b, %m)\n"
       "  %e = matmul(%d, %c)\n  %f = softmax(%e)\n  %g = add(%f, %u)\n"
       "  %k = reduce_sum(%g) {axes = [3], keep_dims = true}\n  %y = div(%g, %k)"},
  };
  for (const auto &net : kNets) {
    std::vector<ptrdiff_t> launches;
    for (const char *dtype : {"none", "f16"}) {
      PassContext context;
      REQUIRE(context.set("mixed.dtype", dtype).ok());
      const ir::Module module = must(ir::parse_and_verify(
          std::string("cugrt 1\nfunc @main(%x: tensor<[2, 16, 8, 8], f32>, ") + net.params +
              ") -> (tensor<[" + net.result + "], f32>) attributes {num_inputs = 1} {\n  " +
              net.body + "\n  return %y\n}\n",
          "text"));
      const ir::Module lowered = must(run_passes(module, default_pipeline(), context));
      const ir::Function &main = lowered.functions[0];
      launches.push_back(
          std::ranges::count(main.body().bindings, ir::BindingKind::launch, &ir::Binding::kind));
      if (launches.size() > 1)
        UNSCOPED_INFO(ir::print(lowered));
    }
    CHECK(launches[1] <= launches[0] + 1);
  }
}

TEST_CASE("what is made of constants alone is computed in f32, and counts as a constant") {
  const std::string text = narrowed(R"(cugrt 1
constant @v : tensor<[8], f32> = [1, 2, 3, 4, 5, 6, 7, 70000]
constant @e : tensor<[], f32> = [1e-9]

func @main(%x: tensor<[2, 8], f32>, %w: tensor<[8, 8], f32>) -> (tensor<[2, 8], f32>) {
  %a = matmul(%x, %w)
  %v = constant @v
  %e = constant @e
  %s = add(%v, %e)
  %r = rsqrt(%s)
  %d = shape [1, 8]
  %q = reshape(%r, %d)
  %y = mul(%a, %q)
  %z = matmul(%y, %w)
  return %z
}
)",
                                    {{"mixed.dtype", "f16"}});
  INFO(text);
  CHECK(text.find("%s = add(%v, %e)") != std::string::npos);
  CHECK(count(text, "= cast(") == 4); // of %x, %w, what is made of constants, and the result
}

TEST_CASE("a dtype that mixed precision does not know is an error that lists those that it does") {
  const Status status = PassContext().set("mixed.dtype", "f64");
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("none or f16 or bf16") != std::string::npos);
}

TEST_CASE("an op that two lists name is an error, also where the pass is off") {
  for (const char *dtype : {"none", "f16"}) {
    const std::string message = narrowed(
        kNet, {{"mixed.dtype", dtype}, {"mixed.follow", "exp,add"}, {"mixed.deny", "add"}});
    CHECK(message == "op add is in mixed.follow and in mixed.deny; leave it in one of them");
  }
  CHECK(count(narrowed(kNet, {{"mixed.dtype", "f16"}, {"mixed.deny", "add,add"}}), "f16") > 0);
}

TEST_CASE("mixed precision is off unless a dtype is chosen") {
  const std::string same = ir::print(*ir::parse_and_verify(kNet, "net"));
  CHECK(narrowed(kNet, {}) == same);
  CHECK(narrowed(kNet, {{"mixed.allow", "layer_norm"}}) == same);
  // Nothing to narrow: the same text.
  CHECK(narrowed(kNet, {{"mixed.dtype", "f16"}, {"mixed.deny", "matmul"}}) == same);
}

TEST_CASE("each value is cast once to a dtype, however many ops need it so") {
  const std::string text = narrowed(kNet, {{"mixed.dtype", "f16"}});
  for (const char *name :
       {"x_f16", "w_f16", "act_f32", "norm_f16", "norm_f32", "z_f32", "left_f32"})
    CHECK(count(text, "%" + std::string(name) + " = cast(") == 1);
  CHECK(count(text, " = cast(") == 7);
}

TEST_CASE("what bf16 gives is what f16 gives with the dtype renamed") {
  CHECK(replaced(narrowed(kNet, {{"mixed.dtype", "f16"}}), "f16", "bf16") ==
        narrowed(kNet, {{"mixed.dtype", "bf16"}}));
}

TEST_CASE("narrowing a module that is narrowed already changes nothing") {
  for (const char *dtype : {"f16", "bf16"}) {
    const std::string once = narrowed(kNet, {{"mixed.dtype", dtype}});
    CHECK(narrowed(once, {{"mixed.dtype", dtype}}) == once);
  }
}

TEST_CASE("what moves elements to nobody stays as it is") {
  const std::string text = narrowed(R"(cugrt 1
func @main(%x: tensor<[4, 6], f32>) -> (tensor<[4, 6], f32>) {
  %e = exp(%x)
  %turned = transpose(%e) {axes = [1, 0]}
  %again = transpose(%turned) {axes = [1, 0]}
  return %x
}
)",
                                    {{"mixed.dtype", "f16"}});
  CAPTURE(text);
  CHECK(count(text, " = cast(") == 0);
}

TEST_CASE("what moves elements to readers that take them narrow is narrow, and cast before") {
  const auto text = [](const std::string &reader) {
    return narrowed(R"(cugrt 1
func @main(%x: tensor<[4, 6], f32>, %w: tensor<[6, 8], f32>, %b: tensor<[8], f32>)
    -> (tensor<[2, 4, 4], f32>) {
  %h = matmul(%x, %w)
  %sum = add(%h, %b)
  %dims = shape [4, 2, 4]
  %apart = reshape(%sum, %dims)
  %turned = transpose(%apart) {axes = [1, 0, 2]}
  %left, %right = split(%turned) {axis = 0, sections = [1, 1]}
  %scores = matmul(%left, %right) {transpose_b = true}
)" + reader + R"(
  return %y
}
)",
                    {{"mixed.dtype", "f16"}});
  };
  const std::string moved = text("  %y = matmul(%scores, %turned)");
  CAPTURE(moved);
  CHECK(count(moved, "%sum_f16 = cast(%sum)") == 1);
  CHECK(count(moved, "%apart = reshape(%sum_f16") == 1);
  CHECK(count(moved, " = cast(") == 5); // of %x, %w, %h, %sum and the result
  // The largest element is one of those that were rounded.
  const std::string selected =
      text("  %m = reduce_max(%turned) {axes = [0], keep_dims = true}\n  %t = matmul(%scores, %m)\n"
           "  %y = matmul(%t, %turned)");
  CAPTURE(selected);
  CHECK(count(selected, "%apart = reshape(%sum_f16") == 1);
  CHECK(count(selected, " = cast(") == 5);
  // Of what is only reshaped others may read more.
  const std::string beside =
      text("  %s = exp(%sum)\n  %t = reshape(%s, %dims)\n  %u = transpose(%t)"
           " {axes = [1, 0, 2]}\n  %y = matmul(%scores, %u)");
  CAPTURE(beside);
  CHECK(count(beside, "%apart = reshape(%sum_f16") == 1);
  CHECK(count(beside, "exp(%sum)") == 1);
  // What one reader takes in f32 stays so, with what it is made of.
  for (const char *reader : {"  %s = softmax(%turned)\n  %y = matmul(%scores, %s)",
                             "  %s = exp(%apart)\n  %u = transpose(%s) {axes = [1, 0, 2]}\n"
                             "  %y = matmul(%scores, %u)"}) {
    const std::string stays = text(reader);
    CAPTURE(stays);
    CHECK(count(stays, "%apart = reshape(%sum, ") == 1);
  }
}

TEST_CASE(
    "what a norm gives is stored narrow where products and sums read it, not where others do") {
  const auto text = [](const std::string &behind) {
    return narrowed(R"(cugrt 1
func @main(%x: tensor<[n, 4], f32>, %w: tensor<[4, 4], f32>, %scale: tensor<[4], f32>)
    -> (tensor<[n, 4], f32>) {
  %norm = layer_norm(%x, %scale)
  %y = matmul(%norm, %w)
  )" + behind + R"(
  return %z
}
)",
                    {{"mixed.dtype", "f16"}});
  };
  const std::string sum = text("%z = add(%norm, %y)");
  INFO(sum);
  CHECK(count(sum, "%norm_f16 = cast(%norm) {dtype = f16}") == 1);
  CHECK(count(sum, "%norm_f32 = cast(%norm_f16) {dtype = f32}") == 1);
  CHECK(count(sum, "add(%norm_f32, %y_f32)") == 1);
  const std::string whole = text("%u = softmax(%norm)\n  %v = add(%norm, %u)\n  %z = add(%v, %y)");
  INFO(whole);
  CHECK(count(whole, "softmax(%norm)") == 1);
  CHECK(count(whole, "add(%norm, %u)") == 1);
}

TEST_CASE("a resized image is narrow, its scales are f32, whether constants or parameters") {
  for (const std::string scales : {"%s", "%given"}) {
    const std::string text = narrowed(R"(cugrt 1
constant @c : tensor<[2], f32> = [0.5, 0.5]
func @main(%x: tensor<[1, 4, 4, 4], f32>, %w: tensor<[4, 4, 1, 1], f32>, %given: tensor<[2], f32>)
    -> (tensor<[1, 4, 2, 2], f32>) {
  %s = constant @c
  %size = shape [1, 4, 2, 2]
  %y = conv2d(%x, %w)
  %r = resize(%y, %size, )" + scales + R"() {mode = "linear", axes = [2, 3]}
  %z = conv2d(%r, %w)
  return %z
}
)",
                                      {{"mixed.dtype", "f16"}});
    INFO(text);
    CHECK(count(text, "resize(%y, %size, " + scales + ")") == 1);
    CHECK(count(text, "conv2d(%r, ") == 1);
    CHECK(count(text, " = cast(") == 3); // of x, of w, of the result
  }
}

TEST_CASE("sampled images are narrow, places stay f32") {
  const std::string text = narrowed(R"(cugrt 1
func @main(%x: tensor<[1, 4, 4, 4], f32>, %w: tensor<[4, 4, 1, 1], f32>, %g: tensor<[1, 2, 2, 2], f32>)
    -> (tensor<[1, 4, 2, 2], f32>) {
  %h = conv2d(%x, %w)
  %s = grid_sample(%h, %g)
  %y = conv2d(%s, %w)
  return %y
}
)",
                                    {{"mixed.dtype", "f16"}});
  CAPTURE(text);
  CHECK(count(text, "grid_sample(%h, %g)") == 1);
  CHECK(count(text, " = cast(") == 3); // of %x, %w and the result
}

TEST_CASE("an op without f32 operands stays as it is, whatever the lists say") {
  // No operand is an f32 tensor.
  const std::string text = narrowed(R"(cugrt 1
func @main(%x: tensor<[4, 8], f64>, %ids: tensor<[3], i32>) -> (tensor<[4, 8], f64>, tensor<[3, 5], f32>) {
  %y = tanh(%x)
  %hot = one_hot(%ids) {depth = 5}
  return %y, %hot
}
)",
                                    {{"mixed.dtype", "f16"}, {"mixed.allow", "tanh,one_hot"}});
  CHECK(count(text, "f16") == 0);
  // Nor is there any.
  const std::string alone = narrowed(R"(cugrt 1
func @main() {
  %r = range() {length = 4}
  return
}
)",
                                     {{"mixed.dtype", "f16"}});
  CHECK(count(alone, "range() {length = 4}") == 1);
  CHECK(count(alone, "f16") == 0);
}

TEST_CASE("a number of a constant that would become infinite becomes the largest finite one") {
  // Of f16 65504, and 65520 is the first that rounds up; of bf16 (2 - 2^-7) 2^127. The largest f32
  // is what masks are often made of.
  const std::string text = R"(cugrt 1
constant @mask : tensor<[8], f32> = [-1e9, 1e9, 65519.0, 65520.0, -3.4028235e38, inf, -inf, 1.0]
func @main(%x: tensor<[4, 8], f32>, %w: tensor<[8, 8], f32>) -> (tensor<[4, 9], f32>) {
  %mask = constant @mask
  %h = matmul(%x, %w)
  %s = add(%h, %mask)
  %y = pad(%s) {before = [0, 0], after = [0, 1], value = VALUE}
  return %y
}
)";
  auto made = [&](const char *dtype, const char *pad) {
    PassContext context;
    REQUIRE(context.set("mixed.dtype", dtype).ok());
    const auto module = must(ir::parse_and_verify(replaced(text, "VALUE", pad), "text"));
    ir::Module result = must(find_pass("ToMixedPrecision")->run(module, context));
    REQUIRE(result.constants.size() == 1);
    std::vector<double> values;
    for (size_t i = 0; i < 8; ++i)
      values.push_back(
          ir::float_at(*ir::dtype_from_name(dtype), &result.constants[0].bytes[2 * i]));
    return std::pair(values, ir::print(result));
  };
  const double above = std::numeric_limits<double>::infinity(), most = 0x1.fep127;
  const auto [f16, padded] = made("f16", "-1000000000");
  CHECK(f16 == std::vector<double>{-65504, 65504, 65504, 65504, -65504, above, -above, 1});
  CHECK(count(padded, "value = -65504.0") == 1);
  const auto [bf16, fine] = made("bf16", "-1000000000");
  CHECK(bf16 == std::vector<double>{-998244352, 998244352, 65536, 65536, -most, above, -above, 1});
  CHECK(count(fine, "value = -1000000000}") == 1);
  CHECK(count(made("f16", "-inf").second, "value = -inf") == 1);
  CHECK(count(made("f16", "65504").second, "value = 65504}") == 1);
}
