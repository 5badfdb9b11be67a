// Weights: host tensors by name, from a safetensors file or added one by one.
//
// A WeightSet is a value whose tensors are shared and immutable, so that copies are cheap and
// sessions of the same set share what was uploaded for it.
#pragma once

#include "base/mapped_file.h"
#include "base/status.h"
#include "base/type/dtype.h"
#include "base/type/safetensors.h"
#include "cugrt/cugrt.h"

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cugrt::runtime {

struct HostTensor {
  ir::DType dtype = ir::DType::f32;
  std::vector<int64_t> dims{};
  std::shared_ptr<const char> storage{}; // its first byte; several tensors may lie in one
  size_t offset_bytes = 0, size_bytes = 0;
  bool is_shared = false; // its pages may be registered: a mapped file's, or the caller's to keep

  const char *data() const { return storage.get() + offset_bytes; }
  /// The tensor as the public API has it; the address is in host memory.
  cugrt_tensor describe() const;
  /// Likewise, without an address.
  cugrt_tensor describe_shape() const;
};

class WeightSet {
public:
  /// invalid_argument when the name is taken.
  Status add(std::string name, HostTensor tensor);
  /// Returns this set with tensors of `changes` in place of those with the same names.
  /// invalid_argument if a name is missing here.
  Result<WeightSet> replaced(const WeightSet &changes) const;
  /// Null when there is none.
  const HostTensor *find(const std::string &name) const;
  /// Identifies the content: equal for copies, new after every change.
  uint64_t identity() const { return identity_; }
  size_t size() const { return tensors_.size(); }
  const std::string &name(size_t index) const { return tensors_[index].name; }
  const HostTensor &tensor(size_t index) const { return tensors_[index].tensor; }
  /// Views for a safetensors file of them.
  std::vector<StoredTensor> stored() const;

private:
  struct Named {
    std::string name;
    HostTensor tensor;
  };
  std::vector<Named> tensors_; // in the order of the file
  std::unordered_map<std::string, size_t> index_;
  uint64_t identity_ = 0; // of the empty set
};

inline constexpr uint64_t kMaxWeightHeaderBytes = uint64_t(100) << 20; // the format's own limit

/// Reads safetensors: eight bytes of header length, a JSON header, then the tensors' bytes. Every
/// offset and size is checked against the header's types and the file's length; `name` stands for
/// the file in messages.
Result<WeightSet> read_safetensors(SharedBytes file, const std::string &name);
/// Likewise, from a part of `storage`, which the tensors then share.
Result<WeightSet> read_safetensors(const SharedBytes &storage, size_t offset_bytes,
                                   size_t size_bytes, const std::string &name);
/// Maps the file; the tensors' bytes lie in its pages.
Result<WeightSet> load_safetensors(const std::string &path);

} // namespace cugrt::runtime
