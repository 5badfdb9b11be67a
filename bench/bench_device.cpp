// bench device [--json FILE] [--only CASES] [--stage N]: what a device does at most, and what
// nodes, barriers and exchanges cost: the figures that designs of kernels rest on. CASES are names
// with commas between.
//
//   stage             0: ceilings; 1: nodes of graphs and what waits for one another; 2: rings that
//                     stream memory
//   count             nodes, exchanges or reads of a run
//   us                of a run: the median of seven rounds, in which the cases take turns, by
//   events us_each           us / count bytes, gb_per_s   that a run reads, and how many of 1e9 a
//   second operations, tera_per_s
//                     multiplications and additions of a run, and how many of 1e12 a second
//   result            "right" where the first run's result was compared and is
//   not_measured      why there is no time, else null
//
// A chain is a graph of 200 kernel nodes, one block a multiprocessor. A ring is up to 100 KiB a
// block that a node fetches from memory which no cache holds, before it waits for its predecessor
// or behind that; a block's own result depends on the predecessor's others, so that a node which
// begins too early is seen. Every fourth node of a cooperative chain is one, with a barrier of the
// grid.
//
// Without a GPU sizes are small and times are null: the emulated driver's say nothing (EMULATED).
// What a driver refuses is told in not_measured, and the other cases go on.
#include "bench/device/device_bench.h"
#include "bench/support/bench_main.h"
#include "bench/support/samples.h"

#include <algorithm>

namespace cugrt::bench {
namespace {

constexpr int kRounds = 7;

struct Arguments {
  std::optional<std::string> json, only;
  std::optional<int> stage;
};

std::vector<DeviceCase> all_cases() {
  std::vector<DeviceCase> cases;
  for (const std::span<const DeviceCase> some :
       {ceiling_cases(), chain_cases(), stream_cases(), exchange_cases()})
    cases.insert(cases.end(), some.begin(), some.end());
  return cases;
}

/// The cases that are asked for.
Result<std::vector<DeviceCase>> chosen_cases(const Arguments &arguments) {
  std::vector<DeviceCase> cases = all_cases();
  if (arguments.only) {
    std::vector<DeviceCase> named;
    std::string_view list = *arguments.only;
    while (!list.empty()) {
      const std::string_view name = list.substr(0, list.find(','));
      list.remove_prefix(std::min(list.size(), name.size() + 1));
      const auto found = std::find_if(cases.begin(), cases.end(),
                                      [&](const DeviceCase &c) { return name == c.name; });
      if (found == cases.end())
        return Status::error(Code::invalid_argument, "no case is called " + std::string(name));
      named.push_back(*found);
    }
    cases = std::move(named);
  }
  if (arguments.stage)
    std::erase_if(cases, [&](const DeviceCase &c) { return c.stage != *arguments.stage; });
  return cases;
}

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if ((name != "--json" && name != "--only" && name != "--stage") || ++i == count)
      return Status::error(Code::invalid_argument,
                           "takes --json FILE, --only CASES and --stage 0, 1 or 2, not " +
                               std::string(name));
    const std::string_view value = values[i];
    if (name == "--stage") {
      if (value != "0" && value != "1" && value != "2")
        return Status::error(Code::invalid_argument, "--stage takes 0, 1 or 2");
      arguments.stage = value[0] - '0';
    } else {
      (name == "--json" ? arguments.json : arguments.only) = value;
    }
  }
  return arguments;
}

struct Measured {
  DeviceCase c;
  std::optional<DeviceWork> work; // nothing where it could not be made
  std::string why;                // it is not measured
  bool right = false;
  Samples us;
};

/// Makes the work, runs it once and looks at the result.
Status begin(DeviceBench &bench, Measured &m) {
  CUGRT_ASSIGN(m.work, m.c.prepare(bench));
  CUGRT_TRY(bench.stream().synchronize()); // memory is zeroed on it
  CUGRT_TRY(m.work->enqueue());
  CUGRT_TRY(bench.stream().synchronize());
  CUGRT_ASSIGN(m.why, m.work->check());
  m.right = m.why.empty();
  return {};
}

Status measure_rounds(DeviceBench &bench, std::vector<Measured> &cases) {
  CUGRT_ASSIGN(const auto first, driver::Event::create(bench.context(), driver::Event::Timing::on));
  CUGRT_ASSIGN(const auto last, driver::Event::create(bench.context(), driver::Event::Timing::on));
  for (int round = 0; round < kRounds; ++round)
    for (Measured &m : cases) {
      if (!m.right)
        continue;
      CUGRT_TRY(first.record(bench.stream()));
      CUGRT_TRY(m.work->enqueue());
      CUGRT_TRY(last.record(bench.stream()));
      CUGRT_TRY(last.synchronize());
      CUGRT_ASSIGN(const float milliseconds, last.milliseconds_since(first));
      m.us.add(milliseconds * 1e3);
    }
  return {};
}

Row row_of(const DeviceBench &bench, const Measured &m) {
  const std::optional<double> us = m.us.median();
  const DeviceWork none, &work = m.work ? *m.work : none;
  auto a_second = [&](double value, double unit) {
    return us && value > 0 ? Row(value / *us * 1e6 / unit) : Row();
  };
  auto known = [](double value) { return value > 0 ? Row(uint64_t(value)) : Row(); };
  return {{"bench", "device"},
          {"stage", m.c.stage},
          {"case", m.c.name},
          {"count", m.work ? Row(uint64_t(work.count)) : Row()},
          {"us", us ? Row(*us) : Row()},
          {"us_each", us ? Row(*us / work.count) : Row()},
          {"bytes", known(work.bytes)},
          {"gb_per_s", a_second(work.bytes, 1e9)},
          {"operations", known(work.operations)},
          {"tera_per_s", a_second(work.operations, 1e12)},
          {"result", m.right ? Row("right") : Row()},
          {"not_measured", m.why.empty() ? Row() : Row(m.why)},
          {"driver", bench.name()}};
}

Status run(const Arguments &arguments) {
  CUGRT_ASSIGN(const std::vector<DeviceCase> chosen, chosen_cases(arguments));
  CUGRT_ASSIGN(const std::unique_ptr<DeviceBench> bench, DeviceBench::open(CUGRT_BENCH_EMULATOR));
  CUGRT_ASSIGN(const driver::ContextGuard guard, bench->context().enter());
  CUGRT_TRY(bench->require(80, "cp.async, which this bench is about"));
  std::vector<Measured> cases;
  for (const DeviceCase &c : chosen) {
    Measured &m = cases.emplace_back();
    m.c = c;
    if (const Status status = begin(*bench, m); !status.ok())
      m.why = status.message();
  }
  if (!bench->emulated())
    CUGRT_TRY(measure_rounds(*bench, cases));
  std::vector<Row> rows, shown;
  for (Measured &m : cases) {
    if (bench->emulated() && m.right)
      m.why = "no GPU: the emulated driver's times say nothing";
    rows.push_back(row_of(*bench, m));
  }
  shown = rows;
  for (Row &row : shown) // a case's reason alone; the line above says what all have
    if (bench->emulated() && !row["result"].is_null())
      row["not_measured"] = nullptr;
  std::printf("%s\n", bench->emulated() ? "EMULATED: there are no times of a GPU; sizes are small"
                                        : "one block a multiprocessor; cases take turns");
  return show(rows, arguments.json, &shown);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  return cugrt::bench::bench_main("device", count, values, cugrt::bench::parse, cugrt::bench::run);
}
