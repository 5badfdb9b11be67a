// Convolutions whose results all readers want with channels second: what is a function's result, or
// read by ops that know no other layout, also behind elementwise ops, concatenations and resizes of
// nothing else. Their kernel stores them so, and no transposition stands at the border. Private to
// LayOutImages.
#pragma once

#include "compiler/passes/value_uses.h"
#include "ops/table/ops.h"

#include <algorithm>
#include <vector>

namespace cugrt::passes {

class SecondResults {
public:
  SecondResults(const ir::Function &function, const ValueUses &uses)
      : can_be_(function.values.size(), true), is_wanted_(function.values.size()),
        ends_(function.values.size()) {
    const auto &bindings = function.body().bindings;
    for (const ir::Binding &binding : bindings)
      if (binding.kind == ir::BindingKind::op && images(binding) != ir::OpImages::second)
        for (uint32_t i = 0; i < binding.result_count; ++i)
          can_be_[binding.result(i).index] =
              is_convolution(function, binding) ||
              (images(binding) == ir::OpImages::keeps && all_can_be(function, binding));
    for (auto binding = bindings.rbegin(); binding != bindings.rend(); ++binding)
      for (uint32_t i = 0; i < binding->result_count; ++i)
        set_wanted(function, uses, binding->result(i));
  }

  bool operator[](ir::ValueId value) const {
    return can_be_[value.index] && is_wanted_[value.index];
  }
  /// Whether all readers want it, at once or behind elementwise ops of nothing else that is made.
  bool ends(ir::ValueId value) const { return ends_[value.index]; }

private:
  static ir::OpImages images(const ir::Binding &binding) {
    return ir::op_info(ir::op_of(binding)).images;
  }

  static bool is_convolution(const ir::Function &function, const ir::Binding &binding) {
    const ir::Op op = ir::op_of(binding);
    const auto attributes = function.attributes_of(binding);
    if (op == ir::Op::conv_transpose && // of images or volumes, if strides say of what
        ir::op_integers(op, attributes, "strides").size() == 1)
      return false;
    return (op == ir::Op::conv1d || op == ir::Op::conv2d || op == ir::Op::conv3d ||
            op == ir::Op::conv_transpose) &&
           ir::op_integer(op, attributes, "groups") == 1;
  }
  bool all_can_be(const ir::Function &function, const ir::Binding &binding) const {
    return std::ranges::all_of(function.operands_of(binding), [&](const ir::Operand &operand) {
      return operand.kind != ir::Operand::Kind::value || can_be_[operand.index];
    });
  }
  void set_wanted(const ir::Function &function, const ValueUses &uses, ir::ValueId value) {
    is_wanted_[value.index] =
        all_want(uses, value, [&](const ir::Binding &reader) { return (*this)[reader.result()]; });
    ends_[value.index] = all_want(uses, value, [&](const ir::Binding &reader) {
      return ends_[reader.result().index] && ir::op_of(reader) != ir::Op::concat &&
             std::ranges::all_of(function.operands_of(reader), [&](const ir::Operand &operand) {
               const ir::Binding *maker =
                   operand.kind == ir::Operand::Kind::value && operand.value() != value
                       ? uses.maker(operand.value())
                       : nullptr;
               return !maker || maker->kind != ir::BindingKind::op;
             });
    });
  }
  template <class Passes>
  bool all_want(const ValueUses &uses, ir::ValueId value, const Passes &passes) const {
    const auto &readers = uses.readers(value);
    return (!readers.empty() || uses.is_yielded(value)) &&
           std::ranges::all_of(readers, [&](const ir::Binding *reader) {
             if (reader->kind != ir::BindingKind::op || images(*reader) == ir::OpImages::second)
               return true;
             if (images(*reader) == ir::OpImages::keeps)
               return passes(*reader);
             // A reshape for what transposes or norms, perhaps cast, has a form of its own.
             return ir::op_of(*reader) == ir::Op::reshape &&
                    std::ranges::none_of(uses.readers(reader->result()), [&](const auto *next) {
                      if (next->kind == ir::BindingKind::op && ir::op_of(*next) == ir::Op::cast &&
                          uses.only_reader(next->result()))
                        next = uses.only_reader(next->result());
                      return next->kind == ir::BindingKind::op &&
                             images(*next) != ir::OpImages::keeps &&
                             images(*next) != ir::OpImages::second &&
                             ir::op_of(*next) != ir::Op::reshape &&
                             ir::op_of(*next) != ir::Op::slice;
                    });
           });
  }

  std::vector<bool> can_be_, is_wanted_, ends_; // by value
};

} // namespace cugrt::passes
