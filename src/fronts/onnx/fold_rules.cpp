// See fold_rules.h.
#include "fronts/onnx/fold_rules.h"

#include "base/type/element.h"

#include <unordered_map>

namespace cugrt::onnx::fold {

uint32_t set_of(ir::DType dtype) {
  if (ir::scalar_bytes(dtype) == 0)
    return kNothing;
  switch (ir::info(dtype).kind) {
  case ir::DTypeKind::boolean:
    return kBool;
  case ir::DTypeKind::signed_integer:
    return dtype == ir::DType::i32 || dtype == ir::DType::i64 ? kIndex : kShort;
  case ir::DTypeKind::unsigned_integer:
    return dtype == ir::DType::u64 ? kWide : kUnsigned;
  case ir::DTypeKind::floating:
    return kReal;
  case ir::DTypeKind::block:
    break;
  }
  return kNothing;
}

namespace {

using ir::Op;

const std::unordered_map<std::string_view, Found> &rules() {
  constexpr uint32_t kAll = kNumber | kWide, kEqual = kBool | kNumber;
  static const std::vector<Rule> list{
      {{{"Ceil", Op::ceil},
        {"Exp", Op::exp},
        {"Floor", Op::floor},
        {"Log", Op::log},
        {"Reciprocal", Op::reciprocal},
        {"Round", Op::round},
        {"Sqrt", Op::sqrt}},
       Fold::unary,
       1,
       1,
       kReal},
      {{{"Abs", Op::abs}}, Fold::unary, 1, 1, kNumber},
      {{{"Neg", Op::neg}}, Fold::unary, 1, 1, kShort | kIndex | kReal},
      {{{"Not", Op::logical_not}}, Fold::unary, 1, 1, kBool},
      {{{"Add", Op::add}, {"Mul", Op::mul}, {"Sub", Op::sub}}, Fold::binary, 2, 2, kAll, kAll},
      {{{"Max", Op::maximum}, {"Min", Op::minimum}},
       Fold::binary,
       1,
       SIZE_MAX,
       kNumber,
       kNumber,
       kNumber},
      {{{"Div", Op::div},
        {"Less", Op::less},
        {"LessOrEqual", Op::less_equal},
        {"Greater", Op::greater},
        {"GreaterOrEqual", Op::greater_equal}},
       Fold::binary,
       2,
       2,
       kNumber,
       kNumber},
      {{{"Equal", Op::equal}}, Fold::binary, 2, 2, kEqual, kEqual},
      {{{"Mod", Op::floor_mod}}, Fold::binary, 2, 2, kInteger, kInteger},
      {{{"Pow", Op::pow}}, Fold::binary, 2, 2, kReal, kReal},
      {{{"And", Op::logical_and}, {"Or", Op::logical_or}, {"Xor", Op::logical_xor}},
       Fold::binary,
       2,
       2,
       kBool,
       kBool},
      {{{"Clip"}}, Fold::clip, 1, 3, kNumber, kNumber, kNumber},
      {{{"Cast"}}, Fold::cast, 1, 1, kAny},
      {{{"CastLike"}}, Fold::cast, 2, 2, kAny, kAny},
      {{{"Where"}}, Fold::where, 3, 3, kBool, kAny, kAny},
      {{{"ConstantOfShape"}}, Fold::constant_of_shape, 1, 1, kIndex},
      {{{"OneHot"}}, Fold::one_hot, 3, 3, kIndex, kIndex, kAny},
      {{{"Range"}}, Fold::range, 3, 3, kNumber, kNumber, kNumber},
      {{{"ReduceMax", Op::maximum}, {"ReduceMin", Op::minimum}},
       Fold::reduce,
       1,
       2,
       kNumber,
       kIndex},
      {{{"ReduceProd", Op::mul}, {"ReduceSum", Op::add}}, Fold::reduce, 1, 2, kInteger, kIndex},
      {{{"Identity"}, {"Transpose"}}, Fold::move, 1, 1, kAny},
      {{{"Expand"}, {"Gather"}, {"Reshape"}, {"Tile"}}, Fold::move, 2, 2, kAny, kIndex},
      {{{"Split"}, {"Squeeze"}, {"Unsqueeze"}}, Fold::move, 1, 2, kAny, kIndex},
      {{{"Slice"}}, Fold::move, 1, 5, kAny, kIndex, kIndex},
      {{{"Concat"}}, Fold::move, 1, SIZE_MAX, kAny, kAny, kAny},
  };
  static const auto made = [] {
    std::unordered_map<std::string_view, Found> table;
    for (const Rule &rule : list)
      for (const Name &name : rule.names)
        table.emplace(name.onnx, Found{&rule, name.op});
    return table;
  }();
  return made;
}

} // namespace

Found find_rule(std::string_view op) {
  const auto found = rules().find(op);
  return found == rules().end() ? Found() : found->second;
}

} // namespace cugrt::onnx::fold
