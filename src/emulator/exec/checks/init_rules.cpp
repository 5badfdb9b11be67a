// How undefined bits go through the registers: a rule for each form of operation; see init_check.h.
//
// A lane of a register has 32 or 64 bits, of which the operation's type says how many count.
#include "emulator/exec/checks/init_check.h"
#include "emulator/exec/opcodes/operand_roles.h"
#include "emulator/exec/units/wmma.h"
#include "emulator/exec/warps/control.h"

#include <algorithm>
#include <type_traits>

namespace cugrt::emulator {

namespace {

constexpr uint64_t kAll = ~uint64_t(0);

/// Bits of each operand that count.
struct Widths {
  uint8_t d = 32, source[4] = {32, 32, 32, 32};
  bool is_pair = false; // each half of the result depends on the halves of the operands
  bool is_resize = false, is_signed = false; // an integer into a longer or shorter one
};

uint64_t mask(uint32_t bits) { return bits >= 64 ? kAll : (uint64_t(1) << bits) - 1; }

// Types as opcodes.def names them, for their sizes.
using f32 = float;
using f64 = double;
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

template <class D, class A, class B = A, class C = A, class E = A> constexpr Widths widths() {
  return {8 * sizeof(D), {8 * sizeof(A), 8 * sizeof(B), 8 * sizeof(C), 8 * sizeof(E)}};
}
template <class T> constexpr Widths half(bool packed) {
  Widths w = packed ? widths<u32, u32>() : widths<T, T>();
  w.is_pair = packed;
  return w;
}
template <class D, class A> constexpr Widths convert() {
  Widths w = widths<D, A>();
  w.is_resize = std::is_integral_v<D> && std::is_integral_v<A>;
  w.is_signed = std::is_signed_v<A>;
  return w;
}

constexpr Widths kWidths[] = {
#define ROW(...) {},
#define UNARY(id, names, D, A, cls, ...) widths<D, A>(),
#define BINARY(id, names, D, A, B, cls, ...) widths<D, A, B>(),
#define TERNARY(id, names, D, A, B, C, cls, ...) widths<D, A, B, C>(),
#define QUATERNARY(id, names, D, A, B, C, E, cls, ...) widths<D, A, B, C, E>(),
#define ROUNDED_1(id, names, T, cls, ...) widths<T, T>(),
#define ROUNDED_2 ROUNDED_1
#define ROUNDED_3 ROUNDED_1
#define COMPARE(id, names, T, cls, ...) widths<u32, T>(),
#define COMPARE_HALF COMPARE
#define HALF_1(id, names, T, packed, cls, ...) half<T>(packed),
#define HALF_2 HALF_1
#define HALF_3 HALF_1
#define CONVERT(id, names, D, A, cls) convert<D, A>(),
#define CONVERT_DIRECTED(id, names, D, A, cls) widths<D, A>(),
#include "emulator/exec/opcodes/opcodes.def"
};

/// Bits of lop3's result that depend on undefined bits: those that can be 0 and can be 1.
u64 undefined_lop3(u64 a, u64 sa, u64 b, u64 sb, u64 c, u64 sc, u32 table) {
  u64 ones = 0, zeros = 0;
  for (u32 k = 0; k < 8; ++k) {
    u64 possible =
        (k & 4 ? a | sa : ~a | sa) & (k & 2 ? b | sb : ~b | sb) & (k & 1 ? c | sc : ~c | sc);
    (table >> k & 1 ? ones : zeros) |= possible;
  }
  return ones & zeros;
}

/// As prmt in its default mode.
u32 permute_bytes(u32 a, u32 b, u32 selectors) {
  u64 bytes = u64(b) << 32 | a;
  u32 r = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 selector = selectors >> (4 * i) & 15, byte = u32(bytes >> (8 * (selector & 7))) & 255;
    if (selector & 8)
      byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}

u64 shifted_left(u64 bits, u32 amount) { return amount > 63 ? 0 : bits << amount; }
u64 shifted_right(u64 bits, u32 amount) { return amount > 63 ? 0 : bits >> amount; }

/// Shifts a field of `bits` at a position to the bottom.
u64 extracted(u64 bits, u32 position, u32 length, bool is_signed) {
  u64 field = shifted_right(bits, position & 255) & mask(length & 255);
  return is_signed && field ? kAll : field; // the sign may be among them
}

/// Operands of one lane: values, and which of their bits are undefined.
struct Lane {
  u64 value[4], undefined[4];
};

/// Undefined bits of the result if each bit of it comes from one place; nothing if the operation
/// computes. Operands that only say how to move (amounts, selectors) are defined.
bool moved_bits(OpId id, const Lane &l, u64 *out) {
  const u64 a = l.value[0], b = l.value[1], c = l.value[2], sa = l.undefined[0],
            sb = l.undefined[1], sc = l.undefined[2];
  constexpr u32 kAnd = 0xc0, kOr = 0xfc, kXor = 0x3c; // as tables of lop3
  switch (id) {
  case OpId::mov_32:
  case OpId::mov_64:
  case OpId::widen_u:
  case OpId::narrow:
  case OpId::not_32:
  case OpId::not_64:
  case OpId::neg_half:
  case OpId::neg_half_x2:
    return *out = sa, true;
  case OpId::abs_half:
    return *out = sa & 0x7fff, true;
  case OpId::abs_half_x2:
    return *out = sa & 0x7fff7fff, true;
  case OpId::widen_s:
    return *out = u64(s64(s32(sa))), true;
  case OpId::zext16:
    return *out = sa & 0xffff, true;
  case OpId::high_half:
    return *out = sa >> 16, true;
  case OpId::high_word:
    return *out = sa >> 32, true;
  case OpId::pack_16:
    return *out = (sa & 0xffff) | (sb & 0xffff) << 16, true;
  case OpId::pack_32:
    return *out = (sa & 0xffffffff) | sb << 32, true;
  case OpId::and_32:
  case OpId::and_64:
    return *out = undefined_lop3(a, sa, b, sb, 0, 0, kAnd), true;
  case OpId::or_32:
  case OpId::or_64:
    return *out = undefined_lop3(a, sa, b, sb, 0, 0, kOr), true;
  case OpId::xor_32:
  case OpId::xor_64:
    return *out = undefined_lop3(a, sa, b, sb, 0, 0, kXor), true;
  case OpId::lop3:
    return *out = undefined_lop3(a, sa, b, sb, c, sc, u32(l.value[3])), !l.undefined[3];
  case OpId::shl_16:
  case OpId::shl_32:
  case OpId::shl_64:
    return *out = shifted_left(sa, u32(b)), !sb;
  case OpId::shr_u16:
  case OpId::shr_u32:
  case OpId::shr_u64:
    return *out = shifted_right(sa, u32(b)), !sb;
  case OpId::shr_s16:
    return *out = u64(s64(s16(sa)) >> std::min<u64>(u32(b), 15)), !sb;
  case OpId::shr_s32:
    return *out = u64(s64(s32(sa)) >> std::min<u64>(u32(b), 31)), !sb;
  case OpId::shr_s64:
    return *out = u64(s64(sa) >> std::min<u64>(u32(b), 63)), !sb;
  case OpId::shf_l_wrap:
  case OpId::shf_l_clamp:
  case OpId::shf_r_wrap:
  case OpId::shf_r_clamp: {
    bool wraps = id == OpId::shf_l_wrap || id == OpId::shf_r_wrap;
    u32 n = wraps ? u32(c) & 31 : std::min<u32>(u32(c), 32);
    u64 both = sb << 32 | (sa & 0xffffffff);
    bool left = id == OpId::shf_l_wrap || id == OpId::shf_l_clamp;
    return *out = left ? (both << n) >> 32 : both >> n, !sc;
  }
  case OpId::prmt:
    return *out = permute_bytes(u32(sa), u32(sb), u32(c)), !sc;
  case OpId::bfe_u32:
  case OpId::bfe_u64:
    return *out = extracted(sa, u32(b), u32(c), false), !sb && !sc;
  case OpId::bfe_s32:
  case OpId::bfe_s64:
    return *out = extracted(sa, u32(b), u32(c), true), !sb && !sc;
  case OpId::bfi_32:
  case OpId::bfi_64: {
    u64 field = shifted_left(mask(u32(l.value[3]) & 255), u32(c) & 255);
    return *out = (shifted_left(sa, u32(c) & 255) & field) | (sb & ~field), !sc && !l.undefined[3];
  }
  default:
    return false;
  }
}

bool is_product(OpId id) { return id >= OpId::mma_k16_f16_f32 && id < OpId::ldmatrix_x1; }

constexpr uint8_t kFields[] = {kFieldA, kFieldB, kFieldC, kFieldE};

} // namespace

const Taint *InitCheck::taint(const CallFrame *call, uint32_t cell) const {
  auto registers = calls_.find(call);
  if (registers == calls_.end())
    return nullptr;
  auto it = registers->second.find(cell);
  return it == registers->second.end() ? nullptr : &it->second;
}

InitCheck::Result &InitCheck::result(uint32_t cell, uint32_t lanes) {
  Result &out = results_[result_count_++];
  out.cell = cell;
  out.lanes = lanes;
  out.taint.lanes = out.taint.computed = 0;
  return out;
}

void InitCheck::spread(Result &out, uint32_t lane, uint64_t bits, const Taint &from,
                       uint32_t from_lane, bool computed) {
  if (bits)
    out.taint.add(lane, bits, from.origin[from_lane], computed || (from.computed >> from_lane & 1));
}

/// Operations that move or compute lane by lane.
void InitCheck::lane_by_lane(Warp &w, const Op *op, uint32_t lanes, uint8_t reads, Result &out) {
  const Widths &widths = kWidths[op->id];
  const uint32_t cells[] = {op->a, op->b, op->c, op->e};
  const Taint *sources[4] = {};
  uint32_t touched = 0;
  for (uint32_t n = 0; n < 4; ++n)
    if (reads & kFields[n] && (sources[n] = taint(w.current, cells[n])))
      touched |= sources[n]->lanes;
  for (uint32_t lane : lanes_of(touched & lanes)) {
    Lane l{};
    const Taint *first = nullptr;
    for (uint32_t n = 0; n < 4; ++n) {
      if (!(reads & kFields[n]))
        continue;
      l.value[n] =
          widths.source[n] == 64 ? w.lane<u64>(cells[n])[lane] : w.lane<u32>(cells[n])[lane];
      if (sources[n] && sources[n]->lanes >> lane & 1)
        l.undefined[n] = sources[n]->bits[lane] & mask(widths.source[n]);
      if (l.undefined[n] && (!first || sources[n]->computed >> lane & 1))
        first = sources[n];
    }
    if (!first)
      continue;
    u64 any = l.undefined[0] | l.undefined[1] | l.undefined[2] | l.undefined[3], bits = 0;
    bool moves = moved_bits(OpId(op->id), l, &bits);
    if (!moves && widths.is_resize && !(op->flags & kFlagSat)) {
      bits = l.undefined[0];
      if (widths.is_signed && bits >> (widths.source[0] - 1))
        bits |= ~mask(widths.source[0]);
      moves = true;
    }
    if (!moves)
      bits = !widths.is_pair ? kAll : (any & 0xffff ? 0xffff : 0) | (any >> 16 ? 0xffff0000 : 0);
    spread(out, lane, bits & mask(widths.d), *first, lane, !moves);
  }
}

/// selp: the operand that is chosen.
void InitCheck::selected(Warp &w, const Op *op, uint32_t lanes, Result &out) {
  const Taint *a = taint(w.current, op->a), *b = taint(w.current, op->b),
              *p = taint(w.current, op->c);
  for (uint32_t lane : lanes_of(lanes)) {
    if (p && p->lanes >> lane & 1) {
      spread(out, lane, OpId(op->id) == OpId::selp_64 ? kAll : 0xffffffff, *p, lane, true);
      continue;
    }
    const Taint *chosen = w.lane<u32>(op->c)[lane] ? a : b;
    if (chosen && chosen->lanes >> lane & 1)
      spread(out, lane, chosen->bits[lane], *chosen, lane, false);
  }
}

/// shfl: as exec/isa/lanewise.cpp finds the source lane.
void InitCheck::shuffled(Warp &w, const Op *op, uint32_t lanes, Result &out) {
  const Taint *a = taint(w.current, op->a);
  for (uint32_t cell : {op->b, op->c})
    use_cell(w, op, lanes, cell, "the lane of a shuffle depends on");
  if (!a)
    return;
  const u32 *b = w.lane<u32>(op->b), *c = w.lane<u32>(op->c);
  for (uint32_t i : lanes_of(lanes)) {
    s32 lane = s32(i), offset = s32(b[i] & 31), clamp = s32(c[i] & 31);
    s32 segment = s32(c[i] >> 8 & 31);
    s32 highest = (lane & segment) | (clamp & ~segment), lowest = lane & segment;
    OpId id = OpId(op->id);
    s32 source = id == OpId::shfl_idx    ? lowest | (offset & ~segment)
                 : id == OpId::shfl_up   ? lane - offset
                 : id == OpId::shfl_down ? lane + offset
                                         : lane ^ offset;
    bool inside = id == OpId::shfl_up ? source >= highest : source <= highest;
    u32 from = u32(inside ? source : lane) & 31;
    if (a->lanes >> from & 1)
      spread(out, i, a->bits[from], *a, from, false);
  }
}

/// Votes, matches and reductions: every lane's result depends on all lanes.
void InitCheck::across_lanes(Warp &w, const Op *op, uint32_t lanes, Result &out) {
  const Taint *a = taint(w.current, op->a);
  if (!a || !(a->lanes & lanes))
    return;
  auto from = uint32_t(__builtin_ctz(a->lanes & lanes));
  u64 bits = OpId(op->id) == OpId::vote_ballot ? a->lanes & lanes : 0xffffffff;
  for (uint32_t lane : lanes_of(lanes))
    spread(out, lane, bits, *a, from, true);
}

/// A .param variable of a call: a load from an offset gives the value stored there.
void InitCheck::call_parameter(Warp &w, const Op *op, uint32_t lanes, bool is_store) {
  ParamElement element = ParamElement::unpack(op->cache);
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t n = 0; n < element.count; ++n) {
    uint32_t place = op->a + ParamElement::offset(op) + n * element.bytes;
    const Taint *from = taint(w.current, is_store ? cells[n] : place);
    Result &out = result(is_store ? place : cells[n], lanes);
    for (uint32_t lane : lanes_of(from ? from->lanes & lanes : 0))
      spread(out, lane, from->bits[lane] & mask(8 * element.bytes), *from, lane, false);
  }
}

/// d = a * b + c: a row of d depends on a row of a, a column on a column of b, laid out as in
/// exec/units/matrix.cpp.
void InitCheck::matrix_product(Warp &w, const Op *op, uint32_t lanes) {
  const auto &site = *static_cast<const MatrixSite *>(op->extra);
  struct Source {
    const Taint *taint = nullptr;
    uint32_t lane = 0;
  };
  Source rows[16], columns[8];
  for (uint32_t r = 0; r < site.a_count; ++r)
    if (const Taint *a = taint(w.current, site.a[r]))
      for (uint32_t lane : lanes_of(a->lanes))
        rows[lane / 4 + 8 * (r & 1)] = {a, lane};
  for (uint32_t r = 0; r < site.b_count; ++r)
    if (const Taint *b = taint(w.current, site.b[r]))
      for (uint32_t lane : lanes_of(b->lanes))
        columns[lane / 4] = {b, lane};
  const uint32_t each = 4 / site.d_count; // elements of a register
  for (uint32_t r = 0; r < site.d_count; ++r) {
    Result &out = result(site.d[r], lanes);
    const Taint *c = taint(w.current, site.c[r]);
    for (uint32_t lane : lanes_of(lanes)) {
      for (uint32_t e = 0; e < each; ++e) {
        uint32_t i = r * each + e;
        u64 bits = each == 1 ? 0xffffffff : uint64_t(0xffff) << (16 * e);
        for (const Source &s : {rows[lane / 4 + 8 * (i / 2)], columns[2 * (lane % 4) + i % 2]})
          if (s.taint)
            spread(out, lane, bits, *s.taint, s.lane, true);
        if (c && c->lanes >> lane & 1 && c->bits[lane] & bits)
          spread(out, lane, bits, *c, lane, true);
      }
    }
  }
}

void InitCheck::call_builtin(Warp &w, const Op *op, uint32_t lanes) {
  const auto &site = *static_cast<const CallSite *>(op->extra);
  if (!site.callee && !site.builtin)
    return use_cell(w, op, lanes, op->a, "the target of a call depends on");
  const bool on_heap = uses_heap(Builtin(site.builtin));
  if (on_heap || Builtin(site.builtin) == Builtin::set_conditional)
    for (const Argument &argument : site.arguments)
      use_cell(w, op, lanes, argument.cell,
               on_heap ? "a call of malloc or free depends on"
                       : "a condition of the graph depends on");
}

/// As exec/units/matrix.cpp transposes: element by element.
void InitCheck::transposed(Warp &w, const Op *op, uint32_t lanes, Result &out) {
  const Taint *from = taint(w.current, op->a);
  for (uint32_t lane = 0; from && lane < kLanes; ++lane)
    for (uint32_t e = 0; e < 2 && (lanes >> lane & 1); ++e) {
      const uint32_t row = lane / 4, source = 4 * (2 * (lane % 4) + e) + row / 2;
      const uint32_t half = 0xffffu << (16 * (row & 1));
      if (from->lanes >> source & 1 && from->bits[source] & half)
        spread(out, lane, uint64_t(0xffff) << (16 * e), *from, source, false);
    }
}

/// Operations that touch no memory. Some register of the block is undefined.
void InitCheck::in_registers(Warp &w, const Op *op, uint32_t lanes) {
  const OpId id = OpId(op->id);
  switch (id) {
  case OpId::bra_if:
    return use_cell(w, op, lanes, op->guard, "a branch depends on");
  case OpId::brx:
    return use_cell(w, op, lanes, op->a, "a branch depends on");
  case OpId::call:
    return call_builtin(w, op, lanes);
  case OpId::ld_call_param:
  case OpId::st_call_param:
    return call_parameter(w, op, lanes, id == OpId::st_call_param);
  case OpId::selp_32:
  case OpId::selp_64:
    return selected(w, op, lanes, result(op->d, lanes));
  case OpId::movmatrix:
    return transposed(w, op, lanes, result(op->d, lanes));
  default:
    break;
  }
  if (is_product(id))
    return matrix_product(w, op, lanes);
  if (id >= OpId::wmma_f16_f16 && id <= OpId::wmma_u8)
    return tile_product(w, op, lanes);
  const OperandRoles roles = roles_of(*op);
  uint32_t written[6], count = 0;
  for_each_cell(*op, roles.writes, [&](uint32_t cell) { written[count++] = cell; });
  for (uint32_t n = 0; n < count; ++n) {
    Result &out = result(written[n], lanes);
    if (id >= OpId::shfl_idx && id <= OpId::shfl_bfly) {
      if (n == 0)
        shuffled(w, op, lanes, out);
    } else if (id > OpId::shfl_bfly && id < OpId::activemask) {
      across_lanes(w, op, lanes, out);
    } else {
      lane_by_lane(w, op, lanes, roles.reads, out);
    }
  }
  // A comparison that is also the branch on its result.
  if (count && op->run.full == branch_handlers()[op->id].full && op->run.full) {
    const Result &compared = results_[0];
    if (uint32_t undefined = compared.taint.lanes) {
      auto lane = uint32_t(__builtin_ctz(undefined));
      use(w, op, lane, compared.taint.origin[lane], "a branch depends on");
      results_[0].taint.lanes = results_[0].taint.computed = 0;
    }
  }
}

} // namespace cugrt::emulator
