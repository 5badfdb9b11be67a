// Weight sets and the safetensors reader; see weights.h.
#include "runtime/weights.h"

#include "runtime/symbol_binding.h"
#include "support/file.h"

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

namespace cugrt::runtime {

namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint32_t kMaxHeaderDepth = 8;

std::optional<ir::DType> dtype_of(const std::string &name) {
  struct Row {
    const char *name;
    ir::DType dtype;
  };
  static constexpr Row kRows[] = {
      {"BOOL", ir::DType::boolean}, {"U8", ir::DType::u8},     {"I8", ir::DType::i8},
      {"U16", ir::DType::u16},      {"I16", ir::DType::i16},   {"U32", ir::DType::u32},
      {"I32", ir::DType::i32},      {"U64", ir::DType::u64},   {"I64", ir::DType::i64},
      {"F16", ir::DType::f16},      {"BF16", ir::DType::bf16}, {"F32", ir::DType::f32},
      {"F64", ir::DType::f64}};
  for (const Row &row : kRows)
    if (name == row.name)
      return row.dtype;
  return std::nullopt;
}

/// Reads the header with a handler of its own: nlohmann's tree keeps the last of two equal keys,
/// but a name that stands twice is an error here.
class HeaderReader {
public:
  explicit HeaderReader(uint64_t data_bytes) : data_bytes_(data_bytes) {}

  Status read(std::string_view text) {
    bool repeated = false;
    std::vector<std::vector<std::string>> keys; // of the open objects
    auto watch = [&](int depth, Json::parse_event_t event, Json &parsed) {
      if (depth > int(kMaxHeaderDepth))
        too_deep_ = true;
      if (event == Json::parse_event_t::object_start)
        keys.emplace_back();
      else if (event == Json::parse_event_t::object_end)
        repeated = repeated || has_duplicate(keys.back()), keys.pop_back();
      else if (event == Json::parse_event_t::key)
        keys.back().push_back(parsed.get<std::string>());
      return !too_deep_;
    };
    if (depth_exceeds(text, kMaxHeaderDepth))
      return error("the header is nested too deep");
    Json header = Json::parse(text.begin(), text.end(), watch, false);
    if (header.is_discarded() || !header.is_object())
      return error("the header is not a JSON object");
    if (repeated)
      return error("a name stands twice in the header");
    for (const auto &[name, entry] : header.items())
      if (name != "__metadata__")
        CUGRT_TRY(read_entry(name, entry));
    return check_disjoint();
  }

  struct Entry {
    std::string name;
    HostTensor tensor; // offset_bytes counts from the data's begin
  };
  std::vector<Entry> entries;

private:
  static Status error(const std::string &message) {
    return Status::error(Code::parse_error, message);
  }

  static bool has_duplicate(std::vector<std::string> &names) {
    std::sort(names.begin(), names.end());
    return std::adjacent_find(names.begin(), names.end()) != names.end();
  }

  /// Before parsing: the parser's own recursion follows the nesting when a tree is destroyed.
  static bool depth_exceeds(std::string_view text, uint32_t limit) {
    uint32_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      if (quoted && c == '\\')
        ++i;
      else if (c == '"')
        quoted = !quoted;
      else if (!quoted && (c == '{' || c == '[') && ++depth > limit)
        return true;
      else if (!quoted && (c == '}' || c == ']') && depth > 0)
        --depth;
    }
    return false;
  }

  Status read_entry(const std::string &name, const Json &entry) {
    std::string what = "tensor '" + name + "': ";
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
        !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
        !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2)
      return error(what + "the entry needs dtype, shape and two data_offsets");
    auto dtype = dtype_of(entry["dtype"].get<std::string>());
    if (!dtype)
      return error(what + "unknown dtype " + entry["dtype"].dump());
    Entry row{name, {.dtype = *dtype}};
    if (entry["shape"].size() > CUGRT_MAX_RANK)
      return error(what + "more than 8 dimensions");
    for (const Json &dim : entry["shape"]) {
      if (!dim.is_number_unsigned() || dim.get<uint64_t>() > INT64_MAX)
        return error(what + "dimension " + dim.dump() + " is not a size");
      row.tensor.dims.push_back(dim.get<int64_t>());
    }
    const Json &begin = entry["data_offsets"][0], &end = entry["data_offsets"][1];
    if (!begin.is_number_unsigned() || !end.is_number_unsigned() ||
        begin.get<uint64_t>() > end.get<uint64_t>() || end.get<uint64_t>() > data_bytes_)
      return error(what + "data_offsets [" + begin.dump() + ", " + end.dump() +
                   "] do not lie within the " + std::to_string(data_bytes_) +
                   " bytes of data; the file may be truncated");
    row.tensor.offset_bytes = begin.get<uint64_t>();
    row.tensor.size_bytes = end.get<uint64_t>() - begin.get<uint64_t>();
    CUGRT_ASSIGN(uint64_t bytes, tensor_bytes(row.tensor.describe_shape()));
    if (bytes != row.tensor.size_bytes)
      return error(what + "its shape takes " + std::to_string(bytes) +
                   " bytes, but data_offsets give " + std::to_string(row.tensor.size_bytes));
    entries.push_back(std::move(row));
    return {};
  }

  Status check_disjoint() {
    std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
      return a.tensor.offset_bytes != b.tensor.offset_bytes
                 ? a.tensor.offset_bytes < b.tensor.offset_bytes
                 : a.tensor.size_bytes < b.tensor.size_bytes;
    });
    uint64_t end = 0;
    for (const Entry &entry : entries) {
      if (entry.tensor.offset_bytes < end)
        return error("tensor '" + entry.name + "': its bytes overlap another tensor's");
      end = entry.tensor.offset_bytes + entry.tensor.size_bytes;
    }
    return {};
  }

  uint64_t data_bytes_;
  bool too_deep_ = false;
};

} // namespace

cugrt_tensor HostTensor::describe_shape() const {
  cugrt_tensor tensor{};
  tensor.dtype = static_cast<int32_t>(dtype);
  tensor.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.dims);
  return tensor;
}

cugrt_tensor HostTensor::describe() const {
  cugrt_tensor tensor = describe_shape();
  tensor.address = reinterpret_cast<uintptr_t>(data());
  return tensor;
}

Status WeightSet::add(std::string name, HostTensor tensor) {
  if (!index_.emplace(name, tensors_.size()).second)
    return Status::error(Code::invalid_argument, "there is a weight '" + name + "' already");
  tensors_.push_back({std::move(name), std::move(tensor)});
  static std::atomic<uint64_t> last_identity = 0;
  identity_ = ++last_identity;
  return {};
}

const HostTensor *WeightSet::find(const std::string &name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second].tensor;
}

Result<WeightSet> read_safetensors(std::shared_ptr<const std::string> file,
                                   const std::string &name) {
  size_t size_bytes = file->size();
  return read_safetensors(std::move(file), 0, size_bytes, name);
}

Result<WeightSet> read_safetensors(std::shared_ptr<const std::string> storage, size_t offset_bytes,
                                   size_t size_bytes, const std::string &name) {
  auto fail = [&](const std::string &message) {
    return Status::error(Code::parse_error, "weights file " + name + ": " + message);
  };
  std::string_view file = std::string_view(*storage).substr(offset_bytes, size_bytes);
  if (file.size() < kLengthBytes)
    return fail("it is shorter than a safetensors header; the file may be truncated");
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i)
    header_bytes |= uint64_t(static_cast<unsigned char>(file[i])) << (8 * i);
  uint64_t rest = file.size() - kLengthBytes;
  if (header_bytes > rest || header_bytes > kMaxWeightHeaderBytes)
    return fail("the header would have " + std::to_string(header_bytes) + " bytes, but " +
                std::to_string(rest) + " follow; the file is truncated or not safetensors");
  HeaderReader reader(rest - header_bytes);
  if (Status status = reader.read(file.substr(kLengthBytes, header_bytes)); !status.ok())
    return std::move(status).in("weights file " + name);
  WeightSet set;
  for (HeaderReader::Entry &entry : reader.entries) {
    entry.tensor.storage = storage;
    entry.tensor.offset_bytes += offset_bytes + kLengthBytes + header_bytes;
    CUGRT_TRY(set.add(std::move(entry.name), std::move(entry.tensor)));
  }
  return set;
}

Result<WeightSet> load_safetensors(const std::string &path) {
  CUGRT_ASSIGN(std::string bytes, read_file(path, kMaxWeightFileBytes));
  return read_safetensors(std::make_shared<const std::string>(std::move(bytes)), path);
}

} // namespace cugrt::runtime
