// cuGetProcAddress: the table of entry points with their versions. This file does not include
// cuda.h, so that the table can take addresses by name alone.
#include "emulator/entry/proc_address.h"

#include <cstring>

#define IMPLEMENTED(base, symbol, version, variant) extern "C" int symbol();
#define MISSING IMPLEMENTED
#define FORWARDED IMPLEMENTED
#include "emulator/driver/entry_points.def"
#undef IMPLEMENTED

// Entry points that no real driver has: driver/cuda_emulator.h.
#define OWN_ENTRY_POINTS(row)                                                                      \
  row(cuEmuGetStatistics) row(cuEmuResetMostUsed) row(cuEmuSetFaultInjection) row(cuEmuCountLoads) \
      row(cuEmuGetLoads) row(cuEmuGetLastMessage) row(cuEmuGetFindings) row(cuEmuReinitialize)
#define DECLARED(symbol) extern "C" int symbol();
OWN_ENTRY_POINTS(DECLARED)

namespace cugrt::emulator::api {

constexpr bool any = false, per_thread = true; // as the table writes them

const EntryPoint kEntryPoints[] = {
#define IMPLEMENTED(base, symbol, version, variant)                                                \
  {#base, #symbol, reinterpret_cast<void *>(&symbol), version, variant},
#include "emulator/driver/entry_points.def"
#define ROW(symbol) {#symbol, "", reinterpret_cast<void *>(&symbol), 0, any},
    OWN_ENTRY_POINTS(ROW)};

// The newest ABI that is not newer than asked for; of two that are equally new the per-thread one,
// when per-thread forms are searched at all.
Lookup find_entry_point(const char *base, int version, bool search_per_thread) {
  Lookup result;
  for (const EntryPoint &row : kEntryPoints) {
    if (std::strcmp(row.base, base) != 0)
      continue;
    result.known = true;
    if (row.version > version || (row.per_thread && !search_per_thread))
      continue;
    const EntryPoint *best = result.entry;
    if (!best || row.version > best->version ||
        (row.version == best->version && row.per_thread && !best->per_thread))
      result.entry = &row;
  }
  return result;
}

} // namespace cugrt::emulator::api
