// Barriers, shuffles, votes, matches and reductions.
#include "emulator/decode/lower/lowering.h"

namespace cugrt::emulator {

/// Constants that no barrier can have; registers are looked at when they are executed.
Status Lowering::check_barrier(const Operand &barrier, const Operand *threads) const {
  constexpr uint32_t kBarrierCount = 16;
  if (barrier.kind == Kind::integer && uint32_t(barrier.value) >= kBarrierCount)
    return error("barrier " + std::to_string(uint32_t(barrier.value)) + " is none of 0 to 15");
  if (threads && threads->kind == Kind::integer && threads->value % kLanes != 0)
    return error(std::to_string(threads->value) + " threads are no multiple of the warp's 32");
  return {};
}

/// bar and barrier: .sync, .arrive, .red; bar.warp.sync.
Status Lowering::lower_bar(Opcode &opcode) {
  if (opcode.has("cluster"))
    return lower_cluster_barrier(opcode);
  opcode.take("cta");
  opcode.take("aligned");
  if (opcode.has("warp")) {
    CUGRT_TRY(expect_operands(1, 1));
    CUGRT_ASSIGN(uint32_t members, source(operand(0), Type::b32, Width::integer));
    emit(OpId::bar_warp_sync, 0, 0, 0, 0, members);
    return {};
  }
  std::string name = opcode.name();
  if (opcode.mnemonic() == "barrier")
    name.replace(0, 7, "bar");
  auto id = find_op(name);
  if (!id)
    return refuse();
  bool reduces = opcode.has("red");
  CUGRT_TRY(expect_operands(reduces ? 3 : *id == OpId::bar_arrive ? 2 : 1, reduces ? 4 : 2));
  size_t first = reduces ? 1 : 0;
  bool counts = operand_count() == (reduces ? 4u : 2u);
  if (*id == OpId::bar_arrive && operand(1).kind == Kind::integer && operand(1).value == 0)
    return error("no threads");
  CUGRT_TRY(check_barrier(operand(first), counts ? &operand(first + 1) : nullptr));
  CUGRT_ASSIGN(uint32_t barrier, source(operand(first), Type::u32, Width::integer));
  uint32_t threads = constant_cell(0, false), predicate = 0, d = 0;
  if (counts) {
    CUGRT_ASSIGN(threads, source(operand(first + 1), Type::u32, Width::integer));
  }
  if (reduces) {
    CUGRT_ASSIGN(predicate, source(operand(operand_count() - 1), Type::pred));
    Type type = *id == OpId::bar_red_popc ? Type::u32 : Type::pred;
    CUGRT_ASSIGN(Destination to, destination(operand(0), type));
    d = to.cell;
  }
  emit(*id, d, barrier, threads, predicate);
  return {};
}

/// barrier.cluster.arrive{.release, .relaxed}{.aligned}, .wait{.acquire}{.aligned}
Status Lowering::lower_cluster_barrier(Opcode &opcode) {
  for (std::string_view name : {"aligned", "release", "relaxed", "acquire"})
    opcode.take(name);
  return lower_bare(opcode);
}

/// shfl.sync.MODE.b32 d{|p}, a, b, c, members
Status Lowering::lower_shfl(Opcode &opcode) {
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_TRY(expect_operands(5, 5));
  CUGRT_ASSIGN(uint32_t a, source(operand(1), Type::b32));
  CUGRT_ASSIGN(uint32_t b, source(operand(2), Type::b32));
  CUGRT_ASSIGN(uint32_t c, source(operand(3), Type::b32));
  CUGRT_ASSIGN(uint32_t members, source(operand(4), Type::u32, Width::integer));
  const Pair parts = pair(operand(0));
  CUGRT_ASSIGN(Destination d, destination(parts.first, Type::b32));
  const bool has_predicate = operand(0).index2 >= 0;
  uint32_t p = 0;
  if (has_predicate) {
    CUGRT_ASSIGN(p, predicate_destination(parts.second));
  }
  Op &op = emit(id, d.cell, a, b, c, members);
  op.cache = p;
  op.flags |= has_predicate ? kFlagHasPredicate : 0;
  finish(d);
  return {};
}

/// vote.sync.MODE d, {!}a, members
Status Lowering::lower_vote(Opcode &opcode) {
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_TRY(expect_operands(3, 3));
  CUGRT_ASSIGN(uint32_t a, source(operand(1), Type::pred));
  CUGRT_ASSIGN(uint32_t members, source(operand(2), Type::u32, Width::integer));
  return emit_result(id, id == OpId::vote_ballot ? Type::b32 : Type::pred, {a, 0, 0, members});
}

/// match.any.sync.T d, a, members; match.all.sync.T d{|p}, a, members
Status Lowering::lower_match(Opcode &opcode) {
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_TRY(expect_operands(3, 3));
  CUGRT_ASSIGN(uint32_t a, source(operand(1), opcode.last_type()));
  CUGRT_ASSIGN(uint32_t members, source(operand(2), Type::u32, Width::integer));
  const bool has_predicate = operand(0).index2 >= 0;
  const Pair parts = pair(operand(0));
  if (has_predicate && !opcode.has("all"))
    return error("a predicate besides the result");
  CUGRT_ASSIGN(Destination d, opcode.has("all")
                                  ? destination_or_sink(parts.first, Type::u32, Width::integer)
                                  : destination(parts.first, Type::u32, Width::integer));
  uint32_t p = 0;
  if (has_predicate) {
    CUGRT_ASSIGN(p, predicate_destination(parts.second));
  }
  Op &op = emit(id, d.cell, a, 0, 0, members);
  op.cache = p;
  op.flags |= has_predicate ? kFlagHasPredicate : 0;
  return {};
}

/// redux.sync.OP.T d, a, members
Status Lowering::lower_redux(Opcode &opcode) {
  CUGRT_ASSIGN(const OpId id, known_op(opcode));
  CUGRT_TRY(expect_operands(3, 3));
  const Type type = opcode.last_type();
  CUGRT_ASSIGN(uint32_t a, source(operand(1), type, Width::integer));
  CUGRT_ASSIGN(uint32_t members, source(operand(2), Type::u32, Width::integer));
  return emit_result(id, type, {a, 0, 0, members}, Width::integer);
}

Status Lowering::lower_activemask(Opcode &) {
  CUGRT_TRY(expect_operands(1, 1));
  return emit_result(OpId::activemask, Type::b32, {});
}

/// elect.sync d|p, members
Status Lowering::lower_elect(Opcode &opcode) {
  if (!opcode.has("sync"))
    return refuse();
  CUGRT_TRY(expect_operands(2, 2));
  CUGRT_ASSIGN(uint32_t members, source(operand(1), Type::u32, Width::integer));
  if (operand(0).index2 < 0)
    return error("expected a predicate besides the result");
  const Pair parts = pair(operand(0));
  CUGRT_ASSIGN(Destination d, destination_or_sink(parts.first, Type::u32, Width::integer));
  CUGRT_ASSIGN(uint32_t p, predicate_destination(parts.second));
  emit(OpId::elect, d.cell, 0, 0, 0, members).cache = p;
  return {};
}

} // namespace cugrt::emulator
