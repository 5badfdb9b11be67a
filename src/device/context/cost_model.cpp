// Measurement of the policy's constants; see cost_model.h.
#include "device/context/cost_model.h"

#include "device/context/clock.h"
#include "device/driver/graph.h"

#include <algorithm>
#include <array>

namespace cugrt::runtime {

namespace {

constexpr uint64_t kSmallNodes = 16, kLargeNodes = 128;
constexpr int kRepeats = 3;
constexpr size_t kKept = 16; // instances alive while memory is looked at

// The oldest target that the drivers of CUDA 13 still compile for; older devices get theirs.
std::string nothing_ptx(int capability) {
  return std::string(".version 6.3\n.target ") + (capability < 75 ? "sm_50" : "sm_75") +
         "\n.address_size 64\n"
         ".visible .entry cugrt_nothing(.param .u64 at)\n{\n  ret;\n}\n";
}

struct Sample {
  driver::Graph graph;
  std::vector<driver::GraphNode> nodes;
  driver::GraphExec exec; // ends before its graph
  int64_t build_ns = 0, patch_ns = 0;
};

class CostMeter {
public:
  CostMeter(const Device &device, driver::Kernel kernel, driver::StreamRef stream)
      : device_(device), stream_(stream) {
    launch_.function = kernel.get();
    launch_.green = device.context().is_green() ? device.context().get() : nullptr;
    launch_.arguments = arguments_.data();
  }

  /// A chain, as the regions of most models are.
  Result<Sample> build(uint64_t nodes) {
    Sample sample;
    int64_t begin = steady_ns();
    CUGRT_ASSIGN(sample.graph, driver::Graph::create(device_.context()));
    for (uint64_t i = 0; i < nodes; ++i) {
      std::vector<driver::GraphNode> after;
      if (i > 0)
        after.push_back(sample.nodes.back());
      CUGRT_ASSIGN(driver::GraphNode node,
                   sample.graph.ref().add_kernel(launch_, after, "calibration"));
      sample.nodes.push_back(node);
    }
    CUGRT_ASSIGN(sample.exec, driver::GraphExec::instantiate(sample.graph.ref(), "calibration"));
    CUGRT_TRY(sample.exec.upload(stream_));
    CUGRT_TRY(stream_.synchronize());
    sample.build_ns = steady_ns() - begin;
    value_ = 1 - value_;
    begin = steady_ns();
    for (driver::GraphNode node : sample.nodes)
      CUGRT_TRY(sample.exec.set_kernel(node, launch_, "calibration"));
    sample.patch_ns = steady_ns() - begin;
    return sample;
  }

  struct Times {
    int64_t build_ns = INT64_MAX, patch_ns = INT64_MAX;
  };
  /// Returns the fastest of a few: disturbances only add time.
  Result<Times> time(uint64_t nodes) {
    Times best;
    for (int i = 0; i < kRepeats; ++i) {
      CUGRT_ASSIGN(Sample sample, build(nodes));
      best.build_ns = std::min(best.build_ns, sample.build_ns);
      best.patch_ns = std::min(best.patch_ns, sample.patch_ns);
    }
    return best;
  }

  /// Device memory of `kKept` instances of that size, from the free memory before and after.
  Result<uint64_t> memory(uint64_t nodes) {
    std::vector<Sample> kept;
    CUGRT_ASSIGN(driver::Context::Memory before, device_.context().memory());
    for (size_t i = 0; i < kKept; ++i) {
      CUGRT_ASSIGN(Sample sample, build(nodes));
      kept.push_back(std::move(sample));
    }
    CUGRT_ASSIGN(driver::Context::Memory after, device_.context().memory());
    return before.free_bytes > after.free_bytes ? before.free_bytes - after.free_bytes : 0;
  }

private:
  const Device &device_;
  driver::StreamRef stream_;
  uint64_t value_ = 0;
  std::array<void *, 1> arguments_{&value_};
  driver::LaunchParams launch_;
};

} // namespace

Line line_through(uint64_t x1, uint64_t y1, uint64_t x2, uint64_t y2) {
  Line line;
  line.slope = y2 > y1 ? (y2 - y1) / (x2 - x1) : 0;
  line.constant = y1 - std::min(y1, line.slope * x1);
  return line;
}

Result<InstanceCost> measure_costs(const Device &device) {
  CUGRT_ASSIGN(driver::ContextGuard guard, device.context().enter());
  CUGRT_ASSIGN(driver::KernelModule module,
               driver::KernelModule::load(
                   device.context(), nothing_ptx(device.context().capability()), "calibration"));
  CUGRT_ASSIGN(driver::Kernel kernel, module.kernel("cugrt_nothing"));
  CUGRT_ASSIGN(driver::Stream stream, driver::Stream::create(device.context()));
  CostMeter meter(device, kernel, stream.ref());
  CUGRT_ASSIGN(Sample warm, meter.build(kSmallNodes)); // first uses load things
  CUGRT_ASSIGN(CostMeter::Times small, meter.time(kSmallNodes));
  CUGRT_ASSIGN(CostMeter::Times large, meter.time(kLargeNodes));
  CUGRT_ASSIGN(uint64_t large_bytes, meter.memory(kLargeNodes));
  InstanceCost cost;
  Line build = line_through(kSmallNodes, static_cast<uint64_t>(small.build_ns), kLargeNodes,
                            static_cast<uint64_t>(large.build_ns));
  cost.build_ns = build.constant;
  cost.build_node_ns = build.slope;
  cost.patch_node_ns = std::max<uint64_t>(1, static_cast<uint64_t>(large.patch_ns) / kLargeNodes);
  // Drivers take memory in large blocks, so only the sum over many instances says something. The
  // host's share is the default of an instance.
  if (large_bytes != 0)
    cost.node_bytes = std::max<uint64_t>(1, large_bytes / (kKept * kLargeNodes));
  return cost;
}

} // namespace cugrt::runtime
