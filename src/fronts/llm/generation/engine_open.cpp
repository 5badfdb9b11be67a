// Opening of a model on a device: its context, code, session and state; see engine.h.
#include "fronts/llm/generation/call.h"
#include "fronts/llm/generation/engine.h"
#include "fronts/llm/generation/session_module.h"

#include <algorithm>

namespace cugrt::llm {

constexpr int64_t kMaxContext = int64_t(1) << 24, kMaxContextUnasked = int64_t(1) << 17;

Result<EngineMemory> memory_of(const Model &model, const Decoder &decoder,
                               const EngineOptions &options) {
  EngineMemory memory;
  for (const gguf::Tensor &tensor : model.file.tensors())
    memory.weight_bytes += tensor.bytes.size();
  const uint64_t tables = decoder.whole_every > 0 ? 2 : 1;
  memory.table_bytes =
      uint64_t(options.context) * tables * uint64_t(decoder.turned) * sizeof(float);
  if (options.rows() > 1)
    memory.table_bytes += uint64_t(options.context) * uint64_t(options.places) * kTokenBytes;
  memory.cache_bytes = uint64_t(options.context) * uint64_t(options.places) *
                       uint64_t(2 * decoder.layers) *
                       cache_row_bytes(decoder, options.cache_dtype());
  if (options.lora_rank > 0) {
    CUGRT_ASSIGN(const int64_t vocabulary, vocabulary_of(model.file));
    memory.adapter_bytes = make_lora_layout(decoder, vocabulary, options.dtype, options.lora_rank,
                                            options.lora_targets)
                               .bytes;
  }
  return memory;
}

// The context if the caller gives none: as many positions as the model was trained for, but at most
// kMaxContextUnasked, and only as many as fit, beside the weights and the group's memory, into
// fifteen sixteenths of the device's memory, or of the group's budget.
Status Engine::choose_context(const Model &model, const Decoder &decoder,
                              const EngineOptions &options) {
  EngineOptions of_one = options;
  of_one.context = 1;
  CUGRT_ASSIGN(const EngineMemory one, memory_of(model, decoder, of_one));
  const uint64_t weight_bytes = one.weight_bytes + one.adapter_bytes;
  const uint64_t per_position = one.table_bytes + one.cache_bytes;
  auto device = detail::sized<cugrt_runtime_info>();
  CUGRT_TRY(call(api().runtime_get_info(runtime_, &device)));
  auto group = detail::sized<cugrt_memory>();
  if (options.group)
    CUGRT_TRY(call(api().group_get_memory(options.group, &group)));
  const uint64_t all = group.budget_bytes != 0 ? group.budget_bytes : device.memory_bytes;
  const auto fits_beside = [&](uint64_t held) {
    const uint64_t taken = held + weight_bytes, usable = all / 16 * 15;
    const uint64_t room = usable > taken ? (usable - taken) / per_position : 0;
    return static_cast<int64_t>(std::min<uint64_t>(room, kMaxContext));
  };
  const int64_t fits = fits_beside(0); // weights of others may leave
  const int64_t wanted = options.context > 0
                             ? options.context
                             : std::min({decoder.trained_context, fits_beside(group.device_bytes),
                                         kMaxContextUnasked});
  if (wanted < 1 || wanted > fits)
    return Status::error(
        Code::out_of_device_memory,
        "a context of " + std::to_string(std::max<int64_t>(wanted, 1)) +
            " positions does not fit: the device" + (options.group ? "'s group" : "") + " has " +
            std::to_string(all) + " bytes, the weights " +
            (one.adapter_bytes > 0 ? "and an adapter " : "") + "take " +
            std::to_string(weight_bytes) + " and a position " +
            (options.places > 1 ? "of " + std::to_string(options.places) + " places " : "") +
            std::to_string(per_position) +
            (fits > 0 ? "; at most " + std::to_string(fits) + " positions fit" : std::string()));
  context_ = wanted;
  return {};
}

Status Engine::check_loop(Loop wanted) const {
  constexpr int32_t kLeastDriver = 12030;
  auto known = detail::sized<cugrt_runtime_info>();
  CUGRT_TRY(call(api().runtime_get_info(runtime_, &known)));
  if (wanted == Loop::host || known.driver_version >= kLeastDriver)
    return {};
  return Status::error(Code::unsupported,
                       "a loop over tokens on the device needs a driver of CUDA 12.3; this one is "
                       "of " +
                           std::to_string(known.driver_version / 1000) + "." +
                           std::to_string(known.driver_version % 1000 / 10));
}

Status Engine::load_pack(const std::string &path) {
  cugrt_pack *loaded = nullptr;
  CUGRT_TRY(call(api().pack_load(path.c_str(), &loaded)));
  const Handle<cugrt_pack, &cugrt_api::pack_free> pack(loaded);
  cugrt_executable *executable = nullptr;
  CUGRT_TRY(call(api().executable_from_pack(runtime_, pack.get(), &executable)));
  executable_ = Handle<cugrt_executable, &cugrt_api::executable_free>(executable);
  return {};
}

Status Engine::compile(DecoderModule &built, const std::string &name,
                       const EngineOptions &options) {
  Handle<cugrt_module, &cugrt_api::module_free> module;
  {
    cugrt_module *adopted = nullptr;
    CUGRT_TRY(adopt_module(built, name, &adopted));
    module = Handle<cugrt_module, &cugrt_api::module_free>(adopted);
  }
  auto compile = detail::sized<cugrt_compile_options>();
  compile.progress = options.progress;
  compile.progress_user = options.progress_user;
  cugrt_executable *executable = nullptr;
  CUGRT_TRY(call(api().executable_compile(runtime_, module.get(), &compile, &executable)));
  executable_ = Handle<cugrt_executable, &cugrt_api::executable_free>(executable);
  return {};
}

Status Engine::find_functions(bool has_adapters) {
  const auto find = [&](const char *name, const cugrt_function *&function) {
    return call(api().executable_find_function(executable_.get(), name, &function));
  };
  CUGRT_TRY(find("prefill", plain_.prefill));
  CUGRT_TRY(find("decode", plain_.decode));
  if (!has_adapters)
    return {};
  CUGRT_TRY(find("prefill_lora", adapted_.prefill));
  return find("decode_lora", adapted_.decode);
}

// Weights stay in the file's pages, from where they go to the device.
Status Engine::open_session(const DecoderModule &built, const gguf::File &file,
                            const EngineOptions &options) {
  using Owner = std::shared_ptr<const void>;
  CUGRT_TRY(find_functions(built.lora != nullptr));
  cugrt_weights *list = nullptr;
  CUGRT_TRY(call(api().weights_create(&list)));
  const Handle<cugrt_weights, &cugrt_api::weights_free> weights(list);
  for (const Weight &weight : built.weights) {
    const auto made = weight.make ? std::make_shared<const std::string>(weight.make()) : nullptr;
    const std::string_view bytes = made ? std::string_view(*made) : weight.bytes;
    const cugrt_tensor tensor = make_tensor(reinterpret_cast<uintptr_t>(bytes.data()),
                                            static_cast<cugrt_dtype>(weight.dtype), weight.dims);
    auto *const owner = new Owner(made ? Owner(made) : file.pages());
    CUGRT_TRY(call(api().weights_add_shared(
        list, weight.name.c_str(), &tensor, [](void *user) { delete static_cast<Owner *>(user); },
        owner)));
  }
  auto session_options = detail::sized<cugrt_session_options>();
  session_options.weights = list;
  session_options.record_capacity = 64;
  session_options.group = options.group;
  session_options.exclusive = options.exclusive;
  session_options.priority = options.priority;
  session_options.wait = options.wait;
  session_options.time_steps = options.time_steps;
  cugrt_session *session = nullptr;
  CUGRT_TRY(call(api().session_open(executable_.get(), runtime_, &session_options, &session)));
  session_ = Handle<cugrt_session, &cugrt_api::session_free>(session);
  return {};
}

Status Engine::make_state(const DecoderModule &built, const Decoder &decoder, cugrt_group *group) {
  const auto make = [&](uint64_t bytes, Handle<cugrt_buffer, &cugrt_api::buffer_free> &buffer) {
    cugrt_buffer *made = nullptr;
    CUGRT_TRY(call(group ? api().group_buffer_create(group, bytes, &made)
                         : api().buffer_create(runtime_, CUGRT_MEMORY_DEVICE, bytes, &made)));
    buffer = Handle<cugrt_buffer, &cugrt_api::buffer_free>(made);
    // Rows beyond the real ones may read it, so nothing in it may be a NaN.
    return call(api().fill(runtime_, api().buffer_address(made), 0, bytes, nullptr));
  };
  cache_row_bytes_ = built.cache_bytes_per_place / uint64_t(context_);
  cache_stride_ = aligned(built.cache_bytes_per_place * uint64_t(places_));
  cache_count_ = static_cast<uint64_t>(2 * decoder.layers);
  state_stride_ = aligned(uint64_t(places_) * kTokenBytes);
  CUGRT_TRY(make(cache_count_ * cache_stride_, caches_)
                .in("caches for a context of " + std::to_string(context_) + " positions"));
  const uint64_t sampler_bytes = uint64_t(places_ * kSamplerWords) * kTokenBytes;
  CUGRT_TRY(make(kSamplers * state_stride_ + sampler_bytes, state_)); // samplers come last
  const std::vector<int32_t> limits(static_cast<size_t>(places_), int32_t(context_));
  CUGRT_TRY(write(state_address(kLimits, 0), limits.data(), limits.size() * kTokenBytes));
  CUGRT_TRY(make(uint64_t(places_ * vocabulary_) * kTokenBytes, counts_));
  CUGRT_TRY(make(uint64_t(places_ * end_words()) * kTokenBytes, ends_));
  if (rows_ > 1)
    CUGRT_TRY(make(uint64_t(places_ * context_) * kTokenBytes, texts_));
  CUGRT_TRY(ring_.make(runtime_, places_, rows_));
  CUGRT_TRY(make(kIdBytes + kAlignment, prompt_)); // ids, then a request
  const uint64_t prompt = api().buffer_address(prompt_.get());
  prefill_arguments_ = {tensor_value(prompt, ir::DType::i32, {1}),
                        tensor_value(prompt + kIdBytes, ir::DType::i32, {kRequest})};
  for (uint64_t i = 0; i < kStateTensors; ++i)
    prefill_arguments_.push_back(tensor_value(state_address(i, 0), ir::DType::i32, {places_}));
  prefill_arguments_.push_back(
      tensor_value(state_address(kSamplers, 0), ir::DType::i32, {places_, kSamplerWords}));
  prefill_arguments_.push_back(
      tensor_value(api().buffer_address(counts_.get()), ir::DType::i32, {places_, vocabulary_}));
  if (texts_.get())
    prefill_arguments_.push_back(
        tensor_value(api().buffer_address(texts_.get()), ir::DType::i32, {places_, context_}));
  for (uint64_t i = 0; i < cache_count_; ++i)
    prefill_arguments_.push_back(
        tensor_value(cache_address(i, 0), cache_dtype_,
                     {places_, context_, decoder.kv_heads, decoder.head_width}));
  decode_arguments_.assign(prefill_arguments_.begin() + 2, prefill_arguments_.end());
  decode_arguments_.insert(
      decode_arguments_.end(),
      {tensor_value(state_address(kLimits, 0), ir::DType::i32, {places_}),
       tensor_value(api().buffer_address(ends_.get()), ir::DType::i32, {places_, end_words()}),
       tensor_value(state_address(kSteps, 0), ir::DType::i32, {kStepWords}), ring_.heard(),
       ring_.rows(), ring_.published(), cugrt_value{}});
  prefill_arguments_.push_back(cugrt_value{});
  adapters_.open(runtime_, group, built.lora);
  return {};
}

Result<std::unique_ptr<Engine>> Engine::open(const Model &model, cugrt_runtime *runtime,
                                             const EngineOptions &options) {
  std::unique_ptr<Engine> made(new Engine(runtime));
  CUGRT_ASSIGN(const Decoder decoder, read_decoder(model.file));
  EngineOptions chosen = options;
  if (!options.pack.empty()) {
    CUGRT_TRY(made->load_pack(options.pack));
    CUGRT_ASSIGN(chosen, options_of_pack(made->executable_.get(), options));
  }
  CUGRT_TRY(made->choose_context(model, decoder, chosen));
  CUGRT_TRY(made->check_loop(chosen.loop));
  chosen.context = made->context_;
  made->loops_on_device_ = chosen.loop == Loop::device;
  made->places_ = chosen.places;
  made->chunk_ = chunk_of(chosen.dtype);
  made->rows_ = chosen.rows();
  made->cache_dtype_ = chosen.cache_dtype();
  CUGRT_ASSIGN(DecoderModule built, module_of(model, decoder, chosen));
  made->vocabulary_ = built.vocabulary;
  if (static_cast<size_t>(built.vocabulary) < model.tokenizer->size())
    return Status::error(Code::parse_error,
                         "'" + model.file.name() + "' has more tokens than rows of its table");
  CUGRT_TRY(options.pack.empty() ? made->compile(built, model.file.name(), options)
                                 : check_pack(made->executable_.get(), built, options.pack));
  CUGRT_TRY(made->open_session(built, model.file, options));
  CUGRT_TRY(made->make_state(built, decoder, options.group));
  return made;
}

} // namespace cugrt::llm
