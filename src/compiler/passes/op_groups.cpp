// Post-dominators, and three or four sweeps that merge groups.
#include "compiler/passes/op_groups.h"

#include "base/check.h"

#include <algorithm>

namespace cugrt::passes {

namespace {

using ir::OpPattern;
constexpr uint32_t kNoBinding = UINT32_MAX;

/// The tree of immediate post-dominators.
struct PostDominators {
  struct Node {
    uint32_t parent = kNoBinding, depth = 1;
    OpPattern pattern =
        OpPattern::opaque; // the largest on all paths to the parent, its own included
  };
  std::vector<Node> nodes;

  explicit PostDominators(const OpGraph &graph) : nodes(graph.nodes.size()) {
    for (uint32_t n = uint32_t(nodes.size()); n-- > 0;)
      if (!graph.nodes[n].used_outside && !graph.nodes[n].used_by.empty())
        add(graph, n);
  }

private:
  void add(const OpGraph &graph, uint32_t n) {
    OpPattern pattern = OpPattern::elementwise;
    uint32_t parent = graph.nodes[n].used_by.front();
    for (uint32_t user : graph.nodes[n].used_by) {
      pattern = std::max(pattern, graph.nodes[user].pattern);
      parent = common(parent, user, pattern);
    }
    nodes[n] = {parent, parent == kNoBinding ? 1 : nodes[parent].depth + 1, pattern};
  }

  /// The nearest common ancestor; raises `pattern` to the greatest of the ops on the way.
  uint32_t common(uint32_t a, uint32_t b, OpPattern &pattern) const {
    while (a != b && a != kNoBinding && b != kNoBinding) {
      const uint32_t depth_a = nodes[a].depth, depth_b = nodes[b].depth;
      if (depth_a >= depth_b)
        a = up(a, pattern);
      if (depth_b >= depth_a)
        b = up(b, pattern);
    }
    return a == b ? a : kNoBinding;
  }
  uint32_t up(uint32_t n, OpPattern &pattern) const {
    pattern = std::max(pattern, nodes[n].pattern);
    return nodes[n].parent;
  }
};

class Grouping {
public:
  Grouping(const OpGraph &graph, const GroupOptions &options)
      : graph_(graph), options_(options), dominators_(graph), groups_(graph.nodes.size()),
        visited_(graph.nodes.size()) {
    for (uint32_t n = 0; n < groups_.size(); ++n)
      groups_[n] = {n, graph.nodes[n].pattern, graph.nodes[n].pattern == OpPattern::out_fusable};
    follows_reduction_.resize(groups_.size());
    for (uint32_t n = 0; n < groups_.size() && options.after_reductions; ++n)
      if ((graph.nodes[n].pattern == OpPattern::reduction || follows_reduction_[n]) &&
          dominators_.nodes[n].parent != kNoBinding &&
          dominators_.nodes[n].pattern == OpPattern::elementwise)
        follows_reduction_[dominators_.nodes[n].parent] = true;
  }

  std::vector<uint32_t> run() {
    sweep([&](uint32_t n) { return joins_early(n); });
    sweep([&](uint32_t n) { return joins_as_injective(n) || joins_as_simple(n); });
    if (options_.after_reductions)
      sweep([&](uint32_t n) { return joins_after_reduction(n); });
    std::vector<uint32_t> last(groups_.size());
    for (uint32_t n = 0; n < last.size(); ++n)
      last[n] = root(n);
    return last;
  }

private:
  struct Group {
    uint32_t parent;   // itself at the root, which is the group's last op
    OpPattern pattern; // at the root: with that of the anchor
    bool anchored;     // at the root: it has an op that allows no second one of its kind
    uint32_t ops = 1;  // at the root
  };

  uint32_t root(uint32_t n) {
    while (groups_[n].parent != n)
      n = groups_[n].parent = groups_[groups_[n].parent].parent;
    return n;
  }

  template <class Joins> void sweep(Joins joins) {
    for (uint32_t n = 0; n < groups_.size(); ++n) {
      const uint32_t parent = dominators_.nodes[n].parent;
      if (groups_[n].pattern != OpPattern::opaque && parent != kNoBinding &&
          root(n) != root(parent) && find_between(n, parent) && joins(n))
        merge(n, parent);
    }
  }

  /// Sets between_ to the ops on paths from `n` to `sink`, without both; false where the group
  /// would be too large. Stops there, so that a sweep is linear in edges.
  bool find_between(uint32_t n, uint32_t sink) {
    uint64_t ops = uint64_t(groups_[root(sink)].ops) + groups_[n].ops;
    ++visit_number_;
    between_.clear();
    for (size_t next = 0, at = n; ops <= options_.max_ops; at = between_[next++]) {
      for (uint32_t user : graph_.nodes[at].used_by)
        if (user != sink && visited_[user] != visit_number_) {
          visited_[user] = visit_number_;
          between_.push_back(user);
          ops += groups_[user].ops;
        }
      if (next == between_.size())
        return ops <= options_.max_ops;
    }
    return false;
  }

  /// The pattern of the group that an op was when it was last merged into: an elementwise op after
  /// an out_fusable one counts as one of these.
  OpPattern pattern(uint32_t n) const { return groups_[n].pattern; }

  bool joins_early(uint32_t n) {
    if (pattern(n) != OpPattern::out_fusable)
      return joins_as_simple(n);
    return dominators_.nodes[n].pattern == OpPattern::elementwise &&
           each_between(n, OpPattern::broadcast,
                        [](OpPattern last) { return last <= OpPattern::broadcast; });
  }

  bool joins_as_simple(uint32_t n) {
    return pattern(n) <= OpPattern::broadcast &&
           dominators_.nodes[n].pattern <= OpPattern::reduction &&
           !(follows_reduction_[n] && dominators_.nodes[n].pattern == OpPattern::injective) &&
           each_between(n, OpPattern::injective,
                        [](OpPattern last) { return last != OpPattern::opaque; });
  }

  bool joins_as_injective(uint32_t n) {
    return pattern(n) == OpPattern::injective &&
           each_between(n, OpPattern::injective,
                        [](OpPattern last) { return last <= OpPattern::injective; });
  }

  bool joins_after_reduction(uint32_t n) {
    return pattern(n) == OpPattern::reduction &&
           dominators_.nodes[n].pattern == OpPattern::elementwise &&
           each_between(n, OpPattern::broadcast,
                        [](OpPattern last) { return last <= OpPattern::broadcast; });
  }

  /// Whether the groups of all ops between `n` and its post-dominator are at most `most`, and that
  /// of the post-dominator is as `last` wants.
  template <class Last> bool each_between(uint32_t n, OpPattern most, Last last) {
    if (!last(groups_[root(dominators_.nodes[n].parent)].pattern))
      return false;
    for (uint32_t op : between_)
      if (groups_[root(op)].pattern > most)
        return false;
    return true;
  }

  void merge(uint32_t n, uint32_t sink) {
    merge_group(root(n), root(sink));
    for (uint32_t op : between_)
      merge_group(root(op), root(sink));
  }

  void merge_group(uint32_t child, uint32_t parent) {
    if (child == parent)
      return;
    Group &from = groups_[child], &to = groups_[parent];
    from.parent = parent;
    to.ops += from.ops;
    const bool anchor = from.anchored || from.pattern == OpPattern::reduction;
    if (!anchor)
      return;
    CUGRT_CHECK(!to.anchored); // the patterns forbid it
    to.anchored = true;
    to.pattern = std::max(to.pattern, from.pattern);
  }

  const OpGraph &graph_;
  const GroupOptions &options_;
  const PostDominators dominators_;
  std::vector<Group> groups_;
  std::vector<bool> follows_reduction_; // elementwise, and joined by one: moves take it not in
  std::vector<uint32_t> between_;       // what find_between found
  std::vector<uint32_t> visited_;       // by op: when it was last found
  uint32_t visit_number_ = 0;
};

} // namespace

std::vector<uint32_t> group_ops(const OpGraph &graph, const GroupOptions &options) {
  return Grouping(graph, options).run();
}

bool is_fused_group(const ir::Module &module, const ir::Function &function) {
  const bool marked =
      std::any_of(function.extra_attributes.begin(), function.extra_attributes.end(),
                  [](const ir::Attribute &a) {
                    return a.name == kPrimitive && a.value == ir::AttributeValue(true);
                  });
  const std::vector<ir::Binding> &bindings = function.body().bindings;
  if (!marked || !function.is_private || bindings.empty())
    return false;
  for (const ir::Binding &binding : bindings) {
    if (binding.kind == ir::BindingKind::shape)
      continue;
    if (binding.kind != ir::BindingKind::op || binding.result_count != 1)
      return false;
    for (const ir::Operand &operand : function.operands_of(binding))
      if (operand.kind != ir::Operand::Kind::value && operand.kind != ir::Operand::Kind::none)
        return false;
  }
  for (const ir::Parameter &param : function.params)
    if (param.access != ir::Access::in)
      return false;
  const std::span<const ir::Operand> results = function.results_of(function.body());
  return results.size() == 1 && results[0] == ir::Operand::of(bindings.back().result());
}

} // namespace cugrt::passes
