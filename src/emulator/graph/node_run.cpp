// Device nodes of launches; see node_run.h.
#include "emulator/graph/node_run.h"

#include "emulator/driver/code/launch.h"
#include "emulator/driver/memory/copy.h"
#include "emulator/graph/batch_copy.h"

namespace cugrt::emulator::api {

// Findings have names; others do without the string.
static bool has_checks(const Driver &driver) {
  return driver.stream_order.enabled() || driver.findings.enabled(Check::nodes);
}

NodeRun::NodeRun(Driver &driver, const ExecNode &node, uint32_t index,
                 std::shared_ptr<OrderCheck> check, uint32_t launch)
    : driver_(driver), work_(node.work), name_(has_checks(driver) ? node_name(node, index) : ""),
      index_(index), tools_name_{node.tools_id, node.source_tools_id, launch},
      check_(std::move(check)) {}

NodeRun::NodeRun(Driver &driver, const Work &work, const std::shared_ptr<StreamWork> &stream_work)
    : driver_(driver), work_(work), name_(has_checks(driver) ? work_text(work) : ""), index_(0),
      check_(stream_work ? std::make_shared<OrderCheck>(driver, nullptr, stream_work) : nullptr) {}

CUresult NodeRun::run() {
  std::lock_guard lock(mutex_);
  if (ran_)
    return result_;
  ran_ = true;
  auto check = std::move(check_);
  bool watched = check && check->watches(index_);
  LaunchAccesses accesses;
  result_ = run_told(watched ? &accesses : nullptr);
  if (watched && result_ == CUDA_SUCCESS)
    check->touched(index_, name_, accesses);
  predecessors_.clear();
  return result_;
}

// Runs the work and reports it to a profiler, if there is one.
CUresult NodeRun::run_told(LaunchAccesses *accesses) {
  ActivityLog &log = driver_.activities;
  const ActivityKind kind = activity_of(work_);
  if (!log.wants(kind))
    return run_work(accesses);
  Activity activity{kind, activity_ns(), 0, tools_name_, ""};
  if (const auto *kernel = std::get_if<KernelWork>(&work_))
    activity.kernel = kernel->function->info->name;
  const CUresult result = run_work(accesses);
  activity.end_ns = activity_ns();
  log.add(std::move(activity));
  return result;
}

CUresult NodeRun::run_work(LaunchAccesses *accesses) {
  if (auto *kernel = std::get_if<KernelWork>(&work_))
    return run_kernel_node(*kernel, accesses);
  if (auto *copy = std::get_if<CopyWork>(&work_)) {
    if (accesses)
      copy_accesses(*copy, accesses->before_wait);
    return run_copy(driver_, *copy);
  }
  if (auto *batch = std::get_if<BatchCopyWork>(&work_)) {
    if (accesses)
      batch_copy_accesses(*batch, accesses->before_wait);
    return run_batch_copy(driver_, *batch);
  }
  if (auto *fill = std::get_if<FillWork>(&work_)) {
    if (accesses)
      fill_accesses(fill->fill, accesses->before_wait);
    return run_fill(driver_, fill->fill);
  }
  return CUDA_SUCCESS;
}

// The kernels that this one waits for run when it first waits, unless they have run by then, and at
// the latest when it has ended.
CUresult NodeRun::run_kernel_node(const KernelWork &work, LaunchAccesses *accesses) {
  std::atomic<int> before{CUDA_SUCCESS};
  const std::function<void()> wait = [&] {
    for (const auto &predecessor : predecessors_)
      if (CUresult result = predecessor->run(); result != CUDA_SUCCESS)
        before = result;
  };
  KernelHooks hooks;
  hooks.wait_for_predecessors = predecessors_.empty() ? nullptr : &wait;
  hooks.accesses = accesses;
  CUresult result = run_kernel(driver_, work, hooks);
  wait();
  return before != CUDA_SUCCESS ? CUresult(before.load()) : result;
}

std::vector<std::shared_ptr<NodeRun>> make_runs(Driver &driver, const ExecGraph &graph,
                                                const std::shared_ptr<OrderCheck> &check,
                                                uint32_t launch) {
  std::vector<std::shared_ptr<NodeRun>> runs(graph.nodes.size());
  for (uint32_t i = 0; i < runs.size(); ++i) {
    const ExecNode &node = graph.nodes[i];
    bool on_device = std::holds_alternative<KernelWork>(node.work) ||
                     std::holds_alternative<CopyWork>(node.work) ||
                     std::holds_alternative<BatchCopyWork>(node.work) ||
                     std::holds_alternative<FillWork>(node.work);
    if (on_device && node.enabled)
      runs[i] = std::make_shared<NodeRun>(driver, node, i, check, launch);
  }
  for (uint32_t i = 0; i < runs.size(); ++i) {
    const ExecNode &node = graph.nodes[i];
    for (size_t d = 0; d < node.dependencies.size(); ++d)
      if (node.early[d] && runs[i] && runs[node.dependencies[d]])
        runs[i]->run_after(runs[node.dependencies[d]]);
  }
  return runs;
}

std::shared_ptr<OrderCheck> make_check(Driver &driver, const ExecGraph &graph,
                                       std::shared_ptr<StreamWork> stream_work) {
  bool wanted = stream_work || driver.findings.enabled(Check::nodes) ||
                driver.findings.enabled(Check::programmatic);
  return wanted ? std::make_shared<OrderCheck>(driver, graph.order, std::move(stream_work))
                : nullptr;
}

std::shared_ptr<OrderCheck> make_check(const std::shared_ptr<OrderCheck> &parent, uint32_t node,
                                       const ExecGraph &graph) {
  return parent ? std::make_shared<OrderCheck>(parent, node, graph.order) : nullptr;
}

} // namespace cugrt::emulator::api
