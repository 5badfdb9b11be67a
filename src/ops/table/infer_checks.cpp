// Functions that rules of several ops share: checks of operands, broadcasting, windows.
#include "ops/table/infer_op.h"

#include <algorithm>

namespace cugrt::ir {

std::string Inference::text(ExprId e) const {
  return "'" +
         m.exprs.to_string(e, function ? function->symbol_names() : std::vector<std::string>()) +
         "'";
}

/// Without a function, no symbol is negative and nothing else is known of symbols.
static std::vector<Interval> open_bounds(const ExprPool &exprs, ExprId e) {
  std::vector<SymbolId> symbols;
  exprs.collect_symbols(e, symbols);
  std::vector<Interval> bounds;
  for (SymbolId s : symbols)
    bounds.resize(std::max<size_t>(bounds.size(), s.index + 1), Interval{0, INT64_MAX});
  return bounds;
}

Interval Inference::range_of(ExprId e) const {
  if (const auto number = m.exprs.as_constant(e)) // whatever the symbols are
    return {*number, *number};
  return function ? m.exprs.range(e, function->symbol_domain(m.exprs))
                  : m.exprs.range(e, open_bounds(m.exprs, e));
}

bool Inference::never_negative(ExprId e) const {
  if (const auto number = m.exprs.as_constant(e))
    return *number >= 0;
  return function ? m.exprs.never_negative(e, function->symbol_domain(m.exprs))
                  : m.exprs.never_negative(e, open_bounds(m.exprs, e));
}

Types Inference::one(DType dtype, Dims dims) const {
  if (dims.size() > kMaxRank)
    return wrong("the result has rank " + std::to_string(dims.size()) + ", at most " +
                 std::to_string(kMaxRank) + " is supported");
  return std::vector<TypeId>{m.types.tensor(dtype, std::move(dims))};
}

Status Inference::check_rank(size_t i, size_t rank_wanted) const {
  if (rank(i) == rank_wanted)
    return {};
  return wrong(number(i) + " has rank " + std::to_string(rank(i)) + ", " +
               std::to_string(rank_wanted) + " is needed");
}

Status Inference::check_float(size_t i) const {
  if (info(type(i).dtype).kind == DTypeKind::floating)
    return {};
  return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
               ", a float dtype is needed");
}

Status Inference::check_number(size_t i) const {
  const DTypeInfo &row = info(type(i).dtype);
  if (row.kind == DTypeKind::floating ||
      (row.elements_per_block == 1 && row.kind != DTypeKind::boolean))
    return {};
  return wrong(number(i) + " has dtype " + std::string(row.name) +
               ", a float or an integer of whole bytes is needed");
}

Status Inference::check_dtype(size_t i, DType wanted) const {
  if (type(i).dtype == wanted)
    return {};
  return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) + ", " +
               std::string(info(wanted).name) + " is needed");
}

Status Inference::check_ids(size_t i) const {
  if (type(i).dtype == DType::i32 || type(i).dtype == DType::i64)
    return {};
  return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
               ", i32 or i64 is needed");
}

Status Inference::check_integer(size_t i) const {
  const DTypeInfo &row = info(type(i).dtype);
  if (row.elements_per_block == 1 &&
      (row.kind == DTypeKind::signed_integer || row.kind == DTypeKind::unsigned_integer))
    return {};
  return wrong(number(i) + " has dtype " + std::string(row.name) +
               ", an integer of whole bytes is needed");
}

Status Inference::check_whole_bytes(size_t i) const {
  if (info(type(i).dtype).elements_per_block == 1)
    return {};
  return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
               ", whose elements are no whole bytes");
}

Status Inference::check_same_dtype(size_t i) const {
  if (type(i).dtype == type(0).dtype)
    return {};
  return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
               " and operand 1 has " + std::string(info(type(0).dtype).name) + "; insert a cast");
}

Status Inference::check_equal(ExprId a, ExprId b, const std::string &what) const {
  if (a == b)
    return {};
  bool constants = known(a) && known(b);
  return wrong(what + (constants ? " differ: " : " cannot be shown to be equal: ") + text(a) +
               " and " + text(b) + (constants ? "" : "; use match to require it"));
}

/// Whether a list is empty by the op's row: its length follows from operands, and its elements are
/// 1s, or 0s, where it is not given.
static bool follows_operands(Op op, std::string_view name) {
  return std::ranges::any_of(op_attributes(op), [&](const OpAttribute &attribute) {
    return attribute.name == name &&
           attribute.default_value == AttributeValue(std::vector<int64_t>());
  });
}

Result<std::vector<int64_t>> Inference::window_list(std::string_view name, size_t axes,
                                                    int64_t least) const {
  std::vector<int64_t> list = op_integers(op, attributes, name);
  if (list.empty() && follows_operands(op, name))
    list.assign(axes, least);
  const bool fits = std::all_of(list.begin(), list.end(), [&](int64_t value) {
    return value >= least && value <= kMaxWindow;
  });
  if (list.size() != axes || !fits)
    return wrong("attribute '" + std::string(name) + "' needs " +
                 (axes == 1   ? "one integer"
                  : axes == 2 ? "two integers"
                              : "three integers") +
                 " from " + std::to_string(least) + " to " + std::to_string(kMaxWindow));
  return list;
}

Result<std::vector<std::array<int64_t, 2>>> Inference::paddings(size_t axes,
                                                                std::string_view name) const {
  std::vector<int64_t> list = op_integers(op, attributes, name);
  if (list.empty() && follows_operands(op, name))
    list.assign(axes, 0);
  const bool sides = list.size() == 2 * axes; // before all of them, then after
  if (!sides)
    CUGRT_TRY(window_list(name, axes, 0).take_status());
  std::vector<std::array<int64_t, 2>> result;
  for (size_t i = 0; i < axes; ++i) {
    result.push_back({list[i], list[sides ? axes + i : i]});
    for (int64_t value : result.back())
      if (value < 0 || value > kMaxWindow)
        return wrong("attribute '" + std::string(name) + "' has integers from 0 to " +
                     std::to_string(kMaxWindow));
  }
  return result;
}

Result<size_t> Inference::axis_of(int64_t axis, size_t i) const {
  if (auto a = normalize_axis(axis, rank(i)))
    return *a;
  return wrong("axis " + std::to_string(axis) + " is outside of rank " + std::to_string(rank(i)));
}

Result<ExprId> Inference::broadcast_dim(ExprId a, ExprId b) const {
  if (a == b || known(b) == 1)
    return a;
  if (known(a) == 1)
    return b;
  CUGRT_TRY(check_equal(a, b, "dimensions to broadcast"));
  return a;
}

/// NumPy's rule: aligned at the last dimension; 1 stretches; missing ones are 1.
Result<Dims> Inference::broadcast(std::span<const ExprId> a, std::span<const ExprId> b) const {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) { // i counts from the last dimension
    ExprId &dim = out[out.size() - 1 - i];
    if (i >= a.size())
      dim = b[b.size() - 1 - i];
    else if (i >= b.size())
      dim = a[a.size() - 1 - i];
    else {
      CUGRT_ASSIGN(dim, broadcast_dim(a[a.size() - 1 - i], b[b.size() - 1 - i]));
    }
  }
  return out;
}

Status Inference::check_vector(size_t i, ExprId length, std::optional<DType> dtype) const {
  if (!has(i))
    return {};
  if (type(i).dtype != dtype)
    CUGRT_TRY(check_same_dtype(i));
  CUGRT_TRY(check_rank(i, 1));
  return check_equal(dims(i)[0], length,
                     "the length of " + number(i) + " and the dimension it goes with");
}

} // namespace cugrt::ir
