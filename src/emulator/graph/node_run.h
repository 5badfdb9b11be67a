// Runs the device's work: nodes of a launch, and work in streams.
#pragma once

#include "emulator/driver/schedule/activity.h"
#include "emulator/graph/order_check.h"

namespace cugrt::emulator::api {

/// One device node of one launch, or one piece of work in a stream. run() does its work once,
/// whoever calls it first: its own task, or the kernel that waits for it over a programmatic edge.
/// Thread-safe.
class NodeRun {
public:
  /// A copy of the node's work is taken. `check` may be nullptr.
  NodeRun(Driver &driver, const ExecNode &node, uint32_t index, std::shared_ptr<OrderCheck> check,
          uint32_t launch);
  /// Work in a stream; `stream_work` may be nullptr.
  NodeRun(Driver &driver, const Work &work, const std::shared_ptr<StreamWork> &stream_work);

  /// Called before the run is shared.
  void run_after(std::shared_ptr<NodeRun> before) { predecessors_.push_back(std::move(before)); }
  CUresult run();

private:
  CUresult run_work(LaunchAccesses *accesses);
  CUresult run_told(LaunchAccesses *accesses);
  CUresult run_kernel_node(const KernelWork &work, LaunchAccesses *accesses);

  Driver &driver_;
  const Work work_;
  const std::string name_;
  const uint32_t index_;
  const NodeName tools_name_;                          // none: in a stream
  std::shared_ptr<OrderCheck> check_;                  // until it has run, as are the predecessors
  std::vector<std::shared_ptr<NodeRun>> predecessors_; // over programmatic edges
  std::mutex mutex_; // held while it runs, so that others wait; taken along edges only
  bool ran_ = false;
  CUresult result_ = CUDA_SUCCESS;
};

/// For each node of the graph that the device executes, its run, linked over programmatic edges;
/// nullptr for the others and for disabled ones. `launch`: from ActivityLog::next_launch.
std::vector<std::shared_ptr<NodeRun>> make_runs(Driver &driver, const ExecGraph &graph,
                                                const std::shared_ptr<OrderCheck> &check,
                                                uint32_t launch);
/// nullptr when the checks are off.
std::shared_ptr<OrderCheck> make_check(Driver &driver, const ExecGraph &graph,
                                       std::shared_ptr<StreamWork> stream_work);
std::shared_ptr<OrderCheck> make_check(const std::shared_ptr<OrderCheck> &parent, uint32_t node,
                                       const ExecGraph &graph);

} // namespace cugrt::emulator::api
