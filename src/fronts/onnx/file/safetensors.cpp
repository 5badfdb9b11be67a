// Weights of an imported model as a safetensors file.
#include "fronts/onnx/import.h"

#include "base/type/safetensors.h"

namespace cugrt::onnx {

Status write_weights(const std::string &path, const Imported &imported) {
  std::vector<StoredTensor> tensors;
  for (const Imported::Weight &weight : imported.weights)
    tensors.push_back({weight.name, weight.tensor.dtype, weight.tensor.dims, weight.tensor.bytes});
  return write_safetensors(path, tensors);
}

} // namespace cugrt::onnx
