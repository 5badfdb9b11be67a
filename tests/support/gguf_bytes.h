// GGUF files by hand: keys and tensors are appended as the format's description has them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::test {

template <class Number> std::string little_endian(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::string gguf_string(std::string_view text) {
  return little_endian(uint64_t(text.size())) + std::string(text);
}

struct GgufBytes {
  uint32_t version = 3;
  uint64_t key_count = 0, tensor_count = 0;
  std::string keys, tensors, data;

  /// `value` follows the type as it stands.
  GgufBytes &key(std::string_view name, uint32_t type, const std::string &value) {
    keys += gguf_string(name) + little_endian(type) + value;
    ++key_count;
    return *this;
  }
  GgufBytes &text(std::string_view name, std::string_view value) {
    return key(name, 8, gguf_string(value));
  }
  GgufBytes &u32(std::string_view name, uint32_t value) {
    return key(name, 4, little_endian(value));
  }
  GgufBytes &list(std::string_view name, uint32_t type, uint64_t count, const std::string &value) {
    return key(name, 9, little_endian(type) + little_endian(count) + value);
  }
  GgufBytes &texts(std::string_view name, const std::vector<std::string> &values) {
    std::string all;
    for (const std::string &value : values)
      all += gguf_string(value);
    return list(name, 8, values.size(), all);
  }
  /// `dims` in the file's order, innermost first.
  GgufBytes &tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type,
                    uint64_t offset) {
    tensors += gguf_string(name) + little_endian(uint32_t(dims.size()));
    for (uint64_t dim : dims)
      tensors += little_endian(dim);
    tensors += little_endian(type) + little_endian(offset);
    ++tensor_count;
    return *this;
  }
  std::string file(size_t alignment = 32) const {
    std::string bytes = "GGUF" + little_endian(version) + little_endian(tensor_count) +
                        little_endian(key_count) + keys + tensors;
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
    return bytes + data;
  }
};

} // namespace cugrt::test
