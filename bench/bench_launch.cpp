// bench launch [--json FILE] [--driver emulated|null|system] [--graph NAME] [--nodes N]
//              [--seconds S] [--no-totals]: what launching a graph costs, in six ways.
//
// With a GPU everything is measured on it. Without one the host's side is measured twice: on the
// emulated driver, which executes the kernels on the CPU meanwhile, and on the do-nothing driver,
// where what is left is the runtime's own. Neither says anything about a GPU, and the output says
// so.
//
//   launch/graphs    the modules              launch/modes     the six ways, in rounds
//   launch/subject   compiled and opened      launch/amortise  totals of many runs
//   launch/report    rows and tables          launch/verdict   ratios in words
#include "bench/launch/report.h"
#include "bench/support/bench_main.h"
#include "bench/support/machine.h"

#include <algorithm>
#include <cstdlib>

namespace cugrt::bench {
namespace {

constexpr uint32_t kSizes[] = {1, 10, 100, 1000, 10'000};
constexpr uint32_t kAmortisedSizes[] = {10, 100, 1000, 10'000};
constexpr double kEmulatedSeconds = 1.2, kNullSeconds = 0.4, kRealSeconds = 3,
                 kTotalsSeconds = 10; // a case; more where three rounds take longer

struct Arguments {
  std::optional<std::string> json;
  std::string driver, graph; // empty: by what is there; all
  std::optional<uint32_t> nodes;
  std::optional<double> seconds;
  bool totals = true;
};

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string_view option = values[i];
    if (option == "--no-totals") {
      arguments.totals = false;
      continue;
    }
    if (option != "--json" && option != "--driver" && option != "--graph" && option != "--nodes" &&
        option != "--seconds")
      return Status::error(Code::invalid_argument,
                           "unknown option " + std::string(option) +
                               "; known: --json, --driver, --graph, --nodes, --seconds, "
                               "--no-totals");
    if (++i == count)
      return Status::error(Code::invalid_argument, std::string(option) + " needs a value");
    std::string value = values[i];
    if (option == "--json")
      arguments.json = value;
    else if (option == "--driver")
      arguments.driver = value;
    else if (option == "--graph")
      arguments.graph = value;
    else if (option == "--nodes")
      arguments.nodes = uint32_t(std::strtoul(value.c_str(), nullptr, 10));
    else
      arguments.seconds = std::strtod(value.c_str(), nullptr);
  }
  auto graphs = launch_graphs();
  if (!arguments.graph.empty() &&
      std::find(graphs.begin(), graphs.end(), arguments.graph) == graphs.end())
    return Status::error(Code::not_found, "there is no graph " + arguments.graph);
  if (arguments.nodes && (*arguments.nodes < 1 || *arguments.nodes > 10'000))
    return Status::error(Code::out_of_range, "--nodes takes 1 to 10000");
  for (const char *known : {"", "emulated", "null", "system"})
    if (arguments.driver == known)
      return arguments;
  return Status::error(Code::invalid_argument, "--driver takes emulated, null or system");
}

/// A GPU if there is one, otherwise both substitutes.
Result<std::vector<std::unique_ptr<BenchDriver>>> open_drivers(const std::string &named) {
  std::vector<std::unique_ptr<BenchDriver>> drivers;
  std::vector<DriverClass> substitutes;
  if (named.empty() || named == "system") {
    auto real = BenchDriver::open(DriverClass::real);
    if (real.ok()) {
      drivers.push_back(std::move(*real));
      return drivers;
    }
    Code code = real.status().code();
    if (named == "system" || (code != Code::unsupported && code != Code::not_found))
      return real.take_status();
    substitutes = {DriverClass::emulated, DriverClass::null};
  } else {
    substitutes = {named == "null" ? DriverClass::null : DriverClass::emulated};
  }
  for (DriverClass kind : substitutes) {
    CUGRT_ASSIGN(auto driver, BenchDriver::open(kind));
    drivers.push_back(std::move(driver));
  }
  return drivers;
}

void print_header(const std::vector<std::unique_ptr<BenchDriver>> &drivers) {
  printf("# bench launch\n\n%s", machine_text().c_str());
  for (const auto &driver : drivers)
    printf("; driver %s, CUDA %s", driver->name.c_str(),
           driver::version_text(driver->device->library().version).c_str());
  printf(".\n\n");
  for (const auto &driver : drivers) {
    if (driver->kind == DriverClass::emulated)
      printf("EMULATED: kernels run on this machine's processor while the host's side is timed. "
             "Nothing about a GPU follows.\n");
    if (driver->kind == DriverClass::null)
      printf("NULL: a driver that does nothing. What is timed is the runtime's own share and this "
             "bench's. Nothing about a GPU follows.\n");
  }
  printf("\nTimes are microseconds, medians with quartiles in brackets; the modes of a case take "
         "turns in each round. Large cases have fewer rounds: the last column says how many. "
         "`captured` is one stream's chain of the same kernels, without the run that capturing "
         "programs make before.\n\n");
}

Status measure_cases(const Arguments &arguments, const BenchDriver &driver,
                     std::vector<LaunchCase> &cases) {
  CaseLimits limits;
  limits.seconds =
      arguments.seconds.value_or(driver.kind == DriverClass::real   ? kRealSeconds
                                 : driver.kind == DriverClass::null ? kNullSeconds
                                                                    : kEmulatedSeconds);
  for (std::string_view graph : launch_graphs()) {
    if (!arguments.graph.empty() && graph != arguments.graph)
      continue;
    std::vector<uint32_t> sizes(std::begin(kSizes), std::end(kSizes));
    if (arguments.nodes)
      sizes = {*arguments.nodes};
    for (uint32_t nodes : sizes) {
      auto figures = measure_case(driver, launch_module(graph, nodes), limits);
      if (!figures.ok())
        return figures.take_status().in(driver.name + ", " + std::string(graph) + " of " +
                                        std::to_string(nodes));
      cases.push_back({std::string(graph), nodes, &driver, std::move(*figures)});
    }
  }
  return {};
}

/// Totals of many runs: on a GPU, or on the do-nothing driver.
Status measure_totals(const Arguments &arguments, const BenchDriver &driver,
                      std::vector<AmortisedCase> &cases) {
  for (std::string_view graph : launch_graphs())
    for (uint32_t nodes : kAmortisedSizes) {
      if ((!arguments.graph.empty() && graph != arguments.graph) ||
          nodes != arguments.nodes.value_or(nodes))
        continue;
      CUGRT_ASSIGN(AmortisedCase one,
                   amortise(driver, graph, nodes, arguments.seconds.value_or(kTotalsSeconds)));
      cases.push_back(std::move(one));
    }
  if (!arguments.graph.empty() && arguments.graph != "transformer")
    return {};
  CUGRT_ASSIGN(std::vector<AmortisedCase> mixes, measure_mixes(driver));
  std::move(mixes.begin(), mixes.end(), std::back_inserter(cases));
  return {};
}

Status run(const Arguments &arguments) {
  CUGRT_ASSIGN(auto drivers, open_drivers(arguments.driver));
  print_header(drivers);
  std::vector<LaunchCase> cases;
  std::vector<Row> rows;
  for (const auto &driver : drivers)
    CUGRT_TRY(measure_cases(arguments, *driver, cases));
  for (const LaunchCase &measured : cases)
    add_rows(measured, rows);
  printf("%s\n## Verdict\n\n%s", launch_tables(cases).c_str(), verdict(cases).c_str());
  const BenchDriver &last = *drivers.back();
  if (arguments.totals && last.kind != DriverClass::emulated) {
    std::vector<AmortisedCase> totals;
    CUGRT_TRY(measure_totals(arguments, last, totals));
    printf("\n## Many runs, driver %s\n\n%s", last.name.c_str(), amortised_tables(totals).c_str());
    for (const AmortisedCase &measured : totals)
      add_rows(measured, last, rows);
  }
  if (last.kind != DriverClass::real)
    printf("\nNothing above says anything about a GPU.\n");
  return arguments.json ? write_json(*arguments.json, rows) : Status();
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  return cugrt::bench::bench_main("launch", count, values, cugrt::bench::parse, cugrt::bench::run);
}
