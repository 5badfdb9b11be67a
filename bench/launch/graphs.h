// The graphs of the launch bench, as modules in the text form.
//
// The first three have kernels of their own, as small as can be, over tensors [n, 32]; the
// transformer has the library's kernels, chosen by its passes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::bench {

/// chain, fork_join, layered, transformer.
std::span<const std::string_view> launch_graphs();

/// A module with one function, @main(%x) -> a tensor of x's type, and the weights that follow %x.
struct LaunchModule {
  std::string text;
  /// Dimensions of %x at two shapes that differ in what every launch depends on.
  std::vector<int64_t> shapes[2];
};

/// Exactly `nodes` launches; of the transformer as many layers as have at least that many.
LaunchModule launch_module(std::string_view graph, uint32_t nodes);

/// Of a layer: layer norm, attention, residual, layer norm, two matrix products, residual.
struct TransformerSize {
  uint32_t layers = 1, heads = 2, width = 32, hidden = 64;
  int64_t most_batch = 2, most_length = 16;
};
/// %x: [b, s, width]. Layers share their weights, so that memory does not grow with them.
std::string transformer_text(const TransformerSize &size);
/// Launches of one layer, by which a number of nodes is made up.
inline constexpr uint32_t kTransformerLaunches = 7;

} // namespace cugrt::bench
