// Parts that the commands on language models share: the table of libcugrt-llm and its handles.
#pragma once

#include "tool.h"

#include <cugrt/llm.hpp>

namespace tool {

inline const cugrt_llm_api &llm() { return cugrt::llm_api(); }
using LlmModel = cugrt::detail::LlmHandle<cugrt_llm_model, &cugrt_llm_api::model_free>;
using LlmSession = cugrt::detail::LlmHandle<cugrt_llm_session, &cugrt_llm_api::session_free>;
using LlmAdapter = cugrt::detail::LlmHandle<cugrt_llm_adapter, &cugrt_llm_api::adapter_free>;

/// Whether the file begins as GGUF files do.
bool is_gguf(const std::string &path);

/// Options of opening a session of a language model.
struct LanguageOptions {
  LanguageOptions() { session.dtype = CUGRT_F32, session.places = 1; }
  cugrt_llm_session_options session = cugrt::detail::sized<cugrt_llm_session_options>();
  std::string lora;
  uint64_t prompt = 512, generate = 128; // tokens of a bench
};
/// Adds them to a command that takes a GGUF file in the place of a module.
void add_language_options(CLI::App &command, LanguageOptions &options);

/// Times prefill and decode of a random prompt, a row each.
void bench_language_model(const std::string &path, const cugrt::RuntimeOptions &device,
                          const LanguageOptions &options, bool json);

/// Times the graphs' nodes for a random prompt, and for a token behind it.
void bench_language_shares(const std::string &path, const cugrt::RuntimeOptions &device,
                           const LanguageOptions &options, const struct ShareOptions &shown);

/// The module that a session would compile; `memory` gets the memory that it would take.
cugrt::Module plan_language_model(const std::string &path, const LanguageOptions &options,
                                  cugrt_llm_memory &memory);

std::string memory_text(const cugrt_llm_memory &memory, int64_t places);
/// A report in JSON with a member more, "language_model".
std::string with_memory(const std::string &report, const cugrt_llm_memory &memory);

inline LlmModel open_model(const std::string &path) {
  cugrt_llm_model *model = nullptr;
  cugrt::check(llm().model_open(path.c_str(), &model));
  return LlmModel(model);
}

inline std::vector<int32_t> tokenize(const LlmModel &model, const std::string &text) {
  cugrt_llm_tokens *tokens = nullptr;
  cugrt::check(llm().tokenize(model.get(), text.data(), text.size(), &tokens));
  return cugrt::detail::take_tokens(tokens);
}

/// How tokens are drawn.
template <class Options> void add_sampling_options(CLI::App &command, Options &options) {
  command
      .add_option("--temperature", options.temperature,
                  "How freely tokens are drawn; 0: the most likely one is taken")
      ->check(refuse_negative);
  command.add_option("--top-k", options.top_k, "Draws from the K most likely ones; 0: from all")
      ->check(refuse_negative);
  command
      .add_option("--top-p", options.top_p,
                  "Draws from the fewest that have this probability together; 0: from all")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--seed", options.seed, "Of the draws");
}

/// --dtype, --cache, --context, --draft and --lora. `computed`, `context`: what the first and the
/// third one are.
inline void add_session_options(CLI::App &command, LanguageOptions &options,
                                const std::string &computed, const std::string &context) {
  Choices<int32_t> dtypes = {{"f32", CUGRT_F32}, {"f16", CUGRT_F16}, {"bf16", CUGRT_BF16}};
  add_choice(command, "--dtype", options.session.dtype, dtypes, computed);
  dtypes.emplace_back("q8_0", CUGRT_Q8_0);
  add_choice(command, "--cache", options.session.cache, dtypes,
             "Of a GGUF file: what keys and values are cached in; default: as --dtype");
  command.add_option("--context", options.session.context, context)->check(refuse_negative);
  add_choice(command, "--draft", options.session.draft,
             {{"none", CUGRT_LLM_DRAFT_NONE}, {"ngram", CUGRT_LLM_DRAFT_NGRAM}},
             "Of a GGUF file: ngram gives several tokens a step where the text repeats what it "
             "has; the text stays the same");
  command.add_option("--lora", options.lora,
                     "Of a GGUF file: an adapter as PEFT writes it, its folder or the file of "
                     "tensors in it");
}

/// The adapter, for which the session that is opened with `options` has room then; null where
/// `path` is "". It lives until that is open.
inline LlmAdapter open_adapter(const LlmModel &model, const std::string &path,
                               cugrt_llm_session_options &options) {
  if (path.empty())
    return LlmAdapter();
  cugrt_llm_adapter *opened = nullptr;
  cugrt::check(llm().adapter_open(model.get(), path.c_str(), &opened));
  LlmAdapter adapter(opened);
  auto info = cugrt::detail::sized<cugrt_llm_adapter_info>();
  cugrt::check(llm().adapter_get_info(opened, &info));
  options.lora_rank = info.rank;
  options.lora_targets = info.targets;
  return adapter;
}
/// A session with the adapter in use, if there is one.
inline LlmSession open_session(const LlmModel &model, cugrt::Runtime &runtime,
                               const cugrt_llm_session_options &options, const LlmAdapter &adapter,
                               double scale = 1) {
  cugrt_llm_session *opened = nullptr;
  cugrt::check(llm().session_open(model.get(), runtime.get(), &options, &opened));
  LlmSession session(opened);
  if (adapter)
    cugrt::check(llm().session_set_adapter(opened, adapter.get(), scale));
  return session;
}

} // namespace tool
