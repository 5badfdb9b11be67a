// Reading and packing of adapters; see lora_adapter.h.
#include "fronts/llm/generation/lora_adapter.h"

#include "base/file.h"
#include "base/type/element.h"
#include "base/whole_number.h"
#include "fronts/llm/generation/call.h"
#include "ir/module/names.h"

#include <algorithm>
#include <bit>
#include <filesystem>

namespace cugrt::llm {

namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t(1) << 20;
constexpr std::string_view kPeftPrefix = "base_model.model.";
/// Prefixes of paths in published decoders, before a layer or the embedding.
constexpr std::string_view kRoots[] = {"model.language_model.", "language_model.model.", "model.",
                                       ""};

std::string shape_text(const cugrt_tensor &tensor) {
  const std::span dims(tensor.dims, tensor.rank);
  return "[" + ir::joined(dims, [](int64_t dim) { return std::to_string(dim); }) + "]";
}

/// Which layer a module's path is of, and which target; none where the model has no such one.
std::optional<std::pair<LoraTarget, int64_t>> place_of(std::string_view path, int64_t layers) {
  for (const std::string_view root : kRoots) {
    if (!path.starts_with(root))
      continue;
    std::string_view rest = path.substr(root.size());
    int64_t layer = -1;
    if (constexpr std::string_view kLayers = "layers."; rest.starts_with(kLayers)) {
      rest.remove_prefix(kLayers.size());
      const size_t end = std::min(rest.find('.'), rest.size());
      layer = whole_number<int64_t>(rest.substr(0, end)).value_or(-1);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (layer < 0 || layer >= layers)
        return std::nullopt;
    }
    for (size_t i = 0; i < std::size(kLoraTargets); ++i)
      if (kLoraTargets[i].path == rest && kLoraTargets[i].is_of_layer == (layer >= 0))
        return std::pair(static_cast<LoraTarget>(i), layer);
  }
  return std::nullopt;
}

enum class Part : uint8_t { a, b, base };
struct Ending {
  std::string_view text;
  Part part;
  bool is_of_embedding, is_of_product;
};
constexpr Ending kEndings[] = {{".lora_A.weight", Part::a, false, true},
                               {".lora_B.weight", Part::b, false, true},
                               {".lora_embedding_A", Part::a, true, false},
                               {".lora_embedding_B", Part::b, true, false},
                               {".base_layer.weight", Part::base, true, true}};

/// The row of the model's file that a row of the published model's B belongs to.
int64_t row_in_file(const LoraSite &site, int64_t row) {
  if (site.interleaved_heads == 0)
    return row;
  const int64_t width = site.out / site.interleaved_heads, head = row / width, at = row % width;
  return head * width + at % (width / 2) * 2 + at / (width / 2);
}

class Elements {
public:
  explicit Elements(const cugrt_tensor &tensor)
      : dtype_(static_cast<ir::DType>(tensor.dtype)), width_(ir::info(dtype_).bytes_per_block),
        columns_(tensor.dims[1]),
        // An address of the host's, as the C ABI has it.
        bytes_(reinterpret_cast<const char *>(tensor.address)) {
  } // NOLINT(performance-no-int-to-ptr)
  double at(int64_t row, int64_t column) const {
    return ir::float_at(dtype_, bytes_ + (row * columns_ + column) * width_);
  }

private:
  ir::DType dtype_;
  int64_t width_, columns_;
  const char *bytes_;
};

} // namespace

Result<std::shared_ptr<const LoraAdapter>> LoraAdapter::open(const Model &model,
                                                             const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path given(path);
  const bool is_folder = fs::is_directory(given, ignored);
  const fs::path folder = is_folder ? given : given.parent_path();
  auto made = std::shared_ptr<LoraAdapter>(new LoraAdapter());
  made->name_ = is_folder ? (folder / "adapter_model.safetensors").string() : path;
  const std::string config_name = (folder / "adapter_config.json").string();
  CUGRT_ASSIGN(const std::string json, read_file(config_name, kMaxConfigBytes));
  CUGRT_ASSIGN(const LoraConfig config, LoraConfig::parse(json, config_name));
  cugrt_weights *loaded = nullptr;
  CUGRT_TRY(call(api().weights_load(made->name_.c_str(), &loaded)));
  made->weights_ = detail::Handle<cugrt_weights, &cugrt_api::weights_free>(loaded);

  CUGRT_ASSIGN(const Decoder decoder, read_decoder(model.file));
  CUGRT_ASSIGN(const int64_t vocabulary, vocabulary_of(model.file));
  for (size_t i = 0; i < api().weights_count(loaded); ++i) {
    const char *name = nullptr;
    cugrt_tensor tensor{};
    CUGRT_TRY(call(api().weights_at(loaded, i, &name, &tensor)));
    CUGRT_TRY(made->take(decoder, vocabulary, name, tensor).in("'" + made->name_ + "'"));
  }
  CUGRT_TRY(made->check(config).in("'" + made->name_ + "'"));
  made->model_ = model.identity;
  made->note_identity();
  return std::shared_ptr<const LoraAdapter>(std::move(made));
}

Status LoraAdapter::take(const Decoder &decoder, int64_t vocabulary, const std::string &name,
                         const cugrt_tensor &tensor) {
  const auto error = [&](Code code, const std::string &what) {
    return Status::error(code, "tensor '" + name + "' " + what);
  };
  std::string_view path = name;
  if (path.starts_with(kPeftPrefix))
    path.remove_prefix(kPeftPrefix.size());
  const auto *const ending = std::ranges::find_if(
      kEndings, [&](const Ending &known) { return path.ends_with(known.text); });
  if (ending == std::end(kEndings))
    return error(Code::unsupported, "is none of LoRA's two factors");
  path.remove_suffix(ending->text.size());
  const auto place = place_of(path, decoder.layers);
  if (!place ||
      !(place->first == LoraTarget::embedding ? ending->is_of_embedding : ending->is_of_product))
    return error(Code::unsupported, "has no place in this architecture");
  if (tensor.dtype != CUGRT_F32 && tensor.dtype != CUGRT_F16 && tensor.dtype != CUGRT_BF16)
    return error(Code::unsupported, "is not f32, f16 or bf16");
  LoraSite site = lora_site(decoder, vocabulary, place->first, place->second);
  if (tensor.rank != 2)
    return error(Code::parse_error,
                 "is of shape " + shape_text(tensor) + ", not of two dimensions");
  const bool is_embedding = place->first == LoraTarget::embedding;
  const int64_t wanted = ending->part == Part::a ? site.in : site.out;
  const int64_t given = tensor.dims[ending->part == Part::a ? 1 : 0];
  if (ending->part == Part::base) { // the model's own, which PEFT saves beside the factors
    const int64_t rows = is_embedding ? site.in : site.out;
    return tensor.dims[0] == rows && tensor.dims[1] == decoder.width
               ? Status()
               : error(Code::invalid_argument, "is of shape " + shape_text(tensor) +
                                                   "; the model's is [" + std::to_string(rows) +
                                                   ", " + std::to_string(decoder.width) + "]");
  }
  if (given != wanted)
    return error(Code::invalid_argument, "is of shape " + shape_text(tensor) + "; the model has " +
                                             std::to_string(wanted) + ", not " +
                                             std::to_string(given) + ", there");
  Module &module = modules_[site.name];
  std::optional<cugrt_tensor> &part = ending->part == Part::a ? module.a : module.b;
  if (part)
    return error(Code::parse_error, "stands there twice, under another name");
  part = tensor;
  module.path = path;
  module.site = std::move(site);
  return {};
}

Status LoraAdapter::check(const LoraConfig &config) {
  if (modules_.empty())
    return Status::error(Code::invalid_argument, "has no tensor of an adapter");
  for (auto &[name, module] : modules_) {
    const auto error = [&, &path = module.path](const std::string &what) {
      return Status::error(Code::invalid_argument, "module '" + path + "' " + what);
    };
    if (!module.a || !module.b)
      return error("has one of LoRA's two factors, not both");
    module.rank = config.rank_of(module.path);
    module.scale = config.scale_of(module.path);
    if (module.a->dims[0] != module.rank || module.b->dims[1] != module.rank)
      return error("has factors of rank " + std::to_string(module.a->dims[0]) + " and " +
                   std::to_string(module.b->dims[1]) + "; adapter_config.json says " +
                   std::to_string(module.rank));
    if (module.rank > kMaxLoraRank)
      return error("is of rank " + std::to_string(module.rank) + ", above " +
                   std::to_string(kMaxLoraRank));
    rank_ = std::max(rank_, module.rank);
    targets_ |= lora_bit(module.site.target);
  }
  return {};
}

void LoraAdapter::note_identity() {
  Digester digester;
  for (const auto &[name, module] : modules_) {
    digester.field(name).field(std::bit_cast<uint64_t>(module.scale));
    for (const cugrt_tensor &part : {*module.a, *module.b}) {
      const uint64_t bytes = uint64_t(part.dims[0]) * uint64_t(part.dims[1]) *
                             ir::info(static_cast<ir::DType>(part.dtype)).bytes_per_block;
      digester.field(uint64_t(part.dtype))
          .field(std::string_view(
              reinterpret_cast<const char *>(part.address), // NOLINT(performance-no-int-to-ptr)
              bytes));
    }
  }
  identity_ = digester.finish();
}

Result<std::string> LoraAdapter::pack(const LoraLayout &layout) const {
  if (rank_ > layout.rank)
    return Status::error(Code::invalid_argument,
                         "'" + name_ + "' is of rank " + std::to_string(rank_) +
                             ", the session has room for adapters of rank " +
                             std::to_string(layout.rank) +
                             ": it is to be opened with a lora_rank of " + std::to_string(rank_));
  const auto element = static_cast<int64_t>(ir::info(layout.dtype).bytes_per_block);
  std::string bytes(layout.bytes, '\0');
  bool is_finite = true;
  const auto put = [&](uint64_t at, int64_t index, double value) {
    std::string one;
    is_finite = ir::append_float(layout.dtype, value, one) && is_finite;
    one.copy(bytes.data() + at + uint64_t(index * element), one.size());
  };
  std::string scale;
  ir::append_float(ir::DType::f32, 1, scale);
  scale.copy(bytes.data(), scale.size());
  for (const auto &[name, module] : modules_) {
    const LoraSite *site = layout.find(name);
    if (!site)
      return Status::error(Code::invalid_argument,
                           "'" + name_ + "' adds to '" + module.path +
                               "', which the session's lora_targets do not have");
    const LoraGroup &group = layout.groups[site->group];
    const Elements a(*module.a), b(*module.b);
    const bool is_looked_up = site->target == LoraTarget::embedding;
    for (int64_t row = 0; row < module.rank; ++row)
      for (int64_t i = 0; i < site->in; ++i)
        put(group.a_at,
            is_looked_up ? i * group.columns + row : (site->column + row) * group.in + i,
            a.at(row, i));
    for (int64_t row = 0; row < site->out; ++row)
      for (int64_t i = 0; i < module.rank; ++i)
        put(site->b_at, row_in_file(*site, row) * group.columns + site->column + i,
            b.at(row, i) * module.scale);
  }
  if (!is_finite)
    return Status::error(Code::out_of_range, "'" + name_ + "' has numbers beyond those of " +
                                                 std::string(ir::info(layout.dtype).name));
  return bytes;
}

} // namespace cugrt::llm
