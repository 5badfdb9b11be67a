// Checked translation of the addresses of one warp access that the fast paths leave.
#pragma once

#include "emulator/exec/warps/warp.h"

namespace cugrt::emulator {

/// Addresses of the active lanes, offset included. 32-bit address registers are extended.
void effective_addresses(const Op *op, const Warp &w, uint64_t *addresses);

/// The space of an address given in `space`. Looks a generic address up, which becomes an offset
/// into the space.
ptx::Space resolve(ptx::Space space, uint64_t &address);

/// Finds each active lane's bytes for an address of any space; remembers a range of global memory
/// for the operation. False after raising a fault.
bool translate(const Op *op, Warp &w, ptx::Space space, const uint64_t *addresses, uint32_t bytes,
               uint32_t align, std::byte **out);

/// The same for the operation's own addresses, aligned as they are long.
bool translate_own(const Op *op, Warp &w, ptx::Space space, uint32_t bytes, std::byte **out);

/// Volatile, relaxed, acquire and release accesses, one lane after the other.
const Op *load_ordered(const Op *op, Warp &w, ptx::Space space, uint32_t bytes, bool is_signed,
                       uint32_t count);
const Op *store_ordered(const Op *op, Warp &w, ptx::Space space, uint32_t bytes, uint32_t count);

} // namespace cugrt::emulator
