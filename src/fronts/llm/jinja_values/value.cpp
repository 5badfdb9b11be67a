// Values of templates; see value.h.
#include "fronts/llm/jinja_values/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cugrt::llm::jinja {

static size_t depth_of(const Value &value) {
  if (const List *list = value.list())
    return list->depth;
  const Dict *dict = value.dict();
  return dict ? dict->depth : 0;
}

/// The sum, up to a limit, since elements may be shared.
static size_t sum(size_t a, size_t b) { return std::min(a + b, SIZE_MAX / 4); }

static bool is_equal_list(const List &a, const List &b) {
  return a.kind == b.kind && std::ranges::equal(a.values, b.values, is_equal);
}

static bool is_equal_dict(const Dict &a, const Dict &b) {
  return a.entries.size() == b.entries.size() &&
         std::ranges::all_of(a.entries, [&](const auto &entry) {
           const Value *other = find(b, entry.first);
           return other && is_equal(entry.second, *other);
         });
}

List::List(Meter *meter, ListKind list_kind, std::vector<Value> list)
    : Metered(meter, sizeof(List) + list.size() * sizeof(Value)), kind(list_kind),
      values(std::move(list)) {
  for (const Value &value : values) {
    depth = std::max(depth, depth_of(value) + 1);
    weight = sum(weight, weight_of(value));
  }
}
List::~List() = default;

Dict::Dict(Meter *meter, Entries list)
    : Metered(meter, sizeof(Dict) + list.size() * 2 * sizeof(Value)), entries(std::move(list)) {
  weight = std::min(entries.size(), size_t(1) << 30) * entries.size() / 8 + 1;
  for (const auto &[key, value] : entries) {
    depth = std::max(depth, depth_of(value) + 1);
    weight = sum(weight, sum(weight_of(key), weight_of(value)));
  }
}
Dict::~Dict() = default;

double Value::as_double() const {
  int64_t room = 0;
  const int64_t *whole = integer(room);
  return whole ? static_cast<double>(*whole) : *get<double>();
}

Value undefined(std::string what) {
  return Undefined{std::make_shared<const std::string>(std::move(what))};
}
Value make_text(Text text) { return std::make_shared<const TextObject>(nullptr, std::move(text)); }
Value make_list(std::vector<Value> values) {
  return std::make_shared<const List>(nullptr, ListKind::list, std::move(values));
}
Value make_dict(Dict::Entries entries) {
  return std::make_shared<const Dict>(nullptr, std::move(entries));
}

const char *type_name(const Value &value) {
  static constexpr const char *kNames[] = {"Undefined", "NoneType",    "bool",    "int",
                                           "float",     "str",         "",        "dict",
                                           "Namespace", "LoopContext", "function"};
  static constexpr const char *kLists[] = {"list", "tuple", "range", "dict view", "generator"};
  const List *list = value.list();
  return list ? kLists[static_cast<size_t>(list->kind)] : kNames[value.held().index()];
}

bool is_true(const Value &value) {
  if (const Text *text = value.text())
    return !text->empty();
  if (const List *list = value.list())
    return list->kind == ListKind::generator || !list->values.empty();
  if (const Dict *dict = value.dict())
    return !dict->entries.empty();
  if (value.is_number())
    return value.as_double() != 0;
  return !value.is_undefined() && !value.is_none();
}

size_t weight_of(const Value &value) {
  if (const Text *text = value.text())
    return text->size() / 64 + 1;
  if (const List *list = value.list())
    return list->weight;
  const Dict *dict = value.dict();
  return dict ? dict->weight : 1;
}

bool is_equal(const Value &a, const Value &b) {
  int64_t room_a = 0, room_b = 0;
  const int64_t *whole_a = a.integer(room_a), *whole_b = b.integer(room_b);
  if (whole_a && whole_b)
    return *whole_a == *whole_b;
  if (a.is_number() && b.is_number())
    return a.as_double() == b.as_double();
  if (a.held().index() != b.held().index())
    return false;
  if (const Text *text = a.text())
    return *text == *b.text();
  if (const List *list = a.list())
    return is_equal_list(*list, *b.list());
  if (const Dict *dict = a.dict())
    return is_equal_dict(*dict, *b.dict());
  if (const Namespace *space = a.space())
    return space == b.space();
  if (const LoopState *loop = a.loop())
    return loop == b.loop();
  if (const Callable *callable = a.callable())
    return callable == b.callable();
  return true; // two undefined ones, or none and none
}

Result<int> compare(const Value &a, const Value &b) {
  int64_t room_a = 0, room_b = 0;
  const int64_t *whole_a = a.integer(room_a), *whole_b = b.integer(room_b);
  if (whole_a && whole_b)
    return *whole_a < *whole_b ? -1 : *whole_a > *whole_b;
  if (a.is_number() && b.is_number()) {
    const double x = a.as_double(), y = b.as_double();
    return x < y ? -1 : x > y;
  }
  if (a.text() && b.text())
    return a.text()->compare(*b.text());
  if (const List *x = a.list(), *y = b.list(); x && y && x->kind == y->kind) {
    const size_t count = std::min(x->values.size(), y->values.size());
    for (size_t i = 0; i < count; ++i)
      if (!is_equal(x->values[i], y->values[i]))
        return compare(x->values[i], y->values[i]);
    return static_cast<int>(x->values.size() > count) - static_cast<int>(y->values.size() > count);
  }
  for (const Value *one : {&a, &b})
    if (const Undefined *none = one->get<Undefined>())
      return Status::error(Code::invalid_argument, none->what ? *none->what : "it is undefined");
  return Status::error(Code::invalid_argument, std::string("a value of type ") + type_name(a) +
                                                   " has no order with one of type " +
                                                   type_name(b));
}

const Value *find(const Dict &dict, const Value &key) {
  for (const auto &[name, value] : dict.entries)
    if (is_equal(name, key))
      return &value;
  return nullptr;
}

bool is_hashable(const Value &value) {
  const List *list = value.list();
  if (list && list->kind == ListKind::tuple)
    return std::ranges::all_of(list->values, is_hashable);
  return value.text() || value.is_number() || value.is_none();
}

std::string number_text(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char room[64];
  const auto end = std::to_chars(room, room + sizeof room, value, std::chars_format::scientific);
  // d.ddde+XX: Python writes exponents from -5 down and from 16 up.
  std::string digits(room, end.ptr);
  const std::string sign = digits[0] == '-' ? "-" : "";
  const size_t e = digits.find('e');
  const int exponent = std::stoi(digits.substr(e + 1));
  if (exponent < -4 || exponent >= 16)
    return digits;
  digits = digits.substr(sign.size(), e - sign.size());
  std::erase(digits, '.');
  const auto count = static_cast<int>(digits.size());
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (exponent + 1 >= count)
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  return sign + digits.insert(static_cast<size_t>(exponent + 1), ".");
}

} // namespace cugrt::llm::jinja
