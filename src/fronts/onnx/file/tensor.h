// Constant tensors of a model: typed or raw, in the file or beside it.
#pragma once

#include "base/mapped_file.h"
#include "fronts/onnx/file/model.h"
#include "fronts/onnx/import.h"

namespace cugrt::onnx {

/// ONNX's number (TensorProto.DataType) of a dtype; a block format is bytes.
int32_t onnx_dtype(ir::DType dtype);
/// None for dtypes that we lack (strings, complex numbers, those of fewer than 8 bits).
std::optional<ir::DType> dtype_of(int32_t data_type);
/// The narrow dtype with ONNX's number; `none` for all others.
Narrow narrow_of(int32_t data_type);
/// The dtype that holds elements of a narrow dtype, which is not `none`.
ir::DType held_as(Narrow narrow);
/// ONNX's name of it: "FLOAT8E4M3FNUZ"; "dtype 99" if it has no such dtype.
std::string dtype_name(int32_t data_type);
inline std::string dtype_name(Narrow narrow) { return dtype_name(static_cast<int32_t>(narrow)); }

/// Files of external data, each mapped once. Paths stay inside of the folder.
class ExternalFiles {
public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  Result<std::string_view> read(const TensorView &tensor);
  std::vector<std::shared_ptr<const void>> files() const;

private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> files_;
};

/// The tensor's elements; raw ones are not copied. Errors name the tensor.
Result<HostTensor> load_tensor(const TensorView &tensor, ExternalFiles &files);

/// The elements of a tensor of integers or bools; of floats none.
std::vector<int64_t> integers_of(const HostTensor &tensor);

} // namespace cugrt::onnx
