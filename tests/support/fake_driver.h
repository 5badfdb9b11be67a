// A CUDA driver for tests: a DriverApi whose functions keep the rules that our code relies on (live
// handles, current context, copied node parameters, snapshots at instantiation), record every call
// and can fail the nth one. Entries that no test calls are not supported. It executes nothing but
// what a test defines: a kernel is a name, parameter sizes and, if wanted, a C++ function. Device
// addresses are host addresses. All work runs when it is enqueued, but for copies from pageable
// memory: these land when their stream goes on or is waited for.
//
// One FakeDriver lives at a time, since the table's functions carry no state; any thread may call
// it.
#pragma once

#include "device/driver/driver_api.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::test {

struct FakeState;

/// A launch, on a stream or from a graph, as the device would see it.
struct FakeLaunch {
  std::string kernel;
  std::array<uint32_t, 3> grid{}, block{};
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::vector<std::byte>> arguments;
  bool from_graph = false;

  template <class T> T argument(size_t index) const {
    T value;
    __builtin_memcpy(&value, arguments.at(index).data(), sizeof value);
    return value;
  }
};

struct FakeCall {
  const char *entry; // "cuMemAlloc"
  CUresult result;
};

/// Objects that were created and not yet destroyed.
struct FakeLive {
  size_t contexts = 0, allocations = 0, host_allocations = 0, modules = 0, streams = 0, events = 0;
  size_t graphs = 0, edges = 0, execs = 0, reservations = 0, physical = 0;
  uint64_t device_bytes = 0;
  friend bool operator==(const FakeLive &, const FakeLive &) = default;
};

class FakeDriver {
public:
  struct Options {
    int version = 13000;
    int devices = 1;
    int capability = 90;
    uint64_t device_bytes = uint64_t(1) << 30;
    uint64_t reservable_bytes = UINT64_MAX; // of one reservation of addresses
    bool body_setters = false;              // setters reach nodes in bodies of conditionals
    bool record = true;                     // off: nothing is remembered of calls and launches
    bool execute = true;                    // off: launches of graphs and kernels return at once
  };

  FakeDriver();
  explicit FakeDriver(const Options &options);
  ~FakeDriver();
  FakeDriver(const FakeDriver &) = delete;

  /// Every member is set; make_driver takes away what Options::version does not have.
  driver::DriverApi api() const;

  // -- code: every module has these
  using KernelBody = std::function<void(const FakeLaunch &)>;
  void define_kernel(std::string name, std::vector<size_t> param_bytes, KernelBody body = {});
  void set_static_shared(const std::string &kernel, int bytes);
  void define_global(std::string name, uint64_t size_bytes);

  // -- what happened
  const std::vector<FakeCall> &calls() const;
  uint64_t call_count() const; // counted with recording off too
  size_t count(std::string_view entry) const;
  const std::vector<FakeLaunch> &launches() const;
  void forget();
  FakeLive live() const;

  // -- what shall happen
  /// The nth call from now (1: the next) returns `code` and does nothing. 0 cancels.
  void fail_nth(uint64_t nth, CUresult code);
  /// The nth call of one entry point from now.
  void fail_nth_of(std::string entry, uint64_t nth, CUresult code);
  /// Every later call but destruction and queries of errors fails so, as after a fault on the
  /// device.
  void fail_from_now(CUresult code);
  /// While held, events and streams answer CUDA_ERROR_NOT_READY when asked.
  void hold(bool held);
  /// Another thread captures in the global mode: what is unsafe then fails, but for threads in the
  /// relaxed mode.
  void capture_elsewhere(bool captured);
  void set_capturing(CUstream stream, bool capturing);
  /// What device code would do with cudaGraphSetConditional; for kernel bodies.
  void set_condition(CUgraphConditionalHandle handle, uint32_t value);
  /// An edge between nodes that are there, which our code never adds: a cycle can be made of it.
  void add_edge(CUgraphNode from, CUgraphNode to);

private:
  std::unique_ptr<FakeState> state_;
};

} // namespace cugrt::test
