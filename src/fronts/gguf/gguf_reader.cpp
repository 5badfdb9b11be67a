// The reader of one GGUF file's bytes.
#include "fronts/gguf/reader.h"

#include "base/checked_math.h"
#include "base/first_bytes.h"

#include <bit>
#include <cstring>

namespace cugrt::gguf {

// Loads go by memcpy: nothing in the file is aligned.
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint32_t kLastValueType = static_cast<uint32_t>(ValueType::f64);

static uint64_t bytes_of(ValueType type) {
  switch (type) {
  case ValueType::u8:
  case ValueType::i8:
  case ValueType::boolean:
    return 1;
  case ValueType::u16:
  case ValueType::i16:
    return 2;
  case ValueType::u32:
  case ValueType::i32:
  case ValueType::f32:
    return 4;
  case ValueType::u64:
  case ValueType::i64:
  case ValueType::f64:
    return 8;
  case ValueType::string:
  case ValueType::array:
    break;
  }
  return 0; // no fixed size
}

static std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

std::optional<TensorTypeInfo> type_info(TensorType type) {
  switch (type) {
#define CUGRT_GGUF_TYPE(name, number, elements, bytes)                                             \
  case TensorType::name:                                                                           \
    return TensorTypeInfo{#name, elements, bytes};
#include "fronts/gguf/tensor_types.def"
#undef CUGRT_GGUF_TYPE
  }
  return std::nullopt;
}

Status Reader::error(const std::string &what) const {
  return Status::error(Code::parse_error, quoted(name_) + " is no valid GGUF file: " + what);
}

Status Reader::truncated(const char *where) const {
  return error("it ends, after " + std::to_string(bytes_.size()) + " bytes, within " + where);
}

template <class Number> Status Reader::number(Number &value, const char *where) {
  if (bytes_.size() - at_ < sizeof value)
    return truncated(where);
  std::memcpy(&value, bytes_.data() + at_, sizeof value);
  at_ += sizeof value;
  return {};
}

Status Reader::text(std::string_view &value, uint64_t limit, const char *where) {
  uint64_t length = 0;
  CUGRT_TRY(number(length, where));
  if (length > bytes_.size() - at_)
    return truncated(where);
  if (length > limit)
    return error(std::string(where) + " has " + std::to_string(length) + " bytes, more than " +
                 std::to_string(limit));
  value = bytes_.substr(at_, length);
  at_ += length;
  return {};
}

Status Reader::elements(std::string_view key, Value &value) {
  const size_t begin = at_;
  if (value.type == ValueType::string) {
    std::string_view element;
    for (uint64_t i = 0; i < value.count; ++i)
      CUGRT_TRY(text(element, UINT64_MAX, "a list of strings"));
  } else {
    const uint64_t each = bytes_of(value.type);
    if (value.count > (bytes_.size() - at_) / each)
      return truncated("a list");
    at_ += value.count * each;
  }
  value.bytes = bytes_.substr(begin, at_ - begin);
  if (value.type == ValueType::boolean)
    for (char byte : value.bytes)
      if (byte != 0 && byte != 1)
        return error("a bool of key " + quoted(key) + " is neither 0 nor 1");
  return {};
}

Status Reader::value(std::string_view key, Value &value) {
  uint32_t type = 0;
  CUGRT_TRY(number(type, "a key's type"));
  if (type == static_cast<uint32_t>(ValueType::array)) {
    value.is_array = true;
    CUGRT_TRY(number(type, "a list's type"));
    CUGRT_TRY(number(value.count, "a list's length"));
    if (type == static_cast<uint32_t>(ValueType::array))
      return error("key " + quoted(key) + " has lists in a list");
  }
  if (type > kLastValueType)
    return error("key " + quoted(key) + " has the unknown type " + std::to_string(type));
  value.type = static_cast<ValueType>(type);
  if (value.type == ValueType::string && !value.is_array)
    return text(value.bytes, UINT64_MAX, "a string");
  return elements(key, value);
}

Status Reader::keys(File &file, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view key;
    Value read;
    CUGRT_TRY(text(key, kMaxKeyBytes, "a key"));
    CUGRT_TRY(value(key, read));
    if (!file.values_.try_emplace(key, read).second)
      return error("key " + quoted(key) + " stands twice");
    file.keys_.push_back(key);
  }
  return {};
}

Status Reader::tensor(File &file, uint64_t alignment) {
  Tensor read;
  uint32_t rank = 0, type = 0;
  uint64_t offset = 0;
  CUGRT_TRY(text(read.name, kMaxNameBytes, "a tensor's name"));
  CUGRT_TRY(number(rank, "a tensor's rank"));
  if (rank > kMaxRank)
    return error("tensor " + quoted(read.name) + " has rank " + std::to_string(rank));
  read.dims.resize(rank);
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t dim = 0;
    CUGRT_TRY(number(dim, "a tensor's dimensions"));
    if (dim > INT64_MAX)
      return error("tensor " + quoted(read.name) + " has a dimension of " + std::to_string(dim));
    read.dims[rank - 1 - i] = static_cast<int64_t>(dim);
  }
  CUGRT_TRY(number(type, "a tensor's type"));
  CUGRT_TRY(number(offset, "a tensor's offset"));
  read.type = static_cast<TensorType>(type);
  if (!type_info(read.type))
    return Status::error(Code::unsupported, quoted(name_) + ": tensor " + quoted(read.name) +
                                                " has the unknown type " + std::to_string(type));
  if (offset % alignment != 0)
    return error("tensor " + quoted(read.name) + " lies at offset " + std::to_string(offset) +
                 ", which is no multiple of " + std::to_string(alignment));
  if (!file.tensor_index_.try_emplace(read.name, file.tensors_.size()).second)
    return error("tensor " + quoted(read.name) + " stands twice");
  file.tensors_.push_back(std::move(read));
  offsets_.push_back(offset);
  return {};
}

// at_ is where the tensors' bytes begin.
Status Reader::place(Tensor &tensor, uint64_t offset) const {
  const TensorTypeInfo info = *type_info(tensor.type);
  const int64_t row = tensor.dims.empty() ? 1 : tensor.dims.back();
  if (row % info.elements_per_block != 0)
    return error("tensor " + quoted(tensor.name) + " has rows of " + std::to_string(row) +
                 " elements, and blocks of " + std::string(info.name) + " have " +
                 std::to_string(info.elements_per_block));
  std::optional<int64_t> size_bytes =
      checked_mul(row / info.elements_per_block, info.bytes_per_block);
  for (size_t i = 0; size_bytes && i + 1 < tensor.dims.size(); ++i)
    size_bytes = checked_mul(*size_bytes, tensor.dims[i]);
  if (!size_bytes)
    return error("the size of tensor " + quoted(tensor.name) + " overflows");
  const uint64_t room = bytes_.size() - at_;
  if (offset > room || static_cast<uint64_t>(*size_bytes) > room - offset)
    return error("tensor " + quoted(tensor.name) + " of " + std::to_string(*size_bytes) +
                 " bytes at offset " + std::to_string(offset) + " reaches beyond the file's end");
  tensor.bytes = bytes_.substr(at_ + offset, static_cast<size_t>(*size_bytes));
  return {};
}

Status Reader::read(File &file, bool is_first, File &keys_of_part) {
  uint32_t version = 0;
  uint64_t tensor_count = 0, key_count = 0;
  if (bytes_.substr(0, 4) != "GGUF") {
    const std::string what(told_by_first_bytes(bytes_));
    return error("it does not begin with GGUF" + (what.empty() ? what : "; it is " + what));
  }
  at_ = 4;
  CUGRT_TRY(number(version, "its header"));
  if (version != 2 && version != 3)
    return Status::error(Code::unsupported,
                         quoted(name_) + " is of GGUF version " + std::to_string(version) +
                             (version % 65536 == 0 ? ", as big-endian files have it" : "") +
                             "; versions 2 and 3 are read");
  CUGRT_TRY(number(tensor_count, "its header"));
  CUGRT_TRY(number(key_count, "its header"));
  File &keyed = is_first ? file : keys_of_part;
  CUGRT_TRY(keys(keyed, key_count));
  CUGRT_ASSIGN(const int64_t alignment, keyed.integer("general.alignment", kDefaultAlignment));
  if (alignment < 1 || alignment > INT32_MAX || !std::has_single_bit(uint64_t(alignment)))
    return error("general.alignment is " + std::to_string(alignment));
  const size_t first = file.tensors_.size();
  for (uint64_t i = 0; i < tensor_count; ++i)
    CUGRT_TRY(tensor(file, static_cast<uint64_t>(alignment)));
  if (tensor_count == 0)
    return {};
  const auto begin = static_cast<size_t>(*checked_align(static_cast<int64_t>(at_), alignment));
  if (begin > bytes_.size())
    return truncated("the padding before the tensors");
  at_ = begin;
  for (size_t i = 0; i < offsets_.size(); ++i)
    CUGRT_TRY(place(file.tensors_[first + i], offsets_[i]));
  return {};
}

} // namespace cugrt::gguf
