// A thread block while it runs: its warps, shared memory and barriers.
#pragma once

#include "emulator/exec/checks/init_check.h"
#include "emulator/exec/checks/race_check.h"
#include "emulator/exec/draws.h"
#include "emulator/exec/opcodes/handlers.h"
#include "emulator/exec/warps/warp.h"

#include <optional>

namespace cugrt::emulator {

inline constexpr uint32_t kBarriers = 16;

struct Barrier {
  uint32_t arrived = 0;  // threads
  uint32_t expected = 0; // threads; 0: every thread that has not exited
  uint32_t ones = 0;     // of bar.red: arrivals whose predicate holds
};

/// State that all blocks of one launch share.
struct Launch {
  const FunctionCode *code = nullptr;
  const LaunchConfig *config = nullptr;
  const AddressSpace *memory = nullptr;
  uint32_t multiprocessors = 1;
  uint32_t shared_bytes = 0, static_shared_bytes = 0;
  uint64_t local_stride = 0;
  uint64_t known_stack_bytes = 0; // the part of it that is poisoned when a block begins
  bool counting = false;
  uint32_t cache_count = 0; // remembered ranges
  const std::vector<std::string_view> *files = nullptr;
  const std::vector<const FunctionCode *> *functions =
      nullptr; // by address - 1, for calls through registers
};

/// Cut: it could go on, and a drawn order lets others go first. Waiting: only other blocks of its
/// cluster can let it go on.
enum class BlockState : uint8_t { running, cut, waiting, finished, fault };

struct Cluster;

struct Block {
  const Launch *launch = nullptr;
  Cluster *cluster = nullptr; // that it belongs to: always one, which may be of this block alone
  uint32_t rank = 0;          // in its cluster
  std::array<uint32_t, 3> index{};
  uint64_t linear_index = 0;
  uint32_t live_threads = 0;
  /// Warps that have executed griddepcontrol.wait, or met one that has at a barrier; a bit each.
  uint32_t waited = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  std::unique_ptr<std::byte[]> storage; // registers, shared and local memory
  std::byte *shared = nullptr;
  Barrier barriers[kBarriers];
  std::optional<Fault> fault;
  uint64_t warp_instructions = 0, lane_operations = 0; // of operations after decoding
  ExecutionCounters counted;                           // where the launch asks for it
  LaunchAccesses *accesses = nullptr;                  // likewise; of the worker
  uint64_t call_bytes = 0;                             // of the host, for call frames
  std::unique_ptr<RaceCheck> races;                    // likewise
  std::unique_ptr<InitCheck> init;                     // likewise

  Draws *draws = nullptr; // of an order that is drawn; of the worker

  /// Whether each operation is looked at before it is executed.
  bool checking() const { return races || init || draws; }
};

/// Makes a block of the launch, its constants filled in; begin_block starts it at an index, again
/// after it has finished.
std::unique_ptr<Block> make_block(const Launch &launch, AddressRange *ranges);
void begin_block(Block &block, const std::array<uint32_t, 3> &index);
/// Runs until the block has finished or faulted, or has used up a generous budget.
BlockState run_block(Block &block);

enum class WarpState : uint8_t { ready, cut, blocked, finished, fault };
/// Runs a warp until all its paths wait or have ended, or its budget is used up (ready), or the
/// drawn order lets others go first (cut).
WarpState run_warp(Warp &w);

/// bar.warp.sync may stand at different places for different lanes of one mask. Those whose
/// members all wait at one go on; whether there are any.
bool release_warp_barriers(Warp &w);

/// Counts threads of the warp at a barrier and releases it when complete.
void arrive(Warp &w, uint32_t barrier, uint32_t threads, uint32_t expected, uint32_t ones);
/// Call after threads have exited: barriers that wait for all of the block may be complete.
void threads_exited(Block &block, uint32_t threads);

/// Ends the block, no warp of which can go on: says where each path waits.
void report_deadlock(Block &block);

/// For people: "test.cu:3 (ptx line 20)", "thread (1, 0, 0)", "kernel k, block (0, 0, 0)".
std::string location_text(const Launch &launch, const OpLocation &at);
std::string thread_text(const Block &block, uint32_t warp, uint32_t lane);
std::string block_text(const Block &block);

/// Constants and special registers of a call frame; unless `all`, only those that differ by block.
void fill_constants(const FunctionCode &code, std::byte *registers);
void fill_specials(const Warp &w, const FunctionCode &code, std::byte *registers, bool all);

} // namespace cugrt::emulator
