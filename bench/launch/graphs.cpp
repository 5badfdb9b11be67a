// Three made-up graphs and a transformer:
//
//   chain        o-o-o-o-o
//   fork_join    o, then eight that take it, one that takes what they wrote, one more, ...
//   layered      layers of sixteen; each launch takes two tensors of the layer before
//   transformer  layers as models have them
//
// A graph is cut off at its number of launches; the last launch writes the result.
#include "bench/launch/graphs.h"

#include <algorithm>

namespace cugrt::bench {
namespace {

constexpr std::string_view kGraphs[] = {"chain", "fork_join", "layered", "transformer"};
constexpr uint32_t kGraphForks = 8, kGraphLayerWidth = 16;
constexpr int64_t kColumns = 32, kMostRows = 64;

/// Writes launches until there are enough. Tensors are numbered: 0 is %x, i what launch i wrote.
class GraphText {
public:
  GraphText(std::string_view graph, uint32_t nodes) : graph_(graph), nodes_(nodes) {}

  std::string text() {
    while (!full())
      part();
    std::string kernels;
    for (uint32_t count : arities_)
      kernels += kernel(count);
    return "cugrt 1\n" + kernels + "func @main(%t0" + type() + ") -> (" + type().substr(2) +
           ")\n    attributes {lower_bounds = {n = 1}, upper_bounds = {n = " +
           std::to_string(kMostRows) + "}} {\n" + body_ + "  return " + name(count_) + "\n}\n";
  }

private:
  bool full() const { return count_ == nodes_; }
  static std::string type() { return ": tensor<[n, " + std::to_string(kColumns) + "], f32>"; }
  static std::string name(uint32_t tensor) { return "%t" + std::to_string(tensor); }

  /// The mean of its inputs. The block is one warp, so that the launch is the cost.
  static std::string kernel(uint32_t inputs) {
    std::string entry = "mean" + std::to_string(inputs), params, declared, sum;
    for (uint32_t i = 0; i < inputs; ++i) {
      std::string x = "x" + std::to_string(i);
      params += x + ": in f32, ";
      declared += "const float *" + x + ", ";
      sum += (i ? " + " : "") + x + "[i]";
    }
    return "kernel @" + entry + " {\n  inline \"\"\"extern \"C\" __global__ void " + entry + "(" +
           declared + "float *y, long long n) {\n" +
           "  long long i = blockIdx.x * 32ll + threadIdx.x;\n  if (i < n)\n    y[i] = (" + sum +
           ") / " + std::to_string(inputs) + ";\n}\n\"\"\"\n  entry \"" + entry + "\"\n  params (" +
           params + "y: out f32, n: symbol i64)\n" +
           "  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }\n}\n";
  }

  uint32_t launch(std::span<const uint32_t> taken) {
    if (full())
      return count_;
    auto inputs = static_cast<uint32_t>(taken.size());
    if (std::find(arities_.begin(), arities_.end(), inputs) == arities_.end())
      arities_.push_back(inputs);
    std::string operands;
    for (uint32_t tensor : taken)
      operands += name(tensor) + ", ";
    ++count_;
    body_ += "  " + name(count_) + " = alloc" + (" " + type()) + "\n  launch @mean" +
             std::to_string(inputs) + "(" + operands + name(count_) + ", " +
             std::to_string(kColumns) + "*n)\n";
    return count_;
  }
  uint32_t launch(std::initializer_list<uint32_t> taken) {
    return launch(std::span(taken.begin(), taken.size()));
  }

  void part() {
    if (graph_ == "chain")
      launch({count_});
    else if (graph_ == "fork_join")
      fork_join();
    else
      layer();
  }

  void fork_join() {
    uint32_t from = count_, branches[kGraphForks];
    for (uint32_t &branch : branches)
      branch = launch({from});
    launch({launch(branches)});
  }

  void layer() {
    if (row_.empty())
      row_.assign(kGraphLayerWidth, 0);
    std::vector<uint32_t> next;
    for (uint32_t i = 0; i < kGraphLayerWidth && !full(); ++i)
      next.push_back(launch({row_[i], row_[(i * 5 + 3) % kGraphLayerWidth]}));
    row_ = std::move(next);
  }

  const std::string_view graph_;
  const uint32_t nodes_;
  uint32_t count_ = 0;
  std::vector<uint32_t> arities_, row_;
  std::string body_;
};

struct Weight {
  const char *name, *dims; // d: width, f: hidden
};
constexpr Weight kWeights[] = {
    {"g1", "[d]"},    {"c1", "[d]"}, {"wq", "[d, d]"}, {"bq", "[d]"},
    {"wk", "[d, d]"}, {"bk", "[d]"}, {"wv", "[d, d]"}, {"bv", "[d]"},
    {"wo", "[d, d]"}, {"bo", "[d]"}, {"g2", "[d]"},    {"c2", "[d]"},
    {"w1", "[d, f]"}, {"b1", "[f]"}, {"w2", "[f, d]"}, {"b2", "[d]"},
};

constexpr const char *kLayer = R"(
  %nL = layer_norm(%xL, %g1, %c1)
  %qL = matmul(%nL, %wq, %bq)
  %kL = matmul(%nL, %wk, %bk)
  %vL = matmul(%nL, %wv, %bv)
  %qrL = reshape(%qL, %heads)
  %krL = reshape(%kL, %heads)
  %vrL = reshape(%vL, %heads)
  %qtL = transpose(%qrL) {axes = [0, 2, 1, 3]}
  %ktL = transpose(%krL) {axes = [0, 2, 3, 1]}
  %vtL = transpose(%vrL) {axes = [0, 2, 1, 3]}
  %scL = matmul(%qtL, %ktL)
  %pL = softmax(%scL) {axis = -1}
  %aL = matmul(%pL, %vtL)
  %atL = transpose(%aL) {axes = [0, 2, 1, 3]}
  %amL = reshape(%atL, %rows)
  %oL = matmul(%amL, %wo, %bo)
  %rL = add(%xL, %oL)
  %mL = layer_norm(%rL, %g2, %c2)
  %hL = matmul(%mL, %w1, %b1)
  %eL = gelu(%hL)
  %fL = matmul(%eL, %w2, %b2)
)";

/// `text` with "_LAYER" for every L.
std::string numbered(std::string_view text, uint32_t layer) {
  std::string out;
  for (char c : text)
    out += c == 'L' ? "_" + std::to_string(layer) : std::string(1, c);
  return out;
}

} // namespace

std::span<const std::string_view> launch_graphs() { return kGraphs; }

std::string transformer_text(const TransformerSize &size) {
  std::string d = std::to_string(size.width), f = std::to_string(size.hidden);
  std::string params = "%x_0: tensor<[b, s, " + d + "], f32>";
  for (const Weight &weight : kWeights) {
    std::string dims;
    for (const char *c = weight.dims; *c; ++c)
      dims += *c == 'd' ? d : *c == 'f' ? f : std::string(1, *c);
    params += std::string(", %") + weight.name + ": tensor<" + dims + ", f32>";
  }
  std::string body = "  %heads = shape [b, s, " + std::to_string(size.heads) + ", " +
                     std::to_string(size.width / size.heads) + "]\n  %rows = shape [b, s, " + d +
                     "]\n";
  for (uint32_t layer = 0; layer < size.layers; ++layer)
    body += numbered(kLayer, layer) + "  %x_" + std::to_string(layer + 1) +
            numbered(" = add(%rL, %fL)\n", layer);
  return "cugrt 1\n\nfunc @main(" + params + ")\n    -> (tensor<[b, s, " + d +
         "], f32>)\n    attributes {num_inputs = 1, lower_bounds = {b = 1, s = 1}, "
         "upper_bounds = {b = " +
         std::to_string(size.most_batch) + ", s = " + std::to_string(size.most_length) + "}} {\n" +
         body + "  return %x_" + std::to_string(size.layers) + "\n}\n";
}

LaunchModule launch_module(std::string_view graph, uint32_t nodes) {
  if (graph != "transformer")
    return {GraphText(graph, nodes).text(), {{1, kColumns}, {2, kColumns}}};
  TransformerSize size;
  size.layers = (nodes + kTransformerLaunches - 1) / kTransformerLaunches;
  int64_t width = size.width;
  return {transformer_text(size), {{1, 3, width}, {1, 4, width}}};
}

} // namespace cugrt::bench
