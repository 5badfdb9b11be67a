// Roles by form; rows with handlers of their own are listed one by one.
#include "emulator/exec/opcodes/operand_roles.h"

#include "emulator/exec/checks/access_rows.h"
#include "emulator/exec/warps/control.h"

namespace cugrt::emulator {

namespace {

constexpr uint8_t D = kFieldD, A = kFieldA, B = kFieldB, C = kFieldC, E = kFieldE;

/// Element cells of a vector access, in order.
constexpr uint8_t elements(uint32_t count) {
  return count == 1 ? D : count == 2 ? D | B : count == 3 ? D | B | C : D | B | C | E;
}

constexpr uint8_t values_read(uint32_t count) {
  constexpr uint8_t kFirst[] = {0, A, A | B, A | B | C, A | B | C | E};
  return kFirst[count];
}

constexpr OperandRoles kByForm[] = {
#define ROW(id, names, cls, sources, values) {values_read(values), values ? D : uint8_t(0)},
#define LOAD(id, names, space, T, count, cls) {A, elements(count)},
#define STORE(id, names, space, T, count, cls) {uint8_t(A | elements(count)), 0},
#include "emulator/exec/opcodes/opcodes.def"
};

/// LANEWISE, WARP, CONTROL, MATRIX, ASYNC_COPY, CLUSTER and BARRIER rows.
OperandRoles own_roles(const Op &op) {
  const bool has_predicate = op.flags & kFlagHasPredicate;
  const uint8_t with_predicate = has_predicate ? D | kFieldCache : D;
  switch (OpId(op.id)) {
  case OpId::shfl_idx:
  case OpId::shfl_up:
  case OpId::shfl_down:
  case OpId::shfl_bfly:
    return {A | B | C | E, with_predicate, true};
  case OpId::match_any_32:
  case OpId::match_all_32:
  case OpId::match_any_64:
  case OpId::match_all_64:
    return {A | E, with_predicate, true};
  case OpId::elect:
    return {E, D | kFieldCache, true};
  case OpId::activemask:
  case OpId::clock:
  case OpId::local_address:
    return {0, D};
  case OpId::bar_warp_sync:
    return {E, 0, true};
  case OpId::bar_sync:
  case OpId::bar_arrive:
    return {A | B, 0, true};
  case OpId::bar_red_popc:
  case OpId::bar_red_and:
  case OpId::bar_red_or:
    return {A | B | C, D, true};
  case OpId::bra_if:
    return {kFieldGuard, 0, true};
  case OpId::brx:
  case OpId::call:
    return {A, 0, true};
  case OpId::isspacep:
    return {A, D};
  case OpId::ld_kernel_param:
  case OpId::ld_call_param:
    return {0, elements(ParamElement::unpack(op.cache).count)};
  case OpId::st_call_param:
    return {elements(ParamElement::unpack(op.cache).count), 0};
  case OpId::cp_async:
    return {D | A | C, 0};
  case OpId::cp_bulk_load:
    return {uint8_t(op.flags & kFlagWide ? D | A | B | C | E : D | A | B | C), 0};
  case OpId::cp_bulk_store:
    return {D | A | B, 0};
  case OpId::mbarrier_init:
  case OpId::mbarrier_expect:
  case OpId::mbarrier_complete:
    return {A | B, 0};
  case OpId::mbarrier_inval:
  case OpId::cp_async_arrive:
    return {A, 0};
  case OpId::mbarrier_arrive:
  case OpId::mbarrier_arrive_part:
  case OpId::mbarrier_drop:
  case OpId::mbarrier_drop_part:
    return {A | B | C, D};
  case OpId::mbarrier_ask:
  case OpId::mbarrier_ask_parity:
    return {A | B, D};
  case OpId::mbarrier_pending:
  case OpId::alloca_32:
  case OpId::alloca_64:
    return {A, D};
  case OpId::stacksave_32:
  case OpId::stacksave_64:
    return {0, D};
  case OpId::stackrestore_32:
  case OpId::stackrestore_64:
  case OpId::atom_exch_128: // of which the values' cells are pinned
  case OpId::atom_cas_128:
    return {A, 0};
  case OpId::mapa_32:
  case OpId::mapa_64:
    return {A | B, D};
  case OpId::getctarank_32:
  case OpId::getctarank_64:
    return {A, D};
  case OpId::movmatrix:
    return {A, D, true};
  default:
    break;
  }
  const AccessRow &row = access_row(&op);
  if (row.kind == AccessRow::Kind::matrix)
    return {A, elements(row.count), true};
  if (row.kind == AccessRow::Kind::matrix_store)
    return {uint8_t(A | elements(row.count)), 0, true};
  const bool votes = OpId(op.id) >= OpId::vote_all && OpId(op.id) <= OpId::vote_ballot;
  const bool reduces = OpId(op.id) >= OpId::redux_add && OpId(op.id) <= OpId::redux_xor;
  if (votes || reduces)
    return {A | E, D, true};
  if (OpId(op.id) >= OpId::add_cc_32 && OpId(op.id) <= OpId::subc_cc_64)
    return {A | B | E, D | E};
  return {0, 0, true}; // jumps, ends, fences: no cells; mma and wmma: pinned ones
}

} // namespace

OperandRoles roles_of(const Op &op) {
  OperandRoles roles = kByForm[op.id];
  if (!roles.reads && !roles.writes)
    roles = own_roles(op);
  if (op.inner)
    roles.reads |= kFieldGuard;
  return roles;
}

} // namespace cugrt::emulator
