// cvt between every two number types in every rounding, with .sat and .ftz; pairs; tf32; fp8.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

struct NumberType {
  const char *name;
  char kind;
  int bits;
  bool is_signed;
  const Format *format; // null: an integer
};
constexpr NumberType kNumberTypes[] = {
    {"u8", 'r', 8, false, nullptr},   {"s8", 'r', 8, true, nullptr},
    {"u16", 'h', 16, false, nullptr}, {"s16", 'h', 16, true, nullptr},
    {"u32", 'r', 32, false, nullptr}, {"s32", 'r', 32, true, nullptr},
    {"u64", 'l', 64, false, nullptr}, {"s64", 'l', 64, true, nullptr},
    {"f16", 'h', 16, true, &kF16},    {"bf16", 'h', 16, true, &kBf16},
    {"f32", 'r', 32, true, &kF32},    {"f64", 'l', 64, true, &kF64},
};

Real value_of(const NumberType &t, Bits v, bool ftz = false) {
  if (t.format)
    return decode(*t.format, ftz ? t.format->flushed(v) : v);
  return Real(integer(v, t.bits, t.is_signed));
}

Wide lowest_of(const NumberType &t) { return t.is_signed ? -(Wide(1) << (t.bits - 1)) : 0; }
Wide highest_of(const NumberType &t) { return (Wide(1) << (t.bits - t.is_signed)) - 1; }

/// Of `a` rounded to an integer. Out of range: clamped; NaN: "zero if source is not .f64 and
/// destination is not .s64 nor .u64. Otherwise 1 << (BitWidth(dst) - 1)". Extended to the register,
/// which may be wider than the type.
Bits to_integer(const NumberType &t, const NumberType &a, Real integral_value) {
  if (integral_value != integral_value)
    return a.bits == 64 || t.bits == 64
               ? Bits(integer(Bits(1) << (t.bits - 1), t.bits, t.is_signed))
               : 0;
  Real v = std::clamp(integral_value, Real(lowest_of(t)), Real(highest_of(t)));
  return Bits(Wide(v));
}

/// Some conversions of f32 and f16 are older than those of bf16.
int compute_of(const NumberType &d, const NumberType &a, bool nearest = true) {
  bool half = d.format == &kBf16 || a.format == &kBf16;
  if (!half)
    return 75;
  return d.format == &kBf16 && a.format == &kF32 && nearest ? 80 : 90;
}

void add(OpcodeCases &cases, const std::string &modifiers, const NumberType &d, const NumberType &a,
         const char *rule, Reference reference, int compute) {
  const std::string kinds = std::string() + d.kind + a.kind;
  const std::string opcode = "cvt" + modifiers + "." + d.name + "." + a.name;
  // From and to bf16, eight bits stand in a register of eight bits.
  std::string text = d.bits == 8 && a.format == &kBf16
                         ? "{ .reg .b8 byte; " + opcode + " byte, %ha; cvt." + d.name[0] + "32." +
                               d.name + " %rd, byte; }"
                     : a.bits == 8 && d.format == &kBf16
                         ? "{ .reg .b8 byte; cvt.u8.u32 byte, %ra; " + opcode + " %hd, byte; }"
                         : spelled(opcode, kinds);
  cases.instruction(std::move(text), kinds, std::move(reference),
                    {"Data Movement and Conversion Instructions: cvt", rule}, {d.format, 0, false},
                    {compute, "8.1"});
}

void add_integers(OpcodeCases &cases, const NumberType &d, const NumberType &a) {
  add(
      cases, "", d, a, "integers: extended by the sign of the source, or cut",
      [=](Bits v, Bits, Bits, Bits) {
        return Bits(integer(Bits(integer(v, a.bits, a.is_signed)), d.bits, d.is_signed));
      },
      75);
  if (lowest_of(d) <= lowest_of(a) && highest_of(a) <= highest_of(d))
    return; // .sat is refused where nothing can be out of range
  add(
      cases, ".sat", d, a, ".sat clamps to the range of the destination",
      [=](Bits v, Bits, Bits, Bits) {
        return Bits(std::clamp(integer(v, a.bits, a.is_signed), lowest_of(d), highest_of(d)));
      },
      75);
}

void add_float_to_integer(OpcodeCases &cases, const NumberType &d, const NumberType &a) {
  for (const RoundingMode &m : kRoundingModes) {
    add(
        cases, std::string(".") + m.name + "i", d, a,
        "rounded to an integer, clamped to the destination; NaN: 0 or the highest bit, by the "
        "types",
        [=](Bits v, Bits, Bits, Bits) {
          return to_integer(d, a, integral(value_of(a, v), m.mode));
        },
        compute_of(d, a));
    if (a.format == &kF32)
      add(
          cases, std::string(".") + m.name + "i.ftz", d, a, ".ftz: subnormal inputs are zeros",
          [=](Bits v, Bits, Bits, Bits) {
            return to_integer(d, a, integral(value_of(a, v, true), m.mode));
          },
          75);
  }
}

void add_integer_to_float(OpcodeCases &cases, const NumberType &d, const NumberType &a) {
  for (const RoundingMode &m : kRoundingModes)
    add(
        cases, std::string(".") + m.name, d, a, "rounded in the direction that is asked for",
        [=](Bits v, Bits, Bits, Bits) { return encode(*d.format, value_of(a, v), m.mode); },
        compute_of(d, a, false));
}

/// To the same format: rounding to an integer.
void add_roundings(OpcodeCases &cases, const NumberType &t) {
  for (const RoundingMode &m : kRoundingModes)
    add(
        cases, std::string(".") + m.name + "i", t, t,
        "integer rounding keeps the type, and the sign of zero",
        [=](Bits v, Bits, Bits, Bits) {
          Real x = value_of(t, v);
          return encode(*t.format, std::copysign(integral(x, m.mode), x));
        },
        compute_of(t, t));
  if (t.format != &kF32)
    return;
  add(
      cases, ".sat", t, t, ".sat: [0.0, 1.0], NaN to +0.0",
      [=](Bits v, Bits, Bits, Bits) {
        Real x = value_of(t, v);
        return encode(kF32, x != x ? 0 : std::clamp(x, 0.0L, 1.0L) + 0.0L);
      },
      75);
}

void add_floats(OpcodeCases &cases, const NumberType &d, const NumberType &a) {
  const bool bf16 = d.format == &kBf16 || a.format == &kBf16;
  const bool widens = a.format->mantissa <= d.format->mantissa && a.format->bias <= d.format->bias;
  if (widens) {
    add(
        cases, "", d, a, "to a wider format: exact",
        [=](Bits v, Bits, Bits, Bits) { return encode(*d.format, value_of(a, v)); },
        bf16 ? 90 : 75);
    return;
  }
  // Of f32 to bf16 the ISA has .rn and .rz; ptxas takes, and headers of the toolkit use, all four.
  for (const RoundingMode &m : kRoundingModes)
    add(
        cases, std::string(".") + m.name, d, a, "to a narrower format: rounded as asked for",
        [=](Bits v, Bits, Bits, Bits) { return encode(*d.format, value_of(a, v), m.mode); },
        bf16 ? (a.format == &kF32 ? 80 : 90) : 75);
  if (d.format == &kF16 && a.format == &kF32)
    add(
        cases, ".rn.ftz", d, a, ".ftz applies to the f32 operand",
        [=](Bits v, Bits, Bits, Bits) { return encode(kF16, value_of(a, v, true)); }, 75);
}

Real relu(Real v) { return v > 0 || v != v ? v : 0; }

void add_packed(OpcodeCases &cases) {
  for (const Format *t : {&kF16, &kBf16})
    for (const char *modifiers : {".rn", ".rz", ".rn.relu", ".rz.relu"}) {
      const std::string m = modifiers;
      const int mode = m[2] == 'n' ? FE_TONEAREST : FE_TOWARDZERO;
      const bool clamps = m.size() > 3;
      cases.instruction(spelled("cvt" + m + "." + t->name + "x2.f32", "rrr"), "rrr",
                        [=](Bits a, Bits b, Bits, Bits) {
                          auto one = [&](Bits v) {
                            Real x = decode(kF32, v);
                            return encode(*t, clamps ? relu(x) : x, mode);
                          };
                          return one(a) << 16 | one(b);
                        },
                        {"Data Movement and Conversion Instructions: cvt",
                         "the value of a goes to the upper half, of b to the lower"},
                        {t, 0, true}, {80, "8.1"});
    }
  // Ten bits of mantissa, in the upper bits of an f32; the ISA leaves the 13 lower bits open.
  for (bool away : {true, false})
    cases.instruction(spelled(away ? "cvt.rna.tf32.f32" : "cvt.rn.tf32.f32", "rr") +
                          " and.b32 %rd, %rd, 0xffffe000;",
                      "rr",
                      [=](Bits a, Bits, Bits, Bits) {
                        if (kF32.is_nan(a) || (a & 0x7fffffff) == kF32.infinity())
                          return a & 0xffffe000;
                        Bits low = a & 0x1fff, kept = a - low;
                        bool up = low > 0x1000 || (low == 0x1000 && (away || (a & 0x2000)));
                        return kept + (up ? 0x2000 : 0);
                      },
                      {"Data Movement and Conversion Instructions: cvt",
                       away ? ".rna: to nearest, ties away from zero" : ".rn: to nearest even"},
                      {&kF32, 0, false}, {away ? 80 : 90, "8.1"});
}

/// Formats of eight bits, as tables of 128 magnitudes: e4m3 has one NaN and no infinity.
struct ByteFormat {
  const char *name;
  int mantissa, bias;
  Bits largest;

  Real of(Bits v) const {
    int exponent = int(v & 0x7f) >> mantissa, m = int(v) & ((1 << mantissa) - 1);
    Real magnitude = std::ldexp(Real(exponent ? m + (1 << mantissa) : m),
                                std::max(exponent, 1) - bias - mantissa);
    if ((v & 0x7f) > largest)
      magnitude = mantissa == 2 && (v & 0x7f) == 0x7c ? Real(INFINITY) : Real(NAN);
    return v & 0x80 ? -magnitude : magnitude;
  }
  /// Nearest, ties to even; what is too large becomes the largest.
  Bits nearest(Real v) const {
    if (v != v)
      return 0x7f;
    Bits sign = std::signbit(v) ? 0x80 : 0, best = 0;
    v = std::fabs(v);
    if (v >= of(largest))
      return sign | largest;
    for (Bits i = 0; i <= largest; ++i) {
      Real distance = std::fabs(of(i) - v), so_far = std::fabs(of(best) - v);
      if (distance < so_far || (distance == so_far && !(i & 1)))
        best = i;
    }
    return sign | best;
  }
};

void add_bytes(OpcodeCases &cases) {
  const Citation cite{"Data Movement and Conversion Instructions: cvt",
                      ".satfinite: out of range becomes the largest finite value, NaN 0x7f"};
  for (const ByteFormat &t :
       {ByteFormat{"e4m3x2", 3, 7, 0x7e}, ByteFormat{"e5m2x2", 2, 15, 0x7b}}) {
    const std::string type = t.name;
    const Target target{89, "8.1"};
    for (bool clamps : {false, true}) {
      cases.instruction(
          spelled(std::string("cvt.rn.satfinite.") + (clamps ? "relu." : "") + type + ".f32",
                  "hrr"),
          "hrr",
          [=](Bits a, Bits b, Bits, Bits) {
            auto one = [&](Bits v) {
              Real x = decode(kF32, v);
              return t.nearest(clamps ? relu(x) : x);
            };
            return one(a) << 8 | one(b);
          },
          cite, {}, target);
    }
    cases.instruction(
        spelled("cvt.rn.satfinite." + type + ".f16x2", "hr"), "hr",
        [=](Bits a, Bits, Bits, Bits) {
          return t.nearest(decode(kF16, a >> 16 & 0xffff)) << 8 |
                 t.nearest(decode(kF16, a & 0xffff));
        },
        cite, {}, target);
    cases.instruction(
        spelled("cvt.rn.f16x2." + type, "rh"), "rh",
        [=](Bits a, Bits, Bits, Bits) {
          return encode(kF16, t.of(a >> 8 & 255)) << 16 | encode(kF16, t.of(a & 255));
        },
        {"Data Movement and Conversion Instructions: cvt", "to f16x2: exact"}, {&kF16, 0, true},
        target);
  }
}

} // namespace

void add_convert_cases(OpcodeCases &cases) {
  for (const NumberType &d : kNumberTypes)
    for (const NumberType &a : kNumberTypes) {
      if (!d.format && !a.format)
        add_integers(cases, d, a);
      else if (!d.format)
        add_float_to_integer(cases, d, a);
      else if (!a.format)
        add_integer_to_float(cases, d, a);
      else if (d.format == a.format)
        add_roundings(cases, d);
      else
        add_floats(cases, d, a);
    }
  add_packed(cases);
  add_bytes(cases);
}

} // namespace cugrt::conformance
