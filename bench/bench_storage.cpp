// bench storage [--json FILE] [--offsets FOLDER] [FILE.csv...]: peak, bound, ratio and time of
// every packing policy on the same instances: files in MiniMalloc's CSV format, with gaps,
// alignment and fixed offsets. Without files: networks made up in storage_instances.cpp.
//
// Policies: `greedy` (descending size, best fit), `portfolio`
// (the best of fourteen greedy placements), then ours: `load`, `quick` (below half a second for
// some hundreds of buffers) and `build`. FOLDER gets CASE.csv with the offsets of the best of them,
// the first in this order.
#include "bench/storage_instances.h"
#include "bench/support/bench_main.h"

#include "base/file.h"
#include "tests/support/validate_packing.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>

namespace cugrt::bench {
namespace {

using plan::Effort;
using plan::PackingOptions;
using plan::PackingPolicy;

constexpr int64_t kQuickNodes = 60'000;

struct Policy {
  const char *name;
  PackingOptions options;
};
constexpr Policy kPolicies[] = {
    {"greedy", {.policy = PackingPolicy::greedy}},
    {"portfolio", {.policy = PackingPolicy::portfolio}},
    {"load", {.effort = Effort::load}},
    {"quick", {.node_budget = kQuickNodes}},
    {"build", {.effort = Effort::build}},
};

struct Arguments {
  std::optional<std::string> json, offsets;
  std::vector<std::string> files;
};

Result<Arguments> parse(int count, char **values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    std::string_view value = values[i];
    if (value == "--json" || value == "--offsets") {
      if (++i == count)
        return Status::error(Code::invalid_argument, std::string(value) + " needs a path");
      (value == "--json" ? arguments.json : arguments.offsets) = values[i];
    } else if (value.starts_with("--")) {
      return Status::error(Code::invalid_argument,
                           "unknown option " + std::string(value) + "; known: --json, --offsets");
    } else {
      arguments.files.emplace_back(value);
    }
  }
  return arguments;
}

Result<std::vector<StorageInstance>> instances(const Arguments &arguments) {
  std::vector<StorageInstance> list;
  for (const std::string &file : arguments.files) {
    CUGRT_ASSIGN(StorageInstance instance, read_instance(file));
    list.push_back(std::move(instance));
  }
  if (list.empty()) {
    list.push_back(resnet_instance(143));
    list.push_back(unet_instance(5));
    list.push_back(prefill_instance(32, 2048));
  }
  return list;
}

/// Runs every policy on the instance; returns the best packing, after an independent check.
Result<plan::Packing> measure(const StorageInstance &instance, std::vector<Row> &rows) {
  CUGRT_ASSIGN(int64_t bound, plan::lower_bound_bytes(instance.input()));
  std::optional<plan::Packing> best;
  for (const Policy &policy : kPolicies) {
    double start = thread_cpu_ms();
    auto packed = plan::find_packing(instance.input(), policy.options);
    double ms = thread_cpu_ms() - start;
    CUGRT_ASSIGN(plan::Packing packing, std::move(packed));
    CUGRT_TRY(test::validate_packing(instance.input(), packing));
    rows.push_back({{"bench", "storage"},
                    {"case", instance.name},
                    {"policy", policy.name},
                    {"buffers", instance.items.size()},
                    {"bound_bytes", bound},
                    {"peak_bytes", packing.peak_bytes},
                    {"ratio", bound > 0 ? double(packing.peak_bytes) / double(bound) : 1.0},
                    {"ms", ms}});
    if (!best || packing.peak_bytes < best->peak_bytes)
      best = std::move(packing);
  }
  return std::move(*best);
}

Status run(const Arguments &arguments) {
  CUGRT_ASSIGN(std::vector<StorageInstance> list, instances(arguments));
  if (arguments.offsets) {
    std::error_code error;
    std::filesystem::create_directories(*arguments.offsets, error);
    if (error)
      return Status::error(Code::io_error,
                           "cannot make the folder " + *arguments.offsets + ": " + error.message());
  }
  std::vector<Row> rows;
  for (const StorageInstance &instance : list) {
    auto best = measure(instance, rows);
    if (!best.ok())
      return best.take_status().in(instance.name);
    if (arguments.offsets)
      CUGRT_TRY(write_file(*arguments.offsets + "/" + instance.name + ".csv",
                           offsets_csv(instance, *best)));
  }
  return show(rows, arguments.json);
}

} // namespace
} // namespace cugrt::bench

int main(int count, char **values) {
  return cugrt::bench::bench_main("storage", count, values, cugrt::bench::parse, cugrt::bench::run);
}
