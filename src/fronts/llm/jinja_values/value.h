// The values of a template, as Python has them: immutable, shared, and bounded by a meter.
#pragma once

#include "base/status.h"
#include "fronts/llm/jinja_values/text.h"

#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace cugrt::llm::jinja {

class Value;
struct Macro;
struct LoopState;

/// The memory that values of one rendering have at once.
struct Meter {
  size_t used_bytes = 0, limit_bytes = 0;
  bool is_exceeded = false;
};

/// Memory that a value's object takes from the meter, and gives back when it ends. The meter
/// outlives it; the caller's values and a template's constants have none.
class Metered {
public:
  Metered(Meter *meter, size_t bytes) : meter_(meter), bytes_(bytes) {
    if (meter_ && (meter_->used_bytes += bytes_) > meter_->limit_bytes)
      meter_->is_exceeded = true;
  }
  ~Metered() {
    if (meter_)
      meter_->used_bytes -= bytes_;
  }
  Metered(const Metered &) = delete;
  Metered &operator=(const Metered &) = delete;

private:
  Meter *meter_;
  size_t bytes_;
};

/// Nothing is known by this name. `what` says so: "'tools' is undefined".
struct Undefined {
  std::shared_ptr<const std::string> what;
};
struct None {};

struct TextObject : Metered {
  TextObject(Meter *meter, Text value)
      : Metered(meter, sizeof(TextObject) + value.size() * sizeof(char32_t)),
        text(std::move(value)) {}
  const Text text;
};

/// Kinds of sequences in Python. A view (of a dict) and a generator have no elements by number, and
/// a generator gives each of them once.
enum class ListKind : uint8_t { list, tuple, range, view, generator };

struct List : Metered {
  List(Meter *meter, ListKind kind, std::vector<Value> values);
  ~List();
  const ListKind kind;
  const std::vector<Value> values;
  size_t depth = 1;         // of the lists and dicts within each other
  size_t weight = 1;        // see weight_of
  mutable size_t given = 0; // of a generator, how many elements are out
};

struct Dict : Metered {
  using Entries = std::vector<std::pair<Value, Value>>;
  Dict(Meter *meter, Entries entries);
  ~Dict();
  const Entries entries; // in the order in which they were put in; each key once
  size_t depth = 1, weight = 1;
};

/// The one kind of object that a template can change. The rendering that made it empties it in the
/// end, so that rings of them are freed.
struct Namespace {
  std::vector<std::pair<std::string, Value>> fields;
};

/// A method of a value that is not called yet, a global function, or a macro.
struct Callable;

class Value {
public:
  using Held = std::variant<Undefined, None, bool, int64_t, double,
                            std::shared_ptr<const TextObject>, std::shared_ptr<const List>,
                            std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                            std::shared_ptr<const LoopState>, std::shared_ptr<const Callable>>;
  Value() = default; // undefined
  template <class T>
  requires std::is_constructible_v<Held, T> Value(T held) : held_(std::move(held)) {}

  template <class T> const T *get() const { return std::get_if<T>(&held_); }
  const Held &held() const { return held_; }

  bool is_undefined() const { return get<Undefined>(); }
  bool is_none() const { return get<None>(); }
  const Text *text() const {
    const auto *object = get<std::shared_ptr<const TextObject>>();
    return object ? &(*object)->text : nullptr;
  }
  const List *list() const {
    const auto *object = get<std::shared_ptr<const List>>();
    return object ? object->get() : nullptr;
  }
  const Dict *dict() const {
    const auto *object = get<std::shared_ptr<const Dict>>();
    return object ? object->get() : nullptr;
  }
  const LoopState *loop() const {
    const auto *object = get<std::shared_ptr<const LoopState>>();
    return object ? object->get() : nullptr;
  }
  const Callable *callable() const {
    const auto *object = get<std::shared_ptr<const Callable>>();
    return object ? object->get() : nullptr;
  }
  Namespace *space() const {
    const auto *object = get<std::shared_ptr<Namespace>>();
    return object ? object->get() : nullptr;
  }
  /// An integer, or a boolean as one.
  const int64_t *integer(int64_t &room) const {
    if (const bool *boolean = get<bool>()) {
      room = *boolean;
      return &room;
    }
    return get<int64_t>();
  }
  bool is_number() const { return get<bool>() || get<int64_t>() || get<double>(); }
  double as_double() const; // of a number

private:
  Held held_;
};

struct Callable {
  std::string name; // of a method or a function
  Value self;       // of a method
  std::shared_ptr<const Macro> macro = nullptr;
};

Value undefined(std::string what);
/// Make constants and the caller's values, which no meter counts.
Value make_text(Text text);
Value make_list(std::vector<Value> values);
Value make_dict(Dict::Entries entries);

/// The kind's name in Python: "str", "list", "NoneType"..
const char *type_name(const Value &value);
bool is_true(const Value &value);
/// The cost of walking through a value: its elements, those of elements, and 64 characters of texts
/// are 1 each; of a dict also the square of its entries, an eighth of it. At most SIZE_MAX / 4.
size_t weight_of(const Value &value);
bool is_equal(const Value &a, const Value &b);
/// Less than 0, 0, or more; Code::invalid_argument of values that have no order.
Result<int> compare(const Value &a, const Value &b);
/// The value of a key, or null.
const Value *find(const Dict &dict, const Value &key);
/// Whether it can be a key of a dict.
bool is_hashable(const Value &value);

/// Writes a number as Python's repr and str do.
std::string number_text(double value);

/// The caller's values, whose text is marked as untrusted. `what` begins errors: "messages: at byte
/// 3: ..".
Result<Value> value_of_json(std::string_view what, std::string_view json);

} // namespace cugrt::llm::jinja
