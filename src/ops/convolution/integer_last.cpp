// Convolution of bytes with channels last: kernels/convolution/conv_integer_last.cu.
#include "ops/convolution/convolution_form.h"

#include <numeric>

namespace cugrt::codegen {

// Channels of a group of x that a copy takes, at least and at most; of a group of y, of which fewer
// would leave most of a tile empty.
static constexpr int64_t kByteRun = 4, kMostBytes = 16, kFewestOfBytes = 16;

bool takes_bytes_last(const ir::Module &module, const ir::Type &w, int64_t groups,
                      const Target &target) {
  const std::optional<int64_t> out_channels = module.exprs.as_constant(w.dims[0]),
                               in_group = module.exprs.as_constant(w.dims[1]);
  return target.compute_capability >= kTensorCoresSince && out_channels && in_group &&
         *in_group > 0 && *in_group % kByteRun == 0 && *out_channels / groups >= kFewestOfBytes;
}

Status emit_conv_integer_last(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), w = op.operand_type(1), y = op.result_type();
  const int64_t groups = op.integer("groups");
  ir::ExprPool &exprs = op.exprs();
  KernelLaunch launch = op.launch("conv_integer_last.cu", "conv_integer_last");
  launch.option_if(op.call().fusion, "-fmad=false"); // kernels/shared/byte_sums.cuh
  byte_options(op, launch);
  ConvolutionSizes sizes;
  if (const std::optional<int64_t> channels = exprs.as_constant(w.dims[0]))
    sizes.channels = *channels / groups;
  sizes.products = exprs.as_constant(op.count(w, 1));
  sizes.parts = groups;
  sizes.pixels = exprs.mul(y.dims[0], exprs.mul(y.dims[1], y.dims[2]));
  sizes.small_indices = launch.index_type({op.count(x), op.count(w), op.count(y)});
  const std::optional<int64_t> in_group = exprs.as_constant(w.dims[3]);
  std::vector<ConvolutionForm> forms;
  if (in_group && *in_group > 0 && *in_group % kByteRun == 0)
    forms = choose_last_byte_forms(op, sizes);
  if (!forms.empty()) {
    launch.option("-DWITH_MMA");
    launch.option("-DRUN=" + std::to_string(std::gcd(*in_group, kMostBytes)));
    launch.option("-DSTAGES=" + std::to_string(byte_stages(op.table().choice().target)));
    for (const ConvolutionForm &form : forms)
      launch.option(form.option);
    launch.entry(forms.back().entry);
  }
  launch.input("x", op.operand(0));
  launch.input("w", op.operand(1));
  op.input_if_given(launch, "x_zero", 2);
  op.zero_points(launch, "w_zero", 3);
  if (!forms.empty() && forms.front().splits > 1) {
    launch.option("-DSPLIT");
    add_parts(op, launch, forms.front(), sizes, ir::DType::i32);
    launch.size("splits", op.constant(forms.front().splits));
  }
  launch.output("y", op.result());
  const ir::ExprId batch = launch.count("batch", x.dims[0]);
  launch.size("channels", x.dims[3]);
  launch.size("height", x.dims[1]);
  launch.size("width", x.dims[2]);
  const ir::ExprId outputs = launch.size("out_channels", y.dims[3]);
  const ir::ExprId out_height = launch.size("out_height", y.dims[1]);
  const ir::ExprId out_width = launch.size("out_width", y.dims[2]);
  launch.size("kernel_h", w.dims[1]);
  launch.size("kernel_w", w.dims[2]);
  window_sizes(op, launch, 2);
  launch.size("groups", op.constant(groups));
  const ir::ExprId pixels = exprs.mul(batch, exprs.mul(out_height, out_width));
  add_form_variants(launch, forms, sizes, pixels);
  if (forms.empty())
    launch.loop_variant(exprs.mul(pixels, outputs));
  return op.emit(launch);
}

} // namespace cugrt::codegen
