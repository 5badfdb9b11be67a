// Logic, shifts, fields and bit counts of the PTX ISA, and moves: written bit by bit.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

Bits bit(Bits v, int i) { return v >> i & 1; }

/// The place of the highest bit that differs from the sign, or of the highest one; -1: none.
int highest(Bits v, int width, bool is_signed) {
  Bits sign = is_signed ? bit(v, width - 1) : 0;
  for (int i = width - 1; i >= 0; --i)
    if (bit(v, i) != sign)
      return i;
  return -1;
}

class BitsAdder {
public:
  explicit BitsAdder(OpcodeCases &cases) : cases_(cases) {}
  void add(const char *section, const std::string &opcode, const std::string &kinds,
           const char *rule, Reference reference, int compute = 75) {
    text(section, spelled(opcode, kinds), kinds, rule, std::move(reference), compute);
  }
  void text(const char *section, const std::string &text, const std::string &kinds,
            const char *rule, Reference reference, int compute = 75, const char *ptx = "8.1") {
    cases_.instruction(text, kinds, std::move(reference), {section, rule}, {}, {compute, ptx});
  }

private:
  OpcodeCases &cases_;
};

constexpr char kLogic[] = "Logic and Shift Instructions: ";

void add_logic(BitsAdder &adder, const std::string &width, char kind) {
  const std::string k(1, kind), type = ".b" + width;
  auto section = [](const char *name) { return std::string(kLogic) + name; };
  adder.add(section("and").c_str(), "and" + type, k + k + k, "d = a & b",
            [](Bits a, Bits b, Bits, Bits) { return a & b; });
  adder.add(section("or").c_str(), "or" + type, k + k + k, "d = a | b",
            [](Bits a, Bits b, Bits, Bits) { return a | b; });
  adder.add(section("xor").c_str(), "xor" + type, k + k + k, "d = a ^ b",
            [](Bits a, Bits b, Bits, Bits) { return a ^ b; });
  adder.add(section("not").c_str(), "not" + type, k + k, "d = ~a",
            [](Bits a, Bits, Bits, Bits) { return ~a; });
  adder.add(section("cnot").c_str(), "cnot" + type, k + k, "d = (a == 0) ? 1 : 0",
            [](Bits a, Bits, Bits, Bits) { return Bits(a == 0); });
}

void add_shifts(BitsAdder &adder, int width, char kind) {
  const std::string k(1, kind), w = std::to_string(width);
  const char *rule = "shift amounts greater than the register width N are clamped to N";
  adder.add("Logic and Shift Instructions: shl", "shl.b" + w, k + k + "r", rule,
            [=](Bits a, Bits b, Bits, Bits) { return b >= Bits(width) ? 0 : a << b; });
  for (const char *type : {"b", "u", "s"}) {
    bool fills = *type == 's';
    adder.add("Logic and Shift Instructions: shr", std::string("shr.") + type + w, k + k + "r",
              fills ? "signed shifts fill with the sign bit" : rule,
              [=](Bits a, Bits b, Bits, Bits) {
                Wide v = integer(a, width, fills);
                return Bits(v >> std::min<Bits>(b, Bits(width)));
              });
  }
}

void add_funnels(BitsAdder &adder) {
  for (bool left : {true, false})
    for (bool wraps : {true, false}) {
      std::string opcode =
          std::string("shf.") + (left ? "l" : "r") + (wraps ? ".wrap" : ".clamp") + ".b32";
      adder.add("Logic and Shift Instructions: shf", opcode, "rrrr",
                wraps ? "n = c & 0x1f" : "n = min(c, 32)", [=](Bits a, Bits b, Bits c, Bits) {
                  int n = int(wraps ? c & 31 : std::min<Bits>(c, 32));
                  UnsignedWide both = UnsignedWide(b) << 32 | a;
                  return Bits(left ? (both << n) >> 32 : both >> n);
                });
    }
  for (int table : {0x96, 0xca, 0xe8, 0x1b, 0x00, 0xff})
    adder.text("Logic and Shift Instructions: lop3",
               "lop3.b32 %rd, %ra, %rb, %rc, " + std::to_string(table) + ";", "rrrr",
               "the table's bit at index a*4 + b*2 + c", [=](Bits a, Bits b, Bits c, Bits) {
                 Bits r = 0;
                 for (int i = 0; i < 32; ++i)
                   r |= Bits(table >> (bit(a, i) * 4 + bit(b, i) * 2 + bit(c, i)) & 1) << i;
                 return r;
               });
  for (const char *boolean : {"and", "or"})
    adder.text(
        "Logic and Shift Instructions: lop3",
        "setp.lt.u32 %q, %re, %ra; lop3." + std::string(boolean) +
            ".b32 %rd|%p, %ra, %rb, %rc, 0x80, !%q; selp.u32 %rc, 1, 0, %p; "
            "xor.b32 %rd, %rd, %rc;",
        "rrrrr", ".BoolOp: the predicate is (d != 0) BoolOp q",
        [=](Bits a, Bits b, Bits c, Bits e) {
          const Bits d = a & b & c;
          const bool q = !(e < a);
          return d ^ Bits(*boolean == 'a' ? d != 0 && q : d != 0 || q);
        },
        75, "8.2");
}

/// Fields: the place and the length may be 0 to 255, so the cases bring their inputs there.
void add_fields(BitsAdder &adder, int width, char kind) {
  const std::string k(1, kind), w = std::to_string(width);
  for (bool is_signed : {false, true}) {
    const std::string type = (is_signed ? ".s" : ".u") + w;
    adder.text("Integer Arithmetic Instructions: bfe",
               "and.b32 %rb, %rb, 255; and.b32 %rc, %rc, 255; bfe" + type + " %" + k + "d, %" + k +
                   "a, %rb, %rc;",
               k + k + "rr", "bits beyond the msb are the sign of the field, or zero",
               [=](Bits a, Bits b, Bits c, Bits) {
                 int position = int(b & 255), length = int(c & 255);
                 int last = std::min(position + length - 1, width - 1);
                 Bits fill = !is_signed || length == 0 ? 0 : bit(a, last), r = 0;
                 for (int i = 0; i < width; ++i)
                   r |= (i < length && position + i < width ? bit(a, position + i) : fill) << i;
                 return r;
               });
    adder.add("Integer Arithmetic Instructions: bfind", "bfind" + type, "r" + k,
              "0xffffffff when no non-sign bit is found", [=](Bits a, Bits, Bits, Bits) {
                return Bits(int64_t(highest(a, width, is_signed)));
              });
    adder.add("Integer Arithmetic Instructions: bfind", "bfind.shiftamt" + type, "r" + k,
              ".shiftamt: the shift that brings the bit found to the top",
              [=](Bits a, Bits, Bits, Bits) {
                int at = highest(a, width, is_signed);
                return at < 0 ? ~Bits(0) : Bits(width - 1 - at);
              });
  }
  adder.text("Integer Arithmetic Instructions: bfi",
             "and.b32 %rc, %rc, 255; and.b32 %re, %re, 255; bfi.b" + w + " %" + k + "d, %" + k +
                 "a, %" + k + "b, %rc, %re;",
             k + k + k + "rr", "bits of a replace those of b from the position on",
             [=](Bits a, Bits b, Bits c, Bits e) {
               int position = int(c & 255), length = int(e & 255);
               for (int i = 0; i < length && position + i < width; ++i)
                 b = (b & ~(Bits(1) << (position + i))) | bit(a, i) << (position + i);
               return b;
             });
}

void add_counts(BitsAdder &adder, int width, char kind) {
  const std::string k(1, kind), w = std::to_string(width);
  adder.add("Integer Arithmetic Instructions: brev", "brev.b" + w, k + k, "bits in reverse order",
            [=](Bits a, Bits, Bits, Bits) {
              Bits r = 0;
              for (int i = 0; i < width; ++i)
                r |= bit(a, i) << (width - 1 - i);
              return r;
            });
  adder.add("Integer Arithmetic Instructions: clz", "clz.b" + w, "r" + k,
            "the number of leading zeros, from 0 to the width",
            [=](Bits a, Bits, Bits, Bits) { return Bits(width - 1 - highest(a, width, false)); });
  adder.add("Integer Arithmetic Instructions: popc", "popc.b" + w, "r" + k, "the number of ones",
            [=](Bits a, Bits, Bits, Bits) {
              Bits n = 0;
              for (int i = 0; i < width; ++i)
                n += bit(a, i);
              return n;
            });
}

void add_masks(BitsAdder &adder) {
  for (bool wraps : {false, true})
    adder.add("Integer Arithmetic Instructions: bmsk", wraps ? "bmsk.wrap.b32" : "bmsk.clamp.b32",
              "rrr", "a mask of b ones from bit a on, both clamped or wrapped at 32",
              [=](Bits a, Bits b, Bits, Bits) {
                Bits from = wraps ? a & 31 : std::min<Bits>(a, 32);
                Bits count = wraps ? b & 31 : std::min<Bits>(b, 32), r = 0;
                for (Bits i = from; i < std::min<Bits>(32, from + count); ++i)
                  r |= Bits(1) << i;
                return r;
              });
  for (bool is_signed : {false, true})
    adder.add("Integer Arithmetic Instructions: szext",
              is_signed ? "szext.clamp.s32" : "szext.clamp.u32", "rrr",
              "the lowest b bits, extended by sign or zero; all from 32 on",
              [=](Bits a, Bits b, Bits, Bits) {
                if (b >= 32)
                  return a;
                return b == 0 ? 0 : Bits(integer(a, int(b), is_signed));
              });
  for (bool is_signed : {false, true})
    adder.add("Integer Arithmetic Instructions: szext",
              is_signed ? "szext.wrap.s32" : "szext.wrap.u32", "rrr",
              "the lowest b modulo 32 bits, extended by sign or zero; 0 of none",
              [=](Bits a, Bits b, Bits, Bits) {
                return b % 32 == 0 ? 0 : Bits(integer(a, int(b % 32), is_signed));
              });
  // The offset in the lowest bits, so that most searches find something.
  for (int sign : {1, -1})
    adder.text("Integer Arithmetic Instructions: fns",
               std::string("and.b32 %rb, %rb, 31; and.b32 %rc, %rc, 7; ") +
                   (sign < 0 ? "neg.s32 %rc, %rc; " : "") + "fns.b32 %rd, %ra, %rb, %rc;",
               "rrrr", "the n-th bit that is set from base on, upward or downward",
               [=](Bits a, Bits b, Bits c, Bits) {
                 const int base = int(b & 31), n = int(c & 7);
                 if (n == 0)
                   return bit(a, base) ? Bits(base) : Bits(0xffffffff);
                 int count = n - 1;
                 for (int at = base; at >= 0 && at < 32; at += sign)
                   if (bit(a, at) && count-- == 0)
                     return Bits(at);
                 return Bits(0xffffffff);
               });
}

void add_permutes(BitsAdder &adder) {
  adder.add("Data Movement and Conversion Instructions: prmt", "prmt.b32", "rrrr",
            "a selector's msb replicates the sign of its byte", [](Bits a, Bits b, Bits c, Bits) {
              Bits bytes = b << 32 | a, r = 0;
              for (int i = 0; i < 4; ++i) {
                Bits selector = c >> (4 * i) & 15, byte = bytes >> (8 * (selector & 7)) & 255;
                r |= (selector & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * i);
              }
              return r;
            });
  // The ISA's tables: the byte that goes to each place, highest place first, by the mode's
  // selector.
  struct Mode {
    const char *name;
    uint32_t selectors[4];
  };
  static constexpr Mode kModes[] = {
      {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
      {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
      {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
  for (const Mode &mode : kModes)
    adder.add("Data Movement and Conversion Instructions: prmt",
              std::string("prmt.b32.") + mode.name, "rrrr",
              "the two lowest bits of c select a row of the mode's table",
              [&mode](Bits a, Bits b, Bits c, Bits) {
                Bits bytes = b << 32 | a, r = 0;
                for (int i = 0; i < 4; ++i)
                  r |= (bytes >> (8 * (mode.selectors[c & 3] >> (4 * i) & 7)) & 255) << (8 * i);
                return r;
              });
}

void add_moves(BitsAdder &adder) {
  const char *mov = "Data Movement and Conversion Instructions: mov";
  for (auto [type, kind] : {std::pair("b16", "h"),
                            {"u16", "h"},
                            {"s16", "h"},
                            {"b32", "r"},
                            {"u32", "r"},
                            {"s32", "r"},
                            {"f32", "r"},
                            {"b64", "l"},
                            {"u64", "l"},
                            {"s64", "l"},
                            {"f64", "l"}})
    adder.add(mov, std::string("mov.") + type, std::string(2, *kind), "d = a, all bits",
              [](Bits a, Bits, Bits, Bits) { return a; });
  adder.text(mov, "{ .reg .b16 x, y; mov.b32 {x, y}, %ra; mov.b32 %rd, {y, x}; }", "rr",
             "unpacking: the first element takes the lowest bits",
             [](Bits a, Bits, Bits, Bits) { return a >> 16 | (a & 0xffff) << 16; });
  adder.text(mov, "{ .reg .b32 x, y; mov.b64 {x, y}, %la; mov.b64 %ld, {y, x}; }", "ll",
             "unpacking: the first element takes the lowest bits",
             [](Bits a, Bits, Bits, Bits) { return a >> 32 | a << 32; });
  adder.text(mov, "mov.b64 %ld, {%ra, %rb};", "lrr", "packing: the first element is lowest",
             [](Bits a, Bits b, Bits, Bits) { return a | b << 32; });
  adder.text(mov, "mov.b32 %rd, {%ha, %hb};", "rhh", "packing: the first element is lowest",
             [](Bits a, Bits b, Bits, Bits) { return a | b << 16; });
  adder.text(mov, "mov.b64 %ld, {%ra, 0f3fc00000};", "lr", "packing: the first element is lowest",
             [](Bits a, Bits, Bits, Bits) { return a | Bits(0x3fc00000) << 32; });
  adder.text("Special Registers: WARP_SZ",
             "{ .reg .b32 x; lop3.b32 x, %ra, WARP_SZ, 0, 0x3c; "
             "add.u32 %rd, x, WARP_SZ-1; }",
             "rr", "WARP_SZ is the integer constant 32",
             [](Bits a, Bits, Bits, Bits) { return (a ^ 32) + 31; });
}

void add_choices(BitsAdder &adder) {
  const char *selp = "Comparison and Selection Instructions: selp";
  const char *slct = "Comparison and Selection Instructions: slct";
  const std::pair<const char *, char> kinds_of_types[] = {
      {"b16", 'h'}, {"u16", 'h'}, {"s16", 'h'}, {"b32", 'r'}, {"u32", 'r'}, {"s32", 'r'},
      {"f32", 'r'}, {"b64", 'l'}, {"u64", 'l'}, {"s64", 'l'}, {"f64", 'l'}};
  for (auto [type, kind] : kinds_of_types) {
    const std::string k(1, kind);
    adder.text(selp,
               "setp.lt.u32 %p, %rc, %re; selp." + std::string(type) + " %" + k + "d, %" + k +
                   "a, %" + k + "b, %p;",
               k + k + k + "rr", "a when c is true, otherwise b",
               [](Bits a, Bits b, Bits c, Bits e) { return c < e ? a : b; });
    adder.add(slct, std::string("slct.") + type + ".s32", k + k + k + "r",
              "a when c is greater than or equal to zero",
              [](Bits a, Bits b, Bits c, Bits) { return bit(c, 31) ? b : a; });
  }
  for (auto [type, kind] : kinds_of_types) {
    const std::string kinds = std::string(3, kind) + "r";
    adder.add(slct, std::string("slct.") + type + ".f32", kinds,
              "a when c >= 0; NaN is unordered and selects b; -0 is a zero",
              [](Bits a, Bits b, Bits c, Bits) { return decode(kF32, c) >= 0 ? a : b; });
    adder.add(slct, std::string("slct.ftz.") + type + ".f32", kinds,
              ".ftz: a subnormal c is a zero of its sign", [](Bits a, Bits b, Bits c, Bits) {
                const bool is_zero = (c >> 23 & 255) == 0;
                return is_zero || decode(kF32, c) >= 0 ? a : b;
              });
  }
  // Predicates have the same logic.
  adder.text("Logic and Shift Instructions: and",
             "setp.lt.u32 %p, %ra, %rb; setp.lt.u32 %q, %rc, %re; and.pred %p, %p, %q; "
             "not.pred %p, %p; selp.u32 %rd, 1, 0, %p;",
             "rrrrr", "logic on predicates",
             [](Bits a, Bits b, Bits c, Bits e) { return Bits(!(a < b && c < e)); });
  adder.text("Logic and Shift Instructions: xor",
             "{ .reg .pred u; setp.lt.u32 %p, %ra, %rb; setp.lt.u32 %q, %rc, %re; "
             "xor.pred u, %p, %q; or.pred %p, %p, u; selp.u32 %rd, 1, 0, %p; }",
             "rrrrr", "logic on predicates",
             [](Bits a, Bits b, Bits c, Bits e) { return Bits(a < b || c < e); });
}

} // namespace

void add_bit_cases(OpcodeCases &cases) {
  BitsAdder adder(cases);
  add_logic(adder, "16", 'h');
  add_logic(adder, "32", 'r');
  add_logic(adder, "64", 'l');
  add_shifts(adder, 16, 'h');
  add_shifts(adder, 32, 'r');
  add_shifts(adder, 64, 'l');
  add_funnels(adder);
  for (auto [width, kind] : {std::pair(32, 'r'), {64, 'l'}}) {
    add_fields(adder, width, kind);
    add_counts(adder, width, kind);
  }
  add_masks(adder);
  add_permutes(adder);
  add_moves(adder);
  add_choices(adder);
}

} // namespace cugrt::conformance
