// What the launch bench measures: a module on a driver, opened for each way of launching it.
//
//   Subject      the compiled module, an input, and its launches at two shapes
//   LaunchList   the launches of one shape with everything evaluated: what a program that calls the
//                driver by hand would keep. Plain launches, captures and hand-made graphs use it,
//                and it is taken from what the runtime itself would launch, so all do the same
//                work.
#pragma once

#include "bench/launch/graphs.h"
#include "bench/support/capture.h"
#include "device/session/session.h"

#include <memory>

namespace cugrt::bench {

enum class DriverClass { real, emulated, null };

/// A driver with a stream on it. Not copied: streams and events die before the device.
struct BenchDriver {
  DriverClass kind = DriverClass::real;
  std::string name; // the device's, EMULATED or NULL
  std::shared_ptr<runtime::Device> device;
  CaptureApi capture;
  driver::Stream stream;
  driver::Event begin, end; // with timing

  static Result<std::unique_ptr<BenchDriver>> open(DriverClass kind);
  /// Waits for the stream.
  Status idle() const { return stream.ref().synchronize(); }
};

class LaunchList {
public:
  /// The launches of a region as the run binds them.
  static Result<LaunchList> make(const runtime::RunBinding &run, const runtime::LoadedCode &code,
                                 const runtime::TopologyClass &topology);
  LaunchList(LaunchList &&) = default; // pointers into the vectors stay right
  LaunchList &operator=(LaunchList &&) = default;

  size_t node_count() const { return nodes_.size(); }
  size_t edge_count() const { return edge_count_; }

  /// One cuLaunchKernelEx after another, nothing else.
  Status launch(driver::StreamRef stream);
  /// The same kernels as nodes, with the plan's edges.
  Status add_to(driver::GraphRef graph, std::vector<driver::GraphNode> &nodes) const;
  /// Sets every kernel node of an instance to this list's parameters.
  Status set_all(const driver::GraphExec &exec, std::span<const driver::GraphNode> nodes) const;

private:
  struct Node {
    bool empty = false; // a join of many edges: no launch
    driver::LaunchParams params;
    std::vector<uint32_t> after;
  };
  LaunchList() = default;

  std::vector<Node> nodes_;
  std::vector<CUlaunchConfig> configs_;           // of the launches
  std::vector<driver::KernelNodeParams> setters_; // of all nodes
  std::vector<uint64_t> values_;
  std::vector<void *> pointers_;
  size_t edge_count_ = 0;
};

/// Which instance serves a run.
enum class Instances {
  own,     // each shape has its own
  patched, // one for all shapes
};

class Subject {
public:
  static Result<std::unique_ptr<Subject>> make(const BenchDriver &driver, const std::string &text);

  Result<std::unique_ptr<runtime::Session>> open(Instances instances) const;
  /// Runs the function on an input of these dimensions.
  Status run(runtime::Session &session, std::span<const int64_t> dims) const;

  /// What a run at these dimensions launches, kept by the subject's own session.
  struct Shape {
    std::unique_ptr<runtime::RunBinding> run;
    std::shared_ptr<const runtime::TopologyClass> topology;
    LaunchList launches;
  };
  /// Of two shapes, ask for the larger one first: memory for results never shrinks, but may move.
  Result<Shape> shape(std::span<const int64_t> dims);

  const BenchDriver &driver() const { return driver_; }
  const runtime::LoadedCode &code() const { return *code_; }

private:
  explicit Subject(const BenchDriver &driver) : driver_(driver) {}
  Status compile(const std::string &text);
  Status add_weights();

  const BenchDriver &driver_;
  std::shared_ptr<const runtime::Executable> executable_;
  std::shared_ptr<runtime::LoadedCode> code_;
  runtime::WeightSet weights_;
  driver::DeviceBuffer input_;
  std::unique_ptr<runtime::Session> session_; // where shapes come from
};

} // namespace cugrt::bench
