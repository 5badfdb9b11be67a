// A decoder of transformer layers as IR, which the architectures of this folder share. Each of them
// reads its file's keys into a Decoder; build_decoder writes the module.
//
// The module has two functions over the same weights, caches and state (docs/language_models.md):
//
//   @prefill  takes the next 1 to `chunk` tokens of one sequence
//   @decode   takes the token that each of `places` sequences stands at, perhaps with drafts of the
//             next ones; or, as a loop on the device, goes on so
//
// Both append keys and values to the caches, advance the state, and give the logits of the last
// position (or, on request, of all) and, in the state, the token that is drawn from them. The loop
// gives no logits.
#pragma once

#include "base/type/dtype.h"
#include "fronts/gguf/gguf.h"
#include "ir/module/module.h"

#include <functional>
#include <memory>

namespace cugrt::llm {

enum class RopeScaling : uint8_t { none, linear, yarn };
enum class Activation : uint8_t { silu, gelu }; // gelu: by tanh

struct Rope {
  double base = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, attention_factor = 1;
  double original_context = 0, beta_fast = 32, beta_slow = 1; // of yarn
};

struct Decoder {
  std::string_view architecture;
  int64_t layers = 0, width = 0, inner = 0; // of the rows between layers, and inside them
  int64_t heads = 0, kv_heads = 0, head_width = 0;
  int64_t trained_context = 0;
  double epsilon = 0;
  int64_t turned = 0; // elements of a head that its position turns
  Rope rope;
  bool rope_interleaved = false; // pairs are neighbours, not halves apart
  int64_t window = 0;            // positions that a layer sees; 0: all
  int64_t whole_every = 0;    // of so many layers the last sees all positions, and turns by `rope`
  Rope local_rope;            // of the others
  double attention_scale = 0; // 0: by the width of a head
  double embedding_scale = 1;
  Activation activation = Activation::silu;
  bool has_post_norms = false; // of what is added to the rows between layers
  bool has_bias = false;       // of queries, keys and values
  bool has_head_norms = false; // of queries and keys, over a head
};

struct LoraLayout; // lora_layout.h

struct DecoderOptions {
  ir::DType dtype = ir::DType::f32; // of what is computed
  ir::DType cache = ir::DType::f32; // of keys and values in the caches: a float or q8_0
  int64_t context = 0, places = 1, chunk = 64;
  int64_t ring = 64;        // steps whose tokens it holds; a power of two
  bool device_loop = false; // @decode makes steps until sample.cu ends it, not one
  bool all_logits = false;  // @prefill gives those of every row, not of the last alone
  /// Rows of each place that a step of @decode takes in: its token, and drafts of the next ones
  /// from its own text, which the step verifies; at most kMostRows. 1: no drafts.
  int64_t rows = 1;
  /// The module also has @prefill_lora and @decode_lora, which add an adapter of this layout to
  /// products; none: it knows nothing of adapters.
  std::shared_ptr<const LoraLayout> lora{};
};

/// Words of the tensor `heard` that concern no place (kernels/language/sample.cu).
inline constexpr int64_t kHostWords = 2;
/// Words of the tensor `steps`.
inline constexpr int64_t kStepWords = 2;
/// Most rows of a place in a step that verifies drafts (kernels/language/verify.cu).
inline constexpr int64_t kMostRows = 8;

/// A weight's bytes: the file's, or made here when a session opens: a plan needs none.
struct Weight {
  std::string name;
  ir::DType dtype;
  std::vector<int64_t> dims;
  std::string_view bytes;
  std::function<std::string()> make{}; // gives the bytes that are not the file's
};

struct DecoderModule {
  ir::Module module;
  std::vector<Weight> weights; // each once
  std::string mark{};          // the name of an empty function, which tells what it was made with
  int64_t vocabulary = 0;
  std::shared_ptr<const LoraLayout> lora{}; // as asked for
  uint64_t cache_bytes_per_place = 0;       // of one of the 2 * layers caches
};

/// The keys of architecture `general.architecture`; an unknown architecture, and a key of it that
/// is not known, are Code::unsupported with its name.
Result<Decoder> read_decoder(const gguf::File &file);

/// Rows of the table of tokens.
Result<int64_t> vocabulary_of(const gguf::File &file);

/// The module for a file, all of whose tensors must be used. Errors name tensors that are missing,
/// left over, of wrong dimensions, or of a type without kernels.
Result<DecoderModule> build_decoder(const gguf::File &file, const Decoder &decoder,
                                    const DecoderOptions &options);

/// Bytes of one position in one of the caches; heads are whole blocks.
uint64_t cache_row_bytes(const Decoder &decoder, ir::DType cache);

// The architectures, a file each.
Result<Decoder> read_llama(const gguf::File &file);
Result<Decoder> read_qwen2(const gguf::File &file);
Result<Decoder> read_qwen3(const gguf::File &file);
Result<Decoder> read_gemma3(const gguf::File &file);

// --- How positions turn the heads of queries and keys: the angles of each pair, as tables ------

/// Cosines and sines of each position's angles, [context, turned / 2]: computed in double, when
/// their bytes are asked for.
struct RotaryTables {
  Weight cosines, sines;
};

/// `divisors` are f32, one a pair, or absent, and outlive the tables; names of the weights begin
/// with `name`.
RotaryTables rotary_tables(const Rope &rope, int64_t turned, int64_t context,
                           const gguf::Tensor *divisors, const std::string &name);

/// Reads keys that most architectures have, under their own name; `more` lists further known ones.
/// Checks that numbers fit a model.
Result<Decoder> read_hyperparameters(const gguf::File &file, std::string_view architecture,
                                     std::span<const std::string_view> more);

/// The kernels that read and write the state, as a module of declarations: what begins and ends a
/// step.
extern const char *const kStateKernels;
/// Further ones, of steps that verify drafts.
extern const char *const kDraftKernels;

} // namespace cugrt::llm
