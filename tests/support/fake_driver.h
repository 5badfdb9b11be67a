// A CUDA driver for tests: the emulated one behind a table of functions that records every call and
// can fail or skip any of them. Each FakeDriver starts the emulated driver anew, so one lives at a
// time; any thread may call it. What destroys or frees does so even where it is made to fail.
//
// It has the quirks of its version: edges of one call have the first one's data, and before 12.8 a
// body that has nothing to execute does not end.
//
// Memory of cuMemAlloc and of pools lies at host addresses, too, where tests read and write it.
// Every module that is loaded has the code that a test defines, unless it is PTX itself.
#pragma once

#include "device/driver/driver_api.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::test {

struct FakeState;

struct FakeCall {
  const char *entry; // "cuMemAlloc"
  CUresult result;
};

/// Objects that were created and not yet destroyed.
struct FakeLive {
  size_t contexts = 0, allocations = 0, host_allocations = 0, modules = 0, streams = 0, events = 0;
  size_t graphs = 0, execs = 0, reservations = 0;
  uint64_t device_bytes = 0;
  friend bool operator==(const FakeLive &, const FakeLive &) = default;
};

class FakeDriver {
public:
  struct Options {
    int version = 13000;
    int capability = 90;
    uint64_t device_bytes = uint64_t(1) << 30;
    uint64_t reservable_bytes = UINT64_MAX; // of one reservation of addresses
    bool body_setters = false;              // setters reach nodes in bodies of conditionals
    bool record = true;                     // off: calls are counted and no more
    int order = 0; // all that CUDA leaves unordered is drawn from it; 0: as the environment says
  };

  FakeDriver();
  explicit FakeDriver(const Options &options);
  ~FakeDriver();
  FakeDriver(const FakeDriver &) = delete;

  /// Members that Options::version does not have are null.
  driver::DriverApi api() const;

  // -- code: every module has these
  /// `body` is PTX; parameters are p0, p1, ..., and registers %p, %r, %d and %f are declared.
  void define_kernel(const std::string &name, const std::vector<size_t> &param_bytes,
                     const std::string &body = "");
  void set_static_shared(const std::string &kernel, int bytes);
  void define_global(const std::string &name, uint64_t size_bytes);

  // -- what happened
  const std::vector<FakeCall> &calls() const;
  uint64_t call_count() const; // counted with recording off too
  size_t count(std::string_view entry) const;
  /// Kernels that ran, once what was launched has ended.
  uint64_t kernels_run() const;
  /// Edges that kernel nodes were added with.
  size_t kernel_edges() const;
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
  /// Launches succeed and do nothing.
  void skip_launches();
  /// While held, events and streams answer CUDA_ERROR_NOT_READY when asked.
  void hold(bool held);
  /// Another thread captures in the global mode: what is unsafe then fails, but for threads in the
  /// relaxed mode.
  void capture_elsewhere();
  /// Ends throw std::logic_error when a call has been captured, or has ended the capture.
  void set_capturing(CUstream stream, bool capturing);
  /// A context beside the device's primary one, for as long as the FakeDriver lives.
  CUcontext another_context();

private:
  std::unique_ptr<FakeState> state_;
};

} // namespace cugrt::test
