// cuGetProcAddress: the table of entry points with their versions. This file does not include
// cuda.h, so that the table can take addresses by name alone.
#include "emulator/entry/proc_address.h"

#include <cstring>

#define IMPLEMENTED(base, symbol, version, variant) extern "C" int symbol();
#define MISSING IMPLEMENTED
#define FORWARDED IMPLEMENTED
#include "emulator/driver/entry_points.def"
extern "C" int cuEmuGetStatistics();
extern "C" int cuEmuSetFaultInjection();
extern "C" int cuEmuCountLoads();
extern "C" int cuEmuGetLoads();
extern "C" int cuEmuGetLastMessage();
extern "C" int cuEmuGetFindings();
extern "C" int cuEmuReinitialize();
#undef IMPLEMENTED

namespace cugrt::emulator::api {

namespace {

constexpr bool any = false, per_thread = true; // as the table writes them

const EntryPoint kEntryPoints[] = {
#define IMPLEMENTED(base, symbol, version, variant)                                                \
  {#base, #symbol, reinterpret_cast<void *>(&symbol), version, variant},
#include "emulator/driver/entry_points.def"
    {"cuEmuGetStatistics", "", reinterpret_cast<void *>(&cuEmuGetStatistics), 0, any},
    {"cuEmuSetFaultInjection", "", reinterpret_cast<void *>(&cuEmuSetFaultInjection), 0, any},
    {"cuEmuCountLoads", "", reinterpret_cast<void *>(&cuEmuCountLoads), 0, any},
    {"cuEmuGetLoads", "", reinterpret_cast<void *>(&cuEmuGetLoads), 0, any},
    {"cuEmuGetLastMessage", "", reinterpret_cast<void *>(&cuEmuGetLastMessage), 0, any},
    {"cuEmuGetFindings", "", reinterpret_cast<void *>(&cuEmuGetFindings), 0, any},
    {"cuEmuReinitialize", "", reinterpret_cast<void *>(&cuEmuReinitialize), 0, any},
};

} // namespace

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
