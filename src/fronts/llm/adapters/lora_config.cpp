// Reader of adapter_config.json; see lora_config.h.
#include "fronts/llm/adapters/lora_config.h"

#include "base/json.h"
#include "base/whole_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cugrt::llm {

namespace {

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxPatternSteps = size_t(1) << 17; // of all patterns together

/// Keys about training, about the adapter's origin, and about its modules, which its tensors name.
/// All other keys may change numbers.
constexpr std::string_view kHarmless[] = {"auto_mapping",
                                          "base_model_name_or_path",
                                          "eva_config",
                                          "exclude_modules",
                                          "inference_mode",
                                          "layers_pattern",
                                          "layers_to_transform",
                                          "lora_dropout",
                                          "megatron_core",
                                          "peft_version",
                                          "qalora_group_size",
                                          "revision",
                                          "runtime_config",
                                          "target_modules",
                                          "task_type"};
/// Ways of making A and B before training that leave the model's weights as they are.
constexpr std::string_view kHarmlessInits[] = {"gaussian", "eva", "orthogonal"};

using Kind = JsonReader::Kind;

class ConfigReader {
public:
  ConfigReader(std::string_view text) : json_(text, kMaxDepth) {}

  Result<LoraConfig> read() {
    CUGRT_TRY(json_.begin_object());
    std::string key;
    bool has_type = false;
    while (true) {
      CUGRT_ASSIGN(const bool more, json_.next_member(key));
      if (!more)
        break;
      has_type = has_type || key == "peft_type";
      if (Status status = read(key); !status.ok())
        return std::move(status).in("key '" + key + "'");
    }
    CUGRT_TRY(json_.finish());
    if (!has_type || config_.rank < 1)
      return json_.error("'peft_type' or 'r' is missing");
    return std::move(config_);
  }

private:
  Status read(const std::string &key) {
    if (key == "r")
      return read_rank(config_.rank);
    if (key == "lora_alpha")
      return read_number(config_.alpha);
    if (key == "use_rslora")
      return json_.boolean(config_.use_rslora);
    if (key == "rank_pattern")
      return read_patterns(config_.rank_pattern, [&](int64_t &rank) { return read_rank(rank); });
    if (key == "alpha_pattern")
      return read_patterns(config_.alpha_pattern,
                           [&](double &alpha) { return read_number(alpha); });
    if (key == "peft_type")
      return read_word({"LORA"});
    if (key == "bias")
      return read_word({"none"});
    if (key == "init_lora_weights")
      return read_init();
    if (std::ranges::count(kHarmless, key))
      return json_.skip();
    CUGRT_ASSIGN(const bool is_set, skip_value());
    return is_set ? unsupported("is set, which changes numbers in a way that is not followed")
                  : Status();
  }

  static Status unsupported(const std::string &what) {
    return Status::error(Code::unsupported, what);
  }

  Status read_rank(int64_t &rank) {
    uint64_t value = 0;
    CUGRT_TRY(json_.size(value));
    if (value < 1 || value > INT32_MAX)
      return json_.error("a rank is from 1 to " + std::to_string(INT32_MAX));
    rank = static_cast<int64_t>(value);
    return {};
  }

  Status read_number(double &value) {
    std::string_view digits;
    CUGRT_TRY(json_.number(digits));
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return read.ec == std::errc() && std::isfinite(value)
               ? Status()
               : json_.error("the number is too large or too small");
  }

  template <class T, class Read>
  Status read_patterns(LoraConfig::Patterns<T> &patterns, const Read &read) {
    CUGRT_ASSIGN(const Kind kind, json_.kind());
    if (kind == Kind::null)
      return json_.skip();
    CUGRT_TRY(json_.begin_object());
    std::string pattern;
    while (true) {
      CUGRT_ASSIGN(const bool more, json_.next_member(pattern));
      if (!more)
        return {};
      CUGRT_ASSIGN(ModulePattern compiled, ModulePattern::compile(pattern));
      steps_ += compiled.step_count() + 1;
      if (steps_ > kMaxPatternSteps)
        return json_.error("the patterns are too many and too long");
      patterns.emplace_back(std::move(compiled), T{});
      CUGRT_TRY(read(patterns.back().second));
    }
  }

  Status read_word(std::initializer_list<std::string_view> known) {
    std::string word;
    CUGRT_TRY(json_.text(word));
    return std::ranges::count(known, word)
               ? Status()
               : unsupported("is '" + word + "', not '" + std::string(*known.begin()) + "'");
  }

  Status read_init() {
    CUGRT_ASSIGN(const Kind kind, json_.kind());
    if (kind != Kind::text)
      return json_.skip();
    std::string word;
    CUGRT_TRY(json_.text(word));
    return std::ranges::count(kHarmlessInits, word)
               ? Status()
               : unsupported("is '" + word + "', which changes the model's own weights");
  }

  /// Whether a value is neither null, false, nor empty.
  Result<bool> skip_value() {
    CUGRT_ASSIGN(const Kind kind, json_.kind());
    bool is_set = false;
    std::string text;
    switch (kind) {
    case Kind::null:
      CUGRT_TRY(json_.skip());
      return false;
    case Kind::boolean:
      CUGRT_TRY(json_.boolean(is_set));
      return is_set;
    case Kind::text:
      CUGRT_TRY(json_.text(text));
      return !text.empty();
    case Kind::number:
      CUGRT_TRY(json_.skip());
      return true;
    case Kind::list:
      CUGRT_TRY(json_.begin_list());
      while (true) {
        CUGRT_ASSIGN(const bool more, json_.next_element());
        if (!more)
          return is_set;
        is_set = true;
        CUGRT_TRY(json_.skip());
      }
    case Kind::object:
      CUGRT_TRY(json_.begin_object());
      while (true) {
        CUGRT_ASSIGN(const bool more, json_.next_member(text));
        if (!more)
          return is_set;
        is_set = true;
        CUGRT_TRY(json_.skip());
      }
    }
    return true;
  }

  JsonReader json_;
  LoraConfig config_;
  size_t steps_ = 0; // of patterns
};

template <class T>
T first_match(const LoraConfig::Patterns<T> &patterns, std::string_view module, T otherwise) {
  const auto found = std::ranges::find_if(
      patterns, [&](const auto &pattern) { return pattern.first.matches(module); });
  return found == patterns.end() ? otherwise : found->second;
}

} // namespace

Result<LoraConfig> LoraConfig::parse(std::string_view json, const std::string &name) {
  Result<LoraConfig> config = ConfigReader(json).read();
  if (!config.ok())
    return config.take_status().in("'" + name + "'");
  return config;
}

int64_t LoraConfig::rank_of(std::string_view module) const {
  return first_match(rank_pattern, module, rank);
}

double LoraConfig::scale_of(std::string_view module) const {
  const double own = first_match(alpha_pattern, module, alpha);
  const auto r = static_cast<double>(rank_of(module));
  return own / (use_rslora ? std::sqrt(r) : r);
}

} // namespace cugrt::llm
