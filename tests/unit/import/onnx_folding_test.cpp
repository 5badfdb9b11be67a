// Constant folding: what is folded is what the op means, for every dtype of every operand; what an
// op cannot have is one sentence; and results of files that ask for much are bounded.
#include "base/type/element.h"
#include "fronts/onnx/file/tensor.h"
#include "fronts/onnx/import.h"
#include "ir/text/text.h"
#include "ops/table/ops.h"
#include "support/must.h"
#include "support/onnx_bytes.h"

#include <cmath>
#include <functional>

using namespace cugrt;
using namespace cugrt::test::onnx_bytes;
using cugrt::test::must;

namespace {

using Numbers = std::vector<double>;
/// ONNX's numbers of all dtypes that a tensor may have here, those of 4 bits and f8 among them.
constexpr unsigned kDtypes[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 17, 21, 22};
constexpr unsigned kBool = 9;

bool is_float(unsigned dtype) {
  return dtype == 1 || dtype == 10 || dtype == 11 || dtype == 16 || dtype == 17;
}

/// The FLOAT8E4M3FN of a number that is one: a bit of sign, four of the exponent, three behind the
/// point.
int float8(double number) {
  if (number == 0)
    return 0;
  const int exponent = std::ilogb(number);
  const auto fraction = int(std::ldexp(std::fabs(number), 3 - exponent)) - 8;
  return (number < 0 ? 128 : 0) | (exponent + 7) << 3 | fraction;
}

std::string tensor(const std::string &name, unsigned dtype, const Numbers &numbers) {
  std::string raw;
  if (const auto own = onnx::dtype_of(int32_t(dtype)); own && ir::scalar_bytes(*own))
    for (double number : numbers)
      if (is_float(dtype))
        ir::append_float(*own, number, raw);
      else
        ir::append_integer(*own, dtype == kBool ? number != 0 : int64_t(number), raw);
  else
    for (size_t i = 0; i < numbers.size(); ++i)
      if (dtype == 17)
        raw += char(float8(numbers[i]));
      else if (i % 2) // the upper half of a byte
        raw.back() = char(raw.back() | (int64_t(numbers[i]) & 15) << 4);
      else
        raw += char(int64_t(numbers[i]) & 15);
  return bytes(5, number(1, numbers.size()) + number(2, dtype) + bytes(8, name) + bytes(9, raw));
}

/// A node of constants. `meaning` gives what the op's document says of the operands' elements.
struct Folded {
  std::string op;
  std::vector<Numbers> operands;
  std::function<Numbers(const std::vector<Numbers> &, bool reals)> meaning;
  unsigned result = 0; // dtype; 0: that of the operand `like`
  size_t like = 0;
  std::string attributes = "";
};

Folded unary(const std::string &op, Numbers x, double (*f)(double), unsigned result = 0) {
  return {op,
          {std::move(x)},
          [f](const std::vector<Numbers> &in, bool) {
            Numbers out;
            for (double one : in[0])
              out.push_back(f(one));
            return out;
          },
          result};
}

Folded binary(const std::string &op, double (*f)(double, double, bool), unsigned result = 0) {
  return {op,
          {{3, 1}, {2, 1}},
          [f](const std::vector<Numbers> &in, bool reals) {
            return Numbers{f(in[0][0], in[1][0], reals), f(in[0][1], in[1][1], reals)};
          },
          result};
}

Folded moved(const std::string &op, std::vector<Numbers> operands, Numbers out, size_t like = 0,
             const std::string &attributes = "") {
  return {op,   std::move(operands), [out](const std::vector<Numbers> &, bool) { return out; }, 0,
          like, attributes};
}

std::vector<Folded> folded_ops() {
  std::vector<Folded> all = {
      unary("Neg", {1, 2}, [](double x) { return -x; }),
      unary("Abs", {1, 2}, [](double x) { return x; }),
      unary("Not", {1, 0}, [](double x) { return double(x == 0); }),
      unary("Sqrt", {4, 1}, [](double x) { return std::sqrt(x); }),
      unary("Floor", {4, 1}, [](double x) { return x; }),
      unary("Ceil", {4, 1}, [](double x) { return x; }),
      unary("Round", {4, 1}, [](double x) { return x; }),
      unary("Reciprocal", {4, 1}, [](double x) { return 1 / x; }),
      unary("Exp", {0, 0}, [](double) { return 1.0; }),
      unary("Log", {1, 1}, [](double) { return 0.0; }),
      binary("Add", [](double a, double b, bool) { return a + b; }),
      binary("Sub", [](double a, double b, bool) { return a - b; }),
      binary("Mul", [](double a, double b, bool) { return a * b; }),
      binary("Div",
             [](double a, double b, bool reals) { return reals ? a / b : std::trunc(a / b); }),
      binary("Mod", [](double a, double b, bool) { return std::fmod(a, b); }),
      binary("Min", [](double a, double b, bool) { return std::min(a, b); }),
      binary("Max", [](double a, double b, bool) { return std::max(a, b); }),
      binary("Pow", [](double a, double b, bool) { return std::pow(a, b); }),
      binary(
          "Equal", [](double a, double b, bool) { return double(a == b); }, kBool),
      binary(
          "Less", [](double a, double b, bool) { return double(a < b); }, kBool),
      binary(
          "LessOrEqual", [](double a, double b, bool) { return double(a <= b); }, kBool),
      binary(
          "Greater", [](double a, double b, bool) { return double(a > b); }, kBool),
      binary(
          "GreaterOrEqual", [](double a, double b, bool) { return double(a >= b); }, kBool),
      binary("And", [](double a, double b, bool) { return double(a && b); }),
      binary("Or", [](double a, double b, bool) { return double(a || b); }),
      binary("Xor", [](double a, double b, bool) { return double(!a != !b); }),
      moved("Where", {{1, 0}, {1, 1}, {0, 0}}, {1, 0}, 1),
      moved("CastLike", {{1, 0}, {1, 1}}, {1, 0}, 1),
      moved("Range", {{0}, {3}, {1}}, {0, 1, 2}),
      moved("Gather", {{1, 0}, {1, 0}}, {0, 1}),
      moved("Slice", {{1, 0, 1}, {1}, {3}, {0}, {1}}, {0, 1}),
      moved("Concat", {{1, 0}, {0, 1}}, {1, 0, 0, 1}, 0, integer_attribute("axis", 0)),
      moved("Squeeze", {{1}, {0}}, {1}),
      moved("Unsqueeze", {{1, 0}, {0}}, {1, 0}),
      moved("Reshape", {{1, 0}, {2}}, {1, 0}),
      moved("Expand", {{1}, {3}}, {1, 1, 1}),
      moved("Clip", {{3, 1}, {2}, {9}}, {3, 2}),
      moved("Clip", {{3, 1}, {0}, {2}}, {2, 1}),
      moved("Tile", {{1, 0}, {2}}, {1, 0, 1, 0}),
      moved("OneHot", {{1, -1}, {3}, {0, 1}}, {0, 1, 0, 0, 0, 1}, 2),
      moved("OneHot", {{1, -1}, {3}, {0, 1}}, {0, 0, 1, 0, 0, 1}, 2, integer_attribute("axis", 0)),
      moved("Identity", {{1, 0}}, {1, 0}),
      moved("Transpose", {{1, 0}}, {1, 0}),
      moved("Split", {{1, 0, 1}, {2, 1}}, {1, 0}),
      {"ConstantOfShape",
       {{2}},
       [](const std::vector<Numbers> &, bool) { return Numbers{0, 0}; },
       1}};
  all.push_back(moved("ReduceSum", {{3, 1}, {0}}, {4}));
  all.push_back(moved("ReduceProd", {{3, 1}, {0}}, {3}));
  all.push_back(moved("ReduceMax", {{3, 1}, {0}}, {3}));
  all.push_back(moved("ReduceMin", {{3, 1}, {0}}, {1}));
  for (unsigned to : kDtypes)
    if (to < 17) {
      all.push_back(moved("Cast", {{1, 0}}, {1, 0}, 0, integer_attribute("to", to)));
      all.back().result = to;
    }
  return all;
}

/// The elements of a module that holds a constant and gives it alone; none of any other.
std::optional<std::pair<ir::DType, Numbers>> constant_of(const ir::Module &module) {
  const ir::Function &main = module.functions.back();
  const auto &bindings = main.blocks.front().bindings;
  if (bindings.size() != 2 || bindings[0].kind != ir::BindingKind::constant ||
      bindings[1].callee != uint32_t(ir::Op::cast))
    return std::nullopt; // not a constant and the copy of it that is the result
  const ir::Constant &constant = module.constants[0];
  const ir::DType dtype = module.types[constant.type].dtype;
  const size_t size = ir::info(dtype).bytes_per_block;
  Numbers out;
  for (size_t at = 0; at < constant.bytes.size(); at += size)
    out.push_back(ir::info(dtype).kind == ir::DTypeKind::floating
                      ? ir::float_at(dtype, constant.bytes.data() + at)
                      : double(ir::integer_at(dtype, constant.bytes.data() + at)));
  return std::pair(dtype, out);
}

/// Imports the node with constants of those dtypes; whether it was folded.
bool check_fold(const Folded &one, const std::vector<unsigned> &dtypes) {
  std::vector<std::string> names;
  std::vector<Numbers> values = one.operands;
  std::string initial, said = one.op;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    names.push_back("x" + std::to_string(i));
    initial += tensor(names.back(), dtypes[i], one.operands[i]);
    said += " " + std::to_string(dtypes[i]);
    for (double &value : values[i])
      value = dtypes[i] == kBool ? value != 0 : value;
  }
  std::vector<std::string> outputs = {"y"};
  if (one.op == "Split")
    outputs.push_back("rest");
  const auto imported = onnx::import_bytes(
      model(node(one.op, names, outputs, one.attributes) + initial + bytes(12, bytes(1, "y"))), "",
      {});
  INFO(said);
  if (!imported.ok()) {
    CHECK(!imported.status().message().empty());
    return false;
  }
  const auto constant = constant_of(imported->module);
  const auto wanted = onnx::dtype_of(int32_t(one.result ? one.result : dtypes[one.like]));
  if (!constant || constant->first != wanted) // the device's work
    return false;
  CHECK(constant->second == one.meaning(values, is_float(dtypes[0])));
  return true;
}

std::string error_of(const std::string &graph) {
  const auto imported = onnx::import_bytes(model(graph), "", {});
  return imported.ok() ? "" : imported.status().message();
}

} // namespace

TEST_CASE("what is folded means what the op says, whatever the operands' dtypes are", "[long]") {
  for (const Folded &one : folded_ops()) {
    bool any = false;
    const size_t count = one.operands.size();
    // All dtypes of each two operands, the others being of i64.
    for (size_t i = 0; i < count; ++i)
      for (size_t j = i; j < count; ++j)
        for (unsigned first : kDtypes)
          for (unsigned second : kDtypes) {
            std::vector<unsigned> dtypes(count, kI64);
            if (one.op == "Where")
              dtypes[0] = kBool;
            dtypes[j] = second, dtypes[i] = first;
            any |= check_fold(one, dtypes);
          }
    INFO(one.op);
    CHECK(any); // else nothing was compared
  }
}

TEST_CASE("operands of dtypes that ONNX does not give an op are refused") {
  const std::string y = bytes(12, bytes(1, "y"));
  const auto constant = [](const char *name, unsigned dtype) {
    return tensor(name, dtype, {1, 0});
  };
  CHECK(error_of(node("Where", {"c", "a", "b"}, {"y"}) + constant("c", kF32) + constant("a", kF32) +
                 constant("b", kF32) + y)
            .find("Where") != std::string::npos);
  CHECK(error_of(node("Reshape", {"a", "b"}, {"y"}) + constant("a", kF32) + constant("b", kF32) + y)
            .find("integers are wanted") != std::string::npos);
}

TEST_CASE("floats of dimensions are reduced to expressions, so that images are padded by them") {
  // The pads of torchvision's detectors: the next multiple of 4 above the largest of n and 3.
  onnx::Options options;
  options.bounds["n"] = {1, 8};
  const auto imported = must(onnx::import_bytes(
      model(node("Shape", {"x"}, {"n"}) + node("Cast", {"n"}, {"nf"}, integer_attribute("to", 1)) +
            node("Unsqueeze", {"nf", "none"}, {"row"}) +
            node("Unsqueeze", {"three", "none"}, {"other"}) +
            node("Concat", {"row", "other"}, {"both"}, integer_attribute("axis", 0)) +
            node("ReduceMax", {"both"}, {"most"},
                 integers_attribute("axes", {0}) + integer_attribute("keepdims", 0)) +
            node("Max", {"most", "one", "two"}, {"same"}) +
            node("Div", {"same", "four"}, {"parts"}) + node("Ceil", {"parts"}, {"up"}) +
            node("Mul", {"up", "four"}, {"all"}) +
            node("Cast", {"all"}, {"size"}, integer_attribute("to", kI64)) +
            node("Sub", {"size", "n"}, {"more"}) +
            node("Concat", {"none", "more"}, {"pads"}, integer_attribute("axis", 0)) +
            node("Pad", {"x", "pads"}, {"y"}) + tensor("three", kF32, {3}) +
            tensor("one", kF32, {1}) + tensor("two", kF32, {2}) + tensor("four", kF32, {4}) +
            tensor("none", kI64, {0}) + input("x", kF32, {"n"}) + bytes(12, bytes(1, "y"))),
      "", options));
  const std::string text = ir::print(imported.module);
  INFO(text);
  CHECK(text.find("cugrt.count") == std::string::npos);
  const ir::Module &module = imported.module;
  const ir::Function &main = module.functions.back();
  const auto range = module.exprs.range(module.types[main.result_types[0]].dims[0],
                                        main.symbol_domain(module.exprs));
  CHECK(range.lower == 4);
  CHECK(range.upper == 8);
}

TEST_CASE("the host reads sizes that the device computes, where nothing else can be done") {
  for (unsigned dtype : {kI64, kF32}) {
    const std::string graph = node("ReduceMax", {"x"}, {"end"}, integer_attribute("keepdims", 0)) +
                              node("Range", {"zero", "end", "one"}, {"y"}) +
                              tensor("zero", dtype, {0}) + tensor("one", dtype, {1}) +
                              input("x", dtype, {"n"}) + bytes(12, bytes(1, "y"));
    onnx::Options options;
    for (int64_t most : {512, 4096}) {
      const auto imported = must(onnx::import_bytes(model(graph), "", options));
      const ir::Function &main = imported.module.functions.back();
      CHECK(main.symbols.back().name == "counted");
      CHECK(main.symbols.back().bounds.upper == most);
      options.bounds["counted"] = {0, 4096};
    }
  }
  // Of a list the parts that are known are not read: -1 is what is left.
  const auto imported = must(
      onnx::import_bytes(model(node("ReduceMax", {"x"}, {"n"}) +
                               node("Concat", {"n", "rest"}, {"to"}, integer_attribute("axis", 0)) +
                               node("Reshape", {"x", "to"}, {"y"}) + tensor("rest", kI64, {-1}) +
                               input("x", kI64, {"n"}) + bytes(12, bytes(1, "y"))),
                         "", {}));
  CHECK(ir::print(imported.module).find("floordiv(n, counted)") != std::string::npos);
}

TEST_CASE("a slice that has as many elements for all values of its symbols has that number") {
  onnx::Options options;
  options.bounds["n"] = {1, 8};
  const auto imported = must(onnx::import_bytes(
      model(node("Slice", {"x", "from", "to"}, {"last"}) + node("Add", {"x", "last"}, {"y"}) +
            tensor("from", kI64, {-1}) + tensor("to", kI64, {INT32_MAX}) +
            input("x", kF32, {"n", "4"}) + bytes(12, bytes(1, "y"))),
      "", options));
  // Not min(n, 1), which a gather would read again and again where it is 1.
  const ir::Function &main = imported.module.functions.back();
  for (const ir::Binding &binding : main.blocks.front().bindings)
    CHECK_FALSE((binding.kind == ir::BindingKind::op && ir::op_of(binding) == ir::Op::gather));
}
