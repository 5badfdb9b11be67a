// Bounds on JSON and CBOR (RFC 8949), without recursion.
#include "plan/bytes_scan.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace cugrt::plan {

bool scan_json(std::string_view bytes) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    char c = bytes[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxByteNesting)
        return false;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return true;
}

bool scan_cbor(std::string_view bytes) {
  std::array<uint64_t, kMaxByteNesting + 1> open{}; // items still to come at each depth
  size_t depth = 0, at = 0;
  open[0] = 1;
  while (true) {
    while (open[depth] == 0) {
      if (depth == 0)
        return at == bytes.size();
      --depth;
    }
    --open[depth];
    if (at == bytes.size())
      return false;
    auto head = static_cast<uint8_t>(bytes[at++]);
    unsigned major = head >> 5, info = head & 31;
    if (major == 7) { // false, true, null; no numbers with fractions
      if (info < 20 || info > 22)
        return false;
      continue;
    }
    if (major == 6 || info > 27)
      return false; // tags, indefinite lengths
    uint64_t argument = info;
    if (info >= 24) {
      size_t length = size_t(1) << (info - 24);
      if (bytes.size() - at < length)
        return false;
      argument = 0;
      for (size_t i = 0; i < length; ++i)
        argument = argument << 8 | static_cast<uint8_t>(bytes[at++]);
    }
    if (major == 2 || major == 3) { // bytes, text
      if (argument > bytes.size() - at)
        return false;
      at += argument;
    } else if (major == 4 || major == 5) { // arrays, maps: each element takes a byte at least
      if (argument > bytes.size() - at || depth == kMaxByteNesting)
        return false;
      open[++depth] = major == 5 ? argument * 2 : argument;
    }
  }
}

} // namespace cugrt::plan
