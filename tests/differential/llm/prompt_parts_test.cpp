// Prompts of many lengths, taken in by parts, beside the same tokens taken in one by one.
#include "differential/llm/sequences.h"
#include "fronts/llm/generation/session_module.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <dlfcn.h>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

/// Around sizes of parts, tiles and strips.
constexpr std::array<size_t, 10> kLengths = {1, 2, 8, 9, 255, 256, 257, 511, 512, 513};

std::unique_ptr<Engine> opened(SmallLanguageModel small, ir::DType dtype) {
  small.context = 1026;
  TemporaryFolder folder;
  const auto model = Model::open(small.write(folder.path));
  REQUIRE(model.ok());
  EngineOptions options = of_places(1);
  options.dtype = dtype;
  auto engine = Engine::open(**model, emulated_runtime().get(), options);
  INFO((engine.ok() ? "" : engine.status().to_string()));
  REQUIRE(engine.ok());
  return std::move(*engine);
}

/// Of a prompt's last token, the largest difference to what steps of one token give.
void check_lengths(const SmallLanguageModel &small, ir::DType dtype, float most) {
  const auto engine = opened(small, dtype);
  const std::vector<int32_t> tokens = prompt_of(kLengths.back(), 3);
  std::vector<std::vector<float>> wanted;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_looked_at = std::ranges::find(kLengths, i + 1) != kLengths.end();
    REQUIRE(engine->take_in(0, int64_t(i), std::span(tokens).subspan(i, 1), is_looked_at).ok());
    if (is_looked_at)
      REQUIRE(engine->read_logits(0, wanted.emplace_back()).ok());
  }
  for (size_t length = 0; length < kLengths.size(); ++length) {
    REQUIRE(engine->close_all().ok());
    take_in(*engine, 0, std::span(tokens).first(kLengths[length]));
    std::vector<float> got;
    REQUIRE(engine->read_logits(0, got).ok());
    float furthest = 0;
    for (size_t i = 0; i < got.size(); ++i)
      furthest = std::max(furthest, std::abs(got[i] - wanted[length][i]));
    INFO(kLengths[length] << " tokens");
    CHECK(furthest < most);
  }
}

} // namespace

TEST_CASE("parts of prompts fill their rows, a power of two, and none is beyond the caches") {
  const auto engine = opened({}, ir::DType::f32), narrow = opened({}, ir::DType::f16);
  for (const auto &[left, position, wanted] : {std::array<int64_t, 3>{1, 0, 1},
                                               {100, 0, 100},
                                               {129, 0, 128},
                                               {192, 0, 128},
                                               {193, 0, 193},
                                               {256, 0, 256},
                                               {1025, 0, 256},
                                               {769, 256, 256},
                                               {1, 1024, 1},
                                               {200, 770, 200},
                                               {100, 900, 64},
                                               {9, 1020, 4}})
    CHECK(engine->part_of(left, position) == wanted);
  for (const auto &[left, position, wanted] :
       {std::array<int64_t, 3>{384, 0, 256}, {385, 0, 385}, {1025, 0, 512}, {513, 512, 512}})
    CHECK(narrow->part_of(left, position) == wanted);
}

TEST_CASE("prompts by parts have the logits of their tokens one by one in f32", "[large]") {
  check_lengths({}, ir::DType::f32, 1e-4f);
}

TEST_CASE("prompts by parts have the logits of their tokens one by one in f16, by tiles",
          "[large]") {
  SmallLanguageModel small;
  small.products = SmallLanguageModel::Products::blocks;
  small.layers = 1;
  small.width = 256;
  small.inner = 512;
  check_lengths(small, ir::DType::f16, 0.05f);
}

TEST_CASE("prompts of 512 tokens read each of a model's weights at most five times", "[large]") {
  void *driver = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW);
  REQUIRE(driver);
  using Count = unsigned long long;
  const auto count = reinterpret_cast<int (*)(int)>(dlsym(driver, "cuEmuCountLoads"));
  const auto get =
      reinterpret_cast<int (*)(Count *, Count *, Count *)>(dlsym(driver, "cuEmuGetLoads"));
  for (const auto &[dtype, is_mixed] : {std::pair{ir::DType::f16, true}, // blocks, or numbers
                                        {ir::DType::f16, false},
                                        {ir::DType::bf16, true},
                                        {ir::DType::f32, true},
                                        {ir::DType::f32, false}}) {
    SmallLanguageModel small;
    if (is_mixed)
      small.products = SmallLanguageModel::Products::blocks;
    small.layers = 1;
    small.width = 256;
    // Beside norms' scales, which each row reads, and more of f32.
    small.inner = !is_mixed ? 768 : dtype == ir::DType::f32 ? 6144 : 2048;
    const auto engine = opened(small, dtype);
    CHECK(count(1) == 0);
    take_in(*engine, 0, prompt_of(512, 3));
    std::vector<float> logits;
    REQUIRE(engine->read_logits(0, logits).ok());
    Count loaded = 0, of_weights = 0, weights = 0;
    CHECK(get(&loaded, &of_weights, &weights) == 0);
    CHECK(count(0) == 0);
    INFO(of_weights << " bytes of " << weights << (is_mixed ? " of blocks, " : " of numbers, ")
                    << ir::info(dtype).name);
    CHECK(weights > 900'000); // those of the products, at 4.5 bits and more
    CHECK(of_weights <= 5 * weights);
  }
}
