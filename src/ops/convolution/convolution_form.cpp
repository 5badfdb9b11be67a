// Choice of convolutions' forms; see convolution_form.h.
#include "ops/convolution/convolution_form.h"

namespace cugrt::codegen {

namespace {

// With fewer channels or products than half of a tile most of it would be zeros.
constexpr int64_t kFewestChannelsOfMma = 16, kFewestChannels = 8, kFewestProducts = 16,
                  kMostTaps = 63, kManyChannels = 32;
// Limits a tile with channels last, per element of a copy: a thread makes eight of x a step, so
// that registers hold their addresses. The least tile makes more of f32, one by one.
constexpr int64_t kMostPixelsOfRun = 32;
// Limits tiles of volumes and of kernels of any size, per byte of a copy: each has a mask of 64
// bits, or its window's row and column.
constexpr int64_t kMostPixelsOfByte = 8;
// Blocks that share out a tile: with two the sum of parts costs what they save. A block has so many
// steps of kSplitBytes of a row at least, as many as are on their way at once.
constexpr int64_t kFewestSplits = 3, kMostSplits = 16, kFewestSplitSteps = 4, kSplitBytes = 64;
// A tile has none of so few to spare, on any device.
constexpr int64_t kFewPixels = 16;
// Without tiles, slices take sums of this many products or more; shorter ones gain little.
constexpr int64_t kManyProducts = 64;

int64_t tiles_down(const ConvolutionForm &form, const ConvolutionSizes &sizes) {
  return (*sizes.channels + form.channels - 1) / form.channels * sizes.parts;
}

std::optional<ConvolutionForm> choose_tiles(OpEmitter &op, const ConvolutionSizes &sizes, bool mma,
                                            const std::string &name) {
  if (*sizes.taps > kMostTaps || *sizes.channels < kFewestChannels)
    return {};
  if (mma && *sizes.channels >= kFewestChannelsOfMma &&
      has_tensor_cores(op.operand_type(1).dtype, op.table().choice().target))
    return ConvolutionForm{name + "_mma", "-DWITH_MMA", 64, 128, {32, 4, 1}};
  const bool many = *sizes.channels > kManyChannels;
  const std::string channels = many ? "64" : "16";
  return ConvolutionForm{name + "_register_" + channels,
                         "-DWITH_REGISTER=" + channels,
                         many ? 64 : 16,
                         many ? 64 : 128,
                         {128, 1, 1}};
}

// The forms that some number of pixels within the symbols' bounds takes, up to the one that takes
// all of the rest.
std::vector<ConvolutionForm> reachable(OpEmitter &op, std::vector<ConvolutionForm> &wanted,
                                       ir::ExprId pixels) {
  ir::ExprPool &exprs = op.exprs();
  const ir::SymbolDomain bounds = op.builder().function().symbol_domain(exprs);
  std::vector<ConvolutionForm> forms;
  for (ConvolutionForm &form : wanted) {
    if (form.most_pixels) {
      const ir::Interval holds = exprs.range(at_most(exprs, pixels, *form.most_pixels), bounds);
      if (holds.upper == 0)
        continue;
      if (holds.lower != 0)
        form.most_pixels.reset();
    }
    forms.push_back(std::move(form));
    if (!forms.back().most_pixels)
      break;
  }
  return forms;
}

/// The larger of the first two forms that three blocks or more can share out, each multiprocessor
/// having one block at most. Counters are state, which branches and loops have none of.
std::optional<ConvolutionForm> choose_split(OpEmitter &op, const ConvolutionSizes &sizes,
                                            std::span<const ConvolutionForm> forms) {
  const std::optional<int64_t> pixels = op.exprs().as_constant(sizes.pixels);
  if (!pixels || *pixels == 0 || !sizes.products || op.builder().in_nested_block())
    return {};
  const int64_t size = ir::info(op.operand_type(1).dtype).bytes_per_block;
  const int64_t steps = (*sizes.products * size + kSplitBytes - 1) / kSplitBytes;
  for (size_t i = 2; i-- > 0;) {
    ConvolutionForm form = forms[i];
    if (i > 0 && form.channels >= 2 * *sizes.channels)
      continue; // half of each tile would be empty
    const int64_t tiles = (*pixels + form.pixels - 1) / form.pixels * tiles_down(form, sizes);
    form.splits = std::min({op.table().choice().target.multiprocessors / tiles, kMostSplits,
                            steps / kFewestSplitSteps});
    if (form.splits >= kFewestSplits)
      return form;
  }
  return {};
}

// Tiles with channels last, of pixels by channels.
std::vector<ConvolutionForm> last_forms(const OpEmitter &op) {
  const std::string name = std::string(op.name()) + "_last_";
  return {
      {name + "64x32", "-DWITH_64x32", 32, 64, {32, 4, 1}},
      {name + "64x64", "-DWITH_64x64", 64, 64, {32, 4, 1}},
      {name + "128x64", "-DWITH_128x64", 64, 128, {32, 4, 1}},
      {name + "128x128", "-DWITH_128x128", 128, 128, {32, 4, 1}},
  };
}

// Chooses the largest of these that gives each multiprocessor one.
std::vector<ConvolutionForm> by_occupancy(OpEmitter &op, const ConvolutionSizes &sizes,
                                          std::vector<ConvolutionForm> &wanted) {
  while (wanted.size() > 1 && wanted.back().channels >= 2 * *sizes.channels)
    wanted.pop_back(); // half of each tile would be empty
  // Smaller tiles as long as the next ones would not occupy all of the device.
  for (size_t i = 0; i + 1 < wanted.size(); ++i)
    wanted[i].most_pixels = (op.table().choice().target.multiprocessors - 1) /
                            tiles_down(wanted[i + 1], sizes) * wanted[i + 1].pixels;
  return reachable(op, wanted, sizes.pixels);
}

} // namespace

std::vector<ConvolutionForm> choose_convolution_forms(OpEmitter &op, const ConvolutionSizes &sizes,
                                                      bool mma, bool slices) {
  if (!sizes.small_indices || !sizes.channels || !sizes.products || !sizes.taps ||
      *sizes.products < kFewestProducts)
    return {};
  const std::string name(op.call().op == ir::Op::conv1d ? "conv2d" : op.name());
  const std::optional<ConvolutionForm> tiles = choose_tiles(op, sizes, mma, name);
  std::vector<ConvolutionForm> wanted;
  if (slices && (tiles || *sizes.products >= kManyProducts)) {
    wanted.push_back({name + "_slices", "-DWITH_SLICES", 8, 32, {256, 1, 1}});
    if (tiles) {
      const int64_t half = op.table().choice().target.multiprocessors / 2;
      wanted.back().most_pixels =
          std::max(kFewPixels, half / tiles_down(*tiles, sizes) * tiles->pixels);
    }
  }
  if (tiles)
    wanted.push_back(*tiles);

  return reachable(op, wanted, sizes.pixels);
}

std::vector<ConvolutionForm> choose_byte_forms(OpEmitter &op, const ConvolutionSizes &sizes) {
  if (!sizes.small_indices || !sizes.channels || !sizes.products || !sizes.taps ||
      *sizes.products < kFewestProducts || *sizes.channels < kFewestChannels ||
      *sizes.taps > kMostTaps || op.table().choice().target.compute_capability < kTensorCoresSince)
    return {};
  return {{std::string(op.name()) + "_mma", "-DWITH_MMA", 64, 128, {32, 4, 1}}};
}

std::vector<ConvolutionForm> choose_last_forms(OpEmitter &op, const ConvolutionSizes &sizes,
                                               int64_t run, bool is_large) {
  const ir::DType dtype = op.operand_type(1).dtype;
  if (!sizes.small_indices || !sizes.channels || *sizes.channels < kFewestChannels ||
      !is_laid_out(dtype, op.table().choice()))
    return {};
  std::vector<ConvolutionForm> wanted = last_forms(op);
  if (std::optional<ConvolutionForm> split = choose_split(op, sizes, wanted))
    return {*split};
  const int64_t most = op.call().op == ir::Op::conv3d || is_large
                           ? kMostPixelsOfByte * run * ir::info(dtype).bytes_per_block
                           : kMostPixelsOfRun * run;
  while (wanted.back().pixels > std::max(most, wanted.front().pixels))
    wanted.pop_back();
  if (run * ir::info(dtype).bytes_per_block < 16 && wanted.back().channels == 128)
    wanted.pop_back(); // spills
  return by_occupancy(op, sizes, wanted);
}

std::vector<ConvolutionForm> choose_last_byte_forms(OpEmitter &op, const ConvolutionSizes &sizes) {
  if (!sizes.small_indices || !sizes.channels || *sizes.channels < kFewestChannels ||
      op.table().choice().target.compute_capability < kTensorCoresSince)
    return {};
  std::vector<ConvolutionForm> wanted = last_forms(op);
  for (ConvolutionForm &form : wanted)
    form.shared_bytes = byte_stage_bytes(op.table().choice().target, form.pixels, form.channels);
  if (std::optional<ConvolutionForm> split = choose_split(op, sizes, wanted))
    return {*split};
  return by_occupancy(op, sizes, wanted);
}

void add_parts(OpEmitter &op, KernelLaunch &launch, const ConvolutionForm &form,
               const ConvolutionSizes &sizes, ir::DType sums) {
  ir::ExprPool &exprs = op.exprs();
  add_shared_tiles(op, launch,
                   exprs.mul(exprs.ceildiv(sizes.pixels, exprs.constant(form.pixels)),
                             exprs.constant(tiles_down(form, sizes))),
                   form.splits * form.pixels * form.channels, sums);
}

bool add_form_options(KernelLaunch &launch, std::span<const ConvolutionForm> forms) {
  for (const ConvolutionForm &form : forms)
    launch.option(form.option);
  if (forms.empty() || forms.back().most_pixels)
    return false;
  launch.option("-DWITHOUT_DIRECT");
  launch.entry(forms.back().entry);
  return true;
}

void add_form_variants(KernelLaunch &launch, std::span<const ConvolutionForm> forms,
                       const ConvolutionSizes &sizes, ir::ExprId pixels) {
  ir::ExprPool &exprs = launch.exprs();
  for (const ConvolutionForm &form : forms) {
    launch.variant(form.entry,
                   form.most_pixels ? at_most(exprs, pixels, *form.most_pixels) : ir::ExprId(),
                   exprs.mul(exprs.ceildiv(pixels, exprs.constant(form.pixels)),
                             exprs.constant(tiles_down(form, sizes) * form.splits)),
                   form.threads, form.shared_bytes);
  }
}

std::vector<int64_t> window(const OpEmitter &op, std::string_view name, size_t axes) {
  const size_t given = op.operand_type(0).dims.size() - 2;
  const int64_t otherwise = name == "padding" ? 0 : 1;
  std::vector<int64_t> values = op.integers(name);
  values.resize(given, otherwise); // of both sides, those before
  values.insert(values.begin(), axes - given, otherwise);
  return values;
}

void window_sizes(OpEmitter &op, KernelLaunch &launch, size_t axes) {
  constexpr std::string_view kSides[] = {"_d", "_h", "_w"};
  for (const auto &[size, attribute] :
       {std::pair("stride", "strides"), {"pad", "padding"}, {"dilation", "dilation"}}) {
    const std::vector<int64_t> values = window(op, attribute, axes);
    for (size_t i = 0; i < axes; ++i)
      launch.size(size + std::string(kSides[3 - axes + i]), op.constant(values[i]));
  }
}

void byte_options(OpEmitter &op, KernelLaunch &launch) {
  launch.option_if(op.operand_type(0).dtype == ir::DType::u8, "-DX_UNSIGNED");
  launch.option_if(op.operand_type(1).dtype == ir::DType::u8, "-DW_UNSIGNED");
  launch.option_if(op.has_operand(2), "-DHAS_X_ZERO");
  launch.option_if(op.has_operand(3), "-DHAS_W_ZERO");
}

} // namespace cugrt::codegen
