// How many turns a Loop has whose condition counts, as exporters write `while` and recurrent
// layers:
//
//   i = first; do { .. i = i + step; } while (i < end and ..)
//
// Numbers of the body that the turn alone decides are a + b t in turn t, where the host knows a; a
// comparison of two such is true from the first turn up to one, or always.
#include "fronts/onnx/call.h"
#include "fronts/onnx/file/tensor.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

/// Integers of this size and all below are floats, too.
constexpr int64_t kMostExact = 1 << 24;

/// a + b t in turn t.
struct Count {
  E a{};
  int64_t b = 0;
  bool is_float = false;
};

class Turns {
public:
  Turns(Call &c, const Graph &body, const std::vector<EntryPtr> &carried)
      : c_(c), body_(body), carried_(carried) {}

  /// Numbers of turns behind which the condition, a value of the body, is false; of none it is
  /// always true. Nothing where the device decides.
  std::optional<std::vector<E>> limits(std::string_view condition) {
    if (++looked_at_ > kMostSources)
      return std::nullopt;
    if (input(condition) == 1)
      return std::vector<E>{};
    const Node *node = maker(condition);
    if (!node) {
      const auto given = of_host(condition);
      return given && c_.w.range(*given).lower >= 1 ? std::optional(std::vector<E>{})
                                                    : std::nullopt;
    }
    const std::vector<std::string_view> &in = node->inputs;
    if (in.size() == 1 && (node->op == "Identity" || node->op == "Cast"))
      return limits(in[0]);
    if (in.size() != 2)
      return std::nullopt;
    if (node->op == "And") {
      auto first = limits(in[0]);
      const auto second = first ? limits(in[1]) : std::nullopt;
      if (second)
        first->insert(first->end(), second->begin(), second->end());
      return second ? first : std::nullopt;
    }
    if (node->op == "Less" || node->op == "LessOrEqual")
      return compared(in[0], in[1], node->op == "Less");
    if (node->op == "Greater" || node->op == "GreaterOrEqual")
      return compared(in[1], in[0], node->op == "Greater");
    return std::nullopt;
  }

private:
  /// True while high - low is at least `least`.
  std::optional<std::vector<E>> compared(std::string_view low, std::string_view high,
                                         int64_t least) {
    const auto from = count(low), to = count(high);
    if (!from || !to)
      return std::nullopt;
    ir::ExprPool &exprs = c_.w.exprs();
    const E more = exprs.sub(exprs.sub(to->a, from->a), c_.constant(least));
    const int64_t down = from->b - to->b;
    const bool is_float = from->is_float || to->is_float;
    if (down <= 0)
      return !is_float && c_.w.range(more).lower >= 0 ? std::optional(std::vector<E>{})
                                                      : std::nullopt;
    E turns = exprs.add(exprs.floordiv(more, c_.constant(down)), c_.constant(1));
    if (!c_.w.never_negative(turns))
      turns = exprs.max(turns, c_.constant(0));
    turns = exprs.add(turns, c_.constant(1)); // the condition is of the turn behind
    if (is_float)
      for (const Count *one : {&*from, &*to}) {
        const ir::Interval begin = c_.w.range(one->a);
        const int64_t room = kMostExact - std::max(begin.upper, -begin.lower);
        if (begin.lower < -kMostExact || begin.upper > kMostExact ||
            c_.w.range(turns).upper > room / std::max<int64_t>(std::abs(one->b), 1))
          return std::nullopt;
      }
    return std::vector<E>{turns};
  }

  std::optional<Count> count(std::string_view name) {
    if (++looked_at_ > kMostSources)
      return std::nullopt;
    if (const auto place = input(name)) {
      if (*place == 0)
        return Count{c_.constant(0), 1};
      if (*place == 1 || *place - 2 >= carried_.size() || *place - 1 >= body_.outputs.size())
        return std::nullopt;
      const auto first = integer(*carried_[*place - 2]);
      const auto by = first ? step(name, body_.outputs[*place - 1].name) : std::nullopt;
      return by ? std::optional(Count{*first, *by}) : std::nullopt;
    }
    const Node *node = maker(name);
    if (!node) {
      const auto given = of_host(name);
      return given ? std::optional(Count{*given}) : std::nullopt;
    }
    if (node->inputs.empty())
      return std::nullopt;
    auto of = count(node->inputs[0]);
    if (!of || node->op == "Identity")
      return of;
    if (node->op == "Cast") {
      std::optional<DType> dtype;
      for (const AttributeView &one : node->attributes)
        if (one.name == "to")
          dtype = dtype_of(int32_t(std::clamp<int64_t>(one.integer, 0, INT32_MAX)));
      if (dtype != DType::i32 && dtype != DType::i64 && dtype != DType::f32)
        return std::nullopt;
      of->is_float |= dtype == DType::f32;
      return of;
    }
    const bool adds = node->op == "Add";
    const auto other = node->inputs.size() == 2 && (adds || node->op == "Sub")
                           ? count(node->inputs[1])
                           : std::nullopt;
    if (!other || of->is_float || other->is_float)
      return std::nullopt;
    of->a = adds ? c_.w.exprs().add(of->a, other->a) : c_.w.exprs().sub(of->a, other->a);
    of->b += adds ? other->b : -other->b;
    return std::abs(of->b) <= kMostExact ? of : std::nullopt;
  }

  /// The number that a turn adds to the value of an input, which makes `next`.
  std::optional<int64_t> step(std::string_view input, std::string_view next) {
    for (size_t steps = 0; steps <= kMostSources; ++steps) {
      if (next == input)
        return 0;
      const Node *node = maker(next);
      if (!node || node->inputs.empty())
        return std::nullopt;
      if (node->inputs.size() == 1 && node->op == "Identity") {
        next = node->inputs[0];
        continue;
      }
      const bool adds = node->op == "Add", first = node->inputs[0] == input;
      if (node->inputs.size() != 2 || !(adds || (first && node->op == "Sub")) ||
          !(first || node->inputs[1] == input))
        return std::nullopt;
      const std::string_view other = node->inputs[first];
      const auto by = this->input(other) ? std::nullopt : of_host(other);
      const auto number = by ? c_.known(*by) : std::nullopt;
      if (!number || std::abs(*number) > kMostExact)
        return std::nullopt;
      return adds ? *number : -*number;
    }
    return std::nullopt;
  }

  std::optional<size_t> input(std::string_view name) const {
    for (size_t i = 0; i < body_.inputs.size(); ++i)
      if (body_.inputs[i].name == name)
        return i;
    return std::nullopt;
  }

  /// The node that makes a value of the body, save for constants.
  const Node *maker(std::string_view name) const {
    for (const Node &node : body_.nodes)
      for (std::string_view made : node.outputs)
        if (made == name && !constant_of(node))
          return &node;
    return nullptr;
  }

  static const TensorView *constant_of(const Node &node) {
    const bool whole = node.op == "Constant" && node.attributes.size() == 1;
    return whole && node.attributes[0].tensor ? &*node.attributes[0].tensor : nullptr;
  }

  /// A constant of the body, or a value around it.
  std::optional<E> of_host(std::string_view name) {
    for (const TensorView &tensor : body_.initializers)
      if (tensor.name == name)
        return integer(c_.w.constant_entry(tensor, name));
    for (const Node &node : body_.nodes)
      if (!node.outputs.empty() && node.outputs[0] == name && constant_of(node))
        return integer(c_.w.constant_entry(*constant_of(node), name));
    return integer(c_.w.find(name));
  }

  std::optional<E> integer(const EntryPtr &entry) { return entry ? integer(*entry) : std::nullopt; }
  std::optional<E> integer(Entry &entry) {
    const Host *host = c_.w.host(entry, Importer::Need::no);
    return host && host->ints.size() == 1 ? std::optional(host->ints[0]) : std::nullopt;
  }

  Call &c_;
  const Graph &body_;
  const std::vector<EntryPtr> &carried_;
  size_t looked_at_ = 0;
};

} // namespace

std::optional<E> turns_of(Call &c, const Graph &body, const std::vector<EntryPtr> &carried) {
  // A first condition that is not surely true may leave all turns out.
  const EntryPtr starts = c.entry(1), most = c.entry(0);
  ir::ExprPool &exprs = c.w.exprs();
  const Host *first = starts ? c.w.host(*starts, Importer::Need::no) : nullptr;
  if (body.outputs.empty() || (starts && (!first || first->ints.size() != 1)))
    return std::nullopt;
  const Host *given = most ? c.w.host(*most, Importer::Need::condition) : nullptr;
  if (most && (!given || given->ints.size() != 1))
    return std::nullopt;
  std::optional<std::vector<E>> limits = std::vector<E>{};
  if (starts || !most)
    limits = Turns(c, body, carried).limits(body.outputs[0].name);
  if (!limits)
    return std::nullopt;
  if (given && (limits->empty() || c.known(given->ints[0]).value_or(0) < INT32_MAX))
    limits->push_back(c.w.range(given->ints[0]).lower < 0 ? exprs.max(given->ints[0], c.constant(0))
                                                          : given->ints[0]);
  if (limits->empty())
    return std::nullopt;
  E turns = limits->front();
  for (E other : *limits)
    turns = turns == other ? turns : exprs.min(turns, other);
  if (!first || c.w.range(first->ints[0]).lower >= 1)
    return turns;
  return exprs.make(ir::ExprKind::select, first->ints[0], turns, c.constant(0));
}

} // namespace cugrt::onnx
