// Instances made up after networks, see storage_instances.h.
#include "bench/storage_instances.h"

#include <algorithm>

namespace cugrt::bench {
namespace {

/// A network as it is written down: one step after the other, tensors alive from the step that
/// makes them to the last that uses them.
class Net {
public:
  explicit Net(std::string name) { instance_.name = std::move(name); }

  /// A step that reads `inputs` and makes a tensor, with a workspace of its own if asked for.
  size_t step(int64_t bytes, std::initializer_list<size_t> inputs, int64_t workspace_bytes = 0) {
    for (size_t input : inputs)
      instance_.items[input].end = std::max(instance_.items[input].end, now_ + 1);
    if (workspace_bytes > 0)
      instance_.items.push_back({now_, now_ + 1, workspace_bytes, 1});
    instance_.items.push_back({now_, now_ + 1, bytes, 1});
    ++now_;
    return instance_.items.size() - 1;
  }

  StorageInstance finish() {
    for (size_t i = 0; i < instance_.items.size(); ++i)
      instance_.buffers.push_back(
          {std::to_string(i), instance_.items[i].begin, instance_.items[i].end, {}, {}});
    return std::move(instance_);
  }

private:
  StorageInstance instance_;
  uint32_t now_ = 0;
};

} // namespace

StorageInstance resnet_instance(int blocks) {
  Net net("resnet_" + std::to_string(blocks));
  size_t input = net.step(kResnetActivation, {});
  for (int block = 0; block < blocks; ++block) {
    // Each stage halves height and width and doubles the channels: half the bytes.
    int64_t wide = kResnetActivation >> (block * 4 / blocks), narrow = wide / 4;
    size_t first = net.step(narrow, {input}, narrow / 2);
    size_t second = net.step(narrow, {first}, narrow * 2);
    size_t third = net.step(wide, {second}, narrow * 2);
    input = net.step(wide, {input, third});
  }
  return net.finish();
}

StorageInstance unet_instance(int depth) {
  Net net("unet_" + std::to_string(depth));
  int64_t bytes = int64_t(64) * 512 * 512 * 2;
  std::vector<size_t> skips;
  size_t last = net.step(bytes, {});
  for (int level = 0; level < depth; ++level, bytes /= 2) {
    size_t first = net.step(bytes, {last}, bytes / 8);
    skips.push_back(net.step(bytes, {first}, bytes / 8));
    last = net.step(bytes / 4, {skips.back()}); // pooling
  }
  last = net.step(bytes, {net.step(bytes, {last}, bytes / 8)}, bytes / 8);
  for (int level = depth - 1; level >= 0; --level) {
    bytes *= 2;
    size_t up = net.step(bytes, {last});
    size_t joined = net.step(2 * bytes, {up, skips[size_t(level)]});
    size_t first = net.step(bytes, {joined}, bytes / 8);
    last = net.step(bytes, {first}, bytes / 8);
  }
  return net.finish();
}

StorageInstance prefill_instance(int layers, int tokens) {
  Net net("prefill_" + std::to_string(layers) + "x" + std::to_string(tokens));
  constexpr int64_t kModel = 4096, kHidden = 14336, kKeyValue = 1024, kHeads = 32, kBytes = 2;
  int64_t row = tokens * kBytes;
  size_t residual = net.step(row * kModel, {});
  for (int layer = 0; layer < layers; ++layer) {
    size_t norm = net.step(row * kModel, {residual});
    size_t query = net.step(row * kModel, {norm}, 1 << 22);
    size_t key = net.step(row * kKeyValue, {norm}, 1 << 22);
    size_t value = net.step(row * kKeyValue, {norm}, 1 << 22);
    size_t scores = net.step(row * tokens * kHeads / 8, {query, key}); // eight tiles in turn
    size_t weights = net.step(row * tokens * kHeads / 8, {scores}, row * kHeads);
    size_t mixed = net.step(row * kModel, {weights, value});
    size_t projected = net.step(row * kModel, {mixed}, 1 << 22);
    residual = net.step(row * kModel, {residual, projected});
    norm = net.step(row * kModel, {residual});
    size_t gate = net.step(row * kHidden, {norm}, 1 << 22);
    size_t up = net.step(row * kHidden, {norm}, 1 << 22);
    size_t product = net.step(row * kHidden, {gate, up});
    size_t down = net.step(row * kModel, {product}, 1 << 22);
    residual = net.step(row * kModel, {residual, down});
  }
  return net.finish();
}

} // namespace cugrt::bench
