// runtime: ranges that an attached profiler sees. A program of its own, since NVTX looks for the
// profiler once.
#include "chain.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

TEST_CASE("an attached profiler sees a range for each function, region and single step") {
  REQUIRE(!profiler_attached());
  REQUIRE(setenv("NVTX_INJECTION64_PATH", CUGRT_NVTX_RECORDER, 1) == 0);
  REQUIRE(profiler_attached());
  {
    Chain graphs(2);
    graphs.run(5);
    graphs.run(5);
    CHECK(graphs.counters().regions_hit == 1);
  }
  SessionOptions options;
  options.cache.eager = true;
  Chain eager(2, options);
  eager.run(5);
  void *library = dlopen(CUGRT_NVTX_RECORDER, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library);
  auto log = reinterpret_cast<const char *(*)()>(dlsym(library, "nvtx_recorder_log"));
  REQUIRE(log);
  CHECK(std::string(log()) == "main\n main.0\n"
                              "main\n main.0\n"
                              "main\n main.0\n  add0\n  add1\n");
  dlclose(library);
}
