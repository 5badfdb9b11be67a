// Forms of the convolutions' kernels other than an element a thread, and when each is taken:
//
// clang-format off
//   tensor cores   f16 and bf16, 16 channels of a group or more   kernels/convolution/conv2d_mma.cuh
//   registers      8 channels or more                             kernels/convolution/register_tile.cuh
//   slices         where tiles of those would not occupy half     kernels/convolution/conv_slices.cuh
//                  of the device, or cannot be had
// clang-format on
//
// All want 16 products a sum or more, tiles 63 taps at most.
//
// With channels last (choose_last_forms) there are tiles on tensor cores of four sizes
// (kernels/convolution/conv2d_last_mma.cuh): the largest of which each multiprocessor gets one. Of
// a tile of 64 x 64 three blocks or more share out the sums where multiprocessors would have none.
#pragma once

#include "ops/emit/op_emitter.h"

namespace cugrt::codegen {

struct ConvolutionForm {
  std::string entry, option;
  int64_t channels, pixels; // of a block
  std::array<int64_t, 3> threads;
  std::optional<int64_t> most_pixels{}; // none: whatever there are
  int64_t splits = 1;                   // blocks that share out a tile's products
  int64_t shared_bytes = 0;             // dynamic shared memory of a block
};

/// Facts that forms are chosen by; the first three must be known for any to be taken.
struct ConvolutionSizes {
  std::optional<int64_t> channels; // of the result, of a group
  std::optional<int64_t> products; // that are added up to an element of the result, taps included
  std::optional<int64_t> taps;
  int64_t parts = 1;          // that are computed by blocks of their own: groups, phases
  ir::ExprId pixels;          // of a part, in all images; over the function's symbols
  bool small_indices = false; // KernelLaunch::index_type()
};

/// In the order of their predicates. If the last one does not take any number of pixels, a thread
/// computes an element of the rest. `mma`, `slices`: the kernel has these forms.
std::vector<ConvolutionForm> choose_convolution_forms(OpEmitter &op, const ConvolutionSizes &sizes,
                                                      bool mma, bool slices);

/// The form of convolutions of bytes, on tensor cores (kernels/convolution/conv_integer_mma.cuh),
/// where it is taken: by the same measures.
std::vector<ConvolutionForm> choose_byte_forms(OpEmitter &op, const ConvolutionSizes &sizes);

/// The forms on tensor cores of convolutions with channels last
/// (kernels/convolution/conv2d_last_mma.cuh) with copies of `run` elements, which divides a group's
/// channels of x; none where they are not taken. Large: of kernels of any size (LARGE there). Where
/// the number of pixels is known and tiles are few for the device, several blocks share out each.
std::vector<ConvolutionForm> choose_last_forms(OpEmitter &op, const ConvolutionSizes &sizes,
                                               int64_t run, bool is_large);

/// Adds what blocks of a form with several splits share to the launch, before its result: their
/// parts of sums, and counters of those that have ended.
void add_parts(OpEmitter &op, KernelLaunch &launch, const ConvolutionForm &form,
               const ConvolutionSizes &sizes, ir::DType sums);

/// Likewise for bytes (kernels/convolution/conv_integer_last.cu); a group of x has a multiple of 16
/// channels.
std::vector<ConvolutionForm> choose_last_byte_forms(OpEmitter &op, const ConvolutionSizes &sizes);

/// A window's attribute for the last `axes` dimensions of images or volumes; if none is given, 1,
/// or 0 for padding. Returns the padding before of both sides; the padding behind mostly follows
/// from the result's size.
std::vector<int64_t> window(const OpEmitter &op, std::string_view name, size_t axes);
/// The sizes stride_h, stride_w, pad_h, .. of windows of `axes` dimensions, of three from _d on.
void window_sizes(OpEmitter &op, KernelLaunch &launch, size_t axes);

/// Options of a convolution of bytes: which factors have no sign, and which have zero points.
void byte_options(OpEmitter &op, KernelLaunch &launch);

/// conv_integer with channels last.
Status emit_conv_integer_last(OpEmitter &op);

/// Adds the forms' options to the launch, before its operands. Whether any number of pixels is
/// taken.
bool add_form_options(KernelLaunch &launch, std::span<const ConvolutionForm> forms);

/// Adds the forms' variants, `pixels` being over the launch's sizes.
void add_form_variants(KernelLaunch &launch, std::span<const ConvolutionForm> forms,
                       const ConvolutionSizes &sizes, ir::ExprId pixels);

} // namespace cugrt::codegen
