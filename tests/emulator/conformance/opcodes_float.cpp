// f32 and f64: arithmetic in every rounding, with .ftz and .sat; minima; classification.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

char kind_of(const Format &t) { return t.bits == 64 ? 'l' : 'r'; }

/// What .sat does: [0.0, 1.0], NaN to +0.
Real saturated(Real v) { return v != v ? 0 : std::clamp(v, 0.0L, 1.0L) + 0.0L; }

using Compute = std::function<Real(Real x, Real y, Real z)>;

struct Flags {
  bool ftz = false, sat = false;
};

class FloatAdder {
public:
  explicit FloatAdder(OpcodeCases &cases) : cases_(cases) {}

  /// `compute` gives a value that is right once it is rounded in `mode`.
  void add(const char *name, const std::string &opcode, const Format &t, int operands, int mode,
           const char *rule, Compute compute, Flags flags = {}, Target target = {}) {
    std::string kinds(size_t(operands) + 1, kind_of(t));
    auto reference = [=, &t](Bits a, Bits b, Bits c, Bits) {
      auto in = [&](Bits v) { return decode(t, flags.ftz ? t.flushed(v) : v); };
      Real r = compute(in(a), in(b), in(c));
      Bits bits = encode(t, flags.sat ? saturated(r) : r, mode);
      return flags.ftz ? t.flushed(bits) : bits;
    };
    std::string full =
        opcode + (flags.ftz ? ".ftz" : "") + (flags.sat ? ".sat" : "") + "." + t.name;
    cases_.instruction(spelled(full, kinds), kinds, reference, {float_section(name), rule},
                       {&t, 0, false}, target);
  }
  void raw(const char *name, const std::string &text, const std::string &kinds, const char *rule,
           Reference reference) {
    cases_.instruction(text, kinds, std::move(reference), {float_section(name), rule});
  }

private:
  OpcodeCases &cases_;
};

/// x * y + z rounded once: for f64 by the host under the mode, since the exact sum may be longer
/// than a long double; the products of f32 are exact in one.
Real fused(const Format &t, Real x, Real y, Real z, int mode) {
  if (t.bits == 32)
    return sum(x * y, z, mode);
  volatile double a = double(x), b = double(y), c = double(z);
  std::fesetround(mode);
  volatile double r = std::fma(double(a), double(b), double(c));
  std::fesetround(FE_TONEAREST);
  return r;
}

void add_arithmetic(FloatAdder &adder, const Format &t, const RoundingMode &m, Flags flags) {
  const int mode = m.mode;
  const std::string r = std::string(".") + m.name;
  const char *rule = flags.ftz   ? ".ftz: subnormal inputs and results become zeros of their sign"
                     : flags.sat ? ".sat clamps the result to [0.0, 1.0]; NaN becomes +0"
                                 : "rounded once, in the direction that is asked for";
  auto add = [&](const char *name, int operands, Compute compute) {
    adder.add(name, name + r, t, operands, mode, rule, std::move(compute), flags);
  };
  add("add", 2, [=](Real x, Real y, Real) { return sum(x, y, mode); });
  add("sub", 2, [=](Real x, Real y, Real) { return sum(x, -y, mode); });
  add("mul", 2, [](Real x, Real y, Real) { return odd(Operation::multiply, x, y); });
  add("fma", 3, [=, &t](Real x, Real y, Real z) { return fused(t, x, y, z, mode); });
  if (flags.sat)
    return;
  add("div", 2, [](Real x, Real y, Real) { return odd(Operation::divide, x, y); });
  add("rcp", 1, [](Real x, Real, Real) { return odd(Operation::divide, 1, x); });
  add("sqrt", 1, [](Real x, Real, Real) { return odd(Operation::root, x); });
}

Real either_nan(Real x, Real y, Real otherwise) { return x != x || y != y ? Real(NAN) : otherwise; }

void add_minima(FloatAdder &adder, const Format &t) {
  auto add = [&](const char *name, const std::string &opcode, int operands, const char *rule,
                 Compute compute, Flags flags = {}, Target target = {}) {
    adder.add(name, opcode, t, operands, FE_TONEAREST, rule, std::move(compute), flags, target);
  };
  const char *rule = "if one input is NaN the result is the other; +0.0 > -0.0";
  auto low = [](Real x, Real y, Real) { return least(x, y); };
  auto high = [](Real x, Real y, Real) { return most(x, y); };
  add("min", "min", 2, rule, low);
  add("max", "max", 2, rule, high);
  if (t.bits == 64)
    return;
  add("min", "min", 2, "subnormal inputs are flushed with .ftz", low, {true, false});
  add("max", "max", 2, "subnormal inputs are flushed with .ftz", high, {true, false});
  const Target t80{80, "8.1"}, t86{86, "8.1"}, t100{100, "8.8"};
  const char *nan = ".NaN: the result is NaN if any input is";
  add(
      "min", "min.NaN", 2, nan, [](Real x, Real y, Real) { return either_nan(x, y, least(x, y)); },
      {}, t80);
  add(
      "max", "max.NaN", 2, nan, [](Real x, Real y, Real) { return either_nan(x, y, most(x, y)); },
      {}, t80);
  const char *signs = ".xorsign.abs: of the magnitudes, with the XOR of the signs";
  auto with_sign = [](Real v, Real x, Real y) {
    return std::copysign(v, std::signbit(x) != std::signbit(y) ? -1.0L : 1.0L);
  };
  add(
      "min", "min.xorsign.abs", 2, signs,
      [=](Real x, Real y, Real) { return with_sign(least(std::fabs(x), std::fabs(y)), x, y); }, {},
      t86);
  add(
      "max", "max.xorsign.abs", 2, signs,
      [=](Real x, Real y, Real) { return with_sign(most(std::fabs(x), std::fabs(y)), x, y); }, {},
      t86);
  add(
      "min", "min", 3, "three inputs", [](Real x, Real y, Real z) { return least(least(x, y), z); },
      {}, t100);
  add(
      "max", "max", 3, "three inputs", [](Real x, Real y, Real z) { return most(most(x, y), z); },
      {}, t100);
}

void add_signs(FloatAdder &adder, const Format &t) {
  const std::string type = std::string(".") + t.name, k(1, kind_of(t));
  auto add = [&](const char *name, int operands, const char *rule, Compute compute) {
    adder.add(name, name, t, operands, FE_TONEAREST, rule, std::move(compute));
  };
  add("neg", 1, "d = -a", [](Real x, Real, Real) { return -x; });
  add("abs", 1, "d = |a|", [](Real x, Real, Real) { return std::fabs(x); });
  adder.raw("copysign", spelled("copysign" + type, k + k + k), k + k + k,
            "the sign of a on the magnitude of b",
            [&t](Bits a, Bits b, Bits, Bits) { return (a & t.sign()) | (b & (t.sign() - 1)); });
  struct Test {
    const char *name;
    bool (*holds)(int kind);
  };
  for (const Test &test : {Test{"finite", [](int k) { return k != FP_NAN && k != FP_INFINITE; }},
                           Test{"infinite", [](int k) { return k == FP_INFINITE; }},
                           Test{"number", [](int k) { return k != FP_NAN; }},
                           Test{"notanumber", [](int k) { return k == FP_NAN; }},
                           Test{"normal", [](int k) { return k == FP_NORMAL; }},
                           Test{"subnormal", [](int k) { return k == FP_SUBNORMAL; }}})
    adder.raw("testp", spelled_predicate("testp." + std::string(test.name) + type, "r" + k),
              "r" + k, "the property of the number; positive and negative zero are normal numbers",
              [test, &t](Bits a, Bits, Bits, Bits) {
                int kind = t.is_nan(a)                            ? FP_NAN
                           : t.is_subnormal(a)                    ? FP_SUBNORMAL
                           : (a & (t.sign() - 1)) == t.infinity() ? FP_INFINITE
                                                                  : FP_NORMAL;
                return Bits(test.holds(kind));
              });
}

} // namespace

void add_float_cases(OpcodeCases &cases) {
  FloatAdder adder(cases);
  for (const Format *t : {&kF32, &kF64})
    for (const RoundingMode &mode : kRoundingModes) {
      add_arithmetic(adder, *t, mode, {});
      if (t->bits == 64)
        continue;
      add_arithmetic(adder, *t, mode, {true, false});
      add_arithmetic(adder, *t, mode, {false, true});
    }
  for (const Format *t : {&kF32, &kF64}) {
    add_minima(adder, *t);
    add_signs(adder, *t);
  }
}

} // namespace cugrt::conformance
