// Names of a model: its nodes in the order in which they can be computed, and every value defined
// once, before it is read.
#include "fronts/onnx/file/model.h"

#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace cugrt::onnx {

namespace {

using NameList = std::vector<std::string_view>;

std::string text_of(const Node &node) {
  return "node '" + std::string(node.name.substr(0, kMaxNameBytes)) + "' (" +
         std::string(node.op.substr(0, kMaxNameBytes)) + ")";
}

/// Puts nodes behind those whose results they or their subgraphs read; else they stay in order.
class Order {
public:
  /// `outside`: gets the names that the graph reads from around it.
  Status graph(Graph &graph, NameList &outside) {
    std::unordered_set<std::string_view> own;
    for (const TensorView &one : graph.initializers)
      own.insert(one.name);
    for (const ValueInfo &one : graph.inputs)
      own.insert(one.name);
    for (const Node &node : graph.nodes)
      own.insert(node.outputs.begin(), node.outputs.end());
    NameList read;
    CUGRT_TRY(nodes(graph.nodes, "graph '" + std::string(graph.name) + "'", read));
    for (const ValueInfo &one : graph.outputs)
      read.push_back(one.name);
    for (std::string_view name : read)
      if (!own.count(name))
        outside.push_back(name);
    return {};
  }
  /// `read`: gets the names that the nodes read.
  Status nodes(std::vector<Node> &nodes, const std::string &where, NameList &read) {
    std::unordered_map<std::string_view, size_t> makers;
    for (size_t i = 0; i < nodes.size(); ++i)
      for (std::string_view name : nodes[i].outputs)
        makers.try_emplace(name, i);
    std::vector<NameList> reads(nodes.size()); // of each node: results of nodes of the list
    bool in_order = true;
    for (size_t i = 0; i < nodes.size(); ++i) {
      NameList all = nodes[i].inputs;
      for (AttributeView &attribute : nodes[i].attributes)
        if (attribute.graph)
          CUGRT_TRY(graph(*attribute.graph, all));
      read.insert(read.end(), all.begin(), all.end());
      for (std::string_view name : all)
        if (auto maker = makers.find(name); !name.empty() && maker != makers.end()) {
          reads[i].push_back(name);
          in_order &= maker->second < i;
        }
    }
    return in_order ? Status() : sort(nodes, where, makers, reads);
  }

private:
  using Makers = std::unordered_map<std::string_view, size_t>;

  static Status sort(std::vector<Node> &nodes, const std::string &where, const Makers &makers,
                     const std::vector<NameList> &reads) {
    std::vector<std::vector<size_t>> readers(nodes.size());
    std::vector<size_t> waits(nodes.size());
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready; // the file's first one
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (std::string_view name : reads[i])
        readers[makers.at(name)].push_back(i);
      if ((waits[i] = reads[i].size()) == 0)
        ready.push(i);
    }
    std::vector<size_t> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (size_t reader : readers[order.back()])
        if (--waits[reader] == 0)
          ready.push(reader);
    }
    if (order.size() < nodes.size())
      return cycle(nodes, where, makers, reads, waits);
    std::vector<Node> sorted;
    for (size_t i : order)
      sorted.push_back(std::move(nodes[i]));
    nodes = std::move(sorted);
    return {};
  }

  /// Names a cycle: follows a node that waits for ever to one that it waits for, and so on.
  static Status cycle(const std::vector<Node> &nodes, const std::string &where,
                      const Makers &makers, const std::vector<NameList> &reads,
                      const std::vector<size_t> &waits) {
    size_t at = 0;
    while (waits[at] == 0)
      ++at;
    std::string_view taken;
    for (size_t steps = 0; steps <= nodes.size(); ++steps) {
      if (steps)
        at = makers.at(taken);
      for (std::string_view name : reads[at])
        if (waits[makers.at(name)])
          taken = name;
    }
    return Status::error(Code::parse_error, where + " has a cycle: " + text_of(nodes[at]) +
                                                " takes '" +
                                                std::string(taken.substr(0, kMaxNameBytes)) +
                                                "', which is computed from its own result");
  }
};

/// Names that are visible, scope by scope.
class Names {
public:
  Status graph(const Graph &graph) {
    std::vector<std::string_view> own;
    auto define = [&](std::string_view name) { return add(name, &own); };
    std::unordered_set<std::string_view> initialized;
    for (const TensorView &one : graph.initializers) {
      initialized.insert(one.name);
      CUGRT_TRY(define(one.name));
    }
    for (const ValueInfo &one : graph.inputs)
      if (!initialized.count(one.name))
        CUGRT_TRY(define(one.name)); // twice, or hides an outer one
    CUGRT_TRY(nodes(graph.nodes, define));
    for (const ValueInfo &one : graph.outputs)
      CUGRT_TRY(use(one.name, "the result of graph '" + std::string(graph.name) + "'"));
    for (std::string_view name : own)
      visible_.erase(name);
    return {};
  }
  Status function(const LocalFunction &function) {
    std::unordered_set<std::string_view> outer;
    outer.swap(visible_);
    for (std::string_view name : function.inputs)
      visible_.insert(name);
    CUGRT_TRY(nodes(function.nodes, [&](std::string_view name) { return add(name, nullptr); }));
    outer.swap(visible_);
    return {};
  }

private:
  template <class Define> Status nodes(const std::vector<Node> &nodes, Define define) {
    for (const Node &node : nodes) {
      if (node.op.size() > kMaxNameBytes || node.domain.size() > kMaxNameBytes)
        return too_long("an op");
      const std::string who = text_of(node);
      for (std::string_view name : node.inputs)
        CUGRT_TRY(use(name, who));
      for (const AttributeView &attribute : node.attributes)
        if (attribute.graph)
          CUGRT_TRY(graph(*attribute.graph));
      for (std::string_view name : node.outputs)
        CUGRT_TRY(define(name));
    }
    return {};
  }
  static Status too_long(const char *whose) {
    return Status::error(Code::parse_error, std::string(whose) + " has a name of more than " +
                                                std::to_string(kMaxNameBytes) + " bytes");
  }
  /// Makes a name visible; `own`: to the end of a scope. Names go to C as texts that end in NUL.
  Status add(std::string_view name, std::vector<std::string_view> *own) {
    if (name.empty())
      return {};
    if (name.size() > kMaxNameBytes)
      return too_long("a value");
    if (name.find('\0') != name.npos)
      return Status::error(Code::parse_error, "a value's name has a NUL byte: '" +
                                                  std::string(name.substr(0, name.find('\0'))) +
                                                  "..'");
    if (!visible_.insert(name).second)
      return Status::error(Code::parse_error, "value '" + std::string(name) + "' is defined twice");
    if (own)
      own->push_back(name);
    return {};
  }
  Status use(std::string_view name, const std::string &who) {
    if (name.empty() || visible_.count(name))
      return {};
    return Status::error(Code::parse_error,
                         who + " takes '" + std::string(name) + "', which is not defined");
  }
  std::unordered_set<std::string_view> visible_;
};

} // namespace

Status sort_nodes(Model &model) {
  NameList names;
  CUGRT_TRY(Order().graph(model.graph, names));
  for (LocalFunction &function : model.functions)
    CUGRT_TRY(
        Order().nodes(function.nodes, "function '" + std::string(function.name) + "'", names));
  return {};
}

Status check_names(const Model &model) {
  Names names;
  CUGRT_TRY(names.graph(model.graph));
  for (const LocalFunction &function : model.functions)
    CUGRT_TRY(names.function(function));
  return {};
}

} // namespace cugrt::onnx
