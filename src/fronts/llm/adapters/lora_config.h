// What PEFT's adapter_config.json says of an adapter's numbers. A value.
#pragma once

#include "fronts/llm/adapters/module_pattern.h"

#include <string>
#include <utility>

namespace cugrt::llm {

struct LoraConfig {
  template <class T> using Patterns = std::vector<std::pair<ModulePattern, T>>;

  int64_t rank = 0;
  double alpha = 0;
  bool use_rslora = false;
  Patterns<int64_t> rank_pattern; // the first that matches counts, in the file's order
  Patterns<double> alpha_pattern;

  /// `name` stands for the file in messages. Code::unsupported names a key that changes numbers, or
  /// may do so, in a way that is not followed.
  static Result<LoraConfig> parse(std::string_view json, const std::string &name);
  int64_t rank_of(std::string_view module) const;
  /// What B A x of a module is multiplied by: alpha / r, or with rsLoRA alpha / sqrt(r).
  double scale_of(std::string_view module) const;
};

} // namespace cugrt::llm
