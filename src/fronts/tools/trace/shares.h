// `cugrt bench --by`: where a run's time on the device goes.
#pragma once

#include "model.h"

namespace tool {

struct ShareOptions {
  std::string by;    // op, kernel, binding or layer
  unsigned runs = 0; // 0: a few
  bool json = false;
};

/// A table, or rows as JSON, on stdout: for each value of the symbols what its graphs' nodes take.
void bench_shares(const ModelOptions &model, const ShareOptions &options);

} // namespace tool
