// The choices; see mixed_precision.h.
#include "compiler/passes/mixed_precision.h"
#include "compiler/ir_names.h"
#include "compiler/passes/value_uses.h"

#include <algorithm>

namespace cugrt::passes {

// --- Facts ---------------------------------------------------------------------------------------

PrecisionChoices::PrecisionChoices(const ir::Module &source, const ir::Function &function,
                                   ir::Module &target, const PrecisionTable &table,
                                   ir::DType narrow)
    : module_(target), function_(function), narrow_dtype_(narrow),
      narrows_moves_(table.narrows_moves) {
  const size_t count = function.values.size();
  for (auto *facts : {&f32_, &constant_, &of_weights_, &narrow_, &rounds_, &read_narrow_,
                      &read_as_f32_, &read_whole_, &narrow_op_, &narrow_result_})
    facts->assign(count, false);
  precision_.assign(count, Precision::deny);
  written_ = find_written_values(source, function);
  for (size_t v = 0; v < count; ++v) {
    const ir::Type &type = source.types[function.values[v].type];
    f32_[v] = type.kind == ir::TypeKind::tensor && type.dtype == ir::DType::f32 && type.known_shape;
  }
  for (const ir::Block &block : function.blocks)
    for (const Binding &binding : block.bindings) {
      if (binding.kind == BindingKind::op) {
        precision_[binding.first_result] = precision_of(binding, table);
        rounds_[binding.first_result] =
            table.narrows_moves &&
            (ir::op_of(binding) == ir::Op::layer_norm || ir::op_of(binding) == ir::Op::rms_norm);
      }
      if (binding.kind == BindingKind::constant ||
          (narrows_moves_ && binding.kind == BindingKind::shape))
        constant_[binding.first_result] = true;
    }
  for (size_t p = 0; p < function.params.size(); ++p)
    of_weights_[function.params[p].value.index] = narrows_moves_ && function.is_weight(p);
  // A resize has no cast in its kernel: one whose result is returned gives that in f32.
  if (table.narrows_moves) {
    const ValueUses uses(function);
    for (const ir::Block &block : function.blocks)
      for (const Binding &binding : block.bindings)
        if (is_op(binding, ir::Op::resize) &&
            precision_[binding.first_result] == Precision::follow &&
            uses.readers(binding.result()).empty() && uses.is_yielded(binding.result()))
          precision_[binding.first_result] = Precision::deny;
  }
  keep_masks();
  widen_last_states();
  choose(0);
  if (table.narrows_moves) {
    narrow_moves();
    find_streams();
    move_rounded();
  }
  count_uses(0);
}

static bool is_concat(const Binding &binding) { return is_op(binding, ir::Op::concat); }

static bool stays_wide(const Binding &binding, ir::OpWide which) {
  return binding.kind == BindingKind::op && ir::op_info(ir::op_of(binding)).wide == which;
}

/// Whether the op keeps its state in f32 while its operands and results are narrow, and these are
/// bounded: recurrent layers.
static bool keeps_state(const Binding &binding) { return stays_wide(binding, ir::OpWide::states); }

bool PrecisionChoices::stays_f32(const Binding &binding, size_t operand) const {
  if (binding.kind != BindingKind::op)
    return false;
  const ir::OpInfo &op = ir::op_info(ir::op_of(binding));
  if (!keeps_state(binding))
    return ir::is_wide_operand(op, operand);
  const auto operands = function_.operands_of(binding);
  for (size_t i = 2; ir::is_wide_operand(op, operand) && i < operands.size(); ++i)
    if (ir::is_wide_operand(op, i) && operands[i].kind == Operand::Kind::value &&
        !narrow_[operands[i].index])
      return true;
  return false;
}

bool PrecisionChoices::has_wide_states(const Binding &op) const {
  return keeps_state(op) && is_narrow_op(op) && !is_narrow(op.result(1));
}

/// Keeps the values that masks are made of in f32, too.
void PrecisionChoices::keep_masks() {
  std::vector<bool> of_mask(function_.values.size(), false);
  for (auto block = function_.blocks.rbegin(); block != function_.blocks.rend(); ++block)
    for (auto b = block->bindings.rbegin(); b != block->bindings.rend(); ++b) {
      const bool makes = b->kind == BindingKind::op && b->result_count == 1 &&
                         of_mask[b->first_result] &&
                         precision_[b->first_result] == Precision::follow;
      const std::span<const Operand> operands = function_.operands_of(*b);
      const bool is_mask = stays_wide(*b, ir::OpWide::fifth) || stays_wide(*b, ir::OpWide::rest);
      for (size_t i = 0; i < operands.size(); ++i)
        if (operands[i].kind == Operand::Kind::value && (makes || (is_mask && stays_f32(*b, i))))
          of_mask[operands[i].index] = true;
      if (makes)
        precision_[b->first_result] = Precision::deny;
    }
}

/// Last states of recurrent layers that something takes as f32, such as the function's caller or
/// the next layer, if only behind another shape, are given so: no cast stands behind the layer.
void PrecisionChoices::widen_last_states() {
  std::vector<bool> taken(function_.values.size(), false); // as f32
  for (auto block = function_.blocks.rbegin(); block != function_.blocks.rend(); ++block) {
    for (const Operand &result : function_.results_of(*block))
      if (result.kind == Operand::Kind::value)
        taken[result.index] = true;
    for (auto b = block->bindings.rbegin(); b != block->bindings.rend(); ++b) {
      const std::span<const Operand> operands = function_.operands_of(*b);
      const bool moves = renames(*b) || is_concat(*b) || (b->kind == BindingKind::op && views(*b)),
                 denies =
                     b->kind == BindingKind::op && precision_[b->first_result] == Precision::deny;
      for (size_t i = 0; i < operands.size(); ++i)
        if (operands[i].kind == Operand::Kind::value &&
            (moves ? taken[b->first_result]
                   : denies || b->kind != BindingKind::op || stays_f32(*b, i)))
          taken[operands[i].index] = true;
      if (!keeps_state(*b))
        continue;
      bool any = false;
      for (uint32_t r = 1; r < b->result_count; ++r)
        any = any || taken[b->result(r).index];
      for (uint32_t r = 1; r < b->result_count && any; ++r)
        narrow_result_[b->result(r).index] = false;
    }
  }
}

bool PrecisionChoices::renames(const Binding &binding) const {
  return (binding.kind == BindingKind::alias || binding.kind == BindingKind::match_shape) &&
         is_f32(function_.operands_of(binding)[0].value()) && is_f32(binding.result());
}

TypeId PrecisionChoices::narrow_type(ValueId value) {
  const ir::Type type = module_.types[function_.value(value).type];
  return module_.types.tensor(narrow_dtype_, type.dims);
}

size_t PrecisionChoices::own_operands(const Binding &binding) const {
  if (binding.kind == BindingKind::kill) // which reads nothing
    return 0;
  if (binding.kind == BindingKind::if_)
    return 1;
  return binding.kind == BindingKind::while_ ? binding.carried_count : binding.operands.count;
}

Precision PrecisionChoices::precision_of(const Binding &op, const PrecisionTable &table) {
  const Precision precision = table[ir::op_of(op)];
  return precision == Precision::deny || can_be_narrow(op) ? precision : Precision::deny;
}

/// Whether the op takes all of its f32 operands narrow and gives its present results, or narrow
/// ones; keeps which results are narrow.
bool PrecisionChoices::can_be_narrow(const Binding &op) {
  std::vector<TypeId> operands;
  bool any = false;
  for (const Operand &operand : function_.operands_of(op)) {
    const bool is_value = operand.kind == Operand::Kind::value;
    const bool narrows = is_value && is_f32(operand.value()) && !stays_f32(op, operands.size());
    any = any || narrows;
    operands.push_back(narrows    ? narrow_type(operand.value())
                       : is_value ? function_.value(operand.value()).type
                                  : TypeId());
  }
  if (!any)
    return false;
  const auto results =
      ir::infer_op(module_, ir::op_of(op), operands, function_.attributes_of(op), &function_);
  if (!results.ok() || results->size() != op.result_count)
    return false;
  for (uint32_t i = 0; i < op.result_count; ++i) {
    const ValueId result = op.result(i);
    const bool same = (*results)[i] == function_.value(result).type;
    if (is_written(result) || (!same && (!is_f32(result) || (*results)[i] != narrow_type(result))))
      return false;
    narrow_result_[result.index] = !same;
  }
  return true;
}

// --- Choices -------------------------------------------------------------------------------------

bool PrecisionChoices::follows_narrow(const Binding &op) const {
  const std::span<const Operand> operands = function_.operands_of(op);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand operand = operands[i];
    if (operand.kind != Operand::Kind::value || !is_f32(operand.value()) || stays_f32(op, i))
      continue;
    if (!narrow_[operand.index] && !constant_[operand.index] &&
        !is_image_scale(op, operand.value()))
      return false;
  }
  return true;
}

/// Whether an op reads constants alone: its results, computed once, are in f32 and count as
/// constants. The published pass has them in 16 bits. `weights` includes ops that read weights, or
/// results of those.
bool PrecisionChoices::is_of_constants(const Binding &op, bool weights) const {
  const auto operands = function_.operands_of(op);
  return narrows_moves_ && !operands.empty() &&
         std::ranges::all_of(operands, [&](const Operand &operand) {
           return operand.kind != Operand::Kind::value || constant_[operand.index] ||
                  (weights && of_weights_[operand.index]);
         });
}

/// Whether the operand has a number, fixed as a constant is, for each channel of the op's images:
/// it counts as a constant, however many channels there are.
bool PrecisionChoices::is_image_scale(const Binding &op, ValueId operand) const {
  if (!of_weights_[operand.index] || !is_elementwise(op))
    return false;
  const std::vector<ExprId> &dims = module_.types[function_.value(operand).type].dims;
  const size_t rank = module_.types[function_.value(op.result()).type].dims.size();
  if (rank < 4 || dims.size() + 1 < rank)
    return false;
  for (size_t d = 0; d < dims.size(); ++d)
    if (d + rank - dims.size() != 1 && module_.exprs.as_constant(dims[d]) != 1)
      return false;
  return true;
}

/// Whether the op gives the largest or least of the elements that it reads, exactly.
static bool is_extreme(ir::Op op) { return op == ir::Op::reduce_max || op == ir::Op::reduce_min; }

void PrecisionChoices::choose(uint32_t number) {
  for (const Binding &binding : function_.blocks[number].bindings) {
    for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b)
      choose(b);
    if (renames(binding))
      narrow_[binding.first_result] = is_narrow(function_.operands_of(binding)[0].value());
    if (binding.kind != BindingKind::op)
      continue;
    if (is_of_constants(binding, false)) {
      for (uint32_t r = 0; r < binding.result_count; ++r)
        constant_[binding.result(r).index] = true;
      continue;
    }
    Precision precision = precision_[binding.first_result];
    if (narrows_moves_ && precision == Precision::deny && is_extreme(ir::op_of(binding)) &&
        is_narrow(function_.operands_of(binding)[0].value()) && can_be_narrow(binding))
      precision = Precision::follow;
    for (uint32_t r = 0; r < binding.result_count; ++r)
      of_weights_[binding.result(r).index] =
          precision != Precision::allow && is_of_constants(binding, true);
    if (precision == Precision::deny ||
        (precision == Precision::follow &&
         (of_weights_[binding.first_result] || !follows_narrow(binding))))
      continue;
    narrow_op_[binding.first_result] = true;
    for (uint32_t r = 0; r < binding.result_count; ++r)
      narrow_[binding.result(r).index] = narrow_result_[binding.result(r).index];
  }
}

/// Whether the op gives one of the elements that it reads, which a cast after it or before it makes
/// the same; or places between them, which resizes compute in f32.
static bool selects(ir::Op op) { return is_extreme(op) || op == ir::Op::resize; }

/// Whether the op gives another shape or order to the elements of its operand, in the operand's
/// dtype.
bool PrecisionChoices::views(const Binding &binding) const {
  const ir::Op op = ir::op_of(binding);
  return ir::op_info(op).storage == ir::OpStorage::view &&
         precision_[binding.first_result] == Precision::follow;
}

/// Makes ops narrow that move, select or scale f32 values, and recurrent layers, if all readers of
/// their operands and results take them narrow, perhaps behind such ops: the cast then stands where
/// the value is made.
void PrecisionChoices::narrow_moves() {
  const ValueUses uses(function_);
  const size_t count = function_.values.size();
  std::vector<const Binding *> move_of(count); // by result
  std::vector<bool> computed(count), needs_f32(count), is_read(count);
  for (const ir::Block &block : function_.blocks)
    for (const Binding &binding : block.bindings) {
      if (binding.kind != BindingKind::op)
        continue;
      const auto operands = function_.operands_of(binding);
      const Operand moved = operands.empty() ? Operand() : operands[0];
      const ir::Op op = ir::op_of(binding);
      // Before a resize zeros are selected, too.
      const Binding *next = op == ir::Op::relu ? uses.only_reader(binding.result()) : nullptr;
      const bool is_resized = is_op(next, ir::Op::resize);
      const bool takes = moved.kind == Operand::Kind::value && is_f32(moved.value()) &&
                         !narrow_[moved.index] && computed[moved.index] && !written_[moved.index];
      // Weights of a softmax are at most 1: times a constant they are bounded, too.
      const Binding *maker = takes ? uses.maker(moved.value()) : nullptr;
      const bool scales =
          is_op(maker, ir::Op::softmax) && (op == ir::Op::mul || op == ir::Op::div) &&
          precision_[binding.first_result] == Precision::follow && constant_[operands[1].index];
      const bool moves =
          !narrow_op_[binding.first_result] &&
          ((takes && (views(binding) || scales ||
                      ((selects(op) || is_resized) && can_be_narrow(binding)))) ||
           (keeps_state(binding) && precision_[binding.first_result] == Precision::follow));
      for (uint32_t r = 0; r < binding.result_count; ++r) {
        computed[binding.result(r).index] = true;
        move_of[binding.result(r).index] =
            moves && (r == 0 || narrow_result_[binding.result(r).index]) ? &binding : nullptr;
      }
    }
  std::vector<std::vector<const Binding *>> moves_of(count); // by operand
  std::vector<ValueId> changed;                              // what needs f32 and was not looked at
  auto need_f32 = [&](ValueId value) {
    if (!needs_f32[value.index])
      changed.push_back(value);
    needs_f32[value.index] = true;
  };
  for (const ir::Block &block : function_.blocks) {
    for (const Binding &binding : block.bindings) {
      const bool moves =
          binding.kind == BindingKind::op && move_of[binding.first_result] != nullptr;
      const std::span<const Operand> operands = function_.operands_of(binding);
      const auto takes_f32 = [&](ValueId value) {
        for (size_t i = 0; i < operands.size(); ++i)
          if (operands[i] == Operand::of(value) && stays_f32(binding, i))
            return true;
        return false;
      };
      for_uses(binding, [&](ValueId value, bool narrow) {
        is_read[value.index] = true;
        if (constant_[value.index]) // there in both dtypes
          return;
        if (moves && !takes_f32(value))
          moves_of[value.index].push_back(&binding);
        else if (!narrow)
          need_f32(value);
      });
    }
    for (const Operand &result : function_.results_of(block))
      if (result.kind == Operand::Kind::value && is_f32(result.value()))
        need_f32(result.value());
  }
  auto stays = [&](const Binding &move) {
    for (uint32_t r = 0; r < move.result_count; ++r)
      move_of[move.result(r).index] = nullptr;
    for (const Operand &operand : function_.operands_of(move))
      if (operand.kind == Operand::Kind::value && is_f32(operand.value()))
        need_f32(operand.value());
  };
  auto widen = [&](const Binding &layer) { // its last states alone
    for (uint32_t r = 1; r < layer.result_count; ++r) {
      move_of[layer.result(r).index] = nullptr;
      narrow_result_[layer.result(r).index] = false;
      need_f32(layer.result(r));
    }
  };
  for (size_t v = 0; v < count; ++v) // what nobody reads wants no cast
    if (const Binding *move = move_of[v]) {
      bool any = false;
      for (uint32_t r = 0; r < move->result_count; ++r)
        any = any || (move_of[move->result(r).index] && is_read[move->result(r).index]);
      if (!any)
        stays(*move);
    }
  while (!changed.empty()) {
    const ValueId value = changed.back();
    changed.pop_back();
    if (const Binding *move = move_of[value.index]) {
      if (value == move->result())
        stays(*move);
      else
        widen(*move);
    }
    for (const Binding *move : moves_of[value.index]) // other names are made of what is cast once
      if (move_of[move->first_result] && ir::op_of(*move) != ir::Op::reshape)
        stays(*move);
  }
  for (size_t v = 0; v < count; ++v)
    if (const Binding *move = move_of[v]) {
      narrow_op_[move->first_result] = true;
      narrow_[v] = narrow_result_[v];
    }
}

/// Results of elementwise ops and concatenations that narrow products and convolutions read, or
/// reshapes of these.
void PrecisionChoices::find_streams() {
  std::vector<bool> is_multiplied(function_.values.size());
  for (auto block = function_.blocks.rbegin(); block != function_.blocks.rend(); ++block)
    for (auto b = block->bindings.rbegin(); b != block->bindings.rend(); ++b) {
      if (b->kind != BindingKind::op)
        continue;
      const ir::Op op = ir::op_of(*b);
      const bool multiplies = op == ir::Op::matmul || ir::convolves_floats(ir::op_info(op).images);
      const bool renames = op == ir::Op::reshape && is_multiplied[b->first_result];
      if ((multiplies && is_narrow_op(*b)) || renames)
        is_multiplied[function_.operands_of(*b)[0].index] = true;
      if (renames ||
          ((is_elementwise(*b) || op == ir::Op::concat) && is_multiplied[b->first_result]))
        rounds_[b->first_result] = true;
    }
}

/// Makes ops narrow that move elements of values stored narrow (is_rounded), though some readers
/// take f32: else all of it would be stored as f32, too.
void PrecisionChoices::move_rounded() {
  const ValueUses uses(function_);
  const auto moves = [&](const Binding &binding) {
    if (binding.kind != BindingKind::op || binding.result_count != 1 ||
        precision_[binding.first_result] != Precision::follow || uses.is_yielded(binding.result()))
      return false;
    return ir::moves_elements(ir::op_of(binding));
  };
  const auto reads_so = [&](const Binding &reader, ValueId value) {
    const auto operands = function_.operands_of(reader);
    return reads_narrow(reader,
                        size_t(std::ranges::find(operands, Operand::of(value)) - operands.begin()));
  };
  const auto is_stored_narrow = [&](ValueId value) {
    bool any = false;
    for (const Binding *reader : uses.readers(value)) {
      const bool narrow = reads_so(*reader, value),
                 moved = moves(*reader) && function_.operands_of(*reader)[0] == Operand::of(value);
      any = any || narrow ||
            (moved && !uses.readers(reader->result()).empty() &&
             std::ranges::all_of(uses.readers(reader->result()), [&](const Binding *next) {
               return reads_so(*next, reader->result());
             }));
      if (!narrow && !is_elementwise(*reader) && !moved)
        return false;
    }
    return any && rounds_[value.index] && !uses.is_yielded(value);
  };
  for (const ir::Block &block : function_.blocks)
    for (const Binding &binding : block.bindings) {
      if (!moves(binding) || is_narrow_op(binding))
        continue;
      const ValueId x = function_.operands_of(binding)[0].value();
      if (!is_f32(x) || is_written(x) || !(narrow_[x.index] || is_stored_narrow(x)) ||
          !can_be_narrow(binding))
        continue;
      narrow_op_[binding.first_result] = true;
      narrow_[binding.first_result] = narrow_result_[binding.first_result];
    }
}

/// Whether the op has one result, from elements of the same index.
bool PrecisionChoices::is_elementwise(const Binding &binding) {
  return binding.kind == BindingKind::op && binding.result_count == 1 &&
         (ir::op_info(ir::op_of(binding)).pattern == ir::OpPattern::elementwise ||
          ir::op_info(ir::op_of(binding)).pattern == ir::OpPattern::broadcast);
}

/// Whether the op reduces: the ops before it are then computed where it loads.
bool PrecisionChoices::is_reduction(const Binding &binding) {
  return binding.kind == BindingKind::op && is_part(ir::op_of(binding), ir::OpPart::reduces);
}

bool PrecisionChoices::reads_narrow(const Binding &binding, size_t operand) const {
  if (binding.kind == BindingKind::op)
    return is_narrow_op(binding) && !stays_f32(binding, operand);
  return renames(binding) && is_narrow(function_.operands_of(binding)[operand].value());
}

void PrecisionChoices::count_uses(uint32_t number) {
  const ir::Block &block = function_.blocks[number];
  for (const Binding &binding : block.bindings) {
    // Reductions and concatenations also widen their operands.
    const bool in_place = is_elementwise(binding) ||
                          (narrows_moves_ && (is_reduction(binding) || is_concat(binding)));
    for_uses(binding, [&](ValueId value, bool narrow) {
      (narrow ? read_narrow_ : read_as_f32_)[value.index] = true;
      if (!narrow && !in_place)
        read_whole_[value.index] = true;
    });
    for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b)
      count_uses(b);
  }
  for (const Operand &result : function_.results_of(block))
    if (result.kind == Operand::Kind::value)
      read_as_f32_[result.index] = read_whole_[result.index] = true;
}

} // namespace cugrt::passes
