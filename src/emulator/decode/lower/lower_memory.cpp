// Loads, stores, atomics, asynchronous copies, address spaces, parameters.
#include "emulator/decode/lower/lowering.h"

#include <algorithm>

namespace cugrt::emulator {

namespace {

using ptx::Space;
using ptx::Type;

/// Takes the state space out; Space::none is generic.
Space take_space(Opcode &opcode) {
  Space space = opcode.take_prefix("global")   ? Space::global
                : opcode.take_prefix("shared") ? Space::shared
                : opcode.take_prefix("local")  ? Space::local
                : opcode.take_prefix("param")  ? Space::param
                : opcode.take_prefix("const")  ? Space::constant
                                               : Space::none;
  return space;
}

/// The shared memory of all blocks of the cluster, rather than of the block.
bool names_cluster(const Opcode &opcode) { return opcode.has("shared::cluster"); }

/// Takes what says how strong an access is, and says how it must be made.
uint16_t take_ordering(Opcode &opcode) {
  uint16_t flags = 0;
  for (std::string_view name :
       {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "sc"})
    flags |= opcode.take(name) ? kFlagVolatile : 0;
  opcode.take("weak");
  for (std::string_view scope : {"cta", "cluster", "gpu", "sys"})
    opcode.take(scope);
  return flags;
}

/// Takes cache hints; true when a cache policy follows as the last operand.
bool take_hints(Opcode &opcode) {
  bool policy = opcode.take("L2::cache_hint");
  opcode.take_prefix("L1::");
  opcode.take_prefix("L2::");
  for (std::string_view name : {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "uni"})
    opcode.take(name);
  return policy;
}

/// The element type of the tables' memory rows.
std::string_view memory_type(Type type, bool is_store) {
  switch (ptx::type_bytes(type)) {
  case 1:
    return type == Type::s8 && !is_store ? "s8" : "u8";
  case 2:
    return type == Type::s16 && !is_store ? "s16" : "u16";
  case 4:
    return "u32";
  default:
    return "u64";
  }
}

} // namespace

/// An address in the window of shared memory becomes a generic one, which reaches other blocks'.
void Lowering::reach_cluster(Address &where) {
  uint32_t cell = where.cell;
  if (!where.wide) {
    cell = temporary(64);
    emit(OpId::widen_u, cell, where.cell);
  }
  uint32_t shifted = temporary(64);
  emit(OpId::add_64, shifted, cell, constant_cell(kSharedWindow, true));
  where.cell = shifted;
  where.wide = true;
  where.space = Space::none;
}

Status Lowering::lower_ld(Opcode &opcode) { return lower_access(opcode, false); }
Status Lowering::lower_st(Opcode &opcode) { return lower_access(opcode, true); }

Status Lowering::lower_access(Opcode &opcode, bool is_store) {
  bool is_const = opcode.has("const");
  bool policy = take_hints(opcode);
  uint16_t flags = take_ordering(opcode);
  const bool of_cluster = names_cluster(opcode);
  Space space = take_space(opcode);
  size_t count = opcode.take("v2") ? 2 : opcode.take("v4") ? 4 : 1;
  Type type = opcode.take_type();
  const bool is_wide = type == Type::b128 && count == 1; // moved as two of 64 bits
  if (opcode.size() != 0 || type == Type::none || type == Type::pred ||
      (ptx::type_bytes(type) > 8 && !is_wide) || (is_const && is_store))
    return refuse();
  if (is_const && count == 4 && ptx::type_bytes(type) == 8)
    return error("a vector of 32 bytes outside global memory");
  size_t operands = policy ? 3 : 2;
  CUGRT_TRY(expect_operands(operands, operands));
  if (policy)
    CUGRT_TRY(source(operand(2), Type::b64, Width::integer).take_status());
  const Operand &place = operand(is_store ? 0 : 1), &value = operand(is_store ? 1 : 0);
  CUGRT_ASSIGN(std::vector<const Operand *> values, elements(value, 4));
  if (values.size() != count)
    return error("expected " + std::to_string(count) + " elements");
  CUGRT_ASSIGN(Address where, address(place, space));
  if (where.is_place && is_wide)
    return refuse();
  if (where.is_place)
    return lower_param_access(where, is_store, type, values);
  uint32_t cells[4] = {};
  if (is_wide) {
    CUGRT_ASSIGN(auto halves, wide_cells(value));
    std::copy(halves.begin(), halves.end(), cells);
    type = Type::u64;
    count = 2;
    values.clear();
  }
  if (where.space == Space::param) { // through a register: the window of generic addresses
    uint32_t shifted = temporary(64);
    emit(OpId::add_64, shifted, where.cell, constant_cell(kParamWindow, true));
    where.cell = shifted;
    where.space = Space::none;
  }
  if (of_cluster)
    reach_cluster(where);
  if (where.space == Space::none && !where.wide)
    return error("a generic address of 32 bits");
  std::string name = (is_store ? "st." : "ld.") + std::string(ptx::space_name(where.space)) + "." +
                     std::string(memory_type(type, is_store)) + ".v" + std::to_string(count);
  auto id = find_op(name);
  if (!id)
    return refuse();
  CUGRT_ASSIGN(std::vector<Destination> destinations, moved_cells(values, is_store, type, cells));
  Op &op = emit(*id, cells[0], where.cell, cells[1], cells[2], cells[3]);
  op.imm = where.offset;
  op.flags |= uint16_t(flags | (where.wide ? kFlagWide : 0));
  op.cache = next_cache();
  for (const Destination &d : destinations)
    finish(d);
  return {};
}

/// The cells that a load or store moves; for a load also the operations that must follow.
Result<std::vector<Lowering::Destination>>
Lowering::moved_cells(std::span<const Operand *const> values, bool is_store, Type type,
                      uint32_t *cells) {
  std::vector<Destination> destinations;
  for (const Operand *value : values) {
    if (is_store) {
      CUGRT_ASSIGN(*cells++, source(*value, type, Width::any_above));
      continue;
    }
    CUGRT_ASSIGN(Destination d, values.size() == 1
                                    ? destination(*value, type, Width::any_above)
                                    : destination_or_sink(*value, type, Width::any_above));
    *cells++ = d.cell;
    destinations.push_back(d);
  }
  return destinations;
}

Status Lowering::lower_param_access(const Address &where, bool is_store, Type type,
                                    std::span<const Operand *const> values) {
  const ptx::Variable &variable = function_.variables[where.place];
  ParamElement element{ptx::type_bytes(type), uint32_t(values.size()), is_signed(type)};
  uint64_t bytes = uint64_t(element.bytes) * element.count;
  if (where.offset < 0 || uint64_t(where.offset) + bytes > variable.bytes)
    return error("beyond parameter '" + std::string(variable.name) + "' of " +
                 std::to_string(variable.bytes) + " bytes");
  bool of_kernel = places_[where.place] == kNoCell;
  if (of_kernel && is_store)
    return error("a store to a kernel's parameter");
  uint32_t cells[4] = {};
  CUGRT_ASSIGN(std::vector<Destination> destinations, moved_cells(values, is_store, type, cells));
  Op &op = emit(is_store    ? OpId::st_call_param
                : of_kernel ? OpId::ld_kernel_param
                            : OpId::ld_call_param,
                cells[0], 0, cells[1], cells[2], cells[3]);
  op.cache = element.pack();
  if (of_kernel) {
    op.imm = int64_t(offsets_[where.place]) + where.offset;
  } else {
    op.a = places_[where.place];
    op.imm = int64_t(variable.bytes << 32 | uint64_t(where.offset));
  }
  for (const Destination &d : destinations)
    finish(d);
  return {};
}

/// atom{.sem}{.scope}{.space}.op.type d, [a], b {, c}; red has no d.
Status Lowering::lower_atom(Opcode &opcode) {
  bool has_result = opcode.mnemonic() == "atom";
  bool policy = take_hints(opcode);
  take_ordering(opcode);
  const bool of_cluster = names_cluster(opcode);
  Space space = take_space(opcode);
  Type type = opcode.last_type();
  std::string name = opcode.name();
  if (!has_result)
    name.replace(0, 3, "atom");
  auto id = find_op(name);
  if (!id)
    return refuse();
  bool swaps = opcode.has("cas");
  size_t count = 2 + size_t(has_result) + size_t(swaps) + size_t(policy);
  CUGRT_TRY(expect_operands(count, count));
  if (policy)
    CUGRT_TRY(source(operand(count - 1), Type::b64, Width::integer).take_status());
  size_t next = has_result ? 1 : 0;
  CUGRT_ASSIGN(Address where, address(operand(next), space));
  if (where.is_place || where.space == Space::param)
    return refuse();
  if (of_cluster)
    reach_cluster(where);
  if (type == Type::b128)
    return lower_wide_atom(*id, where, count - size_t(policy));
  CUGRT_ASSIGN(uint32_t b, source(operand(next + 1), type));
  uint32_t c = b;
  if (swaps) {
    CUGRT_ASSIGN(c, source(operand(next + 2), type));
  }
  Operand nowhere;
  nowhere.kind = Kind::sink;
  CUGRT_ASSIGN(Destination d, destination_or_sink(has_result ? operand(0) : nowhere, type));
  Op &op = emit(*id, d.cell, where.cell, b, c);
  op.imm = where.offset;
  op.flags |= uint16_t(uint16_t(where.space) << kSpaceShift | (where.wide ? kFlagWide : 0));
  // Locks are taken by cas and exch, and what adds or ors 0 only reads.
  const Operand &change = operand(next + 1);
  if (has_result &&
      (swaps || opcode.has("exch") || (change.kind == Kind::integer && change.value == 0)))
    op.flags |= kFlagVolatile;
  op.cache = next_cache();
  finish(d);
  return {};
}

/// cp.async.{ca,cg}.shared.global [d], [a], bytes {, source bytes or ignore-src}, and its groups.
Status Lowering::lower_cp(Opcode &opcode) {
  if (opcode[0] == "async" && opcode[1] == "bulk")
    return lower_bulk(opcode);
  if (!opcode.take("async"))
    return refuse();
  if (opcode.has("mbarrier"))
    return lower_copy_arrival(opcode);
  if (opcode.size() == 1 && (opcode.has("commit_group") || opcode.has("wait_all"))) {
    CUGRT_TRY(expect_operands(0, 0));
    bool waits = opcode.has("wait_all");
    emit(waits ? OpId::cp_async_wait : OpId::cp_async_commit).flags |= waits ? kFlagWide : 0;
    return {};
  }
  if (opcode.size() == 1 && opcode.has("wait_group")) {
    CUGRT_TRY(expect_operands(1, 1));
    if (operand(0).kind != Kind::integer || operand(0).is_address)
      return error("expected a constant");
    emit(OpId::cp_async_wait).imm = uint32_t(operand(0).value);
    return {};
  }
  const bool bypasses = opcode.has("cg");
  for (size_t i = 0; i < opcode.size() && opcode[i].substr(0, 6) != "shared"; ++i)
    if (opcode[i] == "global")
      return error("what is copied to stands before what is copied from");
  bool policy = take_hints(opcode);
  bool shared = opcode.take("shared") || opcode.take("shared::cta");
  if (!shared || !opcode.take("global") || opcode.size() != 0)
    return refuse();
  size_t count = operand_count() - size_t(policy);
  if (count != 3 && count != 4)
    return error("expected two addresses and a size");
  if (policy)
    CUGRT_TRY(source(operand(count), Type::b64, Width::integer).take_status());
  CUGRT_ASSIGN(Address to, address(operand(0), Space::shared));
  CUGRT_ASSIGN(Address from, address(operand(1), Space::global));
  CUGRT_ASSIGN(uint32_t bytes, integer_constant(operand(2)));
  if (bytes != 4 && bytes != 8 && bytes != 16)
    return error("a copy of " + std::to_string(bytes) + " bytes: 4, 8 and 16 are possible");
  if (bypasses && bytes != 16)
    return error("a copy of " + std::to_string(bytes) + " bytes: with .cg 16 are possible");
  if (to.offset != int32_t(to.offset) || from.offset != int32_t(from.offset))
    return error("an offset beyond 32 bits");
  uint32_t source_bytes = constant_cell(bytes, false);
  if (count == 4) {
    const Operand &last = operand(3);
    if (last.kind == Kind::reg && function_.registers[size_t(last.index)].type == Type::pred) {
      CUGRT_ASSIGN(uint32_t ignored, source(last, Type::pred));
      uint32_t all_bytes = source_bytes;
      source_bytes = temporary(32);
      emit(OpId::selp_32, source_bytes, constant_cell(0, false), all_bytes, ignored);
    } else {
      if (last.kind == Kind::integer && (last.value < 0 || last.value > 16))
        return error("a copy of " + std::to_string(last.value) + " bytes: 0 to 16 are possible");
      CUGRT_ASSIGN(source_bytes, source(last, Type::u32, Width::integer));
    }
  }
  Op &op = emit(OpId::cp_async, to.cell, from.cell, 0, source_bytes, bytes);
  op.imm = int64_t(uint64_t(from.offset) << 32 | uint32_t(to.offset));
  op.flags |= to.wide ? kFlagWide : 0;
  op.cache = next_cache();
  return {};
}

/// Generic addresses of global and constant memory are their own; the others have windows.
Status Lowering::lower_cvta(Opcode &opcode) {
  bool to_space = opcode.take("to");
  Space space = take_space(opcode);
  if (opcode.take_type() != Type::u64 || opcode.size() != 0 || space == Space::none)
    return refuse();
  CUGRT_TRY(expect_operands(2, 2));
  const Operand &from = operand(1);
  if (from.kind == Kind::function)
    return error("an address of another space");
  if (from.kind == Kind::variable) {
    const ptx::Variable &variable = from.is_module ? module_.variables[size_t(from.index)]
                                                   : function_.variables[size_t(from.index)];
    if (variable.space != space || to_space)
      return error("an address of another space");
  }
  CUGRT_ASSIGN(uint32_t a, source(from, Type::u64));
  CUGRT_ASSIGN(Destination d, destination(operand(0), Type::u64));
  uint64_t window = space == Space::shared  ? kSharedWindow
                    : space == Space::local ? kLocalWindow
                    : space == Space::param ? kParamWindow
                                            : 0;
  if (window)
    emit(OpId::add_64, d.cell, a, constant_cell(to_space ? -window : window, true));
  else
    emit(OpId::mov_64, d.cell, a);
  return {};
}

/// mapa{.shared::cluster}.T d, a, rank: a generic address, or one in the window.
Status Lowering::lower_mapa(Opcode &opcode) {
  opcode.take("shared::cluster");
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_TRY(expect_operands(3, 3));
  const Type type = opcode.last_type();
  CUGRT_ASSIGN(uint32_t a, source(operand(1), type, Width::integer));
  CUGRT_ASSIGN(uint32_t rank, source(operand(2), Type::u32, Width::integer));
  return emit_result(id, type, {a, rank}, Width::integer);
}

/// getctarank{.shared::cluster}.T d, a
Status Lowering::lower_getctarank(Opcode &opcode) {
  opcode.take("shared::cluster");
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_TRY(expect_operands(2, 2));
  CUGRT_ASSIGN(uint32_t a, source(operand(1), opcode.last_type(), Width::integer));
  return emit_result(id, Type::u32, {a}, Width::integer);
}

Status Lowering::lower_isspacep(Opcode &opcode) {
  const bool of_cluster = names_cluster(opcode);
  Space space = take_space(opcode);
  if (opcode.size() != 0 || space == Space::none)
    return refuse();
  if (space == Space::constant)
    space = Space::global; // where its variables lie
  CUGRT_TRY(expect_operands(2, 2));
  // An address of 32 bits is one of 64 with zeros above.
  const Operand &place = operand(1);
  const bool narrow = place.kind == Kind::reg &&
                      ptx::type_bytes(function_.registers[size_t(place.index)].type) == 4;
  CUGRT_ASSIGN(uint32_t a, source(place, narrow ? Type::u32 : Type::u64, Width::integer));
  CUGRT_ASSIGN(Destination p, destination(operand(0), Type::pred));
  if (narrow) {
    uint32_t wide = temporary(64);
    emit(OpId::widen_u, wide, a);
    a = wide;
  }
  Op &op = emit(OpId::isspacep, p.cell, a);
  op.flags |= uint16_t(uint16_t(space) << kSpaceShift);
  if (space == Space::shared && !of_cluster)
    op.flags |= kFlagOwnShared;
  return {};
}

} // namespace cugrt::emulator
