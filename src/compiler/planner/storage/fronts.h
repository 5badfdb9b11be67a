// Fronts: launches that stand next to each other and do not depend on each other, so that a graph
// can run them side by side.
//
// Storage that is reused from step to step in program order orders the steps: the one that writes
// anew waits for the one that read before. So tensors are packed as if all launches of a front
// happened at once, and launches are first brought into an order in which those that can run
// side by side stand so:
//
//   program order  a1 a2 a3 b1 b2 b3     b1 may write over what a2 has read: it waits for a2
//   interleaved    a1 b1 | a2 b2 | a3 b3  three fronts; a3 may write over what a1 and b1 made
//
// What orders two launches is what they read and write: a tensor that one of them writes and the
// other touches. A branch or a loop over a device scalar that needs nothing of the host is a launch
// among others, which touches what its blocks touch; they have fronts of their own. Beside it no
// other may stand: what is alive in its blocks is alive in a part of the front, and times say that
// of one of them, not of two that run at once. Everything else but what only names memory ends a
// front, and nothing moves across it.
//
//   front   [───────────────────)      lives that launches beside the branch begin or end
//   branch     [─────────────)         last for all of it,
//   in it       [───)  [───)           those in the blocks do not, and so share bytes
#pragma once

#include "compiler/planner/analysis/liveness.h"
#include "ir/module/module.h"

#include <optional>
#include <vector>

namespace cugrt::plan {

/// Launches, branches and loops on the device counted as such, that a front may hold, from the most
/// on: 32, beyond which a graph gains little, then fewer, for which storage grows less.
inline constexpr uint32_t kLanesToTry[] = {32, 8, 4, 2};

/// Limit on the peak for launches to run side by side. `balanced`: half as much again as in program
/// order, or a page of 2 MiB, in which memory is allocated; else fewer launches side by side.
enum class Reuse : uint8_t { balanced, parallel, smallest };

/// The limit on storage that takes `smallest_bytes` in program order.
int64_t most_bytes(Reuse reuse, int64_t smallest_bytes);

/// Times of liveness widened to the fronts that they lie in.
class Fronts {
public:
  /// A life [begin, end), not empty, from the start of its first front to the end of its last.
  uint32_t begin(uint32_t begin) const { return begins_.empty() ? begin : begins_[begin]; }
  uint32_t end(uint32_t end) const { return ends_.empty() ? end : ends_[end - 1]; }
  /// No front has two launches.
  bool trivial() const { return begins_.empty(); }

private:
  friend class SideBySide;
  size_t count_ = 0;                    // of fronts
  size_t least_ = 0;                    // no order has fewer
  std::vector<uint32_t> begins_, ends_; // by time; empty: the identity
};

/// The accesses of a function's launches, and the order among them. Its arguments must outlive
/// it.
class SideBySide {
public:
  SideBySide(const ir::Module &module, const ir::Function &function, const Liveness &live);

  /// Fronts of the present order, with at most `lanes` launches each.
  Fronts fronts(uint32_t lanes) const;

  /// The function with its launches interleaved, `lanes` at most to a front: each front takes the
  /// first launch that is left in program order, and beside it those which have at least as many
  /// launches on their longest path to the end, for they would be waited for. Bindings that name
  /// memory go where they are first needed. None if `fronts`, which are those of `lanes`, are as
  /// few as can be, if storage is laid out already, or if nothing would move. The order found may
  /// have more fronts than there were.
  std::optional<ir::Function> interleave(uint32_t lanes, const Fronts &fronts) const;
  static bool fewer(const Fronts &a, const Fronts &b) { return a.count_ < b.count_; }

private:
  class Measure;
  class Segment;
  enum class Role : uint8_t {
    launch,
    conditional, // a branch or a loop that the device runs
    name,        // names memory, runs nothing
    other        // ends a front: nothing moves across it
  };
  /// A tensor that a launch touches; one in a storage counts as the storage.
  struct Access {
    uint32_t origin : 31, writes : 1;
  };
  size_t index(uint32_t block, uint32_t binding) const {
    return live_.blocks[block].first_time + binding;
  }
  static bool runs(Role role) { return role == Role::launch || role == Role::conditional; }
  Role role_of(const ir::Binding &binding) const;
  bool is_dynamic(uint32_t origin) const;
  bool any_dynamic(std::span<const ir::Operand> operands) const;
  bool is_device_scalar(const ir::Operand &operand) const;
  bool runs_on_device(const ir::Binding &construct) const;
  void add_access(uint32_t origin, bool writes);
  void add_accesses(const ir::Binding &launch);
  void add_construct(const ir::Binding &construct);
  std::span<const Access> accesses(size_t index) const {
    return std::span(accesses_).subspan(starts_[index], starts_[index + 1] - starts_[index]);
  }

  const ir::Module &module_;
  const ir::Function &f_;
  const Liveness &live_;
  const ir::SymbolDomain bounds_;
  bool all_bounded_;
  std::vector<Role> roles_;      // of bindings, as in Liveness::times
  std::vector<uint32_t> starts_; // likewise, and one more: into accesses_
  std::vector<Access> accesses_;
};

} // namespace cugrt::plan
