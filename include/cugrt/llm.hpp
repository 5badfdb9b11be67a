// cugrt: language models. Header-only and move-only, over the C ABI of llm.h, as cugrt.hpp is over
// cugrt.h.
//
//   cugrt::LanguageModel model("model.gguf");
//   cugrt::LanguageSession session(model, runtime, {.places = 4});
//   session.generate({.prompt = model.tokenize("The capital of France is"), .max_tokens = 8},
//                    [](int32_t token, std::string_view text) { std::cout << text; return true; });
//
//   uint64_t sequence = session.add({.prompt = tokens, .temperature = 0.8, .seed = 1});
//   while (session.is_running())
//     for (const cugrt::LanguageEvent &event : session.step())
//       ..
//
// Failures are thrown as cugrt::Error. Models may be used by several threads at once, a session by
// one at a time.
#pragma once

#include <cugrt/cugrt.hpp>
#include <cugrt/llm.h>

#include <functional>
#include <optional>

namespace cugrt {

/// The table of libcugrt-llm; throws std::runtime_error when the library is older than this header.
inline const cugrt_llm_api &llm_api() {
  static const cugrt_llm_api *const table = cugrt_llm_get_api(CUGRT_LLM_API_VERSION);
  if (!table || table->struct_size < sizeof(cugrt_llm_api))
    throw std::runtime_error(
        "libcugrt-llm.so is older than the header this program was compiled with");
  return *table;
}

namespace detail {
template <class T, auto Free> using LlmHandle = Handle<T, Free, &llm_api>;

inline std::vector<int32_t> take_tokens(cugrt_llm_tokens *tokens) {
  const LlmHandle<cugrt_llm_tokens, &cugrt_llm_api::tokens_free> owner(tokens);
  const int32_t *first = llm_api().tokens_data(tokens);
  return {first, first + llm_api().tokens_count(tokens)};
}
} // namespace detail

/// The fields of cugrt_llm_conversation as JSON; an empty one is not there.
struct LanguageConversation {
  std::string messages, tools = {}, documents = {}, variables = {};
  bool add_generation_prompt = true;
};

/// A file, mapped, and its tokenizer.
class LanguageModel : public detail::LlmHandle<cugrt_llm_model, &cugrt_llm_api::model_free> {
public:
  explicit LanguageModel(const std::string &path) {
    check(llm_api().model_open(path.c_str(), &handle_));
  }

  /// Its strings live as long as the model.
  cugrt_llm_model_info info() const { return detail::got(llm_api().model_get_info, get()); }
  std::vector<int32_t> tokenize(std::string_view text) const {
    return detail::take_tokens(
        detail::got(llm_api().tokenize, get(), text.data() ? text.data() : "", text.size()));
  }
  /// A conversation up to where the answer begins; `end` gets the token that ends an answer, or -1.
  std::vector<int32_t> tokenize_chat(std::span<const cugrt_llm_message> messages,
                                     int32_t *end = nullptr) const {
    cugrt_llm_tokens *tokens = nullptr;
    check(llm_api().tokenize_chat(get(), messages.data(), messages.size(), &tokens, end));
    return detail::take_tokens(tokens);
  }

  /// The same with tools and other keys of the template; `text` gets what the template wrote.
  std::vector<int32_t> tokenize_chat(const LanguageConversation &conversation,
                                     int32_t *end = nullptr, std::string *text = nullptr) const {
    auto given = detail::sized<cugrt_llm_conversation>();
    const auto put = [](const std::string &json, const char *&place, size_t &bytes) {
      place = json.empty() ? nullptr : json.data();
      bytes = json.size();
    };
    put(conversation.messages, given.messages, given.messages_bytes);
    put(conversation.tools, given.tools, given.tools_bytes);
    put(conversation.documents, given.documents, given.documents_bytes);
    put(conversation.variables, given.variables, given.variables_bytes);
    given.add_generation_prompt = conversation.add_generation_prompt;
    cugrt_llm_tokens *tokens = nullptr;
    check(llm_api().tokenize_conversation(get(), &given, &tokens, end));
    size_t size = 0;
    if (const char *written = llm_api().tokens_text(tokens, &size); text && written)
      text->assign(written, size);
    return detail::take_tokens(tokens);
  }

  /// The bytes of a token's text; not always whole characters.
  std::string token_bytes(int32_t token) const {
    std::string bytes(llm_api().token_bytes(get(), token, nullptr, 0), '\0');
    (void)llm_api().token_bytes(get(), token, bytes.data(), bytes.size());
    return bytes;
  }
};

/// The fields of cugrt_llm_session_options.
struct LanguageSessionOptions {
  cugrt_dtype dtype = CUGRT_F32;
  int64_t context = 0, places = 1;
  cugrt_progress_callback progress = nullptr;
  void *progress_user = nullptr;
  cugrt_llm_loop loop = CUGRT_LLM_LOOP_HOST;
  const char *pack = nullptr;
  std::optional<cugrt_dtype> cache = std::nullopt; // empty: as dtype
  Group *group = nullptr;
  const char *exclusive = nullptr;
  int32_t priority = 0;
  cugrt_wait wait = CUGRT_WAIT_DEFAULT;
  cugrt_llm_draft draft = CUGRT_LLM_DRAFT_NONE;
  int64_t lora_rank = 0;
  const char *lora_targets = nullptr;
};

/// An adapter (LoRA) of a model: PEFT's folder, or the file of tensors in it, mapped.
class LanguageAdapter : public detail::LlmHandle<cugrt_llm_adapter, &cugrt_llm_api::adapter_free> {
public:
  LanguageAdapter(const LanguageModel &model, const std::string &path) {
    check(llm_api().adapter_open(model.get(), path.c_str(), &handle_));
  }
  /// Its text lives as long as the adapter.
  cugrt_llm_adapter_info info() const { return detail::got(llm_api().adapter_get_info, get()); }
};

/// Tokens that sequences begin with, and their caches, in host memory.
class LanguagePrompt : public detail::LlmHandle<cugrt_llm_prompt, &cugrt_llm_api::prompt_free> {
public:
  explicit LanguagePrompt(cugrt_llm_prompt *prompt) noexcept : Handle(prompt) {}
  static LanguagePrompt read(const std::string &path) {
    return LanguagePrompt(detail::got(llm_api().prompt_read, path.c_str()));
  }

  void write(const std::string &path) const { check(llm_api().prompt_write(get(), path.c_str())); }
  std::vector<int32_t> tokens() const {
    size_t count = 0;
    const int32_t *first = llm_api().prompt_tokens(get(), &count);
    return {first, first + count};
  }
};

/// The fields of cugrt_llm_generate_options.
struct GenerateOptions {
  std::vector<int32_t> prompt;
  uint64_t max_tokens = 0;
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 0;
  uint64_t seed = 0;
  std::vector<int32_t> ends = {};
  double min_p = 0, repetition_penalty = 1, frequency_penalty = 0;
  const LanguagePrompt *prefix = nullptr;
  int64_t log_probabilities = 0;

  /// Borrows the lists: valid while *this is.
  cugrt_llm_generate_options c_options() const {
    auto options = detail::sized<cugrt_llm_generate_options>();
    options.prompt = prompt.data();
    options.prompt_count = prompt.size();
    options.max_tokens = max_tokens;
    options.temperature = temperature;
    options.top_k = top_k;
    options.top_p = top_p;
    options.seed = seed;
    options.ends = ends.data();
    options.end_count = ends.size();
    options.min_p = min_p;
    options.repetition_penalty = repetition_penalty;
    options.frequency_penalty = frequency_penalty;
    options.prefix = prefix ? prefix->get() : nullptr;
    options.log_probabilities = log_probabilities;
    return options;
  }
};

/// A token of a sequence of a batch.
struct LanguageEvent {
  uint64_t sequence;
  int32_t token;
  cugrt_llm_stop stop; // CUGRT_LLM_STOP_NOT: it goes on
  std::string text;
  double log_probability; // if the options ask for it, as for `likely`
  std::vector<cugrt_llm_likely> likely;
};

/// Weights, caches and graphs on a device.
class LanguageSession : public detail::LlmHandle<cugrt_llm_session, &cugrt_llm_api::session_free> {
public:
  LanguageSession(const LanguageModel &model, Runtime &runtime,
                  const LanguageSessionOptions &wanted = {}) {
    auto options = detail::sized<cugrt_llm_session_options>();
    options.dtype = wanted.dtype;
    options.context = wanted.context;
    options.places = wanted.places;
    options.progress = wanted.progress;
    options.progress_user = wanted.progress_user;
    options.loop = wanted.loop;
    options.pack = wanted.pack;
    options.cache = wanted.cache.value_or(CUGRT_BOOL);
    options.group = wanted.group ? wanted.group->get() : nullptr;
    options.exclusive = wanted.exclusive;
    options.priority = wanted.priority;
    options.wait = wanted.wait;
    options.draft = wanted.draft;
    options.lora_rank = wanted.lora_rank;
    options.lora_targets = wanted.lora_targets;
    check(llm_api().session_open(model.get(), runtime.get(), &options, &handle_));
  }

  cugrt_llm_session_info info() const { return detail::got(llm_api().session_get_info, get()); }
  void clear() { check(llm_api().session_clear(get())); }

  /// Computes later tokens with the adapter; see session_set_adapter.
  void set_adapter(const LanguageAdapter &adapter, double scale = 1) {
    check(llm_api().session_set_adapter(get(), adapter.get(), scale));
  }
  void unset_adapter() { check(llm_api().session_set_adapter(get(), nullptr, 0)); }
  void drop_adapter(const LanguageAdapter &adapter) {
    check(llm_api().session_drop_adapter(get(), adapter.get()));
  }

  /// The following concern the session that runs the steps; see Session.
  cugrt_memory memory() const {
    return detail::got(api().session_get_memory, llm_api().session_steps(get()));
  }
  void evict() { check(api().session_evict(llm_api().session_steps(get()))); }
  bool is_resident() const {
    return detail::got(api().session_is_resident, llm_api().session_steps(get())) != 0;
  }

  /// `on_token` returns false to end the generation, and does not throw.
  cugrt_llm_generate_result
  generate(const GenerateOptions &wanted,
           const std::function<bool(int32_t, std::string_view)> &on_token = {}) {
    cugrt_llm_generate_options options = wanted.c_options();
    if (on_token) {
      options.user = const_cast<void *>(static_cast<const void *>(&on_token));
      options.on_token = [](void *user, int32_t token, const char *text, size_t size) -> int32_t {
        return !(*static_cast<const std::function<bool(int32_t, std::string_view)> *>(user))(
            token, std::string_view(text, size));
      };
    }
    return detail::got(llm_api().generate, get(), &options);
  }

  /// Takes an empty place for a sequence and returns its number.
  uint64_t add(const GenerateOptions &wanted) {
    const cugrt_llm_generate_options options = wanted.c_options();
    return detail::got(llm_api().sequence_add, get(), &options);
  }
  /// Takes an empty place meanwhile.
  LanguagePrompt make_prompt(const std::vector<int32_t> &tokens) {
    return LanguagePrompt(detail::got(llm_api().prompt_make, get(), tokens.data(), tokens.size()));
  }
  void cancel(uint64_t sequence) { check(llm_api().sequence_cancel(get(), sequence)); }
  bool is_running() const {
    const cugrt_llm_session_info known = info();
    return known.places_empty < known.places;
  }
  std::vector<LanguageEvent> step() {
    size_t count = 0;
    check(llm_api().session_step(get(), &count));
    std::vector<LanguageEvent> events;
    for (size_t i = 0; i < count; ++i) {
      auto event = detail::sized<cugrt_llm_event>();
      check(llm_api().session_get_event(get(), i, &event));
      events.push_back({event.sequence, event.token, static_cast<cugrt_llm_stop>(event.stop),
                        std::string(event.text, event.size_bytes), event.log_probability,
                        std::vector(event.likely, event.likely + event.likely_count)});
    }
    return events;
  }
};

} // namespace cugrt
