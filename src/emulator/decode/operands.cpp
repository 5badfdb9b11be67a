// Operands to cells. Types come from instructions; a register's must agree. Where a register may be
// wider than the instruction's type, the value is narrowed or widened.
#include "emulator/decode/lower/lowering.h"
#include "emulator/decode/requirements.h"
#include "emulator/exec/units/cluster.h"

#include <algorithm>
#include <bit>

namespace cugrt::emulator {

namespace {

struct SpecialName {
  std::string_view name;
  Special special;
};

constexpr SpecialName kSpecials[] = {
#define SPECIAL(id, name, ...) {name, Special::id},
#include "emulator/exec/warps/special_registers.def"
    {"%clock_hi", Special::zero},
    {"%globaltimer_lo", Special::clock},
};

/// Registers of reserved shared memory; the last two give the used parts.
struct ReservedName {
  std::string_view name;
  uint32_t value;
};
constexpr ReservedName kReserved[] = {
    {"%reserved_smem_offset_begin", kReservedShared},
    {"%reserved_smem_offset_end", kReservedShared + kReservedSharedBytes},
    {"%reserved_smem_offset_cap", kReservedSharedBytes},
    {"%reserved_smem_offset_0", kReservedShared},
    {"%reserved_smem_offset_1", kReservedShared + kReservedSharedBytes / 2},
};

/// A literal's bits for an instruction of type `type`.
uint64_t literal_bits(const ptx::Operand &operand, ptx::Type type) {
  uint64_t bits = uint64_t(operand.value);
  if (operand.kind == ptx::Operand::Kind::integer) {
    if (type == ptx::Type::pred)
      return bits ? ~uint64_t(0) : 0;
    if (type == ptx::Type::f32)
      return std::bit_cast<uint32_t>(float(operand.value));
    if (type == ptx::Type::f64)
      return std::bit_cast<uint64_t>(double(operand.value));
    return bits;
  }
  bool wants_double = ptx::type_bytes(type) == 8;
  if (operand.is_float == !wants_double)
    return bits;
  if (operand.is_float)
    return std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(bits))));
  return std::bit_cast<uint32_t>(float(std::bit_cast<double>(bits)));
}

/// Whether a register of type `held` may stand for a value of type `type` and the same size.
bool same_kind(ptx::Type held, ptx::Type type) {
  using ptx::Type;
  if (is_bits(held) || held == type)
    return true;
  if (is_float(type))
    return false;
  return (is_bits(type) && !is_integer_pair(type)) || !is_float(held) || held == Type::f16x2;
}

} // namespace

/// The ISA's type checking rules: the sizes are the same, and the kinds too unless one of them is
/// bits. Its relaxed rules: ld, st and cvt take larger registers, for floats only larger bits.
Status Lowering::check_register(const Operand &operand, Type type, Width width) const {
  const Type held = function_.registers[size_t(operand.index)].type;
  auto refuse = [&](const char *why) {
    return error("'" + std::string(operand.name) + "' is " + why);
  };
  if (held == Type::b128)
    return refuse("a register of another type");
  if ((held == Type::pred) != (type == Type::pred))
    return refuse(type == Type::pred ? "no predicate" : "a predicate");
  const uint32_t has = ptx::type_bytes(held), needs = ptx::type_bytes(type);
  if ((width == Width::integer && is_float(held)) ||
      (is_integer_pair(type) && !is_bits(held) && held != Type::f16x2))
    return refuse("a register of another type");
  if (has < needs)
    return refuse("too narrow");
  if (has == needs ? same_kind(held, type)
                   : width == Width::any_above && (is_bits(type) || is_bits(held) ||
                                                   (!is_float(type) && same_kind(held, type))))
    return {};
  return refuse("a register of another type");
}

/// Floats are written as floats and integers as integers; bits as integers, or as a float of their
/// size.
Status Lowering::check_literal(const Operand &operand, Type type, Width width) const {
  const bool is_real = operand.kind == Kind::real;
  if (is_real && width == Width::integer)
    return error("a literal of another type");
  const bool fits = type == Type::f32 || type == Type::f64    ? is_real
                    : is_float(type) || is_integer_pair(type) ? false
                    : is_real ? type == (operand.is_float ? Type::b32 : Type::b64)
                              : true;
  return fits ? Status() : error("a literal of another type");
}

/// The address of a variable or function as a value.
Status Lowering::check_address_value(const Operand &operand, Type type) const {
  const std::string_view mnemonic = instruction_->opcode;
  if (mnemonic.substr(0, 4) != "mov." && mnemonic.substr(0, 5) != "cvta.")
    return error("the address of '" + std::string(operand.name.substr(0, 80)) +
                 "' is taken by mov and cvta alone");
  if (is_float(type) || type == Type::pred)
    return error("an address of another type");
  return {};
}

Result<uint32_t> Lowering::special_source(const Operand &operand, Type type, Width width) {
  const std::string_view mnemonic = instruction_->opcode.substr(0, 4);
  if (mnemonic != "mov." && mnemonic != "cvt.")
    return error("'" + std::string(operand.name.substr(0, 80)) + "' is read by mov and cvt alone");
  // %tid and its like had 16 bits once, %gridid too.
  const std::string_view own = operand.name;
  const bool may_be_wide = own == "%clock64" || own == "%globaltimer" || own == "%gridid";
  const bool may_be_word = !may_be_wide || own == "%gridid";
  const bool may_be_half = own == "%gridid" || own.substr(0, 4) == "%tid" ||
                           own.substr(0, 5) == "%ntid" || own.substr(0, 6) == "%ctaid" ||
                           own.substr(0, 7) == "%nctaid";
  const uint32_t bytes = ptx::type_bytes(type);
  const bool is_predicate = own == "%is_explicit_cluster";
  if (is_float(type) || (type == Type::pred) != is_predicate ||
      (!is_predicate && (width == Width::any_above ? bytes == 8 && !may_be_wide
                         : bytes == 8              ? !may_be_wide
                         : bytes == 4              ? !may_be_word
                                                   : !may_be_half)))
    return error("'" + std::string(operand.name.substr(0, 80)) + "' is a register of another type");
  for (const SpecialName &row : kSpecials) {
    if (row.name != operand.name)
      continue;
    if (std::string lacks = lacking_for_register(row.name, module_.target, module_.version);
        !lacks.empty())
      return error("'" + std::string(row.name) + "' " + lacks);
    if (row.special != Special::clock && row.special != Special::clock64 &&
        row.special != Special::globaltimer)
      return special_cell(row.special);
    bool wide = row.special != Special::clock;
    uint32_t cell = temporary(wide ? 64 : 32);
    emit(OpId::clock, cell, 0).flags |= wide ? kFlagWide : 0;
    return cell;
  }
  for (const ReservedName &row : kReserved) {
    if (row.name != operand.name)
      continue;
    if (std::string lacks = lacking_for_register(row.name, module_.target, module_.version);
        !lacks.empty())
      return error("'" + std::string(row.name) + "' " + lacks);
    return constant_cell(row.value, false);
  }
  std::string name(operand.name.substr(0, 80));
  for (std::string_view known : {"%envreg", "%pm", "%aggr_smem_size", "%current_graph_exec"})
    if (operand.name.substr(0, known.size()) == known)
      return unsupported("the register " + name);
  return error("'" + name + "' is not declared");
}

/// Offset of a shared variable in the block's shared memory, for the kernel being decoded.
Result<uint32_t> Lowering::shared_offset(const Operand &operand) {
  if (!operand.is_module)
    return offsets_[size_t(operand.index)];
  uint32_t index = uint32_t(operand.index);
  if (auto it = placement_.function_shared.find(index); it != placement_.function_shared.end())
    return it->second;
  auto [it, inserted] = module_shared_.try_emplace(index, 0);
  if (inserted) {
    const ptx::Variable &variable = module_.variables[index];
    constexpr uint64_t kMaxSharedBytes = 16u << 20;
    uint32_t mask = variable.align - 1;
    it->second = (needs_.static_shared_bytes + mask) & ~mask;
    if (variable.bytes > kMaxSharedBytes || it->second + variable.bytes > kMaxSharedBytes)
      return error("more than 16 MiB of shared memory");
    needs_.static_shared_bytes = it->second + uint32_t(variable.bytes);
  }
  return it->second;
}

/// The address of a variable as a value.
Result<uint32_t> Lowering::variable_source(const Operand &operand, uint32_t bits) {
  const ptx::Variable &variable = operand.is_module ? module_.variables[size_t(operand.index)]
                                                    : function_.variables[size_t(operand.index)];
  bool wide = bits == 64;
  switch (variable.space) {
  case Space::global:
  case Space::constant: {
    uint64_t address = placement_.address[size_t(operand.index)];
    if (address == 0)
      return error("'" + std::string(variable.name) + "' is declared here and defined nowhere");
    return constant_cell(address + uint64_t(operand.value), true);
  }
  case Space::shared: {
    if (variable.bytes == 0 && operand.is_module) { // dynamic shared memory: behind the static part
      uint32_t cell = special_cell(Special::dynamic_base);
      if (operand.value) {
        uint32_t sum = temporary(32);
        emit(OpId::add_32, sum, cell, constant_cell(uint64_t(operand.value), false));
        cell = sum;
      }
      if (!wide)
        return cell;
      uint32_t widened = temporary(64);
      emit(OpId::widen_u, widened, cell);
      return widened;
    }
    CUGRT_ASSIGN(uint32_t offset, shared_offset(operand));
    return constant_cell(offset + uint64_t(operand.value), wide);
  }
  case Space::local: {
    uint64_t offset = offsets_[size_t(operand.index)] + uint64_t(operand.value);
    if (function_.is_kernel)
      return constant_cell(offset, wide);
    uint32_t cell = temporary(bits);
    Op &op = emit(OpId::local_address, cell, 0);
    op.imm = int64_t(offset);
    op.flags |= wide ? kFlagWide : 0;
    return cell;
  }
  default:
    if (places_[size_t(operand.index)] != kNoCell)
      return unsupported("the address of a parameter of a function that is not a kernel");
    return constant_cell(offsets_[size_t(operand.index)] + uint64_t(operand.value), wide);
  }
}

Result<uint32_t> Lowering::source(const Operand &operand, Type type, Width width) {
  uint32_t bits = lane_bits(type);
  if (operand.is_address)
    return error("an address in brackets as a value");
  if (operand.index2 >= 0)
    return error("a predicate besides a value");
  if (operand.is_negated && (operand.kind != Kind::reg || type != Type::pred))
    return error("the negation of what is no predicate");
  switch (operand.kind) {
  case Kind::reg: {
    CUGRT_TRY(check_register(operand, type, width));
    uint32_t index = uint32_t(operand.index), cell = register_cell(index);
    if (register_bits(index) == 64 && bits == 32) {
      uint32_t narrow = temporary(32);
      emit(OpId::narrow, narrow, cell);
      cell = narrow;
    }
    if (operand.is_negated) {
      uint32_t negated = temporary(32);
      emit(OpId::not_32, negated, cell);
      cell = negated;
    }
    return cell;
  }
  case Kind::integer:
  case Kind::real:
    CUGRT_TRY(check_literal(operand, type, width));
    return constant_cell(literal_bits(operand, type), bits == 64);
  case Kind::special: {
    CUGRT_ASSIGN(uint32_t cell, special_source(operand, type, width));
    bool wide = operand.name == "%clock64" || operand.name == "%globaltimer";
    if (wide == (bits == 64))
      return cell;
    uint32_t converted = temporary(bits);
    emit(wide ? OpId::narrow : OpId::widen_u, converted, cell);
    return converted;
  }
  case Kind::variable:
    CUGRT_TRY(check_address_value(operand, type));
    return variable_source(operand, bits);
  case Kind::function:
    CUGRT_TRY(check_address_value(operand, type));
    if (const ptx::Function &function = module_.functions[size_t(operand.index)];
        function.is_declaration)
      return error("the address of '" + std::string(function.name) +
                   "', which is declared here and defined nowhere");
    return constant_cell(uint64_t(operand.index) + 1, bits == 64);
  default:
    return error("an operand that is no value");
  }
}

Result<Lowering::Destination> Lowering::destination(const Operand &operand, Type type,
                                                    Width width) {
  uint32_t bits = lane_bits(type);
  Destination result;
  result.is_signed = is_signed(type);
  if (operand.kind == Kind::sink)
    return error("a result that is not stored");
  if (operand.kind != Kind::reg || operand.is_negated || operand.is_address)
    return error("a destination that is no register");
  if (operand.index2 >= 0)
    return error("a predicate besides the result");
  CUGRT_TRY(check_register(operand, type, width));
  uint32_t index = uint32_t(operand.index);
  if (register_bits(index) == bits) {
    result.cell = register_cell(index);
    return result;
  }
  result.cell = temporary(bits);
  result.widen_to = register_cell(index);
  return result;
}

Result<Lowering::Destination> Lowering::destination_or_sink(const Operand &operand, Type type,
                                                            Width width) {
  if (operand.kind != Kind::sink || operand.index2 >= 0)
    return destination(operand, type, width);
  Destination result;
  result.cell = temporary(lane_bits(type));
  return result;
}

Lowering::Pair Lowering::pair(const Operand &operand) const {
  Pair parts{operand, operand};
  parts.first.index2 = parts.second.index2 = -1;
  parts.second.kind = operand.index2 >= 0 ? Kind::reg : Kind::sink;
  parts.second.index = operand.index2;
  if (operand.index2 >= 0)
    parts.second.name = function_.registers[size_t(operand.index2)].name;
  return parts;
}

void Lowering::finish(const Destination &destination) {
  if (destination.widen_to != kNoCell)
    emit(destination.is_signed ? OpId::widen_s : OpId::widen_u, destination.widen_to,
         destination.cell);
}

Status Lowering::emit_result(OpId id, Type type, std::array<uint32_t, 4> cells, Width width,
                             uint16_t flags) {
  CUGRT_ASSIGN(Destination d, destination(operand(0), type, width));
  emit(id, d.cell, cells[0], cells[1], cells[2], cells[3]).flags |= flags;
  finish(d);
  return {};
}

Result<uint32_t> Lowering::predicate_destination(const Operand &operand) {
  CUGRT_ASSIGN(Destination result, destination_or_sink(operand, Type::pred));
  return result.cell;
}

Result<Lowering::Address> Lowering::address(const Operand &operand, Space space) {
  Address result;
  result.space = space == Space::constant ? Space::global : space; // where its variables lie
  if (!operand.is_address && !operand.is_element)
    return error("expected an address in brackets");
  if (operand.kind == Kind::reg) {
    uint32_t index = uint32_t(operand.index);
    result.cell = register_cell(index);
    result.wide = register_bits(index) == 64;
    result.offset = operand.value;
    if (Type held = function_.registers[index].type; held == Type::pred || is_float(held))
      return error("a register that is no integer as an address");
    bool may_be_narrow = space == Space::shared || space == Space::local;
    if (!result.wide && !may_be_narrow) {
      uint32_t widened = temporary(64);
      emit(OpId::widen_u, widened, result.cell);
      result.cell = widened;
      result.wide = true;
    }
    return result;
  }
  if (operand.kind == Kind::integer) {
    if (space != Space::local)
      return error("a number as an address, which local memory alone has");
    result.cell = constant_cell(uint64_t(operand.value), true);
    return result;
  }
  const ptx::Variable &variable = operand.is_module ? module_.variables[size_t(operand.index)]
                                                    : function_.variables[size_t(operand.index)];
  if (variable.space == Space::param && space == Space::param) {
    result.is_place = true;
    result.place = uint32_t(operand.index);
    result.offset = operand.value;
    return result;
  }
  if (space != Space::none && variable.space != space)
    return error("'" + std::string(variable.name) + "' is not in this space");
  if (space == Space::none && (variable.space == Space::constant || variable.space == Space::param))
    return error("'" + std::string(variable.name) + "' has no generic address of its own");
  Operand base = operand;
  result.offset = 0;
  if (variable.space == Space::shared && variable.bytes == 0) {
    base.value = 0; // leaves the offset to the access
    result.offset = operand.value;
  }
  // A generic access to a named variable is one to the variable's own space.
  result.space = variable.space == Space::constant ? Space::global : variable.space;
  bool narrow = variable.space == Space::shared;
  CUGRT_ASSIGN(result.cell, variable_source(base, narrow ? 32 : 64));
  result.wide = !narrow;
  return result;
}

/// {a, b} or a single operand. Registers in braces are of one size.
Result<std::vector<const ptx::Operand *>> Lowering::elements(const Operand &operand, size_t max) {
  std::vector<const Operand *> result;
  if (operand.kind != Kind::vector) {
    result.push_back(&operand);
    return result;
  }
  if (operand.count == 0 || operand.count > max)
    return error("a vector of " + std::to_string(operand.count) + " elements");
  for (uint32_t i = 0; i < operand.count; ++i)
    result.push_back(&function_.elements[operand.first + i]);
  uint32_t bytes = 0;
  for (const Operand *part : result)
    if (part->kind == Kind::reg) {
      const uint32_t own = ptx::type_bytes(function_.registers[size_t(part->index)].type);
      if (bytes && bytes != own)
        return error("registers of different sizes in a vector");
      bytes = own;
    }
  if (std::all_of(result.begin(), result.end(),
                  [](const Operand *part) { return part->kind == Kind::sink; }))
    return error("a vector of which nothing is stored");
  return result;
}

/// Integers and floats do not stand in one vector; bits go with either.
Status Lowering::check_agreement(const std::vector<const Operand *> &parts) const {
  Type floats = Type::none; // that stand in it
  bool integers = false;
  for (const Operand *part : parts) {
    if (part->kind == Kind::special)
      return error("a special register in a vector");
    const Type held = part->kind == Kind::reg       ? function_.registers[size_t(part->index)].type
                      : part->kind == Kind::real    ? Type::f32
                      : part->kind == Kind::integer ? Type::u32
                                                    : Type::none;
    if (is_float(held)) {
      if (floats != Type::none && floats != held && part->kind != Kind::real)
        return error("floats of different types in one vector");
      floats = held;
    }
    integers |= held != Type::none && !is_float(held) && !is_bits(held);
  }
  return integers && floats != Type::none ? error("integers and floats in one vector") : Status();
}

Result<uint32_t> Lowering::integer_constant(const Operand &operand) {
  if (operand.kind != Kind::integer || operand.is_address || operand.value < 0 ||
      operand.value > INT32_MAX)
    return error("expected a constant that is not negative");
  return uint32_t(operand.value);
}

} // namespace cugrt::emulator
