// Fields of a protobuf message; see wire.h. Source: protobuf's encoding guide.
#include "fronts/onnx/file/wire.h"

#include <cstring>

namespace cugrt::onnx {

bool FieldReader::varint(uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    if (shift == 63 && byte > 1)
      return false;
    value |= uint64_t(byte & 127) << shift;
    if (byte < 128)
      return true;
  }
  return false;
}

Result<Field> FieldReader::next() {
  auto malformed = [](const char *what) {
    return Status::error(Code::parse_error, std::string("no protobuf message: ") + what);
  };
  uint64_t key = 0;
  if (!varint(key) || (key >> 3) == 0 || (key >> 3) >= (1u << 29))
    return malformed("a field's number is cut off or out of range");
  Field field;
  field.number = static_cast<uint32_t>(key >> 3);
  size_t fixed = 0;
  switch (key & 7) {
  case 0:
    if (!varint(field.number_value))
      return malformed("a number is cut off or too long");
    return field;
  case 1:
    fixed = 8;
    break;
  case 5:
    fixed = 4;
    break;
  case 2: {
    uint64_t size = 0;
    if (!varint(size) || size > rest_.size())
      return malformed("a field is longer than what is left of the message around it");
    field.is_bytes = true;
    field.bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return field;
  }
  default:
    return malformed("a field of a kind that ONNX does not have");
  }
  if (rest_.size() < fixed)
    return malformed("a number is cut off");
  std::memcpy(&field.number_value, rest_.data(), fixed);
  rest_.remove_prefix(fixed);
  return field;
}

} // namespace cugrt::onnx
