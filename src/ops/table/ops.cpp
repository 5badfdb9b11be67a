// The op table: attributes of every op, their defaults and checks of their kinds.
#include "ops/table/ops.h"

#include "base/check.h"

#include <limits>
#include <unordered_map>

namespace cugrt::ir {

namespace {

// The fields of a row.
#define takes(least, most) least, most, UINT32_MAX << least
#define takes_all(least, most) least, most, 0
#define takes_without(least, most, operand) least, most, UINT32_MAX << least | 1U << operand
#define gives(results) results
#define fuse(pattern) OpPattern::pattern
#define part(which) OpPart::which
#define zeros(what) OpZeros::what
#define precision(what) OpPrecision::what
#define wide(which) OpWide::which
#define storage(whose) OpStorage::whose
#define shapes(which) OpShapes::which
#define images(which) OpImages::which
#define counts(rate, operations) OpRate::rate
constexpr OpInfo kOps[] = {
#define CUGRT_OP(name, TAKES, GIVES, rule, FUSE, PART, ZEROS, PRECISION, WIDE, STORAGE, SHAPES,    \
                 IMAGES, COUNTS, attributes)                                                       \
  {#name, TAKES, GIVES, FUSE, PART, ZEROS, PRECISION, WIDE, STORAGE, SHAPES, IMAGES, COUNTS},
#include "ops/table/ops.def"
};
#undef takes
#undef takes_all
#undef takes_without
#undef gives
#undef fuse
#undef part
#undef zeros
#undef precision
#undef wide
#undef storage
#undef shapes
#undef images
#undef counts

using Ints = std::vector<int64_t>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

OpAttribute flag(std::string_view name, bool value) {
  return {name, AttributeKind::boolean, false, value};
}
OpAttribute integer(std::string_view name, int64_t value) {
  return {name, AttributeKind::integer, false, value};
}
OpAttribute number(std::string_view name, double value) {
  return {name, AttributeKind::floating, false, value};
}
OpAttribute word(std::string_view name, std::string_view value, std::string_view words) {
  return {name, AttributeKind::string, false, std::string(value), words};
}
template <class... Elements> OpAttribute integers(std::string_view name, Elements... elements) {
  return {name, AttributeKind::integers, false, Ints{elements...}};
}
OpAttribute needs_integer(std::string_view name) { return {name, AttributeKind::integer, true}; }
OpAttribute needs_integers(std::string_view name) { return {name, AttributeKind::integers, true}; }
OpAttribute needs_dtype(std::string_view name) { return {name, AttributeKind::dtype, true}; }

const std::vector<std::vector<OpAttribute>> &attribute_table() {
#define dtype(name, value)                                                                         \
  OpAttribute { name, AttributeKind::dtype, false, DTypeLiteral(DType::value) }
#define has(...)                                                                                   \
  std::vector<OpAttribute> { __VA_ARGS__ }
#define CUGRT_OP(name, operands, results, rule, fuse, part, zeros, precision, wide, storage,       \
                 shapes, images, counts, HAS)                                                      \
  HAS,
  static const std::vector<std::vector<OpAttribute>> table = {
#include "ops/table/ops.def"
  };
#undef has
#undef dtype
  return table;
}

} // namespace

std::optional<size_t> word_number(std::string_view words, std::string_view word) {
  for (size_t number = 0; !words.empty(); ++number) {
    const std::string_view first = words.substr(0, words.find(' '));
    if (first == word)
      return number;
    words.remove_prefix(std::min(first.size() + 1, words.size()));
  }
  return std::nullopt;
}

size_t op_count() { return std::size(kOps); }

const OpInfo &op_info(Op op) {
  CUGRT_CHECK(static_cast<size_t>(op) < std::size(kOps));
  return kOps[static_cast<size_t>(op)];
}

std::optional<Op> op_from_name(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, Op> map;
    for (size_t i = 0; i < std::size(kOps); ++i)
      map.emplace(kOps[i].name, static_cast<Op>(i));
    return map;
  }();
  auto it = index.find(name);
  return it == index.end() ? std::nullopt : std::optional(it->second);
}

std::span<const OpAttribute> op_attributes(Op op) {
  CUGRT_CHECK(static_cast<size_t>(op) < std::size(kOps));
  return attribute_table()[static_cast<size_t>(op)];
}

AttributeValue op_attribute(Op op, std::span<const Attribute> attributes, std::string_view name) {
  for (const Attribute &a : attributes)
    if (a.name == name)
      return a.value;
  for (const OpAttribute &a : op_attributes(op))
    if (a.name == name)
      return a.default_value;
  CUGRT_CHECK(!"the op has an attribute of this name");
  return {};
}

OpPattern op_pattern(const Module &module, Op op, std::span<const TypeId> operands, TypeId result) {
  const OpPattern pattern = op_info(op).pattern;
  if (pattern != OpPattern::broadcast)
    return pattern;
  for (TypeId operand : operands)
    if (operand.valid() && module.types[operand].kind == TypeKind::tensor &&
        module.types[operand].dims == module.types[result].dims)
      return OpPattern::elementwise;
  return pattern;
}

template <class T>
static T get(Op op, std::span<const Attribute> attributes, std::string_view name) {
  AttributeValue value = op_attribute(op, attributes, name);
  CUGRT_CHECK(std::holds_alternative<T>(value));
  return std::get<T>(std::move(value));
}

int64_t op_integer(Op op, std::span<const Attribute> attributes, std::string_view name) {
  return get<int64_t>(op, attributes, name);
}

double op_float(Op op, std::span<const Attribute> attributes, std::string_view name) {
  AttributeValue value = op_attribute(op, attributes, name);
  if (const auto *integer = std::get_if<int64_t>(&value))
    return static_cast<double>(*integer);
  CUGRT_CHECK(std::holds_alternative<double>(value));
  return std::get<double>(value);
}

bool op_bool(Op op, std::span<const Attribute> attributes, std::string_view name) {
  return get<bool>(op, attributes, name);
}

std::string op_string(Op op, std::span<const Attribute> attributes, std::string_view name) {
  return get<std::string>(op, attributes, name);
}

size_t op_word(Op op, std::span<const Attribute> attributes, std::string_view name) {
  const std::string word = op_string(op, attributes, name);
  for (const OpAttribute &attribute : op_attributes(op))
    if (attribute.name == name)
      if (const std::optional<size_t> number = word_number(attribute.words, word))
        return *number;
  CUGRT_CHECK(!"the op has the attribute, and inference has checked its word");
  return 0;
}

std::vector<int64_t> op_integers(Op op, std::span<const Attribute> attributes,
                                 std::string_view name) {
  return get<Ints>(op, attributes, name);
}

DType op_dtype(Op op, std::span<const Attribute> attributes, std::string_view name) {
  return get<DTypeLiteral>(op, attributes, name).dtype;
}

std::optional<size_t> normalize_axis(int64_t axis, size_t rank) {
  auto size = static_cast<int64_t>(rank);
  if (axis < -size || axis >= size)
    return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + size : axis);
}

} // namespace cugrt::ir
