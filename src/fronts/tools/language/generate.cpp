// cugrt generate: goes on from a prompt, token by token.
#include "language_model.h"

#include <nlohmann/json.hpp>

#include <bit>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>

namespace tool {

namespace {

struct GenerateOptions {
  std::string model, prompt, file, pack;
  cugrt::RuntimeOptions runtime;
  LanguageOptions language;
  std::vector<std::string> stops;
  uint64_t max_tokens = 128, seed = 0;
  int64_t top_k = 0;
  double temperature = 0, top_p = 0, min_p = 0, repetition_penalty = 1, frequency_penalty = 0;
  double lora_scale = 1;
  bool json = false, chat = false, stats = false;
};

/// The least power of two that holds prompt and answer, from 256 on, up to the trained context; 0
/// (the model decides) if the answer's length is open.
int64_t context_for(const LlmModel &model, size_t prompt, uint64_t max_tokens) {
  auto info = cugrt::detail::sized<cugrt_llm_model_info>();
  cugrt::check(llm().model_get_info(model.get(), &info));
  const auto trained = static_cast<uint64_t>(info.trained_context);
  if (max_tokens == 0 || max_tokens > trained || prompt > trained - max_tokens)
    return 0;
  return static_cast<int64_t>(
      std::min(trained, std::bit_ceil(std::max<uint64_t>(prompt + max_tokens, 256))));
}

/// The answer's text as it comes, up to the first text that stops it; holds back text that may
/// become one of these.
struct Answer {
  const std::vector<std::string> &stops;
  const bool as_json;
  std::vector<int32_t> ids{};
  std::string text{}, held{};
  bool has_stopped = false;

  static int32_t take(void *user, int32_t token, const char *text, size_t size_bytes) {
    auto &answer = *static_cast<Answer *>(user);
    answer.ids.push_back(token);
    answer.held.append(text, size_bytes);
    size_t first = answer.held.npos;
    for (const std::string &stop : answer.stops)
      first = std::min(first, answer.held.find(stop));
    answer.has_stopped = first != answer.held.npos;
    answer.give(answer.has_stopped ? first : answer.held.size() - answer.begun());
    return answer.has_stopped || !std::cout; // or nobody reads on
  }

  /// Gives the text that is still held back at the end.
  void finish() {
    if (!has_stopped)
      give(held.size());
  }

private:
  /// The longest end of the held text that begins one of the stops.
  size_t begun() const {
    size_t longest = 0;
    for (const std::string &stop : stops)
      for (size_t size = std::min(stop.size(), held.size()); size > longest; --size)
        if (std::string_view(held).ends_with(std::string_view(stop).substr(0, size)))
          longest = size;
    return longest;
  }
  void give(size_t size) {
    text.append(held, 0, size);
    if (!as_json)
      std::cout.write(held.data(), static_cast<std::streamsize>(size)).flush();
    held.erase(0, size);
  }
};

double accepted_per_verification(const cugrt_llm_session_info &info) {
  return info.verifications > 0
             ? static_cast<double>(info.accepted) / static_cast<double>(info.verifications)
             : 0;
}

void print_json(const std::vector<int32_t> &prompt, const Answer &answer,
                const cugrt_llm_generate_result &result, const cugrt_llm_session_info &info,
                const char *driver) {
  static constexpr const char *kStops[] = {"end", "length", "context", "caller"};
  const double further = static_cast<double>(result.tokens) - 1;
  const nlohmann::ordered_json object = {
      {"prompt_ids", prompt},
      {"ids", answer.ids},
      {"text", answer.text},
      {"stop", answer.has_stopped ? "text" : kStops[result.stop]},
      {"tokens_per_s", result.seconds > 0 ? further / result.seconds : 0},
      {"prompt_s", result.prompt_seconds},
      {"driver", driver},
      {"decode_nodes", info.decode_nodes},
      {"draft", info.draft == CUGRT_LLM_DRAFT_NGRAM ? "ngram" : "none"},
      {"verifications", info.verifications},
      {"accepted", info.accepted},
      {"accepted_per_verification", accepted_per_verification(info)},
      {"context", info.context},
      {"weight_bytes", info.weight_bytes},
      {"cache_bytes", info.cache_bytes},
      {"arena_bytes", info.arena_bytes},
      {"instances_built", info.instances_built},
      {"fields_patched", info.fields_patched}};
  std::cout << object.dump() << "\n";
}

void print_stats(const cugrt_llm_generate_result &result, const cugrt_llm_session_info &info) {
  const double further = static_cast<double>(result.tokens) - 1;
  std::fprintf(
      stderr,
      "%llu tokens, the first after %.1f s, then %.2f a second; a step has %llu nodes; "
      "%llu instances built, %llu fields patched; weights %.1f MB, caches %.1f MB for %lld "
      "positions, arena %.2f MB\n",
      static_cast<unsigned long long>(result.tokens), result.prompt_seconds,
      result.seconds > 0 ? further / result.seconds : 0,
      static_cast<unsigned long long>(info.decode_nodes),
      static_cast<unsigned long long>(info.instances_built),
      static_cast<unsigned long long>(info.fields_patched),
      static_cast<double>(info.weight_bytes) / 1e6, static_cast<double>(info.cache_bytes) / 1e6,
      static_cast<long long>(info.context), static_cast<double>(info.arena_bytes) / 1e6);
  if (info.draft == CUGRT_LLM_DRAFT_NGRAM)
    std::fprintf(stderr, "%llu verifications, each accepted %.2f drafted tokens\n",
                 static_cast<unsigned long long>(info.verifications),
                 accepted_per_verification(info));
}

std::string read_text(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::istream &from = path == "-" ? std::cin : file;
  std::string text(std::istreambuf_iterator<char>(from), {});
  if (path != "-" && !file)
    throw UserError("cannot read '" + path + "'");
  return text;
}

/// The tokens to go on from; of a chat also the one that ends the answer.
std::vector<int32_t> prompt_of(const GenerateOptions &options, const LlmModel &model,
                               std::optional<int32_t> &end) {
  const std::string text = options.file.empty() ? options.prompt : read_text(options.file);
  if (!options.chat)
    return tokenize(model, text);
  const cugrt_llm_message message = {"user", text.c_str()};
  cugrt_llm_tokens *tokens = nullptr;
  cugrt::check(llm().tokenize_chat(model.get(), &message, 1, &tokens, &end.emplace()));
  return cugrt::detail::take_tokens(tokens);
}

void run_generate(const GenerateOptions &options) {
  const LlmModel model = open_model(options.model);
  std::optional<int32_t> end;
  const std::vector<int32_t> prompt = prompt_of(options, model, end);
  if (prompt.empty())
    throw UserError("the prompt is empty: there is nothing to go on from");
  cugrt::Runtime runtime = open_runtime(options.runtime);
  cugrt_llm_session_options opening = options.language.session;
  if (!opening.context)
    opening.context = context_for(model, prompt.size(), options.max_tokens);
  opening.pack = options.pack.empty() ? nullptr : options.pack.c_str();
  const LlmAdapter adapter = open_adapter(model, options.language.lora, opening);
  const LlmSession session = open_session(model, runtime, opening, adapter, options.lora_scale);

  const cugrt_runtime_info device = runtime.info();
  if (device.emulated)
    std::cerr << "EMULATED text:\n";
  Answer answer{options.stops, options.json};
  auto wanted = cugrt::detail::sized<cugrt_llm_generate_options>();
  wanted.prompt = prompt.data();
  wanted.prompt_count = prompt.size();
  wanted.max_tokens = options.max_tokens;
  wanted.temperature = options.temperature;
  wanted.top_k = options.top_k;
  wanted.top_p = options.top_p;
  wanted.min_p = options.min_p;
  wanted.repetition_penalty = options.repetition_penalty;
  wanted.frequency_penalty = options.frequency_penalty;
  wanted.seed = options.seed;
  wanted.ends = end ? &*end : nullptr;
  wanted.end_count = end.value_or(-1) >= 0;
  wanted.on_token = Answer::take;
  wanted.user = &answer;
  auto result = cugrt::detail::sized<cugrt_llm_generate_result>();
  const LoadCount loads(runtime, options.stats);
  cugrt::check(llm().generate(session.get(), &wanted, &result));
  answer.finish();
  auto info = cugrt::detail::sized<cugrt_llm_session_info>();
  cugrt::check(llm().session_get_info(session.get(), &info));
  if (options.json)
    print_json(prompt, answer, result, info, device.emulated ? "EMULATED" : device.device_name);
  else
    std::cout << std::endl;
  if (options.stats)
    print_stats(result, info);
  loads.print();
}

} // namespace

void add_generate(CLI::App &app) {
  auto options = std::make_shared<GenerateOptions>();
  CLI::App *command =
      app.add_subcommand("generate", "Goes on from a prompt, and prints the text as it comes");
  command->add_option("MODEL", options->model, "A GGUF file; of several parts the first")
      ->required();
  CLI::Option_group *const prompt = command->add_option_group("Prompt");
  prompt->add_option("--prompt", options->prompt, "The text to go on from");
  prompt->add_option("--file", options->file, "A file with the text; - is standard input");
  prompt->require_option(1);
  repeatable(command->add_option("--stop", options->stops,
                                 "Text that ends the answer, and is no part of it"))
      ->check([](const std::string &text) { return text.empty() ? "TEXT is empty" : ""; }, "TEXT");
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "How many tokens at most; 0: until the model ends")
      ->check(refuse_negative);
  add_sampling_options(*command, *options);
  command
      ->add_option("--min-p", options->min_p,
                   "Draws from those that have this much of the most likely one's probability")
      ->check(CLI::Range(0.0, 1.0));
  command
      ->add_option("--repetition-penalty", options->repetition_penalty,
                   "Divides the logits of tokens that came before; 1: none")
      ->check(CLI::PositiveNumber);
  command->add_option("--frequency-penalty", options->frequency_penalty,
                      "Taken from a token's logit as often as it was given; 0: none");
  add_session_options(*command, options->language, "Of what is computed",
                      "Positions that the caches hold; default: what prompt and answer need");
  command->add_option("--lora-scale", options->lora_scale,
                      "What the adapter's products are multiplied by; 0: it adds nothing");
  command->add_option("--pack", options->pack,
                      "What 'cugrt compile' made of MODEL: no compiler is needed, and dtypes, "
                      "context and draft are the pack's");
  add_driver_option(*command, options->runtime);
  command->add_flag("--chat", options->chat,
                    "The prompt is what a user says: the model's chat template goes around it");
  command->add_flag("--stats", options->stats, "Speed, nodes, instances and memory, on stderr");
  command->add_flag("--json", options->json, "One JSON object with tokens, text and figures");
  command->callback([options] { run_generate(*options); });
}

} // namespace tool
