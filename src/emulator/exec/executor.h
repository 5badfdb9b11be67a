// Parameters and results of a launch of decoded code; decode/program.h launches.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::emulator {

/// Why a launch failed. The values name CUresult codes; the driver side maps them.
enum class FaultKind {
  illegal_address,     // 700
  misaligned_address,  // 716
  illegal_instruction, // 715
  trap,                // 719, CUDA_ERROR_LAUNCH_FAILED
  deadlock,            // 702, CUDA_ERROR_LAUNCH_TIMEOUT: parked paths that can never meet
  assertion,           // 710
  stack_overflow,      // 714, CUDA_ERROR_HARDWARE_STACK_ERROR
};

struct Fault {
  FaultKind kind;
  /// Kernel, PTX line (source line with -lineinfo), block, thread, address: for people.
  std::string message;
};

struct KernelParam {
  uint32_t offset = 0, bytes = 0; // in the kernel's parameter buffer
};

/// A kernel of a loaded program; lives as long as its Program.
struct KernelInfo {
  std::string name;
  std::vector<KernelParam> params;
  uint32_t param_bytes = 0;
  uint32_t static_shared_bytes = 0, local_bytes = 0, registers = 0;
  bool uses_heap = false;                   // it, or a function that it may call, by malloc or free
  uint32_t constant_bytes = 0;              // of the module's .const variables
  uint32_t max_registers = 255;             // that an assembler may give a thread
  uint32_t max_threads_per_block = 1024;    // from .maxntid or the profile
  std::array<uint32_t, 3> required_block{}; // from .reqntid; zeros: none
  std::array<uint32_t, 3> required_cluster{}; // from .reqnctapercluster; zeros: none
  uint32_t max_cluster_rank = 0;              // from .maxclusterrank: blocks; 0: not stated
  bool explicit_cluster = false;              // .explicitcluster: no launch without
  std::string missing; // what it, or a function that it calls, has and nothing executes: no launch
};

struct GlobalInfo {
  uint64_t address = 0, bytes = 0;
  bool managed = false;
};

/// PTX instructions as written, and the same times active lanes, whatever they were decoded to.
struct ExecutionCounters {
  uint64_t warp_instructions = 0, lane_operations = 0;
};

class DeviceHeap;
struct LaunchAccesses;

/// Gets the place in the code and one line of text; from any of a launch's threads.
using UninitializedReport = std::function<void(const std::string &site, const std::string &text)>;
/// These get one line of text; likewise.
using RaceReport = std::function<void(const std::string &)>;
using BoundsReport = std::function<void(const std::string &)>;
using PollingReport = std::function<void(const std::string &)>;

constexpr uint64_t kDefaultStackBytes = 1024;
constexpr uint64_t kMaxStackBytes = 512 << 10; // local memory of a thread, by the architecture

/// For a launch that draws the order of unordered work from a seed: blocks of the grid begin in any
/// order and take turns, and so do warps between barriers. It runs on one thread.
struct LaunchOrder {
  uint64_t seed = 0;
  /// Called between turns of blocks now and then: other work may run.
  const std::function<void()> *between_blocks = nullptr;
};

struct LaunchConfig {
  std::array<uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  /// Blocks of a cluster, which divide the grid; they run at the same time, on one thread.
  std::array<uint32_t, 3> cluster{1, 1, 1};
  bool has_cluster = false; // the launch or the kernel states it
  uint32_t dynamic_shared_bytes = 0;
  std::span<const uint32_t> multiprocessors; // the numbers of those that it has; empty: all
  std::span<const std::byte> params;         // KernelInfo::param_bytes of them
  uint32_t max_threads = 0;                  // of the host, to run blocks on; 0: all of the pool
  /// A thread's stack, at most kMaxStackBytes, if the code does not tell the depth of calls:
  /// recursion, and calls through registers. It is at least what the code needs.
  uint64_t stack_bytes = kDefaultStackBytes;
  /// Called at every griddepcontrol.wait and .launch_dependents that a warp executes, from any of
  /// the launch's threads, several at a time; the first returns when the launches that this one
  /// follows have ended and their writes are to be seen. Null: nothing is done.
  const std::function<void()> *wait_for_predecessors = nullptr, *launch_dependents = nullptr;
  /// cudaGraphSetConditional(handle, value), from any of the launch's threads; false for a handle
  /// that means nothing here, which is an illegal address.
  const std::function<bool(uint64_t, uint32_t)> *set_conditional = nullptr;
  /// Counts into it, which slows the launch; otherwise nothing is counted.
  ExecutionCounters *counters = nullptr;
  /// Gets the launch's accesses to global memory, which slows it (exec/checks/accesses.h); null:
  /// records none.
  LaunchAccesses *accesses = nullptr;
  /// Called for each race on shared memory, which slows the launch (exec/checks/race_check.h);
  /// null: looks for none.
  const RaceReport *report_race = nullptr;
  /// Called for each use of bytes that nothing has written, which slows the launch
  /// (exec/checks/init_check.h). Only if the address space keeps AddressSpace::undefined().
  const UninitializedReport *report_uninitialized = nullptr;
  /// Called for each access beyond an allocation that stays in its granule; null: not called.
  const BoundsReport *report_bounds = nullptr;
  /// Called for a block that waits for one that has not begun, which slows the launch
  /// (exec/checks/poll_check.h); null: looks for none. Not for cooperative launches.
  const PollingReport *report_polling = nullptr;
  /// Heap of malloc and free; null: none, and their results are out of bounds.
  DeviceHeap *heap = nullptr;
  /// For a cooperative launch: address of two words, zeros at first; cooperative groups use the
  /// second for barriers of the whole grid (cooperative_groups/details/driver_abi.h).
  uint64_t grid_workspace = 0;
  /// Null: blocks and warps by their numbers.
  const LaunchOrder *order = nullptr;
};

/// Totals since the process began, of operations after decoding.
ExecutionCounters execution_counters();

} // namespace cugrt::emulator
