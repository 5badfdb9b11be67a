// Runs one-operator functions of ours, legalized, on the emulated device's execution core.
//
//   run_operators < CASES > RESULTS
//
// A case is lines of words: `case NAME`, `text BYTES` and that many bytes of IR, `input DIMS
// VALUES` for each parameter (both lists begin with their length), and `run`. Its result is `case
// NAME` and `error MESSAGE`, or `result DIMS VALUES` for each of the function's results.
#include "ir/text/text.h"
#include "passes/pass.h"
#include "support/launch_runner.h"

#include <iostream>
#include <sstream>

using namespace cugrt;
using namespace cugrt::test;

namespace {

struct Case {
  std::string name, text;
  std::vector<Array> inputs;
};

template <class T> std::vector<T> read_list(std::istream &in) {
  size_t count = 0;
  in >> count;
  std::vector<T> list;
  for (std::string word; list.size() < count && in >> word;)
    list.push_back(T(std::strtod(word.c_str(), nullptr))); // nan and inf too
  return list;
}

Result<std::vector<Array>> run(LaunchRunner &runner, const Case &given) {
  for (const Array &input : given.inputs)
    if (input.count() != int64_t(input.values.size()))
      return Status::error(Code::invalid_argument, "an input has not as many values as its size");
  CUGRT_ASSIGN(const ir::Module module, ir::parse_and_verify(given.text, given.name));
  CUGRT_ASSIGN(const ir::Module legal, passes::find_pass("LegalizeOps")->run(module, {}));
  return runner.run(legal, legal.functions[0], given.inputs);
}

std::string one_line(std::string text) {
  for (char &c : text)
    c = c == '\n' ? ' ' : c;
  return text;
}

void answer(LaunchRunner &runner, const Case &given) {
  const Result<std::vector<Array>> results = run(runner, given);
  std::cout << "case " << given.name << '\n';
  if (!results.ok()) {
    std::cout << "error " << one_line(results.status().to_string()) << std::endl;
    return;
  }
  for (const Array &array : *results) {
    std::cout << "result " << array.dims.size();
    for (int64_t dim : array.dims)
      std::cout << ' ' << dim;
    std::cout << ' ' << array.values.size();
    for (double value : array.values)
      std::cout << ' ' << value;
    std::cout << std::endl;
  }
}

} // namespace

int main() {
  LaunchRunner runner;
  std::cout.precision(17);
  Case current;
  for (std::string word; std::cin >> word;) {
    if (word == "case") {
      current = {};
      std::cin >> current.name;
    } else if (word == "text") {
      size_t bytes = 0;
      std::cin >> bytes;
      std::cin.get(); // the line's end
      current.text.resize(bytes);
      std::cin.read(current.text.data(), std::streamsize(bytes));
    } else if (word == "input") {
      Array array;
      array.dims = read_list<int64_t>(std::cin);
      array.values = read_list<double>(std::cin);
      current.inputs.push_back(std::move(array));
    } else if (word == "run") {
      answer(runner, current);
    } else {
      std::cerr << "run_operators: no such word: " << word << '\n';
      return 2;
    }
  }
}
