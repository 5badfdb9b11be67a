// The pool of expressions, and their normal form.
//
// Sums. A sum is flattened into terms (base, coefficient) and a constant, like terms are joined,
// and it is rebuilt as a left-leaning chain:
//
//     p1*c1 + p2*c2 + ... - q1*d1 - q2*d2 ... + constant
//
// first the terms with positive coefficients in the order of compare(), then the negative ones as
// subtractions, then the constant. With no positive term the chain starts at the constant (or at a
// product with a negative coefficient when that is 0). Products are flattened into sorted factors
// and one constant coefficient, which comes last; a coefficient times a sum is multiplied out, and
// of a sum beside other factors what its terms have in common is part of the coefficient.
//
// What must hold: a node of the pool, built again from its own operands, is itself. (Printing and
// parsing rely on it, and so does copy_to.) Prefixes of the chains above are normal forms
// themselves, so it holds for them. Where the rules are not applied - more than kMaxTerms terms, an
// overflowing coefficient - the decision depends on the operands alone, so it is taken again in the
// same way.
#include "base/expr/expr.h"

#include "base/check.h"
#include "base/checked_math.h"
#include "base/expr/expr_apply.h"

#include <algorithm>
#include <new>
#include <numeric>

namespace cugrt::ir {

static size_t hash_of(const ExprNode &n) {
  uint64_t h = static_cast<uint64_t>(n.value) * 0x9e3779b97f4a7c15u;
  h ^= (uint64_t(n.a.index) << 32 | n.b.index) + (uint64_t(n.kind) << 56);
  h *= 0xff51afd7ed558ccdu;
  h ^= h >> 32;
  h += n.c.index;
  h *= 0xc4ceb9fe1a85ec53u;
  return h ^ (h >> 29);
}

static uint32_t saturating_add(uint32_t a, uint32_t b) {
  return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static bool is_commutative(ExprKind kind) {
  switch (kind) {
  case ExprKind::add:
  case ExprKind::mul:
  case ExprKind::min:
  case ExprKind::max:
  case ExprKind::eq:
  case ExprKind::ne:
    return true;
  default:
    return false;
  }
}

static bool is_sum(const ExprNode &n) { return n.kind == ExprKind::add || n.kind == ExprKind::sub; }

// --- The table of nodes --------------------------------------------------------------------------

void ExprPool::grow_table() {
  size_t size = std::max<size_t>(64, table_.size() * 2);
  std::vector<uint32_t> table(size, 0);
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    size_t at = hash_of(nodes_[i]) & (size - 1);
    while (table[at])
      at = (at + 1) & (size - 1);
    table[at] = i + 1;
  }
  table_.swap(table);
}

ExprId ExprPool::intern(const ExprNode &node) {
  if ((nodes_.size() + 1) * 2 > table_.size())
    grow_table();
  size_t mask = table_.size() - 1, at = hash_of(node) & mask;
  for (; table_[at]; at = (at + 1) & mask)
    if (nodes_[table_[at] - 1] == node)
      return {table_[at] - 1};
  if (nodes_.size() >= kMaxNodes)
    throw std::bad_alloc();
  uint32_t depth = 1, size = 1;
  for (ExprId operand : {node.a, node.b, node.c})
    if (operand.valid()) {
      depth = std::max(depth, saturating_add(depth_[operand.index], 1));
      size = saturating_add(size, tree_size_[operand.index]);
    }
  // All or nothing when memory runs out: the last two cannot fail once there is room.
  if (nodes_.size() == depth_.capacity())
    depth_.reserve(std::max<size_t>(32, nodes_.size() * 2));
  if (nodes_.size() == tree_size_.capacity())
    tree_size_.reserve(std::max<size_t>(32, nodes_.size() * 2));
  nodes_.push_back(node);
  depth_.push_back(depth);
  tree_size_.push_back(size);
  table_[at] = static_cast<uint32_t>(nodes_.size());
  return {static_cast<uint32_t>(nodes_.size() - 1)};
}

int ExprPool::compare(ExprId a, ExprId b) const {
  auto rank = [](ExprKind kind) {
    return kind == ExprKind::symbol ? 0 : kind == ExprKind::constant ? 1000 : int(kind);
  };
  // Equal operands have equal ids, so the first pair that differs decides: one path, no recursion.
  while (a != b) {
    const ExprNode &x = nodes_[a.index], &y = nodes_[b.index];
    if (x.kind != y.kind)
      return rank(x.kind) < rank(y.kind) ? -1 : 1;
    if (x.kind == ExprKind::symbol || x.kind == ExprKind::constant)
      return x.value < y.value ? -1 : 1;
    if (x.a != y.a)
      a = x.a, b = y.a;
    else if (x.b != y.b)
      a = x.b, b = y.b;
    else
      a = x.c, b = y.c;
  }
  return 0;
}

ExprId ExprPool::constant(int64_t value) { return intern({ExprKind::constant, {}, {}, {}, value}); }

ExprId ExprPool::symbol(SymbolId symbol) {
  return intern({ExprKind::symbol, {}, {}, {}, symbol.index});
}

std::optional<int64_t> ExprPool::as_constant(ExprId id) const {
  const ExprNode &n = nodes_[id.index];
  return n.kind == ExprKind::constant ? std::optional(n.value) : std::nullopt;
}

// --- The normal form -----------------------------------------------------------------------------

/// Builds sums and products; each function gives an invalid id where the rules do not apply.
class ExprRewriter {
public:
  explicit ExprRewriter(ExprPool &pool) : pool_(pool) {}

  ExprId sum(ExprKind kind, ExprId a, ExprId b) {
    if (!add_terms(a, 1, 0) || !add_terms(b, kind == ExprKind::sub ? -1 : 1, 0))
      return {};
    return rebuild_sum();
  }

  ExprId product(ExprId a, ExprId b) {
    if (!add_factors(a, 0) || !add_factors(b, 0))
      return {};
    if (coefficient_ == 0)
      return pool_.constant(0);
    if (count_ == 0)
      return pool_.constant(coefficient_);
    if (count_ == 1 && coefficient_ != 1 && is_sum(pool_[terms_[0].base])) {
      ExprId base = terms_[0].base;
      count_ = 0;
      return add_terms(base, coefficient_, 0) ? rebuild_sum() : ExprId();
    }
    for (size_t i = 0; count_ > 1 && i < count_; ++i)
      if (is_sum(pool_[terms_[i].base]) && !ExprRewriter(pool_).divide(terms_[i], coefficient_))
        return {};
    std::sort(terms_, terms_ + count_,
              [&](const Term &x, const Term &y) { return pool_.compare(x.base, y.base) < 0; });
    ExprId chain = terms_[0].base;
    for (size_t i = 1; i < count_; ++i)
      chain = pool_.intern({ExprKind::mul, chain, terms_[i].base, {}, 0});
    return scaled(chain, coefficient_);
  }

  /// The quotient or remainder of a by a number that divides every coefficient: rounds only the
  /// constant.
  ExprId quotient(ExprKind kind, ExprId a, int64_t divisor) {
    if (divisor == 0 || divisor == -1 || !add_terms(a, 1, 0))
      return {};
    for (size_t i = 0; i < count_; ++i)
      if (terms_[i].coefficient % divisor != 0)
        return {};
    const auto alone = apply(kind, constant_, divisor);
    if (!alone || kind == ExprKind::mod)
      return alone ? pool_.constant(*alone) : ExprId();
    for (size_t i = 0; i < count_; ++i)
      terms_[i].coefficient /= divisor;
    constant_ = *alone;
    return rebuild_sum();
  }

private:
  struct Term {
    ExprId base;
    int64_t coefficient;
  };

  /// Takes the number that divides a sum's constant and coefficients out of a factor, into the
  /// product's coefficient. False where the latter overflows.
  bool divide(Term &factor, int64_t &coefficient) {
    if (!add_terms(factor.base, 1, 0))
      return true; // it has no form of its own
    int64_t common = constant_ == INT64_MIN ? 1 : constant_;
    for (size_t i = 0; i < count_; ++i)
      common = terms_[i].coefficient == INT64_MIN ? 1 : std::gcd(common, terms_[i].coefficient);
    if (common <= 1)
      return true;
    const std::optional<int64_t> total = checked_mul(coefficient, common);
    coefficient = total.value_or(0);
    constant_ /= common;
    for (size_t i = 0; i < count_; ++i)
      terms_[i].coefficient /= common;
    factor.base = rebuild_sum();
    return total && factor.base.valid();
  }

  bool push(ExprId base, int64_t coefficient) {
    if (count_ == ExprPool::kMaxTerms)
      return false;
    terms_[count_++] = {base, coefficient};
    return true;
  }

  // Chains longer than any normal form are given up at once, so that building stays cheap.
  static constexpr uint32_t kMaxChain = ExprPool::kMaxTerms + 1;

  bool add_terms(ExprId id, int64_t scale, uint32_t depth) {
    if (depth > kMaxChain)
      return false;
    const ExprNode n = pool_[id];
    if (n.kind == ExprKind::constant) {
      auto part = checked_mul(n.value, scale);
      auto total = part ? checked_add(constant_, *part) : std::nullopt;
      constant_ = total.value_or(0);
      return total.has_value();
    }
    if (is_sum(n)) {
      if (!add_terms(n.a, scale, depth + 1))
        return false;
      if (n.kind == ExprKind::add)
        return add_terms(n.b, scale, depth + 1);
      auto negated = checked_sub(0, scale);
      return negated && add_terms(n.b, *negated, depth + 1);
    }
    auto factor = n.kind == ExprKind::mul ? pool_.as_constant(n.b) : std::nullopt;
    if (!factor)
      return push(id, scale);
    auto coefficient = checked_mul(*factor, scale);
    return coefficient && !is_sum(pool_[n.a]) && push(n.a, *coefficient);
  }

  bool add_factors(ExprId id, uint32_t depth) {
    if (depth > kMaxChain)
      return false;
    const ExprNode &n = pool_[id];
    if (n.kind == ExprKind::constant) {
      auto total = checked_mul(coefficient_, n.value);
      coefficient_ = total.value_or(0);
      return total.has_value();
    }
    if (n.kind != ExprKind::mul)
      return push(id, 1);
    ExprId a = n.a, b = n.b;
    return add_factors(a, depth + 1) && add_factors(b, depth + 1);
  }

  ExprId scaled(ExprId base, int64_t coefficient) {
    if (coefficient == 1)
      return base;
    return pool_.intern({ExprKind::mul, base, pool_.constant(coefficient), {}, 0});
  }

  bool join_like_terms() {
    std::sort(terms_, terms_ + count_,
              [&](const Term &x, const Term &y) { return pool_.compare(x.base, y.base) < 0; });
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (kept && terms_[kept - 1].base == terms_[i].base) {
        auto total = checked_add(terms_[kept - 1].coefficient, terms_[i].coefficient);
        if (!total)
          return false;
        terms_[kept - 1].coefficient = *total;
      } else {
        terms_[kept++] = terms_[i];
      }
    }
    count_ = kept;
    return true;
  }

  ExprId rebuild_sum() {
    if (!join_like_terms())
      return {};
    auto subtracts = [](const Term &t) {
      return t.coefficient < 0 && t.coefficient != INT64_MIN; // whose negation does not exist
    };
    ExprId chain;
    for (size_t i = 0; i < count_; ++i)
      if (terms_[i].coefficient != 0 && !subtracts(terms_[i])) {
        ExprId term = scaled(terms_[i].base, terms_[i].coefficient);
        chain = chain.valid() ? pool_.intern({ExprKind::add, chain, term, {}, 0}) : term;
      }
    bool constant_used = constant_ == 0;
    for (size_t i = 0; i < count_; ++i)
      if (subtracts(terms_[i])) {
        if (!chain.valid() && constant_ == 0) {
          chain = scaled(terms_[i].base, terms_[i].coefficient);
          continue;
        }
        if (!chain.valid()) {
          chain = pool_.constant(constant_);
          constant_used = true;
        }
        ExprId term = scaled(terms_[i].base, -terms_[i].coefficient);
        chain = pool_.intern({ExprKind::sub, chain, term, {}, 0});
      }
    if (!chain.valid())
      return pool_.constant(constant_);
    if (constant_used)
      return chain;
    return pool_.intern({ExprKind::add, chain, pool_.constant(constant_), {}, 0});
  }

  ExprPool &pool_;
  Term terms_[ExprPool::kMaxTerms];
  size_t count_ = 0;
  int64_t constant_ = 0, coefficient_ = 1;
};

static ExprId simplify_same(ExprPool &pool, ExprKind kind, ExprId a) {
  switch (kind) {
  case ExprKind::sub:
  case ExprKind::ne:
  case ExprKind::lt:
    return pool.constant(0);
  case ExprKind::eq:
  case ExprKind::le:
    return pool.constant(1);
  case ExprKind::min:
  case ExprKind::max:
    return a;
  default:
    return {}; // x / x is undefined at 0
  }
}

static ExprId simplify_division(ExprPool &pool, ExprKind kind, ExprId a, ExprId b) {
  auto divisor = pool.as_constant(b);
  if (!divisor)
    return {};
  if (*divisor == 1)
    return kind == ExprKind::mod ? pool.constant(0) : a;
  return ExprRewriter(pool).quotient(kind, a, *divisor);
}

ExprId ExprPool::make(ExprKind kind, ExprId a, ExprId b, ExprId c) {
  CUGRT_CHECK(kind >= ExprKind::add && a.index < nodes_.size() && b.index < nodes_.size());
  if (kind == ExprKind::select) {
    CUGRT_CHECK(c.index < nodes_.size());
    if (auto condition = as_constant(a))
      return *condition ? b : c;
    return b == c ? b : intern({kind, a, b, c, 0});
  }
  auto x = as_constant(a), y = as_constant(b);
  if (x && y)
    if (auto value = apply(kind, *x, *y))
      return constant(*value);
  if (a == b)
    if (ExprId same = simplify_same(*this, kind, a); same.valid())
      return same;
  ExprId simple;
  if (kind == ExprKind::add || kind == ExprKind::sub)
    simple = ExprRewriter(*this).sum(kind, a, b);
  else if (kind == ExprKind::mul)
    simple = ExprRewriter(*this).product(a, b);
  else if (kind == ExprKind::floordiv || kind == ExprKind::ceildiv || kind == ExprKind::mod)
    simple = simplify_division(*this, kind, a, b);
  if (simple.valid())
    return simple;
  if (kind == ExprKind::sub && y && *y != INT64_MIN)
    return make(ExprKind::add, a, constant(-*y));
  if (kind == ExprKind::add && x && *x == 0)
    return b;
  if (kind == ExprKind::add && y && *y == 0)
    return a;
  if (kind == ExprKind::mul && ((x && *x == 1) || (y && *y == 0)))
    return b;
  if (kind == ExprKind::mul && ((y && *y == 1) || (x && *x == 0)))
    return a;
  if (is_commutative(kind) && compare(a, b) > 0)
    std::swap(a, b);
  return intern({kind, a, b, {}, 0});
}

} // namespace cugrt::ir
