// Layout of an adapter (LoRA) in memory: one piece, which is an argument of a step.
//
//   t = scale * A x          A [columns, in] of a group: of the products that read the same rows
//   y += B t                 B [out, columns] of a product; 0 in the columns of the others
//
// With columns of a group in common, its products B t read the same rows, too, and become one
// launch. Each product has `rank` columns; an adapter of a smaller rank has zeros behind its own.
// The piece begins with the scale (f32); what lies in it begins at a multiple of 256 bytes.
#pragma once

#include "fronts/llm/architectures/decoder.h"

namespace cugrt::llm {

/// The layers that adapters may add to; the order is that of kLoraTargets.
enum class LoraTarget : uint8_t { q, k, v, o, gate, up, down, embedding, head };

struct LoraTargetInfo {
  std::string_view module; // as PEFT names it, and options do
  std::string_view path;   // of it in a layer, or in the model
  std::string_view name;   // of its tensor in GGUF, likewise
  uint8_t group;           // of a layer: which targets read the same rows
  bool is_of_layer;
};
inline constexpr LoraTargetInfo kLoraTargets[] = {
    {"q_proj", "self_attn.q_proj", "attn_q", 0, true},
    {"k_proj", "self_attn.k_proj", "attn_k", 0, true},
    {"v_proj", "self_attn.v_proj", "attn_v", 0, true},
    {"o_proj", "self_attn.o_proj", "attn_output", 1, true},
    {"gate_proj", "mlp.gate_proj", "ffn_gate", 2, true},
    {"up_proj", "mlp.up_proj", "ffn_up", 2, true},
    {"down_proj", "mlp.down_proj", "ffn_down", 3, true},
    {"embed_tokens", "embed_tokens", "token_embd", 4, false},
    {"lm_head", "lm_head", "output", 5, false}};

/// A set of targets: bit i for row i of kLoraTargets.
using LoraTargets = uint32_t;
constexpr LoraTargets lora_bit(LoraTarget target) { return 1u << static_cast<unsigned>(target); }
inline constexpr LoraTargets kAllLoraTargets = (1u << std::size(kLoraTargets)) - 1;
/// The seven products of a layer.
inline constexpr LoraTargets kLayerLoraTargets = lora_bit(LoraTarget::embedding) - 1;

/// Reads names with commas between them, as "q_proj,v_proj"; "": kLayerLoraTargets.
Result<LoraTargets> parse_lora_targets(std::string_view text);
std::string lora_targets_text(LoraTargets targets);

inline constexpr int64_t kMaxLoraRank = 512;

struct LoraGroup {
  int64_t in = 0, columns = 0;
  uint64_t a_at = 0; // bytes from the begin
};

struct LoraSite {
  LoraTarget target{};
  int64_t layer = 0; // -1: of the model
  std::string name;  // "blk.0.attn_q"
  int64_t in = 0, out = 0;
  size_t group = 0;
  int64_t column = 0; // the first one of its own
  uint64_t b_at = 0;
  /// If GGUF has the pairs of a head side by side, which the published model has in halves: the
  /// number of heads in the rows of B; else 0.
  int64_t interleaved_heads = 0;
};

struct LoraLayout {
  ir::DType dtype = ir::DType::f32;
  int64_t rank = 0; // of each site: as asked for, up to a multiple of 8
  uint64_t bytes = 0;
  std::vector<LoraGroup> groups;
  std::vector<LoraSite> sites;

  /// Null where adapters add nothing to it.
  const LoraSite *find(std::string_view name) const;
};

/// The model's site of a target in a layer (-1: outside of layers), without group and place.
LoraSite lora_site(const Decoder &decoder, int64_t vocabulary, LoraTarget target, int64_t layer);

/// `rank`: from 1 to kMaxLoraRank. The embedding's A lies the other way round, [in, columns]: its
/// rows are looked up.
LoraLayout make_lora_layout(const Decoder &decoder, int64_t vocabulary, ir::DType dtype,
                            int64_t rank, LoraTargets targets);

} // namespace cugrt::llm
