// Slices, and reshapes of them, that are rows of attention; see row_views.h.
#include "compiler/passes/attention/row_views.h"

#include "compiler/ir_names.h"
#include "ops/emit/index_space.h"
#include "ops/table/ops.h"

#include <optional>

namespace cugrt::passes {

namespace {

/// Bindings between a slice and attention that are looked at.
constexpr uint32_t kMostBetween = 1024;

class RowFinder {
public:
  RowFinder(const ir::Module &source_module, ir::Module &module, const ir::Function &function)
      : source_module_(source_module), module_(module), function_(function),
        places_(function.values.size()), uses_(function.values.size()) {
    for (uint32_t number = 0; number < function.blocks.size(); ++number) {
      const ir::Block &block = function.blocks[number];
      for (uint32_t b = 0; b < block.bindings.size(); ++b) {
        for (uint32_t r = 0; r < block.bindings[b].result_count; ++r)
          places_[block.bindings[b].first_result + r] = {number, b};
        count(function.operands_of(block.bindings[b]));
      }
      count(function.results_of(block));
    }
  }

  struct Rows {
    RowViews::View view;
    ExprId distance;               // elements
    std::vector<uint32_t> made_by; // first results
  };

  /// The rows of an operand [B, length, H, D] of `attention` that is part of others, made in the
  /// same block. Values that nothing else reads are not made any more.
  std::optional<Rows> find(const Binding &attention, size_t number) {
    const Operand &operand = function_.operands_of(attention)[number];
    attention_ = places_[attention.first_result];
    if (operand.kind != Operand::Kind::value)
      return std::nullopt;
    Rows rows;
    ValueId value = operand.value();
    const ir::Type wanted = type(value);
    const Binding *maker = made_here(value);
    bool alone = true; // it is made for the attention
    const auto take = [&] {
      alone = alone && uses_[value.index] == 1;
      if (alone)
        rows.made_by.push_back(maker->first_result);
    };
    for (; maker && ir::op_of(*maker) == Op::reshape; maker = made_here(value)) {
      take();
      value = function_.operands_of(*maker)[0].value();
    }
    if (!maker || ir::op_of(*maker) != Op::slice)
      return std::nullopt;
    take();
    const Operand &whole = function_.operands_of(*maker)[0];
    const ir::Type x = type(whole.value());
    if (!is_kept(places_[maker->first_result].binding) || !x.is_plain() ||
        ir::info(x.dtype).elements_per_block != 1)
      return std::nullopt;
    std::vector<ExprId> strides = codegen::contiguous_strides(exprs(), x.dims);
    const std::optional<std::vector<ir::SliceDimension>> slice = slice_of(*maker, x);
    if (!slice)
      return std::nullopt;
    ExprId begin = exprs().constant(0);
    std::vector<codegen::Dimension> walk;
    for (size_t d = 0; d < x.dims.size(); ++d) {
      if ((*slice)[d].step != 1)
        return std::nullopt;
      begin = exprs().add(begin, exprs().mul((*slice)[d].begin, strides[d]));
      walk.push_back({(*slice)[d].size, {strides[d]}});
    }
    if (!reshape(codegen::merge(exprs(), std::move(walk)), wanted.dims, strides))
      return std::nullopt;
    const std::vector<ExprId> &dims = wanted.dims;
    if (!steps(strides[3], exprs().constant(1), dims[3]) || !steps(strides[2], dims[3], dims[2]) ||
        !steps(strides[0], exprs().mul(dims[1], strides[1]), dims[0]))
      return std::nullopt;
    rows.distance = strides[1];
    ir::Type viewed = wanted;
    viewed.strides = std::move(strides);
    rows.view = {whole.value(),
                 exprs().mul(begin, exprs().constant(ir::info(x.dtype).bytes_per_block)),
                 module_.types.intern(std::move(viewed))};
    return rows;
  }

private:
  ir::ExprPool &exprs() { return module_.exprs; }
  ir::Type type(ValueId value) const { return module_.types[function_.value(value).type]; }

  void count(std::span<const Operand> operands) {
    for (const Operand &operand : operands)
      if (operand.kind == Operand::Kind::value)
        ++uses_[operand.index];
  }
  /// The op that makes a value in the block of the attention.
  const Binding *made_here(ValueId value) const {
    const Place &place = places_[value.index];
    if (place.block != attention_.block)
      return nullptr;
    const Binding &maker = function_.blocks[place.block].bindings[place.binding];
    return maker.kind == BindingKind::op ? &maker : nullptr;
  }

  /// Whether nothing between a binding and the attention writes the bytes that the binding saw.
  bool is_kept(uint32_t binding) const {
    if (attention_.binding - binding > kMostBetween)
      return false;
    for (uint32_t b = binding + 1; b < attention_.binding; ++b)
      if (!writes_new_alone(function_.blocks[attention_.block].bindings[b], binding))
        return false;
    return true;
  }

  /// Whether a binding writes only memory that is allocated behind the binding `since`.
  bool writes_new_alone(const Binding &binding, uint32_t since) const {
    if (binding.kind != BindingKind::launch)
      return !ir::may_write(binding);
    const auto operands = function_.operands_of(binding);
    for (size_t i = 0; i < operands.size(); ++i)
      if (ir::writes(source_module_.kernels[binding.callee].params[i].access) &&
          !is_new(operands[i], since))
        return false;
    return true;
  }
  bool is_new(const Operand &operand, uint32_t since) const {
    if (operand.kind != Operand::Kind::value)
      return true;
    const Place &place = places_[operand.index];
    return place.block == attention_.block && place.binding > since &&
           function_.blocks[place.block].bindings[place.binding].kind == BindingKind::alloc;
  }

  std::optional<std::vector<ir::SliceDimension>> slice_of(const Binding &slice, const ir::Type &x) {
    const auto operands = function_.operands_of(slice);
    if (operands.size() > 1)
      return codegen::slice_of_shapes(type(operands[1].value()).dims,
                                      type(operands[2].value()).dims);
    auto dims = ir::slice_dimensions(exprs(), x.dims, function_.attributes_of(slice));
    return dims.ok() ? std::optional(std::move(dims).value()) : std::nullopt;
  }

  /// The strides of `dims`, which have the elements of `runs` in their order; false where one of
  /// them is no part of a run.
  bool reshape(const std::vector<codegen::Dimension> &runs, const std::vector<ExprId> &dims,
               std::vector<ExprId> &strides) {
    strides.assign(dims.size(), ExprId());
    ExprId taken = exprs().constant(1); // of the run
    size_t run = runs.size();
    for (size_t d = dims.size(); d-- > 0;) {
      if (run == 0) { // the others are 1
        strides[d] = d + 1 < dims.size() ? exprs().mul(strides[d + 1], dims[d + 1]) : taken;
        continue;
      }
      strides[d] = exprs().mul(runs[run - 1].strides[0], taken);
      taken = exprs().mul(taken, dims[d]);
      if (taken == runs[run - 1].size) {
        taken = exprs().constant(1);
        --run;
      }
    }
    return run == 0;
  }

  /// Whether a dimension of `size` steps by `wanted`, if it steps.
  bool steps(ExprId stride, ExprId wanted, ExprId size) {
    return stride == wanted || exprs().as_constant(size) == 1;
  }

  /// Place of the binding that makes a value; no block for parameters.
  struct Place {
    uint32_t block = UINT32_MAX, binding = 0;
  };

  const ir::Module &source_module_;
  ir::Module &module_;
  const ir::Function &function_;
  std::vector<Place> places_; // by value
  std::vector<uint32_t> uses_;
  Place attention_;
};

} // namespace

RowViews::RowViews(const ir::Module &source_module, ir::Module &module,
                   const ir::Function &function) {
  std::vector<const Binding *> found;
  for (const ir::Block &block : function.blocks)
    for (const Binding &binding : block.bindings)
      if (is_op(binding, Op::attention))
        found.push_back(&binding);
  if (found.empty())
    return;
  RowFinder finder(source_module, module, function);
  auto take = [&](const Operand &operand, const RowFinder::Rows &rows) {
    views_.emplace(operand.index, rows.view);
    gone_.insert(rows.made_by.begin(), rows.made_by.end());
  };
  for (const Binding *attention : found) {
    const auto operands = function.operands_of(*attention);
    if (const auto q = finder.find(*attention, 0))
      take(operands[0], *q);
    const auto keys = finder.find(*attention, 1), values = finder.find(*attention, 2);
    if (keys && values && keys->distance == values->distance) {
      take(operands[1], *keys);
      take(operands[2], *values);
    }
  }
}

} // namespace cugrt::passes
