// Totals of many runs; see amortise.h.
#include "bench/launch/amortise.h"

#include "bench/support/samples.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace cugrt::bench {
namespace {

constexpr size_t kRepeats = 3;

using Call = std::function<Status()>;

Status idle(const BenchDriver &driver) { return driver.device->context().synchronize(); }

/// The smallest count at which `graph` has taken less than `plain`, by first run and mean repeat.
std::optional<uint64_t> break_even(const RunTotals &plain, const RunTotals &graph) {
  double behind = graph.first_us - plain.first_us, gain = plain.repeat_us - graph.repeat_us;
  if (behind <= 0)
    return 1;
  if (gain <= 0)
    return std::nullopt;
  return static_cast<uint64_t>(std::ceil(behind / gain)) + 1;
}

double last_total(const RunTotals &totals) {
  double last = 0;
  for (const std::optional<double> &total : totals.total_us)
    last = total.value_or(last);
  return last;
}

/// Of several measurements the one with the median total.
template <class Measure> Result<RunTotals> middle_of(Measure measure) {
  std::vector<RunTotals> all;
  for (size_t i = 0; i < kRepeats; ++i) {
    CUGRT_ASSIGN(RunTotals one, measure());
    all.push_back(std::move(one));
  }
  std::sort(all.begin(), all.end(),
            [](const RunTotals &a, const RunTotals &b) { return last_total(a) < last_total(b); });
  return std::move(all[kRepeats / 2]);
}

/// Runs until each of kRunCounts is reached, or until the next one would take too long.
Result<RunTotals> run_to_counts(const BenchDriver &driver, const std::string &mode, double seconds,
                                const Call &call) {
  RunTotals totals;
  totals.mode = mode;
  CUGRT_TRY(idle(driver));
  double spent = 0;
  uint32_t done = 0;
  for (uint32_t count : kRunCounts) {
    double each = done ? spent / done : 0;
    if (each * count > seconds * 1e6) {
      totals.total_us.push_back(std::nullopt);
      continue;
    }
    double start = now_us();
    for (; done < count; ++done)
      CUGRT_TRY(call());
    CUGRT_TRY(idle(driver));
    spent += now_us() - start;
    totals.total_us.push_back(spent);
    if (count == 1)
      totals.first_us = spent;
  }
  totals.repeat_us = done > 1 ? (spent - totals.first_us) / (done - 1) : 0;
  return totals;
}

// --- Mixes ---------------------------------------------------------------------------------------

struct Mix {
  const char *name;
  int64_t batch, length;
  uint32_t runs;
};
constexpr Mix kMixes[] = {
    {"mix_1x512", 1, 512, 1000}, {"mix_8x512", 8, 512, 100}, {"mix_32x1024", 32, 1024, 10}};
constexpr TransformerSize kMixSize = {
    .layers = 1, .heads = 8, .width = 512, .hidden = 2048, .most_batch = 32, .most_length = 1024};

/// Which mix each run is of: all of one mix, or all mixes spread evenly over the whole.
std::vector<size_t> schedule(std::optional<size_t> only) {
  std::vector<size_t> runs;
  if (only) {
    runs.assign(kMixes[*only].runs, *only);
    return runs;
  }
  std::vector<std::pair<double, size_t>> places;
  for (size_t mix = 0; mix < std::size(kMixes); ++mix)
    for (uint32_t i = 0; i < kMixes[mix].runs; ++i)
      places.emplace_back((i + 0.5) / kMixes[mix].runs, mix);
  std::sort(places.begin(), places.end());
  for (const auto &[place, mix] : places)
    runs.push_back(mix);
  return runs;
}

class MixMeasurement {
public:
  MixMeasurement(const BenchDriver &driver, Subject &subject) : driver_(driver), subject_(subject) {
    for (const Mix &mix : kMixes)
      dims_.push_back({mix.batch, mix.length, int64_t(kMixSize.width)});
  }

  Status prepare() {
    for (size_t i = dims_.size(); i-- > 0;) { // the largest first, see Subject::shape
      CUGRT_ASSIGN(Subject::Shape shape, subject_.shape(dims_[i]));
      shapes_.insert(shapes_.begin(), std::move(shape));
    }
    return {};
  }

  Result<AmortisedCase> run(std::optional<size_t> only) {
    AmortisedCase made;
    made.name = only ? kMixes[*only].name : "mix_all";
    made.graph = "transformer";
    made.nodes = 1;
    made.node_count = shapes_[0].launches.node_count();
    std::vector<size_t> runs = schedule(only);
    made.runs = {static_cast<uint32_t>(runs.size())};
    for (const char *mode : {"plain", "explicit", "patched"}) {
      CUGRT_ASSIGN(RunTotals totals, middle_of([&] { return run_mode(mode, runs); }));
      made.ways.push_back(std::move(totals));
    }
    made.break_even_runs = break_even(made.ways[0], made.ways[1]);
    made.note = only ? "the patched instance comes from another shape"
                     : "1,110 runs, the three shapes spread evenly";
    return made;
  }

private:
  Result<RunTotals> run_mode(const std::string &mode, const std::vector<size_t> &runs) {
    RunTotals totals;
    totals.mode = mode;
    std::unique_ptr<runtime::Session> session;
    if (mode != "plain") {
      CUGRT_ASSIGN(session, subject_.open(mode == "patched" ? Instances::patched : Instances::own));
      if (mode == "patched") // the instance is there already, at another shape
        CUGRT_TRY(subject_.run(*session, dims_[(runs[0] + 1) % dims_.size()]));
    }
    auto call = [&](size_t mix) {
      return session ? subject_.run(*session, dims_[mix])
                     : shapes_[mix].launches.launch(driver_.stream.ref());
    };
    CUGRT_TRY(idle(driver_));
    double start = now_us();
    CUGRT_TRY(call(runs[0]));
    totals.first_us = now_us() - start;
    for (size_t i = 1; i < runs.size(); ++i)
      CUGRT_TRY(call(runs[i]));
    CUGRT_TRY(idle(driver_));
    double total = now_us() - start;
    totals.total_us = {total};
    totals.repeat_us = (total - totals.first_us) / double(runs.size() - 1);
    if (session) {
      CUGRT_ASSIGN(runtime::Session::Totals counted, session->totals());
      totals.built = counted.counters.regions_built;
      totals.patched = counted.counters.regions_patched;
    }
    return totals;
  }

  const BenchDriver &driver_;
  Subject &subject_;
  std::vector<std::vector<int64_t>> dims_; // by mix
  std::vector<Subject::Shape> shapes_;
};

} // namespace

Result<AmortisedCase> amortise(const BenchDriver &driver, std::string_view graph, uint32_t nodes,
                               double seconds) {
  CUGRT_ASSIGN(driver::ContextGuard guard, driver.device->context().enter());
  LaunchModule module = launch_module(graph, nodes);
  CUGRT_ASSIGN(std::unique_ptr<Subject> subject, Subject::make(driver, module.text));
  CUGRT_ASSIGN(Subject::Shape shape, subject->shape(module.shapes[0]));
  AmortisedCase made;
  made.graph = graph;
  made.name = "amortise_" + made.graph + "_" + std::to_string(nodes);
  made.nodes = nodes;
  made.node_count = shape.launches.node_count();
  made.runs.assign(std::begin(kRunCounts), std::end(kRunCounts));
  CUGRT_ASSIGN(RunTotals plain, middle_of([&] {
                 return run_to_counts(driver, "plain", seconds,
                                      [&] { return shape.launches.launch(driver.stream.ref()); });
               }));
  CUGRT_ASSIGN(RunTotals built, middle_of([&]() -> Result<RunTotals> {
                 CUGRT_ASSIGN(auto session, subject->open(Instances::own));
                 return run_to_counts(driver, "explicit", seconds,
                                      [&] { return subject->run(*session, module.shapes[0]); });
               }));
  built.built = 1;
  made.break_even_runs = break_even(plain, built);
  if (!plain.total_us.back() || !built.total_us.back())
    made.note = "counts that would take too long were left out";
  made.ways = {std::move(plain), std::move(built)};
  return made;
}

Result<std::vector<AmortisedCase>> measure_mixes(const BenchDriver &driver) {
  CUGRT_ASSIGN(driver::ContextGuard guard, driver.device->context().enter());
  CUGRT_ASSIGN(std::unique_ptr<Subject> subject, Subject::make(driver, transformer_text(kMixSize)));
  MixMeasurement measurement(driver, *subject);
  CUGRT_TRY(measurement.prepare());
  std::vector<AmortisedCase> cases;
  for (size_t mix = 0; mix < std::size(kMixes); ++mix) {
    CUGRT_ASSIGN(AmortisedCase one, measurement.run(mix));
    cases.push_back(std::move(one));
  }
  CUGRT_ASSIGN(AmortisedCase all, measurement.run(std::nullopt));
  cases.push_back(std::move(all));
  return cases;
}

} // namespace cugrt::bench
