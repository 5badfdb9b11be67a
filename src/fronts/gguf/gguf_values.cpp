// Typed access to a GGUF file's keys.
#include "fronts/gguf/gguf.h"

#include "fronts/gguf/reader.h"

#include <cstring>
#include <variant>

namespace cugrt::gguf {

template <class Number> static Number load(std::string_view bytes, size_t i) {
  Number value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

/// Element i with its type; none for a string or a bool.
static std::variant<std::monostate, int64_t, uint64_t, double> element(const Value &value,
                                                                       size_t i) {
  switch (value.type) {
  case ValueType::u8:
    return int64_t(load<uint8_t>(value.bytes, i));
  case ValueType::i8:
    return int64_t(load<int8_t>(value.bytes, i));
  case ValueType::u16:
    return int64_t(load<uint16_t>(value.bytes, i));
  case ValueType::i16:
    return int64_t(load<int16_t>(value.bytes, i));
  case ValueType::u32:
    return int64_t(load<uint32_t>(value.bytes, i));
  case ValueType::i32:
    return int64_t(load<int32_t>(value.bytes, i));
  case ValueType::u64:
    return load<uint64_t>(value.bytes, i);
  case ValueType::i64:
    return load<int64_t>(value.bytes, i);
  case ValueType::f32:
    return double(load<float>(value.bytes, i));
  case ValueType::f64:
    return load<double>(value.bytes, i);
  case ValueType::boolean:
  case ValueType::string:
  case ValueType::array:
    break;
  }
  return {};
}

static std::optional<int64_t> integer_at(const Value &value, size_t i) {
  const auto any = element(value, i);
  if (const auto *narrow = std::get_if<int64_t>(&any))
    return *narrow;
  if (const auto *wide = std::get_if<uint64_t>(&any); wide && *wide <= INT64_MAX)
    return static_cast<int64_t>(*wide);
  return std::nullopt;
}

static std::optional<double> number_at(const Value &value, size_t i) {
  const auto any = element(value, i);
  if (const auto *floating = std::get_if<double>(&any))
    return *floating;
  if (const auto *narrow = std::get_if<int64_t>(&any))
    return static_cast<double>(*narrow);
  if (const auto *wide = std::get_if<uint64_t>(&any))
    return static_cast<double>(*wide);
  return std::nullopt;
}

static std::optional<bool> bool_at(const Value &value, size_t) {
  return value.type == ValueType::boolean ? std::optional(value.bytes[0] != 0) : std::nullopt;
}

static std::optional<std::string_view> text_at(const Value &value, size_t) {
  return value.type == ValueType::string ? std::optional(value.bytes) : std::nullopt;
}

const Value *File::find(std::string_view key) const {
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

Status File::missing(std::string_view key) const {
  return Status::error(Code::not_found, "'" + name_ + "' has no key '" + std::string(key) + "'");
}

Status File::mistyped(std::string_view key, const char *wanted) const {
  return Status::error(Code::parse_error,
                       "'" + name_ + "': key '" + std::string(key) + "' is not " + wanted);
}

template <class T, class At>
Result<T> File::scalar(std::string_view key, std::optional<T> absent, At at,
                       const char *wanted) const {
  const Value *value = find(key);
  if (!value && absent)
    return *absent;
  if (!value)
    return missing(key);
  const std::optional<T> scalar = value->is_array ? std::nullopt : at(*value, 0);
  return scalar ? Result<T>(*scalar) : mistyped(key, wanted);
}

template <class T, class At>
Result<std::vector<T>> File::list(std::string_view key, At at, const char *wanted) const {
  const Value *value = find(key);
  if (!value)
    return missing(key);
  std::vector<T> list;
  list.reserve(value->is_array ? value->count : 0);
  for (uint64_t i = 0; value->is_array && i < value->count; ++i) {
    const std::optional<T> number = at(*value, i);
    if (!number)
      return mistyped(key, wanted);
    list.push_back(*number);
  }
  return value->is_array ? Result(std::move(list)) : mistyped(key, wanted);
}

Result<int64_t> File::integer(std::string_view key, std::optional<int64_t> absent) const {
  return scalar(key, absent, integer_at, "an integer");
}
Result<double> File::number(std::string_view key, std::optional<double> absent) const {
  return scalar(key, absent, number_at, "a number");
}
Result<bool> File::boolean(std::string_view key, std::optional<bool> absent) const {
  return scalar(key, absent, bool_at, "a bool");
}
Result<std::string_view> File::string(std::string_view key,
                                      std::optional<std::string_view> absent) const {
  return scalar(key, absent, text_at, "a string");
}

Result<std::string_view> File::choice(std::string_view key,
                                      std::optional<std::string_view> absent) const {
  CUGRT_ASSIGN(const std::string_view name, string(key, absent));
  if (name.size() <= kMaxNameBytes)
    return name;
  return Status::error(Code::parse_error, "'" + name_ + "': key '" + std::string(key) + "' has " +
                                              std::to_string(name.size()) + " bytes, more than " +
                                              std::to_string(kMaxNameBytes));
}

Result<std::vector<std::string_view>> File::strings(std::string_view key) const {
  const Value *value = find(key);
  if (!value)
    return missing(key);
  if (!value->is_array || value->type != ValueType::string)
    return mistyped(key, "a list of strings");
  std::vector<std::string_view> list;
  list.reserve(value->count);
  std::string_view rest = value->bytes;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto length = load<uint64_t>(rest, 0); // the reader has seen that it fits
    list.push_back(rest.substr(sizeof length, length));
    rest.remove_prefix(sizeof length + length);
  }
  return list;
}

Result<std::vector<int64_t>> File::integers(std::string_view key) const {
  return list<int64_t>(key, integer_at, "a list of integers");
}
Result<std::vector<double>> File::numbers(std::string_view key) const {
  return list<double>(key, number_at, "a list of numbers");
}

} // namespace cugrt::gguf
