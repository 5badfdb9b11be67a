// Whether a model is sound: every value is defined once, before it is read.
#include "import/onnx/model.h"

#include <unordered_set>

namespace cugrt::onnx {

namespace {

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
      const std::string who =
          "node '" + std::string(node.name) + "' (" + std::string(node.op) + ")";
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
                         who + " takes '" + std::string(name) +
                             "', which is not defined before it (or the graph has a cycle)");
  }
  std::unordered_set<std::string_view> visible_;
};

} // namespace

Status check_names(const Model &model) {
  Names names;
  CUGRT_TRY(names.graph(model.graph));
  for (const LocalFunction &function : model.functions)
    CUGRT_TRY(names.function(function));
  return {};
}

} // namespace cugrt::onnx
