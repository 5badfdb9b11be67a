// The emulated driver: one object for the process, made at the first call and never destroyed,
// since programs call drivers from exit handlers.
//
// All of driver/ and graph/ is in namespace cugrt::emulator::api, apart from the execution layer's
// names (it has modules and functions of its own).
//
// Every exported function is a body that call() runs (CALL, below). call() counts it, injects
// faults, refuses calls before cuInit and from host callbacks, and turns exceptions into codes, so
// that none crosses the C interface. The body locks driver.mutex for as long as it touches objects,
// and never while it waits for tasks or runs the program's callbacks. Lock order: Driver::mutex,
// then the locks inside MemoryTable, AddressSpace, HandleTable and Scheduler, which call nothing of
// ours but, at last, StreamOrder and Findings.
#pragma once

#include "emulator/driver/conditional_table.h"
#include "emulator/driver/config.h"
#include "emulator/driver/findings.h"
#include "emulator/driver/green.h"
#include "emulator/driver/handle_table.h"
#include "emulator/driver/memory/memory_table.h"
#include "emulator/driver/objects.h"
#include "emulator/driver/schedule/activity.h"
#include "emulator/driver/schedule/stream_order.h"
#include "emulator/driver/schedule/work.h"
#include "emulator/prototypes.h"

#include <atomic>
#include <mutex>
#include <string>

namespace cugrt::emulator::api {

using Lock = std::unique_lock<std::mutex>;
template <class T> using Ref = std::shared_ptr<T>;

struct Counters {
  std::atomic<uint64_t> calls{0}, kernels{0}, copies{0}, memsets{0}, graph_launches{0};
};

struct GraphExec;

class Driver {
public:
  static Driver &instance();

  std::mutex mutex;
  Config config;
  std::atomic<bool> initialized{false};
  std::unique_ptr<AddressSpace> memory; // made by cuInit
  std::unique_ptr<MemoryTable> allocations;
  std::unique_ptr<Scheduler> scheduler;
  Counters counters;
  Findings findings;
  LoadCount loads;
  ActivityLog activities;
  StreamOrder stream_order{findings};
  uint64_t next_id = 1; // of contexts, streams, captures
  Ref<Context> primary; // alive while retained
  unsigned primary_retains = 0, primary_flags = 0;

  ContextTable contexts;
  HandleTable<Stream, CUstream, 2> streams;
  HandleTable<Event, CUevent, 3> events;
  HandleTable<Module, CUmodule, 4> modules;
  HandleTable<Function, CUfunction, 5> functions;
  HandleTable<Library, CUlibrary, 6> libraries;
  HandleTable<Kernel, CUkernel, 7> kernels;
  HandleTable<Graph, CUgraph, 8> graphs;
  HandleTable<GraphNode, CUgraphNode, 9> nodes;
  HandleTable<GraphExec, CUgraphExec, 10> execs;
  HandleTable<UserObject, CUuserObject, 11> user_objects;
  HandleTable<Physical, Physical *, 12> physical;
  HandleTable<MemoryPool, CUmemoryPool, 14> pools;
  HandleTable<LinkState, CUlinkState, 15> links;
  HandleTable<GreenContext, CUgreenCtx, 16> greens;
  HandleTable<ResourceDescriptor, CUdevResourceDesc, 18> descriptors;
  Ref<MemoryPool> default_pool;           // made at the first question
  std::weak_ptr<MemoryPool> current_pool; // none: the default one
  struct Mapping {
    uint64_t bytes = 0, offset = 0;
    Ref<Physical> memory;
    bool accessible = false;
  };
  ConditionalTable conditionals;
  std::map<uint64_t, uint64_t> reservations; // cuMemAddressReserve: address to bytes
  std::map<uint64_t, Mapping> mappings;      // cuMemMap, by address

  CUresult initialize();
  CUresult reinitialize();
  /// The begin of every call; `needs_init` is false for the few that work before cuInit.
  CUresult enter(bool needs_init);
  void inject_fault(uint64_t nth_call, CUresult code);

  void set_message(std::string message);
  /// A finding that is also the last message.
  void report(Check check, const std::string &message);
  /// Returns CUDA_ERROR_NOT_SUPPORTED, after reporting `what`, which is not emulated.
  CUresult refuse(const std::string &what);
  std::string message();

private:
  Driver();
  std::atomic<int64_t> fault_countdown_{0}; // 0: none
  std::atomic<int> fault_code_{0};
  std::mutex message_mutex_;
  std::string message_;
};

template <class Body> CUresult call(Body &&body, bool needs_init = true) {
  try {
    Driver &driver = Driver::instance();
    CUGRT_EMU_TRY(driver.enter(needs_init));
    return body(driver);
  } catch (const std::bad_alloc &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) { // a broken invariant in the emulator
    return CUDA_ERROR_UNKNOWN;
  }
}

/// The same with the driver's lock held; a body that waits takes the lock as well.
template <class Body> CUresult locked_call(Body &&body) {
  return call([&](Driver &driver) -> CUresult {
    Lock lock(driver.mutex);
    if constexpr (std::is_invocable_v<Body, Driver &, Lock &>)
      return body(driver, lock);
    else
      return body(driver);
  });
}

// An entry point is ENTRY(its name, names for its parameters, whose types cuda.h has) { ... }. CALL
// and LOCKED_CALL begin one whose body runs within call() and locked_call(): it finds `driver`, and
// `lock`, among its parameters.
#define ENTRY(symbol, ...)                                                                         \
  extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI symbol(                       \
      TYPED_##symbol(__VA_ARGS__))
#define CALL(symbol, ...) GUARDED(call(body), (Driver & driver), symbol, __VA_ARGS__)
#define LOCKED_CALL(symbol, ...)                                                                   \
  GUARDED(locked_call(body), (Driver & driver, Lock & lock), symbol, __VA_ARGS__)
/// An entry point whose body gets what `guarded` found, and then the parameters.
#define GUARDED(guarded, found, symbol, ...)                                                       \
  static CUresult do_##symbol(UNPACKED found, TYPED_##symbol(__VA_ARGS__));                        \
  ENTRY(symbol, __VA_ARGS__) {                                                                     \
    const auto body = [&](auto &&...objects) -> CUresult {                                         \
      return do_##symbol(objects..., __VA_ARGS__);                                                 \
    };                                                                                             \
    return guarded;                                                                                \
  }                                                                                                \
  static CUresult do_##symbol(UNPACKED found, TYPED_##symbol(__VA_ARGS__))
#define UNPACKED(...) __VA_ARGS__

/// Runs `body` without the lock, for the one device.
template <class Body> CUresult device_call(CUdevice device, Body &&body) {
  return call([&](Driver &driver) -> CUresult {
    return device == 0 ? body(driver) : CUDA_ERROR_INVALID_DEVICE;
  });
}
#define DEVICE_CALL(...) GUARDED(device_call(device, body), (Driver & driver), __VA_ARGS__)

// --- Contexts: the current one of a thread (context.cpp). All need the lock.

/// The context on top of the calling thread's stack. INVALID_CONTEXT when there is none,
/// CONTEXT_IS_DESTROYED when it is gone, the sticky error of its device after a fault.
CUresult current_context(Driver &driver, Ref<Context> *out);
/// The same without the sticky error, for calls that must work after one.
CUresult current_context_any(Driver &driver, Ref<Context> *out);
/// The green context that is current to the calling thread; nullptr when another context is.
Ref<GreenContext> current_green(Driver &driver);
/// The handle that is current to the calling thread, or nullptr.
CUcontext current_handle();
/// Makes the primary context if need be.
void retain_primary(Driver &driver);
/// INVALID_CONTEXT when nobody retains it. Waits without the lock.
CUresult release_primary(Driver &driver, Lock &lock);
/// Frees all that the context holds. The work of its streams has ended; the lock is held.
void destroy_context_contents(Driver &driver, Context &context);
/// All unfinished work of the context, to wait for without the lock.
std::vector<TaskPtr> pending_work(Driver &driver, Context &context);
void wait_all(Driver &driver, const std::vector<TaskPtr> &tasks);
/// The same for work that uses memory which is being freed. A wait for a word of it that nothing
/// can end any more is a fault.
void wait_all_before_free(Driver &driver, const std::vector<TaskPtr> &tasks,
                          const MemoryRange &range);

} // namespace cugrt::emulator::api
