// Weights in the layouts that kernels read best: the first step of LiftTransformParams, which then
// lifts what makes them.
//
//   %t = transpose(%w)                    %y = matmul(%x, %w) {transpose_b = true}
//   %y = matmul(%x, %t)
//
//   %y = matmul(%x, %w)                   %t = transpose(%w)
//                                         %y = matmul(%x, %t) {transpose_b = true}
//
//   %y = matmul_blocks(%x, %w)            %p = repack_blocks(%w)
//                                         %y = matmul_blocks(%x, %p) {repacked = true}
//
// The first form wherever a weight is transposed, since both layouts are read alike. The others
// where all that reads the weight are such products, or rows of it (embedding_blocks), so that it
// stands in memory once: the second for f16 and bf16 where rows may be few, and for bytes on
// tensor cores, the third where there is a kernel for it.
#include "compiler/passes/all_passes.h"

#include "compiler/ir_names.h"
#include "ir/module/function_cloner.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>
#include <utility>

namespace cugrt::passes {

namespace {

/// Products with at most so many rows have kernels that read columns of the right operand.
constexpr int64_t kFewRows = 8;
/// Bytes of the smallest copies of bytes; rows begin at multiples of it.
constexpr int64_t kByteRun = 4;

enum class Layout : uint8_t { as_is, transposed, repacked };

class LayOut : public ir::FunctionCloner {
public:
  LayOut(const ir::Function &source, ir::Module &target, const codegen::Target &device)
      : FunctionCloner(source, target), device_(device), layouts_(source.values.size()),
        is_fixed_(source.values.size()), is_kept_(source.values.size()),
        made_by_(source.values.size()), replaced_(source.values.size()) {
    find_fixed();
    choose();
  }

protected:
  Status enter_block(uint32_t block) override {
    if (&source().blocks[block] == &source().body())
      for (const ir::Parameter &param : source().params)
        lay_out(param.value);
    return {};
  }

  Status visit(const Binding &binding) override {
    if (binding.result_count == 1 && transposed_operand(binding.result()).valid() &&
        !is_kept_[binding.first_result])
      return {}; // all that read it read its operand now
    CUGRT_TRY(copy_reader(binding));
    for (uint32_t i = 0; i < binding.result_count; ++i)
      lay_out(binding.result(i));
    return {};
  }

private:
  bool is_plain(ValueId value) const {
    const ir::Type &type = type_of(value);
    return type.is_plain_tensor() &&
           std::all_of(type.dims.begin(), type.dims.end(),
                       [&](ir::ExprId dim) { return module().exprs.as_constant(dim).has_value(); });
  }

  /// Weights, and what ops of the body make of these alone.
  void find_fixed() {
    for (size_t p = 0; p < source().params.size(); ++p)
      is_fixed_[source().params[p].value.index] =
          source().is_weight(p) && is_plain(source().params[p].value);
    for (const Binding &binding : source().body().bindings) {
      if (binding.kind != BindingKind::op || binding.result_count != 1 ||
          !is_plain(binding.result()))
        continue;
      const auto operands = source().operands_of(binding);
      is_fixed_[binding.first_result] =
          !operands.empty() && std::all_of(operands.begin(), operands.end(), [&](Operand operand) {
            return operand.kind == Operand::Kind::value && is_fixed_[operand.index];
          });
      if (is_fixed_[binding.first_result])
        made_by_[binding.first_result] = &binding;
    }
  }

  /// The layout in which a product would read its right operand.
  Layout wanted(const Binding &binding) {
    if (!is_product(binding) && !is_op(binding, Op::matmul_blocks))
      return Layout::as_is;
    const auto operands = source().operands_of(binding);
    const ValueId left = operands[0].value(), right = operands[1].value();
    const ir::Type &x = type_of(left), &w = type_of(right);
    const auto attributes = source().attributes_of(binding);
    if (!is_fixed_[right.index])
      return Layout::as_is;
    if (is_op(binding, Op::matmul_blocks))
      return !ir::op_bool(Op::matmul_blocks, attributes, "repacked") &&
                     codegen::takes_repacked_blocks(x.dtype, w.dtype, device_)
                 ? Layout::repacked
                 : Layout::as_is;
    if (!is_plain_product(binding) || w.dims.size() != 2)
      return Layout::as_is;
    if (is_op(binding, Op::matmul_integer)) // whose rows are then copied in runs
      return device_.compute_capability >= codegen::kTensorCoresSince &&
                     *module().exprs.as_constant(w.dims[0]) % kByteRun == 0
                 ? Layout::transposed
                 : Layout::as_is;
    if (!ir::is_half(w.dtype))
      return Layout::as_is;
    ir::ExprPool &exprs = module().exprs;
    const ir::ExprId rows =
        codegen::element_count(exprs, std::span(x.dims).first(x.dims.size() - 1));
    return exprs.range(rows, source().symbol_domain(exprs)).lower <= kFewRows ? Layout::transposed
                                                                              : Layout::as_is;
  }

  /// Chooses, for each value, the layout that all of its readers want.
  void choose() {
    std::vector<bool> is_read(source().values.size()), is_mixed(source().values.size());
    auto note = [&](const Operand &operand, Layout layout) {
      if (operand.kind != Operand::Kind::value)
        return;
      const uint32_t value = operand.index;
      if (is_read[value] && layouts_[value] != layout)
        is_mixed[value] = true;
      layouts_[value] = is_mixed[value] ? Layout::as_is : layout;
      is_read[value] = true;
    };
    for (const ir::Block &block : source().blocks) {
      for (const Binding &binding : block.bindings) {
        const auto operands = source().operands_of(binding);
        const Layout layout = wanted(binding);
        for (size_t i = 0; i < operands.size(); ++i) {
          if (i != 0 || !is_op(binding, Op::embedding_blocks)) // rows are read in either
            note(operands[i], i == 1 ? layout : Layout::as_is);
          if (operands[i].kind == Operand::Kind::value)
            is_kept_[operands[i].index] =
                is_kept_[operands[i].index] || i != 1 || !is_plain_product(binding);
        }
      }
      for (const Operand &operand : source().results_of(block)) {
        note(operand, Layout::as_is);
        if (operand.kind == Operand::Kind::value)
          is_kept_[operand.index] = true;
      }
    }
  }

  /// Appends what makes the value's layout, where it has one.
  void lay_out(ValueId value) {
    const Layout layout = layouts_[value.index];
    if (layout == Layout::as_is || transposed_operand(value).valid())
      return;
    const bool transposes = layout == Layout::transposed;
    const ir::Type type = type_of(value);
    std::vector<ir::ExprId> dims = type.dims;
    if (transposes)
      std::swap(dims[0], dims[1]);
    Binding made{};
    made.kind = BindingKind::op;
    made.callee = static_cast<uint32_t>(transposes ? Op::transpose : Op::repack_blocks);
    made.location = source().value(value).location;
    const Operand operand = Operand::of(mapped(value));
    const std::vector<ir::Attribute> attributes =
        transposes ? std::vector<ir::Attribute>{{"axes", std::vector<int64_t>{1, 0}}}
                   : std::vector<ir::Attribute>{};
    const std::string name =
        source().value(value).name + (transposes ? "_transposed" : "_repacked");
    const ir::TypeId result = module().types.tensor(type.dtype, dims);
    replaced_[value.index] = builder().bind(made, std::span(&operand, 1), {}, attributes,
                                            std::span(&name, 1), std::span(&result, 1));
  }

  /// The matrices whose transpose a fixed value is; else invalid.
  ValueId transposed_operand(ValueId value) const {
    const Binding *made = made_by_[value.index];
    if (!made || !is_op(*made, Op::transpose))
      return {};
    const ValueId operand = source().operands_of(*made)[0].value();
    const auto rank = static_cast<int64_t>(type_of(operand).dims.size());
    std::vector<int64_t> axes =
        ir::op_integers(Op::transpose, source().attributes_of(*made), "axes");
    for (int64_t i = static_cast<int64_t>(axes.size()); i < rank; ++i) // none: all, last first
      axes.push_back(rank - 1 - i);
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t wanted = i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i;
      if ((axes[size_t(i)] + rank) % rank != wanted)
        return {};
    }
    return rank < 2 ? ValueId() : operand;
  }

  static bool is_product(const Binding &binding) {
    return is_op(binding, Op::matmul) || is_op(binding, Op::matmul_integer);
  }
  /// Whether a product's right operand is not transposed.
  bool is_plain_product(const Binding &binding) const {
    return is_product(binding) &&
           !ir::op_bool(ir::op_of(binding), source().attributes_of(binding), "transpose_b");
  }

  /// A product, or an embedding of blocks, reads its weight in the layout that it has now.
  Status copy_reader(const Binding &binding) {
    const bool is_matmul = is_product(binding), is_embedding = is_op(binding, Op::embedding_blocks);
    if (!is_matmul && !is_embedding && !is_op(binding, Op::matmul_blocks))
      return copy(binding);
    const auto given = source().operands_of(binding);
    const size_t place = is_embedding ? 0 : 1;
    const ValueId weight = given[place].value(), before = transposed_operand(weight);
    std::vector<Operand> operands;
    for (size_t i = 0; i < given.size(); ++i)
      operands.push_back(i == place ? Operand() : mapped(given[i]));
    if (is_plain_product(binding) && before.valid())
      operands[place] = Operand::of(mapped(before));
    else if (replaced_[weight.index].valid() && (is_embedding || wanted(binding) != Layout::as_is))
      operands[place] = Operand::of(replaced_[weight.index]);
    else
      return copy(binding);
    std::vector<ir::Attribute> attributes;
    const std::string_view name = is_matmul ? "transpose_b" : "repacked";
    for (const ir::Attribute &attribute : source().attributes_of(binding))
      if (attribute.name != name)
        attributes.push_back(attribute);
    attributes.push_back({std::string(name), true});
    Binding made{};
    made.kind = binding.kind;
    made.callee = binding.callee;
    made.location = binding.location;
    const ir::Value &result = source().value(binding.result());
    map(binding.result(), builder().bind(made, operands, source().exprs_of(binding), attributes,
                                         std::span(&result.name, 1), std::span(&result.type, 1)));
    return {};
  }

  const codegen::Target device_;
  std::vector<Layout> layouts_; // by value
  std::vector<bool> is_fixed_;  // by value
  std::vector<bool> is_kept_;   // by value: read by more than plain products, as right operands
  std::vector<const Binding *> made_by_; // by value: the op of the body that makes a fixed one
  std::vector<ValueId> replaced_;        // by value: of the target, in the layout
};

} // namespace

Result<ir::Module> lay_out_weights(const ir::Module &module, const PassContext &context) {
  codegen::Target device;
  device.compute_capability = context.number("target.compute_capability");
  ir::Module target = ir::without_functions(module);
  for (const ir::Function &function : module.functions) {
    const bool has_weights = !function.is_private && function.num_inputs != 0 &&
                             function.num_inputs < function.params.size();
    if (has_weights)
      CUGRT_TRY(LayOut(function, target, device).add_function());
    else
      target.functions.push_back(function);
  }
  return target;
}

} // namespace cugrt::passes
