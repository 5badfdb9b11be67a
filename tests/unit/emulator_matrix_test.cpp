// mma, ldmatrix, cp.async. Fragment layouts are written here from the PTX ISA's text for each
// shape, products by plain loops.
#include "support/emulated.h"

#include <bit>
#include <cmath>
#include <functional>

using namespace cugrt::test;

namespace {

/// Row and column of element i of a lane's fragment.
struct Place {
  int row, column;
};
using Layout = std::function<Place(int lane, int i)>;

// "Matrix Fragments for mma.m16n8k16 with floating point type" and its neighbours: groupID is
// %laneid >> 2 and threadID_in_group %laneid % 4.
int group(int lane) { return lane >> 2; }
int in_group(int lane) { return lane % 4; }

Place c_16x8(int lane, int i) {
  return {i < 2 ? group(lane) : group(lane) + 8, in_group(lane) * 2 + (i & 1)};
}
Place a_k16_half(int lane, int i) {
  int row = i == 0 || i == 1 || i == 4 || i == 5 ? group(lane) : group(lane) + 8;
  return {row, i < 4 ? in_group(lane) * 2 + (i & 1) : in_group(lane) * 2 + (i & 1) + 8};
}
Place b_k16_half(int lane, int i) {
  return {i < 2 ? in_group(lane) * 2 + (i & 1) : in_group(lane) * 2 + (i & 1) + 8, group(lane)};
}
Place a_k8_half(int lane, int i) {
  return {i < 2 ? group(lane) : group(lane) + 8, in_group(lane) * 2 + (i & 1)};
}
Place b_k8_half(int lane, int i) { return {in_group(lane) * 2 + i, group(lane)}; }
Place a_k8_tf32(int lane, int i) {
  return {i == 0 || i == 2 ? group(lane) : group(lane) + 8,
          i < 2 ? in_group(lane) : in_group(lane) + 4};
}
Place b_k8_tf32(int lane, int i) {
  return {i == 0 ? in_group(lane) : in_group(lane) + 4, group(lane)};
}
Place a_k4_tf32(int lane, int i) {
  return {i == 0 ? group(lane) : group(lane) + 8, in_group(lane)};
}
Place b_k4_tf32(int lane, int) { return {in_group(lane), group(lane)}; }
Place a_k32_byte(int lane, int i) {
  bool upper = (i >= 4 && i < 8) || i >= 12;
  return {upper ? group(lane) + 8 : group(lane),
          i < 8 ? in_group(lane) * 4 + (i & 3) : in_group(lane) * 4 + (i & 3) + 16};
}
Place b_k32_byte(int lane, int i) {
  return {i < 4 ? in_group(lane) * 4 + (i & 3) : in_group(lane) * 4 + (i & 3) + 16, group(lane)};
}
Place a_k16_byte(int lane, int i) {
  return {i < 4 ? group(lane) : group(lane) + 8, in_group(lane) * 4 + (i & 3)};
}
Place b_k16_byte(int lane, int i) { return {in_group(lane) * 4 + i, group(lane)}; }

double f16_value(uint32_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double magnitude =
      exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}
double bf16_value(uint32_t bits) { return std::bit_cast<float>(bits << 16); }
double tf32_value(uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000); }

struct Numbers {
  int bits;
  std::function<uint32_t(Random &)> make;
  std::function<double(uint32_t)> value;
};
const Numbers kF16{
    16, [](Random &r) { return uint32_t(0x2c00 + r.bits() % 0x1000 + (r.bits() & 1) * 0x8000); },
    f16_value};
const Numbers kBf16{
    16, [](Random &r) { return uint32_t(0x3e00 + r.bits() % 0x180 + (r.bits() & 1) * 0x8000); },
    bf16_value};
const Numbers kTf32{32, [](Random &r) { return std::bit_cast<uint32_t>(r.uniform(-2, 2)); },
                    tf32_value};
const Numbers kS8{8, [](Random &r) { return uint32_t(r.bits() & 255); },
                  [](uint32_t b) { return double(int8_t(b)); }};
const Numbers kU8{8, [](Random &r) { return uint32_t(r.bits() & 255); },
                  [](uint32_t b) { return double(b & 255); }};

struct Shape {
  std::string opcode;
  int depth;
  Numbers a, b;
  Layout a_layout, b_layout;
  char accumulator; // 'f' f32, 'h' f16, 's' s32
};

/// Registers of a fragment of rows x columns elements in a lane.
int registers(int elements, int bits) { return elements * bits / 32 / 32; }

std::string names(char letter, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + std::string(1, letter) + std::to_string(i);
  return text + "}";
}

/// Loads every register of a lane from `[base + 4 * (lane * count + i)]`, or stores it there.
std::string move_fragment(const char *parameter, char letter, int count, bool store) {
  std::string text = "ld.param.u64 %x, [" + std::string(parameter) +
                     "];\nmad.wide.u32 %x, %lane, " + std::to_string(4 * count) + ", %x;\n";
  for (int i = 0; i < count; ++i) {
    std::string reg = "%" + std::string(1, letter) + std::to_string(i);
    std::string place = "[%x+" + std::to_string(4 * i) + "]";
    text += store ? "st.global.b32 " + place + ", " + reg + ";\n"
                  : "ld.global.b32 " + reg + ", " + place + ";\n";
  }
  return text;
}

void check_shape(const Shape &shape) {
  INFO(shape.opcode);
  const int depth = shape.depth;
  const int a_count = registers(16 * depth, shape.a.bits),
            b_count = registers(8 * depth, shape.b.bits);
  const int c_count = shape.accumulator == 'h' ? 2 : 4;
  std::string ptx =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 pa, "
      ".param .u64 pb, .param .u64 pc, .param .u64 pd) {\n.reg .b32 %lane, %a<8>, %b<8>, "
      "%c<8>, %d<8>;\n.reg .b64 %x;\nmov.u32 %lane, %laneid;\n" +
      move_fragment("pa", 'a', a_count, false) + move_fragment("pb", 'b', b_count, false) +
      move_fragment("pc", 'c', c_count, false) + shape.opcode + " " + names('d', c_count) + ", " +
      names('a', a_count) + ", " + names('b', b_count) + ", " + names('c', c_count) + ";\n" +
      move_fragment("pd", 'd', c_count, true) + "ret;\n}\n";
  Random random(depth + 7);
  std::vector<uint32_t> a(32 * a_count), b(32 * b_count), c(32 * c_count);
  std::vector<std::vector<double>> am(16, std::vector<double>(depth)),
      bm(depth, std::vector<double>(8)), cm(16, std::vector<double>(8));
  auto fill = [&](std::vector<uint32_t> &words, int count, const Numbers &numbers,
                  const Layout &layout, std::vector<std::vector<double>> &matrix) {
    const int each = 32 / numbers.bits;
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < count * each; ++i) {
        uint32_t bits = numbers.make(random);
        words[lane * count + i / each] |= bits << (i % each * numbers.bits % 32);
        Place at = layout(lane, i);
        matrix[at.row][at.column] = numbers.value(bits);
      }
  };
  fill(a, a_count, shape.a, shape.a_layout, am);
  fill(b, b_count, shape.b, shape.b_layout, bm);
  Numbers accumulators = shape.accumulator == 'h' ? kF16 : kTf32;
  if (shape.accumulator == 'f')
    accumulators.value = [](uint32_t bits) { return double(std::bit_cast<float>(bits)); };
  if (shape.accumulator == 's')
    accumulators = {
        32, [](Random &r) { return uint32_t(r.bits() % 3 ? r.bits() % 100000 : 0x7fffff00); },
        [](uint32_t bits) { return double(int32_t(bits)); }};
  fill(c, c_count, accumulators, c_16x8, cm);

  Emulated device;
  device.load(ptx);
  uint64_t pd = device.allocate(32 * c_count * 4);
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, device.upload(a), device.upload(b), device.upload(c),
                pd);
  auto d = device.download<uint32_t>(pd, 32 * c_count);
  const bool saturates = shape.opcode.find("satfinite") != std::string::npos;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      Place at = c_16x8(lane, i);
      double want = cm[at.row][at.column], scale = std::abs(want), got;
      for (int k = 0; k < depth; ++k) {
        want += am[at.row][k] * bm[k][at.column];
        scale += std::abs(am[at.row][k] * bm[k][at.column]);
      }
      INFO("row " << at.row << ", column " << at.column);
      if (shape.accumulator == 's') {
        want = saturates ? std::min(std::max(want, -2147483648.0), 2147483647.0)
                         : double(int32_t(uint32_t(int64_t(want))));
        got = int32_t(d[lane * 4 + i]);
        REQUIRE(got == want);
      } else if (shape.accumulator == 'f') {
        got = std::bit_cast<float>(d[lane * 4 + i]);
        REQUIRE(std::abs(got - want) <= scale * 0x1p-22);
      } else {
        got = f16_value(d[lane * 2 + i / 2] >> (16 * (i & 1)) & 0xffff);
        REQUIRE(std::abs(got - want) <= scale * 0x1p-10);
      }
    }
}

} // namespace

TEST_CASE("matrices of halves are multiplied in the fragments that the PTX ISA draws") {
  const std::string begin = "mma.sync.aligned.";
  for (const Shape &shape : {
           Shape{begin + "m16n8k16.row.col.f32.f16.f16.f32", 16, kF16, kF16, a_k16_half, b_k16_half,
                 'f'},
           Shape{begin + "m16n8k16.row.col.f16.f16.f16.f16", 16, kF16, kF16, a_k16_half, b_k16_half,
                 'h'},
           Shape{begin + "m16n8k16.row.col.f32.bf16.bf16.f32", 16, kBf16, kBf16, a_k16_half,
                 b_k16_half, 'f'},
           Shape{begin + "m16n8k8.row.col.f32.f16.f16.f32", 8, kF16, kF16, a_k8_half, b_k8_half,
                 'f'},
           Shape{begin + "m16n8k8.row.col.f16.f16.f16.f16", 8, kF16, kF16, a_k8_half, b_k8_half,
                 'h'},
           Shape{begin + "m16n8k8.row.col.f32.bf16.bf16.f32", 8, kBf16, kBf16, a_k8_half, b_k8_half,
                 'f'},
           Shape{begin + "m16n8k8.row.col.f32.tf32.tf32.f32", 8, kTf32, kTf32, a_k8_tf32, b_k8_tf32,
                 'f'},
           Shape{begin + "m16n8k4.row.col.f32.tf32.tf32.f32", 4, kTf32, kTf32, a_k4_tf32, b_k4_tf32,
                 'f'},
       })
    check_shape(shape);
}

TEST_CASE("matrices of bytes are multiplied exactly, wrapping or saturating") {
  for (const char *saturation : {"", ".satfinite"})
    for (const auto &[a_name, a] : {std::pair("s8", kS8), std::pair("u8", kU8)})
      for (const auto &[b_name, b] : {std::pair("s8", kS8), std::pair("u8", kU8)}) {
        std::string types = std::string(saturation) + ".s32." + a_name + "." + b_name + ".s32";
        check_shape(
            {"mma.sync.aligned.m16n8k32.row.col" + types, 32, a, b, a_k32_byte, b_k32_byte, 's'});
        check_shape(
            {"mma.sync.aligned.m16n8k16.row.col" + types, 16, a, b, a_k16_byte, b_k16_byte, 's'});
      }
}

TEST_CASE("ldmatrix hands rows, or columns, of 8 x 8 matrices to the lanes") {
  for (int count : {1, 2, 4})
    for (bool transposed : {false, true}) {
      std::string ptx =
          ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 pd) {\n"
          ".shared .align 16 .b8 m[512];\n.reg .b32 %lane, %s, %v, %r<4>;\n.reg .b16 %h;\n"
          ".reg .b64 %x;\nmov.u32 %lane, %laneid;\n";
      // Lane l fills row l: element c of row l is l * 16 + c.
      for (int c = 0; c < 8; ++c)
        ptx += "mad.lo.u32 %v, %lane, 16, " + std::to_string(c) +
               ";\ncvt.u16.u32 %h, %v;\nmov.u32 %s, m;\nmad.lo.u32 %s, %lane, 16, "
               "%s;\nst.shared.u16 [%s+" +
               std::to_string(2 * c) + "], %h;\n";
      ptx += "bar.sync 0;\nldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
             (transposed ? ".trans" : "") + ".shared.b16 " + names('r', count) + ", [%s];\n" +
             move_fragment("pd", 'r', count, true) + "ret;\n}\n";
      INFO(count << (transposed ? " transposed" : ""));
      Emulated device;
      device.load(ptx);
      uint64_t pd = device.allocate(32 * 4 * 4);
      device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, pd);
      auto got = device.download<uint32_t>(pd, size_t(32 * count));
      for (int lane = 0; lane < 32; ++lane)
        for (int m = 0; m < count; ++m)
          for (int e = 0; e < 2; ++e) {
            // "thread l holds row l / 4, elements 2 * (l % 4) and the next"; .trans exchanges them.
            int row = lane / 4, column = 2 * (lane % 4) + e;
            if (transposed)
              std::swap(row, column);
            uint32_t value = got[size_t(lane * count + m)] >> (16 * e) & 0xffff;
            REQUIRE(value == uint32_t((m * 8 + row) * 16 + column));
          }
    }
}

TEST_CASE("asynchronous copies land at the wait that covers their group") {
  // Two copies in two groups: before any wait the destination is as it was, after wait_group 1 the
  // first is there, after wait_group 0 the second; bytes beyond the source size are zero.
  const char *ptx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pd) {
  .shared .align 16 .b8 m[2048];
  .reg .b32 %lane, %s, %v, %n;
  .reg .b64 %a, %d;
  .reg .pred %skip;
  mov.u32 %lane, %laneid;
  mov.u32 %s, m;
  mad.lo.u32 %s, %lane, 48, %s;
  ld.param.u64 %a, [pa];
  mad.wide.u32 %a, %lane, 32, %a;
  ld.param.u64 %d, [pd];
  mad.wide.u32 %d, %lane, 32, %d;
  mov.u32 %v, 7;
  st.shared.u32 [%s], %v;
  st.shared.u32 [%s+16], %v;
  st.shared.u32 [%s+28], %v;
  st.shared.u32 [%s+32], %v;
  cp.async.cg.shared.global [%s], [%a], 16;
  cp.async.commit_group;
  mov.u32 %n, 8;
  cp.async.ca.shared.global [%s+16], [%a+16], 16, %n;
  cp.async.commit_group;
  setp.ne.u32 %skip, %lane, 0;
  cp.async.ca.shared.global [%s+32], [%a], 4, %skip;
  ld.shared.u32 %v, [%s];
  st.global.u32 [%d], %v;
  cp.async.wait_group 1;
  ld.shared.u32 %v, [%s];
  st.global.u32 [%d+4], %v;
  ld.shared.u32 %v, [%s+16];
  st.global.u32 [%d+8], %v;
  cp.async.wait_group 0;
  ld.shared.u32 %v, [%s+16];
  st.global.u32 [%d+12], %v;
  ld.shared.u32 %v, [%s+28];
  st.global.u32 [%d+16], %v;
  ld.shared.u32 %v, [%s+32];
  st.global.u32 [%d+20], %v;
  cp.async.wait_all;
  ld.shared.u32 %v, [%s+32];
  st.global.u32 [%d+24], %v;
  ret;
})";
  Emulated device;
  device.load(ptx);
  std::vector<uint32_t> a(32 * 8);
  for (uint32_t i = 0; i < a.size(); ++i)
    a[i] = 1000 + i;
  uint64_t pd = device.allocate(32 * 32);
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, device.upload(a), pd);
  auto d = device.download<uint32_t>(pd, 32 * 8);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t *got = &d[lane * 8];
    uint32_t first = 1000 + lane * 8;
    REQUIRE(got[0] == 7);
    REQUIRE(got[1] == first);
    REQUIRE(got[2] == 7);
    REQUIRE(got[3] == first + 4);
    REQUIRE(got[4] == 0);
    REQUIRE(got[5] == 7);
    REQUIRE(got[6] == (lane ? 0 : first)); // ignored sources are zeros
  }
}
