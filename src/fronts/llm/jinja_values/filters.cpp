// Filters of single values, and the look-up of all; see methods.h.
#include "fronts/llm/jinja_values/methods.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace cugrt::llm::jinja {

namespace {

Text printed(Machine &machine, const Value &of) {
  TextBuilder out(machine);
  print(out, of);
  return out.take();
}

template <Case to> Result<Value> case_filter(Machine &machine, const Value &of, const Arguments &) {
  return change_case(machine, printed(machine, of), to);
}

/// Words begin behind blanks, '-' and opening brackets.
Result<Value> title_filter(Machine &machine, const Value &of, const Arguments &) {
  TextBuilder out(machine);
  const Text text = printed(machine, of);
  for (size_t at = 0; at < text.size() && !machine.is_over();) {
    const auto parts = [](char32_t c) {
      return is_space(c) || TextView(U"-({[<").find(c) != TextView::npos;
    };
    size_t end = at;
    while (end < text.size() && parts(text[end]) == parts(text[at]))
      ++end;
    out.add(*change_case(machine, text.substr(at, 1), Case::upper).text());
    out.add(*change_case(machine, text.substr(at + 1, end - at - 1), Case::lower).text());
    at = end;
  }
  return machine.text(out.take());
}

Result<Value> trim_filter(Machine &machine, const Value &of, const Arguments &given) {
  const Text text = printed(machine, of);
  if (!given.has(0))
    return machine.text(strip(text, Side::both));
  CUGRT_ASSIGN(const Text chars, given.text(0));
  if (!machine.may_search(text.size(), chars.size()))
    return machine.check();
  return machine.text(strip(text, Side::both, &chars));
}

Result<Value> string_filter(Machine &machine, const Value &of, const Arguments &) {
  return to_text(machine, of);
}

Result<Value> replace_filter(Machine &machine, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const int64_t count, given.integer(2, -1));
  return replace(machine, printed(machine, of), printed(machine, *given.at(0)),
                 printed(machine, *given.at(1)), count);
}

Result<Value> default_filter(Machine &machine, const Value &of, const Arguments &given) {
  if (!of.is_undefined() && (!given.truth(1, false) || is_true(of)))
    return of;
  return given.at(0) ? *given.at(0) : machine.text("");
}

Result<Value> abs_filter(Machine &, const Value &of, const Arguments &) {
  int64_t room = 0;
  if (const int64_t *whole = of.integer(room); whole && *whole != INT64_MIN)
    return Value(std::abs(*whole));
  if (const double *real = of.get<double>())
    return Value(std::abs(*real));
  return wrong(std::string("a value of type ") + type_name(of) + " has no absolute value");
}

std::string digits_of(const Text &text) {
  std::string digits = utf8_of(strip(text, Side::both));
  std::erase(digits, '_');
  return digits.starts_with('+') ? digits.substr(1) : digits;
}

std::optional<double> real_of(const Value &of) {
  if (of.is_number())
    return of.as_double();
  if (!of.text())
    return std::nullopt;
  const std::string digits = digits_of(*of.text());
  double real = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), real);
  if (end != digits.data() + digits.size() || status == std::errc::invalid_argument)
    return std::nullopt;
  return real;
}

Result<Value> float_filter(Machine &, const Value &of, const Arguments &given) {
  if (const auto real = real_of(of))
    return Value(*real);
  return given.at(0) ? *given.at(0) : Value(0.0);
}

Result<Value> int_filter(Machine &, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const int64_t base, given.integer(1, 10));
  int64_t whole = 0;
  if (const int64_t *integer = of.integer(whole))
    return Value(*integer);
  if (of.text() && base >= 2 && base <= 36) {
    std::string digits = digits_of(*of.text());
    const bool has_prefix = base == 16 && (digits.starts_with("0x") || digits.starts_with("0X"));
    const char *const begin = digits.data() + (has_prefix ? 2 : 0), *const end = digits.data() +
                                                                                 digits.size();
    const auto [stop, status] = std::from_chars(begin, end, whole, static_cast<int>(base));
    if (stop == end && begin != end && status == std::errc())
      return Value(whole);
  }
  if (const auto real = real_of(of); real && std::abs(*real) < 9.2e18)
    return Value(static_cast<int64_t>(*real));
  return given.at(0) ? *given.at(0) : Value(int64_t(0));
}

Result<Value> round_filter(Machine &, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const int64_t precision, given.integer(0, 0));
  CUGRT_ASSIGN(const Text method, given.text(1, U"common"));
  if (!of.is_number() || std::abs(precision) > 300)
    return wrong("only a number is rounded, to at most 300 digits");
  int64_t room = 0;
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == U"ceil")
    return Value(std::ceil(of.as_double() * scale) / scale);
  if (method == U"floor")
    return Value(std::floor(of.as_double() * scale) / scale);
  if (method != U"common")
    return wrong("the methods of rounding are common, ceil and floor");
  if (const int64_t *whole = of.integer(room); whole && precision >= 0)
    return Value(*whole);
  if (precision < 0)
    return Value(std::nearbyint(of.as_double() * scale) / scale);
  char digits[700]; // exact, as Python's: of two that are as near the even one
  std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), of.as_double());
  return Value(std::strtod(digits, nullptr));
}

Result<Value> indent_filter(Machine &machine, const Value &of, const Arguments &given) {
  if (!of.text())
    return wrong(std::string("only a text is indented, not a value of type ") + type_name(of));
  Text by(4, U' ');
  if (given.has(0) && given.at(0)->text()) {
    by = *given.at(0)->text();
  } else {
    CUGRT_ASSIGN(const int64_t width, given.integer(0, 4));
    by.assign(static_cast<size_t>(std::clamp<int64_t>(width, 0, 10000)), U' ');
  }
  const bool has_first = given.truth(1, false), has_blank = given.truth(2, false);
  TextBuilder out(machine);
  const Text text = *of.text() + U"\n"; // so that a line that ends nothing is one too
  bool is_first = true;
  for (TextView line : lines_of(text)) {
    if (!is_first)
      out.add(U'\n');
    if (is_first ? has_first : has_blank || !line.empty())
      out.add(by);
    out.add(line);
    is_first = false;
  }
  return machine.text(out.take());
}

Result<Value> tojson_filter(Machine &machine, const Value &of, const Arguments &given) {
  JsonForm form;
  form.is_ascii = given.truth(0, false);
  form.sorts_keys = given.truth(3, false);
  if (given.has(1) && given.at(1)->text()) {
    form.indent = *given.at(1)->text();
  } else if (given.has(1)) {
    CUGRT_ASSIGN(const int64_t width, given.integer(1, 0));
    form.indent = Text(static_cast<size_t>(std::clamp<int64_t>(width, 0, 1000)), U' ');
  }
  if (form.indent)
    form.between = U",";
  if (given.has(2)) {
    CUGRT_ASSIGN(const std::vector<Value> both, elements_of(machine, *given.at(2)));
    if (both.size() != 2 || !both[0].text() || !both[1].text())
      return wrong("separators are two texts");
    form.between = *both[0].text();
    form.behind_key = *both[1].text();
  }
  return to_json(machine, of, form);
}

Result<Value> length_filter(Machine &, const Value &of, const Arguments &) {
  if (const Text *text = of.text())
    return Value(static_cast<int64_t>(text->size()));
  if (const List *list = of.list(); list && list->kind != ListKind::generator)
    return Value(static_cast<int64_t>(list->values.size()));
  if (const Dict *dict = of.dict())
    return Value(static_cast<int64_t>(dict->entries.size()));
  if (of.is_undefined())
    return Value(int64_t(0));
  return wrong(std::string("a value of type ") + type_name(of) + " has no length");
}

Result<Value> wordcount_filter(Machine &machine, const Value &of, const Arguments &) {
  int64_t count = 0;
  bool was_name = false;
  for (char32_t c : printed(machine, of)) {
    count += is_name(c) && !was_name;
    was_name = is_name(c);
  }
  return Value(count);
}

constexpr Filter kValueFilters[] = {
    {"abs", "", 0, abs_filter},
    {"capitalize", "", 0, case_filter<Case::capital>},
    {"count", "", 0, length_filter},
    {"d", "default_value boolean", 0, default_filter},
    {"default", "default_value boolean", 0, default_filter},
    {"float", "default", 0, float_filter},
    {"indent", "width first blank", 0, indent_filter},
    {"int", "default base", 0, int_filter},
    {"length", "", 0, length_filter},
    {"lower", "", 0, case_filter<Case::lower>},
    {"replace", "old new count", 2, replace_filter},
    {"round", "precision method", 0, round_filter},
    {"safe", "", 0, string_filter},
    {"string", "", 0, string_filter},
    {"title", "", 0, title_filter},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, tojson_filter},
    {"trim", "chars", 0, trim_filter},
    {"upper", "", 0, case_filter<Case::upper>},
    {"wordcount", "", 0, wordcount_filter},
};

Given rest_of(const Given &given, size_t first) {
  Given rest{{}, given.named};
  rest.plain.assign(given.plain.begin() +
                        static_cast<ptrdiff_t>(std::min(first, given.plain.size())),
                    given.plain.end());
  return rest;
}

Result<std::string> name_at(const Given &given, size_t at, std::string_view what) {
  if (at >= given.plain.size() || !given.plain[at].text())
    return wrong("it wants the name of " + std::string(what));
  return utf8_of(*given.plain[at].text());
}

/// map(attribute=..), or map(filter, its arguments).
Result<Value> map_filter(Machine &machine, const Value &of, const Given &given) {
  CUGRT_ASSIGN(std::vector<Value> values, elements_of(machine, of));
  const bool has_attribute = given.plain.empty();
  Arguments bound;
  std::string name;
  if (has_attribute) {
    CUGRT_ASSIGN(bound, Arguments::bind(given, "attribute default", 1));
  } else {
    CUGRT_ASSIGN(name, name_at(given, 0, "a filter"));
  }
  for (Value &value : values) {
    if (has_attribute) {
      CUGRT_ASSIGN(value, attribute_at(machine, value, *bound.at(0)));
      if (value.is_undefined() && bound.at(1))
        value = *bound.at(1);
    } else {
      CUGRT_ASSIGN(value, apply_filter(machine, name, value, rest_of(given, 1)));
    }
    CUGRT_TRY(machine.check());
  }
  return machine.list(ListKind::generator, std::move(values));
}

/// select, reject, selectattr and rejectattr: by a test, or by truth.
Result<Value> choose(Machine &machine, const Value &of, const Given &given, bool has_attribute,
                     bool wanted) {
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  const size_t test = has_attribute;
  if (given.plain.size() < test)
    return wrong("it wants the name of an attribute");
  std::string name;
  if (given.plain.size() > test) {
    CUGRT_ASSIGN(name, name_at(given, test, "a test"));
  }
  const Given arguments = rest_of(given, test + 1);
  std::vector<Value> chosen;
  for (const Value &value : values) {
    Value seen = value;
    if (has_attribute) {
      CUGRT_ASSIGN(seen, attribute_at(machine, value, given.plain[0]));
    }
    bool is_chosen = is_true(seen);
    if (!name.empty()) {
      CUGRT_ASSIGN(is_chosen, apply_test(machine, name, seen, arguments));
    }
    if (is_chosen == wanted)
      chosen.push_back(value);
    machine.work(1);
    CUGRT_TRY(machine.check());
  }
  return machine.list(ListKind::generator, std::move(chosen));
}

Result<Value> format_filter(Machine &machine, const Value &of, const Given &given) {
  if (given.named.empty())
    return format_percent(machine, printed(machine, of),
                          machine.list(ListKind::tuple, given.plain));
  Dict::Entries entries;
  for (const auto &[name, value] : given.named)
    entries.emplace_back(machine.text(name), value);
  return format_percent(machine, printed(machine, of), machine.dict(std::move(entries)));
}

} // namespace

Result<Value> attribute_at(Machine &machine, const Value &of, const Value &path) {
  if (!path.text())
    return item_of(machine, of, path);
  Value value = of;
  for (TextView rest = *path.text(); !rest.empty();) {
    const size_t end = std::min(rest.find(U'.'), rest.size());
    const std::string name = utf8_of(rest.substr(0, end));
    int64_t number = 0;
    const auto [stop, status] = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = status == std::errc() && stop == name.data() + name.size();
    CUGRT_ASSIGN(value, item_of(machine, value,
                                is_number ? Value(number) : machine.text(rest.substr(0, end))));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return value;
}

std::span<const Filter> value_filters() { return kValueFilters; }

Result<Value> apply_filter(Machine &machine, std::string_view name, const Value &of,
                           const Given &given) {
  machine.work(1);
  const auto run = [&]() -> Result<Value> {
    if (name == "map")
      return map_filter(machine, of, given);
    if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
      return choose(machine, of, given, name.ends_with("attr"), name.starts_with("select"));
    if (name == "format")
      return format_filter(machine, of, given);
    for (std::span<const Filter> filters : {value_filters(), list_filters()}) {
      const auto found = std::ranges::find(filters, name, &Filter::name);
      if (found == filters.end())
        continue;
      CUGRT_ASSIGN(const Arguments bound,
                   Arguments::bind(given, found->parameters, found->required));
      return found->run(machine, of, bound);
    }
    return Status::error(Code::unsupported, "the filter '" + std::string(name) + "' is not known");
  };
  Result<Value> made = run();
  if (!made.ok() && made.status().code() == Code::invalid_argument)
    return made.take_status().in("filter '" + std::string(name) + "'");
  return made;
}

} // namespace cugrt::llm::jinja
