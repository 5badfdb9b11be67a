// `cugrt bench --by`: where a run's time on the device goes.
#pragma once

#include "device_times.h"

namespace tool {

constexpr unsigned kRunsOfShares = 5;

struct ShareOptions {
  std::string by;    // op, kernel, binding or layer
  unsigned runs = 0; // 0: kRunsOfShares
  bool json = false;
};

/// Time of the nodes with one name.
struct Share {
  double us = 0; // of a run
  size_t nodes = 0;
  uint64_t bytes = 0; // of a run: of tensors that are read and written
  Operations operations{};
  bool operations_known = true; // of all of its nodes
};

struct Shares {
  std::map<std::string, Share> rows;
  /// Adds one of `runs` runs; nodes, bytes and operations are those of the one that `counts`.
  void add(std::span<const TimedGraph> graphs, const std::string &by, unsigned runs, bool counts);
};

/// A table for each case, or rows as JSON, on stdout.
class ShareTables {
public:
  ShareTables(cugrt::Runtime &runtime, ShareOptions options);
  /// `by`: what timed the nodes.
  void add(const std::string &key, const Shares &shares, const std::string &by);
  void finish() const;

private:
  ShareOptions options_;
  Ceilings ceilings_;
  std::string driver_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

/// Sums the nodes of graphs for each value of the symbols.
void bench_shares(const ModelOptions &model, const ShareOptions &options);

} // namespace tool
