// Methods of values; see methods.h.
#include "fronts/llm/jinja_values/methods.h"

#include "fronts/llm/jinja_values/text.h"
#include "fronts/llm/tokenizer/unicode.h"

#include <algorithm>

namespace cugrt::llm::jinja {

Result<Arguments> Arguments::bind(const Given &given, std::string_view parameters,
                                  size_t required) {
  Arguments bound;
  std::vector<std::string_view> names;
  while (!parameters.empty()) {
    const size_t end = std::min(parameters.find(' '), parameters.size());
    names.push_back(parameters.substr(0, end));
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
  bound.values_.resize(names.size());
  if (given.plain.size() > names.size())
    return wrong("it takes at most " + std::to_string(names.size()) + " arguments");
  for (size_t i = 0; i < given.plain.size(); ++i)
    bound.values_[i] = &given.plain[i];
  for (const auto &[name, value] : given.named) {
    const auto at = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (at == names.size() || bound.values_[at])
      return wrong("it takes no argument '" + name + "'" + (at < names.size() ? " twice" : ""));
    bound.values_[at] = &value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!bound.values_[i])
      return wrong("it wants an argument '" + std::string(names[i]) + "'");
  return bound;
}

Result<Text> Arguments::text(size_t i) const {
  if (const Text *text = values_[i]->text())
    return *text;
  if (const Undefined *none = values_[i]->get<Undefined>(); none && none->what)
    return wrong(*none->what);
  return wrong(std::string("it wants a text where a value of type ") + type_name(*values_[i]) +
               " stands");
}

Result<Text> Arguments::text(size_t i, TextView preset) const {
  if (!has(i))
    return Text(preset);
  return text(i);
}

Result<int64_t> Arguments::integer(size_t i, int64_t preset) const {
  int64_t room = 0;
  if (!has(i))
    return preset;
  if (const int64_t *value = values_[i]->integer(room))
    return *value;
  return wrong(std::string("it wants an integer where a value of type ") + type_name(*values_[i]) +
               " stands");
}

Value loop_attribute(const LoopState &loop, std::string_view name) {
  const auto count = static_cast<int64_t>(loop.values->values.size());
  const auto index = static_cast<int64_t>(loop.index);
  if (name == "index" || name == "index0")
    return index + (name == "index");
  if (name == "revindex" || name == "revindex0")
    return count - index - (name == "revindex0");
  if (name == "first" || name == "last")
    return index == (name == "first" ? 0 : count - 1);
  if (name == "length")
    return count;
  if (name == "depth" || name == "depth0")
    return int64_t(name == "depth"); // of calls of itself, which a loop here has none of
  const int64_t at = name == "previtem" ? index - 1 : name == "nextitem" ? index + 1 : -1;
  if (at >= 0 && at < count)
    return loop.values->values[static_cast<size_t>(at)];
  return undefined("there is no " + std::string(name) + " of the loop");
}

/// Whether the text's character at `at` is a sigma that ends a word, which has a form of its own.
static bool is_last_sigma(const Text &text, size_t at) {
  if (code_of(text[at]) != 0x3a3 || at == 0 || !is_cased(code_of(text[at - 1])))
    return false;
  return at + 1 == text.size() || !is_cased(code_of(text[at + 1]));
}

std::vector<TextView> lines_of(TextView text, bool keeps_ends) {
  constexpr TextView kEnds = U"\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029";
  std::vector<TextView> lines;
  while (!text.empty()) {
    const size_t at = std::min(text.find_first_of(kEnds), text.size());
    const size_t end = at + (text.substr(at).starts_with(U"\r\n") ? 2 : at < text.size());
    lines.push_back(text.substr(0, keeps_ends ? end : at));
    text.remove_prefix(end);
  }
  return lines;
}

Value change_case(Machine &machine, const Text &text, Case to) {
  TextBuilder out(machine);
  bool is_in_word = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char32_t code = code_of(text[at]);
    const bool is_upper = to == Case::upper || (to != Case::lower && !is_in_word);
    Letters changed = letters_of(code, !is_upper           ? LetterCase::lower
                                       : to == Case::upper ? LetterCase::upper
                                                           : LetterCase::title);
    if (!is_upper && is_last_sigma(text, at))
      changed = {1, {0x3c2}};
    for (size_t i = 0; i < changed.count; ++i)
      out.add(changed.codes[i] | (text[at] & kUntrusted));
    is_in_word = to == Case::capital || is_cased(code);
  }
  return machine.text(out.take());
}

Result<Value> replace(Machine &machine, const Text &text, const Text &from, const Text &to,
                      int64_t count) {
  if (!machine.may_search(text.size(), from.size()))
    return machine.check();
  TextBuilder out(machine);
  size_t at = 0;
  for (int64_t done = 0; (count < 0 || done < count) && !machine.is_over(); ++done) {
    // An empty one stands before each character, and behind the last.
    const size_t found = from.empty() ? (done == 0 ? 0 : at + 1) : text.find(from, at);
    if (found > text.size())
      break;
    out.add(TextView(text).substr(at, found - at));
    out.add(to);
    at = found + from.size();
  }
  out.add(TextView(text).substr(at));
  return machine.text(out.take());
}

namespace {

using Method = Result<Value> (*)(Machine &, const Text &, const Arguments &);

template <Side side>
Result<Value> strip_method(Machine &machine, const Text &text, const Arguments &given) {
  if (!given.has(0))
    return machine.text(strip(text, side));
  CUGRT_ASSIGN(const Text chars, given.text(0));
  if (!machine.may_search(text.size(), chars.size()))
    return machine.check();
  return machine.text(strip(text, side, &chars));
}

template <Case to>
Result<Value> case_method(Machine &machine, const Text &text, const Arguments &) {
  return change_case(machine, text, to);
}

/// Words with spaces between.
std::vector<Value> words_of(Machine &machine, TextView text, size_t limit) {
  std::vector<Value> words;
  for (text = strip(text, Side::left); !text.empty() && !machine.is_over();
       text = strip(text, Side::left)) {
    const auto end = std::ranges::find_if(text, is_space) - text.begin();
    const TextView word = words.size() == limit ? text : text.substr(0, static_cast<size_t>(end));
    words.push_back(machine.text(word));
    text.remove_prefix(word.size());
  }
  return words;
}

/// The same with the limit counted from the end.
std::vector<Value> last_words_of(Machine &machine, TextView text, size_t limit) {
  std::vector<Value> words;
  for (text = strip(text, Side::right); !text.empty() && !machine.is_over();
       text = strip(text, Side::right)) {
    size_t begin = text.size();
    while (begin > 0 && !is_space(text[begin - 1]))
      --begin;
    const TextView word = words.size() == limit ? text : text.substr(begin);
    words.push_back(machine.text(word));
    text.remove_suffix(word.size());
  }
  std::ranges::reverse(words);
  return words;
}

template <bool from_end>
Result<Value> split_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const int64_t most, given.integer(1, -1));
  const size_t limit = most < 0 ? text.size() + 1 : static_cast<size_t>(most);
  if (!given.has(0))
    return machine.list(ListKind::list, from_end ? last_words_of(machine, text, limit)
                                                 : words_of(machine, text, limit));
  CUGRT_ASSIGN(const Text mark, given.text(0));
  if (mark.empty())
    return wrong("the text to split at is empty");
  if (!machine.may_search(text.size(), mark.size()))
    return machine.check();
  std::vector<Value> parts;
  TextView rest = text;
  while (parts.size() < limit && !machine.is_over()) {
    const size_t at = from_end ? rest.rfind(mark) : rest.find(mark);
    if (at == rest.npos)
      break;
    parts.push_back(machine.text(from_end ? rest.substr(at + mark.size()) : rest.substr(0, at)));
    rest = from_end ? rest.substr(0, at) : rest.substr(at + mark.size());
  }
  parts.push_back(machine.text(rest));
  if (from_end)
    std::ranges::reverse(parts);
  return machine.list(ListKind::list, std::move(parts));
}

Result<Value> splitlines_method(Machine &machine, const Text &text, const Arguments &given) {
  std::vector<Value> lines;
  for (TextView line : lines_of(text, given.truth(0, false)))
    if (!machine.is_over())
      lines.push_back(machine.text(line));
  return machine.list(ListKind::list, std::move(lines));
}

template <bool from_end>
Result<Value> partition_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const Text mark, given.text(0));
  if (mark.empty())
    return wrong("the text to part at is empty");
  if (!machine.may_search(text.size(), mark.size()))
    return machine.check();
  const size_t at = from_end ? text.rfind(mark) : text.find(mark);
  const TextView all = text;
  if (at == text.npos && from_end)
    return machine.list(ListKind::tuple, {machine.text(""), machine.text(""), machine.text(all)});
  if (at == text.npos)
    return machine.list(ListKind::tuple, {machine.text(all), machine.text(""), machine.text("")});
  return machine.list(ListKind::tuple,
                      {machine.text(all.substr(0, at)), machine.text(all.substr(at, mark.size())),
                       machine.text(all.substr(at + mark.size()))});
}

/// The part of a text that the limits at `first` and `first` + 1 leave, and where it begins.
Result<TextView> part_of(const Text &text, const Arguments &given, size_t first) {
  const auto size = static_cast<int64_t>(text.size());
  CUGRT_ASSIGN(const int64_t begin, given.integer(first, 0));
  CUGRT_ASSIGN(const int64_t end, given.integer(first + 1, size));
  const auto clamp = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  return TextView(text).substr(
      static_cast<size_t>(clamp(begin)),
      static_cast<size_t>(std::max<int64_t>(clamp(end) - clamp(begin), 0)));
}

template <bool at_end>
Result<Value> affix_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const TextView part, part_of(text, given, 1));
  const auto fits = [&](const Text &one) {
    return at_end ? part.ends_with(one) : part.starts_with(one);
  };
  machine.work(weight_of(*given.at(0)));
  CUGRT_TRY(machine.check());
  if (const List *list = given.at(0)->list(); list && list->kind == ListKind::tuple)
    return Value(std::ranges::any_of(
        list->values, [&](const Value &one) { return one.text() && fits(*one.text()); }));
  CUGRT_ASSIGN(const Text affix, given.text(0));
  return Value(fits(affix));
}

template <bool at_end>
Result<Value> remove_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const Text affix, given.text(0));
  TextView rest = text;
  if (at_end && rest.ends_with(affix))
    rest.remove_suffix(affix.size());
  if (!at_end && rest.starts_with(affix))
    rest.remove_prefix(affix.size());
  return machine.text(rest);
}

template <bool from_end, bool must_be>
Result<Value> find_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const Text what, given.text(0));
  CUGRT_ASSIGN(const TextView part, part_of(text, given, 1));
  if (!machine.may_search(part.size(), what.size()))
    return machine.check();
  const size_t at = from_end ? part.rfind(what) : part.find(what);
  if (at == part.npos && must_be)
    return wrong("the text does not hold what is looked for");
  return Value(at == part.npos ? int64_t(-1)
                               : static_cast<int64_t>(at) + (part.data() - text.data()));
}

Result<Value> count_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const Text what, given.text(0));
  CUGRT_ASSIGN(const TextView part, part_of(text, given, 1));
  if (!machine.may_search(part.size(), what.size()))
    return machine.check();
  int64_t count = what.empty() ? static_cast<int64_t>(part.size()) + 1 : 0;
  for (size_t at = what.empty() ? part.npos : part.find(what); at != part.npos;
       at = part.find(what, at + what.size()))
    ++count;
  return Value(count);
}

Result<Value> replace_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const Text from, given.text(0));
  CUGRT_ASSIGN(const Text to, given.text(1));
  CUGRT_ASSIGN(const int64_t count, given.integer(2, -1));
  return replace(machine, text, from, to, count);
}

Result<Value> join_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const std::vector<Value> parts, elements_of(machine, *given.at(0)));
  TextBuilder out(machine);
  for (size_t i = 0; i < parts.size() && !machine.is_over(); ++i) {
    if (!parts[i].text())
      return wrong(std::string("a text cannot be joined with a value of type ") +
                   type_name(parts[i]));
    if (i > 0)
      out.add(text);
    out.add(*parts[i].text());
  }
  return machine.text(out.take());
}

Result<Value> fill_method(Machine &machine, const Text &text, const Arguments &given) {
  CUGRT_ASSIGN(const int64_t width, given.integer(0, 0));
  TextBuilder out(machine);
  const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  if (has_sign)
    out.add(text[0]);
  if (width > static_cast<int64_t>(text.size()))
    out.add(static_cast<size_t>(width) - text.size(), U'0');
  out.add(TextView(text).substr(has_sign));
  return machine.text(out.take());
}

enum class Property : uint8_t { digit, letter, either, space, lower, upper };
template <Property property>
Result<Value> property_method(Machine &, const Text &text, const Arguments &) {
  bool has_case = false;
  for (char32_t c : text) {
    const char32_t code = code_of(c);
    const CharClass kind = class_of(code);
    const bool is_digit = kind == CharClass::number, is_letter = kind == CharClass::letter;
    if ((property == Property::digit && !is_digit) ||
        (property == Property::letter && !is_letter) ||
        (property == Property::either && !is_digit && !is_letter) ||
        (property == Property::space && !is_space(c)))
      return Value(false);
    if (property == Property::lower || property == Property::upper) {
      if (is_cased(code) && is_lower(code) != (property == Property::lower))
        return Value(false);
      has_case = has_case || is_cased(code);
    }
  }
  return Value(property == Property::lower || property == Property::upper ? has_case
                                                                          : !text.empty());
}

struct Row {
  std::string_view name, parameters;
  size_t required;
  Method run;
};

constexpr Row kTextMethods[] = {
    {"strip", "chars", 0, strip_method<Side::both>},
    {"lstrip", "chars", 0, strip_method<Side::left>},
    {"rstrip", "chars", 0, strip_method<Side::right>},
    {"lower", "", 0, case_method<Case::lower>},
    {"upper", "", 0, case_method<Case::upper>},
    {"title", "", 0, case_method<Case::title>},
    {"capitalize", "", 0, case_method<Case::capital>},
    {"split", "sep maxsplit", 0, split_method<false>},
    {"rsplit", "sep maxsplit", 0, split_method<true>},
    {"splitlines", "keepends", 0, splitlines_method},
    {"partition", "sep", 1, partition_method<false>},
    {"rpartition", "sep", 1, partition_method<true>},
    {"startswith", "prefix start end", 1, affix_method<false>},
    {"endswith", "suffix start end", 1, affix_method<true>},
    {"removeprefix", "prefix", 1, remove_method<false>},
    {"removesuffix", "suffix", 1, remove_method<true>},
    {"find", "sub start end", 1, find_method<false, false>},
    {"rfind", "sub start end", 1, find_method<true, false>},
    {"index", "sub start end", 1, find_method<false, true>},
    {"rindex", "sub start end", 1, find_method<true, true>},
    {"count", "sub start end", 1, count_method},
    {"replace", "old new count", 2, replace_method},
    {"join", "iterable", 1, join_method},
    {"zfill", "width", 1, fill_method},
    {"isdigit", "", 0, property_method<Property::digit>},
    {"isalpha", "", 0, property_method<Property::letter>},
    {"isalnum", "", 0, property_method<Property::either>},
    {"isspace", "", 0, property_method<Property::space>},
    {"islower", "", 0, property_method<Property::lower>},
    {"isupper", "", 0, property_method<Property::upper>},
};

constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values"};
constexpr std::string_view kListMethods[] = {"count", "index"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListChanges[] = {"append", "clear", "pop",    "reverse",
                                             "insert", "sort",  "extend", "remove"};

Result<Value> dict_method(Machine &machine, const Dict &dict, std::string_view name,
                          const Given &given) {
  if (name == "get") {
    CUGRT_ASSIGN(const Arguments bound, Arguments::bind(given, "key default", 1));
    const Value *found = look_up(machine, dict, *bound.at(0));
    return found ? *found : bound.at(1) ? *bound.at(1) : Value(None{});
  }
  CUGRT_ASSIGN(const Arguments bound, Arguments::bind(given, "", 0));
  std::vector<Value> values;
  for (const auto &[key, value] : dict.entries)
    values.push_back(name == "keys"     ? key
                     : name == "values" ? value
                                        : machine.list(ListKind::tuple, {key, value}));
  return machine.list(ListKind::view, std::move(values));
}

Result<Value> list_method(Machine &machine, const List &list, std::string_view name,
                          const Given &given) {
  CUGRT_ASSIGN(const Arguments bound, Arguments::bind(given, "value", 1));
  const auto equals = [&](const Value &one) { return equal(machine, one, *bound.at(0)); };
  if (name == "count")
    return Value(static_cast<int64_t>(std::ranges::count_if(list.values, equals)));
  const auto at = std::ranges::find_if(list.values, equals);
  CUGRT_TRY(machine.check());
  if (at == list.values.end())
    return wrong("the list does not hold what is looked for");
  return Value(static_cast<int64_t>(at - list.values.begin()));
}

} // namespace

MethodKind method_kind(const Value &value, std::string_view name) {
  const auto kind = [&](bool is_known, bool is_change) {
    return is_known ? MethodKind::callable : is_change ? MethodKind::changing : MethodKind::none;
  };
  if (value.text())
    return kind(std::ranges::count(kTextMethods, name, &Row::name) > 0, false);
  if (value.dict())
    return kind(std::ranges::count(kDictMethods, name) > 0,
                std::ranges::count(kDictChanges, name) > 0);
  if (const List *list = value.list(); list && list->kind <= ListKind::tuple)
    return kind(std::ranges::count(kListMethods, name) > 0,
                list->kind == ListKind::list && std::ranges::count(kListChanges, name) > 0);
  return kind(value.loop() && name == "cycle", false);
}

Result<Value> call_method(Machine &machine, const Value &value, std::string_view name,
                          const Given &given) {
  if (const Text *text = value.text()) {
    const auto *row = std::ranges::find(kTextMethods, name, &Row::name);
    CUGRT_ASSIGN(const Arguments bound, Arguments::bind(given, row->parameters, row->required));
    return row->run(machine, *text, bound);
  }
  if (const Dict *dict = value.dict())
    return dict_method(machine, *dict, name, given);
  if (const List *list = value.list())
    return list_method(machine, *list, name, given);
  if (given.plain.empty())
    return wrong("it wants an argument");
  return given.plain[value.loop()->index % given.plain.size()];
}

} // namespace cugrt::llm::jinja
