// Choice of convolutions' forms; see convolution_form.h.
#include "codegen/convolution_form.h"

namespace cugrt::codegen {

namespace {

// With fewer channels or products than half of a tile most of it would be of zeros; with fewer
// pixels than a quarter an element a thread is as good.
constexpr int64_t kFewestChannelsOfMma = 16, kFewestChannels = 8, kFewestProducts = 16,
                  kMostTaps = 63, kFewestPixels = 32, kManyChannels = 32;

ir::ExprId enough(ir::ExprPool &exprs, ir::ExprId pixels) {
  return exprs.make(ir::ExprKind::le, exprs.constant(kFewestPixels), pixels);
}

} // namespace

std::optional<ConvolutionForm> choose_convolution_form(OpEmitter &op, const ConvolutionSizes &sizes,
                                                       bool mma) {
  if (!sizes.small_indices || !sizes.channels || !sizes.products || !sizes.taps ||
      *sizes.taps > kMostTaps || *sizes.products < kFewestProducts)
    return {};
  const std::string name(op.name() == "conv1d" ? "conv2d" : op.name());
  if (mma && *sizes.channels >= kFewestChannelsOfMma &&
      has_tensor_cores(op.operand_type(1).dtype, op.table().choice().target))
    return ConvolutionForm{name + "_mma", "-DWITH_MMA", 64, 128, {32, 4, 1}, true};
  if (*sizes.channels < kFewestChannels)
    return {};
  ir::ExprPool &exprs = op.exprs();
  const ir::Interval holds =
      exprs.range(enough(exprs, sizes.pixels), op.builder().function().symbol_domain(exprs));
  if (holds.upper == 0)
    return {};
  const int64_t channels = *sizes.channels <= kManyChannels ? 16 : 64;
  return ConvolutionForm{name + "_register_" + std::to_string(channels),
                         "-DWITH_REGISTER=" + std::to_string(channels),
                         channels,
                         channels == 16 ? 128 : 64,
                         {128, 1, 1},
                         holds.lower != 0};
}

void add_form(KernelLaunch &launch, const std::optional<ConvolutionForm> &form) {
  if (!form)
    return;
  launch.option(form->option);
  if (!form->always)
    return;
  launch.option("-DWITHOUT_DIRECT");
  launch.entry(form->entry);
}

void add_form_variant(KernelLaunch &launch, const ConvolutionForm &form, int64_t channels,
                      ir::ExprId pixels, int64_t groups) {
  ir::ExprPool &exprs = launch.exprs();
  const int64_t down = (channels + form.channels - 1) / form.channels;
  launch.variant(
      form.entry, form.always ? ir::ExprId() : enough(exprs, pixels),
      exprs.mul(exprs.ceildiv(pixels, exprs.constant(form.pixels)), exprs.constant(down * groups)),
      form.threads);
}

} // namespace cugrt::codegen
