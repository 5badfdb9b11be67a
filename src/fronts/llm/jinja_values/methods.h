// Methods of texts, dicts, lists and of a loop's variable, and how arguments find parameters.
#pragma once

#include "fronts/llm/jinja_values/machine.h"

#include <span>

namespace cugrt::llm::jinja {

/// The arguments of a call.
struct Given {
  std::vector<Value> plain{};
  std::vector<std::pair<std::string, Value>> named{};
};

/// The arguments in the order of the parameters; null where one is not given.
class Arguments {
public:
  /// `parameters` are names with spaces between, of which the first `required` must be given.
  static Result<Arguments> bind(const Given &given, std::string_view parameters, size_t required);

  const Value *at(size_t i) const { return values_[i]; }
  /// A none argument counts as absent.
  bool has(size_t i) const { return values_[i] && !values_[i]->is_none(); }
  Result<Text> text(size_t i) const;
  Result<Text> text(size_t i, TextView preset) const;
  Result<int64_t> integer(size_t i, int64_t preset) const;
  bool truth(size_t i, bool preset) const { return values_[i] ? is_true(*values_[i]) : preset; }

private:
  std::vector<const Value *> values_;
};

struct LoopState {
  std::shared_ptr<const List> values;
  size_t index = 0;
};
/// loop.NAME; undefined where there is none.
Value loop_attribute(const LoopState &loop, std::string_view name);

enum class MethodKind : uint8_t { none, callable, changing };
/// Whether a value has a method, and whether it would change the value.
MethodKind method_kind(const Value &value, std::string_view name);
Result<Value> call_method(Machine &machine, const Value &value, std::string_view name,
                          const Given &given);

/// Functions that filters share with methods. The lines of a text, which every separator of lines
/// in Unicode ends.
std::vector<TextView> lines_of(TextView text, bool keeps_ends = false);
enum class Case : uint8_t { lower, upper, title, capital };
Value change_case(Machine &machine, const Text &text, Case to);
Result<Value> replace(Machine &machine, const Text &text, const Text &from, const Text &to,
                      int64_t count);

// Filters and tests, which templates call by name: value | filter(..), value is test(..).

/// Code::unsupported with its name when it is not known.
Result<Value> apply_filter(Machine &machine, std::string_view name, const Value &of,
                           const Given &given);
Result<bool> apply_test(Machine &machine, std::string_view name, const Value &of,
                        const Given &given);

struct Filter {
  std::string_view name, parameters;
  size_t required;
  Result<Value> (*run)(Machine &, const Value &, const Arguments &);
};
/// Filters of one value, and of lists.
std::span<const Filter> value_filters();
std::span<const Filter> list_filters();
/// The value's attribute, or element; a path of several has dots between.
Result<Value> attribute_at(Machine &machine, const Value &of, const Value &path);

} // namespace cugrt::llm::jinja
