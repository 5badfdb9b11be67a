// bench precision MODEL.gguf [--tokens N] [--driver NAME] [--json FILE]: what f16 and bf16, and
// caches in q8_0, change of a language model, beside the same model in f32.
//
// A text is taken in by parts in each dtype, which is the case, and in `caches` of one. `kl`
// is the mean of the divergence of the dtype's probabilities of the next token from those of f32,
// `kl_most` the largest one, `same_best` how many of the most likely tokens agree; `perplexity` is
// of the text, and `ratio` over that of f32.
#include "bench/support/bench_main.h"

#include "fronts/llm/generation/engine.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace cugrt::bench {
namespace {

constexpr std::string_view kText =
    "The lighthouse stood at the end of a narrow spit of rock, where the river met the sea. "
    "Every evening the keeper climbed its hundred and twelve steps, cleaned the lenses with a"
    " soft cloth, and lit the lamp before the first boats came home. In winter the storms "
    "threw stones against the door, and he slept badly; in summer the windows were open, and "
    "he could hear the voices of the fishermen long before he saw their sails. He kept a "
    "diary of the weather, the ships and the birds. When the light was made electric, in the "
    "spring of 1931, two engineers arrived with copper wire, a generator and a great many "
    "drawings. They stayed for six weeks. The older one explained that a current flows only "
    "where there is a closed circuit, that the brightness of a lamp depends on the voltage, "
    "and that a fuse is meant to fail so that nothing else does. The keeper listened "
    "politely, asked three questions, and wrote the answers down. From then on he had to "
    "press a single button, and for the first time in twenty years he was able to read a book"
    " in the evening. He found that he missed the smell of the oil, and the stairs.";

struct Arguments {
  std::optional<std::string> json;
  std::string model, driver = "emulated";
  size_t tokens = 200;
};

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view value = values[i];
    if (value == "--json" || value == "--tokens" || value == "--driver") {
      if (++i == count)
        return Status::error(Code::invalid_argument, std::string(value) + " needs a value");
      if (value == "--tokens")
        arguments.tokens = static_cast<size_t>(std::max(1, std::atoi(values[i])));
      else if (value == "--json")
        arguments.json = values[i];
      else
        arguments.driver = values[i];
    } else if (value.starts_with("--") || !arguments.model.empty()) {
      return Status::error(Code::invalid_argument,
                           "usage: bench precision MODEL.gguf [--tokens N] [--driver NAME] "
                           "[--json FILE]");
    } else {
      arguments.model = value;
    }
  }
  if (arguments.model.empty())
    return Status::error(Code::invalid_argument, "no MODEL.gguf is given");
  return arguments;
}

/// Logarithms of the probabilities of every token.
std::vector<double> logarithms(const std::vector<float> &logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits)
    sum += std::exp(logit - most);
  std::vector<double> list(logits.begin(), logits.end());
  for (double &value : list)
    value -= most + std::log(sum);
  return list;
}

struct Case {
  ir::DType dtype, cache;
};
constexpr Case kCases[] = {{ir::DType::f32, ir::DType::f32}, // the others are compared with it
                           {ir::DType::f16, ir::DType::f16},
                           {ir::DType::bf16, ir::DType::bf16},
                           {ir::DType::f16, ir::DType::q8_0}};

/// Logits behind each of the tokens but the last.
Result<std::vector<std::vector<float>>> logits_of(const llm::Model &model, cugrt_runtime *runtime,
                                                  const Case &precision,
                                                  std::span<const int32_t> tokens) {
  llm::EngineOptions options;
  options.dtype = precision.dtype;
  options.cache = precision.cache;
  options.context = static_cast<int64_t>(tokens.size());
  options.all_logits = true;
  CUGRT_ASSIGN(const std::unique_ptr<llm::Engine> engine,
               llm::Engine::open(model, runtime, options));
  std::vector<std::vector<float>> all(tokens.size() - 1);
  for (size_t begin = 0; begin < all.size();) {
    const auto at = static_cast<int64_t>(begin);
    const int64_t rows = engine->part_of(static_cast<int64_t>(all.size()) - at, at);
    CUGRT_TRY(engine->take_in(0, at, tokens.subspan(begin, static_cast<size_t>(rows)), false));
    for (int64_t row = 0; row < rows; ++row)
      CUGRT_TRY(engine->read_logits(row, all[begin++]));
  }
  return all;
}

Row row_of(const Case &precision, std::span<const int32_t> tokens,
           const std::vector<std::vector<float>> &reference,
           const std::vector<std::vector<float>> &logits, const std::string &driver) {
  double kl = 0, kl_most = 0, loss = 0, reference_loss = 0;
  size_t same = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const std::vector<double> p = logarithms(reference[i]), q = logarithms(logits[i]);
    double divergence = 0;
    for (size_t token = 0; token < p.size(); ++token)
      divergence += std::exp(p[token]) * (p[token] - q[token]);
    kl += divergence;
    kl_most = std::max(kl_most, divergence);
    same += std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
    loss -= q[static_cast<size_t>(tokens[i + 1])];
    reference_loss -= p[static_cast<size_t>(tokens[i + 1])];
  }
  const auto count = static_cast<double>(logits.size());
  return {{"bench", "precision"},
          {"case", ir::info(precision.dtype).name},
          {"caches", ir::info(precision.cache).name},
          {"tokens", logits.size()},
          {"kl", kl / count},
          {"kl_most", kl_most},
          {"same_best", same},
          {"perplexity", std::exp(loss / count)},
          {"ratio", std::exp((loss - reference_loss) / count)},
          {"driver", driver}};
}

Status run(const Arguments &arguments) {
  RuntimeOptions options;
  options.driver = arguments.driver == "system"     ? CUGRT_DRIVER_SYSTEM
                   : arguments.driver == "emulated" ? CUGRT_DRIVER_EMULATED
                                                    : CUGRT_DRIVER_PATH;
  if (options.driver == CUGRT_DRIVER_PATH)
    options.driver_path = arguments.driver;
  Runtime runtime(options);
  const cugrt_runtime_info device = runtime.info();
  const std::string driver = device.emulated ? "EMULATED" : device.device_name;
  CUGRT_ASSIGN(const std::shared_ptr<const llm::Model> model, llm::Model::open(arguments.model));
  CUGRT_ASSIGN(std::vector<int32_t> tokens, model->tokenizer->encode(kText));
  tokens.resize(std::min(tokens.size(), arguments.tokens + 1));
  std::vector<std::vector<float>> reference;
  std::vector<Row> rows;
  for (const Case &precision : kCases) {
    CUGRT_ASSIGN(std::vector<std::vector<float>> logits,
                 logits_of(*model, runtime.get(), precision, tokens));
    if (reference.empty())
      reference = logits;
    rows.push_back(row_of(precision, tokens, reference, logits, driver));
  }
  return show(rows, arguments.json);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  return cugrt::bench::bench_main("precision", count, values, cugrt::bench::parse,
                                  cugrt::bench::run);
}
