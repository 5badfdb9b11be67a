// Which launches may write in place, from the kernels' declarations and the liveness of operands.
#include "compiler/planner/analysis/liveness.h"

#include "compiler/ir_names.h"
#include "compiler/planner/symbols/sizes.h"

#include <algorithm>

namespace cugrt::plan {
namespace {

class Finder {
public:
  /// `every`: all that a tensor may be written over, not the first that is left.
  Finder(const ir::Module &module, const ir::Function &function, const Liveness &live, bool every)
      : module_(module), f_(function), live_(live), sizes_(module, function), every_(every),
        taken_(live.origins.size(), false) {
    for (const ir::Kernel &kernel : module.kernels)
      declares_.push_back(std::any_of(kernel.params.begin(), kernel.params.end(),
                                      [](const ir::KernelParam &p) { return !p.over.empty(); }));
  }

  std::vector<InPlace> run() {
    for (uint32_t block = 0; block < f_.blocks.size(); ++block)
      for (uint32_t i = 0; i < f_.blocks[block].bindings.size(); ++i)
        if (const Binding &b = f_.blocks[block].bindings[i];
            b.kind == BindingKind::launch && declares_[b.callee])
          launch(b, live_.time_of(block, i));
    std::sort(found_.begin(), found_.end(),
              [](const InPlace &a, const InPlace &b) { return a.time < b.time; });
    return std::move(found_);
  }

private:
  const ir::Type &type(ir::ValueId value) const { return module_.types[f_.value(value).type]; }

  /// The origin that an operand names all of, if it is memory of the function's own.
  uint32_t own(const Operand &operand) const {
    if (operand.kind != Operand::Kind::value || !live_.whole[operand.index])
      return kNoOrigin;
    const uint32_t origin = live_.origin(operand.value());
    if (origin == kNoOrigin)
      return kNoOrigin;
    const OriginKind kind = live_.origins[origin].kind;
    return kind == OriginKind::alloc || kind == OriginKind::tensor ? origin : kNoOrigin;
  }

  void launch(const Binding &b, uint32_t time) {
    const ir::Kernel &kernel = module_.kernels[b.callee];
    std::span<const Operand> operands = f_.operands_of(b);
    for (size_t out = 0; out < kernel.params.size(); ++out) {
      const uint32_t to = own(operands[out]);
      if (kernel.params[out].over.empty() || to == kNoOrigin || live_.origins[to].begin != time ||
          uses(kernel, operands, to, {}) != 1)
        continue;
      for (uint32_t in : kernel.params[out].over) {
        const uint32_t from = own(operands[in]);
        if (from == kNoOrigin || from == to || taken_[from] ||
            live_.origins[from].end != time + 1 || !alike(operands[in], operands[out]) ||
            uses(kernel, operands, from, kernel.params[out].over) != 0)
          continue;
        found_.push_back({time, from, to});
        if (every_)
          continue;
        taken_[from] = true;
        break;
      }
    }
  }

  /// How many of a launch's operands touch an origin, those of parameters in `except` apart.
  size_t uses(const ir::Kernel &kernel, std::span<const Operand> operands, uint32_t origin,
              std::span<const uint32_t> except) const {
    size_t count = 0;
    for (uint32_t i = 0; i < operands.size(); ++i)
      if (std::find(except.begin(), except.end(), i) == except.end())
        count += touches(operands[i], origin);
    return count;
  }

  bool touches(const Operand &operand, uint32_t origin) const {
    if (operand.kind == Operand::Kind::value)
      return live_.origin(operand.value()) == origin;
    if (operand.kind != Operand::Kind::expr)
      return false;
    std::vector<ir::SymbolId> symbols; // those that are read on the device
    module_.exprs.collect_symbols(operand.expr(), symbols);
    return std::any_of(symbols.begin(), symbols.end(), [&](ir::SymbolId symbol) {
      return live_.symbol_origin[symbol.index] == origin;
    });
  }

  /// Equal in size, and element by element at the same places.
  bool alike(const Operand &a, const Operand &b) const {
    const ir::Type &x = type(a.value()), &y = type(b.value());
    return x.known_shape && y.known_shape && x.strides.empty() && y.strides.empty() &&
           x.scope == y.scope &&
           ir::info(x.dtype).bytes_per_block == ir::info(y.dtype).bytes_per_block &&
           ir::info(x.dtype).elements_per_block == ir::info(y.dtype).elements_per_block &&
           sizes_.same_bytes(f_.value(a.value()).type, f_.value(b.value()).type);
  }

  const ir::Module &module_;
  const ir::Function &f_;
  const Liveness &live_;
  const SizeComparison sizes_;
  const bool every_;
  std::vector<bool> declares_; // by kernel
  std::vector<bool> taken_;    // by origin: something is written over it
  std::vector<InPlace> found_;
};

} // namespace

static std::vector<InPlace> find(const ir::Module &module, const ir::Function &function,
                                 const Liveness &live, bool every) {
  const bool declared =
      std::any_of(module.kernels.begin(), module.kernels.end(), [](const ir::Kernel &kernel) {
        return std::any_of(kernel.params.begin(), kernel.params.end(),
                           [](const ir::KernelParam &p) { return !p.over.empty(); });
      });
  if (!declared)
    return {};
  return Finder(module, function, live, every).run();
}

std::vector<InPlace> find_in_place(const ir::Module &module, const ir::Function &function,
                                   const Liveness &live) {
  return find(module, function, live, false);
}

std::vector<std::pair<uint32_t, uint32_t>>
laid_in_place(const ir::Module &module, const ir::Function &function, const Liveness &live) {
  std::vector<std::pair<uint32_t, uint32_t>> laid;
  const std::vector<InPlace> launches = find(module, function, live, true);
  if (launches.empty())
    return laid;
  std::vector<ir::ExprId> offsets(function.values.size());
  for (const ir::Block &block : function.blocks)
    for (const Binding &b : block.bindings)
      if (b.kind == BindingKind::alloc_tensor)
        offsets[b.result().index] = function.exprs_of(b)[0];
  for (const InPlace &launch : launches) {
    const Origin &from = live.origins[launch.from], &to = live.origins[launch.to];
    if (from.kind == OriginKind::tensor && to.kind == OriginKind::tensor &&
        from.parent == to.parent && offsets[from.value.index] == offsets[to.value.index])
      laid.push_back({launch.to, launch.from});
  }
  std::sort(laid.begin(), laid.end());
  return laid;
}

} // namespace cugrt::plan
