// Limits of a rendering, and how values are printed; see machine.h.
#include "fronts/llm/jinja_values/machine.h"

#include "fronts/llm/tokenizer/unicode.h"

#include <algorithm>

namespace cugrt::llm::jinja {

Status wrong(std::string message) {
  return Status::error(Code::invalid_argument, std::move(message));
}

Status Machine::check() const {
  const char *what = steps_ > limits_.steps ? "steps"
                     : meter_.is_exceeded   ? "memory"
                     : is_too_long_         ? "text"
                     : is_too_deep_         ? "lists within lists"
                                            : nullptr;
  return what ? Status::error(Code::out_of_range, std::string("the chat template takes more ") +
                                                      what + " than a template may")
              : Status();
}

Status Machine::enter() {
  if (++depth_ <= limits_.depth)
    return {};
  return Status::error(Code::out_of_range,
                       "the chat template is nested too deeply, or calls itself "
                       "without an end");
}

Value Machine::text(Text text) {
  work(text.size() / 64);
  has_room(text.size());
  return std::make_shared<const TextObject>(&meter_, std::move(text));
}

Value Machine::list(ListKind kind, std::vector<Value> values) {
  work(values.size() / 8);
  auto made = std::make_shared<const List>(&meter_, kind, std::move(values));
  is_too_deep_ = is_too_deep_ || made->depth > limits_.value_depth;
  return made;
}

Value Machine::dict(Dict::Entries entries) {
  work(entries.size() / 8);
  auto made = std::make_shared<const Dict>(&meter_, std::move(entries));
  is_too_deep_ = is_too_deep_ || made->depth > limits_.value_depth;
  return made;
}

/// As str.isprintable in Python, but accepts characters that no Unicode version has assigned.
static bool is_printable(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kControls[] = {
      {0, 0x1f},          {0x7f, 0xa0},       {0xad, 0xad},       {0x600, 0x605},
      {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},
      {0x8e2, 0x8e2},     {0x180e, 0x180e},   {0x200b, 0x200f},   {0x202a, 0x202e},
      {0x2060, 0x206f},   {0xe000, 0xf8ff},   {0xfeff, 0xfeff},   {0xfff0, 0xfffb},
      {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f},
      {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff}, {0xf0000, 0x10ffff}};
  const bool is_control = std::ranges::any_of(
      kControls, [&](const auto &range) { return code >= range.first && code <= range.second; });
  return !is_control && (code == ' ' || class_of(code) != CharClass::space);
}

static void add_escape(TextBuilder &out, char32_t c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const char32_t code = code_of(c), mark = c & kUntrusted;
  const int digits = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
  Text text = {U'\\' | mark, (digits == 2 ? U'x' : digits == 4 ? U'u' : U'U') | mark};
  for (int i = digits - 1; i >= 0; --i)
    text += static_cast<char32_t>(kDigits[code >> (4 * i) & 15]) | mark;
  out.add(text);
}

static void print_text(TextBuilder &out, const Text &text) {
  const bool has_single = text.find(U'\'') != text.npos;
  const char32_t quote = has_single && text.find(U'"') == text.npos ? U'"' : U'\'';
  out.add(quote);
  for (char32_t c : text) {
    constexpr TextView kEscaped = U"\\\n\r\t", kNames = U"\\nrt";
    const char32_t mark = c & kUntrusted;
    if (code_of(c) == quote)
      out.add(Text{U'\\' | mark, c});
    else if (const size_t i = kEscaped.find(c); i != kEscaped.npos)
      out.add(Text{U'\\' | mark, kNames[i] | mark});
    else if (is_printable(code_of(c)))
      out.add(c);
    else
      add_escape(out, c);
  }
  out.add(quote);
}

static void print_list(TextBuilder &out, const List &list) {
  const bool is_tuple = list.kind == ListKind::tuple;
  out.add(is_tuple ? U'(' : U'[');
  bool is_first = true;
  for (const Value &value : list.values) {
    if (out.is_full())
      return;
    if (!std::exchange(is_first, false))
      out.add(U", ");
    print_repr(out, value);
  }
  if (is_tuple && list.values.size() == 1)
    out.add(U',');
  out.add(is_tuple ? U')' : U']');
}

static void print_dict(TextBuilder &out, const Dict &dict) {
  out.add(U'{');
  bool is_first = true;
  for (const auto &[key, value] : dict.entries) {
    if (out.is_full())
      return;
    if (!std::exchange(is_first, false))
      out.add(U", ");
    print_repr(out, key);
    out.add(U": ");
    print_repr(out, value);
  }
  out.add(U'}');
}

void print_repr(TextBuilder &out, const Value &value) {
  out.work();
  if (const Text *text = value.text())
    print_text(out, *text);
  else if (value.is_undefined())
    out.add(U"Undefined");
  else
    print(out, value);
}

void print(TextBuilder &out, const Value &value) {
  if (const Text *text = value.text())
    out.add(*text);
  else if (const bool *boolean = value.get<bool>())
    out.add(*boolean ? U"True" : U"False");
  else if (const int64_t *integer = value.get<int64_t>())
    out.add_ascii(std::to_string(*integer));
  else if (const double *real = value.get<double>())
    out.add_ascii(number_text(*real));
  else if (value.is_none())
    out.add(U"None");
  else if (const List *list = value.list())
    print_list(out, *list);
  else if (const Dict *dict = value.dict())
    print_dict(out, *dict);
  else if (!value.is_undefined()) // one that the template cannot look into
    out.add_ascii(std::string("<") + type_name(value) + ">");
}

Value to_text(Machine &machine, const Value &value) {
  if (value.text())
    return value;
  TextBuilder out(machine);
  print(out, value);
  return machine.text(out.take());
}

} // namespace cugrt::llm::jinja
