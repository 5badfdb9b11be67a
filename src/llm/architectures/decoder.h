// A decoder of transformer layers as IR: what the architectures of this folder share. Each of them
// reads its file's keys into a Decoder; build_decoder writes the module.
//
// The module has two functions over the same weights, caches and state (docs/language_models.md):
//
//   @prefill  takes the next 1 to `chunk` tokens of one sequence
//   @decode   takes the token that each of `places` sequences stands at
//
// Both append keys and values to the caches, advance the state and give the logits of the last
// position and, in the state, its most likely token.
#pragma once

#include "import/gguf/gguf.h"
#include "ir/type/dtype.h"

#include <array>
#include <memory>

namespace cugrt::llm {

struct Decoder {
  std::string_view architecture;
  int64_t layers = 0, width = 0, inner = 0; // of the rows between layers, and inside them
  int64_t heads = 0, kv_heads = 0, head_width = 0;
  int64_t trained_context = 0;
  double epsilon = 0;
  int64_t turned = 0; // elements of a head that its position turns
  double rope_base = 0, rope_factor = 1;
  bool rope_interleaved = false; // pairs are neighbours, not halves apart
  bool has_bias = false;         // of queries, keys and values
  bool has_head_norms = false;   // of queries and keys, over a head
};

struct DecoderOptions {
  ir::DType dtype = ir::DType::f32; // of what is computed and cached
  int64_t context = 0, places = 1, chunk = 64;
};

/// A weight's bytes: the file's, or made here.
struct Weight {
  std::string name;
  ir::DType dtype;
  std::vector<int64_t> dims;
  std::string_view bytes;
  std::shared_ptr<const std::string> made{};
};

struct DecoderModule {
  std::string text;
  std::vector<Weight> weights; // each once
  int64_t vocabulary = 0;
  uint64_t cache_bytes_per_place = 0; // of one of the 2 * layers caches
};

/// The keys of architecture `general.architecture`; an unknown architecture, and a key of it that
/// is not known, are Code::unsupported with its name.
Result<Decoder> read_decoder(const gguf::File &file);

/// The module for a file whose tensors are all used; what is missing, of wrong dimensions, of a
/// type without kernels or left over is named.
Result<DecoderModule> build_decoder(const gguf::File &file, const Decoder &decoder,
                                    const DecoderOptions &options);

// The architectures, a file each.
Result<Decoder> read_llama(const gguf::File &file);
Result<Decoder> read_qwen2(const gguf::File &file);
Result<Decoder> read_qwen3(const gguf::File &file);

} // namespace cugrt::llm
