// JSON as transformers' tojson writes it, and the caller's; see machine.h and value.h.
#include "fronts/llm/jinja_values/value.h"

#include "base/json.h"
#include "fronts/llm/jinja_values/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cugrt::llm::jinja {

namespace {

constexpr size_t kMaxDepth = 64;

class Writer {
public:
  Writer(Machine &machine, const JsonForm &form) : machine_(machine), out_(machine), form_(form) {}

  Status write(const Value &value) {
    machine_.work(1);
    if (const Text *text = value.text()) {
      quote(*text);
    } else if (const List *list = value.list(); list && list->kind <= ListKind::tuple) {
      return write_list(*list);
    } else if (const Dict *dict = value.dict()) {
      return write_dict(*dict);
    } else if (value.is_none() || value.is_number()) {
      out_.add(plain(value));
    } else {
      return wrong(std::string("a value of type ") + type_name(value) +
                   " cannot be written as JSON");
    }
    return {};
  }
  Text take() { return out_.take(); }

private:
  static Text plain(const Value &value) {
    if (value.is_none())
      return U"null";
    if (const bool *boolean = value.get<bool>())
      return *boolean ? U"true" : U"false";
    if (const int64_t *integer = value.get<int64_t>())
      return text_of(std::to_string(*integer));
    const double real = *value.get<double>();
    return std::isnan(real)   ? Text(U"NaN")
           : std::isinf(real) ? Text(real < 0 ? U"-Infinity" : U"Infinity")
                              : text_of(number_text(real));
  }

  void line() {
    if (!form_.indent)
      return;
    out_.add(U'\n');
    for (size_t i = 0; i < depth_; ++i)
      out_.add(*form_.indent);
  }
  void begin_value(bool is_first) {
    if (!is_first)
      out_.add(form_.between);
    line();
  }
  void begin(char32_t bracket) {
    out_.add(bracket);
    ++depth_;
  }
  void end(char32_t bracket, bool is_empty) {
    --depth_;
    if (!is_empty)
      line();
    out_.add(bracket);
  }

  Status write_list(const List &list) {
    begin(U'[');
    for (size_t i = 0; i < list.values.size() && !machine_.is_over(); ++i) {
      begin_value(i == 0);
      CUGRT_TRY(write(list.values[i]));
    }
    end(U']', list.values.empty());
    return {};
  }

  Status write_dict(const Dict &dict) {
    std::vector<const std::pair<Value, Value> *> entries;
    for (const auto &entry : dict.entries) {
      if (form_.sorts_keys && !entry.first.text())
        return wrong("only keys that are texts can be sorted");
      entries.push_back(&entry);
    }
    if (form_.sorts_keys)
      machine_.work(dict.weight);
    CUGRT_TRY(machine_.check());
    if (form_.sorts_keys)
      std::ranges::stable_sort(
          entries, {}, [](const auto *entry) -> const Text & { return *entry->first.text(); });
    begin(U'{');
    for (size_t i = 0; i < entries.size() && !machine_.is_over(); ++i) {
      begin_value(i == 0);
      const Value &key = entries[i]->first;
      if (!key.text() && !key.is_none() && !key.is_number())
        return wrong(std::string("a key of type ") + type_name(key) + " cannot be written as JSON");
      quote(key.text() ? *key.text() : plain(key));
      out_.add(form_.behind_key);
      CUGRT_TRY(write(entries[i]->second));
    }
    end(U'}', entries.empty());
    return {};
  }

  void unit(char32_t code, char32_t mark) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    Text text = {U'\\' | mark, U'u' | mark};
    for (int i = 12; i >= 0; i -= 4)
      text += static_cast<char32_t>(kDigits[code >> i & 15]) | mark;
    out_.add(text);
  }

  void quote(const Text &text) {
    constexpr TextView kEscaped = U"\"\\\b\f\n\r\t", kNames = U"\"\\bfnrt";
    out_.add(U'"');
    for (char32_t c : text) {
      const char32_t code = code_of(c), mark = c & kUntrusted;
      if (const size_t i = kEscaped.find(c); i != kEscaped.npos) {
        out_.add(Text{U'\\' | mark, kNames[i] | mark});
      } else if (code >= 0x10000 && form_.is_ascii) {
        unit(0xd800 + ((code - 0x10000) >> 10), mark);
        unit(0xdc00 + (code & 0x3ff), mark);
      } else if (code < 0x20 || (code >= 0x7f && form_.is_ascii && code != 0x7f)) {
        unit(code, mark);
      } else {
        out_.add(c);
      }
    }
    out_.add(U'"');
  }

  Machine &machine_;
  TextBuilder out_;
  const JsonForm &form_;
  size_t depth_ = 0;
};

Result<Value> read(JsonReader &reader);

Result<Value> read_number(JsonReader &reader) {
  std::string_view digits;
  CUGRT_TRY(reader.number(digits));
  const char *const end = digits.data() + digits.size();
  if (digits.find_first_of(".eE") == digits.npos) {
    int64_t whole = 0;
    if (std::from_chars(digits.data(), end, whole).ec != std::errc())
      return reader.error("a number is beyond 64 bits");
    return Value(whole);
  }
  double real = 0;
  if (std::from_chars(digits.data(), end, real).ec != std::errc())
    return reader.error("a number is out of range");
  return Value(real);
}

Result<Value> read_object(JsonReader &reader) {
  Dict::Entries entries;
  std::string name;
  CUGRT_TRY(reader.begin_object());
  while (true) {
    CUGRT_ASSIGN(const bool more, reader.next_member(name));
    if (!more)
      return make_dict(std::move(entries));
    Value key = make_text(text_of(name, false));
    CUGRT_ASSIGN(Value value, read(reader));
    entries.emplace_back(std::move(key), std::move(value));
  }
}

Result<Value> read_list(JsonReader &reader) {
  std::vector<Value> values;
  CUGRT_TRY(reader.begin_list());
  while (true) {
    CUGRT_ASSIGN(const bool more, reader.next_element());
    if (!more)
      return make_list(std::move(values));
    CUGRT_ASSIGN(Value value, read(reader));
    values.push_back(std::move(value));
  }
}

Result<Value> read(JsonReader &reader) {
  CUGRT_ASSIGN(const JsonReader::Kind kind, reader.kind());
  switch (kind) {
  case JsonReader::Kind::object:
    return read_object(reader);
  case JsonReader::Kind::list:
    return read_list(reader);
  case JsonReader::Kind::text: {
    std::string text;
    CUGRT_TRY(reader.text(text));
    return make_text(text_of(text, false));
  }
  case JsonReader::Kind::number:
    return read_number(reader);
  case JsonReader::Kind::boolean: {
    bool value = false;
    CUGRT_TRY(reader.boolean(value));
    return Value(value);
  }
  case JsonReader::Kind::null:
    CUGRT_TRY(reader.skip());
    return Value(None{});
  }
  return Value();
}

} // namespace

Result<Value> to_json(Machine &machine, const Value &value, const JsonForm &form) {
  Writer writer(machine, form);
  CUGRT_TRY(writer.write(value));
  return machine.text(writer.take());
}

Result<Value> value_of_json(std::string_view what, std::string_view json) {
  JsonReader reader(json, kMaxDepth);
  Result<Value> value = read(reader);
  if (!value.ok())
    return value.take_status().in(what);
  CUGRT_TRY(reader.finish().in(what));
  return value;
}

} // namespace cugrt::llm::jinja
