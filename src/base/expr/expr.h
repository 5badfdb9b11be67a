// Symbolic integer expressions: dimensions, byte offsets, launch dimensions, predicates.
//
// Expressions are hash-consed in a pool and named by a 32-bit id: two structurally equal
// expressions of one pool have equal ids. Building folds constants and brings sums and products
// into one form: terms and factors sorted, like terms joined, constants last, constant factors
// multiplied out (4*(n+1)*64 is 256*n + 256), common ones taken out of sums beside other factors
// (m*(2*n+2) is m*(n+1)*2); beyond kMaxTerms terms or where a coefficient would overflow, operands
// stay as they are. The form depends on the operands alone, never on what else is in the pool. A
// symbol is a number, local to its function (or kernel declaration); the pool knows no names.
//
// Values are 64-bit signed. Comparisons give 0 or 1; select(c, a, b) is a when c is not 0. Division
// is as in base/checked_math.h. Evaluation that overflows or divides by zero is an error, never
// a wrap.
#pragma once

#include "base/diagnostics.h"
#include "base/expr/domain.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cugrt::ir {

enum class ExprKind : uint8_t {
  constant,
  symbol, // leaves
  add,
  sub,
  mul,
  floordiv,
  ceildiv,
  mod, // two operands
  min,
  max,
  eq,
  ne,
  lt,
  le,     // two operands; gt and ge are written with swapped operands
  select, // three operands
};

struct ExprId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  friend auto operator<=>(ExprId, ExprId) = default;
};

struct SymbolId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  friend auto operator<=>(SymbolId, SymbolId) = default;
};

struct ExprNode {
  ExprKind kind;
  ExprId a, b, c;    // operands; unused ones are invalid
  int64_t value = 0; // of a constant; the number of a symbol
  friend bool operator==(const ExprNode &, const ExprNode &) = default;
};

/// A promise of callers about several symbols: `expr` is at most `most` in every run.
struct Constraint {
  ExprId expr;
  int64_t most = 0;
  SourceLocation location{};
  friend bool operator==(const Constraint &, const Constraint &) = default;
};

class ExprPool {
public:
  /// Pools are bounded; beyond the bound make() throws std::bad_alloc.
  static constexpr size_t kMaxNodes = size_t(1) << 28;
  /// The parser and the plan reader refuse deeper trees; recursive walks rely on it.
  static constexpr uint32_t kMaxDepth = 200;
  /// Sums and products of more terms than this are not sorted or joined.
  static constexpr size_t kMaxTerms = 16;

  ExprId constant(int64_t value);
  ExprId symbol(SymbolId symbol);
  ExprId make(ExprKind kind, ExprId a, ExprId b, ExprId c = {});
  ExprId add(ExprId a, ExprId b) { return make(ExprKind::add, a, b); }
  ExprId sub(ExprId a, ExprId b) { return make(ExprKind::sub, a, b); }
  ExprId mul(ExprId a, ExprId b) { return make(ExprKind::mul, a, b); }
  ExprId ceildiv(ExprId a, ExprId b) { return make(ExprKind::ceildiv, a, b); }
  ExprId floordiv(ExprId a, ExprId b) { return make(ExprKind::floordiv, a, b); }
  ExprId min(ExprId a, ExprId b) { return make(ExprKind::min, a, b); }
  ExprId max(ExprId a, ExprId b) { return make(ExprKind::max, a, b); }

  const ExprNode &operator[](ExprId id) const { return nodes_[id.index]; }
  size_t size() const { return nodes_.size(); }
  uint32_t depth(ExprId id) const { return depth_[id.index]; }
  /// Nodes of the expression written out as a tree; saturates at UINT32_MAX.
  uint32_t tree_size(ExprId id) const { return tree_size_[id.index]; }
  /// A total order that depends on structure alone: symbols by number, then operators, then
  /// constants.
  int compare(ExprId a, ExprId b) const;
  std::optional<int64_t> as_constant(ExprId id) const;

  /// `symbols[i]` is the value of symbol i. Code::out_of_range on overflow or division by zero.
  Result<int64_t> evaluate(ExprId id, std::span<const int64_t> symbols) const;
  /// Bounds of the value over a domain, by interval arithmetic and the joint limits on sums and
  /// products: never too narrow; exact over a box for expressions that are monotone and use each
  /// symbol once.
  Interval range(ExprId id, const Domain &domain) const;
  /// Whether that shows that the value is never negative, sums and products multiplied out where
  /// they must be: what two sizes have in common then goes from their difference. Slower.
  bool never_negative(ExprId id, const Domain &domain) const;
  /// The largest value of the product of `factors`, which are never negative, the last one divided
  /// by `divisor` (at least 1) and rounded up. INT64_MAX: unbounded.
  int64_t product_upper(std::span<const ExprId> factors, int64_t divisor,
                        const Domain &domain) const;
  /// A constraint as a limit. Code::verify_error, with a message that goes on after "constraint
  /// ...", where its expression is no sum of products of symbols, or too large.
  Result<JointLimit> joint_limit(const Constraint &constraint) const;
  /// The expression with symbol i replaced by `replacement[i]` (of this pool).
  ExprId substitute(ExprId id, std::span<const ExprId> replacement);
  /// The same expression in another pool, symbols replaced by `replacement` (of `target`).
  ExprId copy_to(ExprPool &target, ExprId id, std::span<const ExprId> replacement) const;
  /// Adds the symbols that occur, each once, in order of first occurrence, to `symbols`.
  void collect_symbols(ExprId id, std::vector<SymbolId> &symbols) const;
  /// As written in IR text, fewest parentheses; `names[i]` is the name of symbol i ("s<i>" where
  /// there is none). Expressions that share so much that they would fill megabytes are elided.
  std::string to_string(ExprId id, std::span<const std::string> names) const;

private:
  friend class ExprRewriter; // base/expr/expr.cpp: builds nodes of the normal form
  ExprId intern(const ExprNode &node);
  void grow_table();
  std::vector<ExprNode> nodes_;
  std::vector<uint32_t> depth_, tree_size_; // of the expression written out; sizes saturate
  std::vector<uint32_t> table_;             // open addressing: node index + 1; a power of two long
};

} // namespace cugrt::ir
