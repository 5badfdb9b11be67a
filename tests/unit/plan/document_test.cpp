// plan: documents in CBOR, on the examples of RFC 8949, appendix A, and on what is none.
#include "support/catch.h"

#include "plan/bytes/document.h"

using namespace cugrt;
using namespace cugrt::plan;

namespace {

std::string bytes(std::initializer_list<unsigned> values) {
  std::string text;
  for (unsigned value : values)
    text += char(value);
  return text;
}

} // namespace

TEST_CASE("numbers, texts and constants are what RFC 8949 says") {
  struct Row {
    std::string bytes;
    Node::Kind kind;
    bool negative;
    uint64_t number;
    std::string text;
  };
  using Kind = Node::Kind;
  const Row rows[] = {
      {bytes({0x00}), Kind::integer, false, 0, ""},
      {bytes({0x17}), Kind::integer, false, 23, ""},
      {bytes({0x18, 0x18}), Kind::integer, false, 24, ""},
      {bytes({0x19, 0x03, 0xe8}), Kind::integer, false, 1000, ""},
      {bytes({0x1a, 0x00, 0x0f, 0x42, 0x40}), Kind::integer, false, 1000000, ""},
      {bytes({0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), Kind::integer, false,
       UINT64_MAX, ""},
      {bytes({0x20}), Kind::integer, true, uint64_t(-1), ""},
      {bytes({0x39, 0x03, 0xe7}), Kind::integer, true, uint64_t(-1000), ""},
      {bytes({0xf4}), Kind::boolean, false, 0, ""},
      {bytes({0xf5}), Kind::boolean, false, 1, ""},
      {bytes({0xf6}), Kind::null, false, 0, ""},
      {bytes({0x44, 1, 2, 3, 4}), Kind::bytes, false, 0, bytes({1, 2, 3, 4})},
      {bytes({0x64, 'I', 'E', 'T', 'F'}), Kind::text, false, 0, "IETF"},
  };
  for (const Row &row : rows) {
    auto node = parse_document(row.bytes);
    REQUIRE(node.ok());
    CHECK(node->kind == row.kind);
    CHECK(node->negative == row.negative);
    CHECK(node->number == row.number);
    CHECK(node->text == row.text);
    std::string written;
    DocumentWriter writer(written);
    if (row.kind == Kind::integer)
      writer.integer(row.negative, row.number);
    else if (row.kind == Kind::boolean)
      writer.boolean(row.number != 0);
    else if (row.kind == Kind::null)
      writer.null();
    else
      row.kind == Kind::text ? writer.text(row.text) : writer.bytes(row.text);
    CHECK(written == row.bytes);
  }
}

TEST_CASE("lists and objects keep their order") {
  // [1, [2, 3], {"a": 1, "b": [2]}]
  const std::string text = bytes({0x83, 1, 0x82, 2, 3, 0xa2, 0x61, 'a', 1, 0x61, 'b', 0x81, 2});
  auto node = parse_document(text);
  REQUIRE(node.ok());
  REQUIRE(node->items.size() == 3);
  CHECK(node->items[1].items[1].number == 3);
  const Node &object = node->items[2];
  REQUIRE(object.kind == Node::Kind::object);
  REQUIRE(object.items.size() == 2);
  CHECK(object.items[0].key == "a");
  CHECK(object.items[1].key == "b");
  CHECK(object.items[1].items[0].number == 2);
}

TEST_CASE("what is no plain CBOR is an error that names the byte") {
  struct Row {
    std::string bytes;
    const char *message;
  };
  const Row rows[] = {
      {"", "at byte 0: it ends too early"},
      {bytes({0x19, 0x03}), "at byte 0: it ends too early"},
      {bytes({0x82, 1}), "at byte 0: it has 2 elements, more than are left"},
      {bytes({0x82, 0x61, 'a'}), "at byte 3: it ends too early"},
      {bytes({0x9b, 0xff, 0, 0, 0, 0, 0, 0, 0}), "more than are left"},
      {bytes({0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), "more than are left"},
      {bytes({0xa1, 0x01, 0x01}), "at byte 1: a member's name is no text"},
      {bytes({0x3b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), "more than 64 bits"},
      {bytes({0xf9, 0x3c, 0x00}), "at byte 0: it is no plain CBOR"}, // 1.0
      {bytes({0xf7}), "at byte 0: it is no plain CBOR"},             // undefined
      {bytes({0xc1, 0x00}), "at byte 0: it is no plain CBOR"},       // a tag
      {bytes({0x9f, 0xff}), "at byte 0: it is no plain CBOR"},       // of indefinite length
      {bytes({0x00, 0x00}), "something stands behind its end"},
      {std::string(kMaxDocumentNesting, '\x81') + bytes({0x81, 0}), "at byte 16: it is nested"},
      {std::string(1 << 20, '\x81'), "at byte 16: it is nested too deeply"},
  };
  for (const Row &row : rows) {
    auto node = parse_document(row.bytes);
    INFO(row.message);
    REQUIRE_FALSE(node.ok());
    INFO(node.status().message());
    CHECK(node.status().code() == Code::parse_error);
    CHECK(node.status().message().find(row.message) != std::string::npos);
  }
}
