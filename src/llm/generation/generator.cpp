// Opening of a model on a device, and the loop over tokens; see generator.h.
#include "llm/generation/generator.h"

#include "llm/generation/call.h"
#include "support/checked_math.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace cugrt::llm {

namespace {

constexpr int64_t kChunk = 64; // tokens of a prompt that are taken in at once
constexpr int64_t kCacheAlignment = 256;
constexpr int64_t kMaxContext = int64_t(1) << 24, kMaxContextUnasked = int64_t(1) << 17;
constexpr uint64_t kTokenBytes = sizeof(int32_t);

cugrt_value tensor_value(uint64_t address, ir::DType dtype, std::initializer_list<int64_t> dims) {
  cugrt_value value{};
  value.kind = CUGRT_VALUE_TENSOR;
  value.as.tensor =
      make_tensor(address, static_cast<cugrt_dtype>(dtype), std::span(dims.begin(), dims.size()));
  return value;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

// Where the caller gives none: what the model was trained for, but no more than kMaxContextUnasked
// or fits beside the weights into fifteen sixteenths of the device's memory.
Status Generator::choose_context(const Decoder &decoder, const GeneratorOptions &options) {
  const uint64_t per_position = uint64_t(2 * decoder.layers) * uint64_t(decoder.kv_heads) *
                                    uint64_t(decoder.head_width) *
                                    ir::info(options.dtype).bytes_per_block +
                                uint64_t(decoder.turned) * sizeof(float); // of the tables
  uint64_t weight_bytes = 0;
  for (const gguf::Tensor &tensor : model_->file.tensors())
    weight_bytes += tensor.bytes.size();
  auto device = detail::sized<cugrt_runtime_info>();
  CUGRT_TRY(call(api().runtime_get_info(runtime_, &device)));
  const uint64_t usable = device.memory_bytes / 16 * 15;
  const uint64_t room = usable > weight_bytes ? (usable - weight_bytes) / per_position : 0;
  const auto fits = static_cast<int64_t>(std::min<uint64_t>(room, kMaxContext));
  const int64_t wanted = options.context > 0
                             ? options.context
                             : std::min({decoder.trained_context, fits, kMaxContextUnasked});
  if (wanted < 1 || wanted > fits)
    return Status::error(
        Code::out_of_device_memory,
        "a context of " + std::to_string(std::max<int64_t>(wanted, 1)) +
            " positions does not fit: the device has " + std::to_string(device.memory_bytes) +
            " bytes, the weights take " + std::to_string(weight_bytes) + " and a position " +
            std::to_string(per_position) +
            (fits > 0 ? "; at most " + std::to_string(fits) + " positions fit" : std::string()));
  context_ = wanted;
  return {};
}

Status Generator::load(const DecoderModule &built, const GeneratorOptions &options) {
  Handle<cugrt_module, &cugrt_api::module_free> module;
  {
    cugrt_module *parsed = nullptr;
    CUGRT_TRY(call(api().module_parse(built.text.data(), built.text.size(),
                                      model_->file.name().c_str(), ".", &parsed)));
    module = Handle<cugrt_module, &cugrt_api::module_free>(parsed);
  }
  auto compile = detail::sized<cugrt_compile_options>();
  compile.progress = options.progress;
  compile.progress_user = options.progress_user;
  cugrt_executable *executable = nullptr;
  CUGRT_TRY(call(api().executable_compile(runtime_, module.get(), &compile, &executable)));
  executable_ = Handle<cugrt_executable, &cugrt_api::executable_free>(executable);
  CUGRT_TRY(call(api().executable_find_function(executable, "prefill", &prefill_)));
  CUGRT_TRY(call(api().executable_find_function(executable, "decode", &decode_)));

  cugrt_weights *list = nullptr;
  CUGRT_TRY(call(api().weights_create(&list)));
  const Handle<cugrt_weights, &cugrt_api::weights_free> weights(list);
  for (const Weight &weight : built.weights) {
    const cugrt_tensor tensor = make_tensor(reinterpret_cast<uintptr_t>(weight.bytes.data()),
                                            static_cast<cugrt_dtype>(weight.dtype), weight.dims);
    CUGRT_TRY(call(api().weights_add(list, weight.name.c_str(), &tensor)));
  }
  auto session_options = detail::sized<cugrt_session_options>();
  session_options.weights = list;
  session_options.record_capacity = 64;
  cugrt_session *session = nullptr;
  CUGRT_TRY(call(api().session_open(executable, runtime_, &session_options, &session)));
  session_ = Handle<cugrt_session, &cugrt_api::session_free>(session);
  return {};
}

Status Generator::make_state(const DecoderModule &built, const Decoder &decoder, ir::DType dtype) {
  const auto make = [&](uint64_t bytes, Handle<cugrt_buffer, &cugrt_api::buffer_free> &buffer) {
    cugrt_buffer *made = nullptr;
    Status status = call(api().buffer_create(runtime_, CUGRT_MEMORY_DEVICE, bytes, &made));
    buffer = Handle<cugrt_buffer, &cugrt_api::buffer_free>(made);
    return status;
  };
  const auto stride = static_cast<uint64_t>(
      *checked_align(static_cast<int64_t>(built.cache_bytes_per_place), kCacheAlignment));
  const auto count = static_cast<uint64_t>(2 * decoder.layers);
  CUGRT_TRY(make(count * stride, caches_)
                .in("caches for a context of " + std::to_string(context_) + " positions"));
  CUGRT_TRY(make(3 * kCacheAlignment, state_));
  CUGRT_TRY(make(kChunk * kTokenBytes, ids_));
  for (uint64_t i = 0; i < 3; ++i)
    state_arguments_.push_back(tensor_value(
        api().buffer_address(state_.get()) + i * kCacheAlignment, ir::DType::i32, {1}));
  for (uint64_t i = 0; i < count; ++i)
    state_arguments_.push_back(tensor_value(api().buffer_address(caches_.get()) + i * stride, dtype,
                                            {1, context_, decoder.kv_heads, decoder.head_width}));
  return clear();
}

Result<std::unique_ptr<Generator>> Generator::open(std::shared_ptr<const Model> model,
                                                   cugrt_runtime *runtime,
                                                   const GeneratorOptions &options) {
  std::unique_ptr<Generator> made(new Generator(std::move(model), runtime));
  CUGRT_ASSIGN(const Decoder decoder, read_decoder(made->model_->file));
  CUGRT_TRY(made->choose_context(decoder, options));
  DecoderOptions wanted;
  wanted.dtype = options.dtype;
  wanted.context = made->context_;
  wanted.chunk = std::min(kChunk, made->context_);
  CUGRT_ASSIGN(const DecoderModule built, build_decoder(made->model_->file, decoder, wanted));
  made->vocabulary_ = built.vocabulary;
  if (static_cast<size_t>(built.vocabulary) < made->model_->tokenizer->size())
    return Status::error(Code::parse_error, "'" + made->model_->file.name() +
                                                "' has more tokens than rows of its table");
  CUGRT_TRY(made->load(built, options));
  CUGRT_TRY(made->make_state(built, decoder, options.dtype));
  return made;
}

Status Generator::clear() {
  CUGRT_TRY(call(api().session_synchronize(session_.get())));
  position_ = 0;
  pending_.reset();
  return call(
      api().fill(runtime_, api().buffer_address(state_.get()), 0, 3 * kCacheAlignment, nullptr));
}

Status Generator::run(const cugrt_function *function, std::span<const cugrt_value> arguments) {
  auto options = detail::sized<cugrt_run_options>();
  options.arguments = arguments.data();
  options.argument_count = arguments.size();
  options.results = &logits_;
  options.result_count = 1;
  return call(api().session_run(session_.get(), function, &options));
}

Status Generator::take_in(std::span<const int32_t> tokens) {
  std::vector<cugrt_value> arguments(1);
  arguments.insert(arguments.end(), state_arguments_.begin(), state_arguments_.end());
  const auto chunk = static_cast<size_t>(std::min(kChunk, context_));
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min(tokens.size(), chunk));
    CUGRT_TRY(call(api().session_synchronize(session_.get()))); // the last part's ids are read
    CUGRT_TRY(call(api().copy_to_device(runtime_, api().buffer_address(ids_.get()), part.data(),
                                        part.size_bytes(), nullptr)));
    arguments[0] = tensor_value(api().buffer_address(ids_.get()), ir::DType::i32,
                                {static_cast<int64_t>(part.size())});
    logits_ = {};
    CUGRT_TRY(run(prefill_, arguments));
    position_ += static_cast<int64_t>(part.size());
    tokens = tokens.subspan(part.size());
  }
  return {};
}

Status Generator::decode() {
  logits_ = {};
  CUGRT_TRY(run(decode_, state_arguments_));
  ++position_;
  return decode_nodes_ == 0 ? note_decode_nodes() : Status();
}

Status Generator::note_decode_nodes() {
  std::vector<cugrt_launch_record> records(64, detail::sized<cugrt_launch_record>());
  size_t count = 0;
  CUGRT_TRY(
      call(api().session_read_launches(session_.get(), records.data(), records.size(), &count)));
  for (size_t i = 0; i < count; ++i)
    if (std::string_view(records[i].function) == "decode")
      decode_nodes_ = std::max(decode_nodes_, records[i].nodes);
  return {};
}

// The most likely token is in the state already; another one is written there.
Status Generator::next_token(const Sampling &sampling, int32_t &token) {
  CUGRT_TRY(call(api().session_synchronize(session_.get())));
  const uint64_t state = api().buffer_address(state_.get());
  if (!(sampling.temperature > 0)) {
    CUGRT_TRY(call(api().copy_to_host(runtime_, &token, state, kTokenBytes, nullptr)));
  } else {
    host_logits_.resize(static_cast<size_t>(vocabulary_));
    CUGRT_TRY(call(api().copy_to_host(runtime_, host_logits_.data(), logits_.as.tensor.address,
                                      host_logits_.size() * sizeof(float), nullptr)));
    token = sample(host_logits_, sampling, static_cast<uint64_t>(position_));
    CUGRT_TRY(call(api().copy_to_device(runtime_, state, &token, kTokenBytes, nullptr)));
  }
  return {};
}

Status Generator::generate(const Request &request, Outcome &outcome) {
  std::vector<int32_t> prompt(request.prompt.begin(), request.prompt.end());
  if (prompt.empty())
    return Status::error(Code::invalid_argument, "there is no prompt: not one token to go on from");
  for (int32_t token : prompt)
    if (token < 0 || token >= vocabulary_)
      return Status::error(Code::out_of_range, "token " + std::to_string(token) +
                                                   " of the prompt is not one of the model's " +
                                                   std::to_string(vocabulary_));
  if (pending_)
    prompt.insert(prompt.begin(), *pending_);
  const auto length = static_cast<int64_t>(prompt.size());
  if (length > context_ - position_)
    return Status::error(Code::out_of_range, "a prompt of " + std::to_string(length) +
                                                 " tokens after " + std::to_string(position_) +
                                                 " does not fit into a context of " +
                                                 std::to_string(context_));
  const std::span<const int32_t> ends = model_->tokenizer->ends();
  const auto is_end = [&](int32_t token) {
    return std::ranges::count(ends, token) || std::ranges::count(request.ends, token);
  };
  auto begin = std::chrono::steady_clock::now();
  CUGRT_TRY(take_in(prompt));
  Utf8Stream stream;
  outcome = {};
  for (;;) {
    int32_t token = 0;
    CUGRT_TRY(next_token(request.sampling, token));
    (outcome.tokens == 0 ? outcome.prompt_seconds : outcome.seconds) = seconds_since(begin);
    if (outcome.tokens == 0)
      begin = std::chrono::steady_clock::now();
    ++outcome.tokens;
    pending_ = token;
    const bool ended = is_end(token);
    const bool is_last = ended || outcome.tokens == request.max_tokens || position_ == context_;
    std::string text = ended || static_cast<size_t>(token) >= model_->tokenizer->size()
                           ? std::string()
                           : stream.push(model_->tokenizer->bytes_of(token));
    if (is_last)
      text += stream.finish();
    const bool goes_on = request.on_token(token, text);
    if (is_last || !goes_on) {
      outcome.stop = ended                                  ? Stop::end
                     : outcome.tokens == request.max_tokens ? Stop::length
                     : !goes_on                             ? Stop::caller
                                                            : Stop::context;
      return {};
    }
    CUGRT_TRY(decode());
  }
}

Result<GeneratorInfo> Generator::info() {
  GeneratorInfo info;
  info.context = context_;
  info.cache_bytes = api().buffer_bytes(caches_.get());
  info.decode_nodes = decode_nodes_;
  info.counters = detail::sized<cugrt_counters>();
  CUGRT_TRY(call(api().session_get_counters(session_.get(), &info.counters)));
  return info;
}

} // namespace cugrt::llm
