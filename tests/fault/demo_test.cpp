// The demo's run with failures: its module, weights and held-out images, opened from nothing, two
// passes over batches of several sizes. The nth driver call fails, for every n. The batches are
// smaller than the demo's, so that the whole fits into a test; the calls are of the same kinds.
#include "emulator_control.h"
#include "npy.h"
#include "support/api_fixture.h"
#include "support/temporary_folder.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

constexpr size_t kClasses = 10, kImageBytes = 64 * sizeof(float);
constexpr int64_t kBatches[] = {1, 2, 1};
constexpr size_t kImages = 4;
constexpr double kLogitTolerance = 1e-4;
const std::string kFolder = CUGRT_DIGITS_FOLDER;

struct HeldOut {
  tool::Array images = tool::read_npy(kFolder + "/heldout_images.npy");
  tool::Array logits = tool::read_npy(kFolder + "/heldout_logits.npy");
};

/// One life of the demo: runtime, executable, session, two passes. Returns the logits of the
/// second.
std::vector<float> run_demo(const HeldOut &held_out, const std::string &cache_folder) {
  RuntimeOptions options = emulated_options();
  options.cache_folder = cache_folder;
  Runtime runtime(options);
  Executable executable(runtime, Module::load(kFolder + "/digits.cugrt"));
  Session session(executable, runtime, Weights::load(kFolder + "/weights.safetensors"));
  Function function = executable.function("main");
  Buffer staging(runtime, 2 * kImageBytes);
  std::vector<float> logits;
  for (int pass = 0; pass < 2; ++pass) {
    logits.clear();
    size_t done = 0;
    for (int64_t batch : kBatches) {
      auto count = static_cast<size_t>(batch);
      copy_to_device(
          runtime, staging.address(),
          std::span(held_out.images.bytes).subspan(done * kImageBytes, count * kImageBytes));
      auto results = session.run(function, {staging.tensor(CUGRT_F32, {batch, 1, 8, 8})});
      session.synchronize();
      logits.resize((done + count) * kClasses);
      copy_to_host(runtime,
                   std::as_writable_bytes(std::span(logits).subspan(done * kClasses, count * 10)),
                   results[0].as.tensor.address);
      done += count;
    }
  }
  return logits;
}

/// Against the logits of the framework that trained the net.
void check_logits(const HeldOut &held_out, const std::vector<float> &logits) {
  auto *expected = reinterpret_cast<const float *>(held_out.logits.bytes.data());
  REQUIRE(logits.size() == kImages * kClasses);
  for (size_t i = 0; i < logits.size(); ++i)
    REQUIRE(std::fabs(logits[i] - expected[i]) <= kLogitTolerance);
}

} // namespace

TEST_CASE(
    "whichever driver call of the demo fails: one clear error, nothing leaks, the next works") {
  HeldOut held_out;
  TemporaryFolder cache; // only the first run needs the compiler
  emulated_runtime();    // keeps the device's context alive, so that what leaks in it is seen
  EmulatorControl emulator;
  check_logits(held_out, run_demo(held_out, cache.path));
  auto before = emulator.live();
  unsigned long long begin = emulator.now().calls;
  check_logits(held_out, run_demo(held_out, cache.path));
  unsigned long long calls = emulator.now().calls - begin;
  CHECK(emulator.live() == before);
  REQUIRE(calls > 100);
  size_t errors = 0;
  for (unsigned long long nth = 1; nth <= calls; ++nth) {
    INFO("call " << nth << " of " << calls);
    before = emulator.live();
    REQUIRE(emulator.inject(nth, CUDA_ERROR_ILLEGAL_STATE) == CUDA_SUCCESS);
    try {
      // No error: a query that has a fallback failed, or a call that gives something back; what
      // that one did not give back is lost by its own failure.
      check_logits(held_out, run_demo(held_out, cache.path));
    } catch (const Error &error) {
      ++errors;
      CHECK(error.cuda_error() == "CUDA_ERROR_ILLEGAL_STATE");
      CHECK(std::string(error.what()).size() > 20);
      CHECK(emulator.live() == before);
    }
    emulator.inject(0, CUDA_SUCCESS);
    if (nth % 16 ==
        0) // the next try begins from nothing too, and shows the same up to its own call
      check_logits(held_out, run_demo(held_out, cache.path));
  }
  check_logits(held_out, run_demo(held_out, cache.path));
  CHECK(errors > calls / 2); // the others look for optional functions, or give things back
}
