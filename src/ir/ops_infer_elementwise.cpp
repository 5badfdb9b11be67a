// Result types of ops that work element by element.
#include "ir/ops_infer.h"

namespace cugrt::ir {

Types Inference::unary() const {
  CUGRT_TRY(check_float(0));
  if (op == Op::gelu) {
    std::string kind = op_string(op, attributes, "approximate");
    if (kind != "none" && kind != "tanh")
      return wrong("attribute 'approximate' is \"none\" or \"tanh\"");
  }
  return one(type(0).dtype, dims(0));
}

Types Inference::binary() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  CUGRT_ASSIGN(Dims out, broadcast(dims(0), dims(1)));
  return one(type(0).dtype, std::move(out));
}

Types Inference::cast() const {
  DType to = op_dtype(op, attributes, "dtype");
  if (info(to).elements_per_block != 1 || info(type(0).dtype).elements_per_block != 1)
    return wrong("cast is between dtypes of whole bytes; packed and block dtypes cannot be cast");
  return one(to, dims(0));
}

} // namespace cugrt::ir
