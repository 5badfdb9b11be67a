// Instances for the storage bench: files of buffers, and networks made up here.
#pragma once

#include "plan/pack.h"

#include <string>
#include <vector>

namespace cugrt::bench {

struct StorageInstance {
  std::string name;
  struct Buffer {
    std::string id;
    int64_t lower = 0, upper = 0; // as in the file
  };
  std::vector<Buffer> buffers;
  std::vector<plan::PackItem> items; // one for each buffer, alignment 1
};

/// CSV with the columns id, lower, upper and size, in any order and named by the first line; a
/// buffer is alive in [lower, upper). Errors name the line.
Result<StorageInstance> read_instance(const std::string &path);
/// `id,lower,upper,size,offset`, buffers in the order of the instance.
std::string offsets_csv(const StorageInstance &instance, const plan::Packing &packing);

/// Residual blocks of three convolutions in four stages, each convolution with a workspace of its
/// own step: `blocks` * 7 + 1 buffers. The bound is `kResnetBound`, met in any block of the
/// first stage where it adds: block input, branch and sum.
StorageInstance resnet_instance(int blocks);
inline constexpr int64_t kResnetActivation = 256 * 56 * 56 * 4;
inline constexpr int64_t kResnetBound = 3 * kResnetActivation;
/// Encoder and decoder of `depth` levels; every level's output stays until the decoder joins it.
StorageInstance unet_instance(int depth);
/// Decoder layers over a prompt: norms, projections, attention by heads, gated MLP.
StorageInstance prefill_instance(int layers, int tokens);

} // namespace cugrt::bench
