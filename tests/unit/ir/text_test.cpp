// Elements of constants, attributes of ops, and text at its limits.
#include "support/must.h"

#include "base/type/element.h"
#include "ir/module/builder.h"
#include "ir/text/built_module.h"
#include "ir/text/lexer.h"
#include "ir/text/text.h"
#include "ops/table/ops.h"

#include <cmath>
#include <cstring>

using namespace cugrt;
using namespace cugrt::ir;
using cugrt::test::must;
using cugrt::test::refused;

namespace {

/// The value of 16 bits from the definition: sign, exponent and mantissa fields.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  auto exponent = int(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  double mantissa = double(bits & ((1u << mantissa_bits) - 1)) / double(1u << mantissa_bits);
  double magnitude = exponent ? (1 + mantissa) * std::pow(2.0, exponent - bias)
                              : mantissa * std::pow(2.0, 1 - bias);
  return bits >> 15 ? -magnitude : magnitude;
}

uint16_t bits_of(DType dtype, double value) {
  std::string bytes;
  append_float(dtype, value, bytes);
  uint16_t bits;
  std::memcpy(&bits, bytes.data(), sizeof bits);
  return bits;
}

} // namespace

TEST_CASE("every f16 and bf16 survives the way to a double and back, and halfway goes to even") {
  struct Format {
    DType dtype;
    int exponent_bits, mantissa_bits;
  };
  for (Format f : {Format{DType::f16, 5, 10}, Format{DType::bf16, 8, 7}}) {
    uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
    bool same = true, even = true;
    for (uint32_t bits = 0; bits < infinity; ++bits) {
      char raw[2] = {char(bits & 255), char(bits >> 8)};
      double value = float_at(f.dtype, raw);
      same = same && value == value_of(bits, f.exponent_bits, f.mantissa_bits) &&
             bits_of(f.dtype, value) == bits && bits_of(f.dtype, -value) == (bits | 0x8000u);
      if (bits + 1 < infinity) {
        double next = value_of(bits + 1, f.exponent_bits, f.mantissa_bits);
        double half = value + (next - value) / 2;
        even = even && bits_of(f.dtype, half) == (bits % 2 ? bits + 1 : bits) &&
               bits_of(f.dtype, std::nextafter(half, next)) == bits + 1;
      }
    }
    CHECK(same);
    CHECK(even);
    CHECK(bits_of(f.dtype, INFINITY) == infinity);
    CHECK(bits_of(f.dtype, NAN) > infinity);
  }
}

TEST_CASE("floats that would become infinite are refused") {
  std::string bytes;
  CHECK(append_float(DType::f16, 65504, bytes));
  CHECK(append_float(DType::f16, 65519, bytes));
  CHECK_FALSE(append_float(DType::f16, 65520, bytes));
  CHECK(append_float(DType::f32, 3.4028235e38, bytes));
  CHECK_FALSE(append_float(DType::f32, 3.4028236e38, bytes));
  CHECK(append_float(DType::f32, INFINITY, bytes));
}

TEST_CASE("integers fit their dtypes at the ends of the ranges and not beyond") {
  CHECK(integer_fits(DType::i4, -8));
  CHECK_FALSE(integer_fits(DType::i4, 8));
  CHECK(integer_fits(DType::u4, 15));
  CHECK_FALSE(integer_fits(DType::u4, -1));
  CHECK(integer_fits(DType::i64, INT64_MIN));
  CHECK(integer_fits(DType::u32, 4294967295));
  CHECK_FALSE(integer_fits(DType::u32, 4294967296));
  CHECK(integer_fits(DType::u64, INT64_MIN, true)); // 2^63
  CHECK_FALSE(integer_fits(DType::boolean, 2));
}

TEST_CASE("integers as scalars keep their value or are refused") {
  CHECK(*scalar_bits(DType::i8, int64_t(-1)) == 0xffu);
  CHECK(*scalar_bits(DType::i32, int64_t(-1)) == 0xffffffffu);
  CHECK(*scalar_bits(DType::i64, int64_t(-1)) == UINT64_MAX);
  CHECK(*scalar_bits(DType::i64, INT64_MIN) == uint64_t(1) << 63);
  CHECK(*scalar_bits(DType::u8, int64_t(200)) == 200);
  CHECK(*scalar_bits(DType::u64, INT64_MAX) == uint64_t(INT64_MAX));
  CHECK(*scalar_bits(DType::boolean, int64_t(1)) == 1);
  CHECK(*scalar_bits(DType::f16, int64_t(-2)) == 0xc000);
  using Row = std::pair<DType, int64_t>;
  for (auto [dtype, value] :
       {Row{DType::i8, 128}, Row{DType::i8, 200}, Row{DType::u8, -1},
        Row{DType::i32, int64_t(1) << 31}, Row{DType::u64, -1}, Row{DType::boolean, 2}}) {
    INFO(info(dtype).name << ' ' << value);
    CHECK(scalar_bits(dtype, value).status().code() == Code::out_of_range);
  }
  for (DType dtype : {DType::i4, DType::u4, DType::q4_0}) {
    CHECK(scalar_bytes(dtype) == 0);
    CHECK(scalar_bits(dtype, int64_t(1)).status().code() == Code::unsupported);
  }
}

TEST_CASE("floats as scalars are rounded once, to nearest even") {
  // By the definitions: 1 sign, then 5 and 10, or 8 and 7, bits of exponent and fraction.
  const std::pair<double, uint64_t> halves[] = {
      {0.0, 0x0000},         {-0.0, 0x8000},           {1.0, 0x3c00},
      {-2.0, 0xc000},        {65504.0, 0x7bff},        {65519.9, 0x7bff},
      {65520.0, 0x7c00},     {65536.0, 0x7c00},        {0x1p-24, 0x0001},
      {0x1p-25, 0x0000},     {0x1.8p-24, 0x0002},      {0x1p-14, 0x0400},
      {0x1.ff8p-15, 0x03ff}, {0x1.ffcp-15, 0x0400},    {1.0 + 0x1p-11, 0x3c00},
      {0x1.fffp0, 0x4000},   {1.0 + 0x1.8p-10, 0x3c02}};
  for (auto [value, bits] : halves) {
    INFO(value);
    CHECK(*scalar_bits(DType::f16, value) == bits);
  }
  const std::pair<double, uint64_t> bfloats[] = {
      {1.0, 0x3f80},
      {-0.0, 0x8000},
      {1.0 + 0x1p-8, 0x3f80},           // a tie, to even
      {1.0 + 0x1.8p-7, 0x3f82},         // a tie, to even
      {1.0 + 0x1p-8 + 0x1p-30, 0x3f81}, // above the tie, though a float between would not be
  };
  for (auto [value, bits] : bfloats) {
    INFO(value);
    CHECK(*scalar_bits(DType::bf16, value) == bits);
  }
  for (DType dtype : {DType::f16, DType::bf16}) {
    uint64_t infinity = *scalar_bits(dtype, INFINITY);
    CHECK((*scalar_bits(dtype, NAN) & 0x7fff) > infinity);
  }
  CHECK(*scalar_bits(DType::f32, 0.5) == 0x3f000000u);
  CHECK(*scalar_bits(DType::f32, -1e300) == 0xff800000u);
  CHECK(*scalar_bits(DType::f64, -2.0) == 0xc000000000000000u);
  CHECK(scalar_bits(DType::i32, 0.5).status().code() == Code::unsupported);
}

TEST_CASE("attributes of ops have their defaults where they are not given") {
  std::vector<Attribute> given = {{"strides", std::vector<int64_t>{2, 3}}};
  CHECK(op_integers(Op::conv2d, given, "strides") == std::vector<int64_t>{2, 3});
  CHECK(op_integers(Op::conv2d, given, "padding") == std::vector<int64_t>{0, 0});
  CHECK(op_integer(Op::softmax, {}, "axis") == -1);
  CHECK(op_float(Op::layer_norm, {}, "epsilon") == 1e-5);
  std::vector<Attribute> integer = {{"epsilon", int64_t(1)}};
  CHECK(op_float(Op::layer_norm, integer, "epsilon") == 1.0);
  CHECK(op_bool(Op::avg_pool2d, {}, "count_include_pad"));
  CHECK(op_string(Op::gelu, {}, "approximate") == "none");
}

TEST_CASE("axes count from either end") {
  CHECK(normalize_axis(-1, 3) == 2u);
  CHECK(normalize_axis(2, 3) == 2u);
  CHECK(normalize_axis(-3, 3) == 0u);
  CHECK_FALSE(normalize_axis(3, 3).has_value());
  CHECK_FALSE(normalize_axis(-4, 3).has_value());
  CHECK_FALSE(normalize_axis(0, 0).has_value());
}

TEST_CASE("a window's output size is the number of places where it fits") {
  Module m;
  for (int64_t size = 1; size <= 9; ++size)
    for (int64_t window = 1; window <= 4; ++window)
      for (int64_t stride = 1; stride <= 3; ++stride)
        for (int64_t padding = 0; padding < window; ++padding) {
          int64_t places = 0; // counted, not computed
          for (int64_t at = -padding; at + window <= size + padding; at += stride)
            ++places;
          auto c = [&](int64_t v) { return m.exprs.constant(v); };
          TypeId x = m.types.tensor(DType::f32, {c(2), c(3), c(size), c(size)});
          std::vector<Attribute> attributes = {{"kernel", std::vector<int64_t>{window, window}},
                                               {"strides", std::vector<int64_t>{stride, stride}},
                                               {"padding", std::vector<int64_t>{padding, padding}}};
          auto types = infer_op(m, Op::max_pool2d, {&x, 1}, attributes);
          REQUIRE(types.ok() == (places > 0));
          if (places > 0)
            REQUIRE(m.types[(*types)[0]].dims[2] == c(places));
        }
}

TEST_CASE("strings of every byte come back from their quoted form") {
  for (int first = 0; first < 256; ++first)
    for (const char *rest : {"", "\n", "\"", "\\", "a\nb"}) {
      std::string text(1, static_cast<char>(first)), quoted, back;
      text += rest;
      append_quoted(quoted, text);
      Diagnostics diagnostics;
      Token token = Lexer(quoted, diagnostics).next();
      REQUIRE(unescape(token, back, diagnostics));
      REQUIRE(diagnostics.empty());
      REQUIRE(back == text);
    }
}

TEST_CASE("an element of 4 bits where the type has none is an error") {
  for (const char *dims : {"[0]", "[3, 0]"}) {
    Diagnostics diagnostics;
    parse(std::string("cugrt 1\nconstant @c : tensor<") + dims + ", u4> = [1]\n", diagnostics);
    REQUIRE(diagnostics.count() == 1);
    CHECK(diagnostics.list()[0].message == "this constant has 1 elements, its type has 0");
  }
}

TEST_CASE("long hostile texts end in diagnostics") {
  auto rejected = [](const std::string &body) {
    Diagnostics diagnostics;
    parse("cugrt 1\nfunc @f(%x: tensor<[n], f32>) {\n" + body, diagnostics);
    return !diagnostics.empty() && diagnostics.list().size() <= Diagnostics::kLimit;
  };
  auto repeat = [](const std::string &text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i)
      all += text;
    return all;
  };
  CHECK(rejected("%a = literal " + repeat("(", 100000)));
  CHECK(rejected("%a = literal " + repeat("-", 100000)));
  CHECK(rejected("%a = literal n" + repeat(" + n*n", 100000)));
  CHECK(rejected("%a = literal " + repeat("min(n, ", 100000)));
  CHECK(rejected(repeat("if true {\n", 100000)));
  CHECK(rejected(repeat("}\n", 100000)));
  CHECK(rejected(repeat("while (", 100000)));
  CHECK(rejected(repeat("\"", 100001)));
  CHECK(rejected("%a = alloc : " + repeat("tuple<", 100000)));
  CHECK(rejected("%a = relu(" + repeat("%x, ", 100000)));
  CHECK(rejected(repeat("%a, ", 100000)));
  CHECK(rejected("%a = literal " + repeat("9", 100000)));
  CHECK(rejected("%" + repeat("a", 100000) + " = literal 1"));
}

TEST_CASE("a module from a pass is quoted where it has no place in a text") {
  Module m;
  FunctionBuilder b(m, "f");
  TypeId t = m.types.tensor(DType::f32, {m.exprs.constant(4)});
  ValueId x = b.param("x", t);
  b.kill(x);
  m.functions.push_back(b.finish({}));
  Diagnostics diagnostics;
  verify(m, diagnostics);
  REQUIRE(diagnostics.list().size() == 1);
  CHECK(diagnostics.list()[0].message.find("'kill %x' of function @f") != std::string::npos);
}

TEST_CASE("parse_and_verify names the file and the kind of error") {
  CHECK(parse_and_verify("cugrt 1\n", "m.cugrt").ok());
  const Status broken = refused(parse_and_verify("cugrt", "m.cugrt"));
  CHECK(broken.code() == Code::parse_error);
  CHECK(broken.message().find("m.cugrt:1:6: error: ") == 0);
  const Status wrong =
      refused(parse_and_verify("cugrt 1\nfunc @f() {\n  call @f()\n  return\n}\n", "m.cugrt"));
  CHECK(wrong.code() == Code::verify_error);
}

TEST_CASE("a module that is handed over is of this build, verified, and quotes its own text") {
  Module module;
  FunctionBuilder builder(module, "main");
  const ValueId x = builder.param("x", module.types.tensor(DType::f32, {module.exprs.constant(4)}));
  module.functions.push_back(builder.finish(std::vector{Operand::of(x)})); // no result is declared
  auto built = must(make_built(std::move(module)));
  CHECK(*built.text == "cugrt 1\n\nfunc @main(%x: tensor<[4], f32>) {\n  return %x\n}\n");
  const Function &main = built.module->functions[0];
  CHECK(main.location == SourceLocation{3, 6});
  CHECK(main.value(x).location == SourceLocation{3, 12});
  CHECK(main.body().end_location == SourceLocation{4, 3});
  const Status unverified = check_built(built, "model");
  CHECK(unverified.code() == Code::verify_error);
  CHECK(unverified.message().find("model:4:3: error: ") == 0);
  built.build = "0.0.0";
  CHECK(check_built(built, "model").code() == Code::invalid_argument);
}

TEST_CASE("bindings that one printer prints after one another are as each by itself") {
  const auto module = must(parse_and_verify(R"(cugrt 1
func @f(%x: tensor<[n, 4], f32>, %p: tensor<[1], i32>) -> (tensor<[n, 4], f32>) {
  read q = %p[0] in [0, 7]
  %s = shape [n + 1, 2*n]
  %m = match %x: tensor<[n, 4], f32>
  %y = relu(%m)
  return %y
}
)",
                                            "m.cugrt"));
  const Function &f = module.functions[0];
  BindingPrinter printer(module, f);
  std::string all;
  for (const Binding &b : f.body().bindings) {
    const std::string one = printer.print(b);
    CHECK(one == print_binding(module, f, b));
    all += one + "\n";
  }
  CHECK(all == "read q = %p[0] in [0, 7]\n%s = shape [n + 1, 2*n]\n"
               "%m = match %x : tensor<[n, 4], f32>\n%y = relu(%m)\n");
}
