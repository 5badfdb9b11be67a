// support: JSON as RFC 8259 has it, and nothing else.
#include "support/catch.h"

#include "base/json.h"

using namespace cugrt;

namespace {

/// Reads one value of any kind.
Status read(std::string_view text, size_t max_depth = 8) {
  JsonReader json(text, max_depth);
  CUGRT_TRY(json.skip());
  return json.finish();
}

std::string text_of(std::string_view json) {
  JsonReader reader(json, 1);
  std::string text;
  const Status status = reader.text(text);
  return status.ok() ? text : status.message();
}

} // namespace

TEST_CASE("a reader goes through objects, lists and values in their order") {
  JsonReader json(R"( {"sizes": [0, 18446744073709551615] , "rest": [null, true, {"x": -1.5e+3}],
                       "name":"a"} )",
                  3);
  std::string name, text;
  uint64_t size = 1;
  REQUIRE(json.begin_object().ok());
  REQUIRE(*json.next_member(name));
  CHECK(name == "sizes");
  REQUIRE(json.begin_list().ok());
  REQUIRE(*json.next_element());
  REQUIRE(json.size(size).ok());
  CHECK(size == 0);
  REQUIRE(*json.next_element());
  REQUIRE(json.size(size).ok());
  CHECK(size == UINT64_MAX);
  CHECK_FALSE(*json.next_element());
  REQUIRE(*json.next_member(name));
  CHECK(name == "rest");
  CHECK(*json.kind() == JsonReader::Kind::list);
  REQUIRE(json.skip().ok());
  REQUIRE(*json.next_member(name));
  REQUIRE(json.text(text).ok());
  CHECK(text == "a");
  CHECK_FALSE(*json.next_member(name));
  CHECK(json.finish().ok());
}

TEST_CASE("text is UTF-8 with the standard's escapes") {
  CHECK(text_of(R"("")").empty());
  CHECK(text_of(R"("a\"\\\/\b\f\n\r\tz")") == "a\"\\/\b\f\n\r\tz");
  CHECK(text_of(R"("\u0041\u00e4\u20AC\ud83d\ude00")") == "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK(text_of("\"\xc3\xa4\xf4\x8f\xbf\xbf\"") == "\xc3\xa4\xf4\x8f\xbf\xbf");
}

TEST_CASE("values of every kind are passed over") {
  for (const char *text : {"0", "-0", "10.25", "1e9", "-1E-9", "true", "false", "null", "\"a\"",
                           "[]", "{}", "[[], [1, {\"a\": {}}]]", "\t\r\n [ 1 ] "}) {
    INFO(text);
    CHECK(read(text).ok());
  }
}

TEST_CASE("what is no JSON is an error that names the byte") {
  struct Row {
    std::string text;
    const char *message;
  };
  const Row rows[] = {
      {"", "at byte 0: the text ends where a value must stand"},
      {"  x", "at byte 2: a value must stand here"},
      {"[1,]", "at byte 3: a value must stand here"},
      {"[1 2]", "at byte 3: ',' or ']' must stand here"},
      {"[1", "at byte 2: the text ends where ',' or ']' must stand"},
      {"[1}", "at byte 2: ',' or ']' must stand here"},
      {"{\"a\" 1}", "at byte 5: ':' must stand here"},
      {"{a:1}", "at byte 1: a name must stand here"},
      {"{\"a\":1,}", "at byte 7: a name must stand here"},
      {"{\"a\":1,\"\\u0061\":2}", "at byte 7: the name 'a' stands twice"},
      {"1 2", "at byte 2: something stands behind its end"},
      {"01", "at byte 1: something stands behind its end"},
      {"1.", "at byte 0: a digit must follow the point"},
      {"1e+", "at byte 0: an exponent needs a digit"},
      {"-", "at byte 0: a number must stand here"},
      {"+1", "at byte 0: a value must stand here"},
      {"nul", "at byte 0: a value must stand here"},
      {"\"a", "at byte 0: the text has no end"},
      {"\"\\", "at byte 1: no such escape"},
      {"\"\\x\"", "at byte 1: no such escape"},
      {"\"\\u12g4\"", "at byte 1: \\u wants four hexadecimal digits"},
      {"\"\\ud800\"", "at byte 1: half a surrogate pair"},
      {"\"\\udc00\\ud800\"", "at byte 1: half a surrogate pair"},
      {"\"a\nb\"", "at byte 2: a control character must be escaped"},
      {"\"\xc0\x80\"", "at byte 1: it is no UTF-8"},         // overlong
      {"\"\xe0\x9f\xbf\"", "at byte 1: it is no UTF-8"},     // likewise
      {"\"\xed\xa0\x80\"", "at byte 1: it is no UTF-8"},     // a surrogate
      {"\"\xf4\x90\x80\x80\"", "at byte 1: it is no UTF-8"}, // above U+10FFFF
      {"\"\xe2\x82\"", "at byte 1: it is no UTF-8"},         // cut off
      {"[[[[[[[[[]]]]]]]]]", "at byte 8: it is nested too deeply"},
      {std::string(1 << 20, '['), "at byte 8: it is nested too deeply"},
  };
  for (const Row &row : rows) {
    const Status status = read(row.text);
    INFO(row.message);
    REQUIRE_FALSE(status.ok());
    CHECK(status.code() == Code::parse_error);
    CHECK(status.message() == row.message);
  }
}

TEST_CASE("a size has no sign, fraction or exponent, and 64 bits") {
  for (const char *text : {"-1", "1.0", "1e2", "18446744073709551616"}) {
    INFO(text);
    uint64_t size = 0;
    CHECK(JsonReader(text, 1).size(size).message() ==
          "at byte 0: " + std::string(text) + " is not a size");
  }
}

TEST_CASE("a writer indents, escapes, and replaces what is no UTF-8") {
  JsonWriter json;
  json.begin_object().key("a\"b").text("x\n\x01\xff\xc3\xa4").key("list").begin_list();
  json.number(int64_t(-1)).number(UINT64_MAX).boolean(true).end_list();
  json.key("empty").begin_object().end_object().key("none").begin_list().end_list();
  const std::string text = json.end_object().take();
  CHECK(text == "{\n  \"a\\\"b\": \"x\\n\\u0001\xef\xbf\xbd\xc3\xa4\",\n  \"list\": [\n    -1,\n"
                "    18446744073709551615,\n    true\n  ],\n  \"empty\": {},\n  \"none\": []\n}\n");
  CHECK(read(text).ok());
}
