// bench host [--json FILE]: what a repeated run costs on the host, in instructions, which do not
// depend on how busy the machine is.
//
// The program runs itself under callgrind, on the do-nothing driver, and measures calls of
// session_run through the C ABI: a function that is one region of `nodes` kernels with `slots`
// tensor arguments, of which `slots_changed` have another address than in the run before.
// Arguments are double-buffered: two buffers each, allocated one after the other, used in turn.
// Beside it, runs at two shapes in turn on one instance, which all of the region's nodes depend on
// (case shape_switch), and runs of a session that has a word in a group (case word_run).
//
//   instructions   from the call of session_run to the driver's cuGraphLaunch, the C library's
//                  among them, the driver's not
//   to_return      likewise, to the return of session_run
//   setters        calls of the driver that set a node
//   driver_calls   calls of the driver beside the setters and the launch
//   allocates      whether memory was allocated or freed on the way
//
// Each figure is the largest of three runs.
#include "bench/support/bench_main.h"
#include "bench/support/callgrind.h"
#include "bench/support/null_driver.h"

#include "base/file.h"

#include <cugrt/cugrt.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

// In C, so that callgrind finds it by this name.
extern "C" __attribute__((noinline)) cugrt_status *
bench_host_measured_run(const cugrt_api *api, cugrt_session *session,
                        const cugrt_function *function, const cugrt_run_options *options) {
  cugrt_status *status = api->session_run(session, function, options);
  asm volatile("" : "+r"(status)); // no tail call: this function ends after session_run
  return status;
}

namespace cugrt::bench {
namespace {

constexpr size_t kRepeats = 3;
constexpr uint64_t kBudgetBytes = uint64_t(1) << 30; // 10,000 nodes exceed the default
constexpr int64_t kRows = 16, kColumns = 64, kMaxRows = 64;

struct Case {
  uint32_t nodes, slots;
  std::vector<uint32_t> changed;
};

std::vector<Case> cases() {
  std::vector<Case> list;
  for (uint32_t nodes : {10u, 10'000u}) {
    list.push_back({nodes, 4, {0, 1, 4}});
    list.push_back({nodes, 64, {0, 1, 16, 64}});
  }
  return list;
}

std::string kernel_text(uint32_t inputs) {
  std::string name = "mix_" + std::to_string(inputs), params;
  for (uint32_t i = 0; i < inputs; ++i)
    params += "x" + std::to_string(i) + ": in f32, ";
  return "kernel @" + name + " {\n  inline \"mix\"\n  entry \"" + name + "\"\n  params (" + params +
         "y: out f32, n: symbol i64)\n"
         "  launch { grid (ceildiv(n, 256), 1, 1) block (256, 1, 1) }\n}\n";
}

/// A chain of `nodes` kernels; each takes the tensor before it and its share of the parameters; the
/// last one writes the last parameter.
std::string module_text(uint32_t nodes, uint32_t slots, std::vector<uint32_t> &arities) {
  std::string type = ": tensor<[n, " + std::to_string(kColumns) + "], f32>", body, params;
  for (uint32_t slot = 0; slot < slots; ++slot)
    params += (slot ? ", %p" : "%p") + std::to_string(slot) +
              (slot + 1 == slots ? ": out" + type.substr(1) : type);
  for (uint32_t node = 0; node < nodes; ++node) {
    std::string operands;
    uint32_t inputs = node > 0;
    if (node > 0)
      operands += "%t" + std::to_string(node - 1) + ", ";
    for (uint32_t slot = node; slot + 1 < slots; slot += nodes, ++inputs)
      operands += "%p" + std::to_string(slot) + ", ";
    std::string output =
        node + 1 == nodes ? "%p" + std::to_string(slots - 1) : "%t" + std::to_string(node);
    if (node + 1 != nodes)
      body += "  " + output + " = alloc " + type + "\n";
    body += "  launch @mix_" + std::to_string(inputs) + "(" + operands + output + ", n)\n";
    if (std::find(arities.begin(), arities.end(), inputs) == arities.end())
      arities.push_back(inputs);
  }
  std::string kernels;
  for (uint32_t arity : arities)
    kernels += kernel_text(arity);
  return "cugrt 1\n" + kernels + "func @main(" + params +
         ") attributes {upper_bounds = {n = " + std::to_string(kMaxRows) + "}} {\n" + body +
         "  return\n}\n";
}

Executable compile(Runtime &runtime, const Case &c) {
  std::vector<uint32_t> arities;
  Module module = Module::parse(module_text(c.nodes, c.slots, arities));
  std::vector<std::string> names;
  for (uint32_t arity : arities)
    names.push_back("mix_" + std::to_string(arity));
  std::vector<cugrt_kernel_code> codes;
  for (const std::string &name : names)
    codes.push_back({name.c_str(), CUGRT_CODE_CUBIN, "code", 4});
  auto options = detail::sized<cugrt_compile_options>();
  options.codes = codes.data();
  options.code_count = codes.size();
  return Executable(runtime, module, &options);
}

/// Runs with the two sets of arguments in turn; what the driver saw goes to `rows`, what callgrind
/// saw to its dumps.
void measure_runs(Session &session, Function function, const Case &c, const char *name,
                  uint32_t changed, std::span<const std::vector<Value>, 2> sets,
                  std::vector<Row> &rows) {
  cugrt_run_options options[2];
  for (uint32_t set = 0; set < 2; ++set) {
    options[set] = detail::sized<cugrt_run_options>();
    options[set].arguments = sets[set].data();
    options[set].argument_count = sets[set].size();
  }
  for (uint32_t warm = 0; warm < 4; ++warm)
    check(api().session_run(session.get(), function.get(), &options[warm % 2]));
  cugrt_null_driver_mark_launches(true);
  for (size_t repeat = 0; repeat < kRepeats; ++repeat) {
    cugrt_null_driver_calls before = cugrt_null_driver_count();
    check(bench_host_measured_run(&api(), session.get(), function.get(), &options[repeat % 2]));
    cugrt_null_driver_calls after = cugrt_null_driver_count();
    uint64_t setters = after.setters - before.setters, launches = after.launches - before.launches;
    rows.push_back({{"bench", "host"},
                    {"case", name},
                    {"nodes", c.nodes},
                    {"slots", c.slots},
                    {"slots_changed", changed},
                    {"instructions", 0},
                    {"to_return", 0},
                    {"setters", setters},
                    {"driver_calls", after.all - before.all - setters - launches},
                    {"allocates", false}});
  }
  cugrt_null_driver_mark_launches(false);
}

void measure_changes(Session &session, Function function, const Case &c, const char *name,
                     uint32_t changed, std::span<const Buffer> buffers, std::vector<Row> &rows) {
  std::vector<Value> sets[2];
  for (uint32_t slot = 0; slot < c.slots; ++slot)
    for (uint32_t set = 0; set < 2; ++set)
      sets[set].push_back(
          buffers[2 * slot + (slot < changed ? set : 0)].tensor(CUGRT_F32, {kRows, kColumns}));
  measure_runs(session, function, c, name, changed, sets, rows);
}

/// With an instance for one shape only, so that each run patches it to the other one.
void measure_switch(Runtime &runtime, Executable &executable, const Case &c,
                    std::span<const Buffer> buffers, std::vector<Row> &rows) {
  auto costs = detail::sized<cugrt_costs>();
  costs.instance_bytes = kBudgetBytes / 2 + 1; // two do not fit
  costs.node_bytes = 1;
  costs.build_ns = uint64_t(1) << 50; // and none is earned
  costs.patch_node_ns = 1;
  auto options = detail::sized<cugrt_session_options>();
  options.instance_budget_bytes = kBudgetBytes;
  options.costs = &costs;
  Session session(executable, runtime, Weights(), options);
  std::vector<Value> sets[2];
  for (uint32_t slot = 0; slot < c.slots; ++slot)
    for (uint32_t set = 0; set < 2; ++set)
      sets[set].push_back(buffers[2 * slot].tensor(CUGRT_F32, {set ? kMaxRows : kRows, kColumns}));
  measure_runs(session, executable.function("main"), c, "shape_switch", 0, sets, rows);
}

/// What runs under callgrind. Writes rows without instructions to `path`.
Status measure(const std::string &path) {
  RuntimeOptions runtime_options;
  runtime_options.driver = CUGRT_DRIVER_PATH;
  runtime_options.driver_path = CUGRT_NULL_DRIVER;
  runtime_options.cache_folder = "off";
  Runtime runtime(runtime_options);
  std::vector<Row> rows;
  for (const Case &c : cases()) {
    Executable executable = compile(runtime, c);
    auto options = detail::sized<cugrt_session_options>();
    options.instance_budget_bytes = kBudgetBytes;
    Session session(executable, runtime, Weights(), options);
    std::vector<Buffer> buffers;
    for (uint32_t i = 0; i < 2 * c.slots; ++i)
      buffers.emplace_back(runtime, kMaxRows * kColumns * sizeof(float));
    for (uint32_t changed : c.changed)
      measure_changes(session, executable.function("main"), c, "repeat_run", changed, buffers,
                      rows);
    if (c.slots == 4)
      measure_switch(runtime, executable, c, buffers, rows);
    Group group(runtime);
    options.group = group.get();
    options.exclusive = "bench";
    Session of_word(executable, runtime, Weights(), options);
    for (uint32_t changed : c.changed)
      measure_changes(of_word, executable.function("main"), c, "word_run", changed, buffers, rows);
  }
  return write_json(path, rows);
}

bool is_allocation(const std::string &function) {
  for (const char *name : {"malloc", "free", "calloc", "realloc", "operator new", "operator delete",
                           "_Znw", "_Zdl", "_int_malloc", "_int_free"})
    if (function.starts_with(name))
      return true;
  return false;
}

Result<std::vector<Row>> count(const std::string &self) {
  std::string path = self + ".rows.json";
  setenv("LD_BIND_NOW", "1", 1); // the loader's work at a first call is none of ours
  CUGRT_ASSIGN(std::vector<CallgrindDump> dumps,
               run_callgrind({.program = {self, "--measure", path},
                              .collect_in = "bench_host_measured_run",
                              .dump_before = "cugrt_null_driver_launched"},
                             {"/bench_host", "null-driver"}));
  CUGRT_ASSIGN(std::string text, read_file(path, uint64_t(1) << 20));
  std::remove(path.c_str());
  Row measured = Row::parse(text, nullptr, false);
  if (measured.is_discarded() || dumps.size() < 2 * measured.size())
    return Status::error(Code::internal, "callgrind wrote " + std::to_string(dumps.size()) +
                                             " dumps for " + std::to_string(measured.size()) +
                                             " runs");
  std::vector<Row> rows;
  for (size_t i = 0; i < measured.size(); ++i) {
    const CallgrindDump &to_launch = dumps[2 * i], &after = dumps[2 * i + 1];
    if (i % kRepeats == 0)
      rows.push_back(measured[i]);
    Row &row = rows.back();
    uint64_t whole = to_launch.instructions + after.instructions;
    row["instructions"] = std::max(row["instructions"].get<uint64_t>(), to_launch.instructions);
    row["to_return"] = std::max(row["to_return"].get<uint64_t>(), whole);
    for (const CallgrindDump *dump : {&to_launch, &after})
      if (std::any_of(dump->functions.begin(), dump->functions.end(), is_allocation))
        row["allocates"] = true;
  }
  return rows;
}

struct Arguments {
  std::optional<std::string> json, measure;
};

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string_view value = values[i];
    if (value != "--json" && value != "--measure")
      return Status::error(Code::invalid_argument,
                           "unknown option " + std::string(value) + "; known: --json");
    if (++i == count)
      return Status::error(Code::invalid_argument, std::string(value) + " needs a path");
    (value == "--json" ? arguments.json : arguments.measure) = values[i];
  }
  return arguments;
}

Status run(const Arguments &arguments, const char *self) {
  if (arguments.measure)
    return measure(*arguments.measure);
  CUGRT_ASSIGN(std::vector<Row> rows, count(self));
  return show(rows, arguments.json);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  using namespace cugrt;
  return bench::bench_main(
      "host", count, values, bench::parse,
      [&](const bench::Arguments &arguments) { return bench::run(arguments, values[0]); });
}
