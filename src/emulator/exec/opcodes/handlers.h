// Rows of opcodes.def as numbers, and the handlers of each row.
#pragma once

#include "emulator/exec/opcodes/op.h"

#include <array>
#include <cstddef>

namespace cugrt::emulator {

enum class OpId : uint16_t {
#define ROW(id, ...) id,
#include "emulator/exec/opcodes/opcodes.def"
  count
};

inline constexpr size_t kOpCount = size_t(OpId::count);
using HandlerTable = std::array<HandlerPair, kOpCount>;

/// Handlers for this machine's instruction set, chosen once.
const HandlerTable &handlers();
/// Handlers of comparisons that also branch on their result (decode/passes/compare_branch.cpp);
/// null for other rows.
const HandlerTable &branch_handlers();
/// "v2", "v3", "v4" or "baseline".
const char *handler_isa();

// Handlers that are the same for every instruction set, by source: each fills its own rows.
void fill_atomics(HandlerTable &table);
void fill_async_copies(HandlerTable &table);
void fill_barriers(HandlerTable &table);
void fill_clusters(HandlerTable &table);
void fill_control(HandlerTable &table);
void fill_matrix(HandlerTable &table);
void fill_tiles(HandlerTable &table);
void fill_warp_ops(HandlerTable &table);

/// False if the active lanes cannot all execute a .sync operation: Warp::leave then says which
/// wait.
bool members_arrived(const Op *op, Warp &w);

} // namespace cugrt::emulator
