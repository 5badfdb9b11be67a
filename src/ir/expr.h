// Symbolic integer expressions: dimensions, byte offsets, launch dimensions, predicates.
//
// Expressions are hash-consed in a pool and named by a 32-bit id: two structurally equal expressions of
// one pool have equal ids. Building folds constants and applies identities that hold for every integer
// (x+0, x*1, x*0, min(x,x), ...); commutative operands are put in a fixed order. A symbol is a number
// that is local to its function (or kernel declaration); the pool does not know names.
//
// Values are 64-bit signed. Comparisons give 0 or 1; select(c, a, b) is a when c is not 0. Division is
// as in support/checked_math.h. Evaluation that overflows or divides by zero is an error, never a wrap.
#pragma once

#include "support/status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace cugrt::ir {

enum class ExprKind : uint8_t {
  constant, symbol,                        // leaves
  add, sub, mul, floordiv, ceildiv, mod,   // two operands
  min, max, eq, ne, lt, le,                // two operands; gt and ge are written with swapped operands
  select,                                  // three operands
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

/// Inclusive bounds; INT64_MIN and INT64_MAX mean unbounded.
struct Interval {
  int64_t lower = INT64_MIN, upper = INT64_MAX;
  friend bool operator==(const Interval &, const Interval &) = default;
};

class ExprPool {
public:
  /// Pools are bounded; beyond the bound make() throws std::bad_alloc.
  static constexpr size_t kMaxNodes = size_t(1) << 28;
  /// The parser and the plan reader refuse deeper trees; recursive walks rely on it.
  static constexpr uint32_t kMaxDepth = 200;

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
  std::optional<int64_t> as_constant(ExprId id) const;

  /// `symbols[i]` is the value of symbol i. Code::out_of_range on overflow or division by zero.
  Result<int64_t> evaluate(ExprId id, std::span<const int64_t> symbols) const;
  /// Bounds of the value over the box `bounds[i]` of symbol i, by interval arithmetic: never too
  /// narrow; exact for expressions that are monotone and use each symbol once.
  Interval range(ExprId id, std::span<const Interval> bounds) const;
  /// The expression with symbol i replaced by `replacement[i]` (of this pool).
  ExprId substitute(ExprId id, std::span<const ExprId> replacement);
  /// The same expression in another pool, symbols replaced by `replacement` (of `target`).
  ExprId copy_to(ExprPool &target, ExprId id, std::span<const ExprId> replacement) const;
  /// Adds the symbols that occur, each once, in order of first occurrence, to `symbols`.
  void collect_symbols(ExprId id, std::vector<SymbolId> &symbols) const;
  /// As written in IR text, fewest parentheses; `names[i]` is the name of symbol i.
  std::string to_string(ExprId id, std::span<const std::string> names) const;

private:
  ExprId intern(ExprNode node);
  struct NodeHash {
    size_t operator()(const ExprNode &node) const;
  };
  std::vector<ExprNode> nodes_;
  std::vector<uint32_t> depth_;
  std::unordered_map<ExprNode, uint32_t, NodeHash> index_;
};

} // namespace cugrt::ir
