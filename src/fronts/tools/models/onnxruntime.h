// ONNX Runtime beside us: a process of the python3 that PATH finds, where that has the package.
#pragma once

#include "arguments.h"
#include "onnx.h"

#include <string>
#include <utility>
#include <vector>

namespace tool {

struct OnnxRuntimeRequest {
  std::string model;
  std::vector<std::pair<std::string, Array>> inputs;
  std::vector<std::pair<std::string, std::string>> numbers; // inputs as text, with commas
  std::vector<std::string> values; // of the graph, by name; empty: the model's outputs
  unsigned timed_runs = 0;
};

struct OnnxRuntimeAnswer {
  std::string version, provider;
  std::vector<Array> results;
  double median_us = 0; // of timed runs
};

/// The inputs of a run of ours, under the file's names.
OnnxRuntimeRequest same_inputs(const std::string &model, const ImportOptions &import,
                               const OnnxInputs &inputs, const std::vector<Argument> &arguments);

bool has_onnxruntime();
/// Throws UserError with ONNX Runtime's own words where it does not take the model.
OnnxRuntimeAnswer run_onnxruntime(const OnnxRuntimeRequest &request);

} // namespace tool
