// Protobuf messages as bytes, field by field: what wire.h reads. Source: protobuf's encoding guide.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cugrt::onnx {

class Message {
public:
  void number(uint32_t field, uint64_t value) {
    varint(uint64_t(field) << 3);
    varint(value);
  }
  void real(uint32_t field, float value) {
    varint(uint64_t(field) << 3 | 5);
    char bits[sizeof value];
    std::memcpy(bits, &value, sizeof value);
    bytes_.append(bits, sizeof bits);
  }
  void text(uint32_t field, std::string_view value) {
    begin(field, value.size());
    bytes_ += value;
  }
  void message(uint32_t field, const Message &value) { text(field, value.bytes_); }
  /// The head of a field of `size` bytes, which follow elsewhere.
  void begin(uint32_t field, uint64_t size) {
    varint(uint64_t(field) << 3 | 2);
    varint(size);
  }
  void append(const Message &fields) { bytes_ += fields.bytes_; }
  const std::string &bytes() const { return bytes_; }

private:
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7)
      bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

} // namespace cugrt::onnx
