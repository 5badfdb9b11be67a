// Sums the time of nodes by kind; see shares.h.
#include "shares.h"

#include "arguments.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <numeric>

namespace tool {

namespace {

constexpr const char *kIdle = "(between nodes)";

std::string row_of(const TimedNode &node, const std::string &by) {
  return by == "op"       ? node.op
         : by == "kernel" ? node.kernel
         : by == "layer"  ? layer_of(node.place)
                          : node.binding;
}

/// `by`: what timed the nodes.
Shares measure_shares(Model &model, const ShareOptions &options,
                      std::span<const cugrt::Value> values, std::string &by) {
  auto settings = cugrt::detail::sized<cugrt_session_options>();
  settings.record_capacity = 1 << 16;
  NodeTimes times(model, settings, values);
  by = times.by();
  const unsigned runs = options.runs ? options.runs : kRunsOfShares;
  Shares shares;
  for (unsigned i = 0; i <= runs; ++i) { // the first one is not counted
    times.session().run(model.function(), values);
    times.session().synchronize();
    const std::vector<TimedGraph> graphs = times.read();
    if (i > 0)
      shares.add(graphs, options.by, runs, i == 1);
  }
  return shares;
}

/// Ceilings of the runtime's device.
Ceilings ceilings_of(cugrt::Runtime &runtime) {
  const cugrt_runtime_info info = runtime.info();
  if (info.emulated)
    return device_ceilings({}, true);
  cugrt::RuntimeOptions options;
  options.driver = CUGRT_DRIVER_PATH;
  options.driver_path = info.driver_path;
  const cugrt_runtime_options c = options.c_options();
  cugrt_text *text = nullptr;
  int32_t usable = 0;
  cugrt::check(cugrt::api().doctor(&c, CUGRT_REPORT_JSON, &text, &usable));
  const auto doctor = nlohmann::ordered_json::parse(cugrt::detail::take_text(text));
  for (const auto &device : doctor["driver"]["devices"])
    if (device["name"] == info.device_name)
      return device_ceilings(device, false);
  return device_ceilings(nlohmann::ordered_json::object(), false);
}

double total(const Operations &operations) {
  return std::accumulate(operations.begin(), operations.end(), 0.0);
}

std::optional<double> part_of_operations(const Ceilings &ceilings, const Share &share) {
  return share.operations_known ? ceilings.of_operations(share.operations, share.us) : std::nullopt;
}

/// "12.3%"; "-" where it is not known.
std::string percent(const std::optional<double> &part) {
  char text[32] = "-";
  if (part)
    std::snprintf(text, sizeof text, "%.1f%%", 100 * *part);
  return text;
}

void print_shares(const std::string &driver, const ShareOptions &options, const std::string &key,
                  const Shares &shares, const std::string &by, const Ceilings &ceilings) {
  std::vector<std::pair<std::string, Share>> rows(shares.rows.begin(), shares.rows.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto &a, const auto &b) { return a.second.us > b.second.us; });
  double all = 0;
  for (const auto &[name, share] : rows)
    all += share.us;
  std::printf("%s, %s: microseconds of a run on the device, by %s; %.2f in all\n", driver.c_str(),
              key.empty() ? "-" : key.c_str(), by.c_str(), all);
  std::printf("ceilings %s\n", ceilings.text().c_str());
  std::printf("%-48s %8s %12s %8s %14s %8s %8s %16s %8s %8s\n", options.by.c_str(), "nodes", "us",
              "share", "bytes", "GB/s", "of it", "operations", "Gops", "of it");
  for (const auto &[name, share] : rows) {
    const double us = share.us, operations = total(share.operations);
    char done[32] = "-", rate[32] = "-";
    if (share.operations_known) {
      std::snprintf(done, sizeof done, "%.0f", operations);
      std::snprintf(rate, sizeof rate, "%.1f", us > 0 ? operations / us / 1e3 : 0);
    }
    std::printf("%-48s %8zu %12.2f %7.1f%% %14llu %8.1f %8s %16s %8s %8s\n", name.c_str(),
                share.nodes, us, all > 0 ? 100 * us / all : 0, (unsigned long long)share.bytes,
                us > 0 ? double(share.bytes) / us / 1e3 : 0,
                percent(ceilings.of_memory(double(share.bytes), us)).c_str(), done, rate,
                percent(part_of_operations(ceilings, share)).c_str());
  }
}

/// {"vector": 8, "f16": 4096}; null where it is not known.
nlohmann::ordered_json operations_json(const Share &share) {
  if (!share.operations_known)
    return {};
  auto json = nlohmann::ordered_json::object();
  for (size_t kind = 0; kind < share.operations.size(); ++kind)
    json[kOperationNames[kind]] = share.operations[kind];
  return json;
}

} // namespace

/// Rows add up to the time of the graphs: where nodes overlap, time counts for the one that ends
/// first. Runs follow each other; times of several regions are summed.
void Shares::add(std::span<const TimedGraph> graphs, const std::string &by, unsigned runs,
                 bool counts) {
  for (const TimedGraph &graph : graphs) {
    double last_us = 0; // nodes are in the order of their ends
    for (const TimedNode &node : graph.nodes) {
      if (node.begin_us > last_us)
        rows[kIdle].us += (node.begin_us - last_us) / runs;
      Share &share = rows[row_of(node, by)];
      share.us += std::max(0.0, node.end_us - std::max(node.begin_us, last_us)) / runs;
      share.nodes += counts;
      share.bytes += counts ? node.bytes : 0;
      share.operations_known = share.operations_known && node.operations;
      for (size_t kind = 0; kind < share.operations.size() && counts && node.operations; ++kind)
        share.operations[kind] += (*node.operations)[kind];
      last_us = std::max(last_us, node.end_us);
    }
  }
}

ShareTables::ShareTables(cugrt::Runtime &runtime, ShareOptions options)
    : options_(std::move(options)), ceilings_(ceilings_of(runtime)) {
  const cugrt_runtime_info info = runtime.info();
  driver_ = info.emulated ? "EMULATED" : info.device_name;
}

void ShareTables::add(const std::string &key, const Shares &shares, const std::string &by) {
  const auto part = [](const std::optional<double> &known) {
    return known ? nlohmann::ordered_json(*known) : nlohmann::ordered_json();
  };
  if (!options_.json)
    print_shares(driver_, options_, key, shares, by, ceilings_);
  for (const auto &[name, share] : shares.rows)
    rows_.push_back({{"case", key},
                     {"driver", driver_},
                     {options_.by, name},
                     {"nodes", share.nodes},
                     {"us", share.us},
                     {"bytes", share.bytes},
                     {"operations", operations_json(share)},
                     {"of_memory", part(ceilings_.of_memory(double(share.bytes), share.us))},
                     {"of_operations", part(part_of_operations(ceilings_, share))},
                     {"not_known", ceilings_.unknown},
                     {"timed_by", by}});
}

void ShareTables::finish() const {
  if (options_.json)
    std::cout << rows_.dump(1) << "\n";
}

void bench_shares(const ModelOptions &model_options, const ShareOptions &options) {
  Model model(model_options);
  if (options.by == "layer" && (!model.onnx() || model.onnx()->inputs().nodes.empty()) &&
      model.plan_reports({})[0].dump().find("\"places\":[") == std::string::npos)
    throw UserError("--by layer goes by the names of nodes of an ONNX file, which cugrt compile "
                    "--names leaves in its pack; '" +
                    model_options.module + "' has none");
  ShareTables tables(model.runtime(), options);
  for (Symbols key : model_options.keys) {
    for (const auto &missing : model.least_of_missing(key))
      key.push_back(missing);
    const std::vector<Argument> arguments = make_arguments(model, key);
    std::string by;
    const Shares shares = measure_shares(model, options, values_of(arguments), by);
    tables.add(symbols_text(key), shares, by);
  }
  tables.finish();
}

} // namespace tool
