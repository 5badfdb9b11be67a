// GGUF: the file format of language models, versions 2 and 3, read where it lies.
//
//   "GGUF" version  tensor_count kv_count
//   kv_count   x  key, type, value                            integers are little-endian; a string
//   is tensor_count x name, rank, dimensions, type, offset       its length in 8 bytes, then its
//   bytes padding to general.alignment, then the tensors' bytes     offsets count from here
//
// A model may be cut into files NAME-00001-of-0000N.gguf: the first has the keys, each its tensors.
// Every length, count and offset is checked against the file before anything is used; names,
// strings and tensors are views of the mapped bytes.
#pragma once

#include "base/mapped_file.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cugrt::gguf {

enum class TensorType : uint32_t {
#define CUGRT_GGUF_TYPE(name, number, elements, bytes) name = number,
#include "fronts/gguf/tensor_types.def"
#undef CUGRT_GGUF_TYPE
};

struct TensorTypeInfo {
  std::string_view name;
  uint32_t elements_per_block, bytes_per_block;
};

/// None for a number that is no type.
std::optional<TensorTypeInfo> type_info(TensorType type);

struct Tensor {
  std::string_view name;
  TensorType type;
  std::vector<int64_t> dims; // outermost first, as the IR has them: the file has them reversed
  std::string_view bytes;    // all of them: whole rows of whole blocks
};

enum class ValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};

struct Value {
  ValueType type = ValueType::u8; // of an array: of its elements, which are no arrays
  bool is_array = false;
  uint64_t count = 1;
  std::string_view bytes; // of a string: itself; of an array: its elements, strings with lengths
};

class File {
public:
  /// Maps a file, and all others of a model in parts, whose first one `path` names.
  static Result<File> open(const std::string &path);
  /// Reads bytes that the caller keeps, of a model in one file; `name` stands for it in messages.
  static Result<File> parse(std::string_view bytes, std::string name);

  const std::string &name() const { return name_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor *find_tensor(std::string_view name) const;
  /// While it is held the bytes that the file mapped stay, also when the file is gone.
  std::shared_ptr<const void> pages() const { return parts_; }
  /// The keys in the order of the file.
  std::span<const std::string_view> keys() const { return keys_; }
  const Value *find(std::string_view key) const;

  /// The value of a key, or of one that is absent the default; without one that is Code::not_found.
  /// A value of another type is Code::parse_error; numbers of any width are taken where they fit.
  Result<int64_t> integer(std::string_view key, std::optional<int64_t> absent = {}) const;
  Result<double> number(std::string_view key, std::optional<double> absent = {}) const;
  Result<bool> boolean(std::string_view key, std::optional<bool> absent = {}) const;
  Result<std::string_view> string(std::string_view key,
                                  std::optional<std::string_view> absent = {}) const;
  /// A string that messages name: one longer than a tensor's name may be is Code::parse_error.
  Result<std::string_view> choice(std::string_view key,
                                  std::optional<std::string_view> absent = {}) const;
  /// Lists; an absent one is Code::not_found.
  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;

private:
  friend class Reader;
  Status add_part(const std::string &path, int64_t number, int64_t count);
  Status missing(std::string_view key) const;
  Status mistyped(std::string_view key, const char *wanted) const;
  /// Applies `at` to a value, or to each element of a list; none: it has another type.
  template <class T, class At>
  Result<T> scalar(std::string_view key, std::optional<T> absent, At at, const char *wanted) const;
  template <class T, class At>
  Result<std::vector<T>> list(std::string_view key, At at, const char *wanted) const;

  std::string name_;
  std::shared_ptr<std::vector<MappedFile>> parts_ = std::make_shared<std::vector<MappedFile>>();
  std::vector<Tensor> tensors_;
  std::unordered_map<std::string_view, size_t> tensor_index_;
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, Value> values_;
};

} // namespace cugrt::gguf
