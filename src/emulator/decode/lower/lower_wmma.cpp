// wmma: fragments of fixed shapes, loaded, multiplied and stored. Sub-byte and double fragments are
// refused by name.
#include "emulator/decode/lower/lowering.h"

namespace cugrt::emulator {

/// Bytes of an element of a, b, c or d, by its type's name in PTX; 0 for other names.
static uint32_t element_bytes(std::string_view type) {
  return type == "s8" || type == "u8"                       ? 1
         : type == "f16" || type == "bf16"                  ? 2
         : type == "tf32" || type == "f32" || type == "s32" ? 4
                                                            : 0;
}

/// Takes the shape out; none where there is no such one for the multiplicands' type.
static std::optional<TileShape> take_shape(Opcode &opcode) {
  struct Row {
    std::string_view name;
    TileShape shape;
  };
  constexpr Row kRows[] = {{"m16n16k16", {16, 16, 16}},
                           {"m32n8k16", {32, 8, 16}},
                           {"m8n32k16", {8, 32, 16}},
                           {"m16n16k8", {16, 16, 8}}};
  for (const Row &row : kRows)
    if (opcode.take(row.name))
      return row.shape;
  return std::nullopt;
}

/// tf32 is multiplied 8 deep, everything else 16; accumulators are of either.
static bool fits(const TileShape &shape, std::string_view multiplicand) {
  return (shape.k == 8) == (multiplicand == "tf32");
}

/// Type of a register that holds elements of that type.
static ptx::Type register_type(std::string_view element) {
  return element == "f16"                     ? ptx::Type::f16x2
         : element == "bf16"                  ? ptx::Type::bf16x2
         : element == "s8" || element == "u8" ? ptx::Type::s32
                                              : ptx::parse_type(element);
}

static uint32_t registers_of(const Tile &tile, std::string_view type) {
  if (tile.matrix == TileMatrix::c)
    return type == "f16" ? 4 : 8;
  return type == "f16" ? 8 : tile.distinct();
}

/// The registers of a fragment, as many as its type has.
Status Lowering::tile(const Operand &operand, bool written, std::string_view type, Tile &out) {
  std::array<uint32_t, 8> cells{};
  out.element_bytes = element_bytes(type);
  CUGRT_ASSIGN(out.count, fragment(operand, written, register_type(type), cells));
  std::copy(cells.begin(), cells.end(), out.cells);
  if (out.count != registers_of(out, type))
    return error("a fragment of " + std::to_string(out.count) + " registers instead of " +
                 std::to_string(registers_of(out, type)));
  for (uint32_t i = 0; i < out.count; ++i)
    pinned_.insert(cells[i]);
  return {};
}

Status Lowering::lower_wmma(Opcode &opcode) {
  if (!opcode.take("sync") || !opcode.take("aligned"))
    return refuse();
  return opcode[0] == "mma" ? lower_wmma_product(opcode) : lower_wmma_access(opcode);
}

/// wmma.load.{a,b,c}.sync.aligned.LAYOUT.SHAPE{.SPACE}.TYPE r, [p] {, stride}, and wmma.store.d
/// with the operands exchanged.
Status Lowering::lower_wmma_access(Opcode &opcode) {
  const bool is_store = opcode[0] == "store";
  auto access = std::make_unique<TileAccess>();
  access->by_column = opcode.take("col");
  if (access->by_column == opcode.take("row"))
    return refuse();
  auto shape = take_shape(opcode);
  const Space space = opcode.take("global")                                 ? Space::global
                      : opcode.take("shared") || opcode.take("shared::cta") ? Space::shared
                                                                            : Space::none;
  auto id = find_op(opcode.name());
  if (!id || !shape)
    return refuse();
  const std::string_view letter = opcode[1], type = opcode[2];
  Tile &tile = access->tile;
  tile.shape = *shape;
  tile.matrix = letter == "a" ? TileMatrix::a : letter == "b" ? TileMatrix::b : TileMatrix::c;
  const bool deep_as =
      tile.matrix != TileMatrix::c ? fits(*shape, type) : shape->k == 16 || type == "f32";
  if (!deep_as)
    return refuse();
  CUGRT_TRY(expect_operands(2, 3));
  CUGRT_ASSIGN(Address where, address(operand(is_store ? 0 : 1), space));
  if (where.is_place ||
      (where.space != Space::global && where.space != Space::shared && where.space != Space::none))
    return refuse();
  if (where.space == Space::none && !where.wide)
    return error("a generic address of 32 bits");
  CUGRT_TRY(this->tile(operand(is_store ? 1 : 0), !is_store, type, tile));
  // "The default value of stride is the leading dimension": the length of a row, or a column.
  access->stride_cell = constant_cell(access->by_column ? tile.rows() : tile.columns(), false);
  if (operand_count() == 3) {
    CUGRT_ASSIGN(access->stride_cell, source(operand(2), Type::u32, Width::integer));
  }
  pinned_.insert(access->stride_cell);
  uint32_t base = where.cell;
  if (where.offset) {
    base = temporary(where.wide ? 64 : 32);
    emit(where.wide ? OpId::add_64 : OpId::add_32, base, where.cell,
         constant_cell(uint64_t(where.offset), where.wide));
  }
  pinned_.insert(base);
  Op &op = emit(*id, 0, base);
  op.extra = access.get();
  op.flags |= uint16_t(uint16_t(where.space) << kSpaceShift | (where.wide ? kFlagWide : 0));
  op.cache = next_cache();
  out_.tile_accesses.push_back(std::move(access));
  return {};
}

/// wmma.mma.sync.aligned.ALAYOUT.BLAYOUT.SHAPE.D.C d, a, b, c of f16, or with .D.A.B.C of other
/// types. Fragments hold the same whatever layout they were loaded from.
Status Lowering::lower_wmma_product(Opcode &opcode) {
  auto product = std::make_unique<TileProduct>();
  product->saturates = opcode.take("satfinite");
  for (int i = 0; i < 2; ++i)
    if (!opcode.take("row") && !opcode.take("col"))
      return refuse();
  auto shape = take_shape(opcode);
  auto id = find_op(opcode.name());
  if (!id || !shape)
    return refuse();
  const bool named = opcode.size() == 5; // mma.D.A.B.C
  const std::string_view d = opcode[1], in = named ? opcode[2] : "f16", c = opcode[named ? 4 : 2];
  if (!fits(*shape, in) || (product->saturates && d != "s32"))
    return refuse();
  CUGRT_TRY(expect_operands(4, 4));
  for (Tile *tile : {&product->a, &product->b, &product->c, &product->d})
    tile->shape = *shape;
  product->b.matrix = TileMatrix::b;
  product->c.matrix = product->d.matrix = TileMatrix::c;
  CUGRT_TRY(tile(operand(1), false, in, product->a));
  CUGRT_TRY(tile(operand(2), false, in, product->b));
  CUGRT_TRY(tile(operand(3), false, c, product->c));
  CUGRT_TRY(tile(operand(0), true, d, product->d));
  emit(*id).extra = product.get();
  out_.tile_products.push_back(std::move(product));
  return {};
}

} // namespace cugrt::emulator
