// The C++ API of language models: a batch, a generation, and what is refused.
#include "support/api_fixture.h"
#include "support/small_language_model.h"
#include "support/temporary_folder.h"

#include <cugrt/llm.hpp>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sys/resource.h>

using namespace cugrt;
using namespace cugrt::test;

TEST_CASE("a batch steps several sequences, whose tokens are those of each generated alone") {
  TemporaryFolder folder;
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  LanguageSession session(model, emulated_runtime(), {.places = 2});
  const std::vector<GenerateOptions> wanted = {
      {.prompt = model.tokenize("ABCDEFG"), .max_tokens = 5},
      {.prompt = model.tokenize("HI"), .max_tokens = 7, .temperature = 1.5, .seed = 3}};
  std::vector<std::vector<int32_t>> alone;
  std::string text;
  for (const GenerateOptions &one : wanted) {
    std::vector<int32_t> tokens;
    const auto result = session.generate(one, [&](int32_t token, std::string_view part) {
      tokens.push_back(token);
      text += part;
      return true;
    });
    CHECK(result.stop == CUGRT_LLM_STOP_LENGTH);
    CHECK(result.tokens == one.max_tokens);
    alone.push_back(tokens);
    session.clear();
  }
  CHECK(text.size() == 12); // a letter a token

  const uint64_t first = session.add(wanted[0]), second = session.add(wanted[1]);
  CHECK(session.is_running());
  CHECK(session.info().places == 2);
  CHECK(session.info().places_empty == 0);
  CHECK(error_of([&] { session.add(wanted[0]); }).code() == CUGRT_BUSY);
  CHECK(error_of([&] { session.generate(wanted[0]); }).code() == CUGRT_BUSY);
  std::map<uint64_t, std::vector<int32_t>> tokens;
  std::map<uint64_t, cugrt_llm_stop> stops;
  while (session.is_running())
    for (const LanguageEvent &event : session.step()) {
      tokens[event.sequence].push_back(event.token);
      CHECK(event.text == std::string(1, static_cast<char>('A' + event.token)));
      stops[event.sequence] = event.stop;
    }
  CHECK(tokens[first] == alone[0]);
  CHECK(tokens[second] == alone[1]);
  CHECK(stops[first] == CUGRT_LLM_STOP_LENGTH);
  CHECK(session.step().empty());

  const uint64_t third = session.add(wanted[0]);
  CHECK(third > second);
  session.cancel(third);
  CHECK(!session.is_running());
  CHECK(error_of([&] { session.cancel(third); }).code() == CUGRT_NOT_FOUND);
}

TEST_CASE(
    "a loop on the device gives the host's tokens, to sequences that join and are cancelled") {
  TemporaryFolder folder;
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  const GenerateOptions first = {.prompt = model.tokenize("ABCDEFG"), .max_tokens = 12},
                        second = {.prompt = model.tokenize("HI"), .temperature = 1.5, .seed = 3};
  std::vector<std::vector<int32_t>> given;
  for (const cugrt_llm_loop loop : {CUGRT_LLM_LOOP_HOST, CUGRT_LLM_LOOP_DEVICE}) {
    LanguageSession session(model, emulated_runtime(), {.places = 2, .loop = loop});
    CHECK(session.info().loop == loop);
    std::map<uint64_t, std::vector<int32_t>> tokens;
    const auto step = [&] {
      for (const LanguageEvent &event : session.step())
        tokens[event.sequence].push_back(event.token);
    };
    const uint64_t cancelled = session.add(second);
    while (tokens[cancelled].size() < 3)
      step();
    const uint64_t joins = session.add(first);
    while (tokens[cancelled].size() < 6)
      step();
    session.cancel(cancelled);
    const uint64_t last = session.add(first);
    while (session.is_running())
      step();
    CHECK(tokens[joins].size() == 12);
    CHECK(tokens[last] == tokens[joins]);
    given.insert(given.end(), {tokens[cancelled], tokens[joins]});
  }
  CHECK(given[2] == given[0]);
  CHECK(given[3] == given[1]);
  CHECK(std::string(error_of([&] {
                      LanguageSession(model, emulated_runtime(),
                                      {.loop = static_cast<cugrt_llm_loop>(3)});
                    }).what()) == "loop is a cugrt_llm_loop");
  CHECK(std::string(error_of([&] {
                      LanguageSession(model, emulated_runtime(), {.cache = CUGRT_I8});
                    }).what()) == "the cache's dtype is f32, f16, bf16 or q8_0");
  const uint64_t bytes =
      LanguageSession(model, emulated_runtime(), {.context = 64}).info().cache_bytes;
  CHECK(LanguageSession(model, emulated_runtime(), {.context = 64, .cache = CUGRT_F16})
            .info()
            .cache_bytes == bytes / 2);
}

TEST_CASE("what a session or a sequence cannot have is refused") {
  TemporaryFolder folder;
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  const auto what = [&](const LanguageSessionOptions &options) {
    return std::string(
        error_of([&] { LanguageSession(model, emulated_runtime(), options); }).what());
  };
  CHECK(what({.places = 1025}) == "a session has from 1 to 1024 places");
  CHECK(what({.places = -1}) == "a session has from 1 to 1024 places");
  LanguageSession session(model, emulated_runtime(), {.context = 8});
  CHECK(error_of([&] { session.add({.prompt = {}}); }).code() == CUGRT_INVALID_ARGUMENT);
  CHECK(error_of([&] { session.add({.prompt = {40}}); }).code() == CUGRT_OUT_OF_RANGE);
  CHECK(error_of([&] { session.add({.prompt = std::vector<int32_t>(9)}); }).code() ==
        CUGRT_OUT_OF_RANGE);
  CHECK(error_of([&] { session.add({.prompt = {1}, .temperature = -1}); }).code() ==
        CUGRT_INVALID_ARGUMENT);
  auto event = CUGRT_INIT(cugrt_llm_event);
  cugrt_status *const status = llm_api().session_get_event(session.get(), 0, &event);
  CHECK(api().status_code(status) == CUGRT_OUT_OF_RANGE);
  api().status_free(status);
}

TEST_CASE("a prompt that is kept, in memory or a file, is gone on from as if it were computed") {
  TemporaryFolder folder, folder_of_other;
  const std::string path = folder.path + "/prompt.kv";
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  LanguageSession session(model, emulated_runtime(), {.places = 2});
  const std::vector<int32_t> first = model.tokenize("ABCABCDEFGHIJ"), rest = model.tokenize("XYZ");
  std::vector<int32_t> whole = first;
  whole.insert(whole.end(), rest.begin(), rest.end());
  // Penalties count the prefix's tokens too.
  const GenerateOptions wanted = {.prompt = whole, .max_tokens = 6, .repetition_penalty = 1.4};
  const auto tokens_of = [](LanguageSession &from, const GenerateOptions &options) {
    std::vector<int32_t> tokens;
    from.generate(options, [&](int32_t token, std::string_view) {
      tokens.push_back(token);
      return true;
    });
    from.clear();
    return tokens;
  };
  const std::vector<int32_t> alone = tokens_of(session, wanted);

  session.make_prompt(first).write(path);
  const LanguagePrompt kept = LanguagePrompt::read(path);
  CHECK(kept.tokens() == first);
  GenerateOptions behind = wanted;
  behind.prompt = rest;
  behind.prefix = &kept;
  CHECK(tokens_of(session, behind) == alone);
  std::map<uint64_t, std::vector<int32_t>> tokens;
  const uint64_t a = session.add(behind), b = session.add(behind);
  while (session.is_running())
    for (const LanguageEvent &event : session.step())
      tokens[event.sequence].push_back(event.token);
  CHECK(tokens[a] == alone);
  CHECK(tokens[b] == alone);
  LanguageSession longer(model, emulated_runtime(), {.context = 64});
  CHECK(tokens_of(longer, behind) == alone);

  LanguageSession half(model, emulated_runtime(), {.dtype = CUGRT_F16});
  CHECK(std::string(error_of([&] { half.add(behind); }).what()) ==
        "the prompt's caches are of another dtype");
  SmallLanguageModel another;
  another.inner = 64;
  const LanguageModel other(another.write(folder_of_other.path));
  LanguageSession of_other(other, emulated_runtime());
  CHECK(std::string(error_of([&] { of_other.add(behind); }).what()) ==
        "the prompt's caches are another model's, or another adapter's");
  LanguageSession shorter(model, emulated_runtime(), {.context = 15});
  CHECK(error_of([&] { shorter.add(behind); }).code() == CUGRT_OUT_OF_RANGE);
  session.generate({.prompt = rest, .max_tokens = 1});
  CHECK(error_of([&] { session.generate(behind); }).code() == CUGRT_INVALID_ARGUMENT);
}

TEST_CASE("a prompt's file that is not whole is refused, and one that cannot be written leaves "
          "what was") {
  TemporaryFolder folder;
  const std::string path = folder.path + "/prompt.kv";
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  LanguageSession session(model, emulated_runtime());
  const LanguagePrompt prompt = session.make_prompt({1, 2, 3});
  prompt.write(path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto error_with = [&](const std::string &changed) {
    std::ofstream(path, std::ios::binary) << changed;
    return std::string(error_of([&] { LanguagePrompt::read(path); }).what());
  };
  for (const size_t size : {size_t(0), size_t(5), size_t(20), bytes.size() / 2, bytes.size() - 1})
    CHECK(error_with(bytes.substr(0, size)).find("'" + path + "' is no prompt cache: ") == 0);
  for (size_t i = 0; i < bytes.size(); i += 97) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    CHECK(error_with(changed).find("'" + path + "' is no prompt cache: ") == 0);
  }
  CHECK(error_of([&] { LanguagePrompt::read(folder.path + "/none"); }).code() == CUGRT_NOT_FOUND);
  CHECK(error_of([&] { prompt.write(folder.path + "/no/folder"); }).code() == CUGRT_NOT_FOUND);
  CHECK(error_of([&] { session.make_prompt({}); }).code() == CUGRT_INVALID_ARGUMENT);
}

TEST_CASE("a disk that fills up while a prompt is written is told in one sentence, and nothing is "
          "lost") {
  TemporaryFolder folder;
  const std::string path = folder.path + "/prompt.kv", device = folder.path + "/full";
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  LanguageSession session(model, emulated_runtime());
  const LanguagePrompt prompt = session.make_prompt({1, 2, 3}),
                       longer = session.make_prompt({4, 5, 6, 7});
  prompt.write(path);
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder.path))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  };
  CHECK(files() == std::vector<std::string>{"m.gguf", "prompt.kv"});

  // A limit on the size of files stops a write in the middle, as a full disk does.
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit limited = before;
  limited.rlim_cur = 1000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limited) == 0);
  const std::string what = error_of([&] { longer.write(path); }).what();
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(what == "cannot write '" + path + "': File too large");
  CHECK(files() == std::vector<std::string>{"m.gguf", "prompt.kv"});
  CHECK(LanguagePrompt::read(path).tokens() == prompt.tokens());

  std::filesystem::create_symlink("/dev/full", device);
  CHECK(std::string(error_of([&] { longer.write(device); }).what()) ==
        "cannot write '" + device + "': not a regular file");
  longer.write(path); // the prompt itself is as it was
  CHECK(LanguagePrompt::read(path).tokens() == longer.tokens());
}

TEST_CASE("an adapter goes over the C++ API: opened, set, scaled, dropped, and refused") {
  TemporaryFolder folder;
  std::ofstream(folder.path + "/adapter_config.json")
      << R"({"peft_type": "LORA", "r": 1, "lora_alpha": 4})";
  const std::vector<float> ones(32, 1);
  Weights tensors;
  const std::string name = "base_model.model.lm_head.lora_";
  tensors.add((name + "A.weight").c_str(), ones.data(), CUGRT_F32, std::vector<int64_t>{1, 32});
  std::vector<float> b(40);
  b[7] = 1;
  tensors.add((name + "B.weight").c_str(), b.data(), CUGRT_F32, std::vector<int64_t>{40, 1});
  tensors.save(folder.path + "/adapter_model.safetensors");
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  const LanguageAdapter adapter(model, folder.path);
  CHECK(adapter.info().rank == 1);
  CHECK(std::string(adapter.info().targets) == "lm_head");

  LanguageSession session(model, emulated_runtime(),
                          {.lora_rank = 1, .lora_targets = adapter.info().targets});
  CHECK(session.info().lora_rank == 8);
  const auto log_probability = [&] {
    const uint64_t sequence =
        session.add({.prompt = {1}, .max_tokens = 1, .log_probabilities = 41});
    CHECK(error_of([&] { session.set_adapter(adapter); }).code() == CUGRT_BUSY);
    std::vector<double> all(40);
    const std::vector<LanguageEvent> events = session.step();
    for (const cugrt_llm_likely &one : events.at(0).likely)
      all[size_t(one.token)] = double(one.log_probability);
    CHECK(sequence > 0);
    return all[7] - all[8];
  };
  const double without = log_probability();
  session.set_adapter(adapter);
  const double with = log_probability();
  CHECK(std::abs(with - without) > 1e-3); // 4 times the sum of the last row, at token 7 alone
  session.set_adapter(adapter, -2);
  CHECK(std::abs(log_probability() - (without - 2 * (with - without))) < 1e-3);
  CHECK(error_of([&] { session.drop_adapter(adapter); }).code() == CUGRT_BUSY);
  session.unset_adapter();
  CHECK(log_probability() == without);
  session.drop_adapter(adapter);

  const auto refusal = [&](const LanguageSessionOptions &options) {
    return std::string(
        error_of([&] { LanguageSession(model, emulated_runtime(), options); }).what());
  };
  CHECK(refusal({.lora_rank = 513}) == "lora_rank is from 0 to 512");
  CHECK(refusal({.lora_rank = -1}) == "lora_rank is from 0 to 512");
  CHECK(refusal({.lora_targets = "q_proj,x"}) ==
        "'x' is no target of adapters; targets are "
        "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj,embed_tokens,lm_head");
  LanguageSession narrow(model, emulated_runtime(), {.lora_rank = 1});
  CHECK(std::string(error_of([&] { narrow.set_adapter(adapter); }).what())
            .find("adds to 'lm_head', which the session's lora_targets do not have") !=
        std::string::npos);
}
