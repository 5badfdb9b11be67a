// Expressions as IR text. The parser builds the same expression from this text, which takes
// care with associativity: chains lean left, and parentheses stand where a chain would be
// regrouped.
#include "base/expr/expr.h"

namespace cugrt::ir {

namespace {

enum Precedence : int { kCompare, kSum, kProduct, kUnary };

// Beyond this the text would take megabytes.
constexpr uint32_t kMaxPrintedNodes = 1u << 20;

class ExprWriter {
public:
  ExprWriter(const ExprPool &pool, std::span<const std::string> names)
      : pool_(pool), names_(names) {}

  void write(ExprId id, Precedence context) {
    const ExprNode &n = pool_[id];
    switch (n.kind) {
    case ExprKind::constant:
      return bracketed(context == kUnary && n.value < 0, [&] { text += std::to_string(n.value); });
    case ExprKind::symbol:
      symbol(n.value);
      return;
    case ExprKind::add:
    case ExprKind::sub:
      return bracketed(context > kSum, [&] { sum(n); });
    case ExprKind::mul:
      return bracketed(context > kProduct, [&] { product(n); });
    case ExprKind::floordiv:
      return call("floordiv", n);
    case ExprKind::ceildiv:
      return call("ceildiv", n);
    case ExprKind::mod:
      return call("mod", n);
    case ExprKind::min:
      return call("min", n);
    case ExprKind::max:
      return call("max", n);
    case ExprKind::select:
      return call("select", n);
    case ExprKind::eq:
      return comparison(" == ", n, context);
    case ExprKind::ne:
      return comparison(" != ", n, context);
    case ExprKind::lt:
      return comparison(" < ", n, context);
    case ExprKind::le:
      return comparison(" <= ", n, context);
    }
  }

  std::string text;

private:
  template <class F> void bracketed(bool brackets, const F &inside) {
    if (brackets)
      text += '(';
    inside();
    if (brackets)
      text += ')';
  }

  void symbol(int64_t number) {
    if (static_cast<uint64_t>(number) < names_.size())
      text += names_[static_cast<size_t>(number)];
    else
      text += "s" + std::to_string(number);
  }

  void call(const char *name, const ExprNode &n) {
    (text += name) += '(';
    write(n.a, kCompare);
    text += ", ";
    write(n.b, kCompare);
    if (n.c.valid()) {
      text += ", ";
      write(n.c, kCompare);
    }
    text += ')';
  }

  void comparison(const char *sign, const ExprNode &n, Precedence context) {
    bracketed(context > kCompare, [&] {
      write(n.a, kSum);
      text += sign;
      write(n.b, kSum);
    });
  }

  void sum(const ExprNode &n) {
    write(n.a, kSum);
    auto constant = pool_.as_constant(n.b);
    if (n.kind == ExprKind::add && constant && *constant < 0 && *constant != INT64_MIN) {
      text += " - " + std::to_string(-*constant);
      return;
    }
    text += n.kind == ExprKind::add ? " + " : " - ";
    write(n.b, kProduct);
  }

  // Stops counting just beyond the number that the pool keeps sorted.
  size_t count_factors(ExprId id, size_t limit) const {
    size_t count = 1;
    while (pool_[id].kind == ExprKind::mul && count <= limit) {
      count += pool_[pool_[id].b].kind == ExprKind::mul ? limit : 1;
      id = pool_[id].a;
    }
    return count;
  }

  bool leads_with_sum(ExprId id) const {
    while (pool_[id].kind == ExprKind::mul)
      id = pool_[id].a;
    return pool_[id].kind == ExprKind::add || pool_[id].kind == ExprKind::sub;
  }

  bool has_coefficient(const ExprNode &n) const {
    return n.kind == ExprKind::mul && pool_.as_constant(n.b);
  }

  void product(const ExprNode &n) {
    const ExprNode &left = pool_[n.a];
    if (auto coefficient = pool_.as_constant(n.b)) {
      text += *coefficient == -1 ? "-" : std::to_string(*coefficient) + "*";
      // Read from the left, a coefficient would be multiplied out into a sum that comes first.
      bool regroups = has_coefficient(left) ||
                      (left.kind == ExprKind::mul && leads_with_sum(n.a)) ||
                      count_factors(n.a, ExprPool::kMaxTerms) > ExprPool::kMaxTerms;
      write(n.a, *coefficient == -1 || regroups ? kUnary : kProduct);
      return;
    }
    write(n.a, has_coefficient(left) ? kUnary : kProduct);
    text += '*';
    write(n.b, kUnary);
  }

  const ExprPool &pool_;
  std::span<const std::string> names_;
};

} // namespace

std::string ExprPool::to_string(ExprId id, std::span<const std::string> names) const {
  if (!id.valid())
    return "?";
  if (tree_size(id) > kMaxPrintedNodes)
    return "...";
  ExprWriter writer(*this, names);
  writer.write(id, kCompare);
  return std::move(writer.text);
}

} // namespace cugrt::ir
