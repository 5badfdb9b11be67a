// PadToBuckets: what padding can be seen to break is refused, and nothing else.
#include "support/catch.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"

using namespace cugrt;
using namespace cugrt::passes;

namespace {

/// PadToBuckets on a function of these bindings, whose %x is [n, 4], %t [4, n], %z [4, n, 2, 8], %h
/// [m, n, 4], %mask, a bool, [n], %l [m, 4, n] and %i [m, 2, n, 8]; n has buckets.
Status pad(const std::string &body) {
  const std::string text = R"(cugrt 1

func @main(%x: tensor<[n, 4], f32>, %t: tensor<[4, n], f32>, %z: tensor<[4, n, 2, 8], f32>,
           %h: tensor<[m, n, 4], f32>, %mask: tensor<[n], bool>, %zc: tensor<[4, 16, 2, 8], f32>,
           %lengths: tensor<[4], i32>, %l: tensor<[m, 4, n], f32>, %i: tensor<[m, 2, n, 8], f32>,
           %w: tensor<[4, 6], f32>, %b: tensor<[6], f32>, %k1: tensor<[4, 4, 1], f32>,
           %k3: tensor<[4, 4, 3], f32>, %weights: tensor<[2, 2, 8], f32>,
           %b4: tensor<[4], f32>, %b1: tensor<[1], f32>)
    attributes {num_inputs = 9, buckets = {n = [8, 16]}, lower_bounds = {n = 1}, upper_bounds = {m = 4}} { %rows = shape [m*n, 4]  %back = shape [m, n, 6]  %many = shape [32, 4]
)" + body + R"(  return
}

constant @low : tensor<[], f32> = [-inf]
constant @nought : tensor<[], f32> = [0.0]

private func @inside(%q: tensor<[k, 4], f32>) -> (tensor<[k, 4], f32>) {
  %s = softmax(%q) {axis = 0}
  return %s
}

private func @filled(%q: out tensor<[k, 4], f32>) {
  launch @fill(%q, k)
  return
}

private func @alike(%a: tensor<[k, 4], f32>, %b: tensor<[k, 4], f32>) -> (tensor<[k, 4], f32>) {
  %s = add(%a, %b)
  return %s
}

kernel @fill {
  inline "extern \"C\" __global__ void fill(float *x, long long n) {}"
  entry "fill"
  params (x: out f32, n: symbol i64)
  launch { grid (1, 1, 1) block (32, 1, 1) }
}
)";
  Diagnostics diagnostics;
  const ir::Module module = ir::parse(text, diagnostics);
  INFO(diagnostics.render("text", text));
  REQUIRE(diagnostics.empty());
  return find_pass("PadToBuckets")->run(module, PassContext()).take_status();
}

} // namespace

TEST_CASE("an op that would take added elements for given ones is refused at its place, by name, "
          "with the symbol") {
  for (const char *body : {
           "  %y = softmax(%x) {axis = 0}\n",
           "  %s = shape [2*n, 4]\n  %y = resize(%x, %s) {axes = [0]}\n",
           "  %e = exp(%l)\n  %y = conv_transpose(%e, %k3)\n",
           "  %g = transpose(%z) {axes = [1, 0, 2, 3]}\n  %y, %e, %c = lstm(%g, %weights)\n",
           "  %f = cast(%mask) {dtype = f32}  %p = cast(%mask) {dtype = i64}\n"
           "  %y = scatter_elements(%f, %p, %f)\n",
           "  %f = cast(%t) {dtype = i8}  %g = cast(%x) {dtype = i8}  %p = range() {length = 1, "
           "dtype = i8}\n"
           "  %y = matmul_integer(%f, %g, %p)\n",
           "  %y = log_softmax(%t) {axis = -1}\n",
           "  %y = reduce_mean(%x) {axes = [0]}\n",
           "  %y = reduce_max(%x)\n",
           "  %y = reduce_min(%t) {axes = [-1]}\n",
           "  %y = reduce_prod(%h) {axes = [1]}\n",
           "  %y = argmax(%x) {axis = 0}\n",
           "  %y = argmin(%x) {axis = 0}\n",
           "  %y, %e = top_k(%x) {k = 0, axis = 0}\n",
           "  %y = layer_norm(%t)\n",
           "  %y = rms_norm(%t)\n",
           "  %y = concat(%x, %x) {axis = 0}\n",
           "  %y = slice(%x) {starts = [-1], ends = [9223372036854775807], axes = [0]}\n",
           "  %y = reshape(%x) {shape = [4, -1]}\n",
           "  %y = attention(%z, %z, %z)\n",
           "  %y = attention(%zc, %z, %z) {causal = true}\n",
           "  %c = alloc : tensor<[4, 16, 2, 8], f32>\n"
           "  %y = cache_write(%c, %z, none, %lengths)\n",
           "  %y = attention(%z, %z, %z, %lengths) {causal = true}\n",
           "  %e = sigmoid(%l)\n  %y = conv1d(%e, %k3) {padding = [1]}\n",
           "  %y = max_pool2d(%i) {kernel = [2, 1]}\n",
           "  %y = avg_pool2d(%i) {kernel = [3, 1], padding = [1, 0], count_include_pad = false}\n",
           // Positions, negative or beyond the end, would be the bucket's, and so would lengths.
           "  %y = attention(%zc, %z, %z, %lengths)\n",
           "  %y = attention(%z, %z, %z, %lengths)\n",
           "  %y = attention(%zc, %z, %z, %lengths) {causal = true}\n",
           "  %p = range() {length = 2, dtype = i32}\n  %y = gather(%x, %p)\n",
           "  %p = range() {length = 2, dtype = i64}\n  %y = embedding(%x, %p)\n",
           "  %p = cast(%w) {dtype = i64}\n  %y = gather_elements(%t, %p) {axis = 1}\n",
           "  %p = cast(%k1) {dtype = i64}\n  %y = gather_nd(%x, %p)\n",
           "  %p = cast(%weights) {dtype = i64}  %q = reshape(%p) {shape = [32, 1]}  %u = "
           "broadcast_to(%b4, %many)\n"
           "  %y = scatter_nd(%x, %q, %u)\n",
           "  %p = cast(%b4) {dtype = i64}  %q = reshape(%p) {shape = [1, 4]}  %u = reshape(%b4) "
           "{shape = [1, 4]}\n"
           "  %y = scatter_elements(%x, %q, %u)\n",
           // What windows and sums leave behind what was brought is no zero.
           "  %e = conv1d(%l, %k3) {padding = [1]}\n  %y = conv1d(%e, %k3)\n",
           "  %e = cumsum(%x) {axis = 0}\n  %y = reduce_sum(%e) {axes = [0]}\n",
           // Zero times infinity is no zero.
           "  %e = log(%x)  %r = mul(%e, %x)\n  %y = reduce_sum(%r) {axes = [0]}\n",
           // Zeros along one dimension are none along another one of the same symbol.
           "  %e = slice(%x) {starts = [0], ends = [1], axes = [1]}  %c = reshape(%mask) {shape = "
           "[1, -1]}  %f = cast(%c) {dtype = f32}  %g = exp(%f)  %o = mul(%e, %g)\n"
           "  %y = reduce_sum(%o) {axes = [1]}\n",
           "  %y = pad(%x) {before = [0, 0], after = [1, 0], value = 2.0}\n",
           "  %y = pad(%x) {before = [0, 0], after = [1, 0], mode = \"edge\"}\n",
           // A joined dimension has what is added between its elements.
           "  %e = reshape(%h, %rows)\n  %y = slice(%e) {starts = [0], ends = [5]}\n",
           // The least of 0s, as a mask that hides by -inf leaves it.
           "  %n = constant @low  %e = where(%mask, %t, %n)\n  %y = reduce_min(%e) {axes = [1]}\n",
           "  %n = constant @nought  %e = where(%mask, %t, %n)\n  %y = softmax(%e) {axis = 1}\n",
           "  %e = where(%mask, %t, %t)\n  %y = softmax(%e) {axis = 1}\n",
           // A mask does not help where queries are counted from the end.
           "  %y = attention(%z, %zc, %zc, none, none) {causal = true}\n",
           // What a kernel wrote is zero behind, and says nothing of the rest.
           "  %e = alloc : tensor<[n, 4], f32>  launch @fill(%e, n)  %j = concat(%x, %x, %e) {axis "
           "= "
           "1}\n  %y = softmax(%j) {axis = 0}\n",
           // Sums of what is not zero: 1 in %e, a bias in %e.
           "  %e = exp(%x)\n  %y = reduce_sum(%e) {axes = [0]}\n",
           "  %e = matmul(%x, %w, %b)\n  %y = reduce_sum(%e) {axes = [0]}\n",
           "  %e = exp(%t)\n  %y = matmul(%e, %x)\n",
           "  %e = sigmoid(%x)\n  %y = matmul(%t, %e)\n",
           "  %e = exp(%x)\n  %y = cumsum(%e) {axis = 0, reverse = true}\n",
           "  %y = cumprod(%x) {axis = 0, reverse = true}\n",
           "  %e = cumprod(%x) {axis = 1, exclusive = true}\n  %y = reduce_sum(%e) {axes = [0]}\n",
           // An additive mask has zeros where it is padded, and masks nothing there.
           "  %e = add(%t, %t)\n  %y = softmax(%e) {axis = 1}\n",
           "  %e = match %x : tensor<[j, 4], f32>\n  %y = softmax(%e) {axis = 0}\n",
       }) {
    INFO(body);
    const Status status = pad(body);
    INFO(status.to_string());
    CHECK(status.code() == Code::unsupported);
    const std::string text = body;
    const size_t at = text.rfind("%y"), name = text.find("= ", at) + 2;
    const std::string op = text.substr(name, text.find('(', name) - name);
    const bool second = text.find('\n') + 1 != text.size();
    CHECK(status.location() == (second ? "11:3" : "10:3"));
    CHECK(status.message().find("in @main: " + op + " %y ") != std::string::npos);
    CHECK(status.message().find("buckets of symbol n,") != std::string::npos);
    CHECK(status.message().find("take the buckets away") != std::string::npos);
  }
  const Status status = pad("  %y = call @inside(%x)\n");
  CHECK(status.message().find("in @inside: softmax %s runs along") != std::string::npos);
  CHECK(status.message().find("buckets of symbol n,") != std::string::npos);
}

TEST_CASE("what only carries the padded dimension, or adds zeros to sums, is legal") {
  for (const char *body : {
           "  %y = softmax(%x) {axis = -1}\n",
           "  %y = softmax(%h) {axis = 0}\n",
           "  %y = layer_norm(%x)\n",
           "  %y = reduce_mean(%h) {axes = [0, 2]}\n",
           "  %y = argmax(%x) {axis = 1}\n",
           "  %y = concat(%x, %x) {axis = 1}\n",
           "  %y = concat(%w, %e) {axis = 0}\n",
           "  %y = slice(%x) {starts = [-1], ends = [4], axes = [1]}\n",
           "  %y = slice(%x) {starts = [0], ends = [1], axes = [0]}\n",
           "  %y = matmul(%x, %w, %b)\n  %p = softmax(%y) {axis = -1}\n",
           "  %y = reshape(%x) {shape = [-1, 2, 2]}\n",
           "  %y = reshape(%h, %rows)\n  %p = matmul(%y, %w)\n  %q = reshape(%p, %back)\n",
           "  %y = attention(%z, %zc, %zc)\n",
           "  %y = attention(%z, %z, %z) {causal = true}\n",
           "  %n = constant @low  %o = constant @nought  %e = where(%mask, %o, %n)\n"
           "  %y = attention(%z, %z, %z, %lengths, %e)\n",
           "  %y = cumsum(%x) {axis = 0}\n",
           "  %y = cumprod(%x) {axis = 0}\n",
           "  %e = cumprod(%x) {axis = 0}\n  %y = reduce_sum(%e) {axes = [0]}\n",
           "  %e = sigmoid(%l)\n  %y = conv1d(%e, %k1)\n",
           "  %y = max_pool2d(%i) {kernel = [1, 2]}\n",
           "  %s = shape [n, 9]\n  %y = resize(%x, %s) {axes = [1]}\n",
           "  %y, %e, %c = lstm(%z, %weights)\n",
           // Zeros.
           "  %y = conv_transpose(%l, %k3)\n",
           "  %f = cast(%t) {dtype = i8}\n  %g = cast(%x) {dtype = i8}\n"
           "  %y = matmul_integer(%f, %g)\n",
           "  %y = conv1d(%l, %k3) {padding = [1]}\n",
           "  %r = relu(%x)\n  %y = reduce_sum(%r) {axes = [0]}\n",
           "  %e = matmul(%x, %w)\n  %r = tanh(%e)\n  %y = reduce_sum(%r) {axes = [0]}\n",
           "  %e = exp(%x)\n  %r = mul(%e, %x)\n  %y = reduce_sum(%r) {axes = [0]}\n",
           "  %y = matmul(%t, %x)\n",
           "  %y = cumsum(%x) {axis = 0, reverse = true}\n",
           // The author's choice, and what a kernel wrote.
           "  %n = constant @low\n  %e = where(%mask, %t, %n)\n  %y = softmax(%e) {axis = -1}\n",
           "  %n = constant @low\n  %e = where(%mask, %t, %n)\n  %y, %p = top_k(%e) {k = 0}\n",
           "  %s = shape [n]\n  %p = range(%s)\n  %c = less(%p, %b1)\n  %n = constant @low\n"
           "  %e = where(%c, %t, %n)\n  %y = softmax(%e) {axis = -1}\n",
           "  %e = alloc : tensor<[n, 4], f32>\n  launch @fill(%e, n)\n"
           "  %y = reduce_sum(%e) {axes = [0]}\n",
           "  %y = avg_pool2d(%i) {kernel = [3, 1], padding = [1, 0]}\n",
           "  %y = pad(%x) {before = [1, 0], after = [1, 0]}\n  %z1 = reduce_sum(%y)\n",
           "  %p = range() {length = 2, dtype = i32}\n  %y = gather(%x, %p) {axis = 1}\n",
           "  %y = call @alike(%x, %x)\n",
       }) {
    std::string text = body;
    if (text.find("(%w, %e)") != std::string::npos)
      text = "  %e = matmul(%x, %w)\n" + text;
    INFO(text);
    const Status status = pad(text);
    INFO(status.to_string());
    CHECK(status.ok());
  }
}

TEST_CASE(
    "what would be the bucket's is refused by name: conditions, sizes that are compared, host "
    "numbers, kernels out of reach") {
  const std::pair<const char *, const char *> kRefused[] = {
      {"  %y = if n > 3 using (%x) -> tensor<[n, 4], f32> {\n    yield %x\n  } else {\n    yield "
       "%x\n  }\n",
       "the condition depends on symbol n, which has buckets"},
      {"  %k = literal 2*n\n  %y = if %k using (%x) -> tensor<[n, 4], f32> {\n    yield %x\n  } "
       "else "
       "{\n    yield %x\n  }\n",
       "the condition depends on symbol n, which has buckets"},
      {"  %y = while (%c = %x) {\n    yield n > 3\n  } do {\n    yield %c\n  }\n",
       "the condition depends on symbol n, which has buckets"},
      {"  %y = match %x : tensor<[8, 4], f32>\n", "match would compare the bucket of symbol n"},
      {"  %e = match %b4 : tensor<[q], f32>\n  %y = match %t : tensor<[4, q], f32>\n",
       "match would compare the bucket of symbol n"},
      {"  %u = concat(%w, %x2) {axis = 0}\n  %v = slice(%u) {starts = [0], ends = [4], axes = "
       "[1]}\n"
       "  %y = call @alike(%x, %v)\n",
       "a call of @alike would compare the bucket of symbol n"},
      {"  %e = alloc : tensor<[n, 4], f32>\n  call @filled(%e)\n",
       "kernel @fill depends on symbol n, which has buckets, and stands in a function that is "
       "called"},
      {"  %e = alloc : tensor<[2*n, 4], f32>\n  launch @fill(%e, n)\n",
       "kernel @fill is given %e, in which symbol n, which has buckets, does not stand alone"},
      {"  %e = reshape(%h, %rows)\n  launch @fill(%e, n)\n",
       "%e, what kernel @fill is given, has what is added for the buckets of symbol n between"},
      {"  %e = view %x, 0 : tensor<[n], f32>\n", "padding cannot be followed here"},
  };
  for (const auto &[body, what] : kRefused) {
    std::string text = body;
    if (text.find("%x2") != std::string::npos)
      text = "  %x2 = matmul(%x, %w)\n" + text;
    INFO(text);
    const Status status = pad(text);
    INFO(status.to_string());
    CHECK(status.code() == Code::unsupported);
    CHECK(status.message().find(what) != std::string::npos);
  }
}
