// Ops that move elements: kernels/movement/transpose.cu, copy.cu.
#include "base/check.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>

namespace cugrt::ir {

Types Inference::transpose() const {
  std::vector<int64_t> axes = op_integers(op, attributes, "axes");
  if (info(type(0).dtype).elements_per_block != 1)
    return wrong("packed and block dtypes cannot be transposed");
  Dims out;
  if (axes.empty()) {
    out.assign(dims(0).rbegin(), dims(0).rend());
    return one(type(0).dtype, std::move(out));
  }
  std::vector<bool> used(rank(0), false);
  for (int64_t axis : axes) {
    CUGRT_ASSIGN(size_t a, axis_of(axis, 0));
    if (used[a])
      return wrong("axis " + std::to_string(axis) + " is given twice");
    used[a] = true;
    out.push_back(dims(0)[a]);
  }
  if (out.size() != rank(0))
    return wrong("attribute 'axes' lists every axis once");
  return one(type(0).dtype, std::move(out));
}

Types Inference::concat() const {
  CUGRT_ASSIGN(size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  Dims out = dims(0);
  for (size_t i = 1; i < operands.size(); ++i) {
    CUGRT_TRY(check_same_dtype(i));
    CUGRT_TRY(check_rank(i, rank(0)));
    for (size_t d = 0; d < out.size(); ++d)
      if (d != axis)
        CUGRT_TRY(check_equal(out[d], dims(i)[d], "dimensions beside the axis of concat"));
    out[axis] = m.exprs.add(out[axis], dims(i)[axis]);
  }
  return one(type(0).dtype, std::move(out));
}

Types Inference::split() const {
  CUGRT_ASSIGN(size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  std::vector<int64_t> sections = op_integers(op, attributes, "sections");
  if (sections.empty() || sections.size() > op_info(op).most_results)
    return wrong("attribute 'sections' has 1 to " + std::to_string(op_info(op).most_results) +
                 " sizes");
  ExprId total = constant(0);
  for (int64_t s : sections) {
    if (s < 0)
      return wrong("sections are not negative");
    total = m.exprs.add(total, constant(s));
  }
  Dims out = dims(0);
  CUGRT_TRY(check_equal(out[axis], total, "the split dimension and the sum of the sections"));
  std::vector<TypeId> types;
  for (int64_t s : sections) {
    out[axis] = constant(s);
    types.push_back(m.types.tensor(m.types[operands[0]].dtype, out));
  }
  return types;
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::transpose() {
  std::vector<int64_t> axes = list("axes");
  for (size_t i = axes.size(); i < rank(0); ++i) // none given: all, last first
    axes.push_back(static_cast<int64_t>(rank(0) - 1 - i));
  for (size_t d = 0; d < rank(0); ++d)
    CUGRT_TRY(carry(0, axis(axes[d]), d));
  fills([&](size_t d, size_t) { return fill(0, d); });
  results_[0].all = operands_[0].facts.all;
  return {};
}

/// Padding of the last operand stays behind the caller's elements.
Status OpPadding::concat() {
  const size_t along = axis();
  for (size_t i = 0; i < operands_.size(); ++i)
    for (size_t d = 0; d < rank(i); ++d)
      if (d != along)
        CUGRT_TRY(carry(i, d, d));
      else if (i + 1 < operands_.size())
        CUGRT_TRY(take(i, d, Fill::any));
      else
        CUGRT_TRY(follow(i, d, d));
  fills([&](size_t d, size_t) {
    Fill all = fill(operands_.size() - 1, d);
    for (size_t i = 0; i < operands_.size() && d != along; ++i)
      all = either(all, fill(i, d));
    return all;
  });
  return {};
}

Status OpPadding::split() {
  for (size_t r = 0; r < results_.size(); ++r)
    for (size_t d = 0; d < rank(0); ++d)
      if (d != axis())
        CUGRT_TRY(carry(0, d, d, r));
  fills([&](size_t d, size_t r) { return fill(0, d, r); });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

static std::string bytes_suffix(ir::DType dtype) {
  return "b" + std::to_string(8 * ir::info(dtype).bytes_per_block); // "b32"
}

// `rows` rows of `length` elements, whose starts lie `x_pitch` and `y_pitch` elements apart.
static void emit_copy_rows(OpEmitter &op, ir::ValueId x, ir::ValueId y, ir::DType dtype,
                           ir::ExprId rows, ir::ExprId length, ir::ExprId x_pitch,
                           ir::ExprId y_pitch) {
  KernelLaunch launch = op.launch("copy.cu", "copy_rows", bytes_suffix(dtype));
  const uint32_t bytes = ir::info(dtype).bytes_per_block;
  launch.element_bytes(bytes);
  const int64_t vector = KernelLaunch::vector_size(bytes);
  if (op.divides(vector, length) && op.divides(vector, x_pitch) && op.divides(vector, y_pitch))
    launch.vectors(bytes);
  launch.index_type({op.exprs().mul(rows, x_pitch), op.exprs().mul(rows, y_pitch)});
  launch.input("x", x);
  launch.output("y", y);
  const ir::ExprId counted = launch.count("rows", rows);
  const ir::ExprId width = launch.size("length", length);
  launch.size("x_pitch", x_pitch);
  launch.size("y_pitch", y_pitch);
  launch.loop_variant(op.exprs().mul(counted, width));
  launch.emit(op.call().location);
}

constexpr size_t kMostJoined = 8;

// Rows of tensors, those behind `axis`, one after the other, into rows `pitch` elements apart.
static void emit_join_rows(OpEmitter &op, std::span<const ir::ValueId> parts, ir::ValueId y,
                           size_t axis, ir::ExprId pitch) {
  const ir::Type type = op.result_type();
  const ir::ExprId rows = op.count(type, 0, axis);
  std::vector<ir::ExprId> lengths;
  for (ir::ValueId part : parts)
    lengths.push_back(op.count(op.type(part), axis));
  if (parts.size() == 1)
    return emit_copy_rows(op, parts[0], y, type.dtype, rows, lengths[0], lengths[0], pitch);
  KernelLaunch launch = op.launch("copy.cu", "join_rows", bytes_suffix(type.dtype));
  launch.option("-DPARTS=" + std::to_string(parts.size()));
  const uint32_t bytes = ir::info(type.dtype).bytes_per_block;
  launch.element_bytes(bytes);
  const int64_t vector = KernelLaunch::vector_size(bytes);
  if (op.divides(vector, pitch) &&
      std::ranges::all_of(lengths, [&](ir::ExprId length) { return op.divides(vector, length); }))
    launch.vectors(bytes);
  launch.index_type({op.exprs().mul(rows, pitch)});
  ir::ExprId width = op.constant(0);
  for (size_t i = 0; i < parts.size(); ++i) {
    launch.input("x" + std::to_string(i), parts[i]);
    width = op.exprs().add(width, launch.size("length" + std::to_string(i), lengths[i]));
  }
  launch.output("y", y);
  const ir::ExprId counted = launch.count("rows", rows);
  launch.size("y_pitch", pitch);
  launch.loop_variant(op.exprs().mul(counted, width));
  launch.emit(op.call().location);
}

// The part of contiguous `whole` that `part`'s type describes along `axis`, from element `begin`
// on.
static ir::ValueId view_along_axis(OpEmitter &op, ir::ValueId whole, size_t axis, ir::ExprId begin,
                                   ir::ExprId size) {
  ir::Type type = op.type(whole);
  const std::vector<ir::ExprId> strides = contiguous_strides(op.exprs(), type.dims);
  const ir::ExprId bytes = op.constant(ir::info(type.dtype).bytes_per_block);
  ir::ExprId offset = op.exprs().mul(op.exprs().mul(begin, strides[axis]), bytes);
  // The storage of an empty result may have no bytes.
  const ir::SymbolDomain domain = op.builder().function().symbol_domain(op.exprs());
  if (op.exprs().range(op.count(type), domain).upper <= 0)
    offset = op.constant(0);
  type.dims[axis] = size;
  // Outermost parts are contiguous; saying so keeps types plain.
  if (op.exprs().as_constant(op.count(type, 0, axis)) != 1)
    type.strides = strides;
  return op.builder().view("part", whole, offset, op.builder().module().types.intern(type));
}

void emit_permutation(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId x,
                      ir::ValueId y, ir::DType dtype, std::vector<Dimension> walk,
                      SourceLocation location, ir::ExprId base) {
  ir::ExprPool &exprs = builder.module().exprs;
  const ir::ExprId zero = exprs.constant(0), one = exprs.constant(1);
  walk = merge(exprs, std::move(walk));
  ir::ExprId count = one;
  for (const Dimension &dimension : walk)
    count = exprs.mul(count, dimension.size);

  // [batch, columns, rows] gathered from [batch, rows, columns].
  const size_t last = walk.size() - 1;
  const bool tiled =
      !base.valid() && (walk.size() == 2 || walk.size() == 3) && walk[last - 1].strides[0] == one &&
      walk[last].strides[0] == walk[last - 1].size &&
      (walk.size() == 2 || walk[0].strides[0] == exprs.mul(walk[1].size, walk[2].size));
  KernelLaunch launch(table, builder, (tiled ? "transpose_" : "permute_") + bytes_suffix(dtype),
                      "transpose.cu", tiled ? "transpose_tiled" : "permute");
  launch.element_bytes(ir::info(dtype).bytes_per_block);
  if (tiled) {
    launch.option("-DTILED");
    launch.input("x", x);
    launch.output("y", y);
    const ir::ExprId batch = launch.count("batch", walk.size() == 3 ? walk[0].size : one);
    const ir::ExprId rows = launch.size("rows", walk[last].size);
    const ir::ExprId columns = launch.size("columns", walk[last - 1].size);
    const ir::ExprId side = exprs.constant(32);
    launch.variant(
        "", {},
        exprs.mul(batch, exprs.mul(exprs.ceildiv(rows, side), exprs.ceildiv(columns, side))),
        {32, 8, 1});
    return launch.emit(location);
  }
  const size_t rank = walk.size() <= 4 ? 4 : 8;
  CUGRT_CHECK(walk.size() <= rank);
  walk.resize(rank, {one, {zero}});
  launch.option("-DMAX_RANK=" + std::to_string(rank));
  if (base.valid())
    launch.option("-DBASE");
  else
    launch.index_type({count});
  launch.input("x", x);
  launch.output("y", y);
  const ir::ExprId counted = launch.count("count", count);
  if (base.valid())
    launch.size("base", base);
  for (size_t d = 1; d < rank; ++d)
    launch.size("size" + std::to_string(d), walk[d].size);
  for (size_t d = 0; d < rank; ++d)
    launch.size("stride" + std::to_string(d), walk[d].strides[0]);
  launch.loop_variant(counted);
  launch.emit(location);
}

void emit_section(OpEmitter &op, ir::ValueId whole, ir::ValueId part, size_t axis,
                  ir::ExprId begin) {
  const ir::Type x = op.type(whole), y = op.type(part);
  const ir::ValueId from = view_along_axis(op, whole, axis, begin, y.dims[axis]);
  const ir::ExprId length = op.count(y, axis);
  emit_copy_rows(op, from, part, x.dtype, op.count(x, 0, axis), length, op.count(x, axis), length);
}

Status emit_gather(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId source,
                   ir::ValueId target, SourceLocation location) {
  const ir::Type type = builder.type_of(source);
  if (ir::info(type.dtype).elements_per_block != 1)
    return Status::error(Code::unsupported,
                         "a strided tensor of " + std::string(ir::info(type.dtype).name) +
                             " cannot be made contiguous: its elements are no whole bytes");
  const std::vector<ir::ExprId> strides = strides_of(builder.module().exprs, type);
  std::vector<Dimension> walk;
  for (size_t i = 0; i < type.dims.size(); ++i)
    walk.push_back({type.dims[i], {strides[i]}});
  emit_permutation(table, builder, source, target, type.dtype, std::move(walk), location);
  return {};
}

void emit_resize(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId source,
                 ir::ValueId target, size_t axis, ir::ExprId space, SourceLocation location) {
  ir::ExprPool &exprs = builder.module().exprs;
  const ir::Type x = builder.type_of(source);
  const ir::Type y = builder.type_of(target);
  KernelLaunch launch(table, builder, "resize_" + bytes_suffix(x.dtype), "resize.cu",
                      "resize_rows");
  launch.element_bytes(ir::info(x.dtype).bytes_per_block);
  launch.index_type({element_count(exprs, x.dims), element_count(exprs, y.dims)});
  launch.input("x", source);
  launch.output("y", target);
  launch.count("rows", element_count(exprs, std::span(x.dims).first(axis)));
  launch.count("x_length", element_count(exprs, std::span(x.dims).subspan(axis)));
  launch.count("y_length", element_count(exprs, std::span(y.dims).subspan(axis)));
  launch.loop_variant(launch.count("space", space));
  launch.emit(location);
}

void emit_copy(OpEmitter &op, ir::ValueId source, ir::ValueId target) {
  const ir::Type x = op.type(source);
  const ir::ExprId count = op.count(x);
  emit_copy_rows(op, source, target, x.dtype, op.constant(1), count, count, count);
}

void each_size(KernelLaunch &launch, std::string_view prefix, std::span<const ir::ExprId> values) {
  for (size_t i = 0; i < values.size(); ++i)
    launch.size(std::string(prefix) + std::to_string(i), values[i]);
}

Status emit_transpose(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), y = op.result_type();
  CUGRT_TRY(op.require_whole_bytes(x.dtype));
  const std::vector<size_t> axes = op.permutation(x.dims.size());
  const std::vector<ir::ExprId> strides = contiguous_strides(op.exprs(), x.dims);
  std::vector<Dimension> walk;
  for (size_t i = 0; i < axes.size(); ++i)
    walk.push_back({y.dims[i], {strides[axes[i]]}});
  emit_permutation(op.table(), op.builder(), op.operand(0), op.result(), x.dtype, std::move(walk),
                   op.call().location);
  return {};
}

// Up to kMostJoined parts are one launch.
Status emit_concat(OpEmitter &op) {
  const ir::Type y = op.result_type();
  CUGRT_TRY(op.require_whole_bytes(y.dtype));
  const size_t axis = op.axis(y.dims.size());
  const ir::ExprId pitch = op.count(y, axis);
  const std::span<const ir::ValueId> parts = op.call().operands;
  ir::ExprId begin = op.constant(0);
  for (size_t i = 0; i < parts.size();) {
    const size_t count = std::min(parts.size() - i, kMostJoined);
    ir::ExprId size = op.constant(0);
    for (ir::ValueId part : parts.subspan(i, count))
      size = op.exprs().add(size, op.type(part).dims[axis]);
    const ir::ValueId into =
        count == parts.size() ? op.result() : view_along_axis(op, op.result(), axis, begin, size);
    emit_join_rows(op, parts.subspan(i, count), into, axis, pitch);
    begin = op.exprs().add(begin, size);
    i += count;
  }
  return {};
}

Status emit_split(OpEmitter &op) {
  const ir::Type x = op.operand_type(0);
  CUGRT_TRY(op.require_whole_bytes(x.dtype));
  const size_t axis = op.axis(x.dims.size());
  ir::ExprId begin = op.constant(0);
  for (ir::ValueId part : op.call().results) {
    emit_section(op, op.operand(0), part, axis, begin);
    begin = op.exprs().add(begin, op.type(part).dims[axis]);
  }
  return {};
}

} // namespace cugrt::codegen
