// Buffers and host values of one function.
#include "compiler/planner/lower/values.h"

#include "base/check.h"
#include "compiler/ir_names.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/module.h"
#include "ir/module/names.h"
#include "plan/edges/hazards.h"

#include <llvm/ADT/STLExtras.h>

#include <bit>

namespace cugrt::plan {

ValueTable::ValueTable(ModuleContext &context, uint32_t function, Function &out)
    : context_(context), function_(context.module.functions[function]),
      live_(context.storage.liveness[function]), storage_(context.storage.functions[function]),
      out_(out), bounds_(symbol_domain(context.module, function_)),
      boxes_(boxes_of(context.module, function_)),
      matched_symbols_(context.plan.exprs, function_.symbols.size()),
      offsets_(function_.values.size()), buffers_(function_.values.size(), kNone),
      refs_(function_.values.size()), elements_(function_.symbols.size(), kNone) {}

ExprId ValueTable::offset(ir::ValueId value) const {
  ExprId offset = offsets_[live_.alias_of[value.index].index];
  return offset.valid() ? offset : context_.plan.exprs.constant(0);
}

const TensorExprs &ValueTable::shape(ir::ValueId value) const {
  auto known = shapes_.find(live_.alias_of[value.index].index);
  return known == shapes_.end() ? context_.tensor(function_.value(value).type) : known->second;
}

void ValueTable::set_match(ir::ValueId value, ir::ValueId source) {
  source = live_.alias_of[source.index];
  auto matched = matched_.find(source.index);
  matched_[value.index] = matched == matched_.end() ? source : matched->second;
  set_offset(value, offset(source));
}

void ValueTable::set_view(ir::ValueId value, ir::ValueId source, ExprId begin) {
  set_offset(value, context_.plan.exprs.add(offset(source), begin));
  source = live_.alias_of[source.index];
  const auto matched = matched_.find(source.index);
  if (matched != matched_.end() && context_.plan.exprs.as_constant(begin) == 0 &&
      shape(value).bytes == shape(source).bytes)
    matched_[value.index] = matched->second;
}

// --- Buffers -------------------------------------------------------------------------------------

int64_t ValueTable::base_bytes(const Base &base) const {
  if (base.kind != BufferBase::arena)
    return 0;
  const StorageClass &k = storage_.classes[base.index];
  return storage_.shares[k.scope].base_bytes + k.offset_bytes;
}

Buffer ValueTable::make(const Base &base, ExprId offset_bytes, ir::ValueId value) {
  ir::ExprPool &exprs = context_.plan.exprs;
  Buffer buffer;
  buffer.base = base.kind;
  buffer.index = base.index;
  if (base.kind == BufferBase::arena)
    buffer.index = context_.storage.arena_of_scope[storage_.classes[base.index].scope];
  else if (base.kind == BufferBase::constant)
    buffer.index = context_.constant(base.index);
  const int64_t begin = base_bytes(base);
  buffer.offset_bytes = begin == 0 ? offset_bytes : exprs.add(exprs.constant(begin), offset_bytes);
  buffer.dtype = type(value).dtype;
  const TensorExprs &tensor = shape(value);
  buffer.dims = tensor.dims;
  buffer.strides = tensor.strides;
  buffer.bytes = tensor.bytes;
  return buffer;
}

uint32_t ValueTable::add(Buffer &&buffer) {
  out_.buffers.push_back(std::move(buffer));
  return uint32_t(out_.buffers.size() - 1);
}

Result<uint32_t> ValueTable::buffer(ir::ValueId value, SourceLocation location) {
  value = live_.alias_of[value.index];
  if (buffers_[value.index] != kNone)
    return buffers_[value.index];
  uint32_t origin = live_.origin(value);
  CUGRT_CHECK(origin != kNoOrigin);
  const Base &base = storage_.bases[origin];
  ExprId relative = offset(value);
  Buffer buffer = make(base, relative, value);
  buffer.name = function_.value(value).name;
  buffer.tensor = tensor_number(origin);
  if (function_.value(value).location.known())
    location = function_.value(value).location;
  Status within = check_within(live_.origins[origin], base, relative, buffer, value, location);
  auto matched = matched_.find(value.index);
  if (!within.ok() && matched != matched_.end() && shape(matched->second).bytes.valid()) {
    buffer.bytes = shape(matched->second).bytes; // the host has found them to be equal
    within = check_within(live_.origins[origin], base, relative, buffer, value, location);
  }
  CUGRT_TRY(std::move(within));
  return buffers_[value.index] = add(std::move(buffer));
}

/// Steps must not touch bytes that belong to others, for any value of the symbols.
Status ValueTable::check_within(const Origin &origin, const Base &base, ExprId offset_bytes,
                                const Buffer &buffer, ir::ValueId value, SourceLocation location) {
  ir::ExprPool &exprs = context_.plan.exprs;
  if (!exprs.never_negative(offset_bytes, bounds_))
    return located(Code::verify_error, function_, location,
                   "%" + function_.value(value).name + " may begin before its storage");
  if (base.kind != BufferBase::arena)
    return check_within_source(origin, offset_bytes, buffer, value, location);
  const StorageClass &k = storage_.classes[base.index];
  int64_t upper;
  auto offset = exprs.as_constant(offset_bytes), bytes = exprs.as_constant(buffer.bytes);
  if (!offset || !bytes || __builtin_add_overflow(*offset, *bytes, &upper))
    upper = exprs.range(exprs.add(offset_bytes, buffer.bytes), bounds_).upper;
  if (upper > k.item.bytes && boxes_.count() > 1) { // each bucket may have its own place
    upper = 0;
    for (size_t box = 0; box < boxes_.count(); ++box)
      upper =
          std::max(upper, exprs.range(exprs.add(offset_bytes, buffer.bytes), boxes_[box]).upper);
  }
  const auto ends_within = [&](const ir::Domain &domain) {
    const ExprId end = exprs.add(offset_bytes, buffer.bytes);
    return exprs.never_negative(exprs.sub(exprs.constant(k.item.bytes), end), domain);
  };
  if (upper <= k.item.bytes || ends_within(bounds_))
    return {};
  if (std::string negative = negative_dims(buffer); !negative.empty())
    return located(Code::verify_error, function_, location,
                   "%" + function_.value(value).name + " has no bound in bytes: " + negative);
  const Origin &holder = origin.parent == kNoOrigin ? origin : live_.origins[origin.parent];
  const std::string unbounded = unbounded_extent(buffer, offset_bytes, {});
  return located(
      Code::verify_error, function_, location,
      "%" + function_.value(value).name + " may end " +
          (upper == INT64_MAX ? "beyond" : "at byte " + std::to_string(upper) + " of") + " %" +
          function_.value(holder.value).name + ", which has " + std::to_string(k.item.bytes) +
          " bytes; " +
          (unbounded.empty() ? "make the storage larger or lower the symbols' bounds" : unbounded));
}

/// Two dimensions that may be negative have a product that is not, and larger than any of those
/// that a run may have: which they are, and how to bound them. Empty where there are no two.
std::string ValueTable::negative_dims(const Buffer &buffer) const {
  const ir::ExprPool &exprs = context_.plan.exprs;
  const std::vector<std::string> names = function_.symbol_names();
  std::string list;
  size_t count = 0;
  std::vector<ir::SymbolId> symbols;
  for (size_t i = 0; i < buffer.dims.size(); ++i) {
    if (exprs.range(buffer.dims[i], bounds_).lower >= 0)
      continue;
    list += (count++ ? " and dimension " : "dimension ") + std::to_string(i + 1) + ", '" +
            exprs.to_string(buffer.dims[i], names) + "',";
    exprs.collect_symbols(buffer.dims[i], symbols);
  }
  if (count < 2)
    return "";
  const std::string bounds =
      ir::joined(symbols, [&](ir::SymbolId symbol) { return names[symbol.index] + " = ..."; });
  return list + " may be negative; bound the symbols so that " +
         (count == 2 ? "neither is" : "none is") + " (`lower_bounds = {" + bounds +
         "}` among the attributes of @" + function_.name + ")";
}

/// Names a symbol without an upper bound in a buffer's offset and dimensions, except symbols of
/// `whole`, the memory around it, which grows with them.
std::string ValueTable::unbounded_extent(const Buffer &buffer, ExprId offset_bytes,
                                         ExprId whole) const {
  const ir::ExprPool &exprs = context_.plan.exprs;
  std::vector<ir::SymbolId> symbols, known;
  exprs.collect_symbols(offset_bytes, symbols);
  for (ExprId dim : buffer.dims)
    exprs.collect_symbols(dim, symbols);
  if (whole.valid())
    exprs.collect_symbols(whole, known);
  llvm::erase_if(symbols, [&](ir::SymbolId symbol) { return llvm::is_contained(known, symbol); });
  return unbounded_symbol(symbols, function_, bounds_);
}

/// The source of a view has a size of its own; where its shape is not known, there is none to hold
/// the view against.
Status ValueTable::check_within_source(const Origin &origin, ExprId offset_bytes,
                                       const Buffer &buffer, ir::ValueId value,
                                       SourceLocation location) {
  ir::ExprPool &exprs = context_.plan.exprs;
  if (type(origin.value).kind != TypeKind::tensor || !buffer.bytes.valid())
    return {};
  // A call may give a part of a constant: the first name of its bytes names but that.
  const ExprId whole = origin.kind == OriginKind::constant
                           ? context_.tensor(context_.module.constants[origin.index].type).bytes
                           : shape(origin.value).bytes;
  if (!whole.valid())
    return {};
  for (size_t box = 0; box < boxes_.count(); ++box)
    if (!lies_within(exprs, buffer, offset_bytes, whole, boxes_[box], matched_symbols_)) {
      const std::string unbounded = unbounded_extent(buffer, offset_bytes, whole);
      const std::string offset = exprs.to_string(offset_bytes, function_.symbol_names());
      return located(Code::verify_error, function_, location,
                     "%" + function_.value(value).name + " may end beyond %" +
                         function_.value(origin.value).name + ", of which it is a part; " +
                         (unbounded.empty() ? "bound the symbols of its offset '" + offset +
                                                  "' and of its dimensions more closely, from "
                                                  "below as well"
                                            : unbounded));
    }
  return {};
}

uint32_t ValueTable::workspace(uint32_t storage_class, ExprId bytes, std::string name) {
  Base base{BufferBase::arena, storage_class};
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.index = context_.storage.arena_of_scope[storage_.classes[storage_class].scope];
  buffer.offset_bytes = context_.plan.exprs.constant(base_bytes(base));
  buffer.bytes = bytes;
  buffer.dtype = ir::DType::u8;
  buffer.dims = {bytes};
  buffer.tensor = tensor_number(uint32_t(live_.origins.size()) + storage_class);
  return add(std::move(buffer));
}

uint32_t ValueTable::temporary(uint32_t storage_class, uint32_t like) {
  Buffer buffer = out_.buffers[like];
  buffer.name += ".next";
  buffer.base = BufferBase::arena;
  buffer.index = context_.storage.arena_of_scope[storage_.classes[storage_class].scope];
  buffer.offset_bytes =
      context_.plan.exprs.constant(base_bytes({BufferBase::arena, storage_class}));
  buffer.tensor = tensor_number(uint32_t(live_.origins.size()) + storage_class);
  return add(std::move(buffer));
}

uint32_t ValueTable::result_slot(uint32_t slot, uint32_t like, ExprId offset_bytes) {
  Buffer buffer = out_.buffers[like];
  buffer.name = "result" + std::to_string(out_.slots[slot].index);
  buffer.base = BufferBase::slot;
  buffer.index = slot;
  buffer.offset_bytes = offset_bytes;
  buffer.tensor = uint32_t(live_.origins.size() + storage_.classes.size()) + slot;
  return add(std::move(buffer));
}

void ValueTable::clear() {
  offsets_ = {};
  buffers_ = {};
  refs_ = {};
}

void ValueTable::begin_again(ir::Range blocks) {
  ++again_;
  next_number_ = std::max(next_number_, uint32_t(live_.origins.size() + storage_.classes.size() +
                                                 storage_.slots.size()));
  // Workspaces and temporaries belong to one launch or loop each.
  renumbered_.erase(renumbered_.lower_bound(uint32_t(live_.origins.size())), renumbered_.end());
  forget(blocks);
}

void ValueTable::forget(ir::Range blocks) {
  for (uint32_t block = blocks.begin; block < blocks.end(); ++block)
    for (const ir::Binding &b : function_.blocks[block].bindings) {
      for (uint32_t i = 0; i < b.result_count; ++i) {
        buffers_[b.result(i).index] = kNone;
        uint32_t origin = live_.origin(b.result(i));
        if (origin != kNoOrigin && live_.origins[origin].value == b.result(i))
          renumbered_[origin] = next_number_++;
      }
      forget(b.blocks);
    }
}

uint32_t ValueTable::tensor_number(uint32_t number) {
  if (again_ == 0)
    return number;
  if (number >= live_.origins.size()) {
    auto [entry, added] = renumbered_.try_emplace(number, next_number_);
    next_number_ += added;
    return entry->second;
  }
  auto found = renumbered_.find(number);
  return found == renumbered_.end() ? number : found->second;
}

void ValueTable::set_element(SymbolId symbol, ir::ValueId tensor, ExprId index) {
  ir::ExprPool &exprs = context_.plan.exprs;
  uint32_t origin = live_.origin(tensor);
  ExprId bytes = exprs.constant(ir::info(type(tensor).dtype).bytes_per_block);
  Buffer buffer =
      make(storage_.bases[origin], exprs.add(offset(tensor), exprs.mul(index, bytes)), tensor);
  buffer.dims.clear();
  buffer.strides.clear();
  buffer.bytes = bytes;
  buffer.name = function_.value(tensor).name + "." + function_.symbols[symbol.index].name;
  buffer.tensor = tensor_number(origin);
  elements_[symbol.index] = add(std::move(buffer));
}

Result<uint32_t> ValueTable::element(SymbolId symbol, SourceLocation location) {
  if (symbol.index < elements_.size() && elements_[symbol.index] != kNone)
    return elements_[symbol.index];
  return located(Code::verify_error, function_, location,
                 "a device_symbol parameter takes the symbol of a read binding");
}

bool ValueTable::is_dynamic(ir::ValueId value) const {
  uint32_t origin = live_.origin(value);
  return origin != kNoOrigin && storage_.bases[origin].kind == BufferBase::dynamic;
}

std::string ValueTable::write_protection(ir::ValueId value) const {
  uint32_t origin = live_.origin(value);
  if (origin == kNoOrigin)
    return "no tensor";
  const Origin &o = live_.origins[origin];
  if (o.kind == OriginKind::constant)
    return "a constant";
  if (o.kind != OriginKind::parameter)
    return "";
  if (storage_.bases[origin].kind == BufferBase::weight)
    return "a weight";
  return ir::writes(function_.params[o.index].access)
             ? ""
             : "an input; declare the parameter inout or out";
}

// --- Host values ---------------------------------------------------------------------------------

uint32_t ValueTable::add_host_value(HostValue value) {
  out_.host_values.push_back(value);
  return uint32_t(out_.host_values.size() - 1);
}

uint32_t ValueTable::add_list(std::vector<OperandRef> list) {
  out_.lists.push_back(std::move(list));
  return uint32_t(out_.lists.size() - 1);
}

OperandRef ValueTable::define_host(ir::ValueId value) {
  const ir::Type &t = type(value);
  HostValueKind kind =
      t.kind == TypeKind::scalar ? HostValueKind::host_result : HostValueKind::object;
  OperandRef ref{OperandRef::Kind::host_value, add_host_value({kind, t.scalar, 0, 0})};
  set_ref(value, ref);
  return ref;
}

Result<OperandRef> ValueTable::ref(ir::ValueId value, SourceLocation location) {
  value = live_.alias_of[value.index];
  if (type(value).kind == TypeKind::tensor) {
    CUGRT_ASSIGN(uint32_t index, buffer(value, location));
    return OperandRef{OperandRef::Kind::buffer, index};
  }
  if (type(value).kind != TypeKind::tuple)
    return refs_[value.index];
  std::vector<OperandRef> list;
  ir::Range fields = live_.fields_of[value.index];
  for (uint32_t i = fields.begin; i < fields.end(); ++i) {
    CUGRT_ASSIGN(OperandRef field, ref(live_.fields[i], location));
    list.push_back(field);
  }
  return OperandRef{OperandRef::Kind::list, add_list(std::move(list))};
}

namespace {

/// A literal as an operand.
struct LiteralRef {
  ValueTable &values;
  Function &out;
  ir::ExprPool &exprs;

  OperandRef host(ir::ScalarKind scalar, uint64_t bits) const {
    return {OperandRef::Kind::host_value,
            values.add_host_value({HostValueKind::literal, scalar, 0, bits})};
  }
  OperandRef operator()(bool value) const { return host(ir::ScalarKind::boolean, value); }
  OperandRef operator()(int64_t value) const {
    return host(ir::ScalarKind::integer, uint64_t(value));
  }
  OperandRef operator()(double value) const {
    return host(ir::ScalarKind::floating, std::bit_cast<uint64_t>(value));
  }
  OperandRef operator()(const std::string &value) const {
    out.strings.push_back(value);
    return {OperandRef::Kind::string, uint32_t(out.strings.size() - 1)};
  }
  OperandRef operator()(const ir::DTypeLiteral &value) const {
    return {OperandRef::Kind::dtype, uint32_t(value.dtype)};
  }
  template <class T> OperandRef operator()(const std::vector<T> &value) const {
    std::vector<OperandRef> list;
    for (const T &element : value)
      list.push_back((*this)(element));
    return {OperandRef::Kind::list, values.add_list(std::move(list))};
  }
};

} // namespace

Result<OperandRef> ValueTable::ref(const Operand &operand, SourceLocation location) {
  switch (operand.kind) {
  case Operand::Kind::none:
    return OperandRef{};
  case Operand::Kind::value:
    return ref(operand.value(), location);
  case Operand::Kind::expr:
    return OperandRef{OperandRef::Kind::expr, context_.copy(operand.expr()).index};
  case Operand::Kind::function:
    return located(Code::verify_error, function_, location,
                   "a function is an operand of the cuda_graph builtins only");
  case Operand::Kind::literal:
    return std::visit(LiteralRef{*this, out_, context_.plan.exprs},
                      context_.module.literals[operand.index]);
  }
  return OperandRef{};
}

} // namespace cugrt::plan
