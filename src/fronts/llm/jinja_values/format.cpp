// Python's formatting of texts by '%'; see machine.h.
#include "fronts/llm/jinja_values/machine.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace cugrt::llm::jinja {

namespace {

struct Form {
  bool is_left = false, has_zeros = false, has_sign = false, has_space = false;
  size_t width = 0;
  int precision = -1;
};

/// Flags, width and precision behind a '%'.
Result<Form> form_at(const Text &text, size_t &at) {
  Form form;
  for (; at < text.size(); ++at) {
    const char32_t c = code_of(text[at]);
    form.is_left = form.is_left || c == '-';
    form.has_zeros = form.has_zeros || c == '0';
    form.has_sign = form.has_sign || c == '+';
    form.has_space = form.has_space || c == ' ';
    if (c != '-' && c != '0' && c != '+' && c != ' ')
      break;
  }
  const auto number = [&] {
    size_t value = 0;
    for (; at < text.size() && code_of(text[at]) >= '0' && code_of(text[at]) <= '9'; ++at)
      value = std::min<size_t>(value * 10 + (code_of(text[at]) - '0'), 1000);
    return value;
  };
  form.width = number();
  if (at < text.size() && code_of(text[at]) == '.') {
    ++at;
    form.precision = static_cast<int>(number());
  }
  if (form.width >= 1000 || form.precision >= 1000)
    return wrong("a width in a text to format is beyond 999");
  return form;
}

Result<std::string> number_of(const Value &value, char kind, const Form &form) {
  if (!value.is_number())
    return wrong(std::string("'%") + kind + "' wants a number where a value of type " +
                 type_name(value) + " stands");
  char room[1400];
  const double real = value.as_double();
  const char sign = form.has_sign ? '+' : form.has_space ? ' ' : '\0';
  int64_t whole = 0;
  if (kind == 'd' || kind == 'i' || kind == 'u' || kind == 'x' || kind == 'X' || kind == 'o') {
    if (const int64_t *integer = value.integer(whole))
      whole = *integer;
    else if (std::abs(real) < 9.2e18)
      whole = static_cast<int64_t>(real);
    else
      return wrong("a number is beyond 64 bits");
    const int base = kind == 'o' ? 8 : kind == 'x' || kind == 'X' ? 16 : 10;
    const auto end = std::to_chars(room, room + sizeof room, whole, base);
    std::string digits(room, end.ptr);
    if (kind == 'X')
      for (char &c : digits)
        c = c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
    return whole >= 0 && sign ? sign + digits : digits;
  }
  const char pattern[] = {'%', '.', '*', kind, '\0'};
  const int size =
      std::snprintf(room, sizeof room, pattern, form.precision < 0 ? 6 : form.precision, real);
  const std::string digits(room, static_cast<size_t>(std::min<int>(size, sizeof room - 1)));
  return real >= 0 && sign ? sign + digits : digits;
}

void add_padded(TextBuilder &out, TextView text, const Form &form, bool is_number) {
  const size_t blanks = form.width > text.size() ? form.width - text.size() : 0;
  const bool has_zeros = is_number && form.has_zeros && !form.is_left;
  const bool has_sign =
      has_zeros && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
  if (has_sign)
    out.add(text[0]);
  if (!form.is_left)
    out.add(blanks, has_zeros ? U'0' : U' ');
  out.add(text.substr(has_sign));
  if (form.is_left)
    out.add(blanks, U' ');
}

} // namespace

Result<Value> format_percent(Machine &machine, const Text &text, const Value &values) {
  const List *list = values.list();
  const bool is_tuple = list && list->kind == ListKind::tuple;
  const size_t count = is_tuple ? list->values.size() : 1;
  size_t used = 0;
  bool has_names = false;
  TextBuilder out(machine);
  for (size_t at = 0; at < text.size() && !machine.is_over();) {
    const size_t mark = std::min(text.find(U'%', at), text.size());
    out.add(TextView(text).substr(at, mark - at));
    at = mark + 1;
    if (mark == text.size())
      break;
    const Value *value = nullptr;
    if (at < text.size() && code_of(text[at]) == '(') { // %(name)s
      const size_t end = text.find(U')', at);
      if (end == text.npos || !values.dict())
        return wrong("a text to format names a value, and there is no dict of them");
      value = look_up(machine, *values.dict(), make_text(text.substr(at + 1, end - at - 1)));
      if (!value)
        return wrong("a text to format names a value that is not there");
      has_names = true;
      at = end + 1;
    }
    CUGRT_ASSIGN(const Form form, form_at(text, at));
    const char32_t kind = at < text.size() ? code_of(text[at]) : U'\0';
    ++at;
    if (kind == '%') {
      out.add(U'%');
      continue;
    }
    if (!value && used >= count)
      return wrong("a text to format wants more values than there are");
    if (!value)
      value = is_tuple ? &list->values[used++] : (++used, &values);
    if (kind == 's' || kind == 'r') {
      TextBuilder one(machine);
      kind == 's' ? print(one, *value) : print_repr(one, *value);
      Text printed = one.take();
      if (form.precision >= 0)
        printed.resize(std::min(printed.size(), static_cast<size_t>(form.precision)));
      add_padded(out, printed, form, false);
    } else if (kind != 0 && TextView(U"diuxXofFeEgG").find(kind) != TextView::npos) {
      CUGRT_ASSIGN(const std::string number, number_of(*value, static_cast<char>(kind), form));
      add_padded(out, text_of(number), form, true);
    } else {
      return wrong("a text to format has a '%' that stands for no value");
    }
  }
  if (!has_names && used < count && !(used == 0 && values.dict()))
    return wrong("a text to format takes fewer values than there are");
  return machine.text(out.take());
}

} // namespace cugrt::llm::jinja
