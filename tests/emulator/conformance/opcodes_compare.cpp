// setp and set over every type and comparison.
#include "opcode_case.h"

namespace cugrt::conformance {

namespace {

struct Compare {
  const char *name;
  bool less, equal, greater, unordered; // when it holds
};

constexpr Compare kIntegers[] = {
    {"eq", false, true, false, false}, {"ne", true, false, true, false},
    {"lt", true, false, false, false}, {"le", true, true, false, false},
    {"gt", false, false, true, false}, {"ge", false, true, true, false}};
constexpr Compare kUnsigned[] = {{"lo", true, false, false, false},
                                 {"ls", true, true, false, false},
                                 {"hi", false, false, true, false},
                                 {"hs", false, true, true, false}};
constexpr Compare kFloats[] = {
    {"eq", false, true, false, false}, {"ne", true, false, true, false},
    {"lt", true, false, false, false}, {"le", true, true, false, false},
    {"gt", false, false, true, false}, {"ge", false, true, true, false},
    {"equ", false, true, false, true}, {"neu", true, false, true, true},
    {"ltu", true, false, false, true}, {"leu", true, true, false, true},
    {"gtu", false, false, true, true}, {"geu", false, true, true, true},
    {"num", true, true, true, false},  {"nan", false, false, false, true}};

void add(OpcodeCases &cases, const std::string &opcode, char kind, const char *rule,
         Reference reference, int compute) {
  const std::string kinds = std::string("r") + kind + kind;
  cases.instruction(spelled_predicate(opcode, kinds), kinds, std::move(reference),
                    {"Comparison and Selection Instructions: setp", rule}, {}, {compute, "8.1"});
}

void add_integer(OpcodeCases &cases, const Compare &c, const char *type, char kind, int bits,
                 bool is_signed) {
  add(
      cases, std::string("setp.") + c.name + "." + type, kind,
      "integer comparison; unsigned types also take lo, ls, hi, hs",
      [=](Bits a, Bits b, Bits, Bits) {
        Wide x = integer(a, bits, is_signed), y = integer(b, bits, is_signed);
        return Bits(x < y ? c.less : x > y ? c.greater : c.equal);
      },
      75);
}

void add_float(OpcodeCases &cases, const Compare &c, const Format &t, bool ftz) {
  add(
      cases, std::string("setp.") + c.name + (ftz ? ".ftz." : ".") + t.name,
      t.bits == 64   ? 'l'
      : t.bits == 32 ? 'r'
                     : 'h',
      "ordered comparisons are false on NaN, those ending in u are true",
      [=, &t](Bits a, Bits b, Bits, Bits) {
        Real x = decode(t, ftz ? t.flushed(a) : a), y = decode(t, ftz ? t.flushed(b) : b);
        return Bits(x < y ? c.less : x > y ? c.greater : x == y ? c.equal : c.unordered);
      },
      &t == &kBf16 ? 90 : 75);
}

/// A second predicate, its complement and a Boolean operator; set with its ones and 1.0.
void add_combined(OpcodeCases &cases) {
  struct Combined {
    const char *text;
    std::function<Bits(bool less, bool q)> result;
  };
  for (const Combined &c :
       {Combined{"and", [](bool l, bool q) { return Bits(l && q) | Bits(!l && q) << 1; }},
        Combined{"or", [](bool l, bool q) { return Bits(l || q) | Bits(!l || q) << 1; }},
        Combined{"xor", [](bool l, bool q) { return Bits(l != q) | Bits(!l != q) << 1; }}})
    cases.instruction(
        "{ .reg .pred u, v; .reg .b32 x, y; setp.lt.u32 %q, %rc, %re; setp.lt." +
            std::string(c.text) +
            ".s32 u|v, %ra, %rb, %q; selp.u32 x, 1, 0, u; selp.u32 y, 2, 0, v; or.b32 %rd, x, y; "
            "}",
        "rrrrr",
        [c](Bits a, Bits b, Bits x, Bits e) {
          return c.result(integer(a, 32, true) < integer(b, 32, true), x < e);
        },
        {"Comparison and Selection Instructions: setp", "p = BoolOp(t, c) and q = BoolOp(!t, c)"});
  cases.instruction(spelled("set.lt.u32.s32", "rrr"), "rrr",
                    [](Bits a, Bits b, Bits, Bits) {
                      return integer(a, 32, true) < integer(b, 32, true) ? ~Bits(0) : 0;
                    },
                    {"Comparison and Selection Instructions: set",
                     "0xffffffff for an integer result that is true"});
  cases.instruction(
      spelled("set.gt.f32.f32", "rrr"), "rrr",
      [](Bits a, Bits b, Bits, Bits) {
        return decode(kF32, a) > decode(kF32, b) ? Bits(0x3f800000) : 0;
      },
      {"Comparison and Selection Instructions: set", "1.0f for an f32 result that is true"});
}

} // namespace

void add_compare_cases(OpcodeCases &cases) {
  for (auto [bits, kind] : {std::pair(16, 'h'), {32, 'r'}, {64, 'l'}}) {
    const std::string w = std::to_string(bits);
    for (const Compare &c : kIntegers) {
      add_integer(cases, c, ("u" + w).c_str(), kind, bits, false);
      add_integer(cases, c, ("s" + w).c_str(), kind, bits, true);
      if (&c - kIntegers < 2)
        add_integer(cases, c, ("b" + w).c_str(), kind, bits, false);
    }
    for (const Compare &c : kUnsigned)
      add_integer(cases, c, ("u" + w).c_str(), kind, bits, false);
  }
  for (const Compare &c : kFloats)
    for (const Format *t : {&kF16, &kBf16, &kF32, &kF64})
      add_float(cases, c, *t, false);
  for (const Compare &c : kFloats)
    for (const Format *t : {&kF16, &kF32})
      add_float(cases, c, *t, true);
  add_combined(cases);
}

} // namespace cugrt::conformance
