// The rows of opcodes.def that touch memory; see access_rows.h.
#include "emulator/exec/checks/access_rows.h"

namespace cugrt::emulator {

namespace {

using Rows = std::array<AccessRow, kOpCount>;
using Kind = AccessRow::Kind;

constexpr Rows make_rows() {
  constexpr ptx::Space kglobal = ptx::Space::global, kshared = ptx::Space::shared,
                       klocal = ptx::Space::local, kgeneric = ptx::Space::none;
  Rows rows{};
#define LOAD(id, names, space, T, elements, cls)                                                   \
  rows[size_t(OpId::id)] = {Kind::load, k##space, sizeof(T), elements, T(-1) < T(0)};
#define STORE(id, names, space, T, elements, cls)                                                  \
  rows[size_t(OpId::id)] = {Kind::store, k##space, sizeof(T), elements};
#define ATOM(id, names, T, cls, ...)                                                               \
  rows[size_t(OpId::id)] = {Kind::atomic, ptx::Space::none, sizeof(T)};
#include "emulator/exec/opcodes/opcodes.def"
#define ROWS(count)                                                                                \
  rows[size_t(OpId::ldmatrix_x##count)] = {Kind::matrix, ptx::Space::none, 16, count};             \
  rows[size_t(OpId::ldmatrix_x##count##_trans)] = {                                                \
      Kind::matrix, ptx::Space::none, 16, count, false, true};                                     \
  rows[size_t(OpId::stmatrix_x##count)] = {Kind::matrix_store, ptx::Space::none, 16, count};       \
  rows[size_t(OpId::stmatrix_x##count##_trans)] = {                                                \
      Kind::matrix_store, ptx::Space::none, 16, count, false, true};
  ROWS(1)
  ROWS(2)
  ROWS(4)
#undef ROWS
  rows[size_t(OpId::wmma_load_8)] = {Kind::tile_load, ptx::Space::none, 1};
  rows[size_t(OpId::wmma_load_16)] = {Kind::tile_load, ptx::Space::none, 2};
  rows[size_t(OpId::wmma_load_32)] = {Kind::tile_load, ptx::Space::none, 4};
  rows[size_t(OpId::wmma_store_16)] = {Kind::tile_store, ptx::Space::none, 2};
  rows[size_t(OpId::wmma_store_32)] = {Kind::tile_store, ptx::Space::none, 4};
  rows[size_t(OpId::cp_bulk_load)] = {Kind::bulk_load};
  rows[size_t(OpId::cp_bulk_store)] = {Kind::bulk_store};
  for (OpId id : {OpId::mbarrier_init, OpId::mbarrier_inval, OpId::mbarrier_expect,
                  OpId::mbarrier_complete, OpId::mbarrier_arrive, OpId::mbarrier_arrive_part,
                  OpId::mbarrier_drop, OpId::mbarrier_drop_part, OpId::mbarrier_ask,
                  OpId::mbarrier_ask_parity, OpId::cp_async_arrive})
    rows[size_t(id)] = {Kind::atomic, ptx::Space::none, 8};
  for (OpId id : {OpId::atom_exch_128, OpId::atom_cas_128})
    rows[size_t(id)] = {Kind::atomic, ptx::Space::none, 16};
  rows[size_t(OpId::cp_async)] = {Kind::async_copy, ptx::Space::shared};
  return rows;
}

constexpr Rows kRows = make_rows();

} // namespace

const AccessRow &access_row(const Op *op) { return kRows[op->id]; }

ptx::Space access_space(const Op *op) {
  const AccessRow &row = access_row(op);
  bool in_table = row.is_plain() || row.kind == Kind::async_copy;
  return in_table ? row.space : ptx::Space(op->space());
}

uint32_t executing_lanes(const Op *op, const Warp &w) {
  if (!op->inner)
    return w.mask;
  uint32_t lanes = lanes_set(w, op->guard);
  return (op->flags & kFlagGuardNegated ? ~lanes : lanes) & w.mask;
}

} // namespace cugrt::emulator
