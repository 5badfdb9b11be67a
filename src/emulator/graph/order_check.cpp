// The order of nodes and the check of it; see order_check.h.
#include "emulator/graph/order_check.h"

#include "emulator/driver/driver.h"
#include "emulator/exec/checks/accesses.h"

#include <algorithm>

namespace cugrt::emulator::api {

// Every node behind all that it depends on. The graph has no cycles.
static std::vector<uint32_t> sorted_nodes(const ExecGraph &graph) {
  size_t count = graph.nodes.size();
  std::vector<std::vector<uint32_t>> dependents(count);
  std::vector<size_t> pending(count);
  std::vector<uint32_t> order;
  order.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    pending[i] = graph.nodes[i].dependencies.size();
    for (uint32_t before : graph.nodes[i].dependencies)
      dependents[before].push_back(i);
    if (!pending[i])
      order.push_back(i);
  }
  for (size_t next = 0; next < order.size(); ++next)
    for (uint32_t i : dependents[order[next]])
      if (--pending[i] == 0)
        order.push_back(i);
  return order;
}

NodeOrder::NodeOrder(const ExecGraph &graph)
    : words_((graph.nodes.size() + 63) / 64), start_(graph.nodes.size() * words_),
      wait_(start_.size()), partner_(graph.nodes.size()) {
  auto enter = [&](std::vector<uint64_t> &rows, uint32_t node, uint32_t before) {
    for (size_t w = 0; w < words_; ++w) // what has ended when `before` ends
      rows[node * words_ + w] |= wait_[before * words_ + w];
    rows[node * words_ + before / 64] |= uint64_t(1) << (before % 64);
  };
  for (uint32_t i : sorted_nodes(graph)) {
    const ExecNode &node = graph.nodes[i];
    for (uint32_t before : node.start_after)
      enter(start_, i, before);
    for (size_t w = 0; w < words_; ++w)
      wait_[i * words_ + w] = start_[i * words_ + w];
    for (uint32_t before : node.dependencies)
      enter(wait_, i, before);
  }
  for (uint32_t a = 0; a < graph.nodes.size(); ++a)
    for (uint32_t b = a + 1; b < graph.nodes.size(); ++b)
      if (!ordered(a, b))
        partner_[a] = partner_[b] = true;
}

// A kernel that follows another over a programmatic edge begins after it has begun, and so after
// all that the other began after has ended.
void order_nodes(ExecGraph &graph, bool checked) {
  for (uint32_t i : sorted_nodes(graph)) {
    ExecNode &node = graph.nodes[i];
    for (size_t d = 0; d < node.dependencies.size(); ++d) {
      uint32_t before = node.dependencies[d];
      if (!node.early[d])
        node.start_after.push_back(before);
      else
        node.start_after.insert(node.start_after.end(), graph.nodes[before].start_after.begin(),
                                graph.nodes[before].start_after.end());
    }
    std::sort(node.start_after.begin(), node.start_after.end());
    node.start_after.erase(std::unique(node.start_after.begin(), node.start_after.end()),
                           node.start_after.end());
  }
  if (checked && graph.nodes.size() <= kMaxCheckedNodes)
    graph.order = std::make_shared<NodeOrder>(graph);
}

bool OrderCheck::watches(uint32_t node) const {
  return stream_work_ || (order_ && order_->has_partner(node)) ||
         (parent_ && parent_->watches(node_));
}

void OrderCheck::touched(uint32_t node, const std::string &name, const LaunchAccesses &accesses) {
  if (order_ && order_->has_partner(node)) {
    std::lock_guard lock(mutex_);
    auto known = std::find_if(parts_.begin(), parts_.end(), [&](const auto &part) {
      return part->node == node && part->name == name;
    });
    if (known == parts_.end())
      known = parts_.insert(parts_.end(), std::make_unique<Part>(Part{node, name, {}}));
    Part &part = **known;
    part.accesses.add(accesses);
    for (const auto &other : parts_)
      if (other->node < node)
        compare(*other, part);
      else if (other->node > node)
        compare(part, *other);
  }
  if (parent_ && parent_->watches(node_))
    parent_->touched(node_, name + " in node " + std::to_string(node_), accesses);
  if (stream_work_)
    stream_work_->touched(name, accesses);
}

// `a` is the node with the lower number. All phases of the one against all of the other.
void OrderCheck::compare(Part &a, Part &b) {
  for (bool a_waited : {false, true})
    for (bool b_waited : {false, true}) {
      auto precedes = [&](const Part &x, const Part &y, bool y_waited) {
        return y_waited ? order_->precedes_wait(x.node, y.node)
                        : order_->precedes_start(x.node, y.node);
      };
      if (precedes(a, b, b_waited) || precedes(b, a, a_waited))
        continue;
      auto found = (a_waited ? a.accesses.after_wait : a.accesses.before_wait)
                       .conflict(b_waited ? b.accesses.after_wait : b.accesses.before_wait);
      if (!found || !reported_.emplace(a.name, b.name).second)
        continue;
      // Which of the two waits for the other, if that is where the order is missing.
      bool b_early = order_->precedes_wait(a.node, b.node),
           a_early = order_->precedes_wait(b.node, a.node);
      if (a_early || b_early) {
        const Part &early = b_early ? b : a, &before = b_early ? a : b;
        driver_.findings.report(Check::programmatic,
                                early.name + " " + verb(b_early ? found->second : found->first) +
                                    " " + bytes_at(found->bytes) +
                                    " before its griddepcontrol.wait, and " + before.name +
                                    ", which it follows over a programmatic edge, " +
                                    verb(b_early ? found->first : found->second) + " them");
      } else {
        driver_.findings.report(Check::nodes, a.name + " " + verb(found->first) + " and " + b.name +
                                                  " " + verb(found->second) + " " +
                                                  bytes_at(found->bytes) +
                                                  ", and no path of the graph orders them");
      }
    }
}

std::string work_text(const Work &work) {
  if (auto *kernel = std::get_if<KernelWork>(&work))
    return "kernel '" + kernel->function->info->name + "'";
  return std::holds_alternative<CopyWork>(work)        ? "copy"
         : std::holds_alternative<BatchCopyWork>(work) ? "batch of copies"
         : std::holds_alternative<FillWork>(work)      ? "memset"
                                                       : "node";
}

std::string node_name(const ExecNode &node, uint32_t index) {
  return work_text(node.work) + " (node " + std::to_string(index) + ")";
}

} // namespace cugrt::emulator::api
