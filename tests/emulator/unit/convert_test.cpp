// Conversions between every pair of number types, and arithmetic of half precision. The reference
// rounds exact values, held in wide integers or long doubles, by the formats' definitions.
#include "support/opcode_cases.h"

#include <cfenv>
#include <cmath>
#include <limits>

using namespace cugrt::test;

namespace {

/// A binary floating-point format: value = significand * 2^exponent.
struct Format {
  int bits, mantissa, bias;
};
constexpr Format kF16{16, 10, 15}, kBf16{16, 7, 127}, kF32{32, 23, 127}, kF64{64, 52, 1023};

long double decode(const Format &t, U v) {
  U mantissa = v & ((U(1) << t.mantissa) - 1);
  int exponents = t.bits - 1 - t.mantissa,
      exponent = int(v >> t.mantissa & ((U(1) << exponents) - 1));
  bool negative = v >> (t.bits - 1) & 1;
  long double r;
  if (exponent == (1 << exponents) - 1)
    r = mantissa ? NAN : INFINITY;
  else
    r = std::ldexp((long double)(exponent ? mantissa | U(1) << t.mantissa : mantissa),
                   (exponent ? exponent : 1) - t.bias - t.mantissa);
  return negative ? -r : r;
}

/// To nearest even. The value must be exact in the long double.
U encode(const Format &t, long double value) {
  const int exponents = t.bits - 1 - t.mantissa, largest = (1 << exponents) - 1;
  U sign = U(std::signbit(value)) << (t.bits - 1);
  if (value != value)
    return (U(1) << (t.bits - 1)) - 1;
  value = std::fabs(value);
  int exponent = 1 - t.bias;
  if (value > 0 && std::isfinite(value))
    exponent = std::max(exponent, std::ilogb(value));
  if (!std::isfinite(value) || exponent > t.bias)
    return sign | U(largest) << t.mantissa;
  // In units of the last place of this exponent, rounded by the host to an integer.
  long double units = std::nearbyint(std::ldexp(value, t.mantissa - exponent));
  U significand = U(units); // may be one more than fits: it carries into the exponent
  U biased = significand >> t.mantissa ? U(exponent + t.bias) : 0;
  U bits = (biased << t.mantissa) + (biased ? significand - (U(1) << t.mantissa) : significand);
  return sign | std::min(bits, U(largest) << t.mantissa);
}

struct Type {
  const char *name;
  char kind;
  int bits;
  bool is_signed;
  const Format *format; // null: an integer
};
constexpr Type kTypes[] = {
    {"u8", 'r', 8, false, nullptr},   {"s8", 'r', 8, true, nullptr},
    {"u16", 'h', 16, false, nullptr}, {"s16", 'h', 16, true, nullptr},
    {"u32", 'r', 32, false, nullptr}, {"s32", 'r', 32, true, nullptr},
    {"u64", 'l', 64, false, nullptr}, {"s64", 'l', 64, true, nullptr},
    {"f16", 'h', 16, true, &kF16},    {"bf16", 'h', 16, true, &kBf16},
    {"f32", 'r', 32, true, &kF32},    {"f64", 'l', 64, true, &kF64},
};

/// The exact value of the bits.
long double value_of(const Type &t, U v) {
  if (t.format)
    return decode(*t.format, v);
  U low = t.bits == 64 ? v : v & ((U(1) << t.bits) - 1);
  if (t.is_signed && (low >> (t.bits - 1) & 1))
    return t.bits == 64 ? (long double)int64_t(low) : (long double)low - std::ldexp(1.0L, t.bits);
  return (long double)low;
}

long double lowest(const Type &t) { return t.is_signed ? -std::ldexp(1.0L, t.bits - 1) : 0; }
long double highest(const Type &t) { return std::ldexp(1.0L, t.bits - t.is_signed) - 1; }

/// An integral value into an integer type, clamped, extended to the register.
U clamped(const Type &t, long double v) {
  v = std::min(std::max(v, lowest(t)), highest(t));
  return v < 0 ? U(int64_t(v)) : U(v);
}

/// Bits of an integer kept and extended as `t` does.
U wrapped(const Type &t, U v) {
  if (t.bits == 64)
    return v;
  v &= (U(1) << t.bits) - 1;
  return t.is_signed && (v >> (t.bits - 1)) ? v | ~U(0) << t.bits : v;
}

/// What a NaN of type `a` becomes, by the words of the PTX ISA on cvt.
U of_nan(const Type &t, const Type &a) {
  const bool is_zero = a.format != &kF64 && t.bits != 64;
  return is_zero ? 0 : wrapped(t, U(1) << (t.bits - 1));
}

long double integral(int mode, long double v) {
  std::fesetround(mode);
  long double r = std::nearbyint(v);
  std::fesetround(FE_TONEAREST);
  return r;
}

std::string instruction(const std::string &modifiers, const Type &d, const Type &a) {
  const std::string opcode = "cvt" + modifiers + "." + d.name + "." + a.name;
  // From and to bf16, eight bits stand in a register of eight bits.
  if (d.bits == 8 && a.format == &kBf16)
    return "{ .reg .b8 byte; " + opcode + " byte, %ha; cvt." + d.name[0] + "32." + d.name +
           " %rd, byte; }";
  if (a.bits == 8 && d.format == &kBf16)
    return "{ .reg .b8 byte; cvt.u8.u32 byte, %ra; " + opcode + " %hd, byte; }";
  return opcode + " %" + d.kind + "d, %" + a.kind + "a;";
}

struct HalfType {
  const char *name;
  const Format *format;
  bool packed;
};
constexpr HalfType kHalves[] = {{"f16", &kF16, false},
                                {"f16x2", &kF16, true},
                                {"bf16", &kBf16, false},
                                {"bf16x2", &kBf16, true}};

using HalfFunction = std::function<long double(long double, long double, long double)>;

/// An operation on halves, each element by `compute`, which must be exact; `after` works on the
/// bits.
OpcodeCase half_case(const HalfType &t, const std::string &name, int operands, HalfFunction compute,
                     std::function<U(U)> before = {}, std::function<U(U)> after = {}, U ulps = 0) {
  const char kind = t.packed ? 'r' : 'h';
  std::string text = name + "." + t.name + " %" + kind + "d";
  for (int i = 0; i < operands; ++i)
    text += std::string(", %") + kind + "abc"[i];
  auto one = [=](U a, U b, U c) {
    auto in = [&](U v) { return decode(*t.format, before ? before(v & 0xffff) : v & 0xffff); };
    U r = encode(*t.format, compute(in(a), in(b), in(c)));
    return after ? after(r) : r;
  };
  return {text + ";",
          kind,
          kind,
          operands > 1 ? kind : '\0',
          operands > 2 ? kind : '\0',
          0,
          [=](U a, U b, U c, U) {
            return t.packed ? one(a, b, c) | one(a >> 16, b >> 16, c >> 16) << 16 : one(a, b, c);
          },
          ulps};
}

long double least(long double x, long double y) {
  if (x != x || y != y)
    return x != x ? y : x;
  return x == y ? (std::signbit(x) ? x : y) : std::min(x, y);
}
long double most(long double x, long double y) { return -least(-x, -y); }

/// Exact sum, or, when the long double is too short for it, sticky in its last bit: enough for
/// formats that are narrower by two bits or more.
long double sum(long double x, long double y) {
  long double s = x + y, back = s - x, error = (x - (s - back)) + (y - back);
  if (error == 0 || !std::isfinite(s))
    return s;
  long double towards = std::nextafter(s, error > 0 ? INFINITY : -INFINITY);
  // The exact sum lies between s and its neighbour: the one of the two with an odd last bit.
  int exponent;
  long double fraction = std::frexp(s, &exponent);
  constexpr int kDigits = std::numeric_limits<long double>::digits;
  bool odd = std::fmod(std::ldexp(std::fabs(fraction), kDigits), 2) == 1;
  return odd ? s : towards;
}

} // namespace

TEST_CASE("every number type converts to every other as its definition says") {
  std::vector<OpcodeCase> cases;
  for (const Type &d : kTypes)
    for (const Type &a : kTypes) {
      auto add = [&](const std::string &modifiers, Reference reference) {
        cases.push_back({instruction(modifiers, d, a), d.kind, a.kind, 0, 0, 0,
                         std::move(reference), d.format ? kAnyNaN : U(0)});
      };
      if (!d.format && !a.format) {
        add("", [=](U v, U, U, U) { return wrapped(d, wrapped(a, v)); });
        if (lowest(a) < lowest(d) || highest(a) > highest(d)) // otherwise there is no .sat
          add(".sat", [=](U v, U, U, U) { return clamped(d, value_of(a, v)); });
      } else if (!d.format) {
        using P = std::pair<const char *, int>;
        for (auto [name, rounding] : {P(".rni", FE_TONEAREST), P(".rzi", FE_TOWARDZERO),
                                      P(".rmi", FE_DOWNWARD), P(".rpi", FE_UPWARD)}) {
          int mode = rounding;
          add(name, [=](U v, U, U, U) {
            long double x = integral(mode, value_of(a, v));
            return x == x ? clamped(d, x) : of_nan(d, a);
          });
        }
      } else if (d.format == a.format) {
        add(".rmi", [=](U v, U, U, U) {
          long double x = value_of(a, v);
          return encode(*d.format, std::copysign(integral(FE_DOWNWARD, x), x));
        });
      } else {
        bool widens =
            a.format && a.format->mantissa < d.format->mantissa && d.format->bias >= a.format->bias;
        add(widens ? "" : ".rn", [=](U v, U, U, U) { return encode(*d.format, value_of(a, v)); });
      }
    }
  check_opcodes(cases);
}

TEST_CASE("conversions to float are rounded in the direction that is asked for") {
  std::vector<OpcodeCase> cases;
  using P = std::pair<const char *, int>;
  for (const Type &d : kTypes)
    for (const Type &a : kTypes) {
      bool to_float = d.format == &kF32 || d.format == &kF64;
      if (!to_float || (a.format && !(a.format == &kF64 && d.format == &kF32)))
        continue;
      for (auto [name, rounding] :
           {P(".rz", FE_TOWARDZERO), P(".rm", FE_DOWNWARD), P(".rp", FE_UPWARD)}) {
        int mode = rounding;
        cases.push_back({instruction(name, d, a), d.kind, a.kind, 0, 0, 0,
                         [=](U v, U, U, U) {
                           volatile long double x = value_of(a, v);
                           std::fesetround(mode);
                           volatile float single = float(x);
                           volatile double twice = double(x);
                           std::fesetround(FE_TONEAREST);
                           return d.format == &kF32 ? bits(single) : dbits(twice);
                         },
                         kAnyNaN});
      }
    }
  check_opcodes(cases);
}

TEST_CASE("floats are packed in pairs, to tf32 and to eight bits") {
  auto relu = [](long double v) { return v > 0 || v != v ? v : 0.0L; };
  std::vector<OpcodeCase> cases;
  for (const auto &[name, format] : {std::pair("f16x2", &kF16), std::pair("bf16x2", &kBf16)}) {
    const Format *t = format;
    for (bool clamps : {false, true})
      cases.push_back(
          {std::string("cvt.rn.") + (clamps ? "relu." : "") + name + ".f32 %rd, %ra, %rb;", 'r',
           'r', 'r', 0, 0, [=](U a, U b, U, U) {
             auto one = [&](U v) {
               long double x = f(v);
               return encode(*t, clamps ? relu(x) : x);
             };
             return one(a) << 16 | one(b);
           }});
  }
  // tf32: 10 bits of mantissa. Halves go away from zero, or to even.
  cases.push_back({"cvt.rna.tf32.f32 %rd, %ra;", 'r', 'r', 0, 0, 0, [](U a, U, U, U) {
                     if (f(a) != f(a))
                       return U(0x7fffffff);
                     U low = a & 0x1fff;
                     return (a & 0x7f800000) == 0x7f800000 ? a
                                                           : a - low + (low >= 0x1000 ? 0x2000 : 0);
                   }});
  cases.push_back({"cvt.rn.tf32.f32 %rd, %ra;", 'r', 'r', 0, 0, 0, [](U a, U, U, U) {
                     if (f(a) != f(a))
                       return U(0x7fffffff);
                     U low = a & 0x1fff;
                     bool up = low > 0x1000 || (low == 0x1000 && (a & 0x2000));
                     return (a & 0x7f800000) == 0x7f800000 ? a : a - low + (up ? 0x2000 : 0);
                   }});
  // fp8 by search over all 127 magnitudes: e4m3 has no infinity and one NaN.
  struct Byte {
    const char *name;
    int mantissa, bias;
    U largest;
  };
  for (const Byte &t : {Byte{"e4m3x2", 3, 7, 0x7e}, Byte{"e5m2x2", 2, 15, 0x7b}}) {
    auto value = [t](U v) {
      int e = int(v >> t.mantissa & ((1 << (7 - t.mantissa)) - 1)),
          m = int(v & ((1 << t.mantissa) - 1));
      long double magnitude = std::ldexp((long double)(e ? m + (1 << t.mantissa) : m),
                                         (e ? e : 1) - t.bias - t.mantissa);
      if ((v & 0x7f) > t.largest)
        magnitude = t.mantissa == 2 && (v & 0x7f) == 0x7c ? INFINITY : NAN;
      return v & 0x80 ? -magnitude : magnitude;
    };
    auto nearest = [=](long double v) -> U {
      if (v != v)
        return 0x7f;
      U sign = std::signbit(v) ? 0x80 : 0;
      v = std::fabs(v);
      U best = 0;
      for (U i = 0; i <= t.largest; ++i) {
        long double distance = std::fabs(value(i) - v), so_far = std::fabs(value(best) - v);
        if (distance < so_far || (distance == so_far && !(i & 1)))
          best = i;
      }
      return sign | (v >= value(t.largest) ? t.largest : best);
    };
    for (bool clamps : {false, true})
      cases.push_back({std::string("cvt.rn.satfinite.") + (clamps ? "relu." : "") + t.name +
                           ".f32 %hd, %ra, %rb;",
                       'h', 'r', 'r', 0, 0, [=](U a, U b, U, U) {
                         auto one = [&](U v) {
                           return nearest(clamps ? relu(f(v)) : (long double)f(v));
                         };
                         return one(a) << 8 | one(b);
                       }});
    cases.push_back({std::string("cvt.rn.satfinite.") + t.name + ".f16x2 %hd, %ra;", 'h', 'r', 0, 0,
                     0, [=](U a, U, U, U) {
                       return nearest(decode(kF16, a >> 16)) << 8 |
                              nearest(decode(kF16, a & 0xffff));
                     }});
    cases.push_back({std::string("cvt.rn.f16x2.") + t.name + " %rd, %ha;", 'r', 'h', 0, 0, 0,
                     [=](U a, U, U, U) {
                       return encode(kF16, value(a >> 8 & 255)) << 16 |
                              encode(kF16, value(a & 255));
                     }});
  }
  check_opcodes(cases);
}

TEST_CASE("half precision is rounded once, plain and in pairs, flushed where asked for") {
  std::vector<OpcodeCase> cases;
  for (const HalfType &t : kHalves) {
    auto add = [&](const char *name, int operands, HalfFunction compute, U ulps = 0) {
      cases.push_back(half_case(t, name, operands, std::move(compute), {}, {}, ulps));
    };
    add("add.rn", 2, [](auto x, auto y, auto) { return sum(x, y); });
    add("sub.rn", 2, [](auto x, auto y, auto) { return sum(x, -y); });
    add("mul.rn", 2, [](auto x, auto y, auto) { return x * y; });
    add("fma.rn", 3, [](auto x, auto y, auto z) { return sum(x * y, z); });
    add("fma.rn.relu", 3, [](auto x, auto y, auto z) {
      long double r = sum(x * y, z);
      return r > 0 || r != r ? r : 0.0L;
    });
    add("min", 2, [](auto x, auto y, auto) { return least(x, y); });
    add("max", 2, [](auto x, auto y, auto) { return most(x, y); });
    add("min.NaN", 2, [](auto x, auto y, auto) { return x != x || y != y ? NAN : least(x, y); });
    add("max.NaN", 2, [](auto x, auto y, auto) { return x != x || y != y ? NAN : most(x, y); });
    // On the sign bits alone; what becomes of a NaN's other bits is not specified.
    const std::string registers = std::string(t.name) + (t.packed ? " %rd, %ra;" : " %hd, %ha;");
    const char kind = t.packed ? 'r' : 'h';
    const U signs = t.packed ? 0x80008000 : 0x8000;
    cases.push_back(
        {"neg." + registers, kind, kind, 0, 0, 0, [=](U a, U, U, U) { return a ^ signs; }});
    cases.push_back(
        {"abs." + registers, kind, kind, 0, 0, 0, [=](U a, U, U, U) { return a & ~signs; }});
    add(
        "tanh.approx", 1, [](auto x, auto, auto) { return std::tanh(x); }, 1);
    std::string ex2 = t.format == &kBf16 ? "ex2.approx.ftz" : "ex2.approx";
    if (t.format == &kF16)
      add(
          ex2.c_str(), 1, [](auto x, auto, auto) { return std::exp2(x); }, 1);
    auto flush = [=](U v) {
      return (v & (t.format == &kF16 ? 0x7c00 : 0x7f80)) == 0 ? v & 0x8000 : v;
    };
    auto flushed = [&](const std::string &name, int operands, HalfFunction compute, U ulps = 0) {
      cases.push_back(half_case(t, name, operands, std::move(compute), flush, flush, ulps));
    };
    if (t.format == &kBf16) {
      flushed(
          ex2, 1, [](auto x, auto, auto) { return std::exp2(x); }, 1);
      continue;
    }
    flushed("add.rn.ftz", 2, [](auto x, auto y, auto) { return sum(x, y); });
    flushed("mul.rn.ftz", 2, [](auto x, auto y, auto) { return x * y; });
    flushed("fma.rn.ftz", 3, [](auto x, auto y, auto z) { return sum(x * y, z); });
    flushed("min.ftz", 2, [](auto x, auto y, auto) { return least(x, y); });
  }
  cases.push_back({"{ .reg .pred p; setp.eq.ftz.f16 p, %ha, %hb; selp.u32 %rd, 1, 0, p; }", 'r',
                   'h', 'h', 0, 0, [](U a, U b, U, U) {
                     auto in = [](U v) {
                       return (v & 0x7c00) == 0 ? 0.0L : decode(kF16, v & 0xffff);
                     };
                     return U(in(a) == in(b));
                   }});
  check_opcodes(cases);
}

TEST_CASE("operations on one half are right for all 65536 of them") {
  struct Case {
    const char *text;
    const Format *format;
    std::function<U(U)> want;
    U ulps;
  };
  auto plain = [](const Format *t, auto compute) {
    return [=](U v) { return encode(*t, compute(decode(*t, v))); };
  };
  auto tanh = [](long double x) { return std::tanh(x); };
  auto exp2 = [](long double x) { return std::exp2(x); };
  const Case cases[] = {
      {"neg.f16 %d, %a;", &kF16, [](U v) { return v ^ 0x8000; }, 0},
      {"abs.f16 %d, %a;", &kF16, [](U v) { return v & 0x7fff; }, 0},
      {"neg.bf16 %d, %a;", &kBf16, [](U v) { return v ^ 0x8000; }, 0},
      {"abs.bf16 %d, %a;", &kBf16, [](U v) { return v & 0x7fff; }, 0},
      {"tanh.approx.f16 %d, %a;", &kF16, plain(&kF16, tanh), 1},
      {"tanh.approx.bf16 %d, %a;", &kBf16, plain(&kBf16, tanh), 1},
      {"ex2.approx.f16 %d, %a;", &kF16, plain(&kF16, exp2), 1},
      {"cvt.rni.f16.f16 %d, %a;", &kF16,
       plain(&kF16, [](long double x) { return std::copysign(std::nearbyint(x), x); }), 0},
      {"{ .reg .b32 t; cvt.f32.bf16 t, %a; cvt.rn.bf16.f32 %d, t; }", &kBf16,
       [](U v) { return (v & 0x7fff) > 0x7f80 ? U(0x7fff) : v; }, 0},
      {"{ .reg .b64 t; cvt.f64.f16 t, %a; cvt.rn.f16.f64 %d, t; }", &kF16,
       [](U v) { return (v & 0x7fff) > 0x7c00 ? U(0x7fff) : v; }, 0},
      {"cvt.rn.bf16.f16 %d, %a;", &kBf16, [](U v) { return encode(kBf16, decode(kF16, v)); }, 0},
      {"cvt.rn.f16.bf16 %d, %a;", &kF16, [](U v) { return encode(kF16, decode(kBf16, v)); }, 0},
  };
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (size_t i = 0; i < std::size(cases); ++i)
    text +=
        ".visible .entry k" + std::to_string(i) +
        "(.param .u64 o) {\n.reg .b32 %r<4>; .reg .b64 %x, %y; .reg .b16 %a, %d;\n"
        "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;\n"
        "mad.lo.u32 %r3, %r0, %r1, %r2; cvt.u16.u32 %a, %r3;\n" +
        std::string(cases[i].text) +
        "\nld.param.u64 %x, [o]; mul.wide.u32 %y, %r3, 2; add.s64 %x, %x, %y; st.global.u16 [%x], "
        "%d; ret; }\n";
  Emulated device;
  device.load(text);
  uint64_t out = device.allocate(65536 * 2);
  for (size_t n = 0; n < std::size(cases); ++n) {
    INFO(cases[n].text);
    device.launch("k" + std::to_string(n), {256, 1, 1}, {256, 1, 1}, 0, out);
    auto got = device.download<uint16_t>(out, 65536);
    const U infinity = cases[n].format == &kF16 ? 0x7c00 : 0x7f80;
    for (U v = 0; v < 65536; ++v) {
      U want = cases[n].want(v), distance = got[v] > want ? got[v] - want : want - got[v];
      bool both_nan = (got[v] & 0x7fff) > infinity && (want & 0x7fff) > infinity;
      if (!both_nan && distance > cases[n].ulps) {
        INFO(std::hex << v << " gives " << got[v] << " instead of " << want);
        FAIL("a half is wrong");
      }
    }
  }
}

TEST_CASE("two bytes become 16 bits, the first the lower, as the headers of bf16 have it") {
  check_opcodes({{"{ .reg .b8 low, high; cvt.u8.u32 low, %ra; cvt.u8.u32 high, %rb; mov.b16 %hd, "
                  "{low, high}; }",
                  'h', 'r', 'r', 0, 0, [](U a, U b, U, U) { return (a & 255) | (b & 255) << 8; }},
                 {"{ .reg .b8 low; cvt.u8.u32 low, %ra; mov.b16 %hd, {low, 0}; }", 'h', 'r', 0, 0,
                  0, [](U a, U, U, U) { return a & 255; }}});
}
