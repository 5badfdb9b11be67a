// Storage layout: the places of every origin's bytes, and the arenas of the whole module.
//
// Per function and storage scope, what needs storage becomes classes with lifetimes, packed from
// offset 0: the function's share. Shares of functions that never run at the same time start at the
// arena's beginning; a callee's share starts above everything that is live at any of its call
// sites:
//
//   offset   ┌──────────────┐    callee's share: base = the highest live byte of any caller
//            └──────────────┘    at the call
//     ┌────┐ ┌──┐    ┌──┐
//     │ a  │ │b │    │c │        caller's share, base 0
//     └────┴─┴──┴────┴──┴──▸ time
//                ▲ call: a and what is live then lies below the callee
#pragma once

#include "compiler/planner/packing/packing.h"
#include "compiler/planner/storage/fronts.h"
#include "ir/module/module.h"
#include "plan/format/plan.h"

namespace cugrt::plan {

/// Bytes that are packed as one: a storage, a construct's result, or a launch's workspace.
struct StorageClass {
  uint32_t origin = kNoOrigin; // none: a workspace
  uint32_t scope = 0;          // ir::TypePool
  PackingItem item;
  int64_t offset_bytes = 0; // within the share
};

/// The memory of an origin's bytes: its tensors become Buffers of this base. A caller's tensor has
/// the slot that it is bound to.
struct Base {
  BufferBase kind = BufferBase::arena;
  uint32_t index = kNone; // slot, parameter, constant, dynamic number; of an arena: classes
};

struct Share {
  uint32_t scope = 0;
  int64_t base_bytes = 0, peak_bytes = 0;
  int64_t lower_bound_bytes = 0; // callees included
};

struct FunctionStorage {
  std::vector<Base> bases;              // by origin; tensors stand with their storage's class
  std::vector<uint32_t> result_slot_of; // by result: Function::slots, or kNone
  std::vector<Slot> slots;              // of parameters, then of results; sizes left open
  std::vector<StorageClass> classes;
  std::vector<PackingGap> gaps; // of classes, ascending: nothing in them is alive
  std::vector<std::pair<uint32_t, uint32_t>> workspaces; // (time of the launch, class), ascending
  std::vector<std::pair<uint32_t, uint32_t>> swaps; // (value of a loop's result, class), ascending
  std::vector<std::pair<uint32_t, uint32_t>>
      in_place;              // (tensor, the one whose bytes it takes over)
                             // by origin, ascending (compiler/planner/analysis/liveness.h)
  std::vector<Share> shares; // by scope number
  uint32_t dynamic_count = 0;
  int64_t storage_bytes = 0; // of all classes at upper bounds, for reports
  std::vector<int64_t> tensor_bytes_by_scope;

  uint32_t workspace_at(uint32_t time) const; // class, or kNone
  uint32_t swap_of(ir::ValueId result) const; // likewise
  /// Whether `tensor` takes over the bytes of `other` where that is last used.
  bool takes_over(uint32_t tensor, uint32_t other) const;
  /// Whether it takes over any tensor's bytes.
  bool lies_in_place(uint32_t tensor) const;
};

/// Everything that is decided about a module's storage.
struct ModuleStorage {
  std::vector<uint32_t> order; // callees first
  std::vector<FunctionSummary> summaries;
  std::vector<Liveness> liveness; // by function
  std::vector<FunctionStorage> functions;
  std::vector<Arena> arenas;            // by scope name
  std::vector<uint32_t> arena_of_scope; // by scope number; kNone where nothing is planned there
};

/// `reuse`: what storages and workspaces may take for launches to run side by side
/// (compiler/planner/storage/fronts.h). The module must have passed check_weights().
Result<ModuleStorage> plan_storage(const ir::Module &module, Reuse reuse);

/// Weights belong to the function that a caller outside runs: a call of a public function that has
/// some is an error.
Status check_weights(const ir::Module &module);

/// Whether a loop's body yields for carried value `i` bytes that the copies of the other carried
/// values overwrite, so that it must be set aside first.
bool needs_temporary(const ir::Function &function, const Liveness &live, const ir::Binding &loop,
                     const ir::Operand &yield, uint32_t i);

/// The largest workspace of a launch's variants over the domain of the function's symbols; empty
/// where a bound is missing.
std::optional<int64_t> max_workspace_bytes(const ir::Module &module, const ir::Function &function,
                                           const ir::Binding &launch,
                                           const ir::SymbolDomain &domain);

// --- Shares: a function's classes packed scope by scope, and where in the arenas they begin ----

/// Gives the classes offsets from 0 on, and the shares their peaks. Lives are widened to fronts as
/// far as `reuse` lets storage grow.
Status fill_shares(const ir::Module &module, const ir::Function &function, const Liveness &live,
                   Reuse reuse, FunctionStorage &storage);

/// Gives the shares of all functions, which are packed, their lower bounds and bases, and makes the
/// arenas.
Status lay_out_shares(const ir::Module &module, ModuleStorage &storage);

} // namespace cugrt::plan
