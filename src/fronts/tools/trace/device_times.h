// Nodes of graphs with their times on the device and what they come from: what `cugrt trace
// --device` draws and `cugrt bench --by` adds up.
#pragma once

#include "ceilings.h"
#include "cupti.h"
#include "model.h"

#include <map>
#include <string>
#include <vector>

namespace tool {

/// One node of a launch.
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

/// A launch of a graph: its nodes in the order of their ends.
struct TimedGraph {
  std::string function, region;
  std::map<std::string, int64_t> key;
  std::vector<TimedNode> nodes;
  double total_us() const { return nodes.empty() ? 0 : nodes.back().end_us; }
};

/// A session whose nodes of graphs are timed: by CUPTI, where it is there and tells of nodes, else
/// by events between nodes. CUPTI leaves graphs as they are and tells of nodes in bodies of
/// conditionals; with events a graph has twice as many nodes, and a body is part of its
/// conditional.
class NodeTimes {
public:
  /// Where there is a CUPTI, another session runs once with `values` to see whether it tells of
  /// nodes.
  NodeTimes(Model &model, cugrt_session_options options, std::span<const cugrt::Value> values);

  cugrt::Session &session() { return *session_; }
  /// "CUPTI 13.4"; "events between them".
  std::string by() const { return cupti_ ? cupti_->name() : "events between them"; }
  bool by_events() const { return !cupti_; }
  /// Of work that has ended. By CUPTI: of every launch since the last call, in their order. By
  /// events: the last launch of each instance alive.
  std::vector<TimedGraph> read();

private:
  std::vector<TimedGraph> read_activities(const cugrt::Session &session);
  std::vector<TimedGraph> read_events();
  /// Of each node of an instance of the session's report.
  std::vector<std::optional<Operations>> operations_of(const nlohmann::ordered_json &instance);

  Model &model_;
  std::map<std::string, nlohmann::json> plans_; // by key: reports of the plans there
  std::unique_ptr<Cupti> cupti_;
  std::optional<cugrt::Session> session_;
};

/// "fused_matmul_add" of "fused_matmul_add_f32_1 %x"; of a kernel that is not fused the op that
/// gives its value, "softmax" of "softmax_rows_f32 %x".
std::string op_of_step(const std::string &step, const std::map<std::string, std::string> &ops);

} // namespace tool
