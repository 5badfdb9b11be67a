// Facts of PEFT's adapter_config.json that decide an adapter's numbers. A value.
#pragma once

#include "base/status.h"

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cugrt::llm {

// Patterns of module paths, as PEFT's rank_pattern and alpha_pattern have them: regular expressions
// in the syntax of Python's `re`, matched without going back, so that time is in proportion to the
// pattern and the path.

/// Characters, `.`, classes, \d \w \s and their opposites, groups, `|`, `*` `+` `?` `{m,n}`, `^`,
/// `$`.
class ModulePattern {
public:
  /// At most 1024 characters. Code::unsupported for other syntax.
  static Result<ModulePattern> compile(std::string_view pattern);
  /// Whether it matches the end of a path, from its begin on or from behind a dot.
  bool matches(std::string_view path) const;
  /// Number of steps, of 44 bytes each.
  size_t step_count() const { return steps_.size(); }

private:
  enum class Kind : uint8_t { one_of, split, jump, at_begin, at_end };
  struct Step {
    Kind kind = Kind::one_of;
    int32_t to = 1, or_to = 1; // steps from here on
    std::bitset<256> set{};    // of one_of
  };
  using Steps = std::vector<Step>;
  class Parser;

  /// Steps that a character may be taken by, or the end; each once.
  struct States {
    std::vector<bool> seen;
    std::vector<size_t> list;
  };
  void enter(size_t step, std::string_view path, size_t at, States &states) const;

  Steps steps_;
};

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
  /// The factor of a module's product B A x: alpha / r, or with rsLoRA alpha / sqrt(r).
  double scale_of(std::string_view module) const;
};

} // namespace cugrt::llm
