// Operations of expressions on values: elements, slices, arithmetic; see machine.h.
#include "fronts/llm/jinja_values/machine.h"
#include "fronts/llm/jinja_values/methods.h"

#include <algorithm>
#include <cmath>

namespace cugrt::llm::jinja {

static Status types_wrong(std::string_view sign, const Value &a, const Value &b) {
  for (const Value *one : {&a, &b})
    if (const Undefined *none = one->get<Undefined>())
      return wrong(none->what ? *none->what : "a value is undefined");
  return wrong("'" + std::string(sign) + "' does not go with values of types " + type_name(a) +
               " and " + type_name(b));
}

static Result<Value> whole(std::string_view sign, int64_t a, int64_t b) {
  int64_t made = 0;
  bool is_over = false;
  if (sign == "+") {
    is_over = __builtin_add_overflow(a, b, &made);
  } else if (sign == "-") {
    is_over = __builtin_sub_overflow(a, b, &made);
  } else if (sign == "*") {
    is_over = __builtin_mul_overflow(a, b, &made);
  } else if (sign == "**") {
    made = 1;
    for (int64_t i = 0; i < b && !is_over && !(a == 0 && i > 0) && a != 1; ++i)
      is_over = __builtin_mul_overflow(made, a, &made) || i > 128;
    if (a == -1)
      return Value(b % 2 ? int64_t(-1) : int64_t(1));
  } else { // rounded down, as in Python
    if (b == 0)
      return wrong("a division by zero");
    if (b == -1)
      is_over = sign == "//" && __builtin_sub_overflow(int64_t(0), a, &made);
    else if (sign == "//")
      made = a / b - (a % b != 0 && (a < 0) != (b < 0));
    else
      made = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
  }
  if (is_over)
    return wrong("a number is beyond 64 bits");
  return Value(made);
}

static Result<Value> real(std::string_view sign, double a, double b) {
  if ((sign == "/" || sign == "//" || sign == "%") && b == 0)
    return wrong("a division by zero");
  if (sign == "+")
    return Value(a + b);
  if (sign == "-")
    return Value(a - b);
  if (sign == "*")
    return Value(a * b);
  if (sign == "/")
    return Value(a / b);
  if (sign == "//")
    return Value(std::floor(a / b));
  if (sign == "**")
    return Value(std::pow(a, b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

static Result<Value> repeat(Machine &machine, const Value &value, int64_t times) {
  const Text *text = value.text();
  const size_t size = text ? text->size() : value.list()->values.size();
  size_t all = 0;
  if (__builtin_mul_overflow(size, static_cast<size_t>(std::max<int64_t>(times, 0)), &all))
    all = SIZE_MAX;
  if (!machine.has_room(all))
    return machine.check();
  if (text) {
    TextBuilder out(machine);
    while (out.size() < all)
      out.add(*text);
    return machine.text(out.take());
  }
  const List &list = *value.list();
  std::vector<Value> values;
  machine.work(all);
  while (values.size() < all && !machine.is_over())
    values.insert(values.end(), list.values.begin(), list.values.end());
  return machine.list(list.kind, std::move(values));
}

static bool is_sequence(const Value &value) {
  const List *list = value.list();
  return value.text() || (list && (list->kind == ListKind::list || list->kind == ListKind::tuple));
}

Result<Value> binary(Machine &machine, std::string_view sign, const Value &a, const Value &b) {
  int64_t room_a = 0, room_b = 0;
  const int64_t *whole_a = a.integer(room_a), *whole_b = b.integer(room_b);
  if (whole_a && whole_b && sign != "/" && !(sign == "**" && *whole_b < 0))
    return whole(sign, *whole_a, *whole_b);
  if (a.is_number() && b.is_number())
    return real(sign, a.as_double(), b.as_double());
  if (sign == "%" && a.text())
    return format_percent(machine, *a.text(), b);
  if (sign == "*" && is_sequence(a) && whole_b)
    return repeat(machine, a, *whole_b);
  if (sign == "*" && whole_a && is_sequence(b))
    return repeat(machine, b, *whole_a);
  if (sign == "+" && a.text() && b.text()) {
    TextBuilder out(machine);
    out.add(*a.text());
    out.add(*b.text());
    return machine.text(out.take());
  }
  const List *list = a.list(), *more = b.list();
  if (sign == "+" && list && more && list->kind == more->kind && is_sequence(a)) {
    std::vector<Value> values = list->values;
    values.insert(values.end(), more->values.begin(), more->values.end());
    return machine.list(list->kind, std::move(values));
  }
  return types_wrong(sign, a, b);
}

Result<std::vector<Value>> elements_of(Machine &machine, const Value &value) {
  std::vector<Value> values;
  if (const Text *text = value.text()) {
    for (size_t i = 0; i < text->size() && !machine.is_over(); ++i)
      values.push_back(machine.text(TextView(*text).substr(i, 1)));
  } else if (const List *list = value.list()) {
    const bool is_generator = list->kind == ListKind::generator;
    const size_t given = is_generator ? std::exchange(list->given, list->values.size()) : 0;
    values.assign(list->values.begin() + static_cast<ptrdiff_t>(given), list->values.end());
  } else if (const Dict *dict = value.dict()) {
    for (const auto &[key, one] : dict->entries)
      values.push_back(key);
  } else if (!value.is_undefined()) {
    return wrong(std::string("a value of type ") + type_name(value) + " has no elements");
  }
  machine.work(values.size());
  return values;
}

bool equal(Machine &machine, const Value &a, const Value &b) {
  return machine.may_compare(a, b) && is_equal(a, b);
}

const Value *look_up(Machine &machine, const Dict &dict, const Value &key) {
  const size_t count = dict.entries.size();
  machine.work(count / 8 + std::min(count, size_t(1) << 20) * (weight_of(key) - 1));
  return machine.is_over() ? nullptr : find(dict, key);
}

Result<bool> contains(Machine &machine, const Value &container, const Value &value) {
  if (const Text *text = container.text()) {
    if (!value.text())
      return types_wrong("in", value, container);
    return machine.may_search(text->size(), value.text()->size()) &&
           text->find(*value.text()) != text->npos;
  }
  if (const Dict *dict = container.dict()) {
    return look_up(machine, *dict, value) != nullptr;
  }
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, container));
  return std::ranges::any_of(values, [&](const Value &one) { return equal(machine, one, value); });
}

Result<bool> holds(Machine &machine, std::string_view sign, const Value &a, const Value &b) {
  if (sign == "in" || sign == "not in") {
    CUGRT_ASSIGN(const bool is_in, contains(machine, b, a));
    return is_in == (sign == "in");
  }
  if (sign == "==" || sign == "!=")
    return equal(machine, a, b) == (sign == "==");
  if (!machine.may_compare(a, b))
    return machine.check();
  CUGRT_ASSIGN(const int order, compare(a, b));
  return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
}

Result<Value> item_of(Machine &machine, const Value &value, const Value &key) {
  int64_t room = 0;
  const int64_t *index = key.integer(room);
  const Text *text = value.text();
  const List *list = value.list();
  const bool has_numbers =
      list && list->kind != ListKind::view && list->kind != ListKind::generator;
  if (index && (text || has_numbers)) {
    const auto size = static_cast<int64_t>(text ? text->size() : list->values.size());
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size)
      return undefined(std::string(type_name(value)) + " object has no element " +
                       std::to_string(*index));
    if (text)
      return machine.text(TextView(*text).substr(static_cast<size_t>(at), 1));
    return list->values[static_cast<size_t>(at)];
  }
  if (const Dict *dict = value.dict()) {
    if (const Value *found = look_up(machine, *dict, key))
      return *found;
  }
  if (key.text())
    return attribute_of(machine, value, utf8_of(*key.text()));
  if (const Undefined *none = value.get<Undefined>())
    return wrong(none->what ? *none->what : "a value is undefined");
  return undefined(std::string(type_name(value)) + " object has no such element");
}

Result<Value> attribute_of(Machine &machine, const Value &value, std::string_view name) {
  if (const Undefined *none = value.get<Undefined>())
    return wrong(none->what ? *none->what : "a value is undefined");
  if (const Value *field = nullptr; const Namespace *space = value.space()) {
    machine.work(space->fields.size() / 16);
    for (const auto &[known, one] : space->fields)
      field = known == name ? &one : field;
    if (field)
      return *field;
  }
  if (const LoopState *loop = value.loop()) {
    const Value found = loop_attribute(*loop, name);
    if (!found.is_undefined() || name == "previtem" || name == "nextitem")
      return found;
  }
  switch (method_kind(value, name)) {
  case MethodKind::callable:
    return Value(std::make_shared<const Callable>(Callable{std::string(name), value}));
  case MethodKind::changing:
    return undefined("the method '" + std::string(name) + "' changes a " + type_name(value) +
                     ", which a template may not do");
  case MethodKind::none:
    break;
  }
  if (const Dict *dict = value.dict()) {
    machine.work(dict->entries.size() / 8);
    for (const auto &[key, one] : dict->entries)
      if (key.text() && key.text()->size() == name.size() && utf8_of(*key.text()) == name)
        return one;
    const Text wide = text_of(name); // beyond ASCII the sizes differ
    for (const auto &[key, one] : dict->entries)
      if (wide.size() != name.size() && key.text() && *key.text() == wide)
        return one;
  }
  return undefined(std::string("'") + type_name(value) + " object' has no attribute '" +
                   std::string(name.substr(0, 100)) + "'");
}

Result<Value> slice_of(Machine &machine, const Value &value, const Value *begin, const Value *end,
                       const Value *step) {
  const Text *text = value.text();
  const List *list = value.list();
  if (!text && (!list || list->kind == ListKind::view || list->kind == ListKind::generator)) {
    if (const Undefined *none = value.get<Undefined>())
      return wrong(none->what ? *none->what : "a value is undefined");
    return undefined(std::string(type_name(value)) + " object has no slices");
  }
  const auto size = static_cast<int64_t>(text ? text->size() : list->values.size());
  int64_t limits[3] = {0, 0, 1};
  bool is_open[3] = {true, true, true};
  const Value *const given[3] = {begin, end, step};
  for (size_t i = 0; i < 3; ++i) {
    int64_t room = 0;
    const int64_t *limit = given[i] ? given[i]->integer(room) : nullptr;
    if (given[i] && !given[i]->is_none() && !limit)
      return undefined("a slice's limits are integers");
    is_open[i] = !limit;
    limits[i] = limit ? *limit : limits[i];
  }
  const int64_t by = limits[2];
  if (by == 0)
    return wrong("a slice's step is not 0");
  const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
  const auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const int64_t first = is_open[0] ? (by < 0 ? high : low) : clamp(limits[0]);
  const int64_t last = is_open[1] ? (by < 0 ? low : high) : clamp(limits[1]);
  Text part;
  std::vector<Value> values;
  for (int64_t at = first; by < 0 ? at > last : at < last;) {
    if (text)
      part += (*text)[static_cast<size_t>(at)];
    else
      values.push_back(list->values[static_cast<size_t>(at)]);
    if (__builtin_add_overflow(at, by, &at))
      break;
  }
  return text ? machine.text(std::move(part)) : machine.list(list->kind, std::move(values));
}

} // namespace cugrt::llm::jinja
