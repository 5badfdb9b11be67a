// How much of the device's memory opening a model takes, beside what it holds then.
#include "differential/llm/sequences.h"
#include "emulator/driver/cuda_emulator.h"
#include "fronts/llm/generation/session_module.h"

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

/// A pack of the model's module, beside its file.
std::string write_pack(const Model &model, const EngineOptions &options, const std::string &path) {
  const cugrt_api &api = *cugrt_get_api(CUGRT_API_VERSION);
  const Result<Decoder> decoder = read_decoder(model.file);
  REQUIRE(decoder.ok());
  EngineOptions wanted = options;
  wanted.context = decoder->trained_context;
  Result<DecoderModule> built = module_of(model, *decoder, wanted);
  REQUIRE(built.ok());
  cugrt_module *module = nullptr;
  REQUIRE(adopt_module(*built, "m.gguf", &module).ok());
  cugrt_pack_options pack = CUGRT_INIT(cugrt_pack_options);
  const char *architecture = "compute_90";
  pack.architectures = &architecture;
  pack.architecture_count = 1;
  REQUIRE(api.pack_write(emulated_runtime().get(), module, &pack, path.c_str()) == nullptr);
  api.module_free(module);
  return path;
}

using Products = SmallLanguageModel::Products;

struct Opening {
  Products products; // numbers become f16, blocks of 256 and of 32 elements are repacked
  bool has_head;     // or the table of tokens is the head
  ir::DType dtype;
  bool of_pack = false;
};

} // namespace

TEST_CASE("opening a model takes at most a fifth more of the device's memory than it holds then") {
  REQUIRE(emulated_runtime().get());
  void *driver = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(driver);
  const auto reset =
      reinterpret_cast<decltype(&cuEmuResetMostUsed)>(dlsym(driver, "cuEmuResetMostUsed"));
  REQUIRE(reset);
  for (const Opening &opening : {Opening{Products::blocks, true, ir::DType::f16},
                                 {Products::blocks, false, ir::DType::f32},
                                 {Products::blocks, false, ir::DType::f16, true},
                                 {Products::bytes, true, ir::DType::f32},
                                 {Products::bytes, false, ir::DType::f16},
                                 {Products::numbers, true, ir::DType::f16},
                                 {Products::numbers, false, ir::DType::f32},
                                 {Products::numbers, true, ir::DType::f32, true}}) {
    SmallLanguageModel small;
    small.products = opening.products;
    small.has_head = opening.has_head;
    small.layers = 2;
    small.width = 512;
    small.inner = 1024;
    TemporaryFolder folder;
    const auto model = Model::open(small.write(folder.path));
    REQUIRE(model.ok());
    EngineOptions options = of_places(1);
    options.dtype = opening.dtype;
    if (opening.of_pack)
      options.pack = write_pack(**model, options, folder.path + "/m.pack");
    const CUemuStatistics before = statistics_of(driver);
    REQUIRE(reset() == CUDA_SUCCESS);
    const auto engine = Engine::open(**model, emulated_runtime().get(), options);
    INFO((engine.ok() ? "" : engine.status().to_string()));
    REQUIRE(engine.ok());
    const CUemuStatistics after = statistics_of(driver);
    const unsigned long long held = after.used_bytes - before.used_bytes,
                             most = after.most_used_bytes - before.used_bytes;
    INFO("products " << int(opening.products) << (opening.has_head ? ", a head, " : ", tied, ")
                     << ir::info(opening.dtype).name << (opening.of_pack ? ", a pack: " : ": ")
                     << most << " bytes to hold " << held);
    CHECK(held > 2'000'000);
    CHECK(5 * most <= 6 * held);
  }
}
