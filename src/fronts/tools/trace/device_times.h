// Nodes of graphs with their times on the device and their origins, which `cugrt trace --device`
// draws and `cugrt bench --by` sums.
#pragma once

#include "ceilings.h"
#include "cupti.h"
#include "model.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tool {

/// A node of a launch.
struct TimedNode {
  std::string op;      // "softmax", or what a fused kernel is made of: "fused_matmul_add"
  std::string kernel;  // the entry, or the kind of a node that is none
  std::string binding; // "%x": what it computes
  std::string place;   // the node of an ONNX file, else "file:line"
  std::string region;
  std::string id;     // of profilers; or its number in the graph, where the driver gives none
  uint64_t bytes = 0; // of the tensors that it reads and writes; 0: not known
  std::optional<Operations> operations{};
  double begin_us = 0, end_us = 0; // from the launch's begin
};

/// The plan's facts about a node's step: its operations, and op and place, if a pack has names,
/// else "".
struct StepOfNode {
  std::optional<Operations> operations{};
  std::string op, place;
};

/// A launch of a graph: its nodes in the order of their ends.
struct TimedGraph {
  std::string function, region;
  std::map<std::string, int64_t> key;
  std::vector<TimedNode> nodes;
  double total_us() const { return nodes.empty() ? 0 : nodes.back().end_us; }
};

/// Origins of nodes of a model's graphs.
struct NodeNames {
  std::string source;                        // its file
  std::map<std::string, std::string> ops;    // by value: "softmax" of "x"; of a pack: none
  std::map<std::string, std::string> places; // by value: nodes of an ONNX file
  /// Keyed by line of the module: for a language model, whose functions have equal values, and for
  /// ops that passes make of an ONNX file's nodes.
  std::map<uint32_t, std::string> ops_of_lines, places_of_lines;
  /// A list of reports of plans as JSON, with operations at these values of symbols.
  std::function<nlohmann::json(const Symbols &)> plan_reports;
};
/// The model outlives them.
NodeNames names_of(const Model &model);
/// Names the nodes of a GGUF file's module by tensors; a node that reads none has its layer.
NodeNames names_of_language_model(const cugrt::Module &module, const std::string &source);

/// Times of the nodes of one session's graphs: by CUPTI, or by events between nodes, with which it
/// was opened.
class NodeReader {
public:
  NodeReader(NodeNames names, std::unique_ptr<Cupti> cupti)
      : names_(std::move(names)), cupti_(std::move(cupti)) {}

  /// "CUPTI 13.4"; "events between them".
  std::string by() const { return cupti_ ? cupti_->name() : "events between them"; }
  bool by_events() const { return !cupti_; }
  /// Whether the last read found nodes of every graph that was launched.
  bool found_all() const { return found_all_; }
  /// Uses events in place of a CUPTI that finds no nodes; returns the reason.
  std::string use_events();
  /// From now on reads another session.
  void restart() { last_launch_ = 0; }
  /// Reads work that has ended. With CUPTI: every launch since the last call, in order. With
  /// events: the last launch of each instance that was launched since.
  std::vector<TimedGraph> read(cugrt_session *session);
  /// The session's report of its graphs with an op and a place at each node.
  nlohmann::ordered_json with_names(nlohmann::ordered_json instances);

private:
  std::vector<TimedGraph> read_activities(const nlohmann::ordered_json &instances);
  std::vector<TimedGraph> read_events(const nlohmann::ordered_json &instances);
  /// The node without its times.
  TimedNode timed_node(const nlohmann::ordered_json &node, size_t number, const std::string &region,
                       const StepOfNode &of) const;
  /// Steps of the nodes of an instance in the session's report.
  std::vector<StepOfNode> steps_of(const nlohmann::ordered_json &instance);

  NodeNames names_;
  std::map<std::string, nlohmann::json> plans_; // by key: reports of the plans there
  std::unique_ptr<Cupti> cupti_;
  uint64_t last_launch_ = 0; // that was read
  bool found_all_ = true;
};

/// A session whose nodes of graphs are timed: by CUPTI, where it is there and its nodes are found,
/// else by events between nodes. CUPTI leaves graphs as they are and reports nodes in bodies of
/// conditionals; with events a graph has twice as many nodes, and a body is part of its
/// conditional.
class NodeTimes {
public:
  /// If there is a CUPTI, another session runs once with `values` to see whether it reports
  /// nodes.
  NodeTimes(Model &model, cugrt_session_options options, std::span<const cugrt::Value> values);

  cugrt::Session &session() { return *session_; }
  std::string by() const { return reader_->by(); }
  bool by_events() const { return reader_->by_events(); }
  std::vector<TimedGraph> read() { return reader_->read(session_->get()); }

private:
  std::optional<NodeReader> reader_;
  std::optional<cugrt::Session> session_;
};

/// The layer of a place: "/model/layers.0" for "/model/layers.0/mlp/MatMul", as exporters name
/// nodes by their modules, and "blk.0" for "blk.0.attn_q.weight": up to the first part that ends in
/// a number, else all but the last part. All of a "file:line".
std::string layer_of(const std::string &place);

/// "fused_matmul_add" of "fused_matmul_add_f32_1 %x"; of a kernel that is not fused the op that
/// gives its value, "softmax" of "softmax_rows_f32 %x".
std::string op_of_step(const std::string &step, const std::map<std::string, std::string> &ops);

// Finds the node of a session's graphs that a profiler reports.

/// A node of a report of graphs, in the graph's order.
struct KnownNode {
  std::optional<uint64_t> id; // as the driver gives it (CUDA 13.1)
  std::string kernel;         // its entry; empty: a copy or a fill
};
/// A node of a profiler's.
struct ToldNode {
  uint64_t id = 0; // its graph's number in the upper half
  std::string kernel;
};
struct NodeMatch {
  uint32_t graph = 0, node = 0; // indices of the report's
  bool by_id = false;           // or by the order of the graph's kernels
};

/// For each told node, which are in the order of ids, the known one: that of the same id and
/// kernel. Where a told graph has no node like that (the driver gives no ids, or profiler and
/// driver count differently), it is the one known graph whose nodes, but for those that ids tell
/// (of bodies of conditionals), have the same kernels in the same order, if just one is so.
std::vector<std::optional<NodeMatch>> match_nodes(std::span<const ToldNode> told,
                                                  std::span<const std::vector<KnownNode>> graphs);

} // namespace tool
