// How much of the device's memory opening a model takes, beside what it holds then: of language
// models, and of networks whose weights are computed.
#include "differential/llm/sequences.h"
#include "emulator/driver/cuda_emulator.h"
#include "fronts/llm/generation/session_module.h"

#include <dlfcn.h>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

/// The device's memory since it was made.
class DeviceMemory {
public:
  DeviceMemory() {
    REQUIRE(emulated_runtime().get());
    driver_ = dlopen(CUGRT_TEST_EMULATOR, RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(driver_);
    before_ = now().used_bytes;
    REQUIRE(call<decltype(&cuEmuResetMostUsed)>("cuEmuResetMostUsed")() == CUDA_SUCCESS);
  }
  /// At most a fifth more was used than is now, which is more than `least` bytes.
  void check(unsigned long long least) const {
    const CUemuStatistics after = now();
    const unsigned long long held = after.used_bytes - before_,
                             most = after.most_used_bytes - before_;
    INFO(most << " bytes to hold " << held);
    CHECK(held > least);
    CHECK(5 * most <= 6 * held);
  }

private:
  template <class Call> Call call(const char *name) const {
    return reinterpret_cast<Call>(dlsym(driver_, name));
  }
  CUemuStatistics now() const {
    CUemuStatistics now{};
    now.struct_size = sizeof now;
    REQUIRE(call<decltype(&cuEmuGetStatistics)>("cuEmuGetStatistics")(&now) == CUDA_SUCCESS);
    return now;
  }

  void *driver_;
  unsigned long long before_;
};

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
    const DeviceMemory memory;
    const auto engine = Engine::open(**model, emulated_runtime().get(), options);
    INFO((engine.ok() ? "" : engine.status().to_string()));
    REQUIRE(engine.ok());
    INFO("products " << int(opening.products) << (opening.has_head ? ", a head, " : ", tied, ")
                     << ir::info(opening.dtype).name << (opening.of_pack ? ", a pack: " : ": "));
    memory.check(2'000'000);
  }
}

TEST_CASE("opening a network that casts its weights takes at most a fifth more of the device's "
          "memory than it holds then") {
  constexpr int64_t kInner = 1024;
  // Columns of weights: sources of the last large ones do not fit where later results will be.
  const std::vector<int64_t> few(12, 128);
  std::vector<int64_t> of_convolutions{1024, 1024, 1024};
  of_convolutions.insert(of_convolutions.end(), few.begin(), few.end());
  for (const std::vector<int64_t> &columns :
       {of_convolutions, {2048, 2048, 1024, 1024, 1024, 160}}) {
    std::string text = "cugrt 1\nfunc @main(%x: tensor<[16, 1024], f32>", types, body, results;
    Weights weights;
    const std::vector<float> numbers(kInner * 2048);
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string n = std::to_string(i), width = std::to_string(columns[i]);
      text += ", %w" + n + ": tensor<[1024, " + width + "], f32>";
      types += (i ? ", " : "") + ("tensor<[16, " + width + "], f32>");
      body += "  %y" + n + " = matmul(%x, %w" + n + ")\n";
      results += (i ? ", %y" : "%y") + n;
      weights.add("w" + n, numbers.data(), CUGRT_F32, std::vector<int64_t>{kInner, columns[i]});
    }
    Executable executable(emulated_runtime(),
                          Module::parse(text + ") -> (" + types +
                                        ") attributes {num_inputs = 1} {\n" + body + "  return " +
                                        results + "\n}\n"),
                          std::vector<std::string>{"mixed.dtype=f16"});
    CAPTURE(columns);
    const DeviceMemory memory;
    Session session(executable, emulated_runtime(), weights);
    memory.check(8'000'000);
  }
}
