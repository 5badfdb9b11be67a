// bench planning [--json FILE] [--case KIND] [--most BINDINGS] [--no-published]: time and heap of
// planning modules of 10^3 to 10^6 bindings, beside the published passes on the same modules.
//
// Columns: ns_per_binding is make_plan, regions with their edges, under policy `patch`;
// storage_ns_per_binding is PlanMemory at effort `load`, the rewritten module included;
// bytes_per_binding is the larger heap peak of the two, modules excluded. slots_ns_per_binding and
// rewrite_ns_per_binding are the published passes done our way, module in and module out:
// PlanMemory under storage policy `slots` and RewriteCudaGraph; their sum is what compares like for
// like with tvm_ns_per_binding, which is StaticPlanBlockMemory and RewriteCUDAGraph of apache-tvm,
// from the Python that CUGRT_TVM_PYTHON names, up to 10^5 bindings. seed_ns_per_binding is
// make_plan, edges included, under policy `seed`. CPU time of one thread; the least of some runs.
#include "bench/planning_modules.h"
#include "bench/support/bench_main.h"
#include "bench/support/heap.h"

#include "base/file.h"
#include "compiler/passes/pass.h"
#include "compiler/planner/lower/planner.h"
#include "plan/validate/validate.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <optional>

namespace cugrt::bench {
namespace {

constexpr uint32_t kSizes[] = {1'000, 10'000, 100'000, 1'000'000};
constexpr uint32_t kPublishedMost = 100'000;
constexpr int kMostRuns = 7;
constexpr double kEnoughMs = 1000; // no further run once this much time is spent on one figure

struct Arguments {
  std::optional<std::string> json;
  std::string kind; // empty: all
  uint32_t most = kSizes[std::size(kSizes) - 1];
  bool published = true;
};

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string_view value = values[i];
    if (value == "--no-published") {
      arguments.published = false;
      continue;
    }
    if (value != "--json" && value != "--case" && value != "--most")
      return Status::error(Code::invalid_argument,
                           "unknown option " + std::string(value) +
                               "; known: --json, --case, --most, --no-published");
    if (++i == count)
      return Status::error(Code::invalid_argument, std::string(value) + " needs a value");
    if (value == "--json")
      arguments.json = values[i];
    else if (value == "--case")
      arguments.kind = values[i];
    else
      arguments.most = uint32_t(std::strtoul(values[i], nullptr, 10));
  }
  std::span<const std::string_view> kinds = planning_kinds();
  if (!arguments.kind.empty() &&
      std::find(kinds.begin(), kinds.end(), arguments.kind) == kinds.end())
    return Status::error(Code::invalid_argument, "there is no case " + arguments.kind);
  return arguments;
}

// --- The published passes ------------------------------------------------------------------------

struct PipeCloser {
  void operator()(FILE *pipe) const { pclose(pipe); }
};

/// CPU seconds of both passes; a process of its own, so that its heap is not ours.
Result<double> published_seconds(const std::string &python, const PlanningModule &module) {
  TemporaryFolder folder;
  std::string file = folder.path + "/module.txt";
  CUGRT_TRY(write_file(file, to_neutral(module)));
  int repeats = module.launch_count() > 10'000 ? 1 : 3;
  std::string command = "'" + python + "' '" CUGRT_PUBLISHED_SCRIPT "' " + std::to_string(repeats) +
                        " '" + file + "' 2>/dev/null";
  std::unique_ptr<FILE, PipeCloser> pipe(popen(command.c_str(), "r"));
  double seconds = 0;
  if (!pipe || fscanf(pipe.get(), "%lf", &seconds) != 1)
    return Status::error(Code::io_error, "the published passes did not run: " + command);
  return seconds;
}

// --- Ours ----------------------------------------------------------------------------------------

/// Runs `work` until it has been timed often enough; gives the least CPU time in ns.
template <class Work> Result<double> least_ns(Work work) {
  double least = 0, spent = 0;
  for (int run = 0; run < kMostRuns && spent < kEnoughMs; ++run) {
    double start = thread_cpu_ms();
    CUGRT_TRY(work());
    double ms = thread_cpu_ms() - start;
    spent += ms;
    least = run == 0 ? ms : std::min(least, ms);
  }
  return least * 1e6;
}

struct Figures {
  double storage_ns = 0, patch_ns = 0, slots_ns = 0, rewrite_ns = 0, published_ns = 0;
  size_t bytes = 0;
};

Result<Figures> measure(const ir::Module &module) {
  Figures figures;
  CUGRT_ASSIGN(const passes::Pass *pass, passes::require_pass("PlanMemory"));
  passes::PassContext context;
  CUGRT_ASSIGN(figures.storage_ns,
               least_ns([&]() -> Status { return pass->run(module, context).take_status(); }));
  size_t before = heap_bytes();
  reset_heap_peak();
  CUGRT_ASSIGN(ir::Module planned, pass->run(module, context));
  figures.bytes = heap_peak_bytes() - heap_bytes(); // beyond the rewritten module
  before = heap_bytes();
  reset_heap_peak();
  {
    CUGRT_ASSIGN(plan::Plan plan, plan::make_plan(planned, {}));
    figures.bytes = std::max(figures.bytes, heap_peak_bytes() - before);
    CUGRT_TRY(plan::validate(plan));
  }
  CUGRT_ASSIGN(figures.patch_ns,
               least_ns([&]() -> Status { return plan::make_plan(planned, {}).take_status(); }));
  CUGRT_TRY(context.set("memory.storage_policy", "slots"));
  CUGRT_ASSIGN(figures.slots_ns,
               least_ns([&]() -> Status { return pass->run(module, context).take_status(); }));
  CUGRT_ASSIGN(planned, pass->run(module, context));
  CUGRT_ASSIGN(const passes::Pass *rewrite, passes::require_pass("RewriteCudaGraph"));
  CUGRT_ASSIGN(figures.rewrite_ns,
               least_ns([&]() -> Status { return rewrite->run(planned, context).take_status(); }));
  plan::PlannerOptions published;
  published.policy = plan::Policy::published;
  CUGRT_ASSIGN(figures.published_ns, least_ns([&]() -> Status {
                 return plan::make_plan(planned, published).take_status();
               }));
  return figures;
}

Result<Row> measure_case(std::string_view kind, uint32_t bindings, const std::string &python) {
  PlanningModule module = planning_module(kind, bindings);
  CUGRT_ASSIGN(Figures figures, measure(to_ir(module)));
  Row published;
  if (!python.empty() && bindings <= kPublishedMost) {
    CUGRT_ASSIGN(double seconds, published_seconds(python, module));
    published = seconds * 1e9 / bindings;
  }
  auto each = [&](double ns) { return ns / bindings; };
  return Row{{"bench", "planning"},
             {"case", kind},
             {"bindings", bindings},
             {"ns_per_binding", each(figures.patch_ns)},
             {"storage_ns_per_binding", each(figures.storage_ns)},
             {"bytes_per_binding", each(double(figures.bytes))},
             {"slots_ns_per_binding", each(figures.slots_ns)},
             {"rewrite_ns_per_binding", each(figures.rewrite_ns)},
             {"seed_ns_per_binding", each(figures.published_ns)},
             {"tvm_ns_per_binding", published}};
}

Status run(const Arguments &arguments) {
  const char *named = std::getenv("CUGRT_TVM_PYTHON");
  std::string python = arguments.published && named ? named : "";
  if (arguments.published && python.empty())
    fprintf(stderr, "bench planning: CUGRT_TVM_PYTHON names no Python with apache-tvm; "
                    "tvm_ns_per_binding stays empty\n");
  std::vector<Row> rows;
  for (std::string_view kind : planning_kinds())
    for (uint32_t bindings : kSizes) {
      if ((!arguments.kind.empty() && kind != arguments.kind) || bindings > arguments.most)
        continue;
      auto row = measure_case(kind, bindings, python);
      if (!row.ok())
        return row.take_status().in(std::string(kind) + " of " + std::to_string(bindings));
      rows.push_back(std::move(*row));
    }
  return show(rows, arguments.json);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  // Runs after the first find the heap's pages in place: the least time is that of planning.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return cugrt::bench::bench_main("planning", count, values, cugrt::bench::parse,
                                  cugrt::bench::run);
}
