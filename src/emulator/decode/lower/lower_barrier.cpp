// Barriers in shared memory (mbarrier) and what completes at them: bulk copies, arrivals of
// cp.async.
#include "emulator/decode/lower/lowering.h"

namespace cugrt::emulator {

namespace {

using ptx::Space;
using ptx::Type;

/// Takes .shared and its like; true for the shared memory of the whole cluster.
bool take_shared(Opcode &opcode, Space &space) {
  const bool of_cluster = opcode.has("shared::cluster");
  space = opcode.take_prefix("shared") ? Space::shared : Space::none;
  return of_cluster;
}

} // namespace

/// Address of a barrier: in the block's own shared memory, or generic.
Result<Lowering::Address> Lowering::barrier_address(Opcode &opcode, const Operand &operand) {
  Space space;
  const bool of_cluster = take_shared(opcode, space);
  CUGRT_ASSIGN(Address where, address(operand, space));
  if (where.is_place || (where.space != Space::shared && where.space != Space::none))
    return error("a barrier that is not in shared memory");
  if (of_cluster)
    reach_cluster(where);
  if (where.space == Space::none && !where.wide)
    return error("a generic address of 32 bits");
  return where;
}

void Lowering::set_address(Op &op, const Address &where) {
  op.imm = where.offset;
  op.flags |= uint16_t(uint16_t(where.space) << kSpaceShift | (where.wide ? kFlagWide : 0));
}

/// A generic address in 64 bits, its offset added.
Result<uint32_t> Lowering::generic_address(const Operand &operand, Space space) {
  CUGRT_ASSIGN(Address where, address(operand, space));
  if (where.is_place)
    return error("the address of a parameter");
  if (where.space == Space::shared)
    reach_cluster(where);
  if (where.offset == 0)
    return where.cell;
  uint32_t sum = temporary(64);
  emit(OpId::add_64, sum, where.cell, constant_cell(uint64_t(where.offset), true));
  return sum;
}

Status Lowering::lower_mbarrier(Opcode &opcode) {
  if (opcode.has("pending_count")) {
    CUGRT_TRY(expect_operands(2, 2));
    CUGRT_ASSIGN(uint32_t state, source(operand(1), Type::b64, Width::integer));
    return emit_result(OpId::mbarrier_pending, Type::u32, {state}, Width::integer);
  }
  for (std::string_view name : {"relaxed", "acquire", "release", "cta", "cluster", "b64"})
    opcode.take(name);
  const bool arrives = opcode.has("arrive") || opcode.has("arrive_drop");
  if (arrives)
    return lower_arrival(opcode);
  const bool asks = opcode.has("test_wait") || opcode.has("try_wait");
  const bool has_value = !opcode.has("inval");
  const size_t place = asks ? 1 : 0, least = place + (has_value ? 2 : 1);
  CUGRT_TRY(expect_operands(least, least + (opcode.has("try_wait") ? 1 : 0)));
  CUGRT_ASSIGN(Address where, barrier_address(opcode, operand(place)));
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  uint32_t value = 0, d = 0;
  if (has_value) {
    const bool is_state = id == OpId::mbarrier_ask;
    CUGRT_ASSIGN(value,
                 source(operand(place + 1), is_state ? Type::b64 : Type::u32, Width::integer));
  }
  if (asks) {
    CUGRT_ASSIGN(d, predicate_destination(operand(0)));
    if (operand_count() == 4) // how long to sleep
      CUGRT_TRY(source(operand(3), Type::u32, Width::integer).take_status());
  }
  set_address(emit(id, d, where.cell, value), where);
  return {};
}

/// mbarrier.arrive{_drop}{.expect_tx | .noComplete} state, [address] {, count or bytes}
Status Lowering::lower_arrival(Opcode &opcode) {
  const bool expects = opcode.take("expect_tx"), counts = opcode.has("noComplete");
  const bool has_value = operand_count() == 3;
  CUGRT_TRY(expect_operands(expects || counts ? 3 : 2, 3));
  CUGRT_ASSIGN(Address where, barrier_address(opcode, operand(1)));
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  uint32_t count = constant_cell(1, false), bytes = constant_cell(0, false);
  if (has_value) {
    CUGRT_ASSIGN(uint32_t value, source(operand(2), Type::u32, Width::integer));
    (expects ? bytes : count) = value;
  }
  CUGRT_ASSIGN(Destination d, destination_or_sink(operand(0), Type::b64, Width::integer));
  set_address(emit(id, d.cell, where.cell, count, bytes), where);
  return {};
}

/// cp.async.mbarrier.arrive{.noinc}{.shared}.b64 [address]
Status Lowering::lower_copy_arrival(Opcode &opcode) {
  const bool counted = opcode.take("noinc");
  CUGRT_TRY(expect_operands(1, 1));
  CUGRT_ASSIGN(Address where, barrier_address(opcode, operand(0)));
  Op &op = emit(OpId::cp_async_arrive, 0, where.cell);
  set_address(op, where);
  op.flags |= counted ? kFlagAcquire : 0;
  return {};
}

/// cp.async.bulk: to shared memory with a barrier, from it in groups, prefetches, and its groups.
Status Lowering::lower_bulk(Opcode &opcode) {
  if (opcode.has("commit_group")) {
    CUGRT_TRY(expect_operands(0, 0));
    emit(OpId::cp_bulk_commit);
    return {};
  }
  if (opcode.has("wait_group")) {
    CUGRT_TRY(expect_operands(1, 1));
    CUGRT_ASSIGN(uint32_t left, integer_constant(operand(0)));
    emit(OpId::cp_bulk_wait).imm = left;
    return {};
  }
  if (opcode.has("tensor") || opcode.has("cp_mask"))
    return refuse();
  const bool policy = opcode.take("L2::cache_hint"), multicast = opcode.has("multicast::cluster");
  const size_t hints = size_t(policy);
  if (opcode.has("prefetch")) {
    CUGRT_TRY(expect_operands(2 + hints, 2 + hints));
    CUGRT_TRY(address(operand(0), Space::global).take_status());
    CUGRT_TRY(source(operand(1), Type::u32, Width::integer).take_status());
    emit(OpId::nop);
    return {};
  }
  const bool stores = opcode[2] == "global", loads = opcode[3] == "global";
  const size_t count = (stores ? 3 : 4) + size_t(multicast) + hints;
  CUGRT_TRY(expect_operands(count, count));
  if (policy)
    CUGRT_TRY(source(operand(count - 1), Type::b64, Width::integer).take_status());
  CUGRT_ASSIGN(uint32_t to, generic_address(operand(0), stores ? Space::global : Space::shared));
  CUGRT_ASSIGN(uint32_t from, generic_address(operand(1), loads ? Space::global : Space::shared));
  CUGRT_ASSIGN(uint32_t bytes, source(operand(2), Type::u32, Width::integer));
  if (operand(2).kind == Kind::integer && operand(2).value % 16)
    return error("a copy of " + std::to_string(operand(2).value) +
                 " bytes: multiples of 16 are possible");
  if (stores) {
    emit(OpId::cp_bulk_store, to, from, bytes).cache = next_cache();
    return {};
  }
  CUGRT_ASSIGN(uint32_t barrier, generic_address(operand(3), Space::shared));
  uint32_t ranks = 0;
  if (multicast) {
    CUGRT_ASSIGN(uint32_t mask, source(operand(4), Type::u16, Width::integer));
    ranks = temporary(32);
    emit(OpId::zext16, ranks, mask);
  }
  Op &op = emit(OpId::cp_bulk_load, to, from, bytes, barrier, ranks);
  op.flags |= multicast ? kFlagWide : 0;
  op.cache = next_cache();
  return {};
}

} // namespace cugrt::emulator
