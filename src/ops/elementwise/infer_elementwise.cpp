// Result types of ops that work element by element.
#include "ops/table/infer_op.h"

namespace cugrt::ir {

Types Inference::unary() const {
  CUGRT_TRY(check_float(0));
  return one(type(0).dtype, dims(0));
}

Types Inference::unary_number() const {
  CUGRT_TRY(check_number(0));
  if (op == Op::clip && !(op_float(op, attributes, "min") <= op_float(op, attributes, "max")))
    return wrong("attribute 'min' is not above 'max'");
  return one(type(0).dtype, dims(0));
}

Types Inference::test() const {
  CUGRT_TRY(check_float(0));
  return one(DType::boolean, dims(0));
}

Types Inference::logical_not() const {
  CUGRT_TRY(check_dtype(0, DType::boolean));
  return one(DType::boolean, dims(0));
}

/// Of the operands from number `first` on, which have one dtype.
Types Inference::broadcasting(DType result, size_t first) const {
  if (type(first + 1).dtype != type(first).dtype)
    return wrong(number(first + 1) + " has dtype " + std::string(info(type(first + 1).dtype).name) +
                 " and " + number(first) + " has " + std::string(info(type(first).dtype).name) +
                 "; insert a cast");
  CUGRT_ASSIGN(Dims out, broadcast(dims(first), dims(first + 1)));
  return one(result, std::move(out));
}

Types Inference::binary() const {
  CUGRT_TRY(check_number(0));
  return broadcasting(type(0).dtype);
}

Types Inference::binary_float() const {
  CUGRT_TRY(check_float(0));
  return broadcasting(type(0).dtype);
}

Types Inference::compare() const {
  const bool of_bools = op == Op::equal || op == Op::not_equal;
  if (!of_bools || type(0).dtype != DType::boolean)
    CUGRT_TRY(check_number(0));
  return broadcasting(DType::boolean);
}

Types Inference::logical() const {
  CUGRT_TRY(check_dtype(0, DType::boolean));
  return broadcasting(DType::boolean);
}

Types Inference::bitwise_not() const {
  CUGRT_TRY(check_integer(0));
  return one(type(0).dtype, dims(0));
}

Types Inference::bitwise() const {
  CUGRT_TRY(check_integer(0));
  return broadcasting(type(0).dtype);
}

Types Inference::where() const {
  CUGRT_TRY(check_dtype(0, DType::boolean));
  CUGRT_TRY(check_whole_bytes(1));
  CUGRT_ASSIGN(const std::vector<TypeId> chosen, broadcasting(type(1).dtype, 1));
  const Dims both = m.types[chosen[0]].dims;
  CUGRT_ASSIGN(Dims out, broadcast(dims(0), both));
  return one(type(1).dtype, std::move(out));
}

Types Inference::cast() const {
  DType to = op_dtype(op, attributes, "dtype");
  if (info(to).elements_per_block != 1 || info(type(0).dtype).elements_per_block != 1)
    return wrong("cast is between dtypes of whole bytes; packed and block dtypes cannot be cast");
  return one(to, dims(0));
}

} // namespace cugrt::ir
