// The protobuf wire format, read where it lies: fields are views of the file's bytes.
//
// Every length is checked against the rest of the message around it, so that no field reaches
// outside of the file. Groups, which ONNX does not have, are errors.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string_view>

namespace cugrt::onnx {

struct Field {
  uint32_t number = 0;
  bool is_bytes = false;     // else a number
  uint64_t number_value = 0; // of a varint, or the bits of a fixed one
  std::string_view bytes;
};

class FieldReader {
public:
  explicit FieldReader(std::string_view message) : rest_(message) {}
  bool done() const { return rest_.empty(); }
  /// Code::parse_error where the bytes are no field.
  Result<Field> next();

private:
  bool varint(uint64_t &value);
  std::string_view rest_;
};

} // namespace cugrt::onnx
