// Result types of attention and of what it is fed with.
#include "ops/table/infer_op.h"

#include <cmath>

namespace cugrt::ir {

/// Of keys and values as they are computed, or of a dtype of their own.
Status Inference::check_cache(size_t i, size_t computed) const {
  const DType cache = type(i).dtype, dtype = type(computed).dtype;
  if (cache == dtype)
    return {};
  const auto is_one_of_many = [](DType given) {
    return given == DType::f32 || given == DType::f16 || given == DType::bf16;
  };
  if (!is_one_of_many(dtype) || (!is_one_of_many(cache) && cache != DType::q8_0))
    return wrong("keys and values of " + std::string(info(cache).name) + " do not go with " +
                 std::string(info(dtype).name) + "; they are of its dtype, f32, f16, bf16 or q8_0");
  const std::optional<int64_t> width = known(dims(i)[3]);
  if (cache == DType::q8_0 && (!width || *width % info(cache).elements_per_block != 0))
    return wrong("heads in q8_0 have a multiple of 32 elements");
  return {};
}

Types Inference::attention() const {
  CUGRT_TRY(check_float(0));
  for (size_t i = 0; i < 3; ++i)
    CUGRT_TRY(check_rank(i, 4));
  CUGRT_TRY(check_cache(1, 0));
  if (type(2).dtype != type(1).dtype)
    return wrong("keys and values are of one dtype");
  const Dims q = dims(0), keys = dims(1), values = dims(2);
  for (size_t i = 0; i < 4; ++i)
    CUGRT_TRY(check_equal(keys[i], values[i], "dimensions of keys and values"));
  if (!has(5))
    CUGRT_TRY(check_equal(q[0], keys[0], "sequences of queries and keys"));
  CUGRT_TRY(check_equal(q[3], keys[3], "elements of a head in queries and keys"));
  const std::optional<int64_t> heads = known(q[2]), kv_heads = known(keys[2]), width = known(q[3]);
  if (!heads || !kv_heads || !width || *heads < 1 || *kv_heads < 1 || *heads % *kv_heads != 0)
    return wrong("heads and their elements are constants, and the heads of keys and values divide "
                 "those of the queries");
  if (*width < 1 || *width > 1024)
    return wrong("a head has from 1 to 1024 elements, not " + std::to_string(*width));
  if (!std::isfinite(op_float(op, attributes, "scale")))
    return wrong("attribute 'scale' is finite");
  if (has(3)) {
    CUGRT_TRY(check_ids(3));
    CUGRT_TRY(check_rank(3, 1));
    CUGRT_TRY(check_equal(dims(3)[0], q[0], "lengths and sequences"));
  }
  if (has(4)) {
    const bool is_narrow = type(0).dtype == DType::f16 || type(0).dtype == DType::bf16;
    if (!is_narrow || type(4).dtype != DType::f32)
      CUGRT_TRY(check_same_dtype(4));
    const Dims scores = {q[0], q[2], q[1], keys[1]};
    CUGRT_ASSIGN(const Dims out, broadcast(dims(4), scores));
    if (out != scores)
      return wrong("the mask does not stretch to [sequences, heads, queries, positions]");
  }
  if (has(5)) {
    CUGRT_TRY(check_ids(5));
    CUGRT_TRY(check_rank(5, 1));
    CUGRT_TRY(check_equal(dims(5)[0], q[0], "places and sequences"));
  }
  const int64_t window = op_integer(op, attributes, "window");
  if (window < 0 || (window > 0 && !op_bool(op, attributes, "causal")))
    return wrong("attribute 'window' is not negative, and goes with 'causal'");
  return one(type(0).dtype, q);
}

Types Inference::cache_write() const {
  CUGRT_TRY(check_float(1));
  for (size_t i = 0; i < 2; ++i)
    CUGRT_TRY(check_rank(i, 4));
  CUGRT_TRY(check_cache(0, 1));
  if (!type(0).strides.empty())
    return wrong("the cache is written in place, and contiguous");
  const Dims cache = dims(0), x = dims(1);
  CUGRT_TRY(check_equal(cache[2], x[2], "heads of the cache and of what is written"));
  CUGRT_TRY(check_equal(cache[3], x[3], "elements of a head"));
  if (!has(2))
    CUGRT_TRY(check_equal(cache[0], x[0], "sequences of the cache and of what is written"));
  // The first position is read for the session's flag.
  if (range_of(x[0]).lower < 1)
    return wrong("writes rows of at least one sequence; give the symbol a lower bound");
  for (size_t i = 2; i < 5; ++i) {
    if (!has(i))
      continue;
    CUGRT_TRY(check_ids(i));
    if (type(i).dtype != type(3).dtype)
      return wrong("sequences, positions and lengths are of one dtype");
    CUGRT_TRY(check_rank(i, 1));
    CUGRT_TRY(check_equal(dims(i)[0], x[0], "sequences of " + number(i)));
  }
  return one(type(0).dtype, cache);
}

Types Inference::rotary() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_ids(1));
  if (rank(0) < 2)
    return wrong("operand 1 has rank 2 or more: heads and their elements come last");
  CUGRT_TRY(check_rank(1, rank(0) - 2));
  for (size_t i = 0; i < rank(1); ++i)
    CUGRT_TRY(check_equal(dims(0)[i], dims(1)[i], "dimensions of positions"));
  const std::optional<int64_t> width = known(dims(0).back());
  const int64_t given = op_integer(op, attributes, "dims");
  const int64_t turned = given == 0 && width ? *width : given;
  if (!width || turned < 1 || turned > *width || turned % 2 != 0)
    return wrong("a head has a constant number of elements, of which an even number, 'dims', is "
                 "turned");
  const double base = op_float(op, attributes, "base");
  if (!(base > 0) || !std::isfinite(base) || !std::isfinite(op_float(op, attributes, "scale")))
    return wrong("attributes 'base' and 'scale' are finite, and the base is above 0");
  if (has(2) != has(3))
    return wrong("takes a table of cosines and one of sines, or neither");
  if (has(2)) {
    for (size_t i : {2, 3}) {
      CUGRT_TRY(check_same_dtype(i));
      CUGRT_TRY(check_rank(i, 2));
      CUGRT_TRY(check_equal(dims(i)[1], constant(turned / 2), "columns of a table and pairs"));
    }
    CUGRT_TRY(check_equal(dims(2)[0], dims(3)[0], "rows of the tables"));
  }
  return one(type(0).dtype, dims(0));
}

} // namespace cugrt::ir
