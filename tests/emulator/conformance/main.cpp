// The conformance program: opens a driver by name and holds it to what its documents state.
#include "run_opcodes.h"
#include "script.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace cugrt::conformance;

namespace {

constexpr char kUsage[] =
    "usage: cugrt-conformance [--driver emulated|system|FILE] [--only TEXT] [--opcodes|--scripts]\n"
    "                         [--above COMPUTE]"
    " [--golden FOLDER] [--record FILE] [--json FILE] [--ptx FOLDER]\n"
    "                         [--citations]\n";

struct Options {
  std::string driver = "emulated", only, golden, record, json, ptx, child, above = "0";
  bool opcodes = true, scripts = true, citations = false;
};

bool parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    struct {
      const char *name;
      std::string *value;
    } const valued[] = {{"--driver", &options.driver}, {"--only", &options.only},
                        {"--golden", &options.golden}, {"--record", &options.record},
                        {"--json", &options.json},     {"--ptx", &options.ptx},
                        {"--child", &options.child},   {"--above", &options.above}};
    bool known = false;
    for (const auto &option : valued)
      if (name == option.name && i + 1 < argc) {
        *option.value = argv[++i];
        known = true;
      }
    if (name == "--opcodes")
      options.scripts = false;
    else if (name == "--scripts")
      options.opcodes = false;
    else if (name == "--citations")
      options.citations = true;
    else if (!known)
      return false;
  }
  return true;
}

int fail(const std::string &reason) {
  std::fprintf(stderr, "%s\n", reason.c_str());
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options))
    return fail(kUsage);
  std::string reason;
  const OpcodeCases cases =
      options.opcodes && options.child.empty() ? all_opcode_cases() : OpcodeCases{};
  if (!options.ptx.empty())
    return write_ptx(cases, options.ptx, reason) ? 0 : fail(reason);
  if (options.citations) {
    print_citations();
    return 0;
  }
  Driver driver;
  if (!open_driver(options.driver, driver, reason)) {
    std::printf("%s\n", reason.c_str());
    return 77; // skipped: there is no such driver here
  }
  if (!options.child.empty())
    return run_child(driver, options.child);
  std::vector<Recording> recordings;
  if (!options.golden.empty() && !read_recordings(options.golden, recordings, reason))
    return fail(reason);

  std::vector<Outcome> outcomes;
  if (options.opcodes)
    outcomes = run_opcodes(driver, cases, options.only, std::atoi(options.above.c_str()));
  if (options.scripts)
    for (Outcome &outcome : run_scripts(driver, options.driver, options.only))
      outcomes.push_back(std::move(outcome));
  compare(outcomes, recordings);
  if (!options.record.empty() && !write_recording(options.record, driver, outcomes, reason))
    return fail(reason);
  if (!options.json.empty() && !write_rows(options.json, outcomes, recordings, reason))
    return fail(reason);
  return print_report(driver, outcomes, recordings);
}
