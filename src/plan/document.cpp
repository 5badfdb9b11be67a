// JSON and CBOR (RFC 8949): written by hand, parsed by nlohmann's event interface into Nodes.
#include "plan/document.h"

#include "plan/bytes_scan.h"

#include <llvm/Support/ConvertUTF.h>
#include <nlohmann/json.hpp>

namespace cugrt::plan {

// --- Writing JSON --------------------------------------------------------------------------------

/// A comma and a line's end where needed; `row`: what follows is a list or an object.
void JsonEmitter::separate(bool row) {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (open_.empty())
    return;
  Open &open = open_.back();
  if (!open.empty)
    out_ += ',';
  open.empty = false;
  // Elements that are rows stand on lines of their own, and so do the members of the plan itself.
  bool line = (row && !open.object) || open_.size() == 1;
  open.rows |= line;
  if (line)
    out_ += "\n" + std::string(open_.size(), ' ');
}

void JsonEmitter::begin(Node::Kind kind, size_t) {
  separate(true);
  bool object = kind == Node::Kind::object;
  out_ += object ? '{' : '[';
  open_.push_back({object});
}

void JsonEmitter::end() {
  Open open = open_.back();
  open_.pop_back();
  if (open.rows)
    out_ += "\n" + std::string(open_.size(), ' ');
  out_ += open.object ? '}' : ']';
}

void JsonEmitter::key(std::string_view name) {
  text(name);
  out_ += ':';
  after_key_ = true;
}

void JsonEmitter::null() {
  separate(false);
  out_ += "null";
}

void JsonEmitter::boolean(bool value) {
  separate(false);
  out_ += value ? "true" : "false";
}

void JsonEmitter::integer(bool negative, uint64_t number) {
  separate(false);
  out_ += negative ? std::to_string(int64_t(number)) : std::to_string(number);
}

static constexpr char kDigits[] = "0123456789abcdef";

void JsonEmitter::text(std::string_view value) {
  separate(false);
  out_ += '"';
  const auto *at = reinterpret_cast<const llvm::UTF8 *>(value.data());
  const llvm::UTF8 *end = at + value.size();
  while (at != end) {
    unsigned char c = *at;
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += char(c);
      ++at;
    } else if (c < 0x20) {
      out_ += "\\u00";
      out_ += kDigits[c >> 4];
      out_ += kDigits[c & 15];
      ++at;
    } else if (llvm::isLegalUTF8Sequence(at, end)) {
      unsigned length = llvm::getNumBytesForUTF8(c);
      out_.append(reinterpret_cast<const char *>(at), length);
      at += length;
    } else {
      out_ += "\xef\xbf\xbd"; // U+FFFD
      ++at;
    }
  }
  out_ += '"';
}

void JsonEmitter::bytes(std::string_view value) {
  separate(false);
  out_ += '"';
  for (unsigned char c : value) {
    out_ += kDigits[c >> 4];
    out_ += kDigits[c & 15];
  }
  out_ += '"';
}

// --- Writing CBOR --------------------------------------------------------------------------------

void CborEmitter::head(unsigned major, uint64_t argument) {
  int length = argument < 24            ? 0
               : argument <= 0xff       ? 1
               : argument <= 0xffff     ? 2
               : argument <= UINT32_MAX ? 4
                                        : 8;
  unsigned info = length == 0   ? unsigned(argument)
                  : length == 1 ? 24
                  : length == 2 ? 25
                  : length == 4 ? 26
                                : 27;
  out_ += char(major << 5 | info);
  for (int i = length - 1; i >= 0; --i)
    out_ += char(argument >> (8 * i));
}

void CborEmitter::begin(Node::Kind kind, size_t count) {
  head(kind == Node::Kind::object ? 5 : 4, count);
}

void CborEmitter::integer(bool negative, uint64_t number) {
  negative ? head(1, ~number) : head(0, number);
}

void CborEmitter::text(std::string_view value) {
  head(3, value.size());
  out_ += value;
}

void CborEmitter::bytes(std::string_view value) {
  head(2, value.size());
  out_ += value;
}

// --- Parsing -------------------------------------------------------------------------------------

namespace {

using Json = nlohmann::json;

/// Builds a Node from parse events. False ends parsing; `error` then says why.
class Builder {
public:
  Node root;
  std::string error;

  bool null() { return add(make(Node::Kind::null)); }
  bool boolean(bool value) { return add(make(Node::Kind::boolean, value)); }
  bool number_integer(int64_t value) {
    Node node = make(Node::Kind::integer, uint64_t(value));
    node.negative = value < 0;
    return add(std::move(node));
  }
  bool number_unsigned(uint64_t value) { return add(make(Node::Kind::integer, value)); }
  bool number_float(double, const std::string &) { return fail("it has a number with a fraction"); }
  bool string(std::string &value) {
    Node node = make(Node::Kind::text);
    node.text = std::move(value);
    return add(std::move(node));
  }
  bool binary(Json::binary_t &value) {
    Node node = make(Node::Kind::bytes);
    node.text.assign(value.begin(), value.end());
    return add(std::move(node));
  }
  bool start_object(size_t) { return open(Node::Kind::object); }
  bool start_array(size_t) { return open(Node::Kind::list); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string &name) {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t at, const std::string &, const nlohmann::detail::exception &) {
    return fail("syntax error at byte " + std::to_string(at));
  }

private:
  bool fail(std::string what) {
    error = std::move(what);
    return false;
  }
  Node make(Node::Kind kind, uint64_t number = 0) {
    Node node;
    node.kind = kind;
    node.number = number;
    node.key = std::move(key_);
    key_.clear();
    return node;
  }
  bool add(Node node) {
    if (open_.empty())
      root = std::move(node);
    else
      open_.back().items.push_back(std::move(node));
    return true;
  }
  bool open(Node::Kind kind) {
    open_.push_back(make(kind));
    return true;
  }
  bool close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    return add(std::move(node));
  }

  std::vector<Node> open_;
  std::string key_;
};

} // namespace

Result<Node> parse_document(std::string_view bytes) {
  auto malformed = [](const std::string &what) {
    return Status::error(cugrt::Code::parse_error, "plan is malformed: " + what);
  };
  std::string_view spaces = " \t\r\n";
  size_t first = bytes.find_first_not_of(spaces);
  bool text = first != std::string_view::npos && bytes[first] == '{';
  if (!(text ? scan_json(bytes) : scan_cbor(bytes)))
    return malformed(text ? "its JSON is nested too deeply" : "it is neither JSON nor plain CBOR");
  Builder builder;
  try {
    bool ok = Json::sax_parse(bytes.begin(), bytes.end(), &builder,
                              text ? Json::input_format_t::json : Json::input_format_t::cbor);
    if (!ok)
      return malformed(builder.error);
  } catch (const Json::exception &error) { // thrown in a few places in spite of the handler
    return malformed(error.what());
  }
  return std::move(builder.root);
}

} // namespace cugrt::plan
