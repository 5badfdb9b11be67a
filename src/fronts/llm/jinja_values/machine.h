// Limits of a rendering: steps, memory, and lengths. The machine makes the values of a
// template.
#pragma once

#include "fronts/llm/jinja_values/value.h"

#include <algorithm>
#include <optional>

namespace cugrt::llm::jinja {

struct Limits {
  size_t steps = size_t(8) << 20;       // of nodes, elements, and 64 characters
  size_t bytes = size_t(96) << 20;      // of values at once
  size_t characters = size_t(16) << 20; // of a text
  uint32_t depth = 500;                 // of expressions, statements and macros within each other
  size_t value_depth = 100;             // of lists and dicts
};

class Machine {
public:
  explicit Machine(const Limits &limits) : limits_(limits) { meter_.limit_bytes = limits.bytes; }

  /// Counts `count` steps.
  void work(size_t count) { steps_ += count; }
  /// Whether a text of so many characters may be made; otherwise the rendering ends.
  bool has_room(size_t characters) {
    is_too_long_ = is_too_long_ || characters > limits_.characters;
    return !is_too_long_;
  }
  bool is_over() const {
    return steps_ > limits_.steps || meter_.is_exceeded || is_too_long_ || is_too_deep_;
  }
  /// Whether two values may be compared, or a text be looked for in another one; it is counted.
  bool may_compare(const Value &a, const Value &b) {
    work(std::min(weight_of(a), weight_of(b)));
    return !is_over();
  }
  bool may_search(size_t text, size_t what) {
    work(text / 64 + text * what / 256);
    return !is_over();
  }
  /// Code::out_of_range once a limit is exceeded.
  Status check() const;
  /// One level deeper.
  Status enter();
  void leave() { --depth_; }

  /// Counts memory of text that is written and is no value yet.
  void hold(size_t bytes) {
    meter_.used_bytes += bytes;
    meter_.is_exceeded = meter_.is_exceeded || meter_.used_bytes > meter_.limit_bytes;
  }
  void release(size_t bytes) { meter_.used_bytes -= bytes; }

  Value text(Text text);
  Value text(TextView view) { return text(Text(view)); }
  Value text(std::string_view ascii) { return text(text_of(ascii)); }
  Value list(ListKind kind, std::vector<Value> values);
  Value dict(Dict::Entries entries);

private:
  Limits limits_;
  Meter meter_;
  size_t steps_ = 0;
  uint32_t depth_ = 0;
  bool is_too_long_ = false, is_too_deep_ = false;
};

/// A text that grows within the limits.
class TextBuilder {
public:
  explicit TextBuilder(Machine &machine) : machine_(machine) {}
  void add(TextView text) {
    machine_.work(text.size() / 64);
    if (machine_.has_room(text_.size() + text.size()))
      text_ += text;
  }
  void work() { machine_.work(1); }
  /// Whether nothing more is taken.
  bool is_full() const { return machine_.is_over(); }
  void add(char32_t c) { add(TextView(&c, 1)); }
  void add(size_t count, char32_t c) {
    if (count < SIZE_MAX / 2 && machine_.has_room(text_.size() + count))
      text_.append(count, c);
  }
  void add_ascii(std::string_view text) { add(text_of(text)); }
  size_t size() const { return text_.size(); }
  Text take() { return std::move(text_); }

private:
  Machine &machine_;
  Text text_;
};

/// Code::invalid_argument: a template does what its values do not allow.
Status wrong(std::string message);

/// Writes as Python's str and repr do; an undefined value is empty.
void print(TextBuilder &out, const Value &value);
void print_repr(TextBuilder &out, const Value &value);
Value to_text(Machine &machine, const Value &value);

/// The elements that a loop goes over; those of a generator are taken out of it.
Result<std::vector<Value>> elements_of(Machine &machine, const Value &value);
Result<bool> contains(Machine &machine, const Value &container, const Value &value);
/// is_equal and find, counted; beyond the limit, values count as different and the rendering ends.
bool equal(Machine &machine, const Value &a, const Value &b);
const Value *look_up(Machine &machine, const Dict &dict, const Value &key);
/// value.name and value[key]; undefined where there is none.
Result<Value> attribute_of(Machine &machine, const Value &value, std::string_view name);
Result<Value> item_of(Machine &machine, const Value &value, const Value &key);
/// A limit is null or none where it is open.
Result<Value> slice_of(Machine &machine, const Value &value, const Value *begin, const Value *end,
                       const Value *step);
/// "+", "-", "*", "/", "//", "%" and "**".
Result<Value> binary(Machine &machine, std::string_view sign, const Value &a, const Value &b);
/// "==", "!=", "<", "<=", ">", ">=", "in" and "not in".
Result<bool> holds(Machine &machine, std::string_view sign, const Value &a, const Value &b);
/// text % values.
Result<Value> format_percent(Machine &machine, const Text &text, const Value &values);

/// Hugging Face's tojson: json.dumps.
struct JsonForm {
  bool is_ascii = false, sorts_keys = false;
  std::optional<Text> indent = std::nullopt; // of one level; without it all is one line
  Text between = U", ", behind_key = U": ";
};
Result<Value> to_json(Machine &machine, const Value &value, const JsonForm &form);

} // namespace cugrt::llm::jinja
