// Elementwise ops: kernels/elementwise/unary.cu, binary.cu, where.cu, cast.cu.
#include "base/check.h"
#include "ops/emit/element_ops.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>

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

/// Broadcasts the operands from number `first` on, which have one dtype.
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

namespace cugrt::padding {

Fill OpPadding::elementwise_fill(size_t to) const {
  std::vector<Fill> all;
  for (size_t i = 0; i < operands_.size(); ++i)
    all.push_back(fill(i, to));
  auto any = [&](Fill wanted) { return std::find(all.begin(), all.end(), wanted) != all.end(); };
  auto zeros = std::count(all.begin(), all.end(), Fill::zero);
  const bool every = zeros == static_cast<ptrdiff_t>(all.size());
  const bool numbers = std::all_of(all.begin(), all.end(), padding::is_number);
  const Fill number = any(Fill::place) ? Fill::place : numbers ? Fill::finite : Fill::any;
  const bool both_infinite = any(Fill::lowest) && any(Fill::highest);
  switch (ir::op_info(op_).zeros) {
  case ir::OpZeros::zero_stays:
    return every ? Fill::zero : number;
  case ir::OpZeros::zero_only:
    return every ? Fill::zero : any(Fill::place) ? Fill::place : Fill::any;
  case ir::OpZeros::finite_stays:
    return number;
  case ir::OpZeros::unbounded:
  case ir::OpZeros::by_rule:
    return any(Fill::place) ? Fill::place : Fill::any;
  case ir::OpZeros::tests:
    return any(Fill::place) ? Fill::place : Fill::finite;
  case ir::OpZeros::unequal:
    return every ? Fill::zero : any(Fill::place) ? Fill::place : Fill::finite;
  case ir::OpZeros::clips:
    return every && ir::op_float(op_, attributes_, "min") <= 0 &&
                   ir::op_float(op_, attributes_, "max") >= 0
               ? Fill::zero
               : number;
  case ir::OpZeros::sums:
    for (Fill infinite : {Fill::lowest, Fill::highest})
      if (any(infinite) && !both_infinite && !any(Fill::any))
        return infinite;
    return every ? Fill::zero : number;
  case ir::OpZeros::all_zero:
    return every ? Fill::zero : number;
  case ir::OpZeros::any_zero:
    return zeros && numbers ? Fill::zero : number;
  case ir::OpZeros::first_zero:
    return all[0] == Fill::zero ? Fill::zero : number;
  case ir::OpZeros::chooses:
    if (all[0] == Fill::zero) // false: the last operand's
      return all[2];
    for (Fill hides : {Fill::lowest, Fill::highest})
      if (all[0] == Fill::place && (all[1] == hides || all[2] == hides))
        return hides; // the author hides added elements by their position
    return either(all[1], all[2]);
  case ir::OpZeros::casts:
    return all[0] == Fill::one ? Fill::finite
           : (all[0] == Fill::lowest || all[0] == Fill::highest) &&
                   ir::info(ir::op_dtype(op_, attributes_, "dtype")).kind != ir::DTypeKind::floating
               ? Fill::any
               : all[0];
  }
  return Fill::any;
}

Status OpPadding::elementwise() {
  for (size_t i = 0; i < operands_.size(); ++i)
    CUGRT_TRY(align(i));
  fills([&](size_t d, size_t) { return elementwise_fill(d); });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

namespace {

uint32_t element_bytes(ir::DType dtype) { return ir::info(dtype).bytes_per_block; }

// y over x, where their elements have one size.
void over_alike(KernelLaunch &launch, ir::DType x, ir::DType y) {
  if (element_bytes(x) == element_bytes(y))
    launch.over_inputs();
}

// The function of kernels/elementwise/elementwise.cuh, or integers.cuh.
std::string function_of(const OpEmitter &op) {
  return elementwise_function(op.call().op, op.call().attributes);
}

// The dimensions that broadcasting operands and the result walk together, with an operand's strides
// in the order of `operands`.
std::vector<Dimension> broadcast_walk(OpEmitter &op, std::span<const ir::ValueId> operands,
                                      const ir::Type &y) {
  std::vector<Dimension> walk;
  for (ir::ExprId dim : y.dims)
    walk.push_back({dim, {}});
  for (ir::ValueId operand : operands) {
    const std::vector<ir::ExprId> strides = broadcast_strides(op.exprs(), op.type(operand), y.dims);
    for (size_t i = 0; i < walk.size(); ++i)
      walk[i].strides.push_back(strides[i]);
  }
  return merge(op.exprs(), std::move(walk));
}

// Whether all of them walk contiguously, so that one index serves all.
bool walks_alike(OpEmitter &op, const std::vector<Dimension> &walk) {
  const ir::ExprId one = op.constant(1);
  return walk.empty() ||
         (walk.size() == 1 && std::all_of(walk[0].strides.begin(), walk[0].strides.end(),
                                          [&](ir::ExprId stride) { return stride == one; }));
}

// Whether vectors can lie along the innermost dimension (kernels/shared/walk.cuh).
bool takes_vectors(OpEmitter &op, const std::vector<Dimension> &walk, int64_t vector) {
  const Dimension &innermost = walk.back();
  if (!op.divides(vector, innermost.size))
    return false;
  for (size_t i = 0; i < innermost.strides.size(); ++i) {
    const std::optional<int64_t> stride = op.exprs().as_constant(innermost.strides[i]);
    if (stride == 0)
      continue; // one element for all of a vector
    if (stride != 1)
      return false;
    for (size_t d = 0; d + 1 < walk.size(); ++d)
      if (!op.divides(vector, walk[d].strides[i]))
        return false;
  }
  return true;
}

size_t max_rank(const std::vector<Dimension> &walk) { return walk.size() <= 4 ? 4 : 8; }

// Options of kernels that broadcast: the walk, and vectors where they fit.
void broadcast_options(OpEmitter &op, KernelLaunch &launch, const std::vector<Dimension> &walk,
                       uint32_t widest_bytes) {
  launch.option("-DBROADCAST");
  launch.option("-DMAX_RANK=" + std::to_string(max_rank(walk)));
  if (!takes_vectors(op, walk, KernelLaunch::vector_size(widest_bytes)))
    return;
  launch.option("-DINNERMOST=" + std::to_string(walk.size() - 1));
  launch.vectors(widest_bytes);
}

// Parameters size1.. and PREFIX_stride0.. for each operand, by `prefixes`.
void walk_parameters(OpEmitter &op, KernelLaunch &launch, std::vector<Dimension> walk,
                     std::span<const std::string_view> prefixes) {
  // Unused dimensions come last, with size 1: the outermost one has no size to say so.
  const size_t rank = max_rank(walk);
  CUGRT_CHECK(walk.size() <= rank);
  walk.resize(rank, {op.constant(1), std::vector<ir::ExprId>(prefixes.size(), op.constant(0))});
  for (size_t d = 1; d < rank; ++d)
    launch.size("size" + std::to_string(d), walk[d].size);
  for (size_t i = 0; i < prefixes.size(); ++i)
    for (size_t d = 0; d < rank; ++d)
      launch.size(std::string(prefixes[i]) + "_stride" + std::to_string(d), walk[d].strides[i]);
}

Status emit_elementwise(OpEmitter &op) {
  const std::string function = function_of(op);
  const ir::DType dtype = op.operand_type(0).dtype, to = op.result_type().dtype;
  const ir::ExprId count = op.count(op.result_type());
  const std::vector<std::string_view> parameters = elementwise_parameters(op.call().op);

  KernelLaunch launch = op.number_launch("unary.cu", function + "_elementwise", dtype);
  launch.option("-DOP=" + function);
  if (!parameters.empty())
    launch.option("-DPARAMETERS=" + std::to_string(parameters.size()));
  launch.option_if(to != dtype, "-DTO_BOOL");
  launch.vectors(std::max(element_bytes(dtype), element_bytes(to)));
  launch.index_type({count});
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  over_alike(launch, dtype, to);
  const ir::ExprId counted = launch.count("count", count);
  for (std::string_view name : parameters)
    launch.parameter(std::string(name), dtype, op.number(name));
  launch.loop_variant(counted);
  return op.emit(launch);
}

Status emit_broadcasting(OpEmitter &op) {
  const ir::Type y = op.result_type();
  const ir::DType dtype = op.operand_type(0).dtype;
  std::vector<Dimension> walk = broadcast_walk(op, op.call().operands, y);
  const bool alike = walks_alike(op, walk);
  const std::string function = function_of(op);
  const ir::ExprId count = op.count(y);

  KernelLaunch launch =
      op.number_launch("binary.cu", function + (alike ? "_elementwise" : "_broadcast"), dtype);
  launch.option("-DOP=" + function);
  launch.option_if(y.dtype != dtype, "-DTO_BOOL");
  const uint32_t widest_bytes = std::max(element_bytes(dtype), element_bytes(y.dtype));
  if (alike)
    launch.vectors(widest_bytes);
  else
    broadcast_options(op, launch, walk, widest_bytes);
  launch.index_type({count});
  launch.input("a", op.operand(0));
  launch.input("b", op.operand(1));
  launch.output("y", op.result());
  if (alike)
    over_alike(launch, dtype, y.dtype);
  const ir::ExprId counted = launch.count("count", count);
  constexpr std::string_view kPrefixes[] = {"a", "b"};
  if (!alike)
    walk_parameters(op, launch, std::move(walk), kPrefixes);
  launch.loop_variant(counted);
  return op.emit(launch);
}

} // namespace

Status emit_unary(OpEmitter &op) { return emit_elementwise(op); }
Status emit_unary_number(OpEmitter &op) { return emit_elementwise(op); }
Status emit_test(OpEmitter &op) { return emit_elementwise(op); }
Status emit_logical_not(OpEmitter &op) { return emit_elementwise(op); }
Status emit_binary(OpEmitter &op) { return emit_broadcasting(op); }
Status emit_binary_float(OpEmitter &op) { return emit_broadcasting(op); }
Status emit_compare(OpEmitter &op) { return emit_broadcasting(op); }
Status emit_logical(OpEmitter &op) { return emit_broadcasting(op); }

Status emit_bitwise_not(OpEmitter &op) { return emit_elementwise(op); }
Status emit_bitwise(OpEmitter &op) { return emit_broadcasting(op); }

Status emit_where(OpEmitter &op) {
  const ir::Type y = op.result_type();
  std::vector<Dimension> walk = broadcast_walk(op, op.call().operands, y);
  const bool alike = walks_alike(op, walk);
  const ir::ExprId count = op.count(y);

  KernelLaunch launch =
      op.moving_launch("where.cu", alike ? "where_elementwise" : "where_broadcast", y.dtype);
  if (alike)
    launch.vectors(element_bytes(y.dtype));
  else
    broadcast_options(op, launch, walk, element_bytes(y.dtype));
  launch.index_type({count});
  launch.input("condition", op.operand(0));
  launch.input("a", op.operand(1));
  launch.input("b", op.operand(2));
  launch.output("y", op.result());
  const ir::ExprId counted = launch.count("count", count);
  constexpr std::string_view kPrefixes[] = {"condition", "a", "b"};
  if (!alike)
    walk_parameters(op, launch, std::move(walk), kPrefixes);
  launch.loop_variant(counted);
  return op.emit(launch);
}

// The name of a dtype within kernels/elementwise/cast.cu; there, bool is called as in dtypes.def.
static std::string cast_name(ir::DType dtype) {
  return dtype == ir::DType::boolean ? "boolean" : std::string(ir::info(dtype).name);
}

Status emit_cast(OpEmitter &op) {
  const ir::DType from = op.operand_type(0).dtype, to = op.result_type().dtype;
  CUGRT_TRY(op.require_whole_bytes(from));
  CUGRT_TRY(op.require_whole_bytes(to));
  const ir::ExprId count = op.count(op.result_type());

  KernelLaunch launch = op.launch("cast.cu", "cast_" + cast_name(from) + "_" + cast_name(to));
  launch.option("-DFROM=" + cast_name(from));
  launch.option("-DTO=" + cast_name(to));
  launch.option_if(from == ir::DType::f16 || to == ir::DType::f16, "-DUSES_F16");
  launch.option_if(from == ir::DType::bf16 || to == ir::DType::bf16, "-DUSES_BF16");
  launch.vectors(std::max(element_bytes(from), element_bytes(to)));
  launch.index_type({count});
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  launch.loop_variant(launch.count("count", count));
  return op.emit(launch);
}

} // namespace cugrt::codegen
