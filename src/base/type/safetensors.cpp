// The safetensors writer; see safetensors.h.
#include "base/type/safetensors.h"

#include "base/file.h"
#include "base/little_endian.h"

#include <algorithm>

namespace cugrt {

std::string safetensors_name(ir::DType dtype) {
  std::string name(info(dtype).name);
  for (char &c : name)
    c = c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  return dtype == ir::DType::i4 || dtype == ir::DType::u4 ? "" : name;
}

std::optional<ir::DType> safetensors_dtype(std::string_view name) {
  std::string own(name);
  for (char &c : own)
    c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  const std::optional<ir::DType> dtype = ir::dtype_from_name(own);
  return dtype && safetensors_name(*dtype) == name ? dtype : std::nullopt;
}

// The format has no gaps. With large tensors of round sizes first, most begin at multiples of this,
// where a device can read them in the file's pages.
constexpr size_t kAlignment = 64;

static size_t alignment_behind(const StoredTensor &tensor) {
  const size_t bytes = tensor.bytes.size();
  return std::min(kAlignment, bytes & (~bytes + 1));
}

static bool needs_no_escape(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

std::vector<std::string_view> SafetensorsFile::parts() const {
  std::vector<std::string_view> all = {head};
  all.insert(all.end(), bodies.begin(), bodies.end());
  return all;
}

Result<SafetensorsFile> make_safetensors(std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor *> order;
  for (const StoredTensor &tensor : tensors)
    order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto *a, const auto *b) {
    return alignment_behind(*a) > alignment_behind(*b);
  });
  std::string header = "{";
  size_t at = 0;
  SafetensorsFile file;
  for (const StoredTensor *tensor : order) {
    const std::string name(tensor->name);
    if (!std::all_of(name.begin(), name.end(), needs_no_escape))
      return Status::error(Code::invalid_argument, "a tensor's name holds letters, digits, '_' and "
                                                   "'.' alone, not as '" +
                                                       name + "'");
    const std::string dtype = safetensors_name(tensor->dtype);
    if (dtype.empty())
      return Status::error(Code::unsupported, "safetensors has no name for the dtype of '" + name +
                                                  "', " + std::string(info(tensor->dtype).name));
    header +=
        (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[";
    for (size_t i = 0; i < tensor->dims.size(); ++i)
      header += (i ? "," : "") + std::to_string(tensor->dims[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," +
              std::to_string(at + tensor->bytes.size()) + "]}";
    at += tensor->bytes.size();
    file.bodies.push_back(tensor->bytes);
  }
  header += "}";
  header.append((kAlignment - (8 + header.size()) % kAlignment) % kAlignment, ' ');
  little_endian::put(file.head, uint64_t(header.size()));
  file.head += header;
  return file;
}

Status write_safetensors(const std::string &path, std::span<const StoredTensor> tensors) {
  CUGRT_ASSIGN(const SafetensorsFile file, make_safetensors(tensors));
  return write_file(path, file.parts());
}

} // namespace cugrt
