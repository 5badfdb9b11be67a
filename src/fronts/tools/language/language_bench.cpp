// GGUF files where other commands take modules: `cugrt bench MODEL.gguf`, `cugrt plan MODEL.gguf`.
#include "language_model.h"
#include "npy.h"
#include "shares.h"

#include "base/first_bytes.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <iostream>

namespace tool {

namespace {

struct Row {
  const char *name;
  uint64_t tokens;
  double seconds;
};

double rate(const Row &row) {
  return row.seconds > 0 ? static_cast<double>(row.tokens) / row.seconds : 0;
}

/// That holds what a bench gives, if none is asked for.
int64_t context_for(const LanguageOptions &options) {
  return options.session.context ? options.session.context
                                 : static_cast<int64_t>(options.prompt + 2 * options.generate + 2);
}

std::vector<int32_t> random_prompt(const LlmModel &model, uint64_t tokens) {
  auto about = cugrt::detail::sized<cugrt_llm_model_info>();
  cugrt::check(llm().model_get_info(model.get(), &about));
  std::vector<int32_t> prompt;
  for (uint64_t i = 0; i < tokens; ++i)
    prompt.push_back(static_cast<int32_t>(i * 7919 % static_cast<uint64_t>(about.vocabulary)));
  return prompt;
}

/// Runs one sequence, prompt and answer, and hands over what each step's graphs took.
void run_sequence(cugrt_llm_session *session, const std::vector<int32_t> &prompt, uint64_t tokens,
                  NodeReader &reader,
                  const std::function<void(std::span<const TimedGraph>)> &visit) {
  auto wanted = cugrt::detail::sized<cugrt_llm_generate_options>();
  wanted.prompt = prompt.data();
  wanted.prompt_count = prompt.size();
  wanted.max_tokens = tokens;
  uint64_t sequence = 0;
  cugrt::check(llm().sequence_add(session, &wanted, &sequence));
  cugrt_session *const steps = llm().session_steps(session);
  for (bool ended = false; !ended;) {
    size_t count = 0;
    cugrt::check(llm().session_step(session, &count));
    cugrt::check(cugrt::api().session_synchronize(steps));
    visit(reader.read(steps));
    for (size_t i = 0; i < count; ++i) {
      auto event = cugrt::detail::sized<cugrt_llm_event>();
      cugrt::check(llm().session_get_event(session, i, &event));
      ended = ended || event.stop != CUGRT_LLM_STOP_NOT;
    }
  }
}

} // namespace

bool is_gguf(const std::string &path) {
  return path != "-" && cugrt::first_bytes(path).starts_with("GGUF");
}

void add_language_options(CLI::App &command, LanguageOptions &options) {
  add_session_options(command, options, "Of a GGUF file: what is computed in",
                      "Of a GGUF file: positions that the caches hold; default: as it was trained");
  command.add_option("--places", options.session.places, "Of a GGUF file: sequences at once")
      ->check(CLI::Range(1, 1024));
  add_choice(command, "--loop", options.session.loop,
             {{"host", CUGRT_LLM_LOOP_HOST}, {"device", CUGRT_LLM_LOOP_DEVICE}},
             "Of a GGUF file: who goes from one token to the next; the device from driver 12.3 on");
}

void bench_language_model(const std::string &path, const cugrt::RuntimeOptions &device,
                          const LanguageOptions &options, bool json) {
  const LlmModel model = open_model(path);
  auto about = cugrt::detail::sized<cugrt_llm_model_info>();
  cugrt::check(llm().model_get_info(model.get(), &about));
  cugrt::Runtime runtime = open_runtime(device);
  cugrt_llm_session_options opening = options.session;
  opening.context = context_for(options);
  const LlmAdapter adapter = open_adapter(model, options.lora, opening);
  const LlmSession session = open_session(model, runtime, opening, adapter);

  std::vector<int32_t> prompt = random_prompt(model, options.prompt);
  const auto generate = [&](uint64_t tokens) {
    auto wanted = cugrt::detail::sized<cugrt_llm_generate_options>();
    wanted.prompt = prompt.data();
    wanted.prompt_count = prompt.size();
    wanted.max_tokens = tokens;
    auto result = cugrt::detail::sized<cugrt_llm_generate_result>();
    cugrt::check(llm().generate(session.get(), &wanted, &result));
    return result;
  };
  generate(2); // instances are built
  cugrt::check(llm().session_clear(session.get()));
  const cugrt_llm_generate_result first = generate(options.generate);
  Row decode{"decode", first.tokens - 1, first.seconds};
  const Row prefill{"prefill", options.prompt, first.prompt_seconds};
  // A text that ends early is gone on from.
  for (uint64_t left = options.generate - first.tokens; left > 0;) {
    prompt.assign(1, 0);
    const cugrt_llm_generate_result more = generate(left);
    decode.tokens += more.tokens;
    decode.seconds += more.prompt_seconds + more.seconds;
    left -= std::min(left, more.tokens + 1);
    if (more.stop == CUGRT_LLM_STOP_CONTEXT)
      break;
  }

  auto info = cugrt::detail::sized<cugrt_llm_session_info>();
  cugrt::check(llm().session_get_info(session.get(), &info));
  const cugrt_runtime_info runs_on = runtime.info();
  const std::string name = runs_on.emulated ? "EMULATED" : runs_on.device_name;
  if (json) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Row &row : {prefill, decode})
      rows.push_back({{"bench", "language_model"},
                      {"case", row.name},
                      {"tokens", row.tokens},
                      {"seconds", row.seconds},
                      {"tokens_per_s", rate(row)},
                      {"dtype", dtype_name(opening.dtype)},
                      {"cache", dtype_name(opening.cache ? opening.cache : opening.dtype)},
                      {"loop", info.loop == CUGRT_LLM_LOOP_DEVICE ? "device" : "host"},
                      {"draft", opening.draft == CUGRT_LLM_DRAFT_NGRAM ? "ngram" : "none"},
                      {"decode_nodes", info.decode_nodes},
                      {"weight_bytes", info.weight_bytes},
                      {"cache_bytes", info.cache_bytes},
                      {"arena_bytes", info.arena_bytes},
                      {"driver", name}});
    std::cout << rows.dump(1) << "\n";
    return;
  }
  std::printf("%s on %s, %s\n%-8s %8s %10s %14s\n", about.architecture, name.c_str(),
              dtype_name(opening.dtype), "case", "tokens", "seconds", "tokens a second");
  for (const Row &row : {prefill, decode})
    std::printf("%-8s %8llu %10.2f %14.2f\n", row.name, static_cast<unsigned long long>(row.tokens),
                row.seconds, rate(row));
}

void bench_language_shares(const std::string &path, const cugrt::RuntimeOptions &device,
                           const LanguageOptions &options, const ShareOptions &shown) {
  auto memory = cugrt::detail::sized<cugrt_llm_memory>();
  LanguageOptions planned = options;
  planned.session.context = context_for(options);
  const cugrt::Module module = plan_language_model(path, planned, memory);
  const LlmModel model = open_model(path);
  cugrt::Runtime runtime = open_runtime(device);
  cugrt_llm_session_options opening = planned.session;
  const LlmAdapter adapter = open_adapter(model, options.lora, opening);
  std::string reason;
  NodeReader reader(names_of_language_model(module, path),
                    Cupti::open(runtime.info().emulated, reason));
  const std::vector<int32_t> prompt = random_prompt(model, options.prompt);
  const auto open = [&] { // and builds the instances
    opening.time_steps = reader.by_events() ? 2 : 1;
    LlmSession session = open_session(model, runtime, opening, adapter);
    bool found = true;
    reader.restart();
    run_sequence(session.get(), prompt, 3, reader,
                 [&](std::span<const TimedGraph>) { found = found && reader.found_all(); });
    if (!found && !reader.by_events()) {
      reason = reader.use_events();
      session = LlmSession();
    }
    return session;
  };
  LlmSession session = open();
  if (!session)
    session = open();
  if (reader.by_events())
    std::fprintf(stderr, "cugrt: nodes are timed by events, not by CUPTI: %s\n", reason.c_str());
  Shares prefill, decode;
  std::vector<std::vector<TimedGraph>> steps; // of the answer
  run_sequence(session.get(), prompt, options.generate, reader,
               [&](std::span<const TimedGraph> graphs) {
                 std::vector<TimedGraph> step;
                 for (const TimedGraph &graph : graphs)
                   if (graph.function.starts_with("decode"))
                     step.push_back(graph);
                   else
                     prefill.add({&graph, 1}, shown.by, 1, true);
                 if (!step.empty())
                   steps.push_back(std::move(step));
               });
  for (size_t i = 0; i < steps.size(); ++i)
    decode.add(steps[i], shown.by, static_cast<unsigned>(steps.size()), i == 0);
  ShareTables tables(runtime, shown);
  tables.add("prefill of " + std::to_string(options.prompt), prefill, reader.by());
  if (!steps.empty())
    tables.add("decode", decode, reader.by());
  tables.finish();
}

cugrt::Module plan_language_model(const std::string &path, const LanguageOptions &options,
                                  cugrt_llm_memory &memory) {
  const LlmModel model = open_model(path);
  cugrt_llm_session_options opening = options.session;
  const LlmAdapter adapter = open_adapter(model, options.lora, opening);
  cugrt_module *module = nullptr;
  memory = cugrt::detail::sized<cugrt_llm_memory>();
  cugrt::check(llm().model_plan(model.get(), &opening, &memory, &module));
  return cugrt::Module(module);
}

std::string memory_text(const cugrt_llm_memory &memory, int64_t places) {
  std::array<char, 64> adapters{};
  if (memory.adapter_bytes > 0)
    std::snprintf(adapters.data(), adapters.size(), "adapters %.1f MB each, ",
                  double(memory.adapter_bytes) / 1e6);
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(),
                "weights %.1f MB, tables of positions %.1f MB, %scaches %.1f MB: %lld positions of "
                "%lld %s\n\n",
                double(memory.weight_bytes) / 1e6, double(memory.table_bytes) / 1e6,
                adapters.data(), double(memory.cache_bytes) / 1e6,
                static_cast<long long>(memory.context), static_cast<long long>(places),
                places == 1 ? "sequence" : "sequences");
  return text.data();
}

std::string with_memory(const std::string &report, const cugrt_llm_memory &memory) {
  nlohmann::ordered_json object = nlohmann::ordered_json::parse(report);
  object["language_model"] = {{"context", memory.context},
                              {"weight_bytes", memory.weight_bytes},
                              {"table_bytes", memory.table_bytes},
                              {"adapter_bytes", memory.adapter_bytes},
                              {"cache_bytes", memory.cache_bytes}};
  return object.dump();
}

} // namespace tool
