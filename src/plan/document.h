// Documents: the trees that JSON and CBOR stand for, as far as plans use them.
//
// Writing goes straight to bytes. Reading gives a tree of our own: the library's own tree allocates
// when it is destroyed, and would end the process when memory runs out.
#pragma once

#include "support/status.h"

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
  std::string key;       // of a member of an object
  std::string text;      // of text and bytes
  std::vector<Node> items;
};

/// Parses JSON, when the first character is that of an object, or CBOR. Nesting is bounded.
Result<Node> parse_document(std::string_view bytes);

/// Appends a document to a string; counts of lists and objects are known beforehand.
class Emitter {
public:
  virtual ~Emitter() = default;
  virtual void begin(Node::Kind kind, size_t count) = 0; // a list or an object
  virtual void end() = 0;
  virtual void key(std::string_view name) = 0;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void integer(bool negative, uint64_t number) = 0; // as Node has them
  virtual void text(std::string_view value) = 0;
  virtual void bytes(std::string_view value) = 0;
};

/// Text: a line for each row, bytes as hexadecimal digits, bytes that are no UTF-8 replaced.
class JsonEmitter final : public Emitter {
public:
  explicit JsonEmitter(std::string &out) : out_(out) {}
  void begin(Node::Kind kind, size_t count) override;
  void end() override;
  void key(std::string_view name) override;
  void null() override;
  void boolean(bool value) override;
  void integer(bool negative, uint64_t number) override;
  void text(std::string_view value) override;
  void bytes(std::string_view value) override;

private:
  void separate(bool row);
  struct Open {
    bool object;
    bool empty = true, rows = false;
  };
  std::string &out_;
  std::vector<Open> open_;
  bool after_key_ = false;
};

class CborEmitter final : public Emitter {
public:
  explicit CborEmitter(std::string &out) : out_(out) {}
  void begin(Node::Kind kind, size_t count) override;
  void end() override {}
  void key(std::string_view name) override { text(name); }
  void null() override { out_ += char(0xf6); }
  void boolean(bool value) override { out_ += char(value ? 0xf5 : 0xf4); }
  void integer(bool negative, uint64_t number) override;
  void text(std::string_view value) override;
  void bytes(std::string_view value) override;

private:
  void head(unsigned major, uint64_t argument);
  std::string &out_;
};

} // namespace cugrt::plan
