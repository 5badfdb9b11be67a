#include "ops/linear/tile_form.h"

#include "ops/linear/stream_form.h"

#include <algorithm>

namespace cugrt::codegen {

/// Whether some of so many rows take form `number`.
static bool takes(size_t number, const ir::Interval &rows) {
  return number == 0 ? rows.lower <= kMostRowsOfSmallTiles : rows.upper > kMostRowsOfSmallTiles;
}

static int64_t ceildiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t parts_of_tile(int64_t depth, int64_t least, int64_t most) {
  return std::clamp<int64_t>(depth / least, 1, most);
}

int64_t places_of_tiles(int64_t shared_bytes, int64_t most, const Target &target) {
  constexpr int64_t kOfDriver = 1 << 10;
  const int64_t room = shared_bytes_of_multiprocessor(target) / (shared_bytes + kOfDriver);
  return std::clamp<int64_t>(room, 1, most) * target.multiprocessors;
}

TileForms register_tiles(const std::string &entry, ir::DType dtype, int64_t depth,
                         const Target &target) {
  constexpr int64_t kColumns = 64;
  auto form = [&](const char *suffix, const char *option, int64_t rows, int64_t warps,
                  int64_t most_blocks, int64_t least_depth, int64_t most_parts) {
    // Two stages, 32 of k: rows with 16 bytes between them, and numbers of w.
    const int64_t bytes = 2 * (rows * (32 * ir::info(dtype).bytes_per_block + 16) +
                               32 * kColumns * int64_t(sizeof(float)));
    return TileForm{entry + suffix,
                    option,
                    rows,
                    kColumns,
                    warps,
                    bytes,
                    places_of_tiles(bytes, most_blocks, target),
                    parts_of_tile(depth, least_depth, most_parts)};
  };
  return {form("_32", "-DPLACES_32", 32, 4, dtype == ir::DType::bf16 ? 2 : 3, 128, 8),
          form("", "-DPLACES", 128, 8, 2, 256, 4)};
}

std::optional<NumberTiles> number_tiles(OpEmitter &op, ir::DType dtype, ir::ExprId m, ir::ExprId n,
                                        ir::ExprId k) {
  // Most rows in parts of prompts.
  constexpr int64_t kMostRows = 1024;
  const KernelChoice &choice = op.table().choice();
  const ir::Interval rows = op.exprs().range(m, op.builder().function().symbol_domain(op.exprs()));
  const std::optional<int64_t> columns = op.exprs().as_constant(n),
                               depth = op.exprs().as_constant(k);
  if (dtype != ir::DType::f32 || computes_in_tf32(dtype, choice) || choice.matmul != "auto" ||
      !columns || !depth || rows.upper <= kMostStreamRows || rows.upper > kMostRows)
    return std::nullopt;
  NumberTiles tiles{register_tiles("matmul_tiles", dtype, *depth, choice.target), *columns, rows};
  bound_sums(tiles.forms, dtype, *columns + *depth, rows);
  return tiles;
}

int64_t copied_bytes(OpEmitter &op, ir::DType dtype, ir::ExprId k, ir::ExprId n) {
  const int64_t size = ir::info(dtype).bytes_per_block;
  auto may_divide = [&](int64_t divisor, ir::ExprId value) {
    ir::ExprPool &exprs = op.exprs();
    const ir::ExprId rest = exprs.make(ir::ExprKind::mod, value, exprs.constant(divisor));
    return exprs.as_constant(rest).value_or(0) == 0;
  };
  int64_t bytes = 16;
  while (bytes > size && !(may_divide(bytes / size, k) && may_divide(bytes / size, n)))
    bytes /= 2;
  return bytes;
}

void bound_sums(TileForms &forms, ir::DType dtype, int64_t elements, const ir::Interval &rows) {
  constexpr int64_t kMostRows = 1 << 20; // beyond any room
  const int64_t most =
      2 * std::min(rows.upper, kMostRows) * elements * ir::info(dtype).bytes_per_block;
  for (TileForm &form : forms)
    form.room = std::min(form.places, most / (form.rows * form.columns * int64_t(sizeof(float))));
}

void add_parts(OpEmitter &op, KernelLaunch &launch, const TileForms &forms, int64_t n,
               const ir::Interval &rows) {
  int64_t sums = 1, counters = 1;
  for (size_t i = 0; i < forms.size(); ++i) {
    const TileForm &form = forms[i];
    if (!takes(i, rows) || form.parts == 1)
      continue;
    const int64_t most = i == 0 ? std::min(rows.upper, kMostRowsOfSmallTiles) : rows.upper;
    const int64_t strips = std::min(form.places, ceildiv(most, form.rows)),
                  tiles = std::min(form.places, strips * ceildiv(n, form.columns));
    sums = std::max(sums, std::min(form.room, tiles * form.parts) * form.rows * form.columns);
    counters = std::max(counters, form.places);
  }
  const std::vector<ir::ExprId> dims = {op.constant(sums)};
  launch.option("-DHAS_TILES");
  launch.output("parts", op.builder().alloc(
                             "parts", op.builder().module().types.tensor(ir::DType::f32, dims)));
  add_counters(op, launch, op.constant(counters));
}

void add_tiles(KernelLaunch &launch, const TileForms &forms, int64_t n, ir::ExprId rows,
               const ir::Interval &range) {
  ir::ExprPool &exprs = launch.exprs();
  for (size_t i = 0; i < forms.size(); ++i) {
    const TileForm &form = forms[i];
    if (!takes(i, range))
      continue;
    const ir::ExprId places = exprs.constant(form.places),
                     tiles = exprs.mul(exprs.ceildiv(rows, exprs.constant(form.rows)),
                                       exprs.constant(ceildiv(n, form.columns))),
                     rest = exprs.make(ir::ExprKind::mod, tiles, places),
                     room = exprs.floordiv(exprs.constant(form.room),
                                           exprs.max(rest, exprs.constant(1))),
                     parts = exprs.min(form.room < form.places ? exprs.max(room, exprs.constant(1))
                                                               : room,
                                       exprs.constant(form.parts));
    launch.option(form.option + "=" + std::to_string(form.places));
    const ir::ExprId when =
        i == 0 && range.upper > kMostRowsOfSmallTiles
            ? exprs.make(ir::ExprKind::le, rows, exprs.constant(kMostRowsOfSmallTiles))
            : ir::ExprId();
    launch.variant(form.entry, when, exprs.add(exprs.sub(tiles, rest), exprs.mul(rest, parts)),
                   {32, form.warps, 1}, form.shared_bytes);
  }
}

} // namespace cugrt::codegen
