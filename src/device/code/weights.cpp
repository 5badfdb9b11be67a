// Weight sets and the safetensors reader; see weights.h.
#include "device/code/weights.h"

#include "base/json.h"
#include "base/little_endian.h"
#include "device/program/symbol_binding.h"

#include <algorithm>
#include <atomic>

namespace cugrt::runtime {

namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeaderDepth = 8;

class HeaderReader {
public:
  HeaderReader(std::string_view header, uint64_t data_bytes)
      : json_(header, kMaxHeaderDepth), data_bytes_(data_bytes) {}

  Status read() {
    CUGRT_TRY(json_.begin_object());
    std::string name;
    while (true) {
      CUGRT_ASSIGN(const bool more, json_.next_member(name));
      if (!more)
        break;
      if (name == "__metadata__") {
        CUGRT_TRY(json_.skip());
      } else if (Status status = read_entry(name); !status.ok()) {
        return std::move(status).in("tensor '" + name + "'");
      }
    }
    CUGRT_TRY(json_.finish());
    return check_covered();
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

  Status read_entry(const std::string &name) {
    Entry row{name, {}};
    bool has_dtype = false, has_shape = false;
    std::vector<uint64_t> offsets;
    std::string field;
    CUGRT_TRY(json_.begin_object());
    while (true) {
      CUGRT_ASSIGN(const bool more, json_.next_member(field));
      if (!more)
        break;
      if (field == "dtype") {
        has_dtype = true;
        CUGRT_TRY(read_dtype(row.tensor.dtype));
      } else if (field == "shape") {
        has_shape = true;
        CUGRT_TRY(read_shape(row.tensor.dims));
      } else if (field == "data_offsets") {
        CUGRT_TRY(read_sizes(offsets, 2, "data_offsets are two"));
      } else {
        CUGRT_TRY(json_.skip());
      }
    }
    if (!has_dtype || !has_shape || offsets.size() != 2)
      return json_.error("the entry needs dtype, shape and two data_offsets");
    if (offsets[0] > offsets[1] || offsets[1] > data_bytes_)
      return json_.error("data_offsets [" + std::to_string(offsets[0]) + ", " +
                         std::to_string(offsets[1]) + "] do not lie within the " +
                         std::to_string(data_bytes_) + " bytes of data; the file may be truncated");
    row.tensor.offset_bytes = offsets[0];
    row.tensor.size_bytes = offsets[1] - offsets[0];
    CUGRT_ASSIGN(uint64_t bytes, tensor_bytes(row.tensor.describe_shape()));
    if (bytes != row.tensor.size_bytes)
      return json_.error("its shape takes " + std::to_string(bytes) +
                         " bytes, but data_offsets give " + std::to_string(row.tensor.size_bytes));
    entries.push_back(std::move(row));
    return {};
  }

  Status read_dtype(ir::DType &dtype) {
    std::string name;
    CUGRT_TRY(json_.text(name));
    const auto known = safetensors_dtype(name);
    if (!known)
      return json_.error("unknown dtype '" + name + "'");
    dtype = *known;
    return {};
  }

  Status read_shape(std::vector<int64_t> &dims) {
    std::vector<uint64_t> sizes;
    CUGRT_TRY(read_sizes(sizes, CUGRT_MAX_RANK, "more than 8 dimensions"));
    for (uint64_t size : sizes) {
      if (size > INT64_MAX)
        return json_.error("dimension " + std::to_string(size) + " is not a size");
      dims.push_back(static_cast<int64_t>(size));
    }
    return {};
  }

  Status read_sizes(std::vector<uint64_t> &sizes, size_t most, const char *too_many) {
    CUGRT_TRY(json_.begin_list());
    while (true) {
      CUGRT_ASSIGN(const bool more, json_.next_element());
      if (!more)
        return {};
      if (sizes.size() == most)
        return json_.error(too_many);
      CUGRT_TRY(json_.size(sizes.emplace_back()));
    }
  }

  /// The format's rule: every byte of the data is of one tensor, so that nothing else hides there.
  Status check_covered() {
    std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
      return a.tensor.offset_bytes != b.tensor.offset_bytes
                 ? a.tensor.offset_bytes < b.tensor.offset_bytes
                 : a.tensor.size_bytes < b.tensor.size_bytes;
    });
    uint64_t end = 0;
    for (const Entry &entry : entries) {
      if (entry.tensor.offset_bytes < end)
        return error("tensor '" + entry.name + "': its bytes overlap another tensor's");
      CUGRT_TRY(check_no_gap(end, entry.tensor.offset_bytes));
      end = entry.tensor.offset_bytes + entry.tensor.size_bytes;
    }
    return check_no_gap(end, data_bytes_);
  }

  static Status check_no_gap(uint64_t begin, uint64_t end) {
    return begin == end ? Status()
                        : error("bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                                " of the data are no tensor's");
  }

  JsonReader json_;
  uint64_t data_bytes_;
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

Result<WeightSet> WeightSet::replaced(const WeightSet &changes) const {
  for (const Named &changed : changes.tensors_)
    if (!find(changed.name))
      return Status::error(Code::invalid_argument,
                           "there is no weight '" + changed.name + "' to be replaced");
  WeightSet set;
  for (const Named &own : tensors_) {
    const HostTensor *changed = changes.find(own.name);
    CUGRT_TRY(set.add(own.name, changed ? *changed : own.tensor));
  }
  return set;
}

std::vector<StoredTensor> WeightSet::stored() const {
  std::vector<StoredTensor> views;
  for (const auto &[name, tensor] : tensors_)
    views.push_back({name, tensor.dtype, tensor.dims, {tensor.data(), tensor.size_bytes}});
  return views;
}

const HostTensor *WeightSet::find(const std::string &name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second].tensor;
}

Result<WeightSet> read_safetensors(SharedBytes file, const std::string &name) {
  return read_safetensors(file, 0, file.view.size(), name);
}

Result<WeightSet> read_safetensors(const SharedBytes &storage, size_t offset_bytes,
                                   size_t size_bytes, const std::string &name) {
  auto fail = [&](const std::string &message) {
    return Status::error(Code::parse_error, "weights file " + name + ": " + message);
  };
  std::string_view file = storage.view.substr(offset_bytes, size_bytes);
  if (file.size() < kLengthBytes)
    return fail("it is shorter than a safetensors header; the file may be truncated");
  const auto header_bytes = little_endian::get<uint64_t>(file, 0);
  uint64_t rest = file.size() - kLengthBytes;
  if (header_bytes > rest || header_bytes > kMaxWeightHeaderBytes)
    return fail("the header would have " + std::to_string(header_bytes) + " bytes, but " +
                std::to_string(rest) + " follow; the file is truncated or not safetensors");
  HeaderReader reader(file.substr(kLengthBytes, header_bytes), rest - header_bytes);
  if (Status status = reader.read(); !status.ok())
    return std::move(status).in("weights file " + name + ", header");
  WeightSet set;
  for (HeaderReader::Entry &entry : reader.entries) {
    entry.tensor.storage = {storage.owner, storage.view.data()};
    entry.tensor.is_shared = storage.is_mapped;
    entry.tensor.offset_bytes += offset_bytes + kLengthBytes + header_bytes;
    CUGRT_TRY(set.add(std::move(entry.name), std::move(entry.tensor)));
  }
  return set;
}

Result<WeightSet> load_safetensors(const std::string &path) {
  CUGRT_ASSIGN(MappedFile file, MappedFile::open(path));
  return read_safetensors(std::move(file), path);
}

} // namespace cugrt::runtime
