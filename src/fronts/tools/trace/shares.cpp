// Time of nodes added up by what they are; see shares.h.
#include "shares.h"

#include "device_times.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iostream>

namespace tool {

namespace {

constexpr unsigned kRunsOfShares = 5;

/// What one key's graphs spend their time on.
struct Share {
  double us = 0; // of a run
  size_t nodes = 0;
  uint64_t bytes = 0; // of a run: of tensors that are read and written
};

constexpr const char *kIdle = "(between nodes)";

/// Of "/model/layers.0/mlp/MatMul", as exporters name nodes by the modules that they are in,
/// "/model/layers.0": up to the first part that ends in a number, else all but the last part.
std::string layer_of(const std::string &place) {
  for (size_t end = place.find('/', 1); end != std::string::npos; end = place.find('/', end + 1))
    if (std::isdigit(static_cast<unsigned char>(place[end - 1])))
      return place.substr(0, end);
  const size_t last = place.rfind('/');
  return last == std::string::npos || last == 0 ? place : place.substr(0, last);
}

std::string row_of(const TimedNode &node, const std::string &by) {
  return by == "op"       ? node.op
         : by == "kernel" ? node.kernel
         : by == "layer"  ? layer_of(node.place)
                          : node.binding;
}

/// Rows add up to the time of the graphs: where nodes overlap, time counts for the one that ends
/// first. Of one run after another; what several regions take is added up. `by`: what timed the
/// nodes.
std::map<std::string, Share> measure_shares(Model &model, const ShareOptions &options,
                                            std::span<const cugrt::Value> values, std::string &by) {
  auto settings = cugrt::detail::sized<cugrt_session_options>();
  settings.record_capacity = 1 << 16;
  NodeTimes times(model, settings, values);
  by = times.by();
  const unsigned runs = options.runs ? options.runs : kRunsOfShares;
  std::map<std::string, Share> shares;
  for (unsigned i = 0; i <= runs; ++i) { // the first one is not counted
    times.session().run(model.function(), values);
    times.session().synchronize();
    const std::vector<TimedGraph> graphs = times.read();
    if (i == 0)
      continue;
    for (const TimedGraph &graph : graphs) {
      double last_us = 0; // nodes are in the order of their ends
      for (const TimedNode &node : graph.nodes) {
        if (node.begin_us > last_us)
          shares[kIdle].us += (node.begin_us - last_us) / runs;
        Share &share = shares[row_of(node, options.by)];
        share.us += std::max(0.0, node.end_us - std::max(node.begin_us, last_us)) / runs;
        share.nodes += i == 1;
        share.bytes += i == 1 ? node.bytes : 0;
        last_us = std::max(last_us, node.end_us);
      }
    }
  }
  return shares;
}

void print_shares(const Model &model, const ShareOptions &options, const std::string &key,
                  const std::map<std::string, Share> &shares, const std::string &by) {
  std::vector<std::pair<std::string, Share>> rows(shares.begin(), shares.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto &a, const auto &b) { return a.second.us > b.second.us; });
  double all = 0;
  for (const auto &[name, share] : rows)
    all += share.us;
  std::printf("%s, %s: microseconds of a run on the device, by %s; %.2f in all\n",
              model.driver().c_str(), key.empty() ? "-" : key.c_str(), by.c_str(), all);
  std::printf("%-48s %8s %12s %8s %14s %8s\n", options.by.c_str(), "nodes", "us", "share", "bytes",
              "GB/s");
  for (const auto &[name, share] : rows)
    std::printf("%-48s %8zu %12.2f %7.1f%% %14llu %8.1f\n", name.c_str(), share.nodes, share.us,
                all > 0 ? 100 * share.us / all : 0, (unsigned long long)share.bytes,
                share.us > 0 ? double(share.bytes) / share.us / 1e3 : 0);
}

} // namespace

void bench_shares(const ModelOptions &model_options, const ShareOptions &options) {
  std::vector<Symbols> keys = symbol_combinations(model_options.settings);
  Model model(model_options, nullptr);
  if (options.by == "layer" && model.onnx_inputs().nodes.empty())
    throw UserError("--by layer goes by the names of nodes of an ONNX file; '" +
                    model_options.module + "' has none");
  auto rows = nlohmann::ordered_json::array();
  for (Symbols key : keys) {
    for (const auto &missing : model.least_of_missing(key))
      key.push_back(missing);
    std::vector<Argument> arguments = model.arguments(key);
    std::string by;
    const auto shares = measure_shares(model, options, values_of(arguments), by);
    if (!options.json)
      print_shares(model, options, symbols_text(key), shares, by);
    for (const auto &[name, share] : shares)
      rows.push_back({{"case", symbols_text(key)},
                      {"driver", model.driver()},
                      {options.by, name},
                      {"nodes", share.nodes},
                      {"us", share.us},
                      {"bytes", share.bytes},
                      {"timed_by", by}});
  }
  if (options.json)
    std::cout << rows.dump(1) << "\n";
}

} // namespace tool
