// The module of a session, and its name in packs; see session_module.h.
#include "fronts/llm/generation/session_module.h"

#include "fronts/llm/generation/call.h"
#include "ir/module/builder.h"
#include "ir/text/built_module.h"
#include "ir/text/text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace cugrt::llm {

constexpr std::string_view kPrefix = "llm_", kLora = "lora";

/// The caches' dtypes, as fields that a mark is made of.
constexpr std::pair<ir::DType, std::string_view> kCaches[] = {{ir::DType::f32, "f32"},
                                                              {ir::DType::f16, "f16"},
                                                              {ir::DType::bf16, "bf16"},
                                                              {ir::DType::q8_0, "q8"}};

// llm_f32_f16_4096_1_host_0123456789abcdef: dtype, that of the caches, context, places, loop,
// digest; before that one "ngram", with drafts, and of adapters lora, their rank and targets.
static std::string mark_of(const DecoderModule &module, const EngineOptions &options) {
  const Digest digest = Digester().field(ir::print(module.module)).finish();
  std::string mark(kPrefix);
  const auto *const cache = std::ranges::find(kCaches, options.cache_dtype(),
                                              &std::pair<ir::DType, std::string_view>::first);
  mark += std::string(ir::info(options.dtype).name) + "_" + std::string(cache->second) + "_" +
          std::to_string(options.context) + "_" + std::to_string(options.places) +
          (options.loop == Loop::device ? "_device_" : "_host_") +
          (options.draft == Draft::ngram ? "ngram_" : "");
  if (options.lora_rank > 0)
    mark += std::string(kLora) + "_" + std::to_string(options.lora_rank) + "_" +
            std::to_string(options.lora_targets) + "_";
  mark += hex(digest).substr(0, 16);
  return mark;
}

/// "" where the executable has none.
static std::string_view mark_of(const cugrt_executable *executable) {
  for (size_t i = 0; i < api().executable_function_count(executable); ++i)
    if (const std::string_view name =
            api().function_name(api().executable_function_at(executable, i));
        name.starts_with(kPrefix))
      return name;
  return {};
}

static std::string_view next_field(std::string_view &left) {
  const size_t end = std::min(left.find('_'), left.size());
  const std::string_view field = left.substr(0, end);
  left.remove_prefix(std::min(end + 1, left.size()));
  return field;
}

static bool read_number(std::string_view text, int64_t &number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && number > 0;
}

/// Lines go by the first tensor of the file that they read, as it is or converted, else by the
/// layer of the last one that a line above read: "blk.0".
static void name_lines(const ir::Function &function, std::map<uint32_t, std::string> &names) {
  std::map<std::string_view, std::string_view> tensors; // by value
  for (const ir::Block &block : function.blocks) {
    std::string_view layer;
    for (const ir::Binding &binding : block.bindings) {
      std::string_view tensor;
      bool converts = true; // nothing but tensors
      for (const ir::Operand &operand : function.operands_of(binding))
        if (operand.kind == ir::Operand::Kind::value) {
          const std::string_view name = function.value(operand.value()).name;
          const auto made = tensors.find(name);
          const std::string_view read = made != tensors.end() ? made->second
                                        : name.ends_with(".weight") || name.ends_with(".bias")
                                            ? name
                                            : "";
          converts = converts && !read.empty();
          tensor = tensor.empty() ? read : tensor;
        }
      if (!tensor.empty())
        layer = tensor.substr(0, tensor.find('.', tensor.starts_with("blk.") ? 4 : 0));
      if (!layer.empty())
        names.try_emplace(binding.location.line, tensor.empty() ? layer : tensor);
      for (uint32_t r = 0; converts && !tensor.empty() && r < binding.result_count; ++r)
        tensors.emplace(function.value(binding.result(r)).name, tensor);
    }
  }
}

Result<DecoderModule> module_of(const Model &model, const Decoder &decoder,
                                const EngineOptions &options) {
  DecoderOptions wanted;
  wanted.dtype = options.dtype;
  wanted.cache = options.cache_dtype();
  wanted.context = options.context;
  wanted.places = options.places;
  wanted.chunk = std::min(chunk_of(options.dtype), options.context);
  wanted.ring = TokenRing::kRows;
  wanted.device_loop = options.loop == Loop::device;
  wanted.all_logits = options.all_logits;
  wanted.rows = options.rows();
  if (options.lora_rank > 0) {
    CUGRT_ASSIGN(const int64_t vocabulary, vocabulary_of(model.file));
    wanted.lora = std::make_shared<LoraLayout>(make_lora_layout(
        decoder, vocabulary, options.dtype, options.lora_rank, options.lora_targets));
  }
  CUGRT_ASSIGN(DecoderModule built, build_decoder(model.file, decoder, wanted));
  built.mark = mark_of(built, options);
  built.module.functions.push_back(ir::FunctionBuilder(built.module, built.mark).finish({}));
  return built;
}

Status adopt_module(DecoderModule &built, const std::string &name, cugrt_module **module) {
  CUGRT_ASSIGN(cugrt_built_module handed, ir::make_built(std::move(built.module)));
  for (const ir::Function &function : handed.module->functions)
    name_lines(function, handed.names);
  return call(api().module_adopt(&handed, name.c_str(), module));
}

Result<EngineOptions> options_of_pack(const cugrt_executable *executable, EngineOptions given) {
  std::string_view left = mark_of(executable);
  left.remove_prefix(std::min(left.size(), kPrefix.size()));
  const std::optional<ir::DType> dtype = ir::dtype_from_name(next_field(left));
  const auto *const cache =
      std::ranges::find(kCaches, next_field(left), &std::pair<ir::DType, std::string_view>::second);
  const bool has_context = read_number(next_field(left), given.context);
  const bool has_places = read_number(next_field(left), given.places);
  const std::string_view loop = next_field(left);
  if (!dtype || cache == std::end(kCaches) || !has_context || !has_places ||
      (loop != "host" && loop != "device"))
    return Status::error(Code::invalid_argument,
                         "'" + given.pack + "' is no language model's pack");
  given.dtype = *dtype;
  given.cache = cache->first;
  given.loop = loop == "device" ? Loop::device : Loop::host;
  std::string_view field = next_field(left);
  given.draft = field == "ngram" ? Draft::ngram : Draft::none;
  if (field == "ngram")
    field = next_field(left);
  int64_t rank = 0, targets = 0;
  if (field == kLora && (!read_number(next_field(left), rank) || rank > kMaxLoraRank ||
                         !read_number(next_field(left), targets) || targets > kAllLoraTargets))
    return Status::error(Code::invalid_argument,
                         "'" + given.pack + "' is no language model's pack");
  given.lora_rank = rank;
  given.lora_targets = static_cast<LoraTargets>(targets);
  return given;
}

Status check_pack(const cugrt_executable *executable, const DecoderModule &module,
                  const std::string &pack) {
  return mark_of(executable) == module.mark
             ? Status()
             : Status::error(Code::invalid_argument, "'" + pack + "' is another model's pack");
}

} // namespace cugrt::llm
