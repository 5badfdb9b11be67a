// What the commands on language models share: the table of libcugrt-llm and its handles.
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

/// Options of commands that take a GGUF file where others take a module.
struct LanguageOptions {
  std::string dtype = "f32", cache, loop = "host", draft = "none", lora;
  int64_t context = 0, places = 1;
  uint64_t prompt = 512, generate = 128;
};
void add_language_options(CLI::App &command, LanguageOptions &options);

/// Prefill and decode of a random prompt, as rows.
void bench_language_model(const std::string &path, const std::string &driver,
                          const LanguageOptions &options, bool json);

/// Of a random prompt, and of a token behind it, what the nodes of graphs take.
void bench_language_shares(const std::string &path, const std::string &driver,
                           const LanguageOptions &options, const struct ShareOptions &shown);

/// The module that a session would compile; `memory` is told what it would take.
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

/// "f32", "f16" or "bf16".
inline cugrt_dtype parse_dtype(const std::string &name) {
  return name == "f16" ? CUGRT_F16 : name == "bf16" ? CUGRT_BF16 : CUGRT_F32;
}

/// How tokens are drawn, and in what is computed.
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
  command.add_option("--dtype", options.dtype, "Of what is computed")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
}

/// Option --cache, and what it stands for.
inline void add_cache_option(CLI::App &command, std::string &cache) {
  command
      .add_option("--cache", cache,
                  "Of a GGUF file: what keys and values are cached in; default: as --dtype")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}));
}
inline int32_t parse_cache(const std::string &name) {
  return name.empty() ? CUGRT_BOOL : name == "q8_0" ? CUGRT_Q8_0 : parse_dtype(name);
}

/// "host" or "device".
inline cugrt_llm_loop parse_loop(const std::string &name) {
  return name == "device" ? CUGRT_LLM_LOOP_DEVICE : CUGRT_LLM_LOOP_HOST;
}

/// Option --draft, and what it stands for.
inline void add_draft_option(CLI::App &command, std::string &draft) {
  command
      .add_option("--draft", draft,
                  "Of a GGUF file: ngram gives several tokens a step where the text repeats what "
                  "it has; the text stays the same")
      ->check(CLI::IsMember({"none", "ngram"}));
}
inline cugrt_llm_draft parse_draft(const std::string &name) {
  return name == "ngram" ? CUGRT_LLM_DRAFT_NGRAM : CUGRT_LLM_DRAFT_NONE;
}

/// Option --lora.
inline void add_lora_option(CLI::App &command, std::string &lora) {
  command.add_option("--lora", lora,
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
