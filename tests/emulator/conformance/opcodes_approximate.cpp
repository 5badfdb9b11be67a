// Approximate functions, within the bounds that the ISA states: units of the last place, a relative
// error, or an absolute one over a range. Outside the range only the special values are stated.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

using Function = std::function<Real(Real x)>;

/// A case whose result is right where `accepts` says so.
void add(OpcodeCases &cases, const char *name, const std::string &opcode, const std::string &kinds,
         const Format &format, const char *rule, Reference reference,
         std::function<bool(Bits, Bits, Bits)> accepts, Target target = {}) {
  cases.instruction(spelled(opcode, kinds), kinds, std::move(reference),
                    {float_section(name), rule}, {&format, 0, false}, target, std::move(accepts));
}

/// |got - want| <= bound, and the special values of `want`.
bool within(Real got, Real want, Real bound) {
  if (want != want || std::isinf(want))
    return want != want ? got != got : got == want;
  return std::fabs(got - want) <= bound;
}

/// Results below the normal numbers may be flushed without .ftz being asked for only where the ISA
/// says so; with .ftz they are zeros.
struct Unary {
  const char *name, *rule;
  Function function;
  Real relative; // the stated bound
  Bits ulps;     // or units of the last place
};

Real spacing(Real v) { // of f32 at v
  return std::ldexp(1.0L, std::max(std::ilogb(v == 0 ? 0x1p-126L : v), -126) - 23);
}

void add_f32(OpcodeCases &cases, const Unary &u, bool ftz) {
  auto value = [=](Bits a) { return u.function(decode(kF32, ftz ? kF32.flushed(a) : a)); };
  auto reference = [=](Bits a, Bits, Bits, Bits) {
    Bits r = encode(kF32, value(a));
    return ftz ? kF32.flushed(r) : r;
  };
  add(cases, u.name, std::string(u.name) + ".approx" + (ftz ? ".ftz" : "") + ".f32", "rr", kF32,
      u.rule, reference, [=](Bits a, Bits, Bits got) {
        Bits rounded = encode(kF32, value(a));
        if (kF32.is_nan(rounded) || (rounded & 0x7fffffff) == kF32.infinity() || rounded == 0 ||
            rounded == kF32.sign())
          return same_number(kF32, got, rounded);
        if (ftz && kF32.is_subnormal(rounded))
          return (got & 0x7fffffff) == 0 || ulps_apart(kF32, got, 0x00800000) <= 1;
        Real want = value(a), bound = u.ulps ? Real(u.ulps) * spacing(want)
                                             : u.relative * std::fabs(want) + spacing(want) / 2;
        return within(decode(kF32, got), want, bound);
      });
}

const Unary kUnary[] = {
    {"rcp", "maximum error of 1 ulp", [](Real x) { return 1 / x; }, 0, 1},
    {"sqrt", "maximum relative error 2^-23", [](Real x) { return std::sqrt(x); }, 0x1p-23L, 0},
    {"rsqrt", "maximum relative error 2^-22.9", [](Real x) { return 1 / std::sqrt(x); },
     0x1.13p-23L, 0},
    {"ex2", "maximum error of 2 ulp from correctly rounded", [](Real x) { return std::exp2(x); }, 0,
     2},
};

void add_divisions(OpcodeCases &cases, bool ftz) {
  const std::string flags = ftz ? ".ftz" : "";
  auto value = [=](Bits a, Bits b) {
    auto in = [&](Bits v) { return decode(kF32, ftz ? kF32.flushed(v) : v); };
    return in(a) / in(b);
  };
  auto reference = [=](Bits a, Bits b, Bits, Bits) {
    Bits r = encode(kF32, value(a, b));
    return ftz ? kF32.flushed(r) : r;
  };
  for (const char *kind : {"approx", "full"}) {
    const bool full = *kind == 'f';
    add(cases, "div", std::string("div.") + kind + flags + ".f32", "rrr", kF32,
        full ? "maximum error of 2 ulp across the full range"
             : "maximum error of 2 ulp for |b| in [2^-126, 2^126]",
        reference, [=](Bits a, Bits b, Bits got) {
          Real y = decode(kF32, b), want = value(a, b);
          if (want != want)
            return kF32.is_nan(got);
          if (!full && !(std::fabs(y) >= 0x1p-126L && std::fabs(y) <= 0x1p126L))
            return true; // stated only in part: NaN, zero or a quotient
          if (kF32.is_subnormal(encode(kF32, want)) || kF32.is_subnormal(a))
            return std::fabs(decode(kF32, got)) <= std::fabs(want) + 2 * spacing(want);
          if (std::fabs(want) > 0x1.fffffcp127L) // at the border of overflow
            return std::fabs(decode(kF32, got)) > 0x1.fffff0p127L;
          return within(decode(kF32, got), want, 2 * spacing(want));
        });
  }
}

/// Absolute bounds, over the range that the ISA names for them.
void add_absolute(OpcodeCases &cases) {
  auto plain = [](Function f) {
    return [f](Bits a, Bits, Bits, Bits) { return encode(kF32, f(decode(kF32, a))); };
  };
  for (auto [name, function] :
       {std::pair<const char *, Function>("sin", [](Real x) { return std::sin(x); }),
        {"cos", [](Real x) { return std::cos(x); }}}) {
    Function f = function;
    add(cases, name, std::string(name) + ".approx.f32", "rr", kF32,
        "maximum absolute error 2^-20.5 in [-2pi, 2pi]; NaN for infinities", plain(f),
        [f](Bits a, Bits, Bits got) {
          Real x = decode(kF32, a);
          if (std::isfinite(x) && std::fabs(x) > 6.2831853L)
            return !kF32.is_nan(got);
          return within(decode(kF32, got), std::isfinite(x) ? f(x) : Real(NAN), 0x1.6a1p-21L);
        });
  }
  Function log = [](Real x) { return std::log2(x); };
  add(cases, "lg2", "lg2.approx.f32", "rr", kF32,
      "maximum absolute error 2^-22 for inputs in (0.5, 2), else relative 2^-22", plain(log),
      [log](Bits a, Bits, Bits got) {
        Real x = decode(kF32, a), want = log(x);
        return within(decode(kF32, got), want,
                      0x1p-22L * std::max(1.0L, std::isfinite(want) ? std::fabs(want) : 0));
      });
  Function tanh = [](Real x) { return std::tanh(x); };
  add(cases, "tanh", "tanh.approx.f32", "rr", kF32, "maximum relative error 2^-11", plain(tanh),
      [tanh](Bits a, Bits, Bits got) {
        Real want = tanh(decode(kF32, a));
        return within(decode(kF32, got), want, 0x1p-11L * std::fabs(want) + 0x1p-149L);
      },
      {75, "8.1"});
}

/// f64: 20 bits of mantissa for the gross forms, whose lower word is zero.
void add_f64(OpcodeCases &cases) {
  auto plain = [](Function f) {
    return [f](Bits a, Bits, Bits, Bits) { return encode(kF64, f(decode(kF64, a))); };
  };
  Function reciprocal = [](Real x) { return 1 / x; };
  Function root = [](Real x) { return 1 / std::sqrt(x); };
  for (auto [name, opcode, function] : {std::tuple("rcp", "rcp.approx.ftz.f64", reciprocal),
                                        std::tuple("rsqrt", "rsqrt.approx.ftz.f64", root)}) {
    Function f = function;
    add(cases, name, opcode, "ll", kF64,
        "a gross approximation: 20 bits of mantissa, low word zero; subnormals flushed", plain(f),
        [f](Bits a, Bits, Bits got) {
          Real want = f(decode(kF64, kF64.flushed(a)));
          if (want == want && kF64.is_subnormal(encode(kF64, want)))
            return std::fabs(decode(kF64, got)) <= 0x1p-1022L;
          if (want != want)
            return kF64.is_nan(got);
          return uint32_t(got) == 0 && within(decode(kF64, got), want, 0x1p-19L * std::fabs(want));
        });
  }
  add(cases, "rsqrt", "rsqrt.approx.f64", "ll", kF64, "within 4 ulp", plain(root),
      [root](Bits a, Bits, Bits got) {
        return ulps_apart(kF64, got, encode(kF64, root(decode(kF64, a)))) <= 4;
      });
}

/// Half precision, for all values of 16 bits; pairs of them by chance.
void add_halves(OpcodeCases &cases) {
  struct Half {
    const char *name, *flags;
    const Format *format;
    bool packed;
    Real tanh_absolute, tanh_relative, exp_relative;
    int compute;
  };
  const Half halves[] = {{"f16", "", &kF16, false, 0x1.02p-11L, 0, 0x1.12p-10L, 75},
                         {"f16x2", "", &kF16, true, 0x1.02p-11L, 0, 0x1.12p-10L, 75},
                         {"bf16", ".ftz", &kBf16, false, 0, 0x1p-8L, 0x1p-7L, 90},
                         {"bf16x2", ".ftz", &kBf16, true, 0, 0x1p-8L, 0x1p-7L, 90}};
  for (const Half &h : halves)
    for (bool is_tanh : {true, false}) {
      const std::string kinds(2, h.packed ? 'r' : 'h');
      std::string opcode = is_tanh ? std::string("tanh.approx.") + h.name
                                   : std::string("ex2.approx") + h.flags + "." + h.name;
      auto value = [=](Bits v) {
        Real x = decode(*h.format, *h.flags && !is_tanh ? h.format->flushed(v & 0xffff) : v);
        return is_tanh ? std::tanh(x) : std::exp2(x);
      };
      auto reference = [=](Bits a, Bits, Bits, Bits) {
        Bits low = encode(*h.format, value(a & 0xffff));
        return h.packed ? low | encode(*h.format, value(a >> 16 & 0xffff)) << 16 : low;
      };
      auto one = [=](Bits a, Bits got) {
        Real want = value(a), smallest = std::ldexp(1.0L, 1 - h.format->bias);
        Bits rounded = encode(*h.format, want);
        if (h.format->is_nan(rounded) || (rounded & 0x7fff) == h.format->infinity())
          return same_number(*h.format, got, rounded);
        if (*h.flags && !is_tanh && std::fabs(want) < smallest)
          return std::fabs(decode(*h.format, got)) <= smallest;
        Real half_unit =
            std::ldexp(1.0L, std::max(std::ilogb(want == 0 ? smallest : want), 1 - h.format->bias) -
                                 h.format->mantissa - 1);
        Real bound = is_tanh ? h.tanh_absolute + h.tanh_relative * std::fabs(want)
                             : h.exp_relative * std::fabs(want);
        // The bound is of the value before it is rounded to the format; an H100 cuts subnormal
        // results off.
        const Real rounding = std::fabs(want) < smallest ? 2 * half_unit : half_unit;
        return within(decode(*h.format, got), want, bound + rounding);
      };
      add(cases, is_tanh ? "tanh" : "ex2", opcode, kinds, *h.format,
          is_tanh ? "f16: maximum absolute error 2^-10.987; bf16: maximum relative error 2^-8"
                  : "f16: maximum relative error 2^-9.9; bf16: 2^-7",
          reference,
          [=](Bits a, Bits, Bits got) {
            return one(a & 0xffff, got & 0xffff) && (!h.packed || one(a >> 16 & 0xffff, got >> 16));
          },
          {h.compute, "8.1"});
      cases.instructions.back().precision.packed = h.packed;
    }
}

} // namespace

void add_approximate_cases(OpcodeCases &cases) {
  for (bool ftz : {false, true}) {
    for (const Unary &u : kUnary)
      add_f32(cases, u, ftz);
    add_divisions(cases, ftz);
  }
  add_absolute(cases);
  add_f64(cases);
  add_halves(cases);
}

} // namespace cugrt::conformance
