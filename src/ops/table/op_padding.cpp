// Functions that padding rules of all ops share. See op_padding.h.
#include "ops/table/op_padding.h"

#include <algorithm>

namespace cugrt::padding {

bool PaddedSymbols::is_padded(ExprId expr) const {
  std::vector<ir::SymbolId> used;
  exprs.collect_symbols(expr, used);
  return std::any_of(used.begin(), used.end(), [&](ir::SymbolId symbol) {
    return symbol.index < padded_.size() && padded_[symbol.index];
  });
}

std::string PaddedSymbols::names_of(std::span<const ExprId> list) const {
  std::vector<ir::SymbolId> used;
  for (ExprId expr : list)
    exprs.collect_symbols(expr, used);
  std::string names;
  for (size_t s = 0; s < padded_.size(); ++s)
    if (padded_[s] && std::find(used.begin(), used.end(), ir::SymbolId{uint32_t(s)}) != used.end())
      names += (names.empty() ? "" : ", ") + function_.symbols[s].name;
  return names;
}

Facts PaddedSymbols::plain(std::vector<ExprId> dims) const {
  Facts facts;
  for (ExprId dim : dims)
    facts.dims.push_back({{dim}, is_padded(dim) ? Fill::any : Fill::zero});
  return facts;
}

ExprId PaddedSymbols::quotient(ExprId a, ExprId b) {
  if (a == b)
    return exprs.constant(1);
  if (const std::optional<int64_t> divisor = exprs.as_constant(b)) {
    if (*divisor <= 0)
      return {};
    const ExprId whole = exprs.floordiv(a, b);
    return exprs.mul(whole, b) == a ? whole : ExprId();
  }
  const ir::ExprNode by = exprs[b], of = exprs[a];
  if (by.kind == ir::ExprKind::mul) {
    const ExprId part = quotient(a, by.a);
    return part.valid() ? quotient(part, by.b) : part;
  }
  if (of.kind != ir::ExprKind::mul)
    return {};
  if (const ExprId part = quotient(of.a, b); part.valid())
    return exprs.mul(part, of.b);
  const ExprId part = quotient(of.b, b);
  return part.valid() ? exprs.mul(of.a, part) : part;
}

bool PaddingOperand::is_number() const {
  return std::all_of(facts.dims.begin(), facts.dims.end(),
                     [](const Dim &dim) { return padding::is_number(dim.fill); });
}

Fill either(Fill a, Fill b) {
  return a == b ? a : is_number(a) && is_number(b) ? Fill::finite : Fill::any;
}

OpPadding::OpPadding(PaddedSymbols &all, Op op, std::span<const ir::Attribute> attributes,
                     std::vector<PaddingOperand> operands, std::vector<std::vector<ExprId>> results)
    : all_(all), op_(op), attributes_(attributes), operands_(std::move(operands)) {
  for (const PaddingOperand &operand : operands_)
    covered_.emplace_back(operand.dims.size());
  for (std::vector<ExprId> &dims : results) {
    sources_.emplace_back(dims.size());
    results_.push_back(all_.plain(std::move(dims)));
    for (const PaddingOperand &operand : operands_)
      if (!padding::is_number(operand.facts.all))
        results_.back().all = Fill::any;
  }
}

Result<std::vector<Facts>> OpPadding::run() {
  switch (op_) {
#define rule(name) name()
#define CUGRT_OP(name, operands, results, RULE, ...)                                               \
  case Op::name:                                                                                   \
    CUGRT_TRY(RULE);                                                                               \
    break;
#include "ops/table/ops.def"
  }
  for (size_t i = 0; i < operands_.size(); ++i)
    for (size_t d = 0; d < rank(i); ++d)
      if (is_padded(i, d) && !covered_[i][d] && !ir::is_shape_operand(op_, i))
        return refuse(i, d, "depends on");
  for (Facts &facts : results_)
    for (Dim &dim : facts.dims)
      if (dim.parts.size() == 1 && !all_.is_padded(dim.parts[0]))
        dim.fill = Fill::zero; // nothing is added
  return results_;
}

Status OpPadding::refuse(size_t operand, size_t dim, const char *how, bool may_choose) const {
  const std::string choose =
      may_choose ? "say what added elements are by where, with a condition that is false there, or "
                 : "";
  return Status::error(Code::unsupported,
                       std::string(how) + " what is added to %" + operands_[operand].name +
                           " for the buckets of symbol " +
                           all_.names_of(std::span(&operands_[operand].dims[dim], 1)) +
                           ", and its results would depend on the bucket; " + choose +
                           "take the buckets away, or this op out of the function");
}

Status OpPadding::take(size_t operand, size_t dim, Fill harmless) {
  if (!is_padded(operand, dim))
    return {};
  const Fill fill = operands_[operand].facts.dims[dim].fill;
  if (harmless == Fill::any || fill != harmless)
    return refuse(operand, dim, "runs along", harmless != Fill::any);
  covered_[operand][dim] = true;
  return {};
}

Status OpPadding::carry(size_t operand, size_t dim, size_t to, size_t result) {
  if (!is_padded(operand, dim))
    return {};
  const Dim &from = operands_[operand].facts.dims[dim];
  auto &sources = sources_[result][to];
  Dim &target = results_[result].dims[to];
  if (!sources.empty() && target.parts != from.parts)
    return refuse(operand, dim, "would mix with others");
  sources.emplace_back(operand, dim);
  target.parts = from.parts;
  covered_[operand][dim] = true;
  return {};
}

Status OpPadding::follow(size_t operand, size_t dim, size_t to, size_t result) {
  if (!is_padded(operand, dim))
    return {};
  if (operands_[operand].facts.dims[dim].parts.size() > 1)
    return refuse(operand, dim, "runs along");
  sources_[result][to].emplace_back(operand, dim);
  covered_[operand][dim] = true;
  return {};
}

Status OpPadding::align(size_t operand, size_t without) {
  const size_t behind = results_[0].dims.size() - rank(operand);
  for (size_t d = 0; d + without < rank(operand); ++d)
    CUGRT_TRY(carry(operand, d, behind + d));
  return {};
}

Fill OpPadding::fill(size_t i, size_t to, size_t result) const {
  for (auto [operand, dim] : sources_[result][to])
    if (operand == i)
      return operands_[i].facts.dims[dim].fill;
  return operands_[i].is_number() ? operands_[i].facts.all : Fill::any;
}

/// The fill of sums of products of all operands' elements: 0 if one is 0 and the rest are
/// numbers.
Fill OpPadding::linear(size_t to) const {
  bool zero = false, number = true;
  for (size_t i = 0; i < operands_.size(); ++i)
    if (has(i)) {
      const Fill one = fill(i, to);
      zero = zero || one == Fill::zero;
      number = number && padding::is_number(one);
    }
  return !number ? Fill::any : zero ? Fill::zero : Fill::finite;
}

/// The fill after an op that keeps zeros, and makes numbers of numbers.
Fill OpPadding::like_first(size_t to) const {
  const Fill first = fill(0, to);
  return first == Fill::zero ? first : padding::is_number(first) ? Fill::finite : Fill::any;
}

} // namespace cugrt::padding
