// `cugrt bench --deadline`: how late a model's runs are, alone and beside another model.
#pragma once

#include "model.h"

namespace tool {

struct DeadlineOptions {
  uint64_t deadline_us = 0; // 0: no such bench
  std::string load;         // the other model's file; empty: none
  std::vector<std::string> load_settings;
  unsigned ahead = 1; // of its graphs that may be on their way
  double seconds = 0.5;
  unsigned runs = 0;
  bool json = false;
};
void add_deadline_options(CLI::App &command, DeadlineOptions &options);

void bench_deadline(const ModelOptions &model, const DeadlineOptions &options);

} // namespace tool
