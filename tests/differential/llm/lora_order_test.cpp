// The order of copies of adapters and runs that read them, on the emulated driver.
#include "differential/llm/lora_adapters.h"
#include "fronts/llm/generation/lora_adapter.h"

#include <cmath>
#include <cstring>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

TEST_CASE(
    "a copy to an adapter's memory that no run waits for shows, and those that are made do not") {
  OnDisk disk;
  Adapter made[2];
  std::shared_ptr<const LoraAdapter> adapters[2];
  for (uint32_t i = 0; i < 2; ++i) {
    Numbers numbers(i);
    made[i].config = R"({"peft_type": "LORA", "r": 8, "lora_alpha": 8})";
    made[i].modules = {
        factors(numbers, "model.layers.0.self_attn.v_proj", "", kWidth, kWidth / 2, 8, 1)};
    adapters[i] = disk.adapter(made[i], std::to_string(i));
  }
  const auto layout = std::make_shared<LoraLayout>(make_lora_layout(
      *read_decoder(disk.model->file), kVocabulary, ir::DType::f32, 8, lora_bit(LoraTarget::v)));
  // What a step does with it: B A x, by views of its memory.
  const auto view = [](uint64_t at, int64_t rows, int64_t columns) {
    return "view %adapter, " + std::to_string(at) + " : tensor<[" + std::to_string(rows) + ", " +
           std::to_string(columns) + "], f32>\n";
  };
  const LoraSite &site = layout->sites[0];
  const std::string text =
      "cugrt 1\nfunc @main(%x: tensor<[1, 32], f32>, %adapter: tensor<[" +
      std::to_string(layout->bytes) +
      "], u8>) -> (tensor<[1, 16], f32>) attributes {num_inputs = 2} {\n  %a = " +
      view(layout->groups[0].a_at, 8, kWidth) + "  %b = " + view(site.b_at, kWidth / 2, 8) +
      "  %t = matmul(%x, %a) {transpose_b = true}\n" +
      "  %y = matmul(%t, %b) {transpose_b = true}\n  return %y\n}\n";
  Executable executable(emulated_runtime(), Module::parse(text));
  Session session(executable, emulated_runtime());
  const Function main = executable.function("main");
  const std::vector<float> x = Numbers(9).take(kWidth, 1);
  const Buffer input = upload(x);
  const auto is_of = [&](const cugrt_value &memory, const Adapter &adapter) {
    const auto results =
        session.run(main, {input.tensor(CUGRT_F32, {1, kWidth}), Value(memory.as.tensor)});
    session.synchronize();
    const auto got = download<float>(results[0].as.tensor.address, kWidth / 2);
    for (int64_t row = 0; row < kWidth / 2; ++row) {
      double wanted = 0;
      for (int64_t i = 0; i < kWidth; ++i)
        wanted += adapter.modules[0].product(row, i) * double(x[size_t(i)]);
      if (std::fabs(double(got[size_t(row)]) - wanted) > 1e-5)
        return false;
    }
    return true;
  };
  DeviceAdapters device;
  device.open(emulated_runtime().get(), nullptr, layout);
  // The check of streams would find the planted copy, and so fail the program.
  const char *checks = std::getenv("CUGRT_EMU_CHECK");
  const bool plants = std::getenv("CUGRT_EMU_ORDER") && checks && !std::strstr(checks, "streams") &&
                      !std::strstr(checks, "all");
  int planted = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 2; ++i) {
      const auto memory = device.use(adapters[i], 1);
      REQUIRE(memory.ok());
      CHECK(is_of(*memory, made[i]));
      device.drop(*adapters[i]);
    }
    if (!plants)
      continue;
    const auto memory = device.use(adapters[0], 1);
    REQUIRE(memory.ok());
    const auto other = adapters[1]->pack(*layout);
    REQUIRE(other.ok());
    Stream stream(emulated_runtime());
    copy_to_device(emulated_runtime(), memory->as.tensor.address, std::as_bytes(std::span(*other)),
                   &stream);
    planted += !is_of(*memory, made[1]); // the run's stream has no event to wait for
    stream.synchronize();
    CHECK(is_of(*memory, made[1]));
    device.drop(*adapters[0]);
  }
  CHECK((planted > 0) == plants);
}
