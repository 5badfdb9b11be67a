// The golden runner.
#include "support/golden.h"
#include "support/catch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace cugrt::test {

namespace {

struct File {
  std::string path, name;
  GoldenCommand run;
};

struct Step {
  std::string command, expect;
};

struct Case {
  std::string head, input;
  std::vector<Step> steps;
};

std::deque<File> &files() {
  static std::deque<File> list;
  return list;
}

std::string read(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Case split(const std::string &text) {
  Case c;
  std::string *section = &c.head;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string command = "--- command: ";
    if (line == "--- input") {
      section = &c.input;
    } else if (line.compare(0, command.size(), command) == 0) {
      c.steps.push_back({line.substr(command.size()), ""});
      section = nullptr;
    } else if (line == "--- expect") {
      REQUIRE(!c.steps.empty());
      section = &c.steps.back().expect;
    } else {
      INFO("text between a command and its expectation: " << line);
      REQUIRE(section);
      *section += line + "\n";
    }
  }
  REQUIRE(!c.steps.empty());
  return c;
}

void update(const File &file, const Case &c) {
  std::string text = c.head + "--- input\n" + c.input;
  for (const Step &step : c.steps)
    text += "--- command: " + step.command + "\n--- expect\n" + step.expect;
  std::ofstream(file.path, std::ios::binary) << text;
}

void run_file(size_t number) {
  const File &file = files()[number];
  Case c = split(read(file.path));
  const bool updating = std::getenv("CUGRT_UPDATE_GOLDENS") != nullptr;
  const bool bad = file.name.compare(0, 4, "bad-") == 0;
  for (Step &step : c.steps) {
    std::string output = file.run(step.command, c.input);
    if (!output.empty() && output.back() != '\n')
      output += '\n';
    INFO(file.path << ", command " << step.command);
    CHECK((output.find(" error: ") != std::string::npos) == bad);
    if (updating)
      step.expect = output;
    else
      CHECK(output == step.expect);
  }
  if (updating) {
    update(file, c);
    FAIL("expectations updated: read the difference");
  }
}

// Catch2 registers plain functions, so each file has one of its own out of a fixed number.
constexpr size_t kMaxFiles = 1024;
template <size_t Number> void run_numbered() { run_file(Number); }
template <size_t... Numbers>
constexpr std::array<void (*)(), sizeof...(Numbers)> functions(std::index_sequence<Numbers...>) {
  return {run_numbered<Numbers>...};
}
constexpr auto kFunctions = functions(std::make_index_sequence<kMaxFiles>());

} // namespace

bool register_goldens(const std::string &suite, const std::string &folder, GoldenCommand run) {
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".txt")
      paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  static std::deque<std::string> names; // Catch2 may keep references
  for (const auto &path : paths) {
    size_t number = files().size();
    if (number == kMaxFiles)
      std::abort();
    files().push_back({path.string(), path.stem().string(), run});
    names.push_back(suite + " golden: " + files().back().name);
    Catch::AutoReg(Catch::makeTestInvoker(kFunctions[number]), CATCH_INTERNAL_LINEINFO,
                   Catch::StringRef(), Catch::NameAndTags{names.back(), "[golden]"});
  }
  return true;
}

} // namespace cugrt::test
