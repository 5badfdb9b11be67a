// How much of the device's memory opening a model takes, beside what it holds then.
#include "differential/llm/sequences.h"
#include "emulator/driver/cuda_emulator.h"

#include <dlfcn.h>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

CUemuStatistics statistics_of(void *driver) {
  const auto get =
      reinterpret_cast<decltype(&cuEmuGetStatistics)>(dlsym(driver, "cuEmuGetStatistics"));
  CUemuStatistics now{};
  now.struct_size = sizeof now;
  REQUIRE(get(&now) == CUDA_SUCCESS);
  return now;
}

} // namespace

TEST_CASE("opening a model takes at most a fifth more of the device's memory than it holds then") {
  REQUIRE(emulated_runtime().get());
  void *driver = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(driver);
  const auto reset =
      reinterpret_cast<decltype(&cuEmuResetMostUsed)>(dlsym(driver, "cuEmuResetMostUsed"));
  REQUIRE(reset);
  for (const bool is_mixed : {true, false})
    for (const bool has_head : {true, false})
      for (const ir::DType dtype : {ir::DType::f32, ir::DType::f16}) {
        SmallLanguageModel small;
        small.is_mixed = is_mixed; // blocks, which are repacked, or numbers, which become f16
        small.has_head = has_head; // or the table of tokens is the head
        small.layers = 2;
        small.width = 512;
        small.inner = 1024;
        TemporaryFolder folder;
        const auto model = Model::open(small.write(folder.path));
        REQUIRE(model.ok());
        const CUemuStatistics before = statistics_of(driver);
        REQUIRE(reset() == CUDA_SUCCESS);
        EngineOptions options = of_places(1);
        options.dtype = dtype;
        const auto engine = Engine::open(**model, emulated_runtime().get(), options);
        REQUIRE(engine.ok());
        const CUemuStatistics after = statistics_of(driver);
        const unsigned long long held = after.used_bytes - before.used_bytes,
                                 most = after.most_used_bytes - before.used_bytes;
        INFO((is_mixed ? "blocks, " : "numbers, ")
             << (has_head ? "a head, " : "tied, ") << ir::info(dtype).name << ": " << most
             << " bytes to hold " << held);
        CHECK(held > 2'000'000);
        CHECK(5 * most <= 6 * held);
      }
}
