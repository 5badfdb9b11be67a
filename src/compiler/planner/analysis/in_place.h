// Launches that may write a tensor over one that they read: the kernel declares it (`out f32 over
// x`), the operands are whole tensors of the same bytes, the one that is read is used there for the
// last time, and the one that is written for the first.
#pragma once

#include "compiler/planner/analysis/liveness.h"
#include "ir/module/module.h"

#include <utility>
#include <vector>

namespace cugrt::plan {

struct InPlace {
  uint32_t time;     // of the launch
  uint32_t from, to; // origins: read, written
};

/// In order of time; each origin is `from` at most once, and `to` at most once. Only tensors that
/// the function allocates or lays into storages.
std::vector<InPlace> find_in_place(const ir::Module &module, const ir::Function &function,
                                   const Liveness &live);

/// Tensors that the module lays exactly where one lies that they may be written over: (written,
/// overwritten), origins, ascending.
std::vector<std::pair<uint32_t, uint32_t>>
laid_in_place(const ir::Module &module, const ir::Function &function, const Liveness &live);

} // namespace cugrt::plan
