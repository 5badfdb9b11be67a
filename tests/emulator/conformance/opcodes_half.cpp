// f16 and bf16, plain and in pairs: rounded once from exact results, flushed where asked for.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

struct Half {
  const char *name;
  const Format *format;
  bool packed;
  int arithmetic; // compute capability from which add, sub and mul exist
  char kind() const { return packed ? 'r' : 'h'; }
};
constexpr Half kHalves[] = {{"f16", &kF16, false, 75},
                            {"f16x2", &kF16, true, 75},
                            {"bf16", &kBf16, false, 90},
                            {"bf16x2", &kBf16, true, 90}};

using Compute = std::function<Real(Real x, Real y, Real z)>;
enum class After { nothing, flush, saturate, relu };

Bits finish(const Format &format, Real value, After after) {
  if (after == After::saturate)
    value = value != value ? 0 : std::clamp(value, 0.0L, 1.0L) + 0.0L;
  if (after == After::relu && value <= 0)
    value = 0;
  Bits bits = encode(format, value);
  return after == After::flush ? format.flushed(bits) : bits;
}

void add(OpcodeCases &cases, const Half &h, const char *name, const std::string &opcode,
         int operands, const char *rule, Compute compute, int compute_capability,
         After after = After::nothing) {
  const std::string kinds(size_t(operands) + 1, h.kind());
  auto one = [=](Bits a, Bits b, Bits c) {
    auto in = [&](Bits v) {
      v &= 0xffff;
      return decode(*h.format, after == After::flush ? h.format->flushed(v) : v);
    };
    return finish(*h.format, compute(in(a), in(b), in(c)), after);
  };
  auto reference = [=](Bits a, Bits b, Bits c, Bits) {
    return h.packed ? one(a, b, c) | one(a >> 16, b >> 16, c >> 16) << 16 : one(a, b, c);
  };
  cases.instruction(spelled(opcode + "." + h.name, kinds), kinds, reference,
                    {std::string("Half Precision Floating-Point Instructions: ") + name, rule},
                    {h.format, 0, h.packed}, {compute_capability, "8.1"});
}

/// Sign bits alone, NaNs included: their other bits are left open.
void add_signs(OpcodeCases &cases, const Half &h) {
  const int from = h.format == &kF16 ? 75 : 80;
  add(
      cases, h, "neg", "neg", 1, "d = -a", [](Real x, Real, Real) { return -x; }, from);
  add(
      cases, h, "abs", "abs", 1, "d = |a|", [](Real x, Real, Real) { return std::fabs(x); }, from);
}

void add_minima(OpcodeCases &cases, const Half &h) {
  auto low = [](Real x, Real y, Real) { return least(x, y); };
  auto high = [](Real x, Real y, Real) { return most(x, y); };
  const char *rule = "if one input is NaN the result is the other; +0.0 > -0.0";
  add(cases, h, "min", "min", 2, rule, low, 80);
  add(cases, h, "max", "max", 2, rule, high, 80);
  const char *nan = ".NaN: the result is NaN if any input is";
  auto either = [](Real x, Real y) { return x != x || y != y; };
  add(
      cases, h, "min", "min.NaN", 2, nan,
      [=](Real x, Real y, Real) { return either(x, y) ? Real(NAN) : least(x, y); }, 80);
  add(
      cases, h, "max", "max.NaN", 2, nan,
      [=](Real x, Real y, Real) { return either(x, y) ? Real(NAN) : most(x, y); }, 80);
  if (h.format != &kF16)
    return;
  add(cases, h, "min", "min.ftz", 2, ".ftz flushes subnormal inputs", low, 80, After::flush);
  add(cases, h, "max", "max.ftz", 2, ".ftz flushes subnormal inputs", high, 80, After::flush);
}

void add_arithmetic(OpcodeCases &cases, const Half &h) {
  auto plus = [](Real x, Real y, Real) { return sum(x, y); };
  auto minus = [](Real x, Real y, Real) { return sum(x, -y); };
  auto times = [](Real x, Real y, Real) { return odd(Operation::multiply, x, y); };
  auto fused = [](Real x, Real y, Real z) { return sum(x * y, z); };
  const char *rn = ".rn: rounded once, to nearest even";
  add(cases, h, "add", "add.rn", 2, rn, plus, h.arithmetic);
  add(cases, h, "sub", "sub.rn", 2, rn, minus, h.arithmetic);
  add(cases, h, "mul", "mul.rn", 2, rn, times, h.arithmetic);
  add(cases, h, "fma", "fma.rn", 3, rn, fused, h.format == &kF16 ? 75 : 80);
  add(cases, h, "fma", "fma.rn.relu", 3, ".relu clamps to 0 when negative, NaN stays", fused, 80,
      After::relu);
  if (h.format != &kF16)
    return;
  for (auto [suffix, rule, after] :
       {std::tuple(".ftz", ".ftz: subnormal inputs and results become zeros", After::flush),
        std::tuple(".sat", ".sat clamps to [0.0, 1.0], NaN to +0.0", After::saturate)}) {
    const std::string s = suffix;
    add(cases, h, "add", "add.rn" + s, 2, rule, plus, 75, after);
    add(cases, h, "sub", "sub.rn" + s, 2, rule, minus, 75, after);
    add(cases, h, "mul", "mul.rn" + s, 2, rule, times, 75, after);
    add(cases, h, "fma", "fma.rn" + s, 3, rule, fused, 75, after);
  }
}

} // namespace

void add_half_cases(OpcodeCases &cases) {
  for (const Half &h : kHalves) {
    add_arithmetic(cases, h);
    add_minima(cases, h);
    add_signs(cases, h);
  }
}

} // namespace cugrt::conformance
