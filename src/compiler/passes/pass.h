// Passes: module in, module out. Each is a pure function that reads a verified module and builds
// another; each can be run alone, text in and text out.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"
#include "ops/table/ops.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::passes {

enum class OptionType : uint8_t {
  flag,   // true or false
  choice, // one of the words that `choices` lists, separated by '|'
  ops,    // names of tensor-level ops, separated by ','; none when empty
  number, // a whole number within the bounds that `choices` has
};

/// A row of options.def.
struct OptionInfo {
  std::string_view name;
  OptionType type;
  std::string_view default_value;
  std::string_view description;
  std::string_view choices; // "true|false" of flags; least and most of numbers; none of ops
};

std::span<const OptionInfo> known_options();

/// Named settings that passes read. Values are kept as text and checked against the option's type
/// when set.
class PassContext {
public:
  /// Errors: not_found for an unknown option, listing the known ones, and for an unknown op;
  /// invalid_argument for another value that is not of the option's type.
  Status set(std::string_view name, std::string_view value);
  /// Likewise, unless the option is set already.
  Status set_default(std::string_view name, std::string_view value) {
    return values_.contains(name) ? Status() : set(name, value);
  }
  /// Sets from "name=value". Errors: those of set(), and invalid_argument for another form.
  Status set_from_text(std::string_view setting);

  /// The value set, or the option's default. The option must be known and of that type.
  bool flag(std::string_view name) const;
  std::string_view choice(std::string_view name) const { return value(name, OptionType::choice); }
  std::vector<ir::Op> ops(std::string_view name) const;
  int64_t number(std::string_view name) const;

  /// Appends notes about what passes did and could not do to `notes`, which must outlive that.
  void collect_notes(std::vector<std::string> *notes) { notes_ = notes; }
  /// A line for reports; nothing where none are collected.
  void note(std::string line) const {
    if (notes_)
      notes_->push_back(std::move(line));
  }
  /// Notes "@main: 3 times ..".
  void note(const std::string &where, const std::string &text, size_t times) const {
    note(where + ": " + (times > 1 ? std::to_string(times) + " times " : "") + text);
  }

private:
  std::string_view value(std::string_view name, OptionType type) const;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> *notes_ = nullptr;
};

struct Pass {
  std::string_view name;        // "LegalizeOps"
  std::string_view description; // one line
  Result<ir::Module> (*run)(const ir::Module &module, const PassContext &context);
};

/// All passes, in the order in which they can follow each other. The last, RewriteCudaGraph, is not
/// in the default pipeline: the planner finds regions by itself.
std::span<const Pass> all_passes();
/// Nullptr when there is none.
const Pass *find_pass(std::string_view name);
/// Error not_found that lists the known passes, when there is none.
Result<const Pass *> require_pass(std::string_view name);

/// The passes, in order, from a module as written to one that the planner takes.
std::span<const Pass *const> default_pipeline();
/// Runs passes one after the other; an error names the pass.
Result<ir::Module> run_passes(ir::Module module, std::span<const Pass *const> pipeline,
                              const PassContext &context);

} // namespace cugrt::passes
