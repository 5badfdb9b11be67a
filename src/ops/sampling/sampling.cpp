// Elements between others: kernels/sampling/interpolate.cu, grid_sample.cu.
#include "ops/emit/element_ops.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace cugrt::ir {

Types Inference::interpolate() const {
  CUGRT_TRY(op_string(op, attributes, "mode") == "nearest" ? check_whole_bytes(0) : check_float(0));
  CUGRT_TRY(check_rank(1, rank(0)));
  std::vector<bool> resized(rank(0), false);
  const std::vector<int64_t> axes = op_integers(op, attributes, "axes");
  for (int64_t given : axes) {
    CUGRT_ASSIGN(const size_t axis, axis_of(given, 0));
    if (std::find(resized.begin() + static_cast<ptrdiff_t>(axis), resized.end(), true) !=
        resized.end())
      return wrong("attribute 'axes' lists them in order, each once");
    resized[axis] = true;
  }
  const size_t count = axes.empty() ? rank(0) : axes.size();
  if (count < 1 || count > 4)
    return wrong("one to four axes are resized; name them by attribute 'axes'");
  for (size_t i = 0; i < rank(0); ++i)
    if (!axes.empty() && !resized[i])
      CUGRT_TRY(check_equal(dims(0)[i], dims(1)[i], "dimensions that are not resized"));
  const bool crops = op_string(op, attributes, "coordinates") == "tf_crop_and_resize";
  if (crops != has(3))
    return wrong("takes a region with coordinates \"tf_crop_and_resize\", and only with them");
  for (size_t i : {2, 3})
    if (has(i)) {
      CUGRT_TRY(check_dtype(i, DType::f32));
      CUGRT_TRY(check_rank(i, 1));
      CUGRT_TRY(check_equal(dims(i)[0], constant(static_cast<int64_t>(i == 2 ? count : 2 * count)),
                            i == 2 ? "scales and resized axes" : "bounds of the region"));
    }
  return one(type(0).dtype, dims(1));
}

Types Inference::grid_sample() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(type(1).dtype == DType::f32 ? Status() : check_same_dtype(1));
  if (rank(0) != 4 && rank(0) != 5)
    return wrong("operand 1 has rank 4 or 5: batch, channels, and two or three dimensions");
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_TRY(check_equal(dims(0)[0], dims(1)[0], "batches of operands"));
  CUGRT_TRY(check_equal(dims(1).back(), constant(static_cast<int64_t>(rank(0)) - 2),
                        "coordinates of a place and the dimensions"));
  if (rank(0) == 5 && op_string(op, attributes, "mode") == "cubic")
    return wrong("mode \"cubic\" is of two dimensions");
  Dims out = {dims(0)[0], dims(0)[1]};
  out.insert(out.end(), dims(1).begin() + 1, dims(1).end() - 1);
  return one(type(0).dtype, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::padding {

Status OpPadding::interpolate() {
  const bool scaled = has(2) || has(3);
  for (size_t d = 0; d < rank(0); ++d)
    if (!scaled && operands_[0].dims[d] == results_[0].dims[d].parts[0])
      CUGRT_TRY(carry(0, d, d));
    else if (is_padded(0, d) || is_padded(1, d)) // the places are those of the whole size
      return refuse(is_padded(0, d) ? 0 : 1, d, "runs along");
  fills([&](size_t d, size_t) { return like_first(d) == Fill::any ? Fill::any : Fill::finite; });
  return {};
}

/// x is [N, C, ..], the grid [N, .., places].
Status OpPadding::grid_sample() {
  CUGRT_TRY(carry(0, 0, 0));
  CUGRT_TRY(carry(0, 1, 1));
  CUGRT_TRY(carry(1, 0, 0));
  for (size_t d = 1; d + 1 < rank(1); ++d)
    CUGRT_TRY(carry(1, d, d + 1));
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

namespace {

/// The dimensions that the kernel takes the index apart over: axes that are resized, and between
/// them one dimension for all others.
struct Walk {
  std::vector<ir::ExprId> size, x_size, stride;
  uint32_t resized = 0; // a bit each
  size_t axes = 0;
};

Walk walk_of(OpEmitter &op) {
  ir::ExprPool &exprs = op.exprs();
  const ir::Type x = op.operand_type(0), y = op.result_type();
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, x.dims);
  const std::vector<int64_t> axes = op.integers("axes");
  std::vector<bool> is_resized(x.dims.size(), axes.empty());
  for (int64_t axis : axes)
    is_resized[*ir::normalize_axis(axis, x.dims.size())] = true;
  Walk walk;
  bool last_is_plain = false;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const bool is_plain = !is_resized[i];
    if (is_plain && last_is_plain) {
      walk.size.back() = walk.x_size.back() = exprs.mul(walk.size.back(), x.dims[i]);
      walk.stride.back() = strides[i];
      continue;
    }
    if (!is_plain) {
      walk.resized |= 1u << walk.size.size();
      ++walk.axes;
    }
    walk.size.push_back(y.dims[i]);
    walk.x_size.push_back(x.dims[i]);
    walk.stride.push_back(strides[i]);
    last_is_plain = is_plain;
  }
  return walk;
}

/// Along the outermost dimension, elements that a thread makes with the same weights: as many as
/// leave every multiprocessor enough threads.
int64_t planes_of(OpEmitter &op, ir::ExprId elements) {
  constexpr int64_t kMost = 16, kThreads = 1024;
  const ir::SymbolDomain bounds = op.builder().function().symbol_domain(op.exprs());
  const int64_t most = op.exprs().range(elements, bounds).upper,
                threads = kThreads * op.table().choice().target.multiprocessors;
  int64_t planes = 1;
  while (planes < kMost && most / (2 * planes) >= threads)
    planes *= 2;
  return planes;
}

} // namespace

Status emit_interpolate(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), y = op.result_type();
  const std::string mode = ir::op_string(op.call().op, op.call().attributes, "mode");
  const bool is_nearest = mode == "nearest";
  Walk walk = walk_of(op);
  const size_t rank = walk.size.size() <= 4 ? 4 : 8, last = walk.size.size() - 1;
  const bool has_few_taps = is_nearest || (walk.axes <= 2 && mode == "linear");
  const ir::ExprId inner = walk.size[last];
  // Unused dimensions come last, with size 1; what counts axes does not see them.
  for (std::vector<ir::ExprId> *list : {&walk.size, &walk.x_size})
    list->resize(rank, op.constant(1));
  walk.stride.resize(rank, op.constant(0));

  KernelLaunch launch = is_nearest ? op.moving_launch("interpolate.cu", "interpolate", x.dtype)
                                   : op.floating_launch("interpolate.cu", "interpolate");
  launch.option("-DTAPS=" + std::to_string(1 << op.word("mode")));
  launch.option("-DCOORDINATES=" + std::to_string(op.word("coordinates")));
  if (is_nearest) {
    launch.option("-fmad=false"); // as of floats: which element is nearest
    launch.option("-DNEAREST=" + std::to_string(op.word("nearest")));
  }
  launch.option("-DMAX_RANK=" + std::to_string(rank));
  launch.option("-DRESIZED=" + std::to_string(walk.resized));
  launch.option("-DAXES=" + std::to_string(walk.axes));
  const uint32_t bytes = ir::info(x.dtype).bytes_per_block;
  const bool has_planes = !(walk.resized & 1) && last > 0,
             is_last_plain = !(walk.resized >> last & 1) && last > 0;
  const int64_t planes = has_planes ? planes_of(op, op.count(y)) : 1;
  launch.option_if(planes > 1, "-DPLANES=" + std::to_string(planes));
  if (is_last_plain && has_few_taps && op.divides(KernelLaunch::vector_size(bytes), inner))
    launch.vectors(bytes);
  launch.option_if(op.flag("exclude_outside"), "-DEXCLUDE_OUTSIDE");
  launch.option_if(op.has_operand(2), "-DHAS_SCALES");
  launch.index_type({op.count(y)});
  launch.input("x", op.operand(0));
  op.input_if_given(launch, "scales", 2);
  op.input_if_given(launch, "region", 3);
  launch.output("y", op.result());
  ir::ExprId items = op.exprs().ceildiv(launch.count("size0", walk.size[0]), op.constant(planes));
  for (size_t d = 1; d < rank; ++d)
    items = op.exprs().mul(items, launch.size("size" + std::to_string(d), walk.size[d]));
  each_size(launch, "x_size", walk.x_size);
  each_size(launch, "stride", walk.stride);
  launch.scalar("cubic", ir::DType::f32, op.number("cubic_coeff"));
  if (is_nearest)
    launch.count("extrapolation", op.constant(element_bits(x.dtype, op.number("extrapolation"))));
  else
    launch.scalar("extrapolation", wide_type(x.dtype), op.number("extrapolation"));
  launch.loop_variant(items);
  return op.emit(launch);
}

Status emit_grid_sample(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), grid = op.operand_type(1), y = op.result_type();
  const size_t rank = x.dims.size();

  KernelLaunch launch = op.floating_launch("grid_sample.cu", "grid_sample");
  launch.option("-DDIMENSIONS=" + std::to_string(rank - 2));
  launch.option("-DGRID=" + std::string(element_type(grid.dtype)));
  launch.option("-DMODE=" + std::to_string(op.word("mode")));
  launch.option("-DPADDING=" + std::to_string(op.word("padding")));
  launch.option_if(op.flag("align_corners"), "-DALIGN_CORNERS");
  launch.index_type({op.count(y)});
  launch.input("x", op.operand(0));
  launch.input("grid", op.operand(1));
  launch.output("y", op.result());
  const ir::ExprId batch = launch.count("batch", x.dims[0]);
  const ir::ExprId channels = launch.size("channels", x.dims[1]);
  launch.size("size_d", rank == 5 ? x.dims[2] : op.constant(1));
  launch.size("size_h", x.dims[rank - 2]);
  launch.size("size_w", x.dims[rank - 1]);
  const ir::ExprId points = launch.count("points", op.count(grid, 1, rank - 1));
  launch.loop_variant(op.exprs().mul(op.exprs().mul(batch, channels), points));
  return op.emit(launch);
}

} // namespace cugrt::codegen
