// The values of one function in its plan: buffers, host values, lists.
//
// Values are asked for in program order. Offsets of views are relative to their origin; a buffer is
// made when a value is first used by a step or an item.
#pragma once

#include "compiler/planner/lower/context.h"
#include "ir/module/module.h"
#include "plan/symbols/bucket_boxes.h"
#include "plan/symbols/matched_symbols.h"

#include <map>

namespace cugrt::plan {

class ValueTable {
public:
  ValueTable(ModuleContext &context, uint32_t function, Function &out);

  /// Forgets all values; ask nothing afterwards.
  void clear();

  // --- Definitions: called by the walk at each binding ---
  void set_offset(ir::ValueId value, ExprId offset_bytes) { offsets_[value.index] = offset_bytes; }
  /// Dimensions of a tensor whose type does not say them.
  void set_shape(ir::ValueId value, TensorExprs shape) { shapes_[value.index] = std::move(shape); }
  /// Its dimensions as far as they are known; bytes are invalid where they are not.
  const TensorExprs &shape(ir::ValueId value) const;
  /// `value` is a part of `source`, or all of it in another shape, from a byte on.
  void set_view(ir::ValueId value, ir::ValueId source, ExprId begin);
  /// `value` is `source` with dimensions that the host has compared.
  void set_match(ir::ValueId value, ir::ValueId source);
  /// A match gives a symbol its value: that of a dimension.
  void set_matched(SymbolId symbol, ExprId dim) { matched_symbols_.define(symbol, dim); }
  ExprId offset(ir::ValueId value) const;
  void set_ref(ir::ValueId value, OperandRef ref) { refs_[value.index] = ref; }
  /// A scalar, string, shape or object that an item gives at run time.
  OperandRef define_host(ir::ValueId value);

  // --- Uses ---
  /// The tensor's buffer. An error where it does not lie within its storage.
  Result<uint32_t> buffer(ir::ValueId value, SourceLocation location);
  /// The same, without a row in the plan.
  Buffer whole_buffer(ir::ValueId value) {
    return make(storage_.bases[live_.origin(value)], offset(value), value);
  }
  Result<OperandRef> ref(ir::ValueId value, SourceLocation location);
  Result<OperandRef> ref(const ir::Operand &operand, SourceLocation location);
  uint32_t add_host_value(HostValue value);
  uint32_t add_list(std::vector<OperandRef> list);
  /// A launch's scratch: `bytes` of a class of their own.
  uint32_t workspace(uint32_t storage_class, ExprId bytes, std::string name);
  /// A buffer of another buffer's type in a class of its own, for values that change places.
  uint32_t temporary(uint32_t storage_class, uint32_t like);
  /// A buffer of another buffer's type at a place in a result's slot.
  uint32_t result_slot(uint32_t slot, uint32_t like, ExprId offset_bytes);
  /// The element that a read binding names.
  Result<uint32_t> element(SymbolId symbol, SourceLocation location);
  void set_element(SymbolId symbol, ir::ValueId tensor, ExprId index);

  /// A loop's condition is planned a second time: what its blocks define are other tensors then, in
  /// the same places.
  void begin_again(ir::Range blocks);
  void end_again() { --again_; }

  /// Why steps may not write the value: "" when they may.
  std::string write_protection(ir::ValueId value) const;
  bool is_dynamic(ir::ValueId value) const;

  const ir::Type &type(ir::ValueId value) const {
    return context_.module.types[function_.value(value).type];
  }
  ir::Domain bounds() const { return bounds_; }
  const BucketBoxes &boxes() const { return boxes_; }
  const MatchedSymbols &matched_symbols() const { return matched_symbols_; }

private:
  Buffer make(const Base &base, ExprId offset_bytes, ir::ValueId value);
  int64_t base_bytes(const Base &base) const;
  Status check_within(const Origin &origin, const Base &base, ExprId offset_bytes,
                      const Buffer &buffer, ir::ValueId value, SourceLocation location);
  Status check_within_source(const Origin &origin, ExprId offset_bytes, const Buffer &buffer,
                             ir::ValueId value, SourceLocation location);
  std::string negative_dims(const Buffer &buffer) const;
  std::string unbounded_extent(const Buffer &buffer, ExprId offset_bytes, ExprId whole) const;
  uint32_t add(Buffer &&buffer);
  void forget(ir::Range blocks);
  uint32_t tensor_number(uint32_t number);

  ModuleContext &context_;
  const ir::Function &function_;
  const Liveness &live_;
  const FunctionStorage &storage_;
  Function &out_;
  const ir::SymbolDomain bounds_;
  const BucketBoxes boxes_;
  MatchedSymbols matched_symbols_;
  std::vector<ExprId> offsets_;            // by value; invalid: 0
  std::vector<uint32_t> buffers_;          // by value
  std::vector<OperandRef> refs_;           // by value: of what is not a tensor
  std::map<uint32_t, TensorExprs> shapes_; // by value: those that types do not say
  /// Keyed by value: the operand of its match, itself not matched; it has as many bytes.
  std::map<uint32_t, ir::ValueId> matched_;
  std::vector<uint32_t> elements_;          // by symbol: buffers of device symbols
  uint32_t again_ = 0;                      // conditions that are being planned a second time
  std::map<uint32_t, uint32_t> renumbered_; // Buffer::tensor of what they define
  uint32_t next_number_ = 0;                // beyond those of everything else
};

} // namespace cugrt::plan
