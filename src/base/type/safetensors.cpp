// The safetensors writer; see safetensors.h.
#include "base/type/safetensors.h"

#include "base/file.h"

#include <algorithm>
#include <vector>

namespace cugrt {

namespace {

/// The format's name; null where it has none.
const char *format_name(ir::DType dtype) {
  struct Row {
    ir::DType dtype;
    const char *name;
  };
  static constexpr Row kRows[] = {
      {ir::DType::boolean, "BOOL"}, {ir::DType::u8, "U8"},     {ir::DType::i8, "I8"},
      {ir::DType::u16, "U16"},      {ir::DType::i16, "I16"},   {ir::DType::u32, "U32"},
      {ir::DType::i32, "I32"},      {ir::DType::u64, "U64"},   {ir::DType::i64, "I64"},
      {ir::DType::f16, "F16"},      {ir::DType::bf16, "BF16"}, {ir::DType::f32, "F32"},
      {ir::DType::f64, "F64"},      {ir::DType::q4_0, "Q4_0"}, {ir::DType::q4_1, "Q4_1"},
      {ir::DType::q8_0, "Q8_0"},    {ir::DType::q5_0, "Q5_0"}, {ir::DType::q5_1, "Q5_1"},
      {ir::DType::q2_k, "Q2_K"},    {ir::DType::q3_k, "Q3_K"}, {ir::DType::q4_k, "Q4_K"},
      {ir::DType::q5_k, "Q5_K"},    {ir::DType::q6_k, "Q6_K"}, {ir::DType::iq4_nl, "IQ4_NL"}};
  for (const Row &row : kRows)
    if (row.dtype == dtype)
      return row.name;
  return nullptr;
}

// The format has no gaps. With large tensors of round sizes first, most begin at multiples of this,
// where a device can read them in the file's pages.
constexpr size_t kAlignment = 64;

size_t alignment_behind(const StoredTensor &tensor) {
  const size_t bytes = tensor.bytes.size();
  return std::min(kAlignment, bytes & (~bytes + 1));
}

bool needs_no_escape(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

} // namespace

Status write_safetensors(const std::string &path, std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor *> order;
  for (const StoredTensor &tensor : tensors)
    order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto *a, const auto *b) {
    return alignment_behind(*a) > alignment_behind(*b);
  });
  std::string header = "{";
  size_t at = 0;
  std::vector<std::string_view> parts(2);
  for (const StoredTensor *tensor : order) {
    const std::string name(tensor->name);
    if (!std::all_of(name.begin(), name.end(), needs_no_escape))
      return Status::error(Code::invalid_argument, "a tensor's name holds letters, digits, '_' and "
                                                   "'.' alone, not as '" +
                                                       name + "'");
    const char *dtype = format_name(tensor->dtype);
    if (!dtype)
      return Status::error(Code::unsupported, "safetensors has no name for the dtype of '" + name +
                                                  "', " + std::string(info(tensor->dtype).name));
    header +=
        (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[";
    for (size_t i = 0; i < tensor->dims.size(); ++i)
      header += (i ? "," : "") + std::to_string(tensor->dims[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," +
              std::to_string(at + tensor->bytes.size()) + "]}";
    at += tensor->bytes.size();
    parts.push_back(tensor->bytes);
  }
  header += "}";
  header.append((kAlignment - (8 + header.size()) % kAlignment) % kAlignment, ' ');
  std::string length;
  for (unsigned i = 0; i < 8; ++i)
    length += static_cast<char>(header.size() >> (8 * i) & 255);
  parts[0] = length, parts[1] = header;
  return write_file(path, parts);
}

} // namespace cugrt
