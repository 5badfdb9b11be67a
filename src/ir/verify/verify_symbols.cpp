// Verification of functions: symbols, their bounds and buckets, and constraints on them.
#include "ir/verify/verifier.h"

#include "ir/text/text.h"

#include <algorithm>

namespace cugrt::ir {

void FunctionVerifier::define_symbol(SymbolId symbol) {
  symbol_state_[symbol.index] = SymbolState::defined;
  scoped_symbols_.push_back(symbol);
}

/// Whether it says something that can be kept.
bool FunctionVerifier::constraint(const Constraint &constraint) {
  const std::string quoted = "constraint '" +
                             m_.exprs.to_string(constraint.expr, f_.symbol_names()) +
                             " <= " + std::to_string(constraint.most) + "'";
  scratch_.clear();
  m_.exprs.collect_symbols(constraint.expr, scratch_);
  for (SymbolId s : scratch_) {
    if (s.index >= f_.symbols.size())
      return fail(constraint.location,
                  "symbol number " + std::to_string(s.index) + " does not exist");
    const Symbol &symbol = f_.symbols[s.index];
    if (symbol.source == SymbolSource::device)
      return fail(constraint.location, "symbol '" + symbol.name +
                                           "' is read on the device and cannot stand in a "
                                           "constraint; its bounds stand where it is read");
    if (symbol.bounds.lower < 0)
      return fail(constraint.location, "symbol '" + symbol.name +
                                           "' of a constraint may be negative; give it a lower "
                                           "bound of 0 or more");
  }
  Result<JointLimit> limit = m_.exprs.joint_limit(constraint);
  if (!limit.ok())
    return fail(constraint.location,
                quoted + " " + limit.status().message() + "; the sum of at most " +
                    std::to_string(kMaxConstraintTerms) + " products of at most " +
                    std::to_string(kMaxConstraintDegree) +
                    " symbols, with coefficients that are not negative, can be limited");
  std::vector<int64_t> lowest;
  for (const Symbol &symbol : f_.symbols)
    lowest.push_back(symbol.bounds.lower);
  if (!keeps({&*limit, 1}, lowest))
    return fail(constraint.location, quoted + " contradicts the symbols' lower bounds");
  return true;
}

/// A constraint is checked where its symbols get their values, and holds from there on. If its
/// symbols had several sources, it would be believed too early for the first of them.
void FunctionVerifier::constraint_matches(const Constraint &constraint) {
  scratch_.clear();
  m_.exprs.collect_symbols(constraint.expr, scratch_);
  for (SymbolId s : scratch_)
    if (match_of_[s.index] != match_of_[scratch_[0].index])
      return void(fail(constraint.location,
                       "the symbols of a constraint are defined by parameters, "
                       "or all by one match"));
}

/// Symbols of parameters are defined by standing bare in one of them.
void FunctionVerifier::symbol_sources() {
  for (const Parameter &p : f_.params) {
    const Type &t = type(p.value);
    bool defines = t.kind == TypeKind::tensor || t.kind == TypeKind::shape ||
                   (t.kind == TypeKind::scalar && t.scalar == ScalarKind::integer);
    for (ExprId e : t.dims) {
      const ExprNode &n = m_.exprs[e];
      if (!defines || n.kind != ExprKind::symbol ||
          static_cast<uint64_t>(n.value) >= f_.symbols.size())
        continue;
      auto number = static_cast<uint32_t>(n.value);
      if (f_.symbols[number].source == SymbolSource::parameter)
        symbol_state_[number] = SymbolState::defined;
    }
  }
  for (size_t i = 0; i < f_.symbols.size(); ++i) {
    const Symbol &s = f_.symbols[i];
    if (s.source == SymbolSource::parameter && symbol_state_[i] == SymbolState::undefined)
      fail(s.location, "symbol '" + s.name +
                           "' has no definition: it stands alone in no parameter's dimension, and "
                           "no integer parameter, match or read defines it");
    if (s.bounds.lower > s.bounds.upper)
      fail(s.location, "the bounds of symbol '" + s.name +
                           "' contradict: " + std::to_string(s.bounds.lower) + " is above " +
                           std::to_string(s.bounds.upper));
    buckets(s);
    if (s.source == SymbolSource::bucket)
      symbol_state_[i] = SymbolState::defined;
  }
  if (f_.constraints.size() > kMaxConstraints)
    fail(f_.location, "function @" + f_.name + " has more than " + std::to_string(kMaxConstraints) +
                          " constraints");
  std::vector<JointLimit> limits;
  for (const Constraint &c : f_.constraints)
    if (limits.size() < kMaxConstraints && constraint(c))
      limits.push_back(*m_.exprs.joint_limit(c));
  bounds_ = SymbolDomain(f_.symbol_bounds(), std::move(limits));
  corners();
}

/// Values that a run may bring, with the symbols as small and as large as can be.
void FunctionVerifier::corners() {
  std::vector<int64_t> &lowest = corners_.emplace_back();
  for (const Interval &bounds : bounds_.box())
    lowest.push_back(bounds.lower);
  for (bool last_first : {false, true}) {
    if (last_first && f_.constraints.empty())
      return; // the same
    std::vector<int64_t> &highest = corners_.emplace_back(highest_point(bounds_, last_first));
    for (size_t i = 0; i < f_.symbols.size(); ++i)
      if (const uint32_t of = f_.symbols[i].bucket_of; of < f_.symbols.size())
        highest[i] = round_up_to_bucket(f_.symbols[of].buckets, highest[of]);
  }
}

/// A symbol that has buckets, or is one.
void FunctionVerifier::buckets(const Symbol &s) {
  const std::vector<int64_t> &sizes = s.buckets;
  if (sizes.size() > kMaxBuckets)
    fail(s.location,
         "symbol '" + s.name + "' has more than " + std::to_string(kMaxBuckets) + " buckets");
  if (!sizes.empty() && (s.source != SymbolSource::parameter || f_.is_private))
    fail(s.location, "symbol '" + s.name +
                         "' has buckets: that is for symbols that parameters of public functions "
                         "define");
  if (!sizes.empty() && sizes[0] < 1)
    fail(s.location, "symbol '" + s.name + "' has a bucket of " + std::to_string(sizes[0]));
  for (size_t i = 1; i < sizes.size(); ++i)
    if (sizes[i] <= sizes[i - 1])
      fail(s.location, "the buckets of symbol '" + s.name + "' do not ascend");
  if (!sizes.empty() && sizes.back() > s.bounds.upper)
    fail(s.location, "symbol '" + s.name + "' has a bucket of " + std::to_string(sizes.back()) +
                         " above its upper bound " + std::to_string(s.bounds.upper));
  if ((s.source == SymbolSource::bucket) != (s.bucket_of != UINT32_MAX))
    fail(s.location, "symbol '" + s.name + "' is a bucket of no symbol");
  else if (s.source == SymbolSource::bucket &&
           (s.bucket_of >= f_.symbols.size() || f_.symbols[s.bucket_of].buckets.empty()))
    fail(s.location, "symbol '" + s.name + "' is a bucket of a symbol that has none");
  else if (s.source == SymbolSource::bucket && s.bounds != bucket_bounds(f_.symbols[s.bucket_of]))
    fail(s.location, "the bounds of symbol '" + s.name + "' are not those of the buckets");
}

} // namespace cugrt::ir
