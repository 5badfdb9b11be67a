// Handlers that are the same for every instruction set, by source: each fills its own rows.
#pragma once

#include "emulator/exec/opcodes/handlers.h"

namespace cugrt::emulator {

void fill_atomics(HandlerTable &table);
void fill_async_copies(HandlerTable &table);
void fill_barriers(HandlerTable &table);
void fill_clusters(HandlerTable &table);
void fill_control(HandlerTable &table);
void fill_matrix(HandlerTable &table);
void fill_tiles(HandlerTable &table);
void fill_warp_ops(HandlerTable &table);

/// False when the active lanes cannot all execute a .sync operation: Warp::leave then says who
/// waits.
bool members_arrived(const Op *op, Warp &w);

} // namespace cugrt::emulator
