// Whole families of the opcode table: integers and floats in all their types, comparisons, carries,
// directed rounding, approximate functions. References are plain C++ over wider integers, or the
// host's arithmetic under its own rounding modes.
#include "support/opcode_cases.h"

#include <cfenv>
#include <cmath>

using namespace cugrt::test;

namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

struct IntType {
  const char *name;
  char kind;
  int bits;
  bool is_signed;
};
constexpr IntType kInts[] = {{"u16", 'h', 16, false}, {"s16", 'h', 16, true},
                             {"u32", 'r', 32, false}, {"s32", 'r', 32, true},
                             {"u64", 'l', 64, false}, {"s64", 'l', 64, true}};

Wide value_of(const IntType &type, U v) {
  if (type.bits < 64)
    v &= (U(1) << type.bits) - 1;
  if (type.is_signed && (v >> (type.bits - 1) & 1))
    return Wide(v) - (Wide(1) << type.bits);
  return Wide(v);
}

std::string reg(char kind, char operand) { return std::string("%") + kind + operand; }

using Binary = std::function<U(const IntType &, U, U)>;

/// instruction.TYPE d, a, b with all operands of the type.
OpcodeCase binary(const std::string &name, const IntType &t, Binary compute) {
  return {name + "." + t.name + " " + reg(t.kind, 'd') + ", " + reg(t.kind, 'a') + ", " +
              reg(t.kind, 'b') + ";",
          t.kind,
          t.kind,
          t.kind,
          0,
          0,
          [t, compute](U a, U b, U, U) { return compute(t, a, b); }};
}

U high_product(const IntType &t, U a, U b) {
  if (t.is_signed || t.bits < 64)
    return U((value_of(t, a) * value_of(t, b)) >> t.bits);
  return U((UnsignedWide(a) * b) >> 64);
}

template <class T> T under(int mode, const std::function<T()> &compute) {
  std::fesetround(mode);
  T result = compute();
  std::fesetround(FE_TONEAREST);
  return result;
}

template <class T> struct FloatType;
template <> struct FloatType<float> {
  static constexpr const char *name = "f32";
  static constexpr char kind = 'r';
  static float from(U v) { return f(v); }
  static U to(float v) { return bits(v); }
};
template <> struct FloatType<double> {
  static constexpr const char *name = "f64";
  static constexpr char kind = 'l';
  static double from(U v) { return d(v); }
  static U to(double v) { return dbits(v); }
};

/// A function of up to three floats, through volatiles so that nothing is folded, under a mode.
template <class T>
OpcodeCase float_case(const std::string &name, int operands, int mode,
                      std::function<T(T, T, T)> compute, U ulps = kAnyNaN) {
  using F = FloatType<T>;
  std::string text = name + "." + F::name + " " + reg(F::kind, 'd');
  for (int i = 0; i < operands; ++i)
    text += ", " + reg(F::kind, "abc"[i]);
  return {text + ";",
          F::kind,
          F::kind,
          operands > 1 ? F::kind : '\0',
          operands > 2 ? F::kind : '\0',
          0,
          [=](U a, U b, U c, U) {
            volatile T x = F::from(a), y = F::from(b), z = F::from(c);
            return F::to(under<T>(mode, [&] {
              volatile T r = compute(x, y, z);
              return T(r);
            }));
          },
          ulps};
}

template <class T>
void add_arithmetic(std::vector<OpcodeCase> &cases, const char *mode_name, int mode) {
  std::string m = std::string(".") + mode_name;
  auto add = [&](const char *name, int operands, std::function<T(T, T, T)> compute) {
    cases.push_back(float_case<T>(name + m, operands, mode, compute));
  };
  add("add", 2, [](T x, T y, T) { return x + y; });
  add("sub", 2, [](T x, T y, T) { return x - y; });
  add("mul", 2, [](T x, T y, T) { return x * y; });
  add("fma", 3, [](T x, T y, T z) { return std::fma(x, y, z); });
  add("div", 2, [](T x, T y, T) { return x / y; });
  add("rcp", 1, [](T x, T, T) { return T(1) / x; });
  add("sqrt", 1, [](T x, T, T) { return std::sqrt(x); });
}

/// PTX: a NaN operand yields the other one, and -0 is less than +0.
template <class T> T least(T x, T y) {
  if (x != x || y != y)
    return x != x ? y : x;
  return x == y ? (std::signbit(x) ? x : y) : std::min(x, y);
}
template <class T> T most(T x, T y) { return -least<T>(-x, -y); }
template <class T> T nan_or(T x, T y, T value) { return x != x || y != y ? T(NAN) : value; }

template <class T> void add_choices(std::vector<OpcodeCase> &cases) {
  auto add = [&](const char *name, int operands, std::function<T(T, T, T)> compute) {
    cases.push_back(float_case<T>(name, operands, FE_TONEAREST, compute));
  };
  add("min", 2, [](T x, T y, T) { return least(x, y); });
  add("max", 2, [](T x, T y, T) { return most(x, y); });
  add("neg", 1, [](T x, T, T) { return -x; });
  add("abs", 1, [](T x, T, T) { return std::fabs(x); });
}

OpcodeCase predicate_case(const std::string &instruction, char kind, Reference holds) {
  return {"{ .reg .pred p; " + instruction + " p, " + reg(kind, 'a') + ", " + reg(kind, 'b') +
              "; selp.u32 %rd, 1, 0, p; }",
          'r',
          kind,
          kind,
          0,
          0,
          std::move(holds)};
}

double half_value(U h) {
  int e = int(h >> 10 & 31), m = int(h & 1023);
  double v = e == 31 ? (m ? NAN : INFINITY) : std::ldexp(e ? 1024 + m : m, (e ? e : 1) - 25);
  return h & 0x8000 ? -v : v;
}

} // namespace

TEST_CASE("integer arithmetic of every type agrees with wider integers") {
  std::vector<OpcodeCase> cases;
  for (const IntType &t : kInts) {
    using T = const IntType &;
    cases.push_back(binary("add", t, [](T, U a, U b) { return a + b; }));
    cases.push_back(binary("sub", t, [](T, U a, U b) { return a - b; }));
    cases.push_back(binary("mul.lo", t, [](T, U a, U b) { return a * b; }));
    cases.push_back(binary("mul.hi", t, high_product));
    cases.push_back(binary("div", t, [](T i, U a, U b) {
      return value_of(i, b) == 0 ? ~U(0) : U(value_of(i, a) / value_of(i, b));
    }));
    cases.push_back(binary("rem", t, [](T i, U a, U b) {
      return value_of(i, b) == 0 ? a : U(value_of(i, a) % value_of(i, b));
    }));
    cases.push_back(binary(
        "min", t, [](T i, U a, U b) { return U(std::min(value_of(i, a), value_of(i, b))); }));
    cases.push_back(binary(
        "max", t, [](T i, U a, U b) { return U(std::max(value_of(i, a), value_of(i, b))); }));
    std::string r3 = reg(t.kind, 'd') + ", " + reg(t.kind, 'a') + ", " + reg(t.kind, 'b') + ", " +
                     reg(t.kind, 'c') + ";";
    cases.push_back({std::string("mad.lo.") + t.name + " " + r3, t.kind, t.kind, t.kind, t.kind, 0,
                     [](U a, U b, U c, U) { return a * b + c; }});
    if (t.bits > 16)
      cases.push_back({std::string("mad.hi.") + t.name + " " + r3, t.kind, t.kind, t.kind, t.kind,
                       0, [t](U a, U b, U c, U) { return high_product(t, a, b) + c; }});
    if (t.bits < 64) {
      char wide = t.bits == 16 ? 'r' : 'l';
      cases.push_back({std::string("mul.wide.") + t.name + " " + reg(wide, 'd') + ", " +
                           reg(t.kind, 'a') + ", " + reg(t.kind, 'b') + ";",
                       wide, t.kind, t.kind, 0, 0,
                       [t](U a, U b, U, U) { return U(value_of(t, a) * value_of(t, b)); }});
      cases.push_back({std::string("mad.wide.") + t.name + " " + reg(wide, 'd') + ", " +
                           reg(t.kind, 'a') + ", " + reg(t.kind, 'b') + ", " + reg(wide, 'c') + ";",
                       wide, t.kind, t.kind, wide, 0,
                       [t](U a, U b, U c, U) { return U(value_of(t, a) * value_of(t, b)) + c; }});
    }
    std::string r2 = reg(t.kind, 'd') + ", " + reg(t.kind, 'a') + ";";
    if (t.is_signed) {
      cases.push_back({std::string("neg.") + t.name + " " + r2, t.kind, t.kind, 0, 0, 0,
                       [](U a, U, U, U) { return -a; }});
      cases.push_back({std::string("abs.") + t.name + " " + r2, t.kind, t.kind, 0, 0, 0,
                       [t](U a, U, U, U) { return value_of(t, a) < 0 ? -a : a; }});
    }
    std::string b = "b" + std::to_string(t.bits);
    if (!t.is_signed) {
      cases.push_back({"cnot." + b + " " + r2, t.kind, t.kind, 0, 0, 0,
                       [](U a, U, U, U) { return U(a == 0); }});
      cases.push_back(
          {"not." + b + " " + r2, t.kind, t.kind, 0, 0, 0, [](U a, U, U, U) { return ~a; }});
      cases.push_back(
          {"mov." + b + " " + r2, t.kind, t.kind, 0, 0, 0, [](U a, U, U, U) { return a; }});
      std::string two = reg(t.kind, 'd') + ", " + reg(t.kind, 'a') + ", " + reg(t.kind, 'b') + ";";
      cases.push_back({"and." + b + " " + two, t.kind, t.kind, t.kind, 0, 0,
                       [](U x, U y, U, U) { return x & y; }});
      cases.push_back({"or." + b + " " + two, t.kind, t.kind, t.kind, 0, 0,
                       [](U x, U y, U, U) { return x | y; }});
      cases.push_back({"xor." + b + " " + two, t.kind, t.kind, t.kind, 0, 0,
                       [](U x, U y, U, U) { return x ^ y; }});
      cases.push_back({"shl." + b + " " + reg(t.kind, 'd') + ", " + reg(t.kind, 'a') + ", %rb;",
                       t.kind, t.kind, 'r', 0, 0,
                       [t](U x, U n, U, U) { return n >= U(t.bits) ? 0 : x << n; }});
    }
    cases.push_back(
        {std::string("shr.") + t.name + " " + reg(t.kind, 'd') + ", " + reg(t.kind, 'a') + ", %rb;",
         t.kind, t.kind, 'r', 0, 0,
         [t](U a, U n, U, U) { return U(value_of(t, a) >> std::min<U>(n, U(t.bits))); }});
    for (const char *name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      std::string compare = name;
      cases.push_back(predicate_case("setp." + compare + "." + t.name, t.kind, [=](U a, U b, U, U) {
        Wide x = value_of(t, a), y = value_of(t, b);
        return U(compare == "eq"   ? x == y
                 : compare == "ne" ? x != y
                 : compare == "lt" ? x < y
                 : compare == "le" ? x <= y
                 : compare == "gt" ? x > y
                                   : x >= y);
      }));
      if (!t.is_signed && (compare == "eq" || compare == "ne"))
        cases.push_back(predicate_case("setp." + compare + "." + b, t.kind, [=](U x, U y, U, U) {
          return U((x == y) == (compare == "eq"));
        }));
    }
    if (!t.is_signed)
      for (auto [name, index] : {std::pair("lo", 0), {"ls", 1}, {"hi", 2}, {"hs", 3}}) {
        int which = index;
        cases.push_back(
            predicate_case(std::string("setp.") + name + "." + t.name, t.kind, [=](U x, U y, U, U) {
              return U(which == 0 ? x < y : which == 1 ? x <= y : which == 2 ? x > y : x >= y);
            }));
      }
  }
  check_opcodes(cases);
}

TEST_CASE("carries, saturation, packed bytes and fields agree with plain bit loops") {
  auto bit = [](U v, int i) { return v >> i & 1; };
  auto field = [](U a, U position, U length, int width, bool is_signed) {
    // PTX ISA, bfe: bit by bit, with the sign of the field's uppermost bit that exists.
    position &= 255, length &= 255;
    U result = 0;
    U top = std::min<U>(position + length - 1, U(width) - 1);
    U sign = !is_signed || length == 0 ? 0 : a >> top & 1;
    for (U i = 0; i < U(width); ++i)
      result |= (i < length && position + i < U(width) ? a >> (position + i) & 1 : sign) << i;
    return result;
  };
  auto insert = [](U a, U b, U position, U length, int width) {
    position &= 255, length &= 255;
    for (U i = 0; i < length && position + i < U(width); ++i)
      b = (b & ~(U(1) << (position + i))) | (a >> i & 1) << (position + i);
    return b;
  };
  auto highest = [](U a, int width, bool is_signed) {
    bool sign = is_signed && (a >> (width - 1) & 1);
    for (int i = width - 1; i >= 0; --i)
      if (bool(a >> i & 1) != sign)
        return U(i);
    return ~U(0);
  };
  std::vector<OpcodeCase> cases;
  auto add = [&](const std::string &instruction, const char *kinds, Reference reference) {
    cases.push_back({instruction, kinds[0], kinds[1], kinds[2] == '-' ? '\0' : kinds[2],
                     kinds[3] == '-' ? '\0' : kinds[3], kinds[4] == '-' ? '\0' : kinds[4],
                     std::move(reference)});
  };
  for (int width : {32, 64}) {
    const std::string w = std::to_string(width), x(1, width == 32 ? 'r' : 'l');
    const std::string kinds = x + x + x + x + x;
    U all = width == 32 ? 0xffffffff : ~U(0);
    auto chain = [&](const std::string &first, const std::string &second, bool subtracts,
                     bool third) {
      // A second and third word, so that the carry out of each form is seen.
      std::string text =
          "{ .reg .b" + w + " q, s; " + first + ".u" + w + " q, %" + x + "a, %" + x + "b; " +
          second + ".u" + w + " " + (third ? "s" : "%" + x + "d") + ", %" + x + "c, %" + x + "e;" +
          (third
               ? (subtracts ? " subc.u" : " addc.u") + w + " %" + x + "d, %" + x + "a, %" + x + "e;"
               : "") +
          " }";
      add(text, kinds.c_str(), [=](U a, U b, U c, U e) {
        Wide one = subtracts ? Wide(a) - b : Wide(a) + b;
        Wide carry = subtracts ? one < 0 : one > Wide(all);
        Wide two = subtracts ? Wide(c) - e - carry : Wide(c) + e + carry;
        if (!third)
          return U(two);
        carry = subtracts ? two < 0 : two > Wide(all);
        return U(subtracts ? Wide(a) - e - carry : Wide(a) + e + carry);
      });
    };
    chain("add.cc", "addc", false, false);
    chain("add.cc", "addc.cc", false, true);
    chain("sub.cc", "subc", true, false);
    chain("sub.cc", "subc.cc", true, true);
    for (bool is_signed : {false, true}) {
      std::string t = (is_signed ? "s" : "u") + w;
      add("bfe." + t + " %" + x + "d, %" + x + "a, %rb, %rc;", (x + x + "rr-").c_str(),
          [=](U a, U b, U c, U) { return field(a, b, c, width, is_signed); });
      add("bfind." + t + " %rd, %" + x + "a;", ("r" + x + "---").c_str(),
          [=](U a, U, U, U) { return highest(a, width, is_signed); });
      add("bfind.shiftamt." + t + " %rd, %" + x + "a;", ("r" + x + "---").c_str(),
          [=](U a, U, U, U) {
            U at = highest(a, width, is_signed);
            return at == ~U(0) ? at : U(width - 1) - at;
          });
    }
    add("bfi.b" + w + " %" + x + "d, %" + x + "a, %" + x + "b, %rc, %re;",
        (x + x + x + "rr").c_str(), [=](U a, U b, U c, U e) { return insert(a, b, c, e, width); });
    add("brev.b" + w + " %" + x + "d, %" + x + "a;", (x + x + "---").c_str(), [=](U a, U, U, U) {
      U r = 0;
      for (int i = 0; i < width; ++i)
        r |= bit(a, i) << (width - 1 - i);
      return r;
    });
    add("clz.b" + w + " %rd, %" + x + "a;", ("r" + x + "---").c_str(),
        [=](U a, U, U, U) { return U(width - 1) - highest(a, width, false); });
    add("popc.b" + w + " %rd, %" + x + "a;", ("r" + x + "---").c_str(), [=](U a, U, U, U) {
      U n = 0;
      for (int i = 0; i < width; ++i)
        n += bit(a, i);
      return n;
    });
  }
  using P = std::pair<const char *, int>;
  for (auto [mode, row] :
       {P("f4e", 0), P("b4e", 1), P("rc8", 2), P("ecl", 3), P("ecr", 4), P("rc16", 5)}) {
    // PTX ISA, prmt: the tables of the special modes; digit 3 of a selector is the upper byte.
    static constexpr U kSelectors[6][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
        {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    int which = row;
    add(std::string("prmt.b32.") + mode + " %rd, %ra, %rb, %rc;", "rrrr-",
        [which](U a, U b, U c, U) {
          U bytes = b << 32 | a, r = 0;
          for (int i = 0; i < 4; ++i)
            r |= (bytes >> (8 * (kSelectors[which][c & 3] >> (4 * i) & 7)) & 255) << (8 * i);
          return r;
        });
  }
  add("prmt.b32 %rd, %ra, %rb, %rc;", "rrrr-", [](U a, U b, U c, U) {
    U bytes = b << 32 | a, r = 0;
    for (int i = 0; i < 4; ++i) {
      U selector = c >> (4 * i) & 15, byte = bytes >> (8 * (selector & 7)) & 255;
      r |= (selector & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * i);
    }
    return r;
  });
  add("lop3.b32 %rd, %ra, %rb, %rc, 0x1b;", "rrrr-", [=](U a, U b, U c, U) {
    U r = 0;
    for (int i = 0; i < 32; ++i)
      r |= U(0x1b >> (bit(a, i) * 4 + bit(b, i) * 2 + bit(c, i)) & 1) << i;
    return r;
  });
  auto funnel = [](U a, U b) { return b << 32 | a; };
  add("shf.l.wrap.b32 %rd, %ra, %rb, %rc;", "rrrr-",
      [=](U a, U b, U c, U) { return (funnel(a, b) << (c & 31)) >> 32; });
  add("shf.l.clamp.b32 %rd, %ra, %rb, %rc;", "rrrr-",
      [=](U a, U b, U c, U) { return c >= 32 ? a : (funnel(a, b) << c) >> 32; });
  add("shf.r.wrap.b32 %rd, %ra, %rb, %rc;", "rrrr-",
      [=](U a, U b, U c, U) { return funnel(a, b) >> (c & 31); });
  add("shf.r.clamp.b32 %rd, %ra, %rb, %rc;", "rrrr-",
      [=](U a, U b, U c, U) { return funnel(a, b) >> std::min<U>(c, 32); });
  add("bmsk.clamp.b32 %rd, %ra, %rb;", "rrr--", [](U a, U b, U, U) {
    U r = 0;
    for (U i = std::min<U>(a, 32), n = std::min<U>(b, 32); i < 32 && n; ++i, --n)
      r |= U(1) << i;
    return r;
  });
  add("bmsk.wrap.b32 %rd, %ra, %rb;", "rrr--", [](U a, U b, U, U) {
    U r = 0;
    for (U i = a & 31, n = b & 31; i < 32 && n; ++i, --n)
      r |= U(1) << i;
    return r;
  });
  for (bool is_signed : {false, true})
    add(std::string("szext.clamp.") + (is_signed ? "s32" : "u32") + " %rd, %ra, %rb;", "rrr--",
        [=](U a, U b, U, U) { return b > 31 ? a : field(a, 0, b, 32, is_signed); });
  for (const char *x : {"u32", "s32"})
    for (const char *y : {"u32", "s32"}) {
      bool sx = *x == 's', sy = *y == 's';
      auto part = [](U v, int shift, int width, bool is_signed) {
        int64_t p = int64_t(v >> shift & ((U(1) << width) - 1));
        return is_signed && p >> (width - 1) ? p - (int64_t(1) << width) : p;
      };
      std::string types = std::string(".") + x + "." + y + " %rd, %ra, %rb, %rc;";
      add("dp4a" + types, "rrrr-", [=](U a, U b, U c, U) {
        for (int i = 0; i < 32; i += 8)
          c += U(part(a, i, 8, sx) * part(b, i, 8, sy));
        return c;
      });
      for (int upper : {0, 1})
        add(std::string(upper ? "dp2a.hi" : "dp2a.lo") + types, "rrrr-", [=](U a, U b, U c, U) {
          for (int i = 0; i < 2; ++i)
            c += U(part(a, 16 * i, 16, sx) * part(b, 16 * upper + 8 * i, 8, sy));
          return c;
        });
    }
  for (const char *op : {"add", "sub"})
    add(std::string(op) + ".sat.s32 %rd, %ra, %rb;", "rrr--", [=](U a, U b, U, U) {
      int64_t r = *op == 'a' ? int64_t(s(a)) + s(b) : int64_t(s(a)) - s(b);
      return U(std::clamp<int64_t>(r, INT32_MIN, INT32_MAX));
    });
  add("add.u16x2 %rd, %ra, %rb;", "rrr--",
      [](U a, U b, U, U) { return ((a + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16; });
  add("min.relu.s32 %rd, %ra, %rb;", "rrr--",
      [](U a, U b, U, U) { return U(std::max(std::min(s(a), s(b)), 0)); });
  add("max.relu.s32 %rd, %ra, %rb;", "rrr--",
      [](U a, U b, U, U) { return U(std::max(std::max(s(a), s(b)), 0)); });
  add("mul24.lo.u32 %rd, %ra, %rb;", "rrr--",
      [](U a, U b, U, U) { return (a & 0xffffff) * (b & 0xffffff); });
  add("mul24.lo.s32 %rd, %ra, %rb;", "rrr--", [](U a, U b, U, U) {
    auto low = [](U v) { return int64_t(v & 0xffffff) - (v & 0x800000 ? 0x1000000 : 0); };
    return U(low(a) * low(b));
  });
  for (bool is_signed : {false, true}) {
    const std::string t = is_signed ? "s" : "u";
    auto low = [=](U v) {
      return int64_t(v & 0xffffff) - (is_signed && v & 0x800000 ? 0x1000000 : 0);
    };
    add("mul24.hi." + t + "32 %rd, %ra, %rb;", "rrr--",
        [=](U a, U b, U, U) { return U((low(a) * low(b)) >> 16); });
    add("mad24.lo." + t + "32 %rd, %ra, %rb, %rc;", "rrrr-",
        [=](U a, U b, U c, U) { return U(low(a) * low(b)) + c; });
    add("mad24.hi." + t + "32 %rd, %ra, %rb, %rc;", "rrrr-",
        [=](U a, U b, U c, U) { return U((low(a) * low(b)) >> 16) + c; });
    auto half = [=](U v) { return int32_t(v & 0xffff) - (is_signed && v & 0x8000 ? 0x10000 : 0); };
    add("mad.hi." + t + "16 %hd, %ha, %hb, %hc;", "hhhh-",
        [=](U a, U b, U c, U) { return (U(int64_t(half(a)) * half(b)) >> 16) + c; });
    add("sad." + t + "16 %hd, %ha, %hb, %hc;", "hhhh-",
        [=](U a, U b, U c, U) { return c + U(std::abs(half(a) - half(b))); });
    add("sad." + t + "64 %ld, %la, %lb, %lc;", "llll-", [=](U a, U b, U c, U) {
      const bool less = is_signed ? int64_t(a) < int64_t(b) : a < b;
      return c + (less ? b - a : a - b);
    });
    add("szext.wrap." + t + "32 %rd, %ra, %rb;", "rrr--",
        [=](U a, U b, U, U) { return field(a, 0, b & 31, 32, is_signed); });
    for (bool greatest : {false, true})
      for (bool relu : {false, true}) {
        if (relu && !is_signed)
          continue;
        auto chosen = [=](U a, U b) {
          const int32_t r = greatest ? std::max(half(a), half(b)) : std::min(half(a), half(b));
          return U(relu ? std::max(r, 0) : r) & 0xffff;
        };
        add(std::string(greatest ? "max." : "min.") + (relu ? "relu." : "") + t +
                "16x2 %rd, %ra, %rb;",
            "rrr--", [=](U a, U b, U, U) { return chosen(a, b) | chosen(a >> 16, b >> 16) << 16; });
      }
  }
  add("mad.hi.sat.s32 %rd, %ra, %rb, %rc;", "rrrr-", [](U a, U b, U c, U) {
    return U(std::clamp<int64_t>(((int64_t(s(a)) * s(b)) >> 32) + s(c), INT32_MIN, INT32_MAX));
  });
  add("mad24.hi.sat.s32 %rd, %ra, %rb, %rc;", "rrrr-", [](U a, U b, U c, U) {
    auto low = [](U v) { return int64_t(v & 0xffffff) - (v & 0x800000 ? 0x1000000 : 0); };
    return U(std::clamp<int64_t>(((low(a) * low(b)) >> 16) + s(c), INT32_MIN, INT32_MAX));
  });
  // "The n-th set bit from base on": the ISA's loop.
  add("fns.b32 %rd, %ra, %rb, %rc;", "rrrr-", [=](U a, U b, U c, U) {
    const int64_t offset = s(c);
    if (b > 31)
      return U(0xffffffff);
    if (offset == 0)
      return bit(a, int(b)) ? b : U(0xffffffff);
    int64_t count = std::abs(offset) - 1;
    for (int64_t at = int64_t(b); at >= 0 && at<32; at += offset> 0 ? 1 : -1)
      if (bit(a, int(at)) && count-- == 0)
        return U(at);
    return U(0xffffffff);
  });
  add("{ .reg .pred p, q; setp.lt.u32 q, %re, %ra; lop3.or.b32 %rd|p, %ra, %rb, %rc, 0x80, q; "
      "selp.u32 %rc, 1, 0, p; add.u32 %rd, %rd, %rc; }",
      "rrrrr", [](U a, U b, U c, U e) {
        const U d = a & b & c;
        return d + U(d != 0 || e < a);
      });
  add("sad.s32 %rd, %ra, %rb, %rc;", "rrrr-",
      [](U a, U b, U c, U) { return c + U(std::abs(int64_t(s(a)) - s(b))); });
  add("sad.u32 %rd, %ra, %rb, %rc;", "rrrr-",
      [](U a, U b, U c, U) { return c + (a > b ? a - b : b - a); });
  for (const char *t : {"32", "64"}) {
    std::string x = *t == '3' ? "r" : "l", k = x + x + x;
    add(std::string("{ .reg .pred p; setp.lt.u32 p, %rc, %re; selp.b") + t + " %" + x + "d, %" + x +
            "a, %" + x + "b, p; }",
        (k + "rr").c_str(), [](U a, U b, U c, U e) { return c < e ? a : b; });
    add(std::string("slct.b") + t + ".s32 %" + x + "d, %" + x + "a, %" + x + "b, %rc;",
        (k + "r-").c_str(), [](U a, U b, U c, U) { return s(c) >= 0 ? a : b; });
  }
  add("slct.b32.f32 %rd, %ra, %rb, %rc;", "rrrr-",
      [](U a, U b, U c, U) { return f(c) >= 0 ? a : b; });
  add("slct.b64.f32 %ld, %la, %lb, %rc;", "lllr-",
      [](U a, U b, U c, U) { return f(c) >= 0 ? a : b; });
  check_opcodes(cases);
}

TEST_CASE("floats of both widths follow the host in every rounding") {
  std::vector<OpcodeCase> cases;
  using P = std::pair<const char *, int>;
  for (auto [name, mode] :
       {P("rn", FE_TONEAREST), P("rz", FE_TOWARDZERO), P("rm", FE_DOWNWARD), P("rp", FE_UPWARD)}) {
    add_arithmetic<float>(cases, name, mode);
    add_arithmetic<double>(cases, name, mode);
  }
  add_choices<float>(cases);
  add_choices<double>(cases);
  auto add = [&](const char *name, int operands,
                 std::function<float(float, float, float)> compute) {
    cases.push_back(float_case<float>(name, operands, FE_TONEAREST, compute));
  };
  add("min.NaN", 2, [](float x, float y, float) { return nan_or(x, y, least(x, y)); });
  add("max.NaN", 2, [](float x, float y, float) { return nan_or(x, y, most(x, y)); });
  auto signed_as = [](float value, float x, float y) {
    return std::copysign(value, std::signbit(x) != std::signbit(y) ? -1.0f : 1.0f);
  };
  add("min.xorsign.abs", 2,
      [=](float x, float y, float) { return signed_as(least(std::fabs(x), std::fabs(y)), x, y); });
  add("max.xorsign.abs", 2,
      [=](float x, float y, float) { return signed_as(most(std::fabs(x), std::fabs(y)), x, y); });
  add("copysign", 2, [](float x, float y, float) { return std::copysign(y, x); });
  cases.push_back(float_case<double>(
      "copysign", 2, FE_TONEAREST, [](double x, double y, double) { return std::copysign(y, x); }));
  check_opcodes(cases);
  // Three operands came with sm_100.
  check_opcodes({float_case<float>("min", 3, FE_TONEAREST,
                                   [](float x, float y, float z) { return least(least(x, y), z); }),
                 float_case<float>("max", 3, FE_TONEAREST,
                                   [](float x, float y, float z) { return most(most(x, y), z); })},
                "sm_100");
}

TEST_CASE("approximate functions stay within two units of the last place") {
  std::vector<OpcodeCase> cases;
  auto add = [&](const char *name, int operands, std::function<double(double, double)> compute) {
    cases.push_back(float_case<float>(
        name, operands, FE_TONEAREST, [=](float x, float y, float) { return float(compute(x, y)); },
        2));
  };
  add("div.approx", 2, [](double x, double y) { return x / y; });
  add("div.full", 2, [](double x, double y) { return x / y; });
  add("rcp.approx", 1, [](double x, double) { return 1 / x; });
  add("sqrt.approx", 1, [](double x, double) { return std::sqrt(x); });
  add("rsqrt.approx", 1, [](double x, double) { return 1 / std::sqrt(x); });
  add("ex2.approx", 1, [](double x, double) { return std::exp2(x); });
  add("lg2.approx", 1, [](double x, double) { return std::log2(x); });
  add("tanh.approx", 1, [](double x, double) { return std::tanh(x); });
  add("sin.approx", 1, [](double x, double) { return std::sin(x); });
  add("cos.approx", 1, [](double x, double) { return std::cos(x); });
  auto add64 = [&](const char *name, U ulps, std::function<double(double)> compute) {
    cases.push_back(float_case<double>(
        name, 1, FE_TONEAREST, [=](double x, double, double) { return compute(x); }, ulps));
  };
  auto flush = [](double x) { return std::fabs(x) < 0x1p-1022 ? std::copysign(0.0, x) : x; };
  add64("rsqrt.approx", 4, [](double x) { return 1 / std::sqrt(x); });
  // Twenty bits of mantissa; subnormal results are flushed or not, the ISA does not say.
  add64("rsqrt.approx.ftz", U(1) << 33, [=](double x) { return 1 / std::sqrt(flush(x)); });
  add64("rcp.approx.ftz", U(1) << 33, [=](double x) { return 1 / flush(x); });
  check_opcodes(cases);
}

TEST_CASE("floats are compared in order and unordered, and classified") {
  struct Compare {
    const char *name;
    bool less, equal, greater, unordered;
  };
  // PTX ISA, "Floating-point comparison operators": when each holds.
  constexpr Compare kCompares[] = {
      {"eq", false, true, false, false}, {"ne", true, false, true, false},
      {"lt", true, false, false, false}, {"le", true, true, false, false},
      {"gt", false, false, true, false}, {"ge", false, true, true, false},
      {"equ", false, true, false, true}, {"neu", true, false, true, true},
      {"ltu", true, false, false, true}, {"leu", true, true, false, true},
      {"gtu", false, false, true, true}, {"geu", false, true, true, true},
      {"num", true, true, true, false},  {"nan", false, false, false, true},
  };
  struct Type {
    const char *name;
    char kind;
    std::function<double(U)> value;
  };
  const Type types[] = {
      {"f32", 'r', [](U v) { return double(f(v)); }},
      {"f64", 'l', [](U v) { return d(v); }},
      {"f16", 'h', half_value},
      {"bf16", 'h', [](U v) { return double(f((v & 0xffff) << 16)); }},
  };
  std::vector<OpcodeCase> cases;
  for (const Type &type : types)
    for (const Compare &c : kCompares)
      cases.push_back(predicate_case(
          std::string("setp.") + c.name + "." + type.name, type.kind, [=](U a, U b, U, U) {
            double x = type.value(a), y = type.value(b);
            return U(x < y ? c.less : x > y ? c.greater : x == y ? c.equal : c.unordered);
          }));
  struct Test {
    const char *name;
    std::function<bool(int)> holds; // of std::fpclassify
  };
  const Test tests[] = {
      {"finite", [](int k) { return k != FP_NAN && k != FP_INFINITE; }},
      {"infinite", [](int k) { return k == FP_INFINITE; }},
      {"number", [](int k) { return k != FP_NAN; }},
      {"notanumber", [](int k) { return k == FP_NAN; }},
      {"normal", [](int k) { return k == FP_NORMAL || k == FP_ZERO; }}, // so the ISA
      {"subnormal", [](int k) { return k == FP_SUBNORMAL; }},
  };
  for (const Test &test : tests) {
    auto add = [&](const char *type, const char *operand, char kind,
                   std::function<int(U)> classify) {
      cases.push_back({"{ .reg .pred p; testp." + std::string(test.name) + "." + type + " p, " +
                           operand + "; selp.u32 %rd, 1, 0, p; }",
                       'r', kind, 0, 0, 0,
                       [=](U a, U, U, U) { return U(test.holds(classify(a))); }});
    };
    add("f32", "%ra", 'r', [](U v) { return std::fpclassify(f(v)); });
    add("f64", "%la", 'l', [](U v) { return std::fpclassify(d(v)); });
  }
  check_opcodes(cases);
}
