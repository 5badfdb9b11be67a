// Documents: the trees that CBOR (RFC 8949) stands for, as far as plans use them.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::plan {

struct Node {
  enum class Kind : uint8_t { null, boolean, integer, text, bytes, list, object };
  Kind kind = Kind::null;
  bool negative = false; // of an integer: `number` is its two's complement
  uint64_t number = 0;   // of an integer; 0 or 1 of a boolean
  std::string_view key;  // of a member of an object
  std::string_view text; // of text and bytes
  std::vector<Node> items;
};

/// Lists and objects nest no deeper.
inline constexpr size_t kMaxDocumentNesting = 16;

/// Parses one item of definite lengths and of the kinds above, which all bytes belong to; texts are
/// views of them. Errors name the byte.
Result<Node> parse_document(std::string_view bytes);

/// Appends a document to a string; counts of lists and objects are known beforehand.
class DocumentWriter {
public:
  explicit DocumentWriter(std::string &out) : out_(out) {}
  void begin(Node::Kind kind, size_t count); // a list or an object
  void key(std::string_view name) { text(name); }
  void null() { out_ += char(0xf6); }
  void boolean(bool value) { out_ += char(value ? 0xf5 : 0xf4); }
  void integer(bool negative, uint64_t number); // as Node has them
  void text(std::string_view value);
  void bytes(std::string_view value);

private:
  void head(unsigned major, uint64_t argument);
  std::string &out_;
};

} // namespace cugrt::plan
