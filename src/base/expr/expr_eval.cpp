// Walks over expressions: evaluation, bounds, substitution, copying.
//
// An expression is a graph whose nodes may be shared, and written out it may be exponentially
// larger. Small ones (nearly all) are walked as trees; for the others each node's result is kept.
#include "base/check.h"
#include "base/expr/expr_apply.h"
#include "base/expr/joint_bounds.h"

#include <unordered_map>

namespace cugrt::ir {

namespace {

constexpr uint32_t kTreeWalkLimit = 4096;

template <class T> class Memo {
public:
  Memo(const ExprPool &pool, ExprId root, bool always = false)
      : enabled_(always || pool.tree_size(root) > kTreeWalkLimit) {}
  const T *find(ExprId id) const {
    if (!enabled_)
      return nullptr;
    auto it = map_.find(id.index);
    return it == map_.end() ? nullptr : &it->second;
  }
  T put(ExprId id, T value) {
    if (enabled_)
      map_.emplace(id.index, value);
    return value;
  }

private:
  bool enabled_;
  std::unordered_map<uint32_t, T> map_;
};

// --- Evaluation ---

class Evaluator {
public:
  Evaluator(const ExprPool &pool, ExprId root, std::span<const int64_t> symbols)
      : pool_(pool), symbols_(symbols), memo_(pool, root) {}

  /// The first expression that has no value; valid after eval() gave none.
  ExprId failed;

  std::optional<int64_t> eval(ExprId id) {
    const ExprNode &n = pool_[id];
    if (n.kind == ExprKind::constant)
      return n.value;
    if (n.kind == ExprKind::symbol) {
      if (static_cast<uint64_t>(n.value) < symbols_.size())
        return symbols_[static_cast<size_t>(n.value)];
      return fail(id);
    }
    if (const int64_t *known = memo_.find(id))
      return *known;
    auto a = eval(n.a);
    if (!a)
      return std::nullopt;
    if (n.kind == ExprKind::select) {
      auto chosen = eval(*a ? n.b : n.c);
      return chosen ? std::optional(memo_.put(id, *chosen)) : std::nullopt;
    }
    auto b = eval(n.b);
    if (!b)
      return std::nullopt;
    auto value = apply(n.kind, *a, *b);
    return value ? std::optional(memo_.put(id, *value)) : fail(id);
  }

private:
  std::nullopt_t fail(ExprId id) {
    failed = id;
    return std::nullopt;
  }

  const ExprPool &pool_;
  std::span<const int64_t> symbols_;
  Memo<int64_t> memo_;
};

// --- Bounds ---

template <class F>
WideInterval corners(WideInterval a, std::span<const Wide> divisors, const F &f) {
  WideInterval out{kInfinity, -kInfinity};
  for (Wide x : {a.lower, a.upper})
    for (Wide y : divisors) {
      Wide v = f(x, y);
      out.lower = std::min(out.lower, v);
      out.upper = std::max(out.upper, v);
    }
  return out;
}

// Quotients are monotone in the divisor on each side of 0, so its ends on each side are corners.
WideInterval div_range(WideInterval a, WideInterval b, bool ceil) {
  Wide divisors[4];
  size_t count = 0;
  for (Wide d : {b.lower, b.upper, Wide(-1), Wide(1)})
    if (d != 0 && d >= b.lower && d <= b.upper)
      divisors[count++] = d;
  if (count == 0)
    return {-kInfinity, kInfinity};
  return corners(a, std::span(divisors, count),
                 [&](Wide x, Wide y) { return div_bound(x, y, ceil); });
}

WideInterval mod_range(WideInterval a, WideInterval b) {
  if (b.lower == b.upper && b.lower > 0 && !infinite(b.lower) && !infinite(a.lower) &&
      !infinite(a.upper) &&
      div_bound(a.lower, b.lower, false) == div_bound(a.upper, b.lower, false)) {
    Wide base = div_bound(a.lower, b.lower, false) * b.lower;
    return {a.lower - base, a.upper - base};
  }
  WideInterval out{0, 0};
  if (b.lower < 0)
    out.lower = infinite(b.lower) ? b.lower : b.lower + 1;
  if (b.upper > 0)
    out.upper = infinite(b.upper) ? b.upper : b.upper - 1;
  if (b.lower > 0 && a.lower >= 0)
    out.upper = std::min(out.upper, a.upper); // never above the dividend
  return out;
}

WideInterval truth(bool always, bool never) {
  return {always ? Wide(1) : Wide(0), never ? Wide(0) : Wide(1)};
}

WideInterval combine(ExprKind kind, WideInterval a, WideInterval b) {
  bool disjoint = a.upper < b.lower || b.upper < a.lower;
  bool same_point = a.lower == a.upper && b.lower == b.upper && a.lower == b.lower;
  switch (kind) {
  case ExprKind::add:
    return {clamp(a.lower + b.lower), clamp(a.upper + b.upper)};
  case ExprKind::sub:
    return {clamp(a.lower - b.upper), clamp(a.upper - b.lower)};
  case ExprKind::mul:
    return mul_interval(a, b);
  case ExprKind::floordiv:
    return div_range(a, b, false);
  case ExprKind::ceildiv:
    return div_range(a, b, true);
  case ExprKind::mod:
    return mod_range(a, b);
  case ExprKind::min:
    return {std::min(a.lower, b.lower), std::min(a.upper, b.upper)};
  case ExprKind::max:
    return {std::max(a.lower, b.lower), std::max(a.upper, b.upper)};
  case ExprKind::eq:
    return truth(same_point, disjoint);
  case ExprKind::ne:
    return truth(disjoint, same_point);
  case ExprKind::lt:
    return truth(a.upper < b.lower, a.lower >= b.upper);
  case ExprKind::le:
    return truth(a.upper <= b.lower, a.lower > b.upper);
  case ExprKind::constant:
  case ExprKind::symbol:
  case ExprKind::select:
    break;
  }
  return {-kInfinity, kInfinity};
}

/// Steps that may be spent on what limits say of one expression, and twice that on all of its
/// parts: with all the limits that a function may have some tenths of a millisecond.
constexpr uint32_t kJointWork = 2048;

class Ranger {
public:
  /// Keeps results, since under limits every sum asks for its parts again. `multiplies_out`:
  /// multiplies the root out, without limits too.
  Ranger(const ExprPool &pool, ExprId root, const Domain &domain, bool multiplies_out = false)
      : pool_(pool), domain_(domain), root_(root), multiplies_out_(multiplies_out),
        memo_(pool, root, !domain.limits.empty() || multiplies_out) {}

  WideInterval range(ExprId id) {
    const ExprNode &n = pool_[id];
    if (n.kind == ExprKind::constant)
      return {n.value, n.value};
    if (n.kind == ExprKind::symbol)
      return static_cast<uint64_t>(n.value) < domain_.box.size()
                 ? widen(domain_.box[static_cast<size_t>(n.value)])
                 : widen(Interval{});
    if (const WideInterval *known = memo_.find(id))
      return *known;
    WideInterval a = range(n.a), b = range(n.b);
    if (n.kind != ExprKind::select)
      return memo_.put(id, limited(id, combine(n.kind, a, b)));
    WideInterval c = range(n.c);
    if (a.lower > 0 || a.upper < 0)
      return memo_.put(id, b);
    if (a.lower == 0 && a.upper == 0)
      return memo_.put(id, c);
    b = where(pool_[n.a], true, n.b, b), c = where(pool_[n.a], false, n.c, c);
    return memo_.put(id, {std::min(b.lower, c.lower), std::max(b.upper, c.upper)});
  }

private:
  /// A value that is chosen by a comparison with itself, where that has this outcome.
  WideInterval where(const ExprNode &test, bool holds, ExprId id, WideInterval own) {
    if ((test.kind != ExprKind::lt && test.kind != ExprKind::le) || (id != test.a && id != test.b))
      return own;
    const Wide apart = (test.kind == ExprKind::lt) == holds; // of lt, and of what le is not
    WideInterval out = own;
    if ((id == test.a) == holds)
      out.upper = std::min(out.upper, clamp(range(id == test.a ? test.b : test.a).upper - apart));
    else
      out.lower = std::max(out.lower, clamp(range(id == test.a ? test.b : test.a).lower + apart));
    return out.lower <= out.upper ? out : own;
  }

  WideInterval limited(ExprId id, WideInterval range) {
    const ExprKind kind = pool_[id].kind;
    if ((domain_.limits.empty() && !(multiplies_out_ && id == root_)) ||
        (kind != ExprKind::add && kind != ExprKind::sub && kind != ExprKind::mul))
      return range;
    auto range_of = [this](ExprId part) { return this->range(part); };
    uint32_t own = kJointWork;
    uint32_t &work = id == root_ ? own : work_of_parts_;
    const WideInterval joint = JointBounds(pool_, domain_, range_of, work).range(id);
    const WideInterval both{std::max(range.lower, joint.lower), std::min(range.upper, joint.upper)};
    return both.lower <= both.upper ? both : range; // a domain that holds nothing
  }

  const ExprPool &pool_;
  const Domain &domain_;
  const ExprId root_;
  const bool multiplies_out_;
  Memo<WideInterval> memo_;
  uint32_t work_of_parts_ = 2 * kJointWork;
};

// --- Rewriting ---

class Copier {
public:
  Copier(const ExprPool &from, ExprPool &to, ExprId root, std::span<const ExprId> replacement)
      : from_(from), to_(to), replacement_(replacement), memo_(from, root) {}

  ExprId copy(ExprId id) {
    const ExprNode n = from_[id]; // a copy: the target may be the same pool, which grows
    if (n.kind == ExprKind::constant)
      return to_.constant(n.value);
    if (n.kind == ExprKind::symbol) {
      CUGRT_CHECK(static_cast<uint64_t>(n.value) < replacement_.size());
      return replacement_[static_cast<size_t>(n.value)];
    }
    if (const ExprId *known = memo_.find(id))
      return *known;
    ExprId a = copy(n.a), b = copy(n.b), c = n.c.valid() ? copy(n.c) : ExprId();
    return memo_.put(id, to_.make(n.kind, a, b, c));
  }

private:
  const ExprPool &from_;
  ExprPool &to_;
  std::span<const ExprId> replacement_;
  Memo<ExprId> memo_;
};

class SymbolCollector {
public:
  SymbolCollector(const ExprPool &pool, ExprId root, std::vector<SymbolId> &symbols)
      : pool_(pool), symbols_(symbols), seen_(pool, root) {}

  void collect(ExprId id) {
    const ExprNode &n = pool_[id];
    if (n.kind == ExprKind::symbol) {
      SymbolId symbol{static_cast<uint32_t>(n.value)};
      if (std::find(symbols_.begin(), symbols_.end(), symbol) == symbols_.end())
        symbols_.push_back(symbol);
    }
    if (n.kind == ExprKind::symbol || n.kind == ExprKind::constant || seen_.find(id))
      return;
    seen_.put(id, true);
    collect(n.a);
    collect(n.b);
    if (n.c.valid())
      collect(n.c);
  }

private:
  const ExprPool &pool_;
  std::vector<SymbolId> &symbols_;
  Memo<bool> seen_;
};

} // namespace

Result<int64_t> ExprPool::evaluate(ExprId id, std::span<const int64_t> symbols) const {
  Evaluator evaluator(*this, id, symbols);
  if (auto value = evaluator.eval(id))
    return *value;
  const ExprNode &n = nodes_[evaluator.failed.index];
  if (n.kind == ExprKind::symbol)
    return Status::error(Code::out_of_range,
                         "symbol " + std::to_string(n.value) + " of an expression has no value");
  return Status::error(Code::out_of_range,
                       "'" + to_string(evaluator.failed, {}) +
                           "' divides by zero or does not fit into 64 bits for these symbols");
}

/// Calls visit(domain) with each part of a domain, or all of it where it has no parts.
template <class Visit> static void for_parts(const Domain &domain, const Visit &visit) {
  if (domain.parts.empty())
    visit(domain);
  for (const std::vector<Interval> &part : domain.parts)
    visit(Domain(part, domain.limits));
}

Interval ExprPool::range(ExprId id, const Domain &domain) const {
  if (const ExprNode &n = nodes_[id.index]; n.kind == ExprKind::constant) // most of them
    return {n.value, n.value};
  Interval all{INT64_MAX, INT64_MIN};
  for_parts(domain, [&](const Domain &part) {
    const Interval range = narrow(Ranger(*this, id, part).range(id));
    all = {std::min(all.lower, range.lower), std::max(all.upper, range.upper)};
  });
  return all;
}

/// A select is not negative if its choices are not; follows `selects` nested ones.
static bool is_never_negative(const ExprPool &pool, ExprId id, const Domain &domain, int selects) {
  if (pool.range(id, domain).lower >= 0)
    return true;
  if (const ExprNode &n = pool[id]; n.kind == ExprKind::select && selects)
    return is_never_negative(pool, n.b, domain, selects - 1) &&
           is_never_negative(pool, n.c, domain, selects - 1);
  bool never = true;
  for_parts(domain, [&](const Domain &part) {
    never = never && Ranger(pool, id, part, true).range(id).lower >= 0;
  });
  return never;
}

bool ExprPool::never_negative(ExprId id, const Domain &domain) const {
  return is_never_negative(*this, id, domain, 4);
}

int64_t ExprPool::product_upper(std::span<const ExprId> factors, int64_t divisor,
                                const Domain &domain) const {
  int64_t most = 0;
  for_parts(domain, [&](const Domain &part) {
    std::unordered_map<uint32_t, WideInterval> known;
    auto range_of = [&](ExprId expr) {
      auto [range, is_new] = known.try_emplace(expr.index);
      if (is_new)
        range->second = Ranger(*this, expr, part).range(expr);
      return range->second;
    };
    uint32_t work = kJointWork;
    const Wide upper = JointBounds(*this, part, range_of, work).upper_of_product(factors, divisor);
    most = std::max(most, narrow({0, upper}).upper);
  });
  return most;
}

ExprId ExprPool::substitute(ExprId id, std::span<const ExprId> replacement) {
  return Copier(*this, *this, id, replacement).copy(id);
}

ExprId ExprPool::copy_to(ExprPool &target, ExprId id, std::span<const ExprId> replacement) const {
  return Copier(*this, target, id, replacement).copy(id);
}

void ExprPool::collect_symbols(ExprId id, std::vector<SymbolId> &symbols) const {
  if (nodes_[id.index].kind == ExprKind::constant)
    return;
  SymbolCollector(*this, id, symbols).collect(id);
}

} // namespace cugrt::ir
