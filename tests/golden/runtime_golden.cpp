// Goldens of graphs as they are built: the command is `graph FUNCTION SYMBOL=N ...`, what it gives
// the nodes and edges of the function's instances after one run with those sizes, on the emulated
// driver.
#include "support/api_fixture.h"
#include "support/golden.h"

#include <sstream>

using namespace cugrt;

static cugrt_value argument(Runtime &runtime, const Function &function, size_t index,
                            std::span<const cugrt_symbol_value> symbols,
                            std::vector<Buffer> &buffers) {
  cugrt_param_info info = function.param(index);
  cugrt_value value{};
  value.kind = info.kind;
  std::vector<int64_t> dims = function.dims(index, symbols);
  if (info.kind != CUGRT_VALUE_TENSOR)
    return value;
  buffers.emplace_back(runtime, 1 << 20);
  value.as.tensor = buffers.back().tensor(static_cast<cugrt_dtype>(info.dtype), dims);
  return value;
}

static std::string run(const std::string &command, const std::string &input) {
  std::istringstream words(command);
  std::string word, name;
  words >> word >> name;
  REQUIRE(word == "graph");
  std::vector<std::string> names;
  std::vector<int64_t> numbers;
  while (words >> word) {
    names.push_back(word.substr(0, word.find('=')));
    numbers.push_back(std::stoll(word.substr(word.find('=') + 1)));
  }
  std::vector<cugrt_symbol_value> symbols;
  for (size_t i = 0; i < names.size(); ++i)
    symbols.push_back({names[i].c_str(), numbers[i]});
  Runtime &runtime = test::emulated_runtime();
  Executable executable(runtime, Module::parse(input));
  Function function = executable.function(name);
  std::vector<Buffer> buffers;
  std::vector<Value> arguments(function.param_count());
  Weights weights;
  size_t inputs = 0;
  for (size_t i = 0; i < function.param_count(); ++i) {
    cugrt_param_info info = function.param(i);
    if (!info.weight) {
      static_cast<cugrt_value &>(arguments[inputs++]) =
          argument(runtime, function, i, symbols, buffers);
      continue;
    }
    std::vector<int64_t> dims = function.dims(i, symbols);
    std::vector<float> zeros(1 << 18);
    weights.add(info.name, zeros.data(), static_cast<cugrt_dtype>(info.dtype), dims);
  }
  Session session(executable, runtime, weights);
  session.run(function, std::span<const Value>(arguments.data(), inputs));
  session.synchronize();
  return session.graph_report();
}

static const bool registered = test::register_goldens("runtime", GOLDEN_FOLDER "/runtime", run);
