// Forms of the convolutions' kernels that compute tiles: tensor cores (kernels/conv2d_mma.cuh), and
// registers (kernels/register_tile.cuh).
#pragma once

#include "codegen/op_emitter.h"

namespace cugrt::codegen {

/// A block computes tiles of so many channels of a group and pixels of all images.
struct ConvolutionForm {
  std::string entry, option;
  int64_t channels, pixels;
  std::array<int64_t, 3> threads;
  bool always = false; // whatever the symbols are; else where enough() says so
};

/// What a form is chosen by; the first three must be known.
struct ConvolutionSizes {
  std::optional<int64_t> channels; // of the result, of a group
  std::optional<int64_t> products; // that are added up to an element of the result, taps included
  std::optional<int64_t> taps;
  ir::ExprId pixels;  // that share their taps, of all images; over the function's symbols
  bool small_indices; // KernelLaunch::index_type()
};

/// None: a thread computes an element. `mma`: there is a form on tensor cores.
std::optional<ConvolutionForm> choose_convolution_form(OpEmitter &op, const ConvolutionSizes &sizes,
                                                       bool mma);

/// Adds the form's option to the launch; it is the launch's entry where it is always taken.
void add_form(KernelLaunch &launch, const std::optional<ConvolutionForm> &form);

/// The form's variant, over the launch's sizes: `groups` times the tiles of `pixels`.
void add_form_variant(KernelLaunch &launch, const ConvolutionForm &form, int64_t channels,
                      ir::ExprId pixels, int64_t groups);

} // namespace cugrt::codegen
