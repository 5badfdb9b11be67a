// Single opcodes of the exact class, bit for bit against arithmetic written independently.
#include "support/opcode_cases.h"

#include <cfenv>
#include <cmath>

using namespace cugrt::test;

namespace {

/// Under a rounding mode of the host, through volatiles so that nothing is folded.
template <class F> auto rounded(int mode, F compute) {
  std::fesetround(mode);
  auto result = compute();
  std::fesetround(FE_TONEAREST);
  return result;
}

float flush(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v; }

float rounded_add(float x, float y, int mode) {
  volatile float p = x, q = y;
  return rounded(mode, [&] {
    volatile float r = p + q;
    return float(r);
  });
}
float rounded_fma(float x, float y, float z, int mode) {
  volatile float p = x, q = y, t = z;
  return rounded(mode, [&] {
    volatile float r = std::fma(float(p), float(q), float(t));
    return float(r);
  });
}

int64_t clamp_to_integer(double v, double low, double high) {
  if (v != v)
    return 0;
  return v <= low ? int64_t(low) : v >= high ? int64_t(high) : int64_t(v);
}

} // namespace

TEST_CASE("integer arithmetic wraps, divides and widens as C does") {
  check_opcodes({
      {"add.s32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0, [](U a, U b, U, U) { return a + b; }},
      {"sub.u64 %ld, %la, %lb;", 'l', 'l', 'l', 0, 0, [](U a, U b, U, U) { return a - b; }},
      {"add.s16 %hd, %ha, %hb;", 'h', 'h', 'h', 0, 0, [](U a, U b, U, U) { return a + b; }},
      {"add.sat.s32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) {
         return U(std::clamp<int64_t>(int64_t(s(a)) + s(b), INT32_MIN, INT32_MAX));
       }},
      {"mul.lo.s32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0, [](U a, U b, U, U) { return a * b; }},
      {"mul.hi.s32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return U((int64_t(s(a)) * s(b)) >> 32); }},
      {"mul.hi.u32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return (a * b) >> 32; }},
      {"mul.wide.s32 %ld, %ra, %rb;", 'l', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return U(int64_t(s(a)) * s(b)); }},
      {"mul.wide.u16 %rd, %ha, %hb;", 'r', 'h', 'h', 0, 0, [](U a, U b, U, U) { return a * b; }},
      {"mad.lo.s32 %rd, %ra, %rb, %rc;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) { return a * b + c; }},
      {"mad.wide.u32 %ld, %ra, %rb, %lc;", 'l', 'r', 'r', 'l', 0,
       [](U a, U b, U c, U) { return a * b + c; }},
      {"div.s32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return b ? U(int64_t(s(a)) / s(b)) : ~U(0); }},
      {"rem.u64 %ld, %la, %lb;", 'l', 'l', 'l', 0, 0, [](U a, U b, U, U) { return b ? a % b : a; }},
      {"min.s32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return U(std::min(s(a), s(b))); }},
      {"max.u64 %ld, %la, %lb;", 'l', 'l', 'l', 0, 0,
       [](U a, U b, U, U) { return std::max(a, b); }},
      {"neg.s32 %rd, %ra;", 'r', 'r', 0, 0, 0, [](U a, U, U, U) { return -a; }},
      {"abs.s32 %rd, %ra;", 'r', 'r', 0, 0, 0, [](U a, U, U, U) { return s(a) < 0 ? -a : a; }},
      {"sad.u32 %rd, %ra, %rb, %rc;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) { return c + (a > b ? a - b : b - a); }},
      {"dp4a.s32.u32 %rd, %ra, %rb, %rc;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) {
         for (int i = 0; i < 32; i += 8)
           c += U(int64_t(int8_t(a >> i)) * uint8_t(b >> i));
         return c;
       }},
      {"{ .reg .b32 %q;\nadd.cc.u32 %q, %ra, %rb;\naddc.u32 %rd, %rc, %re; }", 'r', 'r', 'r', 'r',
       'r', [](U a, U b, U c, U e) { return c + e + ((a + b) >> 32); }},
      {"{ .reg .b32 %q;\nsub.cc.u32 %q, %ra, %rb;\nsubc.u32 %rd, %rc, %re; }", 'r', 'r', 'r', 'r',
       'r', [](U a, U b, U c, U e) { return c - e - (a < b); }},
  });
}

TEST_CASE("shifts clamp, fields and bytes are taken and put back") {
  check_opcodes({
      {"shl.b32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return b > 31 ? 0 : a << b; }},
      {"shr.s32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return U(int64_t(s(a)) >> std::min<U>(b, 31)); }},
      {"shr.u64 %ld, %la, %rb;", 'l', 'l', 'r', 0, 0,
       [](U a, U b, U, U) { return b > 63 ? 0 : a >> b; }},
      {"shr.s64 %ld, %la, %rb;", 'l', 'l', 'r', 0, 0,
       [](U a, U b, U, U) { return U(int64_t(a) >> std::min<U>(b, 63)); }},
      {"shf.l.wrap.b32 %rd, %ra, %rb, %rc;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) { return ((b << 32 | a) << (c & 31)) >> 32; }},
      {"shf.r.clamp.b32 %rd, %ra, %rb, %rc;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) { return (b << 32 | a) >> std::min<U>(c, 32); }},
      {"lop3.b32 %rd, %ra, %rb, %rc, 0x96;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) { return a ^ b ^ c; }},
      {"lop3.b32 %rd, %ra, %rb, %rc, 0xCA;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) { return (a & b) | (~a & c); }},
      {"prmt.b32 %rd, %ra, %rb, 0x7351;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) {
         return (a >> 8 & 255) | (b >> 8 & 255) << 8 | (a >> 24) << 16 | (b >> 24) << 24;
       }},
      {"prmt.b32 %rd, %ra, %rb, 0xbbbb;", 'r', 'r', 'r', 0, 0,
       [](U a, U, U, U) { return a >> 31 ? ~U(0) : 0; }},
      {"bfe.u32 %rd, %ra, 5, 9;", 'r', 'r', 0, 0, 0, [](U a, U, U, U) { return a >> 5 & 511; }},
      {"bfe.s32 %rd, %ra, 20, 30;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) { return U(int64_t(s(a)) >> 20); }},
      {"bfi.b32 %rd, %ra, %rb, 4, 8;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return (b & ~U(0xff0)) | (a & 255) << 4; }},
      {"popc.b32 %rd, %ra;", 'r', 'r', 0, 0, 0, [](U a, U, U, U) { return U(std::popcount(a)); }},
      {"clz.b64 %rd, %la;", 'r', 'l', 0, 0, 0, [](U a, U, U, U) { return U(std::countl_zero(a)); }},
      {"bfind.s32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) { return U(31 - std::countl_zero(s(a) < 0 ? ~u(a) : u(a))); }},
      {"brev.b32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) {
         U r = 0;
         for (int i = 0; i < 32; ++i)
           r |= (a >> i & 1) << (31 - i);
         return r;
       }},
      {"{ .reg .b16 x, y; mov.b32 {x, y}, %ra; mov.b32 %rd, {y, x}; }", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) { return a >> 16 | a << 16; }},
      {"mov.b64 %ld, {%ra, %rb};", 'l', 'r', 'r', 0, 0, [](U a, U b, U, U) { return a | b << 32; }},
  });
}

TEST_CASE("single precision is exact in every rounding, flushes and saturates") {
  check_opcodes({
      {"add.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return bits(f(a) + f(b)); }},
      {"mul.rn.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return bits(f(a) * f(b)); }},
      {"fma.rn.f32 %rd, %ra, %rb, %rc;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) { return bits(std::fma(f(a), f(b), f(c))); }},
      {"div.rn.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return bits(f(a) / f(b)); }},
      {"sqrt.rn.f32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) { return bits(std::sqrt(f(a))); }},
      {"rcp.rn.f32 %rd, %ra;", 'r', 'r', 0, 0, 0, [](U a, U, U, U) { return bits(1.0f / f(a)); }},
      {"add.rz.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return bits(rounded_add(f(a), f(b), FE_TOWARDZERO)); }},
      {"add.rp.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return bits(rounded_add(f(a), f(b), FE_UPWARD)); }},
      {"fma.rm.f32 %rd, %ra, %rb, %rc;", 'r', 'r', 'r', 'r', 0,
       [](U a, U b, U c, U) { return bits(rounded_fma(f(a), f(b), f(c), FE_DOWNWARD)); }},
      {"add.ftz.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return bits(flush(flush(f(a)) + flush(f(b)))); }},
      {"mul.sat.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) {
         float r = f(a) * f(b);
         return bits(r > 0 ? std::min(r, 1.0f) : 0.0f);
       }},
      {"min.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) {
         float x = f(a), y = f(b);
         if (x != x || y != y)
           return bits(x != x ? y : x);
         return x == y ? U(u(a) | u(b)) : bits(std::min(x, y));
       }},
      {"selp.f32 %rd, %ra, %rb, 1;", 'r', 'r', 'r', 0, 0, [](U a, U, U, U) { return a; }},
      {"copysign.f32 %rd, %ra, %rb;", 'r', 'r', 'r', 0, 0,
       [](U a, U b, U, U) { return (a & 0x80000000) | (b & 0x7fffffff); }},
      {"{ .reg .pred q, n; setp.ltu.f32 q|n, %ra, %rb; selp.u32 %rd, 1, 0, q; @n add.u32 %rd, %rd, "
       "2; }",
       'r', 'r', 'r', 0, 0, [](U a, U b, U, U) { return U(!(f(a) >= f(b)) ? 1 : 2); }},
      {"add.f64 %ld, %la, %lb;", 'l', 'l', 'l', 0, 0,
       [](U a, U b, U, U) { return dbits(d(a) + d(b)); }},
  });
}

TEST_CASE("conversions round once, clamp, and turn NaN into what the ISA says") {
  check_opcodes({
      {"cvt.rzi.s32.f32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) {
         return U(clamp_to_integer(std::trunc(double(f(a))), INT32_MIN, INT32_MAX));
       }},
      {"cvt.rni.u32.f32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) {
         return U(clamp_to_integer(std::nearbyint(double(f(a))), 0, UINT32_MAX));
       }},
      {"cvt.rmi.s64.f64 %ld, %la;", 'l', 'l', 0, 0, 0,
       [](U a, U, U, U) {
         double v = std::floor(d(a));
         return v != v        ? U(INT64_MIN)
                : v >= 0x1p63 ? U(INT64_MAX)
                : v < -0x1p63 ? U(INT64_MIN)
                              : U(int64_t(v));
       }},
      {"cvt.rpi.f32.f32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) { return bits(std::ceil(f(a))); }},
      {"cvt.sat.f32.f32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) { return bits(f(a) > 0 ? std::min(f(a), 1.0f) : 0.0f); }},
      {"cvt.rn.f32.u64 %rd, %la;", 'r', 'l', 0, 0, 0, [](U a, U, U, U) { return bits(float(a)); }},
      {"cvt.rz.f32.s32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) {
         volatile int32_t v = s(a);
         return bits(rounded(FE_TOWARDZERO, [&] {
           volatile float r = float(v);
           return float(r);
         }));
       }},
      {"cvt.rn.f32.f64 %rd, %la;", 'r', 'l', 0, 0, 0,
       [](U a, U, U, U) { return bits(float(d(a))); }},
      {"cvt.sat.s8.s32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) { return U(std::clamp(s(a), -128, 127)); }},
      {"cvt.sat.u16.s32 %rd, %ra;", 'r', 'r', 0, 0, 0,
       [](U a, U, U, U) { return U(std::clamp(s(a), 0, 65535)); }},
      {"cvt.s64.s16 %ld, %ha;", 'l', 'h', 0, 0, 0,
       [](U a, U, U, U) { return U(int64_t(int16_t(a))); }},
      {"cvt.s32.s8 %rd, %ra;", 'r', 'r', 0, 0, 0, [](U a, U, U, U) { return U(int8_t(a)); }},
  });
}

TEST_CASE("all 65536 halves convert to float and back, sums and products are rounded once") {
  Emulated device;
  device.load(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 o) {\n"
              ".reg .b32 %r<8>; .reg .b64 %d<4>; .reg .b16 %h<8>; .reg .f32 %f<4>;\n"
              "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, "
              "%r1, %r2, %r3;\n"
              "cvt.u16.u32 %h1, %r4; cvt.f32.f16 %f1, %h1; cvt.rn.f16.f32 %h2, %f1;\n"
              "mul.f32 %f2, %f1, 0f3F7F7EFE; cvt.rn.f16.f32 %h3, %f2;\n"
              "mul.rn.f16 %h4, %h1, %h1; cvt.rn.bf16.f32 %h5, %f1;\n"
              "ld.param.u64 %d1, [o]; mul.wide.u32 %d2, %r4, 16; add.s64 %d1, %d1, %d2;\n"
              "st.global.f32 [%d1], %f1; st.global.v4.u16 [%d1+8], {%h2, %h3, %h4, %h5}; ret; }");
  uint64_t out = device.allocate(65536 * 16);
  device.launch("k", {256, 1, 1}, {256, 1, 1}, 0, out);
  auto got = device.download<uint16_t>(out, 65536 * 8);
  auto value = [](uint32_t h) { // the format's definition
    int e = int(h >> 10 & 31), m = int(h & 1023);
    double v = e == 0    ? std::ldexp(m, -24)
               : e == 31 ? (m ? NAN : INFINITY)
                         : std::ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
  };
  auto nearest = [&](double v) -> uint32_t { // by searching the ordered positive halves
    if (v != v)
      return 0x7fff;
    uint32_t sign = std::signbit(v) ? 0x8000 : 0;
    v = std::abs(v);
    if (v >= 65520)
      return sign | 0x7c00;
    uint32_t low = 0, high = 0x7bff;
    while (low < high) {
      uint32_t middle = (low + high + 1) / 2;
      (value(middle) <= v ? low : high) = value(middle) <= v ? middle : middle - 1;
    }
    double below = v - value(low), above = low == 0x7bff ? INFINITY : value(low + 1) - v;
    return sign | (above < below || (above == below && (low & 1)) ? low + 1 : low);
  };
  for (uint32_t h = 0; h < 65536; ++h) {
    float as_float;
    std::memcpy(&as_float, &got[h * 8], 4);
    double v = value(h);
    if (v != v) {
      REQUIRE(as_float != as_float);
      REQUIRE(got[h * 8 + 4] == 0x7fff);
      continue;
    }
    REQUIRE(double(as_float) == v);
    REQUIRE(got[h * 8 + 4] == h);
    REQUIRE(got[h * 8 + 5] == nearest(double(float(v) * std::bit_cast<float>(0x3F7F7EFEu))));
    REQUIRE(got[h * 8 + 6] == nearest(v * v));
  }
}
