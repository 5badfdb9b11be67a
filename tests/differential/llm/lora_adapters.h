// Adapters (LoRA) that tests make by their rule, and write as PEFT does.
#pragma once

#include "base/type/safetensors.h"
#include "differential/llm/sequences.h"

#include <fstream>

namespace cugrt::test {

inline constexpr int64_t kWidth = 32, kInner = 48, kVocabulary = 40, kHeads = 4, kKvHeads = 2,
                         kLayers = 2;

/// A module of an adapter, by its rule: y += scale * B A x.
struct Factors {
  std::string path, weight; // of PEFT; of the file
  int64_t in = 0, out = 0, rank = 0, heads = 0;
  double scale = 0;
  std::vector<float> a, b; // [rank, in], [out, rank]

  double product(int64_t row, int64_t column) const {
    double sum = 0;
    for (int64_t i = 0; i < rank; ++i)
      sum += double(b[size_t(row * rank + i)]) * double(a[size_t(i * in + column)]);
    return scale * sum;
  }
};

struct Adapter {
  std::vector<Factors> modules;
  std::string config;

  void write(const std::string &folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/adapter_config.json") << config;
    std::vector<std::string> names;
    std::vector<std::vector<int64_t>> dims;
    std::vector<std::string_view> bytes;
    const auto add = [&](std::string name, std::vector<int64_t> size,
                         const std::vector<float> &values) {
      names.push_back("base_model.model." + std::move(name));
      dims.push_back(std::move(size));
      bytes.emplace_back(reinterpret_cast<const char *>(values.data()), values.size() * 4);
    };
    for (const Factors &m : modules) {
      const bool is_embedding = m.path.ends_with("embed_tokens");
      add(m.path + (is_embedding ? ".lora_embedding_A" : ".lora_A.weight"), {m.rank, m.in}, m.a);
      add(m.path + (is_embedding ? ".lora_embedding_B" : ".lora_B.weight"), {m.out, m.rank}, m.b);
    }
    std::vector<StoredTensor> tensors;
    for (size_t i = 0; i < names.size(); ++i)
      tensors.push_back({names[i], ir::DType::f32, dims[i], bytes[i]});
    REQUIRE(write_safetensors(folder + "/adapter_model.safetensors", tensors).ok());
  }
};

class Numbers {
public:
  explicit Numbers(uint32_t seed) : state_(seed) {}
  std::vector<float> take(int64_t count, float most) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      values.push_back((static_cast<float>(state_ >> 8) * 0x1p-23f - 1) * most);
    }
    return values;
  }

private:
  uint32_t state_;
};

inline Factors factors(Numbers &numbers, std::string path, std::string weight, int64_t in,
                       int64_t out, int64_t rank, double scale, int64_t heads = 0) {
  return {std::move(path),
          std::move(weight),
          in,
          out,
          rank,
          heads,
          scale,
          numbers.take(rank * in, 0.2f),
          numbers.take(out * rank, 0.2f)};
}

struct OnDisk {
  TemporaryFolder folder;
  std::shared_ptr<const llm::Model> model;
  explicit OnDisk(SmallLanguageModel small = {}) {
    auto opened = llm::Model::open(small.write(folder.path));
    REQUIRE(opened.ok());
    model = *opened;
  }
  std::shared_ptr<const llm::LoraAdapter> adapter(const Adapter &made,
                                                  const std::string &name = "a") {
    made.write(folder.path + "/" + name);
    auto opened = llm::LoraAdapter::open(*model, folder.path + "/" + name);
    INFO((opened.ok() ? "" : opened.status().message()));
    REQUIRE(opened.ok());
    return *opened;
  }
};

} // namespace cugrt::test
