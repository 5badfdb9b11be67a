// Five kinds of modules:
//
//   chain          each launch takes the tensor before it
//   fork_join      one tensor, eight launches that take it, one that takes what they wrote, one
//   more layered        layers of sixteen; each launch takes two tensors of the layer before
//   transformer    layers of thirteen launches with nine weights each, residuals alive across
//   shared_weight  eight chains side by side, each launch takes the same weight, up to 10^5 of them
//
// Sizes vary, or every freed block would fit the next tensor. Kernels take the number of elements
// by value and are launched by it.
#include "bench/planning_modules.h"

#include "ir/module/builder.h"

#include <algorithm>
#include <map>

namespace cugrt::bench {
namespace {

constexpr std::string_view kKinds[] = {"chain", "fork_join", "layered", "transformer",
                                       "shared_weight"};
constexpr uint32_t kForks = 8, kLayerWidth = 16, kWeightReaders = 100'000;
constexpr int64_t kBlockThreads = 256;

class Maker {
public:
  Maker(std::string_view kind, uint32_t bindings) : limit_(bindings / 2) { out_.kind = kind; }

  PlanningModule run() {
    if (out_.kind == "transformer")
      transformer_weights();
    else if (out_.kind == "shared_weight")
      out_.weight_count = 1;
    out_.elements.insert(out_.elements.begin(), 4096);
    for (uint32_t i = uint32_t(out_.elements.size()); i < out_.param_count(); ++i)
      out_.elements.push_back(65536);
    last_ = 0;
    while (!full())
      part();
    out_.first_taken.push_back(uint32_t(out_.taken.size()));
    return std::move(out_);
  }

private:
  bool full() const { return out_.first_taken.size() == limit_; }

  int64_t some_size() { // a small linear congruential generator: the same on every host
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return 256 * (1 + int64_t(random_ >> 60));
  }
  uint32_t some(uint32_t count) {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return uint32_t((random_ >> 33) % count);
  }

  /// Nothing happens once the module has all its launches.
  uint32_t launch(std::initializer_list<uint32_t> taken, int64_t elements) {
    return launch(std::span(taken.begin(), taken.size()), elements);
  }
  uint32_t launch(std::span<const uint32_t> taken, int64_t elements) {
    if (full())
      return last_;
    out_.first_taken.push_back(uint32_t(out_.taken.size()));
    out_.taken.insert(out_.taken.end(), taken.begin(), taken.end());
    out_.elements.push_back(elements);
    return last_ = uint32_t(out_.elements.size() - 1);
  }

  void part() {
    if (out_.kind == "chain")
      launch({last_}, some_size());
    else if (out_.kind == "fork_join")
      fork_join();
    else if (out_.kind == "layered")
      layer();
    else if (out_.kind == "transformer")
      transformer_layer();
    else
      readers();
  }

  void fork_join() {
    uint32_t from = last_, branches[kForks];
    for (uint32_t &branch : branches)
      branch = launch({from}, some_size());
    launch({launch(branches, some_size())}, some_size());
  }

  void layer() {
    if (row_.empty())
      row_.assign(kLayerWidth, 0);
    std::vector<uint32_t> next;
    for (uint32_t i = 0; i < kLayerWidth && !full(); ++i)
      next.push_back(launch({row_[i], row_[some(kLayerWidth)]}, some_size()));
    row_ = std::move(next);
  }

  // A decoder layer over 8 tokens of width 512: its weights, by number within the layer.
  enum : uint32_t { norm1, wq, wk, wv, wo, norm2, gate, up, down, kLayerWeights };
  static constexpr int64_t kRow = 8 * 512, kWide = 8 * 1408;
  static constexpr uint32_t kLayerLaunches = 13;

  void transformer_weights() {
    uint32_t layers = (limit_ + kLayerLaunches - 1) / kLayerLaunches;
    out_.weight_count = layers * kLayerWeights;
    for (uint32_t layer = 0; layer < layers; ++layer)
      for (uint32_t w = 0; w < kLayerWeights; ++w)
        out_.elements.push_back(w == norm1 || w == norm2 ? 512
                                : w < norm2              ? 512 * 512
                                                         : 512 * 1408);
  }

  void transformer_layer() {
    uint32_t first = 1 + layer_++ * kLayerWeights, x = last_;
    auto weight = [&](uint32_t w) { return first + w; };
    uint32_t n = launch({x, weight(norm1)}, kRow);
    uint32_t q = launch({n, weight(wq)}, kRow), k = launch({n, weight(wk)}, kRow);
    uint32_t v = launch({n, weight(wv)}, kRow);
    uint32_t scores = launch({q, k}, 8 * 8 * 64);
    uint32_t mixed = launch({scores, v}, kRow);
    uint32_t sum = launch({x, launch({mixed, weight(wo)}, kRow)}, kRow);
    uint32_t m = launch({sum, weight(norm2)}, kRow);
    uint32_t a = launch({m, weight(gate)}, kWide), b = launch({m, weight(up)}, kWide);
    launch({sum, launch({a, b, weight(down)}, kRow)}, kRow);
  }

  /// Beyond kWeightReaders launches the chains go on without the weight.
  void readers() {
    if (row_.empty())
      row_.assign(kForks, 0);
    bool rest = out_.first_taken.size() + 1 == limit_;
    if (rest) {
      launch(row_, some_size());
      return;
    }
    uint32_t lane = uint32_t(out_.first_taken.size()) % kForks;
    row_[lane] = out_.first_taken.size() < kWeightReaders ? launch({row_[lane], 1}, some_size())
                                                          : launch({row_[lane]}, some_size());
  }

  PlanningModule out_;
  const uint32_t limit_;
  uint32_t last_ = 0, layer_ = 0;
  std::vector<uint32_t> row_;
  uint64_t random_ = 1;
};

/// `takeN`: N tensors in, one out, and the number of elements.
uint32_t add_kernel(ir::Module &module, uint32_t taken) {
  ir::Kernel kernel;
  kernel.name = kernel.entry = "take" + std::to_string(taken);
  kernel.code = "take.cu";
  for (uint32_t i = 0; i <= taken; ++i) {
    ir::KernelParam &param = kernel.params.emplace_back();
    param.name = "p" + std::to_string(i);
    param.access = i == taken ? ir::Access::out : ir::Access::in;
  }
  ir::KernelParam &elements = kernel.params.emplace_back();
  elements.name = "n";
  elements.kind = ir::KernelParamKind::symbol;
  elements.dtype = ir::DType::i64;
  elements.symbol = {0};
  kernel.symbols = {"n"};
  ir::ExprId one = module.exprs.constant(1), threads = module.exprs.constant(kBlockThreads);
  ir::KernelVariant variant;
  variant.grid = {module.exprs.ceildiv(module.exprs.symbol({0}), threads), one, one};
  variant.block = {threads, one, one};
  kernel.variants.push_back(std::move(variant));
  module.kernels.push_back(std::move(kernel));
  return uint32_t(module.kernels.size() - 1);
}

} // namespace

std::span<const std::string_view> planning_kinds() { return kKinds; }

PlanningModule planning_module(std::string_view kind, uint32_t bindings) {
  return Maker(kind, bindings).run();
}

ir::Module to_ir(const PlanningModule &module) {
  ir::Module out;
  ir::FunctionBuilder b(out, "main");
  auto type = [&](uint32_t tensor) {
    return out.types.tensor(ir::DType::f32, {out.exprs.constant(module.elements[tensor])});
  };
  std::vector<ir::ValueId> values;
  for (uint32_t i = 0; i < module.param_count(); ++i)
    values.push_back(b.param((i < module.input_count ? "x" : "w") + std::to_string(i), type(i)));
  b.function().num_inputs = module.input_count;
  std::map<size_t, uint32_t> kernels; // by number of tensors taken
  std::vector<ir::Operand> operands;
  for (uint32_t l = 0; l < module.launch_count(); ++l) {
    uint32_t made = module.param_count() + l;
    values.push_back(b.alloc("t" + std::to_string(l), type(made)));
    std::span<const uint32_t> taken = module.taken_by(l);
    auto kernel = kernels.find(taken.size());
    if (kernel == kernels.end())
      kernel = kernels.emplace(taken.size(), add_kernel(out, uint32_t(taken.size()))).first;
    operands.clear();
    for (uint32_t tensor : taken)
      operands.push_back(ir::Operand::of(values[tensor]));
    operands.push_back(ir::Operand::of(values.back()));
    operands.push_back(ir::Operand::of(out.exprs.constant(module.elements[made])));
    b.launch(kernel->second, operands);
  }
  b.function().result_types = {type(uint32_t(values.size()) - 1)};
  ir::Operand result = ir::Operand::of(values.back());
  out.functions.push_back(b.finish({&result, 1}));
  return out;
}

std::string to_neutral(const PlanningModule &module) {
  std::string text = std::to_string(module.input_count) + " " + std::to_string(module.weight_count);
  for (uint32_t i = 0; i < module.param_count(); ++i)
    text += " " + std::to_string(module.elements[i]);
  text += '\n';
  for (uint32_t l = 0; l < module.launch_count(); ++l) {
    text += std::to_string(module.elements[module.param_count() + l]);
    for (uint32_t tensor : module.taken_by(l))
      text += " " + std::to_string(tensor);
    text += '\n';
  }
  return text;
}

} // namespace cugrt::bench
