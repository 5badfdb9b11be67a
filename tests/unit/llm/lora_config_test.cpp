// What adapter_config.json says, by the rules of PEFT, and patterns by those of Python's re.
#include "fronts/llm/adapters/lora_config.h"
#include "support/catch.h"

#include <cmath>

using namespace cugrt;
using namespace cugrt::llm;

namespace {

std::string refusal(const std::string &json) {
  const auto config = LoraConfig::parse(json, "c.json");
  return config.ok() ? "" : config.status().message();
}

std::string with(const std::string &key) {
  return R"({"peft_type": "LORA", "r": 8, "lora_alpha": 16, )" + key + "}";
}

} // namespace

TEST_CASE("patterns match the end of a module's path, as Python's re does") {
  struct Case {
    const char *pattern, *path;
    bool matches; // re.match(rf"(.*\.)?({pattern})$", path)
  };
  for (const auto &[pattern, path, matches] :
       {Case{"q_proj", "model.layers.0.self_attn.q_proj", true},
        {"proj", "model.layers.0.self_attn.q_proj", false},
        {"self_attn.q_proj", "model.layers.0.self_attn.q_proj", true},
        {"layers\\.1.*q_proj", "model.layers.1.self_attn.q_proj", true},
        {"layers\\.1.*q_proj", "model.layers.11.self_attn.q_proj", true},
        {"layers\\.1\\..*q_proj", "model.layers.11.self_attn.q_proj", false},
        {"^model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj", true},
        {"^layers.0.self_attn.q_proj", "model.layers.0.self_attn.q_proj", false},
        {"q_proj$", "a.q_proj", true},
        {"q_proj|k_proj", "a.k_proj", true},
        {"(q|k|v)_proj", "a.v_proj", true},
        {"(?:q|k)_proj", "a.v_proj", false},
        {"[qk]_proj", "a.k_proj", true},
        {"[^qk]_proj", "a.k_proj", false},
        {"[a-f]+", "a.fed", true},
        {"[a-f]+", "a.feg", false},
        {"layers\\.\\d+\\.q", "layers.17.q", true},
        {"layers\\.\\d+\\.q", "layers.x.q", false},
        {"l\\d{2}", "l12", true},
        {"l\\d{2}", "l1", false},
        {"l\\d{1,2}", "l123", false},
        {"l\\d{2,}", "l123", true},
        {"ab?c", "ac", true},
        {"a*", "b.aaa", true},
        {"a*", "", true},
        {"(a|ab)(c|bcd)", "abcd", true},
        {"a.c", "a.c", true},
        {"\\w+_\\w+", "x.q_proj", true},
        {"\\W", "x.q", false},
        {"", "x.", true},
        {"", "x", false},
        {"-", "x.-", true},
        {"[-a]", "x.-", true}}) {
    CAPTURE(pattern, path);
    const auto compiled = ModulePattern::compile(pattern);
    REQUIRE(compiled.ok());
    CHECK(compiled->matches(path) == matches);
  }
  for (const char *pattern : {"(", ")", "a)", "[a", "*", "a**", "a{2", "a{3,2}", "a{999}", "\\b",
                              "(?=a)", "(?P<n>a)", "\\1", "[b-a]", "a\\"}) {
    CAPTURE(pattern);
    CHECK(ModulePattern::compile(pattern).status().code() == Code::unsupported);
  }
}

TEST_CASE("patterns take no more time and memory than their lengths allow") {
  const auto slow = ModulePattern::compile("(a*)*(a|a)*(a?){200}b");
  REQUIRE(slow.ok());
  CHECK_FALSE(slow->matches(std::string(500, 'a')));
  std::string nested = "a";
  for (int i = 0; i < 8; ++i)
    nested = "(" + nested + "){200}";
  CHECK_FALSE(ModulePattern::compile(nested).ok());
  CHECK_FALSE(ModulePattern::compile(std::string(1025, 'a')).ok());
  CHECK_FALSE(ModulePattern::compile("(a{100}){100}").ok());
  std::string many;
  for (int i = 0; i < 1000; ++i)
    many += (i ? ", \"" : "\"") + std::to_string(i) + "(a{40}){40}\": 1";
  CHECK(refusal(with("\"rank_pattern\": {" + many + "}")).find("too many and too long") !=
        std::string::npos);
  CHECK_FALSE(ModulePattern::compile(std::string(500, '(')).ok());
}

TEST_CASE("an adapter's scale is alpha over r, or its root, each the module's own") {
  const auto config = LoraConfig::parse(
      with(R"("rank_pattern": {"k_proj": 4, "layers.0.*": 2}, "alpha_pattern": {"v_proj": 0.5})"),
      "");
  REQUIRE(config.ok());
  CHECK(config->rank_of("layers.1.q_proj") == 8);
  CHECK(config->rank_of("layers.0.k_proj") == 4); // the first that matches
  CHECK(config->rank_of("layers.0.v_proj") == 2);
  CHECK(config->scale_of("layers.1.q_proj") == 2);
  CHECK(config->scale_of("layers.0.v_proj") == 0.25);
  const auto rooted = LoraConfig::parse(with(R"("use_rslora": true)"), "");
  REQUIRE(rooted.ok());
  CHECK(rooted->scale_of("q_proj") == 16 / std::sqrt(8.0));
}

TEST_CASE("keys that change numbers are refused by name, others may say what they like") {
  for (const char *key : {R"("use_dora": true)",
                          R"("lora_bias": true)",
                          R"("fan_in_fan_out": true)",
                          R"("modules_to_save": ["lm_head"])",
                          R"("trainable_token_indices": [1])",
                          R"("target_parameters": ["w"])",
                          R"("layer_replication": [[0, 2]])",
                          R"("ensure_weight_tying": true)",
                          R"("alora_invocation_tokens": [1])",
                          R"("use_qalora": true)",
                          R"("use_bdlora": {"x": 1})",
                          R"("arrow_config": {"x": 1})",
                          R"("kasa_config": {"x": 1})",
                          R"("velora_config": {"x": 1})",
                          R"("monteclora_config": {"x": 1})",
                          R"("loftq_config": {"loftq_bits": 4})",
                          R"("corda_config": {"x": 1})",
                          R"("of_another_year": 0.5)",
                          R"("bias": "all")",
                          R"("init_lora_weights": "pissa")",
                          R"("peft_kind": "x")"}) {
    const std::string text = key, name = text.substr(1, text.find('"', 1) - 1);
    CAPTURE(text);
    const std::string said = refusal(with(text));
    CHECK(said.find("'c.json': key '" + name + "': is ") == 0);
  }
  CHECK(refusal(R"({"peft_type": "IA3", "r": 8})").find("key 'peft_type': is 'IA3'") !=
        std::string::npos);
  CHECK(refusal(with(R"("lora_dropout": 0.1, "target_modules": "all-linear", "use_dora": false,
    "modules_to_save": null, "loftq_config": {}, "bias": "none", "init_lora_weights": "gaussian",
    "runtime_config": {"ephemeral_gpu_offload": false}, "qalora_group_size": 16,
    "megatron_core": "megatron.core", "use_bdlora": null)"))
            .empty());
}

TEST_CASE("files that are no such configuration are errors") {
  for (const char *json : {"", "[]", "{}", R"({"r": 8})", R"({"peft_type": "LORA"})",
                           R"({"peft_type": "LORA", "r": 0})", R"({"peft_type": "LORA", "r": -1})",
                           R"({"peft_type": "LORA", "r": 4, "lora_alpha": 1e999})",
                           R"({"peft_type": "LORA", "r": 4, "rank_pattern": {"(": 2}})",
                           R"({"peft_type": "LORA", "r": 4, "rank_pattern": {"a": 0}})",
                           R"({"peft_type": "LORA", "r": 4} x)"}) {
    CAPTURE(json);
    CHECK_FALSE(refusal(json).empty());
  }
}
