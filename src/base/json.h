// JSON (RFC 8259): a strict reader, from front to back without a tree, and a writer.
//
//   begin_object(), then next_member(name) and the member's value, until it says false
//   begin_list(), then next_element() and the element, until it says false
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace cugrt {

/// The bytes that a text begins with: a character of UTF-8 (is_whole), the beginning of one at the
/// text's end (is_cut), or else the longest beginning of one that does not go on, at least a byte.
struct Utf8Sequence {
  size_t bytes;
  bool is_whole, is_cut;
};
Utf8Sequence first_utf8(std::string_view text); // not empty
void append_utf8(std::string &text, char32_t code);

/// Refuses what the standard does not allow, names that stand twice in an object, text that is no
/// UTF-8, and nesting beyond `max_depth`. Errors are Code::parse_error and begin with "at byte N:
/// ". After an error nothing more may be read.
class JsonReader {
public:
  enum class Kind : uint8_t { object, list, text, number, boolean, null };

  JsonReader(std::string_view text, size_t max_depth) : text_(text), max_depth_(max_depth) {}

  /// The kind of the next value.
  Result<Kind> kind();
  Status begin_object();
  /// The next member's name, whose value is to be read then; false at the object's end.
  Result<bool> next_member(std::string &name);
  Status begin_list();
  /// Whether a value comes next; false at the list's end.
  Result<bool> next_element();
  Status text(std::string &value);
  /// A number without sign, fraction and exponent.
  Status size(uint64_t &value);
  /// Any number, as it is written; of the reader's text.
  Status number(std::string_view &digits);
  Status boolean(bool &value);
  /// Any value.
  Status skip();
  /// Nothing but blanks is left.
  Status finish();
  /// Makes an error at the place of the last reading.
  Status error(std::string_view what) const;

private:
  struct Open {
    char end;
    bool empty = true;
    std::unordered_set<std::string> names{};
  };

  char peek(); // the next character that is no blank, which becomes the place of errors; 0: the end
  Status wrong(std::string_view wanted);
  Status begin(char begin, char end);
  Result<bool> next();
  Status escape(std::string &value);
  Result<uint32_t> four_digits();
  Status word(std::string_view word);

  std::string_view text_;
  size_t max_depth_;
  size_t at_ = 0, token_ = 0; // the next character; where errors are
  std::vector<Open> open_;
};

/// Writes one value, indented by two for each level. Text that is no UTF-8 is replaced.
class JsonWriter {
public:
  JsonWriter &begin_object() { return begin('{'); }
  JsonWriter &end_object() { return end('}'); }
  JsonWriter &begin_list() { return begin('['); }
  JsonWriter &end_list() { return end(']'); }
  /// The value is written next.
  JsonWriter &key(std::string_view name);
  JsonWriter &text(std::string_view value);
  JsonWriter &number(int64_t value) { return plain(std::to_string(value)); }
  JsonWriter &number(uint64_t value) { return plain(std::to_string(value)); }
  JsonWriter &boolean(bool value) { return plain(value ? "true" : "false"); }
  /// Returns the text with a newline at its end.
  std::string take() { return std::move(out_) + "\n"; }

private:
  JsonWriter &begin(char c);
  JsonWriter &end(char c);
  JsonWriter &plain(std::string_view value);
  void separate();
  void quote(std::string_view value);

  std::string out_;
  std::vector<bool> filled_; // of the open objects and lists
  bool after_key_ = false;
};

} // namespace cugrt
