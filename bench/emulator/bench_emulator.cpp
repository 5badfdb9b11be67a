// bench emulator [--json FILE] [--rounds N] [--case NAME]: how fast the emulated driver executes
// PTX.
//
// Each kernel runs once with counting, which gives its lane-operations (PTX instructions as written
// times active lanes, however they are executed), then N times without, on one thread and on two in
// turn, each after one that is not timed; and on one thread with the driver's checks on, as often
// as is affordable: `checked` is that time over the one without, `recorded`, `raced` and
// `undefined` are the shares of recording accesses, of looking for races and of following bytes
// that nothing has written. Launches are short and the best counts, since others use the machine
// too. The calibration loop (fma, add, setp) runs in the same rounds: `relative` is a kernel's rate
// over the loop's on one thread. `load_ptx` is the time to load 33 KB of PTX. What is shown says
// nothing about a GPU.
#include "base/whole_number.h"
#include "bench/emulator/emulator_cases.h"
#include "bench/support/bench_main.h"
#include "emulator/exec/opcodes/handlers.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string_view>
#include <thread>

namespace cugrt::bench {
namespace {

using emulator::ExecutionCounters;

constexpr uint64_t kMemoryBytes = 1u << 30;
constexpr size_t kPtxBytes = 33 * 1024;
constexpr uint32_t kThreads[] = {1, 2};

struct Arguments {
  std::optional<std::string> json, only;
  int rounds = 40;
};

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string_view name = values[i];
    if ((name != "--json" && name != "--rounds" && name != "--case") || i + 1 == count)
      return Status::error(Code::invalid_argument,
                           "usage: bench emulator [--json FILE] [--rounds N] [--case NAME]");
    std::string_view value = values[++i];
    if (name != "--rounds") {
      (name == "--json" ? arguments.json : arguments.only) = value;
      continue;
    }
    const auto rounds = whole_number<int>(value);
    if (!rounds || *rounds < 1 || *rounds > 1000)
      return Status::error(Code::invalid_argument, "--rounds takes a number from 1 to 1000");
    arguments.rounds = *rounds;
  }
  return arguments;
}

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

double process_cpu_ms() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e3 + double(time.tv_nsec) / 1e6;
}

constexpr EmulatorCase::Checks kChecks[] = {
    {true, true, true}, {true, false, false}, {false, true, false}, {false, false, true}};

struct Measured {
  double lane_operations = 0;
  double best_ms[2] = {1e300, 1e300};                  // by kThreads
  double best_cpu_ms[2] = {1e300, 1e300};              // of all threads
  double checked_ms[4] = {1e300, 1e300, 1e300, 1e300}; // by kChecks
};

Status measure_checked(const EmulatorCase &c, Measured &m) {
  for (size_t i = 0; i < std::size(kChecks); ++i) {
    double start = now_ms();
    CUGRT_TRY(c.launch_checked(kChecks[i]));
    m.checked_ms[i] = std::min(m.checked_ms[i], now_ms() - start);
  }
  return {};
}

/// Counts, checks, then times in rounds over all cases.
Result<std::vector<Measured>> measure(const std::vector<EmulatorCase> &cases, int rounds) {
  std::vector<Measured> measured(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    ExecutionCounters counters;
    CUGRT_TRY(cases[i].launch(0, &counters));
    measured[i].lane_operations = double(counters.lane_operations);
    if (std::string wrong = cases[i].check(); !wrong.empty())
      return Status::error(Code::internal, cases[i].name + ": " + wrong);
  }
  constexpr int kCheckedEvery = 10; // rounds
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < cases.size(); ++i) {
      if (round % kCheckedEvery == 0)
        CUGRT_TRY(measure_checked(cases[i], measured[i]));
      for (size_t t = 0; t < std::size(kThreads); ++t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1)); // a fresh share of the processor
        CUGRT_TRY(cases[i].launch(kThreads[t], nullptr));          // its data in the caches
        double start = now_ms(), start_cpu = process_cpu_ms();
        CUGRT_TRY(cases[i].launch(kThreads[t], nullptr));
        Measured &m = measured[i];
        m.best_cpu_ms[t] = std::min(m.best_cpu_ms[t], process_cpu_ms() - start_cpu);
        m.best_ms[t] = std::min(m.best_ms[t], now_ms() - start);
      }
    }
  return measured;
}

/// The kernels of all cases in one module, as many as make kPtxBytes; a comment fills it up.
std::string large_module(const std::vector<EmulatorCase> &cases) {
  std::string module;
  for (const EmulatorCase &c : cases) {
    // Function by function, renamed: each begins with a line of its own and ends with "}".
    size_t at = c.ptx.find(".visible .entry");
    if (module.empty())
      module = c.ptx.substr(0, at);
    while (at != std::string::npos) {
      size_t end = c.ptx.find("\n}\n", at) + 3, name = at + sizeof ".visible .entry";
      std::string function =
          c.ptx.substr(at, name - at) + c.name + "_" + c.ptx.substr(name, end - name);
      if (module.size() + function.size() + 4 <= kPtxBytes)
        module += function;
      at = c.ptx.find(".visible .entry", end);
    }
  }
  return module + "//" + std::string(kPtxBytes - 2 - module.size(), '.');
}

Result<double> load_ms(const std::string &ptx, const emulator::DeviceProfile &profile,
                       emulator::AddressSpace &memory, int rounds) {
  double best = 1e300;
  for (int round = 0; round < rounds; ++round) {
    double start = now_ms();
    CUGRT_ASSIGN(auto program, emulator::Program::load(ptx, profile, memory));
    best = std::min(best, now_ms() - start);
  }
  return best;
}

Status run(const Arguments &arguments) {
  const emulator::DeviceProfile &profile = emulator::default_profile();
  CUGRT_ASSIGN(auto memory, emulator::AddressSpace::create(kMemoryBytes));
  if (!memory->track_undefined())
    return Status::error(Code::out_of_host_memory, "no address range for the checks");
  jit::Compiler compiler{jit::CompilerConfig{}};
  CUGRT_ASSIGN(std::vector<EmulatorCase> cases, emulator_cases(compiler, profile, *memory));
  std::string module = large_module(cases);
  if (arguments.only)
    std::erase_if(cases, [&](const EmulatorCase &c) { return c.name != *arguments.only; });
  CUGRT_ASSIGN(EmulatorCase calibration, calibration_case(profile, *memory));
  cases.push_back(std::move(calibration));
  CUGRT_ASSIGN(std::vector<Measured> measured, measure(cases, arguments.rounds));
  CUGRT_ASSIGN(double loading_ms, load_ms(module, profile, *memory, arguments.rounds));

  const Measured &base = measured.back();
  double base_rate = base.lane_operations / base.best_ms[0] * 1e3;
  std::vector<Row> rows;
  for (size_t t = 0; t < std::size(kThreads); ++t) {
    for (size_t i = 0; i < cases.size(); ++i) {
      double ms = measured[i].best_ms[t], rate = measured[i].lane_operations / ms * 1e3;
      double multiply_adds = cases[i].multiply_adds / ms * 1e3;
      rows.push_back({{"bench", "emulator"},
                      {"case", cases[i].name},
                      {"threads", kThreads[t]},
                      {"lane_ops_per_s", rate},
                      {"ms", ms},
                      {"cpu_ms", measured[i].best_cpu_ms[t]},
                      {"relative", rate / base_rate},
                      {"multiply_adds_per_s", multiply_adds ? Row(multiply_adds) : Row()},
                      {"checked", t ? Row() : Row(measured[i].checked_ms[0] / ms)},
                      {"recorded", t ? Row() : Row(measured[i].checked_ms[1] / ms)},
                      {"raced", t ? Row() : Row(measured[i].checked_ms[2] / ms)},
                      {"undefined", t ? Row() : Row(measured[i].checked_ms[3] / ms)},
                      {"bytes", nullptr}});
    }
    rows.push_back({{"bench", "emulator"},
                    {"case", "load_ptx"},
                    {"threads", kThreads[t]},
                    {"lane_ops_per_s", nullptr},
                    {"ms", loading_ms},
                    {"cpu_ms", nullptr},
                    {"relative", nullptr},
                    {"multiply_adds_per_s", nullptr},
                    {"checked", nullptr},
                    {"recorded", nullptr},
                    {"raced", nullptr},
                    {"undefined", nullptr},
                    {"bytes", module.size()}});
  }
  std::vector<Row> shown = rows;
  for (Row &row : shown)
    for (const char *rate : {"lane_ops_per_s", "multiply_adds_per_s"})
      if (!row[rate].is_null())
        row[rate] = row[rate].get<double>() / 1e9;
  printf("EMULATED, build %s; rates in 1e9 a second\n", emulator::handler_isa());
  return show(rows, arguments.json, &shown);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  return cugrt::bench::bench_main("emulator", count, values, cugrt::bench::parse,
                                  cugrt::bench::run);
}
