// Keys of architectures; see decoder.h.
#include "fronts/llm/architectures/decoder.h"

#include <algorithm>
#include <cmath>

namespace cugrt::llm {

namespace {

constexpr std::string_view kKnown[] = {"block_count",
                                       "context_length",
                                       "embedding_length",
                                       "feed_forward_length",
                                       "attention.head_count",
                                       "attention.head_count_kv",
                                       "attention.key_length",
                                       "attention.value_length",
                                       "attention.layer_norm_rms_epsilon",
                                       "rope.dimension_count",
                                       "rope.freq_base",
                                       "rope.scaling.type",
                                       "rope.scaling.factor",
                                       "rope.scaling.attn_factor",
                                       "rope.scaling.original_context_length",
                                       "rope.scaling.finetuned",
                                       "rope.scaling.yarn_beta_fast",
                                       "rope.scaling.yarn_beta_slow",
                                       "rope.scaling.yarn_ext_factor",
                                       "rope.scaling.yarn_attn_factor",
                                       "vocab_size"};

struct Keys {
  const gguf::File &file;
  std::string prefix; // "llama."

  Status error(std::string_view key, const std::string &what) const {
    return Status::error(Code::unsupported,
                         "'" + file.name() + "': key '" + prefix + std::string(key) + "' " + what);
  }
  Result<int64_t> count(std::string_view key, int64_t limit,
                        std::optional<int64_t> absent = {}) const {
    CUGRT_ASSIGN(const int64_t value, file.integer(prefix + std::string(key), absent));
    if (value < 1 || value > limit)
      return error(key, "is " + std::to_string(value) + ", not from 1 to " + std::to_string(limit));
    return value;
  }
  Result<double> positive(std::string_view key, std::optional<double> absent = {}) const {
    CUGRT_ASSIGN(const double value, file.number(prefix + std::string(key), absent));
    if (!(value > 0) || !std::isfinite(value))
      return error(key, "is not a number above 0");
    return value;
  }
};

Result<Rope> read_rope(const Keys &keys, int64_t trained_context) {
  Rope rope;
  CUGRT_ASSIGN(rope.base, keys.positive("rope.freq_base", rope.base));
  const bool has_factor = keys.file.find(keys.prefix + "rope.scaling.factor") != nullptr;
  CUGRT_ASSIGN(const std::string_view scaling,
               keys.file.choice(keys.prefix + "rope.scaling.type", has_factor ? "linear" : "none"));
  if (scaling == "none")
    return rope;
  if (scaling != "linear" && scaling != "yarn")
    return keys.error("rope.scaling.type", "is '" + std::string(scaling) +
                                               "', which is not known; known are none, linear, "
                                               "yarn");
  CUGRT_ASSIGN(rope.factor, keys.positive("rope.scaling.factor"));
  CUGRT_ASSIGN(rope.attention_factor, keys.positive("rope.scaling.attn_factor", 1));
  rope.scaling = scaling == "linear" ? RopeScaling::linear : RopeScaling::yarn;
  if (rope.scaling == RopeScaling::linear)
    return rope;
  CUGRT_ASSIGN(const double extrapolation, keys.positive("rope.scaling.yarn_ext_factor", 1));
  if (extrapolation != 1)
    return keys.error("rope.scaling.yarn_ext_factor", "is not 1");
  CUGRT_ASSIGN(const double attention, keys.positive("rope.scaling.yarn_attn_factor", 1));
  rope.attention_factor *= attention;
  CUGRT_ASSIGN(rope.beta_fast, keys.positive("rope.scaling.yarn_beta_fast", rope.beta_fast));
  CUGRT_ASSIGN(rope.beta_slow, keys.positive("rope.scaling.yarn_beta_slow", rope.beta_slow));
  CUGRT_ASSIGN(const int64_t original, keys.count("rope.scaling.original_context_length",
                                                  int64_t(1) << 30, trained_context));
  rope.original_context = double(original);
  return rope;
}

} // namespace

Result<Decoder> read_hyperparameters(const gguf::File &file, std::string_view architecture,
                                     std::span<const std::string_view> more) {
  const Keys keys{file, std::string(architecture) + "."};
  for (std::string_view key : file.keys())
    if (key.starts_with(keys.prefix)) {
      const std::string_view rest = key.substr(keys.prefix.size());
      if (!std::ranges::count(kKnown, rest) && !std::ranges::count(more, rest))
        return keys.error(rest, "is not known");
    }

  constexpr int64_t kMany = int64_t(1) << 20;
  Decoder decoder;
  decoder.architecture = architecture;
  CUGRT_ASSIGN(decoder.layers, keys.count("block_count", 1000));
  CUGRT_ASSIGN(decoder.width, keys.count("embedding_length", kMany));
  CUGRT_ASSIGN(decoder.inner, keys.count("feed_forward_length", kMany));
  CUGRT_ASSIGN(decoder.trained_context, keys.count("context_length", int64_t(1) << 30));
  CUGRT_ASSIGN(decoder.heads, keys.count("attention.head_count", 65536));
  CUGRT_ASSIGN(decoder.kv_heads, keys.count("attention.head_count_kv", 65536, decoder.heads));
  if (decoder.heads % decoder.kv_heads != 0)
    return keys.error("attention.head_count_kv", "does not divide the number of heads");
  const int64_t equal = std::max<int64_t>(decoder.width / decoder.heads, 1);
  CUGRT_ASSIGN(decoder.head_width, keys.count("attention.key_length", 1024, equal));
  CUGRT_ASSIGN(const int64_t value_width,
               keys.count("attention.value_length", 1024, decoder.head_width));
  if (value_width != decoder.head_width)
    return keys.error("attention.value_length", "is not attention.key_length");
  CUGRT_ASSIGN(decoder.turned,
               keys.count("rope.dimension_count", decoder.head_width, decoder.head_width));
  if (decoder.turned % 2 != 0)
    return keys.error("rope.dimension_count", "is odd");
  CUGRT_ASSIGN(decoder.epsilon, keys.positive("attention.layer_norm_rms_epsilon"));
  CUGRT_ASSIGN(decoder.rope, read_rope(keys, decoder.trained_context));
  return decoder;
}

} // namespace cugrt::llm
