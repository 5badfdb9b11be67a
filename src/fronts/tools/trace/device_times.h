// Nodes of graphs with their times on the device and what they come from: what `cugrt trace
// --device` draws and `cugrt bench --by` adds up.
#pragma once

#include "model.h"

#include <map>
#include <string>
#include <vector>

namespace tool {

/// One node of an instance's last launch.
struct TimedNode {
  std::string op;      // "softmax", or what a fused kernel is made of: "fused_matmul_add"
  std::string kernel;  // the entry, or the kind of a node that is none
  std::string binding; // "%x": what it computes
  std::string place;   // the node of an ONNX file, else "file:line"
  std::string region;
  std::string id;     // of profilers; or its number in the graph, where the driver gives none
  uint64_t bytes = 0; // of the tensors that it reads and writes; 0: not known
  double begin_us = 0, end_us = 0; // from the graph's begin
};

/// A graph that was launched: its nodes in the order of their ends.
struct TimedGraph {
  std::string function, region;
  std::map<std::string, int64_t> key;
  std::vector<TimedNode> nodes;
  double total_us() const { return nodes.empty() ? 0 : nodes.back().end_us; }
};

/// The instances alive of a session that was opened with time_steps 2 and whose work has ended.
std::vector<TimedGraph> read_timed_graphs(const cugrt::Session &session, const Model &model);

/// "fused_matmul_add" of "fused_matmul_add_f32_1 %x"; of a kernel that is not fused the op that
/// gives its value, "softmax" of "softmax_rows_f32 %x".
std::string op_of_step(const std::string &step, const std::map<std::string, std::string> &ops);

} // namespace tool
