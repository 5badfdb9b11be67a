// Instances for the storage bench: files of buffers, and networks made up here.
#pragma once

#include "compiler/planner/packing/packing.h"

#include <optional>
#include <string>
#include <vector>

namespace cugrt::bench {

struct StorageInstance {
  std::string name;
  struct Buffer {
    std::string id;
    int64_t lower = 0, upper = 0; // as in the file, half-open
    std::optional<int64_t> hint;  // likewise; not used
    struct Gap {                  // likewise
      int64_t lower = 0, upper = 0;
    };
    std::vector<Gap> gaps; // ascending
  };
  std::vector<Buffer> buffers;
  std::vector<plan::PackingItem> items; // one for each buffer
  std::vector<plan::PackingGap> gaps;
  std::vector<plan::PackingPlace> fixed;
  plan::PackingInput input() const { return {items, gaps, fixed}; }
};

/// CSV in MiniMalloc's format: the columns id, lower, upper and size, and perhaps alignment, hint
/// (read, not used), gaps, and offset (where the buffer has to lie; empty:
/// anywhere), in any order and named by the first line. Alignments that are no powers of two, and
/// gaps in which a part of the buffer stays in use, are refused (Code::unsupported). Errors name
/// the line.
Result<StorageInstance> read_instance(const std::string &path);
/// The columns of the instance with its offsets, buffers in its order: a file of the same format.
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
