// Finds convolutions whose results all readers want with channels second: they are a function's
// results, or ops that know no other layout read them, perhaps behind ops that follow images. Their
// kernel stores them so, and no transposition stands at the border. Private to LayOutImages.
#pragma once

#include "compiler/passes/value_uses.h"
#include "ops/table/ops.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace cugrt::passes {

class SecondResults {
public:
  /// The layout in which readers want a value. Without a wish it has channels last.
  enum class Wish : uint8_t { none, second, last };
  /// The wish of a transposition or product that reads the image, or a reshape of it.
  using MoveWish =
      std::function<Wish(ir::ValueId image, const ir::Binding &reader, ir::ValueId from)>;

  SecondResults(const ir::Module &module, const ir::Function &function, const ValueUses &uses,
                MoveWish move_wish)
      : module_(module), function_(function), uses_(uses), move_wish_(std::move(move_wish)),
        can_be_(function.values.size(), true), wishes_(function.values.size()),
        ends_(function.values.size()) {
    do {
      for (auto b = bindings().rbegin(); b != bindings().rend(); ++b)
        for (uint32_t i = 0; i < b->result_count; ++i)
          wishes_[b->result(i).index] = wish_for(b->result(i));
    } while (spread_last());
    for (auto b = bindings().rbegin(); b != bindings().rend(); ++b)
      for (uint32_t i = 0; i < b->result_count; ++i)
        ends_[b->result(i).index] = is_end(b->result(i));
  }

  bool operator[](ir::ValueId value) const {
    return can_be_[value.index] && wishes_[value.index] == Wish::second;
  }
  /// Whether all readers want it, at once or behind elementwise ops of nothing else that is made.
  bool ends(ir::ValueId value) const { return ends_[value.index]; }
  /// Whether transpositions and products alone read it.
  bool moves(ir::ValueId value) const {
    const auto &readers = uses_.readers(value);
    return !readers.empty() && !uses_.is_yielded(value) &&
           std::ranges::all_of(readers, [](const ir::Binding *reader) {
             return is_op(reader, ir::Op::transpose) || is_op(reader, ir::Op::matmul);
           });
  }

private:
  const std::vector<ir::Binding> &bindings() const { return function_.body().bindings; }
  static ir::OpImages images(const ir::Binding &binding) {
    return ir::op_info(ir::op_of(binding)).images;
  }
  const std::vector<ir::ExprId> &dims(ir::ValueId value) const {
    return module_.types[function_.value(value).type].dims;
  }
  bool is_one(ir::ExprId dim) const { return module_.exprs.as_constant(dim) == 1; }
  /// Whether both layouts are the same elements in the same order.
  bool is_alike(ir::ValueId value) const {
    const std::vector<ir::ExprId> &of = dims(value);
    return of.size() < 3 || is_one(of[1]) ||
           std::all_of(of.begin() + 2, of.end(), [&](ir::ExprId dim) { return is_one(dim); });
  }

  bool is_convolution(const ir::Binding &binding) const {
    const ir::Op op = ir::op_of(binding);
    const auto attributes = function_.attributes_of(binding);
    if (op == ir::Op::conv_transpose && // of images or volumes, if strides say of what
        ir::op_integers(op, attributes, "strides").size() == 1)
      return false;
    return ir::convolves_floats(images(binding)) && ir::op_integer(op, attributes, "groups") == 1;
  }
  /// Whether the op gives images in the layout of those that it reads.
  static bool follows(const ir::Binding &binding) {
    switch (images(binding)) {
    case ir::OpImages::keeps:
    case ir::OpImages::parts:
    case ir::OpImages::reduces:
    case ir::OpImages::along_axis:
    case ir::OpImages::pads:
    case ir::OpImages::slices:
    case ir::OpImages::gathers:
      return true;
    case ir::OpImages::convolves:
    case ir::OpImages::spreads:
    case ir::OpImages::convolves_bytes:
    case ir::OpImages::pools:
    case ir::OpImages::reshapes:
    case ir::OpImages::norms:
    case ir::OpImages::transposes:
    case ir::OpImages::stretches:
    case ir::OpImages::grouped:
    case ir::OpImages::second:
      break;
    }
    return false;
  }

  static Wish both(Wish a, Wish b) { return std::max(a, b); }
  Wish wish_for(ir::ValueId value) const {
    Wish wish = uses_.is_yielded(value) ? Wish::second : Wish::none;
    for (const ir::Binding *reader : uses_.readers(value))
      wish = both(wish, wish_of(*reader, value));
    return wish;
  }
  Wish wish_of(const ir::Binding &reader, ir::ValueId value) const {
    if (reader.kind != ir::BindingKind::op || images(reader) == ir::OpImages::second)
      return Wish::second;
    if (ir::op_of(reader) == ir::Op::reshape)
      return wish_of_reshape(reader, value);
    if (ir::op_of(reader) == ir::Op::transpose)
      return move_wish_(value, reader, value);
    if (!follows(reader))
      return Wish::last;
    if (dims(reader.result()).size() < dims(value).size())
      return wish_of_reduction(reader, value);
    Wish wish = Wish::none;
    for (uint32_t i = 0; i < reader.result_count; ++i)
      if (!is_alike(reader.result(i)))
        wish = both(wish,
                    can_be_[reader.result(i).index] ? wishes_[reader.result(i).index] : Wish::last);
    // Some of a convolution's channels are a view, or moved as they are taken.
    const ir::Binding *maker = uses_.maker(value);
    const bool takes = (is_op(&reader, ir::Op::split) || is_op(&reader, ir::Op::slice)) && maker &&
                       maker->kind == ir::BindingKind::op && is_convolution(*maker) &&
                       !uses_.readers(reader.result()).empty();
    return takes && wish == Wish::none ? Wish::second : wish;
  }
  /// A reshape for what transposes, norms, pools or repeats has a form of its own.
  Wish wish_of_reshape(const ir::Binding &reshape, ir::ValueId image) const {
    const ir::Binding *next = uses_.only_reader(reshape.result());
    if (is_alike(image))
      return Wish::none;
    if (moves(reshape.result())) {
      Wish wish = Wish::none;
      for (const ir::Binding *reader : uses_.readers(reshape.result()))
        wish = both(wish, move_wish_(image, *reader, reshape.result()));
      return wish;
    }
    if (is_op(next, ir::Op::cast) && uses_.only_reader(next->result()))
      next = uses_.only_reader(next->result());
    return is_op(next, ir::Op::layer_norm) || is_op(next, ir::Op::max_pool2d) ||
                   is_op(next, ir::Op::avg_pool2d) || is_op(next, ir::Op::broadcast_to)
               ? Wish::last
               : Wish::second;
  }
  /// The wish of a reduction without its dimensions: the remaining ones may have the order of both
  /// layouts.
  Wish wish_of_reduction(const ir::Binding &reduction, ir::ValueId image) const {
    const ir::Op op = ir::op_of(reduction);
    const auto attributes = function_.attributes_of(reduction);
    const size_t rank = dims(image).size();
    const bool has_axis = ir::is_part(op, ir::OpPart::searches);
    if (rank < 3)
      return Wish::none;
    if (std::ranges::none_of(ir::op_attributes(op),
                             [](const auto &has) { return has.name == "keep_dims"; }))
      return Wish::second;
    std::vector<bool> over(rank);
    for (int64_t axis : has_axis ? std::vector{ir::op_integer(op, attributes, "axis")}
                                 : ir::op_integers(op, attributes, "axes"))
      over[ir::normalize_axis(axis, rank).value_or(0)] = true;
    const bool keeps_order =
        dims(reduction.result()).empty() || over[1] ||
        (!has_axis && std::all_of(over.begin() + 2, over.end(), [](bool o) { return o; }));
    return keeps_order ? Wish::none : Wish::second;
  }

  /// Finds values that can have channels last by their operands; returns whether any changed.
  bool spread_last() {
    bool any = false;
    for (const ir::Binding &binding : bindings()) {
      if (binding.kind != ir::BindingKind::op || images(binding) == ir::OpImages::second)
        continue;
      for (uint32_t i = 0; i < binding.result_count; ++i) {
        const ir::ValueId result = binding.result(i);
        const bool can_be =
            is_alike(result) || (is_convolution(binding) ? wishes_[result.index] == Wish::second
                                                         : follows(binding) && all_can_be(binding));
        any = any || can_be != can_be_[result.index];
        can_be_[result.index] = can_be;
      }
    }
    return any;
  }
  bool all_can_be(const ir::Binding &binding) const {
    return std::ranges::all_of(function_.operands_of(binding), [&](const ir::Operand &operand) {
      return operand.kind != ir::Operand::Kind::value || can_be_[operand.index];
    });
  }

  bool is_end(ir::ValueId value) const {
    if (uses_.readers(value).empty() && !uses_.is_yielded(value))
      return false;
    return std::ranges::all_of(uses_.readers(value), [&](const ir::Binding *reader) {
      if (reader->kind != ir::BindingKind::op || images(*reader) != ir::OpImages::keeps)
        return wish_of(*reader, value) == Wish::second;
      return ends_[reader->result().index] && ir::op_of(*reader) != ir::Op::concat &&
             std::ranges::all_of(function_.operands_of(*reader), [&](const ir::Operand &operand) {
               const ir::Binding *maker =
                   operand.kind == ir::Operand::Kind::value && operand.value() != value
                       ? uses_.maker(operand.value())
                       : nullptr;
               return !maker || maker->kind != ir::BindingKind::op;
             });
    });
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const ValueUses &uses_;
  const MoveWish move_wish_;
  std::vector<bool> can_be_; // by value: there, if nothing it is made of has channels last
  std::vector<Wish> wishes_; // by value
  std::vector<bool> ends_;   // by value
};

} // namespace cugrt::passes
