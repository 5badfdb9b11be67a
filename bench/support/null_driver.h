// The do-nothing driver: a shared library with the driver's entry points, opened by path as any
// driver is. Calls succeed, handles are numbers, nothing is stored or executed, so that what a
// program spends around it is its own.
//
// It is a CUDA 12.3 driver with one sm_90 device: later versions add entry points, none of which is
// called by a run.
#pragma once

#include <cstdint>

extern "C" {

/// Calls of entry points so far, of launches of graphs and of setters of nodes among them.
struct cugrt_null_driver_calls {
  uint64_t all, launches, setters;
};
cugrt_null_driver_calls cugrt_null_driver_count();

/// While set, cuGraphLaunch calls cugrt_null_driver_launched, a place for a profiler to act at.
void cugrt_null_driver_mark_launches(bool on);
void cugrt_null_driver_launched();
}
