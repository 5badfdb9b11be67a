// Adapters (LoRA) against models whose weights have B A added in double, on the emulated driver.
#include "differential/llm/lora_adapters.h"

#include <cmath>
#include <functional>
#include <sstream>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

/// All seven products of each layer: r 4 and alpha 6, but for a rank of 2 and an alpha of 3 by
/// pattern.
Adapter whole_adapter(uint32_t seed) {
  Numbers numbers(seed);
  Adapter adapter;
  adapter.config = R"({"peft_type": "LORA", "r": 4, "lora_alpha": 6, "use_rslora": false,
    "rank_pattern": {"layers\\.1.*q_proj": 2}, "alpha_pattern": {"down_proj": 3, "proj": 9},
    "bias": "none", "use_dora": false, "modules_to_save": null, "target_modules": ["q_proj"]})";
  const int64_t kv = kWidth / kHeads * kKvHeads;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string path = "model.layers." + std::to_string(layer) + ".";
    const std::string name = "blk." + std::to_string(layer) + ".";
    const auto add = [&](const char *module, const char *weight, int64_t in, int64_t out,
                         int64_t rank, double scale, int64_t heads) {
      adapter.modules.push_back(
          factors(numbers, path + module, name + weight, in, out, rank, scale, heads));
    };
    add("self_attn.q_proj", "attn_q.weight", kWidth, kWidth, layer == 1 ? 2 : 4,
        layer == 1 ? 3 : 1.5, kHeads);
    add("self_attn.k_proj", "attn_k.weight", kWidth, kv, 4, 1.5, kKvHeads);
    add("self_attn.v_proj", "attn_v.weight", kWidth, kv, 4, 1.5, 0);
    add("self_attn.o_proj", "attn_output.weight", kWidth, kWidth, 4, 1.5, 0);
    add("mlp.gate_proj", "ffn_gate.weight", kWidth, kInner, 4, 1.5, 0);
    add("mlp.up_proj", "ffn_up.weight", kWidth, kInner, 4, 1.5, 0);
    add("mlp.down_proj", "ffn_down.weight", kInner, kWidth, 4, 0.75, 0);
  }
  return adapter;
}

/// A file of the model with what the adapter adds in its weights, times `scale`.
std::shared_ptr<const Model> merged(const Model &model, const Adapter &adapter, double scale) {
  std::stringstream read;
  read << std::ifstream(model.file.name(), std::ios::binary).rdbuf();
  std::string file = read.str();
  for (const Factors &m : adapter.modules) {
    const gguf::Tensor *tensor = model.file.find_tensor(m.weight);
    REQUIRE(tensor);
    const size_t at = file.find(tensor->bytes); // of random numbers
    const bool is_table = m.path.ends_with("embed_tokens");
    for (int64_t row = 0; row < m.out; ++row)
      for (int64_t column = 0; column < m.in; ++column) {
        // Halves of a head (j, i) stand side by side in llama's files: (i, j).
        int64_t to = row;
        if (m.heads) {
          const int64_t half = m.out / m.heads / 2, i = row % half, j = row / half % 2;
          to = row / (2 * half) * 2 * half + i * 2 + j;
        }
        const int64_t element = is_table ? column * m.out + row : to * m.in + column;
        float value = 0;
        std::memcpy(&value, &file[at + size_t(element) * 4], 4);
        value = static_cast<float>(double(value) + scale * m.product(row, column));
        std::memcpy(&file[at + size_t(element) * 4], &value, 4);
      }
  }
  const TemporaryFolder folder;
  const std::string path = folder.path + "/merged.gguf";
  std::ofstream(path, std::ios::binary) << file;
  auto opened = Model::open(path);
  REQUIRE(opened.ok());
  return *opened;
}

EngineOptions with_room(int64_t rank, LoraTargets targets = kLayerLoraTargets,
                        ir::DType dtype = ir::DType::f32) {
  EngineOptions options;
  options.lora_rank = rank;
  options.lora_targets = targets;
  options.dtype = dtype;
  return options;
}

std::unique_ptr<Engine> open_engine(const Model &model, const EngineOptions &options) {
  auto engine = Engine::open(model, emulated_runtime().get(), options);
  INFO((engine.ok() ? "" : engine.status().message()));
  REQUIRE(engine.ok());
  return std::move(*engine);
}

/// Of a prompt's last token, and of three steps behind it.
std::vector<float> logits_of(Engine &engine) {
  REQUIRE(engine.close_all().ok());
  REQUIRE(engine.set_sampler(0, {}).ok());
  REQUIRE(engine.set_tokens(0, {}).ok());
  const std::vector<int32_t> prompt = prompt_of(11, 4);
  REQUIRE(engine.take_in(0, 0, prompt, true).ok());
  std::vector<float> all, logits;
  REQUIRE(engine.read_logits(0, all).ok());
  for (int step = 0; step < 3; ++step) {
    std::vector<int32_t> row(static_cast<size_t>(engine.places() * engine.rows()));
    REQUIRE(engine.start(true).ok());
    const Result<bool> has_row = engine.take_row(row);
    REQUIRE(has_row.ok());
    REQUIRE(*has_row);
    REQUIRE(engine.read_logits(0, logits).ok());
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

double furthest(const std::vector<float> &a, const std::vector<float> &b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::fabs(double(a[i]) - double(b[i])));
  return most;
}

} // namespace

TEST_CASE("logits with an adapter are those of weights with its products added", "[large]") {
  SmallLanguageModel small;
  small.spread = 0.15f; // logits of about 1 with the adapter
  OnDisk disk(small);
  const Adapter made = whole_adapter(7);
  const auto adapter = disk.adapter(made);
  CHECK(adapter->rank() == 4);
  CHECK(adapter->targets() == kLayerLoraTargets);
  struct Case {
    ir::DType dtype;
    double most; // that rounding may make of logits of about 1
  };
  for (const auto &[dtype, most] : {Case{ir::DType::f32, 1e-5}, Case{ir::DType::f16, 1e-3}})
    for (const double scale : {1.0, -0.5}) {
      CAPTURE(ir::info(dtype).name, scale);
      const auto engine = open_engine(*disk.model, with_room(4, kLayerLoraTargets, dtype));
      EngineOptions plain;
      plain.dtype = dtype;
      const std::vector<float> without = logits_of(*open_engine(*disk.model, plain));
      const std::vector<float> wanted =
          logits_of(*open_engine(*merged(*disk.model, made, scale), plain));
      CHECK(logits_of(*engine) == without); // bit for bit
      REQUIRE(engine->set_adapter(adapter, scale).ok());
      const std::vector<float> got = logits_of(*engine);
      CHECK(furthest(got, wanted) < most);
      CHECK(furthest(got, without) > 0.1);
      CHECK(engine->info()->decode_nodes <= (dtype == ir::DType::f32 ? 13 : 17) * kLayers + 4);
      REQUIRE(engine->set_adapter(adapter, 0).ok());
      CHECK(logits_of(*engine) == without);
      REQUIRE(engine->set_adapter(nullptr, 1).ok());
      CHECK(logits_of(*engine) == without);
    }
}

TEST_CASE("an adapter of the table of tokens and one of the head change each alone") {
  SmallLanguageModel untied;
  untied.has_head = true;
  for (const bool is_head : {false, true}) {
    CAPTURE(is_head);
    OnDisk disk(untied);
    Numbers numbers(3);
    Adapter made;
    made.config = R"({"peft_type": "LORA", "r": 9, "lora_alpha": 6, "use_rslora": true})";
    made.modules = {is_head
                        ? factors(numbers, "lm_head", "output.weight", kWidth, kVocabulary, 9, 2)
                        : factors(numbers, "model.embed_tokens", "token_embd.weight", kVocabulary,
                                  kWidth, 9, 2)};
    const auto adapter = disk.adapter(made);
    const auto engine = open_engine(
        *disk.model, with_room(9, lora_bit(is_head ? LoraTarget::head : LoraTarget::embedding)));
    REQUIRE(engine->set_adapter(adapter, 1).ok());
    const std::vector<float> wanted =
        logits_of(*open_engine(*merged(*disk.model, made, 1), EngineOptions()));
    CHECK(furthest(logits_of(*engine), wanted) < 1e-5);
  }
}

TEST_CASE("an adapter of a tied table's head leaves the look-up of tokens as it is") {
  // The same numbers with a head of its own are the reference.
  SmallLanguageModel untied;
  untied.has_head = true;
  OnDisk tied, apart(untied);
  Numbers numbers(5);
  Adapter made;
  made.config = R"({"peft_type": "LORA", "r": 3, "lora_alpha": 3})";
  made.modules = {factors(numbers, "lm_head", "output.weight", kWidth, kVocabulary, 3, 1)};
  const auto engine = open_engine(*tied.model, with_room(3, lora_bit(LoraTarget::head)));
  REQUIRE(engine->set_adapter(tied.adapter(made), 1).ok());
  std::stringstream read;
  read << std::ifstream(apart.model->file.name(), std::ios::binary).rdbuf();
  std::string file = read.str();
  const gguf::Tensor *head = apart.model->file.find_tensor("output.weight");
  file.replace(file.find(head->bytes), head->bytes.size(),
               apart.model->file.find_tensor("token_embd.weight")->bytes);
  // The table stands first, the head behind it.
  const size_t at = file.rfind(apart.model->file.find_tensor("token_embd.weight")->bytes);
  for (int64_t row = 0; row < kVocabulary; ++row)
    for (int64_t column = 0; column < kWidth; ++column) {
      float value = 0;
      char *const place = &file[at + size_t(row * kWidth + column) * 4];
      std::memcpy(&value, place, 4);
      value = static_cast<float>(double(value) + made.modules[0].product(row, column));
      std::memcpy(place, &value, 4);
    }
  std::ofstream(apart.folder.path + "/reference.gguf", std::ios::binary) << file;
  const auto reference = Model::open(apart.folder.path + "/reference.gguf");
  REQUIRE(reference.ok());
  CHECK(furthest(logits_of(*engine), logits_of(*open_engine(**reference, {}))) < 1e-5);
}

TEST_CASE("a thousand switches build nothing, and take no memory", "[large]") {
  OnDisk disk;
  const std::array adapters = {disk.adapter(whole_adapter(7), "a"),
                               disk.adapter(whole_adapter(8), "b")};
  Group group(emulated_runtime(), {});
  EngineOptions options = with_room(4);
  options.group = group.get();
  const auto engine = open_engine(*disk.model, options);
  std::array<std::vector<float>, 3> wanted;
  const auto set = [&](size_t i) {
    REQUIRE(engine->set_adapter(i < 2 ? adapters[i] : nullptr, 1).ok());
  };
  for (int round = 0; round < 4; ++round) // instances are made
    for (size_t i = 0; i < 3; ++i) {
      set(i);
      wanted[i] = logits_of(*engine);
    }
  const auto before = *engine->info();
  const uint64_t held = group.memory().device_bytes;
  for (size_t i = 0; i < 1000; ++i) {
    set(i % 3);
    REQUIRE(engine->close_all().ok());
    const std::array<int32_t, 1> prompt = {static_cast<int32_t>(i % 40)};
    REQUIRE(engine->take_in(0, 0, prompt, true).ok());
    std::array<int32_t, 1> row{};
    REQUIRE(engine->start(true).ok());
    REQUIRE(*engine->take_row(row));
  }
  const auto after = *engine->info();
  CHECK(after.counters.regions_built - before.counters.regions_built <= 3);
  CHECK(after.counters.fields_patched > before.counters.fields_patched);
  CHECK(group.memory().device_bytes == held);
  for (size_t i = 0; i < 3; ++i) {
    set(i);
    CHECK(logits_of(*engine) == wanted[i]);
  }
  CHECK(wanted[0] != wanted[1]);
  set(2);
  for (const auto &adapter : adapters)
    REQUIRE(engine->drop_adapter(*adapter).ok());
  CHECK(group.memory().device_bytes < held);
}

TEST_CASE("drafts, loops on the device and several places have an adapter's text") {
  OnDisk disk;
  const auto adapter = disk.adapter(whole_adapter(9));
  const auto text = [&](EngineOptions options) {
    auto generator = Generator::open(disk.model, emulated_runtime().get(), options);
    REQUIRE(generator.ok());
    REQUIRE((*generator)->set_adapter(adapter, 1).ok());
    std::map<uint64_t, std::vector<int32_t>> all;
    for (int32_t i = 0; i < 2; ++i)
      if ((*generator)->empty_places() > 0)
        REQUIRE((*generator)->add(request_of(9, i, 12)).ok());
    all = run_all(**generator);
    return all.at(1);
  };
  const std::vector<int32_t> wanted = text(with_room(4));
  CHECK(wanted.size() == 12);
  EngineOptions options = with_room(4);
  options.places = 2;
  CHECK(text(options) == wanted);
  options.draft = Draft::ngram;
  CHECK(text(options) == wanted);
  options.loop = Loop::device;
  CHECK(text(options) == wanted);
  options.draft = Draft::none;
  CHECK(text(options) == wanted);
}

TEST_CASE("adapters are set between sequences, and prompts' caches are an adapter's own") {
  OnDisk disk;
  const auto adapter = disk.adapter(whole_adapter(9));
  auto opened = Generator::open(disk.model, emulated_runtime().get(), with_room(4));
  REQUIRE(opened.ok());
  Generator &generator = **opened;
  REQUIRE(generator.set_adapter(adapter, 1).ok());
  CHECK(generator.drop_adapter(*adapter).code() == Code::busy);
  auto prompt = generator.make_prompt(prompt_of(5, 1));
  REQUIRE(prompt.ok());
  REQUIRE(generator.add(request_of(3, 1, 2)).ok());
  CHECK(generator.set_adapter(nullptr, 1).code() == Code::busy);
  run_all(generator);
  const auto add = [&] {
    Request request = request_of(3, 1, 2);
    request.prefix = std::make_shared<PromptCache>(*prompt);
    const auto added = generator.add(std::move(request));
    run_all(generator);
    return added.ok() ? std::string() : added.status().message();
  };
  CHECK(add().empty());
  REQUIRE(generator.set_adapter(adapter, 0.5).ok());
  CHECK(add() == "the prompt's caches are another model's, or another adapter's");
  REQUIRE(generator.set_adapter(nullptr, 1).ok());
  CHECK(add() == "the prompt's caches are another model's, or another adapter's");
  REQUIRE(generator.drop_adapter(*adapter).ok());
  CHECK(generator.set_adapter(adapter, NAN).code() == Code::invalid_argument);
  SmallLanguageModel wider;
  wider.inner = 64;
  OnDisk other(wider);
  auto stranger = Generator::open(other.model, emulated_runtime().get(), with_room(4));
  REQUIRE(stranger.ok());
  CHECK((*stranger)->set_adapter(adapter, 1).message() ==
        "the adapter was opened for another model");
}

TEST_CASE("adapters that do not fit a model or a session are refused with their names") {
  OnDisk disk;
  const std::string folder = disk.folder.path + "/bad";
  const auto refusal = [&](const std::function<void(Adapter &)> &spoil) {
    Adapter made = whole_adapter(7);
    spoil(made);
    made.write(folder);
    const auto opened = LoraAdapter::open(*disk.model, folder);
    std::string said = opened.ok() ? "" : opened.status().message();
    for (size_t at; (at = said.find(folder + "/")) != std::string::npos;)
      said.erase(at, folder.size() + 1);
    return said;
  };
  CHECK(refusal([](Adapter &) {}).empty());
  const std::string file = "'adapter_model.safetensors': ";
  const std::string tensor = file + "tensor 'base_model.model.";
  CHECK(refusal([](Adapter &a) { a.modules[0].path = "model.layers.2.self_attn.q_proj"; }) ==
        tensor + "model.layers.2.self_attn.q_proj.lora_A.weight' has no place in this "
                 "architecture");
  CHECK(refusal([](Adapter &a) { a.modules[0].path = "model.vision.q_proj"; }) ==
        tensor + "model.vision.q_proj.lora_A.weight' has no place in this architecture");
  CHECK(refusal([](Adapter &a) {
          a.modules[1].out = 32;
          a.modules[1].b.resize(32 * 4);
        }) == tensor + "model.layers.0.self_attn.k_proj.lora_B.weight' is of shape [32, 4]; the "
                       "model has 16, not 32, there");
  CHECK(refusal([](Adapter &a) {
          a.modules[0].rank = 3;
          a.modules[0].a.resize(3 * 32);
          a.modules[0].b.resize(3 * 32);
        }) == file + "module 'model.layers.0.self_attn.q_proj' has factors of rank 3 and 3; "
                     "adapter_config.json says 4");
  CHECK(refusal([](Adapter &a) { a.modules.clear(); }) == file + "has no tensor of an adapter");
  CHECK(refusal([](Adapter &a) { a.config = R"({"r": 4, "use_dora": true})"; }) ==
        "'adapter_config.json': key 'use_dora': is set, which changes numbers in a way that is not "
        "followed");

  // What the session has no room for.
  const auto adapter = disk.adapter(whole_adapter(7));
  Adapter wide;
  Numbers numbers(1);
  wide.config = R"({"peft_type": "LORA", "r": 9, "lora_alpha": 9})";
  wide.modules = {factors(numbers, "model.layers.0.self_attn.q_proj", "", kWidth, kWidth, 9, 1)};
  const auto of_rank_9 = disk.adapter(wide, "wide");
  const auto said = [&](const EngineOptions &options,
                        const std::shared_ptr<const LoraAdapter> &given) {
    const auto engine = open_engine(*disk.model, options);
    std::string text = engine->set_adapter(given, 1).message();
    const std::vector<float> logits = logits_of(*engine); // the session goes on as it was
    CHECK(std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }));
    return text.substr(text.rfind('/') + 1);
  };
  CHECK(said({}, adapter) ==
        "the session was opened without room for adapters: its lora_rank is 0");
  CHECK(said(with_room(4), of_rank_9) ==
        "adapter_model.safetensors' is of rank 9, the session has room for adapters of rank 8: it "
        "is to be opened with a lora_rank of 9");
  CHECK(said(with_room(4, lora_bit(LoraTarget::v)), adapter) ==
        "adapter_model.safetensors' adds to 'model.layers.0.self_attn.k_proj', which the session's "
        "lora_targets do not have");
}
