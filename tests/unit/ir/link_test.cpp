// Linked modules: what becomes one, what is named how, and what does not join.
#include "support/catch.h"

#include "ir/module/link.h"
#include "ir/text/text.h"

using namespace cugrt;
using namespace cugrt::ir;

namespace {

template <class T> std::string message(const Result<T> &result) {
  return result.ok() ? "" : std::string(result.status().message());
}

Module parsed(std::string_view text) {
  auto module = parse_and_verify(text, "part");
  INFO(message(module));
  REQUIRE(module.ok());
  return std::move(*module);
}

std::string text_of(Result<Linked> linked) {
  INFO(message(linked));
  REQUIRE(linked.ok());
  const std::string text = print(linked->module);
  const auto verified = parse_and_verify(text, "linked");
  INFO(text << message(verified));
  REQUIRE(verified.ok());
  CHECK(print(*verified) == text);
  return text;
}

void refuses(std::span<const LinkPart> parts, std::vector<LinkJoin> joins,
             std::string_view sentence) {
  const auto linked = link_modules(parts, joins);
  REQUIRE_FALSE(linked.ok());
  CHECK(linked.status().code() == Code::invalid_argument);
  CHECK(linked.status().message() == sentence);
}

/// A function of one op over [SYMBOL, width], within bounds.
Module one_op(const std::string &op, const std::string &dims, const std::string &attributes) {
  return parsed("cugrt 1\nfunc @main(%x: tensor<[" + dims + "], f32>) -> (tensor<[" + dims +
                "], f32>) attributes {" + attributes + "} {\n  %y = " + op +
                "(%x)\n  return %y\n}\n");
}

} // namespace

TEST_CASE("a joined input takes the result, and symbols of joined dimensions are one within the "
          "bounds of both") {
  const Module a = parsed(R"(cugrt 1
func @main(%x: tensor<[n, 16], f32>) -> (tensor<[n, 16], f32>, tensor<[n], f32>)
    attributes {lower_bounds = {n = 1}, upper_bounds = {n = 32}} {
  %y = tanh(%x)
  %z = reduce_sum(%y) {axes = [1]}
  return %y, %z
}
)"),
               b = parsed(R"(cugrt 1
func @main(%x: tensor<[m, 16], f32>, %k: tensor<[16], f32>) -> (tensor<[m, 16], f32>)
    attributes {num_inputs = 1, lower_bounds = {m = 2}, upper_bounds = {m = 64}} {
  %y = mul(%x, %k)
  return %y
}
)");
  const LinkPart parts[] = {{"b", &b, "", {}}, {"a", &a, "", {}}};
  auto linked = link_modules(parts, std::vector<LinkJoin>{{0, 0, 1, 0}});
  REQUIRE(linked.ok());
  REQUIRE(linked->inputs.size() == 1);
  CHECK(linked->inputs[0].part == 1);
  REQUIRE(linked->weights.size() == 1);
  CHECK(linked->weights[0].index == 1);
  REQUIRE(linked->results.size() == 2); // b's, then the one of a that is left
  CHECK((linked->results[0].part == 0 && linked->results[1].index == 1));
  const std::string text = text_of(std::move(linked));
  CHECK(text.substr(text.find("func @main")) ==
        R"(func @main(%a.x: tensor<[a.n, 16], f32>, %b.k: tensor<[16], f32>)
    -> (tensor<[a.n, 16], f32>, tensor<[a.n], f32>)
    attributes {num_inputs = 1, lower_bounds = {a.n = 2}, upper_bounds = {a.n = 32}} {
  %a.result0, %a.result1 = call @a.main(%a.x)
  %b.result0 = call @b.main(%a.result0, %b.k)
  return %b.result0, %a.result1
}
)");
}

TEST_CASE("a dimension becomes the number that it is joined to, on either side") {
  const Module free = one_op("tanh", "n, 4", "upper_bounds = {n = 8}"),
               fixed = one_op("neg", "3, 4", "");
  for (const bool fixed_first : {false, true}) {
    const LinkPart parts[] = {{"a", fixed_first ? &fixed : &free, "", {}},
                              {"b", fixed_first ? &free : &fixed, "", {}}};
    const std::string text = text_of(link_modules(parts, std::vector<LinkJoin>{{1, 0, 0, 0}}));
    CHECK(text.find("func @main(%a.x: tensor<[3, 4], f32>) -> (tensor<[3, 4], f32>)") !=
          std::string::npos);
  }
  const Module large = one_op("neg", "9, 4", "");
  const LinkPart parts[] = {{"a", &large, "", {}}, {"b", &free, "", {}}};
  refuses(parts, {{1, 0, 0, 0}}, "symbol b.n of [0, 8] would be 9");
}

TEST_CASE("a symbol becomes the formula that it is joined to, and a formula is no symbol's value") {
  const Module twice = parsed(R"(cugrt 1
func @main(%x: tensor<[n, 4], f32>) -> (tensor<[2*n, 4], f32>)
    attributes {upper_bounds = {n = 8}} {
  %y = concat(%x, %x) {axis = 0}
  return %y
}
)"),
               plain = one_op("tanh", "m, 4", "upper_bounds = {m = 16}"), half = parsed(R"(cugrt 1
func @main(%x: tensor<[2*k, 4], f32>, %y: tensor<[k], f32>) -> (tensor<[2*k, 4], f32>)
    attributes {upper_bounds = {k = 8}} {
  %z = tanh(%x)
  return %z
}
)");
  const LinkPart parts[] = {{"a", &twice, "", {}}, {"b", &plain, "", {}}};
  const std::string text = text_of(link_modules(parts, std::vector<LinkJoin>{{1, 0, 0, 0}}));
  CHECK(text.find("-> (tensor<[2*a.n, 4], f32>)") != std::string::npos);
  const LinkPart others[] = {{"a", &plain, "", {}}, {"b", &half, "", {}}};
  refuses(others, {{1, 0, 0, 0}},
          "b.x is f32[2*b.k, 4], and a.result0 is f32[a.m, 4]: they do not join");
}

TEST_CASE("equal weights are one parameter, others keep their own") {
  const Module part = parsed(R"(cugrt 1
func @main(%x: tensor<[2, 4], f32>, %u: tensor<[4, 4], f32>, %v: tensor<[4, 4], f32>) -> (tensor<[2, 4], f32>)
    attributes {num_inputs = 1} {
  %y = matmul(%x, %u)
  %z = matmul(%y, %v)
  return %z
}
)");
  const LinkPart parts[] = {{"a", &part, "", {0, UINT32_MAX}}, {"b", &part, "", {UINT32_MAX, 0}}};
  const std::string text = text_of(link_modules(parts, {}));
  CHECK(text.find("call @a.main(%a.x, %a.u, %a.v)") != std::string::npos);
  CHECK(text.find("call @b.main(%b.x, %b.u, %a.u)") != std::string::npos);
  CHECK(text.find("num_inputs = 2") != std::string::npos);
}

TEST_CASE("kernels, constants, loops, literals and calls go along, and other functions do not") {
  const Module part = parsed(R"(cugrt 1
kernel @scale {
  source "scale.cu"
  entry "scale"
  params (x: in f32, y: out f32, n: symbol i32)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}

constant @c: tensor<[2], f32> = x"0000803f00000040"

private func @inner(%x: tensor<[n, 2], f32>) -> (tensor<[n, 2], f32>) attributes {upper_bounds = {n = 9}} {
  %c = constant @c
  %y = add(%x, %c)
  %z = neg(%y)
  %l = literal 2.5
  %o = alloc : tensor<[n, 2], f32>
  launch @scale(%z, %o, 2*n)
  return %o
}

func @main(%x: tensor<[n, 2], f32>) -> (tensor<[n, 2], f32>) attributes {upper_bounds = {n = 9}} {
  %y = call @inner(%x)
  return %y
}

func @other(%x: tensor<[2], f32>) -> (tensor<[2], f32>) {
  %y = neg(%x)
  return %y
}
)");
  const LinkPart parts[] = {{"a", &part, "/kernels", {}}, {"b", &part, "", {}}};
  const std::string text = text_of(link_modules(parts, std::vector<LinkJoin>{{1, 0, 0, 0}}));
  CHECK(text.find("other") == std::string::npos);
  CHECK(text.find("source \"/kernels/scale.cu\"") != std::string::npos);
  CHECK(text.find("source \"scale.cu\"") != std::string::npos);
  CHECK(text.find("launch @b.scale(%z, %o, 2*n)") != std::string::npos);
  CHECK(text.find("%c = constant @b.c") != std::string::npos);
  CHECK(text.find("%l = literal 2.5") != std::string::npos);
  CHECK(text.find("%y = call @b.inner(%x)") != std::string::npos);
}

TEST_CASE("buckets and constraints are the linked function's") {
  const Module a = one_op("tanh", "n, 4", "upper_bounds = {n = 8}, buckets = {n = [2, 8]}"),
               b = one_op("neg", "m, 4", "upper_bounds = {m = 8}"),
               c = one_op("neg", "m, 4", "upper_bounds = {m = 8}, buckets = {m = [4, 8]}");
  const LinkPart parts[] = {{"a", &a, "", {}}, {"b", &b, "", {}}};
  CHECK(text_of(link_modules(parts, std::vector<LinkJoin>{{1, 0, 0, 0}}))
            .find("buckets = {a.n = [2, 8]}") != std::string::npos);
  const LinkPart differ[] = {{"a", &a, "", {}}, {"c", &c, "", {}}};
  refuses(differ, {{1, 0, 0, 0}}, "symbols a.n and c.m would be one, and their buckets differ");
  const Module pair = parsed(R"(cugrt 1
func @main(%x: tensor<[n, 4], f32>, %y: tensor<[m, 4], f32>) -> (tensor<[n, 4], f32>, tensor<[m, 4], f32>)
    attributes {upper_bounds = {n = 64, m = 64}, constraints = [n*m <= 100]} {
  %a = tanh(%x)
  %b = tanh(%y)
  return %a, %b
}
)");
  const LinkPart limited[] = {{"p", &pair, "", {}}, {"q", &b, "", {}}};
  CHECK(text_of(link_modules(limited, std::vector<LinkJoin>{{1, 0, 0, 1}}))
            .find("constraints = [p.n*p.m <= 100]") != std::string::npos);
}

TEST_CASE("what cannot be linked is told by name") {
  const Module a = one_op("tanh", "n, 4", "upper_bounds = {n = 8}"),
               low = one_op("neg", "m, 4", "lower_bounds = {m = 9}, upper_bounds = {m = 12}");
  const Module state = parsed(R"(cugrt 1
kernel @step {
  inline "extern \"C\" __global__ void step(float *x) { x[0] = 1; }"
  entry "step"
  params (x: inout f32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @main(%x: inout tensor<[4, 4], f32>) {
  launch @step(%x)
  return
}
)"),
               nameless = parsed("cugrt 1\nfunc @f() {\n  return\n}\n");
  const LinkPart two[] = {{"a", &a, "", {}}, {"b", &a, "", {}}};
  refuses(two, {{0, 0, 1, 0}, {1, 0, 0, 0}}, "parts wait for results of one another: 'a', 'b'");
  refuses(two, {{1, 0, 0, 0}, {1, 0, 0, 0}}, "b.x is joined twice, to a.result0 and to a.result0");
  const LinkPart same[] = {{"a", &a, "", {}}, {"a", &a, "", {}}};
  refuses(same, {}, "two parts are named 'a'");
  const LinkPart bad[] = {{"a.b", &a, "", {}}};
  refuses(bad, {}, "a part is named by letters, digits and '_', a letter first, not 'a.b'");
  const LinkPart bounds[] = {{"a", &a, "", {}}, {"b", &low, "", {}}};
  refuses(bounds, {{1, 0, 0, 0}},
          "symbols a.n and b.m would be one, and no value is within the bounds of both");
  const LinkPart written[] = {{"a", &a, "", {}}, {"s", &state, "", {}}};
  refuses(written, {{1, 0, 0, 0}},
          "s.x is written in place; it is the caller's and cannot be a.result0");
  const LinkPart none[] = {{"a", &nameless, "", {}}};
  refuses(none, {}, "part 'a' has no function @main");
}
