// CBOR (RFC 8949), written and read. Reading trusts nothing: nesting is bounded, every length and
// count is compared with the bytes that are left before anything is allocated for it.
#include "plan/bytes/document.h"

namespace cugrt::plan {

namespace {

using Kind = Node::Kind;

/// Section 3.1: meanings of the first three bits of an item's head.
enum Major : unsigned { kUnsigned, kNegative, kBytes, kText, kArray, kMap, kTag, kSimple };
/// Section 3.3: values of kind kSimple.
constexpr unsigned kFalse = 20, kTrue = 21, kNull = 22;

// --- Reading -------------------------------------------------------------------------------------

class Parser {
public:
  explicit Parser(std::string_view bytes) : bytes_(bytes) {}

  Result<Node> parse() {
    Node root;
    CUGRT_TRY(item(root));
    while (!open_.empty()) {
      Open &inner = open_.back();
      if (inner.left == 0) {
        open_.pop_back();
        continue;
      }
      --inner.left;
      std::vector<Node> &items = inner.node->items; // grows only while nothing in it is open
      Node &next = items.emplace_back();
      if (inner.node->kind == Kind::object)
        CUGRT_TRY(key(next.key));
      CUGRT_TRY(item(next));
    }
    if (at_ != bytes_.size())
      return error("something stands behind its end");
    return root;
  }

private:
  struct Open {
    Node *node;
    uint64_t left; // items, or pairs of an object, still to come
  };

  Status error(const std::string &what) const {
    return Status::error(cugrt::Code::parse_error,
                         "plan is malformed at byte " + std::to_string(begin_) + ": " + what);
  }

  Status head(unsigned &major, unsigned &info, uint64_t &argument) {
    begin_ = at_;
    if (at_ == bytes_.size())
      return error("it ends too early");
    const auto first = static_cast<uint8_t>(bytes_[at_++]);
    major = first >> 5, info = first & 31, argument = info;
    if (info > 27)
      return error("it is no plain CBOR");
    if (info < 24)
      return {};
    const size_t length = size_t(1) << (info - 24);
    if (bytes_.size() - at_ < length)
      return error("it ends too early");
    argument = 0;
    for (size_t i = 0; i < length; ++i)
      argument = argument << 8 | static_cast<uint8_t>(bytes_[at_++]);
    return {};
  }

  Status take(std::string_view &text, uint64_t length) {
    if (length > bytes_.size() - at_)
      return error("it has " + std::to_string(length) + " bytes, more than are left");
    text = bytes_.substr(at_, length);
    at_ += length;
    return {};
  }

  Status key(std::string_view &name) {
    unsigned major = 0, info = 0;
    uint64_t length = 0;
    CUGRT_TRY(head(major, info, length));
    return major == kText ? take(name, length) : error("a member's name is no text");
  }

  Status item(Node &node) {
    unsigned major = 0, info = 0;
    uint64_t argument = 0;
    CUGRT_TRY(head(major, info, argument));
    switch (major) {
    case kUnsigned:
    case kNegative:
      node.kind = Kind::integer;
      node.negative = major == kNegative;
      node.number = node.negative ? ~argument : argument;
      return node.negative && argument > INT64_MAX ? error("a number has more than 64 bits")
                                                   : Status();
    case kBytes:
    case kText:
      node.kind = major == kText ? Kind::text : Kind::bytes;
      return take(node.text, argument);
    case kArray:
    case kMap:
      if (argument > bytes_.size() - at_) // each takes a byte at least
        return error("it has " + std::to_string(argument) + " elements, more than are left");
      if (open_.size() == kMaxDocumentNesting)
        return error("it is nested too deeply");
      node.kind = major == kMap ? Kind::object : Kind::list;
      open_.push_back({&node, argument});
      return {};
    case kSimple:
      if (info != kFalse && info != kTrue && info != kNull)
        break;
      node.kind = info == kNull ? Kind::null : Kind::boolean;
      node.number = info == kTrue;
      return {};
    default:
      break;
    }
    return error("it is no plain CBOR");
  }

  std::string_view bytes_;
  size_t at_ = 0, begin_ = 0; // the next byte; where the item began that is being read
  std::vector<Open> open_;
};

} // namespace

Result<Node> parse_document(std::string_view bytes) { return Parser(bytes).parse(); }

// --- Writing -------------------------------------------------------------------------------------

void DocumentWriter::head(unsigned major, uint64_t argument) {
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

void DocumentWriter::begin(Kind kind, size_t count) {
  head(kind == Kind::object ? kMap : kArray, count);
}

void DocumentWriter::integer(bool negative, uint64_t number) {
  negative ? head(kNegative, ~number) : head(kUnsigned, number);
}

void DocumentWriter::text(std::string_view value) {
  head(kText, value.size());
  out_ += value;
}

void DocumentWriter::bytes(std::string_view value) {
  head(kBytes, value.size());
  out_ += value;
}

} // namespace cugrt::plan
