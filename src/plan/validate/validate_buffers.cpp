// Checks buffers of plans: each has the bytes of its dimensions and lies within its parent, for all
// values of the symbols. validate_storage.cpp measures arenas. A buffer of unknown shape, and
// buffers in it, are checked in a run, which knows the shape.
#include "plan/edges/hazards.h"
#include "plan/symbols/bucket_boxes.h"
#include "plan/validate/validate_parts.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace cugrt::plan {
namespace {

class BufferCheck {
public:
  BufferCheck(const Plan &plan, ir::ExprPool &exprs, const Function &function)
      : plan_(plan), exprs_(exprs), f_(function), boxes_(boxes_of(plan.exprs, function)),
        matched_(matched_symbols(exprs, function)) {}

  Status run() {
    for (const Slot &slot : f_.slots)
      if (slot.kind == SlotKind::param && slot.bytes.valid() &&
          !is_at_most(slot.bytes, bytes_of(f_.params[slot.index])))
        return plan_error(f_, "parameter %" + f_.params[slot.index].name +
                                  " has fewer bytes than its "
                                  "slot");
    for (const Block &block : f_.blocks)
      for (const Item &item : block.items)
        if (item.kind == ItemKind::allocate)
          allocated_.emplace(f_.buffers[item.index].index, item.index);
        else if (item.kind == ItemKind::match && item.operands[0].kind == OperandRef::Kind::buffer)
          matches_.push_back(&item);
    for (const Buffer &buffer : f_.buffers) {
      CUGRT_TRY(size(buffer));
      CUGRT_TRY(place(buffer));
    }
    return counted_dims();
  }

private:
  ExprId bytes_of(ir::DType dtype, const std::vector<ExprId> &dims,
                  const std::vector<ExprId> &strides = {}) {
    return ir::tensor_bytes(
        exprs_,
        ir::Type{.kind = ir::TypeKind::tensor, .dtype = dtype, .dims = dims, .strides = strides});
  }
  /// Invalid where the shape is not known.
  ExprId bytes_of(const Param &param) {
    return param.known_shape ? bytes_of(param.dtype, param.dims) : ExprId();
  }

  /// Whether `a` is at most `b` for all values of the symbols, as far as intervals tell.
  bool is_at_most(ExprId a, ExprId b) {
    if (a == b)
      return true;
    if (!b.valid())
      return false;
    const ExprId rest = exprs_.sub(b, a);
    for (size_t box = 0; box < boxes_.count(); ++box)
      if (exprs_.range(rest, boxes_[box]).lower < 0)
        return false;
    return true;
  }

  Status size(const Buffer &buffer) {
    if (!buffer.bytes.valid())
      return buffer.dims.empty() && buffer.base != BufferBase::arena
                 ? Status()
                 : plan_error(f_, "%" + buffer.name + " has no size");
    return is_at_most(bytes_of(buffer.dtype, buffer.dims, buffer.strides), buffer.bytes) ||
                   is_matched(buffer)
               ? Status()
               : plan_error(f_, "%" + buffer.name + " has fewer bytes than its dimensions ask for");
  }

  /// Whether the host compares the buffer's dimensions, or others that come to as many bytes, with
  /// those of a tensor that has its bytes.
  bool is_matched(const Buffer &buffer) {
    const ExprId bytes = bytes_of(buffer.dtype, buffer.dims, buffer.strides);
    auto same_size = [&](const std::vector<ExprId> &dims) {
      return buffer.strides.empty() ? bytes_of(buffer.dtype, dims) == bytes : dims == buffer.dims;
    };
    return std::any_of(matches_.begin(), matches_.end(), [&](const Item *match) {
      const Buffer &source = f_.buffers[match->operands[0].index];
      return same_size(match->dims) && source.base == buffer.base && source.index == buffer.index &&
             source.offset_bytes == buffer.offset_bytes && source.bytes == buffer.bytes &&
             source.dtype == buffer.dtype && source.strides == buffer.strides;
    });
  }

  /// Size of a buffer's parent; invalid if it is not known before a run.
  ExprId whole(const Buffer &buffer) {
    switch (buffer.base) {
    case BufferBase::slot:
      return f_.slots[buffer.index].bytes;
    case BufferBase::weight:
      return bytes_of(f_.params[buffer.index]);
    case BufferBase::constant:
      return exprs_.constant(int64_t(plan_.constants[buffer.index].bytes.size()));
    case BufferBase::dynamic: {
      const auto allocation = allocated_.find(buffer.index);
      return allocation == allocated_.end() ? ExprId() : f_.buffers[allocation->second].bytes;
    }
    case BufferBase::arena:
      break;
    }
    return {};
  }

  Status place(const Buffer &buffer) {
    const ExprId of = whole(buffer);
    if (!of.valid() || !buffer.bytes.valid())
      return {};
    for (size_t box = 0; box < boxes_.count(); ++box)
      if (!exprs_.never_negative(buffer.offset_bytes, boxes_[box]))
        return plan_error(f_, "%" + buffer.name + " may begin before what it is a part of");
    for (size_t box = 0; box < boxes_.count(); ++box)
      if (!lies_within(exprs_, buffer, buffer.offset_bytes, of, boxes_[box], matched_))
        return plan_error(f_, "%" + buffer.name + " may end beyond what it is a part of");
    return {};
  }

  /// Counts say how much of a result callers read.
  Status counted_dims() const {
    auto buffer = [&](uint32_t result) -> const Buffer * {
      const bool is_tensor = result < f_.results.size() && f_.results[result].buffer != kNone;
      const Buffer *of = is_tensor ? &f_.buffers[f_.results[result].buffer] : nullptr;
      return of && of->bytes.valid() && of->strides.empty() ? of : nullptr;
    };
    std::set<uint32_t> counted, counts;
    for (const CountedDim &c : f_.counted_dims) {
      const Buffer *of = buffer(c.result), *count = buffer(c.count);
      if (!of || c.dim >= of->dims.size() || ir::info(of->dtype).elements_per_block != 1)
        return plan_error(f_, "a counted dimension is none of a result");
      if (!count || count->dtype != ir::DType::i64 ||
          std::any_of(count->dims.begin(), count->dims.end(),
                      [&](ExprId dim) { return exprs_.as_constant(dim) != 1; }))
        return plan_error(f_, "a result is counted by what is not one i64");
      counts.insert(c.count);
      if (!counted.insert(c.result).second)
        return plan_error(f_, "a result has two counted dimensions");
    }
    for (uint32_t result : counts)
      if (counted.count(result))
        return plan_error(f_, "a result counts and is counted itself");
    return {};
  }

  const Plan &plan_;
  ir::ExprPool &exprs_;
  const Function &f_;
  const BucketBoxes boxes_;
  const MatchedSymbols matched_;
  std::unordered_map<uint32_t, uint32_t> allocated_; // buffers by number of the allocation
  std::vector<const Item *> matches_;                // of tensors
};

} // namespace

Status validate_buffers(const Plan &plan) {
  ir::ExprPool exprs = plan.exprs; // grows by sizes and differences
  for (const Function &function : plan.functions)
    CUGRT_TRY(BufferCheck(plan, exprs, function).run());
  return {};
}

} // namespace cugrt::plan
