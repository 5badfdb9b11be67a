// A reduction, a softmax or a norm between casts is one of narrow elements: its kernel computes in
// f32 as before, so that the result is the same number, and no cast stands around it. A norm's
// scale and bias stay f32. And a cast behind a reshape stands before it, where what is reshaped can
// cast as it stores, and what reads the cast cannot as it reads. A cast that no kernel makes as it
// stores, and all that read it make as they read, is one for each of these, beside it; so is a
// slice that would be a copy. And casts of several inputs that none of these make are one.
//
//   %x_f32 = cast(%x) {dtype = f32}        %m = reduce_mean(%x) {axes = [1, 2]}
//   %m = reduce_mean(%x_f32) {..}          %r = reshape(%m) {shape = [1, 512]}
//   %r = reshape(%m) {..}                  %y = matmul(%r, %w)
//   %r_f16 = cast(%r) {dtype = f16}
//   %y = matmul(%r_f16, %w)
#include "base/check.h"
#include "compiler/passes/all_passes.h"

#include "compiler/fused/element_code.h"
#include "compiler/ir_names.h"
#include "compiler/passes/mixed_precision.h"
#include "compiler/passes/spread_values.h"
#include "compiler/passes/value_uses.h"
#include "ir/module/function_cloner.h"
#include "ops/emit/element_ops.h"
#include "ops/table/ops.h"

#include <algorithm>
#include <functional>
#include <map>

namespace cugrt::passes {

namespace {

/// Whether the op computes in f32 where its elements are narrow, and rounds once.
bool rounds_once(const Binding &binding) {
  if (binding.kind != BindingKind::op)
    return false;
  const Op op = ir::op_of(binding);
  return is_part(op, ir::OpPart::reduces) || is_part(op, ir::OpPart::normalizes);
}

class ReductionNarrower : public ir::FunctionCloner {
public:
  ReductionNarrower(const ir::Module &module, const ir::Function &source, ir::Module &target)
      : FunctionCloner(source, target), uses_(source),
        written_(find_written_values(module, source)), is_narrowed_(source.values.size()) {
    for (const ir::Block &block : source.blocks)
      for (const Binding &binding : block.bindings)
        if (const Binding *cast = cast_around(binding, block)) {
          cast_around_[&binding] = cast;
          ++narrowed_readers_[cast];
        } else if (const Binding *reshape = reshape_before(binding, block)) {
          cast_behind_[reshape] = &binding;
        }
    std::erase_if(cast_behind_,
                  [&](const auto &at) { return narrowed_readers_.contains(at.second); });
  }

  bool finds_any() const { return !narrowed_readers_.empty() || !cast_behind_.empty(); }

protected:
  Status visit(const Binding &binding) override {
    if (const auto found = cast_around_.find(&binding); found != cast_around_.end()) {
      is_narrowed_[binding.first_result] = true;
      std::vector<Operand> operands = {mapped(source().operands_of(*found->second)[0])};
      for (const Operand &other : source().operands_of(binding).subspan(1))
        operands.push_back(mapped(other));
      copy_with(binding, operands);
      return {};
    }
    if (is_unread(binding))
      return {};
    if (const auto moved = cast_behind_.find(&binding);
        moved != cast_behind_.end() && !is_narrowed_[source().operands_of(binding)[0].index]) {
      swap_with_cast(binding, *moved->second);
      return {};
    }
    if (binding.kind != BindingKind::op || binding.result_count != 1 ||
        source().operands_of(binding).empty())
      return copy(binding);
    const Operand x = source().operands_of(binding)[0];
    if (x.kind != Operand::Kind::value || !is_narrowed_[x.index])
      return copy(binding);
    if (ir::op_of(binding) == Op::cast) {
      map(binding.result(), mapped(x.value()));
      return {};
    }
    is_narrowed_[binding.first_result] = true;
    return copy(binding);
  }

  ir::TypeId result_type(const Binding &binding, std::span<const Operand> operands,
                         uint32_t i) override {
    const ir::Type type = type_of(binding.result(i));
    if (!is_narrowed_[binding.result(i).index])
      return FunctionCloner::result_type(binding, operands, i);
    const ir::DType dtype = made_type(operands[0].value()).dtype;
    return module().types.tensor(dtype, type.dims);
  }

private:
  /// A cast that nothing reads any more.
  bool is_unread(const Binding &binding) const {
    const auto found = narrowed_readers_.find(&binding);
    return found != narrowed_readers_.end() && !uses_.is_yielded(binding.result()) &&
           uses_.readers(binding.result()).size() == found->second;
  }

  /// The cast before a reduction that is read in the dtype before it alone; null where
  /// it is none.
  const Binding *cast_around(const Binding &binding, const ir::Block &block) const {
    if (!rounds_once(binding))
      return nullptr;
    const ValueId wide = source().operands_of(binding)[0].value();
    const Binding *cast = uses_.maker(wide);
    // A cast in another block may read a value that is not there in this one.
    if (!is_op(cast, Op::cast) || cast < block.bindings.data() ||
        cast >= block.bindings.data() + block.bindings.size() ||
        type_of(wide).dtype != ir::DType::f32 || written_[wide.index])
      return nullptr;
    const ValueId x = source().operands_of(*cast)[0].value();
    const ir::DType dtype = type_of(x).dtype;
    if (!is_half(dtype) || written_[x.index] || !type_of(x).strides.empty())
      return nullptr;
    for (ValueId value = binding.result();;) {
      const Binding *reader = uses_.only_reader(value);
      if (!reader || written_[value.index])
        return nullptr;
      if (is_op(reader, Op::cast))
        return type_of(reader->result()).dtype == dtype ? cast : nullptr;
      if (!is_op(reader, Op::reshape) || source().operands_of(*reader)[0].value() != value)
        return nullptr;
      value = reader->result();
    }
  }

  /// The reshape, or the first of several, that only a cast reads, if its operand can be cast as
  /// it is stored and not all readers of the cast could cast as they read; null if there is
  /// none.
  const Binding *reshape_before(const Binding &cast, const ir::Block &block) const {
    if (!is_op(&cast, Op::cast) || written_[cast.first_result])
      return nullptr;
    const Binding *first = &cast, *maker = nullptr;
    ValueId x;
    while (true) {
      x = source().operands_of(*first)[0].value();
      maker = uses_.maker(x);
      if (!is_reshape(maker, block) || uses_.only_reader(x) != first || written_[x.index])
        break;
      first = maker;
    }
    if (first == &cast)
      return nullptr;
    auto pattern = [](const Binding &op) { return ir::op_info(ir::op_of(op)).pattern; };
    auto reads_alone = [&](const Binding *reader) {
      return reader->kind == BindingKind::op && pattern(*reader) >= ir::OpPattern::out_fusable &&
             !codegen::computes_what_it_loads(ir::op_of(*reader));
    };
    const bool stores = maker && maker->kind == BindingKind::op && maker->result_count == 1 &&
                        pattern(*maker) != ir::OpPattern::injective &&
                        pattern(*maker) != ir::OpPattern::opaque && type_of(x).strides.empty() &&
                        uses_.only_reader(x) == first;
    const auto &readers = uses_.readers(cast.result());
    const bool is_alone = readers.empty() || uses_.is_yielded(cast.result()) ||
                          std::any_of(readers.begin(), readers.end(), reads_alone);
    return stores && !written_[x.index] && is_alone ? first : nullptr;
  }

  /// A reshape of the block, or a transposition that moves axes of size 1 alone.
  bool is_reshape(const Binding *op, const ir::Block &block) const {
    if (!op || op < block.bindings.data() || op >= block.bindings.data() + block.bindings.size() ||
        !(is_op(op, Op::reshape) || is_op(op, Op::transpose)))
      return false;
    const TypeId from = source().value(source().operands_of(*op)[0].value()).type,
                 to = source().value(op->result()).type;
    const auto view = codegen::op_view(module(), ir::op_of(*op), std::span(&from, 1),
                                       std::span(&to, 1), source().attributes_of(*op));
    return view.ok() && *view;
  }

  void swap_with_cast(const Binding &reshape, const Binding &cast) {
    const ValueId x = source().operands_of(reshape)[0].value();
    const DType dtype = type_of(cast.result()).dtype;
    const TypeId types[] = {module().types.tensor(dtype, type_of(x).dims),
                            module().types.tensor(dtype, type_of(reshape.result()).dims)};
    const std::string names[] = {source().value(reshape.result()).name,
                                 source().value(cast.result()).name};
    std::vector<Operand> operands = mapped(source().operands_of(reshape));
    operands[0] = Operand::of(builder().bind(cast, std::span(operands).first(1), {},
                                             source().attributes_of(cast), std::span(names, 1),
                                             std::span(types, 1)));
    map(reshape.result(), builder().bind(reshape, operands, {}, source().attributes_of(reshape),
                                         std::span(names + 1, 1), std::span(types + 1, 1)));
    is_narrowed_[reshape.first_result] = true;
  }

  const ValueUses uses_;
  const std::vector<bool> written_;                        // by value
  std::vector<bool> is_narrowed_;                          // by value
  std::map<const Binding *, const Binding *> cast_around_; // by reduction
  std::map<const Binding *, size_t> narrowed_readers_;     // by cast
  std::map<const Binding *, const Binding *> cast_behind_; // by the first reshape before it
};

/// Queries about casts and their readers.
class CastCloner : public ir::FunctionCloner {
protected:
  CastCloner(const ir::Module &module, const ir::Function &source, ir::Module &target)
      : FunctionCloner(source, target), uses_(source),
        written_(find_written_values(module, source)) {}

  /// Whether kernels of the op compute their operands, `reductions` among them; for views, whether
  /// all of their readers do.
  bool computes_what_it_reads(const Binding *op, const ir::Block &block,
                              bool reductions = true) const {
    if (op->kind != BindingKind::op || op->result_count != 1 || op < block.bindings.data() ||
        op >= block.bindings.data() + block.bindings.size() || !type_of(op->result()).known_shape)
      return false;
    const Op number = ir::op_of(*op);
    if (number == Op::reshape) {
      const auto &readers = uses_.readers(op->result());
      return !readers.empty() && !uses_.is_yielded(op->result()) &&
             std::all_of(readers.begin(), readers.end(), [&](const Binding *b) {
               return computes_what_it_reads(b, block, reductions);
             });
    }
    return codegen::computes_what_it_loads(number)
               ? reductions
               : ir::op_info(number).pattern < ir::OpPattern::out_fusable;
  }

  const ValueUses uses_;
  const std::vector<bool> written_; // by value
};

/// Gives each op that reads a cast one of its own, where no kernel would make that as it stores,
/// and all of them as they read; or a slice that is a copy and joins no kernel.
class ValueSpreader : public CastCloner {
public:
  ValueSpreader(const ir::Module &module, const ir::Function &source, ir::Module &target,
                const SlicesOfKernel &slices_of_kernel = {})
      : CastCloner(module, source, target), spread_(source.values.size()),
        depth_(source.values.size()) {
    for (const ir::Block &block : source.blocks)
      for (const Binding &binding : block.bindings)
        if (const bool goes_on = is_op(&binding, Op::reshape) && depth_below(binding);
            depth_below(binding) < kMostDepth &&
            (goes_on ||
             (slices_of_kernel ? spreads_slice(binding, block) &&
                                     is_copy(binding, slices_of_kernel(source, binding))
                               : is_op(&binding, Op::cast) && spreads(binding, block)))) {
          spread_[binding.first_result] = &binding;
          depth_[binding.first_result] = depth_below(binding) + 1;
          finds_any_ = true;
        }
  }

  bool finds_any() const { return finds_any_; }

protected:
  Status visit(const Binding &binding) override {
    return binding.result_count && spread_[binding.first_result] ? Status() : make(binding);
  }

private:
  /// Values that are spread may be made of others that are; each reader makes all of these again.
  static constexpr int kMostDepth = 3;

  int depth_below(const Binding &reader) const {
    const auto operands = source().operands_of(reader);
    const bool reads = !operands.empty() && operands[0].kind == Operand::Kind::value;
    return reads ? depth_[operands[0].index] : 0;
  }

  /// Makes the binding, with operands of its own for values that are spread.
  Status make(const Binding &binding) {
    const auto operands = source().operands_of(binding);
    for (auto operand = operands.begin(); operand != operands.end(); ++operand)
      if (operand->kind == Operand::Kind::value && spread_[operand->index] &&
          std::find(operands.begin(), operand, *operand) == operand) // not one made already
        CUGRT_TRY(make(*spread_[operand->index]));
    return copy(binding);
  }

  bool spreads(const Binding &cast, const ir::Block &block) const {
    const ValueId x = source().operands_of(cast)[0].value(), y = cast.result();
    const auto &readers = uses_.readers(y);
    return !readers.empty() && !uses_.is_yielded(y) && !uses_.is_stored_by_maker(x) &&
           !written_[x.index] && !written_[y.index] && type_of(x).strides.empty() &&
           std::ranges::all_of(uses_.readers(x), is_op_of_any) &&
           std::ranges::all_of(readers,
                               [&](const Binding *b) { return computes_what_it_reads(b, block); });
  }

  bool spreads_slice(const Binding &slice, const ir::Block &block) {
    if (!moves_for_readers(module(), source(), slice,
                           slice.result_count ? uses_.readers(slice.result()).size() : 0))
      return false;
    const ValueId x = source().operands_of(slice)[0].value(), y = slice.result();
    const auto &readers = uses_.readers(y);
    return std::ranges::adjacent_find(readers, std::not_equal_to()) != readers.end() &&
           !uses_.is_yielded(y) && !written_[x.index] && !written_[y.index] &&
           type_of(x).strides.empty() && std::ranges::all_of(readers, [&](const Binding *b) {
             return computes_what_it_reads(b, block, false);
           });
  }

  /// Whether a kernel of so many slices, this one the last, is needed: one that gives a run of its
  /// operand's bytes is a view.
  bool is_copy(const Binding &op, size_t slices) {
    if (slices != 1)
      return slices > 1;
    std::vector<TypeId> operands;
    for (const Operand &operand : source().operands_of(op))
      operands.push_back(source().value(operand.value()).type);
    const TypeId result = source().value(op.result()).type;
    const auto view = codegen::op_view(module(), ir::op_of(op), operands, std::span(&result, 1),
                                       source().attributes_of(op));
    return view.ok() && !*view;
  }

  static bool is_op_of_any(const Binding *binding) {
    return binding && binding->kind == BindingKind::op;
  }

  std::vector<const Binding *> spread_; // by value
  std::vector<int> depth_;              // by value; 0 where it is not spread
  bool finds_any_ = false;
};

/// Casts of a function's own inputs, or of views of these, that no kernel makes as it reads are one
/// launch: of all the inputs' elements in a row, of which each is a part.
class CastJoiner : public CastCloner {
public:
  CastJoiner(const ir::Module &module, const ir::Function &source, ir::Module &target)
      : CastCloner(module, source, target) {
    for (const Binding &binding : source.body().bindings)
      if (is_op(&binding, Op::cast) && !source.is_private &&
          (casts_.empty() || type_of(binding.result()).dtype == dtype_))
        if (const ValueId input = input_of(binding); input.valid() && is_alone(binding)) {
          casts_[&binding] = input;
          dtype_ = type_of(binding.result()).dtype;
        }
  }

  bool finds_any() const { return casts_.size() > 1; }

protected:
  Status visit(const Binding &binding) override {
    const auto cast = casts_.find(&binding);
    if (cast == casts_.end())
      return copy(binding);
    if (!all_.valid())
      join(binding);
    const ir::Value &value = source().value(binding.result());
    const ir::ExprId offset = module().exprs.constant(offsets_.at(cast->second.index));
    map(binding.result(), bind_value(BindingKind::view, value.name, all_, std::span(&offset, 1),
                                     value.type, binding.location));
    return {};
  }

private:
  static constexpr int64_t kNarrow = 2, kAligned = 16; // bytes

  /// Elements, where their number is known; else 0.
  int64_t count(ValueId value) const {
    int64_t elements = 1;
    for (ir::ExprId dim : type_of(value).dims)
      elements *= module().exprs.as_constant(dim).value_or(0);
    return elements;
  }

  /// The f32 input whose elements the cast rounds, all in their order, if it does that.
  ValueId input_of(const Binding &cast) const {
    ValueId x = source().operands_of(cast)[0].value();
    for (const Binding *maker = uses_.maker(x); maker; maker = uses_.maker(x)) {
      if (!is_op(maker, Op::reshape) && !is_op(maker, Op::transpose))
        return {};
      const TypeId from = source().value(source().operands_of(*maker)[0].value()).type,
                   to = source().value(maker->result()).type;
      const auto view = codegen::op_view(module(), ir::op_of(*maker), std::span(&from, 1),
                                         std::span(&to, 1), source().attributes_of(*maker));
      if (!view.ok() || !*view)
        return {};
      x = source().operands_of(*maker)[0].value();
    }
    for (size_t p = 0; p < source().params.size(); ++p)
      if (source().params[p].value == x && source().is_weight(p))
        return {};
    const bool is_plain = type_of(x).dtype == DType::f32 && type_of(x).strides.empty() &&
                          type_of(x).scope == 0 && !written_[x.index] &&
                          !written_[cast.first_result];
    return is_plain && is_half(type_of(cast.result()).dtype) && count(x) > 0 ? x : ValueId();
  }

  bool is_alone(const Binding &cast) const {
    return !uses_.readers(cast.result()).empty() &&
           std::ranges::none_of(uses_.readers(cast.result()), [&](const Binding *reader) {
             return computes_what_it_reads(reader, source().body());
           });
  }

  void join(const Binding &first) {
    int64_t elements = 0;
    std::vector<Operand> rows;
    for (const Binding &binding : source().body().bindings) {
      const auto cast = casts_.find(&binding);
      if (cast == casts_.end() || offsets_.contains(cast->second.index))
        continue;
      // Each begins where whole vectors do: zeros stand behind the one before.
      const int64_t own = count(cast->second), rest = (elements * kNarrow) % kAligned / kNarrow;
      if (rest != 0) {
        const int64_t zeros = kAligned / kNarrow - rest;
        const Operand last = rows.back();
        rows.back() = Operand::of(made(
            Op::pad, {last},
            {{"before", std::vector<int64_t>{0}}, {"after", std::vector<int64_t>{zeros}}}, first));
        elements += zeros;
      }
      offsets_[cast->second.index] = elements * kNarrow;
      rows.push_back(Operand::of(made(Op::reshape, {mapped(Operand::of(cast->second))},
                                      {{"shape", std::vector<int64_t>{own}}}, first)));
      elements += own;
    }
    const ValueId row =
        rows.size() == 1 ? rows[0].value() : made(Op::concat, rows, {{"axis", int64_t(0)}}, first);
    all_ = made(Op::cast, {Operand::of(row)}, {{"dtype", ir::DTypeLiteral(dtype_)}}, first);
  }
  ValueId made(Op op, const std::vector<Operand> &operands,
               const std::vector<ir::Attribute> &attributes, const Binding &first) {
    const auto value = bind_op(op, operands, attributes, "inputs", first.location);
    CUGRT_CHECK(value.ok());
    return *value;
  }

  std::map<const Binding *, ValueId> casts_; // and the inputs that they are of
  std::map<uint32_t, int64_t> offsets_;      // by input, in bytes
  DType dtype_ = DType::f16;
  ValueId all_;
};

/// The module as a cloner makes it of each function in which that finds anything; `found` is set
/// then.
template <class Cloner, class... More>
Result<ir::Module> cloned(const ir::Module &module, bool &found, const More &...more) {
  ir::Module target = ir::without_functions(module);
  for (const ir::Function &function : module.functions) {
    Cloner cloner(module, function, target, more...);
    found = found || cloner.finds_any();
    if (cloner.finds_any())
      CUGRT_TRY(cloner.add_function());
    else
      target.functions.push_back(function);
  }
  return target;
}

} // namespace

Result<ir::Module> narrow_reductions(const ir::Module &module) {
  bool found = false;
  CUGRT_ASSIGN(const ir::Module spread, cloned<ValueSpreader>(module, found));
  CUGRT_ASSIGN(const ir::Module joined, cloned<CastJoiner>(spread, found));
  return cloned<ReductionNarrower>(joined, found);
}

Result<std::optional<ir::Module>> spread_slices(const ir::Module &module,
                                                const SlicesOfKernel &slices_of_kernel) {
  bool found = false;
  CUGRT_ASSIGN(ir::Module spread, cloned<ValueSpreader>(module, found, slices_of_kernel));
  return found ? std::optional(std::move(spread)) : std::nullopt;
}

} // namespace cugrt::passes
