// Bounds, buckets and constraints of a plan's symbols; see validate_parts.h.
#include "base/type/element.h"
#include "plan/validate/validate_parts.h"

#include <algorithm>
#include <set>

namespace cugrt::plan {
/// Their bounds hold whatever values a run brings: storage relies on them.
static Status check_buckets(const Function &f) {
  std::set<SymbolId> seen;
  for (const Bucket &bucket : f.buckets) {
    if (bucket.symbol.index >= f.symbols.size() || bucket.of.index >= f.symbols.size())
      return plan_error(f, "a bucket's symbol, or the symbol of a bucket, does not exist");
    const Symbol &symbol = f.symbols[bucket.symbol.index], &of = f.symbols[bucket.of.index];
    if (symbol.source != ir::SymbolSource::bucket || of.source != ir::SymbolSource::parameter)
      return plan_error(f, "symbol " + symbol.name + " is not the bucket of a parameter's symbol");
    if (!seen.insert(bucket.symbol).second)
      return plan_error(f, "symbol " + symbol.name + " is a bucket twice");
    if (!std::is_sorted(bucket.sizes.begin(), bucket.sizes.end()))
      return plan_error(f, "the buckets of symbol " + of.name + " do not ascend");
    if (symbol.bounds.lower > ir::round_up_to_bucket(bucket.sizes, of.bounds.lower) ||
        symbol.bounds.upper < ir::round_up_to_bucket(bucket.sizes, of.bounds.upper))
      return plan_error(f, "the bounds of symbol " + symbol.name + " do not hold its buckets");
  }
  for (uint32_t s = 0; s < f.symbols.size(); ++s)
    if (f.symbols[s].source == ir::SymbolSource::bucket && !seen.count(SymbolId{s}))
      return plan_error(f, "symbol " + f.symbols[s].name + " is a bucket of nothing");
  return {};
}

/// Whether a constraint on them is checked before any of them is used.
static bool are_defined_together(const Function &f, std::span<const SymbolId> symbols) {
  auto is_matched = [&](SymbolId symbol) {
    return f.symbols[symbol.index].source == ir::SymbolSource::match;
  };
  if (std::none_of(symbols.begin(), symbols.end(), is_matched))
    return true;
  for (const Block &block : f.blocks)
    for (const Item &item : block.items)
      if (item.kind == ItemKind::match &&
          std::all_of(symbols.begin(), symbols.end(), [&](SymbolId symbol) {
            return std::find(item.defines.begin(), item.defines.end(), symbol) !=
                   item.defines.end();
          }))
        return true;
  return false;
}

/// They can be kept, and they are of the kind that sizes may rely on.
static Status check_constraints(const Plan &plan, const Function &f) {
  if (f.constraints.size() > ir::kMaxConstraints)
    return plan_error(f, "has too many constraints");
  std::vector<int64_t> lowest;
  for (const Symbol &symbol : f.symbols)
    lowest.push_back(symbol.bounds.lower);
  for (const Constraint &constraint : f.constraints) {
    std::vector<SymbolId> symbols;
    plan.exprs.collect_symbols(constraint.expr, symbols);
    for (SymbolId symbol : symbols)
      if (f.symbols[symbol.index].source == ir::SymbolSource::device || lowest[symbol.index] < 0)
        return plan_error(f, "a constraint names symbol " + f.symbols[symbol.index].name +
                                 ", which is the device's or may be negative");
    if (!are_defined_together(f, symbols))
      return plan_error(
          f, "the symbols of a constraint are not defined by parameters, or all by one match");
    const Result<ir::JointLimit> limit = plan.exprs.joint_limit(constraint);
    if (!limit.ok())
      return plan_error(f, "a constraint " + limit.status().message());
    if (!ir::keeps({&*limit, 1}, lowest))
      return plan_error(f, "a constraint contradicts the bounds of its symbols");
  }
  return {};
}

Status validate_symbols(const Plan &plan, const Function &function) {
  CUGRT_TRY(check_buckets(function));
  return check_constraints(plan, function);
}

Status validate_checked_symbol(const Plan &plan, const Function &f, const Argument &argument) {
  if (argument.bits >= f.symbols.size())
    return plan_error(f, "an argument's device symbol does not exist");
  const Symbol &symbol = f.symbols[argument.bits];
  const Buffer &buffer = f.buffers[argument.index];
  const std::string text = "symbol " + symbol.name;
  if (symbol.source != ir::SymbolSource::device)
    return plan_error(f, text + " is read by a kernel, but does not live in device memory");
  const bool index = argument.dtype == ir::DType::i32 || argument.dtype == ir::DType::i64;
  if (!index || buffer.dtype != argument.dtype ||
      !ir::integer_fits(argument.dtype, symbol.bounds.lower) ||
      !ir::integer_fits(argument.dtype, symbol.bounds.upper))
    return plan_error(f, text + " is read as a dtype that its buffer or its bounds do not have");
  if (!buffer.bytes.valid() || plan.exprs.as_constant(buffer.bytes) !=
                                   std::optional<int64_t>(ir::info(buffer.dtype).bytes_per_block))
    return plan_error(f, text + " is read from %" + buffer.name + ", which is not one element");
  return {};
}

} // namespace cugrt::plan
