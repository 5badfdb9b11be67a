// The emulated driver's own functions, from the library that the runtime has opened: statistics and
// fault injection. Compile with CUGRT_TEST_EMULATOR, the library's path.
#pragma once

#include "emulator/driver/cuda_emulator.h"
#include "support/catch.h"

#include <dlfcn.h>

#include <vector>

namespace cugrt::test {

struct EmulatorControl {
  decltype(&cuEmuGetStatistics) statistics;
  decltype(&cuEmuSetFaultInjection) inject;

  EmulatorControl() {
    void *library = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(library);
    statistics = reinterpret_cast<decltype(statistics)>(dlsym(library, "cuEmuGetStatistics"));
    inject = reinterpret_cast<decltype(inject)>(dlsym(library, "cuEmuSetFaultInjection"));
    REQUIRE(statistics);
    REQUIRE(inject);
    // A pop that was made to fail leaves a context current, on top of those that earlier ones left;
    // who enters it then has a call less.
    auto leave = reinterpret_cast<CUresult (*)(CUcontext)>(dlsym(library, "cuCtxSetCurrent"));
    auto get = reinterpret_cast<CUresult (*)(CUcontext *)>(dlsym(library, "cuCtxGetCurrent"));
    REQUIRE(leave);
    REQUIRE(get);
    CUcontext current = nullptr;
    do {
      REQUIRE(leave(nullptr) == CUDA_SUCCESS);
      REQUIRE(get(&current) == CUDA_SUCCESS);
    } while (current);
  }
  CUemuStatistics now() const {
    CUemuStatistics numbers{};
    numbers.struct_size = sizeof numbers;
    REQUIRE(statistics(&numbers) == CUDA_SUCCESS);
    return numbers;
  }
  /// Everything that may leak.
  std::vector<unsigned long long> live() const {
    CUemuStatistics s = now();
    return {s.contexts, s.allocations, s.allocated_bytes, s.host_allocations,
            s.modules,  s.libraries,   s.streams,         s.events,
            s.graphs,   s.graph_nodes, s.graph_execs};
  }
};

} // namespace cugrt::test
