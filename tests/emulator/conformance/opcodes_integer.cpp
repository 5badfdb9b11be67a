// Integer arithmetic of the PTX ISA, over 128-bit integers.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

struct IntegerType {
  const char *name;
  char kind;
  int bits;
  bool is_signed;
  Wide of(Bits v) const { return integer(v, bits, is_signed); }
  Wide least() const { return is_signed ? -(Wide(1) << (bits - 1)) : 0; }
  Wide most() const { return (Wide(1) << (bits - is_signed)) - 1; }
};
constexpr IntegerType kIntegerTypes[] = {{"u16", 'h', 16, false}, {"s16", 'h', 16, true},
                                         {"u32", 'r', 32, false}, {"s32", 'r', 32, true},
                                         {"u64", 'l', 64, false}, {"s64", 'l', 64, true}};

Citation integer_section(const char *name, const char *rule) {
  return {std::string("Integer Arithmetic Instructions: ") + name, rule};
}

class IntegerAdder {
public:
  explicit IntegerAdder(OpcodeCases &cases) : cases_(cases) {}

  /// All operands and the result of one type.
  void same(const char *section, const std::string &opcode, const IntegerType &t, int operands,
            const char *rule, Reference reference) {
    add(section, opcode + "." + t.name, std::string(size_t(operands) + 1, t.kind), rule,
        std::move(reference));
  }
  void add(const char *section, const std::string &opcode, const std::string &kinds,
           const char *rule, Reference reference, int compute = 75) {
    cases_.instruction(spelled(opcode, kinds), kinds, std::move(reference),
                       integer_section(section, rule), {}, {compute, "8.1"});
  }
  void text(const char *section, const std::string &text, const std::string &kinds,
            const char *rule, Reference reference) {
    cases_.instruction(text, kinds, std::move(reference), integer_section(section, rule));
  }

private:
  OpcodeCases &cases_;
};

void add_wrapping(IntegerAdder &adder, const IntegerType &t) {
  adder.same("add", "add", t, 2, "d = a + b, wrapping",
             [=](Bits a, Bits b, Bits, Bits) { return Bits(t.of(a) + t.of(b)); });
  adder.same("sub", "sub", t, 2, "d = a - b, wrapping",
             [=](Bits a, Bits b, Bits, Bits) { return Bits(t.of(a) - t.of(b)); });
  adder.same("min", "min", t, 2, "d = (a < b) ? a : b in the type's order",
             [=](Bits a, Bits b, Bits, Bits) { return Bits(std::min(t.of(a), t.of(b))); });
  adder.same("max", "max", t, 2, "d = (a > b) ? a : b in the type's order",
             [=](Bits a, Bits b, Bits, Bits) { return Bits(std::max(t.of(a), t.of(b))); });
  if (!t.is_signed)
    return;
  adder.same("neg", "neg", t, 1, "d = -a",
             [=](Bits a, Bits, Bits, Bits) { return Bits(-t.of(a)); });
  adder.same("abs", "abs", t, 1, "d = |a|",
             [=](Bits a, Bits, Bits, Bits) { return Bits(t.of(a) < 0 ? -t.of(a) : t.of(a)); });
}

/// Division by zero gives an unspecified value, so divisors are made odd. What the smallest number
/// divided by -1 gives is not said either: it becomes a division by 1.
void add_division(IntegerAdder &adder, const IntegerType &t) {
  const std::string k(1, t.kind), type = t.name, bits = std::to_string(t.bits);
  const std::string sane = "or.b" + bits + " %" + k + "b, %" + k + "b, 1; setp.eq.s" + bits +
                           " %p, %" + k + "b, -1; selp.b" + bits + " %" + k + "b, 1, %" + k +
                           "b, %p; ";
  auto divisor = [=](Bits b) {
    Wide d = t.of(b | 1);
    return t.of(Bits(d)) == t.of(~Bits(0)) ? Wide(1) : d;
  };
  const std::string kinds(3, t.kind);
  adder.text("div", sane + spelled("div." + type, kinds), kinds, "division truncates towards zero",
             [=](Bits a, Bits b, Bits, Bits) { return Bits(t.of(a) / divisor(b)); });
  adder.text("rem", sane + spelled("rem." + type, kinds), kinds,
             "the remainder of the truncating division",
             [=](Bits a, Bits b, Bits, Bits) { return Bits(t.of(a) % divisor(b)); });
}

void add_products(IntegerAdder &adder, const IntegerType &t) {
  const std::string type = std::string(".") + t.name, k(1, t.kind);
  auto product = [=](Bits a, Bits b) { return t.of(a) * t.of(b); };
  // 128 bits hold the product of two 64-bit numbers of one kind only as unsigned.
  auto high = [=](Bits a, Bits b) {
    if (t.bits == 64 && !t.is_signed)
      return Bits((UnsignedWide(a) * b) >> 64);
    return Bits(product(a, b) >> t.bits);
  };
  auto low = [=](Bits a, Bits b) { return Bits(UnsignedWide(product(a, b))); };
  adder.same("mul", "mul.lo", t, 2, ".lo: the lower half of the full product",
             [=](Bits a, Bits b, Bits, Bits) { return a * b; });
  adder.same("mul", "mul.hi", t, 2, ".hi: the upper half of the full product",
             [=](Bits a, Bits b, Bits, Bits) { return high(a, b); });
  adder.same("mad", "mad.lo", t, 3, ".lo: lower half of the product, plus c",
             [=](Bits a, Bits b, Bits c, Bits) { return a * b + c; });
  adder.same("mad", "mad.hi", t, 3, ".hi: upper half of the product, plus c",
             [=](Bits a, Bits b, Bits c, Bits) { return high(a, b) + c; });
  adder.same("sad", "sad", t, 3, "d = c + |a - b|", [=](Bits a, Bits b, Bits c, Bits) {
    Wide difference = t.of(a) - t.of(b);
    return c + Bits(difference < 0 ? -difference : difference);
  });
  if (t.bits == 64)
    return;
  const std::string wide(1, t.bits == 16 ? 'r' : 'l');
  adder.add("mul", "mul.wide" + type, wide + k + k, ".wide: the full product, twice as wide",
            [=](Bits a, Bits b, Bits, Bits) { return low(a, b); });
  adder.add("mad", "mad.wide" + type, wide + k + k + wide, ".wide: c is twice as wide as a and b",
            [=](Bits a, Bits b, Bits c, Bits) { return low(a, b) + c; });
  if (t.bits != 32)
    return;
  auto low24 = [=](Bits v) { return integer(v, 24, t.is_signed); };
  adder.same("mul24", "mul24.lo", t, 2, ".lo: lower 32 bits of the product of 24-bit values",
             [=](Bits a, Bits b, Bits, Bits) { return Bits(low24(a) * low24(b)); });
  const char *upper = ".hi: upper 32 bits of the 48-bit product of 24-bit values";
  adder.same("mul24", "mul24.hi", t, 2, upper,
             [=](Bits a, Bits b, Bits, Bits) { return Bits((low24(a) * low24(b)) >> 16); });
  adder.same("mad24", "mad24.lo", t, 3, ".lo: lower 32 bits of the 48-bit product, plus c",
             [=](Bits a, Bits b, Bits c, Bits) { return Bits(low24(a) * low24(b)) + c; });
  adder.same("mad24", "mad24.hi", t, 3, upper,
             [=](Bits a, Bits b, Bits c, Bits) { return Bits((low24(a) * low24(b)) >> 16) + c; });
}

void add_special(IntegerAdder &adder) {
  const IntegerType &s32 = kIntegerTypes[3];
  auto clamped = [=](Wide v) { return Bits(std::clamp(v, s32.least(), s32.most())); };
  adder.add("add", "add.sat.s32", "rrr", ".sat limits the result to MININT..MAXINT",
            [=](Bits a, Bits b, Bits, Bits) { return clamped(s32.of(a) + s32.of(b)); });
  adder.add("sub", "sub.sat.s32", "rrr", ".sat limits the result to MININT..MAXINT",
            [=](Bits a, Bits b, Bits, Bits) { return clamped(s32.of(a) - s32.of(b)); });
  adder.add(
      "min", "min.relu.s32", "rrr", ".relu clamps negative results to 0",
      [=](Bits a, Bits b, Bits, Bits) {
        return Bits(std::max<Wide>(0, std::min(s32.of(a), s32.of(b))));
      },
      90);
  adder.add(
      "max", "max.relu.s32", "rrr", ".relu clamps negative results to 0",
      [=](Bits a, Bits b, Bits, Bits) {
        return Bits(std::max<Wide>(0, std::max(s32.of(a), s32.of(b))));
      },
      90);
  adder.add("mad", "mad.hi.sat.s32", "rrrr", ".sat limits the result to MININT..MAXINT",
            [=](Bits a, Bits b, Bits c, Bits) {
              return clamped(((s32.of(a) * s32.of(b)) >> 32) + s32.of(c));
            });
  adder.add("mad24", "mad24.hi.sat.s32", "rrrr", ".sat limits the result to MININT..MAXINT",
            [=](Bits a, Bits b, Bits c, Bits) {
              return clamped(((integer(a, 24, true) * integer(b, 24, true)) >> 16) + s32.of(c));
            });
  struct Halves {
    const char *type;
    bool is_signed, relu;
  };
  for (Halves h : {Halves{"u16x2", false, false}, {"s16x2", true, false}, {"s16x2", true, true}})
    for (bool greatest : {false, true}) {
      auto half = [=](Bits a, Bits b) {
        Wide x = integer(a & 0xffff, 16, h.is_signed), y = integer(b & 0xffff, 16, h.is_signed);
        Wide chosen = greatest ? std::max(x, y) : std::min(x, y);
        return Bits(h.relu ? std::max<Wide>(chosen, 0) : chosen) & 0xffff;
      };
      const char *name = greatest ? "max" : "min";
      const std::string base = std::string(name) + ".", type = h.type;
      auto both = [=](Bits a, Bits b, Bits, Bits) {
        return half(a, b) | half(a >> 16, b >> 16) << 16;
      };
      const char *rule = "halves are compared with halves; .relu clamps negative results to 0";
      adder.add(name, base + (h.relu ? "relu." : "") + type, "rrr", rule, both, 90);
      if (h.relu) // as the compiler's __vimax_s16x2_relu has it
        adder.add(name, base + type + ".relu", "rrr", rule, both, 90);
    }
  for (const char *type : {"u16x2", "s16x2"})
    adder.add(
        "add", std::string("add.") + type, "rrr", "the halves are added separately",
        [](Bits a, Bits b, Bits, Bits) {
          return ((a + b) & 0xffff) | (((a >> 16) + (b >> 16)) & 0xffff) << 16;
        },
        90);
}

/// Sums of parts of `width` bits of a, and bytes of b from `first` on.
void add_dot_products(IntegerAdder &adder) {
  for (bool a_signed : {false, true})
    for (bool b_signed : {false, true}) {
      auto dot = [=](Bits a, Bits b, Bits c, int width, int count) {
        Wide total = integer(c, 32, a_signed || b_signed);
        for (int i = 0; i < count; ++i)
          total += integer(a >> (i * width), width, a_signed) * integer(b >> (i * 8), 8, b_signed);
        return Bits(total);
      };
      const std::string types =
          std::string(a_signed ? ".s32" : ".u32") + (b_signed ? ".s32" : ".u32");
      adder.add("dp4a", "dp4a" + types, "rrrr", "four-way byte dot product accumulated in c",
                [=](Bits a, Bits b, Bits c, Bits) { return dot(a, b, c, 8, 4); });
      adder.add("dp2a", "dp2a.lo" + types, "rrrr", ".lo: bytes 0 and 1 of b",
                [=](Bits a, Bits b, Bits c, Bits) { return dot(a, b, c, 16, 2); });
      adder.add("dp2a", "dp2a.hi" + types, "rrrr", ".hi: bytes 2 and 3 of b",
                [=](Bits a, Bits b, Bits c, Bits) { return dot(a, b >> 16, c, 16, 2); });
    }
}

/// A word of a chain: a sum, a difference, or half of a product and an addend.
struct CarryStep {
  const char *mnemonic;
  bool subtracts = false;
  int product_half = -1; // 0 lower, 1 upper
};
constexpr CarryStep kFirstSteps[] = {
    {"add"}, {"sub", true}, {"mad.lo", false, 0}, {"mad.hi", false, 1}};
constexpr CarryStep kNextSteps[] = {
    {"addc"}, {"subc", true}, {"madc.lo", false, 0}, {"madc.hi", false, 1}};

/// Chains of every two kinds of words, and of a third that reads what the second wrote. A
/// difference is a + ~b + 1: the carry out of that is CC.CF, which the compiler's divisions of
/// 128-bit numbers read with addc.
void add_carries(IntegerAdder &adder, const IntegerType &t) {
  const std::string k(1, t.kind), type = t.name, bits = std::to_string(t.bits);
  auto operands = [&](const CarryStep &step, const char *names) {
    std::string text;
    for (int i = 0; i < (step.product_half < 0 ? 2 : 3); ++i)
      text += ", %" + k + names[i];
    return text;
  };
  auto add = [=](const CarryStep &step, Bits x, Bits y, Bits z, Bits &carry) {
    if (step.product_half >= 0) {
      const UnsignedWide product = t.is_signed ? UnsignedWide(t.of(x) * t.of(y))
                                               : UnsignedWide(t.of(x)) * UnsignedWide(t.of(y));
      x = Bits(product >> (step.product_half * t.bits));
      y = z;
    }
    const UnsignedWide mask = (UnsignedWide(1) << t.bits) - 1;
    const UnsignedWide sum =
        (UnsignedWide(x) & mask) + (UnsignedWide(step.subtracts ? ~y : y) & mask) + carry;
    carry = Bits(sum >> t.bits);
    return Bits(sum);
  };
  const std::string open = "{ .reg .b" + bits + " w; ", kinds(5, t.kind);
  for (const CarryStep &first : kFirstSteps)
    for (const CarryStep &next : kNextSteps) {
      const std::string begin =
          open + first.mnemonic + ".cc." + type + " w" + operands(first, "abc") + "; ";
      adder.text(
          "extended precision, CC.CF",
          begin + next.mnemonic + "." + type + " %" + k + "d" + operands(next, "cea") + "; }",
          kinds, "the carry of one word enters the next", [=](Bits a, Bits b, Bits c, Bits e) {
            Bits carry = first.subtracts;
            add(first, a, b, c, carry);
            return add(next, c, e, a, carry);
          });
      const CarryStep &last = kNextSteps[!next.subtracts];
      adder.text("extended precision, CC.CF",
                 begin + next.mnemonic + ".cc." + type + " w" + operands(next, "cea") + "; " +
                     last.mnemonic + "." + type + " %" + k + "d" + operands(last, "bc") + "; }",
                 kinds, ".cc also writes the carry", [=](Bits a, Bits b, Bits c, Bits e) {
                   Bits carry = first.subtracts;
                   add(first, a, b, c, carry);
                   add(next, c, e, a, carry);
                   return add(last, b, c, 0, carry);
                 });
    }
}

} // namespace

void add_integer_cases(OpcodeCases &cases) {
  IntegerAdder adder(cases);
  for (const IntegerType &t : kIntegerTypes) {
    add_wrapping(adder, t);
    add_division(adder, t);
    add_products(adder, t);
    if (t.bits > 16)
      add_carries(adder, t);
  }
  add_special(adder);
  add_dot_products(adder);
}

} // namespace cugrt::conformance
