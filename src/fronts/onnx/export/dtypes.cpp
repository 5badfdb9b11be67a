// Dtypes by ONNX's numbers (TensorProto.DataType); see export.h.
#include "fronts/onnx/export/export.h"

namespace cugrt::onnx {

int32_t onnx_dtype(ir::DType dtype) {
  switch (dtype) {
  case ir::DType::boolean:
    return 9;
  case ir::DType::i4:
    return 22;
  case ir::DType::i8:
    return 3;
  case ir::DType::i16:
    return 5;
  case ir::DType::i32:
    return 6;
  case ir::DType::i64:
    return 7;
  case ir::DType::u4:
    return 21;
  case ir::DType::u16:
    return 4;
  case ir::DType::u32:
    return 12;
  case ir::DType::u64:
    return 13;
  case ir::DType::f16:
    return 10;
  case ir::DType::bf16:
    return 16;
  case ir::DType::f32:
    return 1;
  case ir::DType::f64:
    return 11;
  case ir::DType::u8:
  case ir::DType::q4_0:
  case ir::DType::q4_1:
  case ir::DType::q8_0:
  case ir::DType::q5_0:
  case ir::DType::q5_1:
  case ir::DType::q2_k:
  case ir::DType::q3_k:
  case ir::DType::q4_k:
  case ir::DType::q5_k:
  case ir::DType::q6_k:
  case ir::DType::iq4_nl:
    return 2;
  }
  return 0;
}

} // namespace cugrt::onnx
