// A small decoder as a GGUF file: weights that are the same on every run, and a vocabulary of
// letters.
#pragma once

#include "support/gguf_bytes.h"

#include <fstream>

namespace cugrt::test {

struct SmallLanguageModel {
  std::string architecture = "llama";
  uint32_t layers = 2, width = 32, heads = 4, kv_heads = 2, inner = 48, vocabulary = 40,
           context = 96;
  /// What products are of: f32; q8_0, for widths that are multiples of 32; q4_k, but q6_k for those
  /// of values and down ones, for multiples of 256.
  enum class Products : uint8_t { numbers, bytes, blocks };
  Products products = Products::numbers;
  bool has_head = false; // of its own, not the table of tokens
  float spread = 0.7f;   // between the least and the largest of a tensor's numbers
  GgufBytes bytes{};

  /// Writes the file `folder`/m.gguf and gives its path.
  std::string write(const std::string &folder) {
    bytes.text("general.architecture", architecture).text("tokenizer.ggml.model", "gpt2");
    bytes.text("tokenizer.ggml.pre", "gpt-2");
    std::vector<std::string> tokens;
    for (uint32_t i = 0; i < vocabulary; ++i)
      tokens.push_back(std::string(1, static_cast<char>('A' + i)));
    bytes.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", {});
    const auto key = [&](const std::string &name, uint32_t value) {
      bytes.u32(architecture + "." + name, value);
    };
    key("block_count", layers);
    key("context_length", context);
    key("embedding_length", width);
    key("feed_forward_length", inner);
    key("attention.head_count", heads);
    key("attention.head_count_kv", kv_heads);
    bytes.key(architecture + ".attention.layer_norm_rms_epsilon", 6, little_endian(1e-5f));
    tensor("token_embd.weight", {width, vocabulary});
    tensor("output_norm.weight", {width}, 1);
    for (uint32_t layer = 0; layer < layers; ++layer) {
      const std::string name = "blk." + std::to_string(layer) + ".";
      const uint32_t kv_width = width / heads * kv_heads;
      tensor(name + "attn_norm.weight", {width}, 1);
      product(name + "attn_q.weight", {width, width});
      product(name + "attn_k.weight", {width, kv_width});
      product(name + "attn_v.weight", {width, kv_width}, true);
      product(name + "attn_output.weight", {width, width});
      tensor(name + "ffn_norm.weight", {width}, 1);
      product(name + "ffn_gate.weight", {width, inner});
      product(name + "ffn_up.weight", {width, inner});
      product(name + "ffn_down.weight", {inner, width}, true);
    }
    if (has_head)
      tensor("output.weight", {width, vocabulary});
    std::string path = folder + "/m.gguf";
    std::ofstream(path, std::ios::binary) << bytes.file();
    return path;
  }

private:
  /// f32 within half of `spread` of `middle`.
  void tensor(const std::string &name, std::vector<uint64_t> dims, float middle = 0) {
    uint64_t count = 1;
    for (uint64_t dim : dims)
      count *= dim;
    bytes.tensor(name, std::move(dims), 0, bytes.data.size());
    for (uint64_t i = 0; i < count; ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      bytes.data +=
          little_endian(middle + (static_cast<float>(state_ >> 8) * 0x1p-24f - 0.5f) * spread);
    }
    bytes.data.resize((bytes.data.size() + 31) / 32 * 32);
  }

  void product(const std::string &name, std::vector<uint64_t> dims, bool is_finer = false) {
    if (products == Products::numbers)
      return tensor(name, std::move(dims));
    // GGUF's number of a format, elements and bytes of its blocks, the bytes that are halves.
    struct Format {
      uint32_t number;
      size_t elements, bytes, halves, halves_end;
    };
    const Format format = products == Products::bytes ? Format{8, 32, 34, 0, 2}
                          : is_finer                  ? Format{14, 256, 210, 208, 210}
                                                      : Format{12, 256, 144, 0, 4};
    const uint64_t blocks = dims[0] / format.elements * dims[1];
    bytes.tensor(name, std::move(dims), format.number, bytes.data.size());
    for (uint64_t b = 0; b < blocks; ++b)
      for (size_t i = 0; i < format.bytes; ++i) {
        state_ = state_ * 1664525u + 1013904223u;
        const bool is_half = i >= format.halves && i < format.halves_end;
        bytes.data +=
            static_cast<char>(is_half ? (i % 2 ? 0x08 : 0x40) : state_ >> 24); // 0x1.1p-13
      }
    bytes.data.resize((bytes.data.size() + 31) / 32 * 32);
  }

  uint32_t state_ = 1;
};

} // namespace cugrt::test
