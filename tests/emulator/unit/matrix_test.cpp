// mma, ldmatrix, cp.async. Fragment layouts are written here from the PTX ISA's text for each
// shape, products by plain loops.
#include "support/emulated.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <functional>

using namespace cugrt;
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
const Numbers kHalfNumbers{
    16, [](Random &r) { return uint32_t(0x2c00 + r.bits() % 0x1000 + (r.bits() & 1) * 0x8000); },
    f16_value};
const Numbers kBfloatNumbers{
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
  Numbers accumulators = shape.accumulator == 'h' ? kHalfNumbers : kTf32;
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
           Shape{begin + "m16n8k16.row.col.f32.f16.f16.f32", 16, kHalfNumbers, kHalfNumbers,
                 a_k16_half, b_k16_half, 'f'},
           Shape{begin + "m16n8k16.row.col.f16.f16.f16.f16", 16, kHalfNumbers, kHalfNumbers,
                 a_k16_half, b_k16_half, 'h'},
           Shape{begin + "m16n8k16.row.col.f32.bf16.bf16.f32", 16, kBfloatNumbers, kBfloatNumbers,
                 a_k16_half, b_k16_half, 'f'},
           Shape{begin + "m16n8k8.row.col.f32.f16.f16.f32", 8, kHalfNumbers, kHalfNumbers,
                 a_k8_half, b_k8_half, 'f'},
           Shape{begin + "m16n8k8.row.col.f16.f16.f16.f16", 8, kHalfNumbers, kHalfNumbers,
                 a_k8_half, b_k8_half, 'h'},
           Shape{begin + "m16n8k8.row.col.f32.bf16.bf16.f32", 8, kBfloatNumbers, kBfloatNumbers,
                 a_k8_half, b_k8_half, 'f'},
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

TEST_CASE("stmatrix stores rows, or columns, of 8 x 8 matrices from the lanes") {
  for (int count : {1, 2, 4})
    for (bool transposed : {false, true}) {
      const std::string bytes = std::to_string(4 * count);
      std::string ptx =
          ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 pd) {\n"
          ".shared .align 16 .b8 m[512];\n.reg .b32 %lane, %s, %v, %r<4>;\n.reg .b64 %x;\n"
          "mov.u32 %lane, %laneid;\n";
      // Lane l holds l * 64 + 2 * n and the next in matrix n.
      for (int n = 0; n < count; ++n)
        ptx += "mad.lo.u32 %v, %lane, 64, " + std::to_string(2 * n) + ";\nmad.lo.u32 %r" +
               std::to_string(n) + ", %v, 65537, 65536;\n";
      ptx += "mov.u32 %s, m;\nmad.lo.u32 %v, %lane, 16, %s;\nstmatrix.sync.aligned.m8n8.x" +
             std::to_string(count) + (transposed ? ".trans" : "") + ".shared.b16 [%v], " +
             names('r', count) + ";\nbar.sync 0;\nmad.lo.u32 %s, %lane, " + bytes + ", %s;\n";
      for (int n = 0; n < count; ++n)
        ptx += "ld.shared.u32 %r" + std::to_string(n) + ", [%s+" + std::to_string(4 * n) + "];\n";
      ptx += move_fragment("pd", 'r', count, true) + "ret;\n}\n";
      INFO(count << (transposed ? " transposed" : ""));
      Emulated device;
      device.load(ptx);
      uint64_t pd = device.allocate(32 * 4 * 4);
      device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, pd);
      auto got = device.download<uint16_t>(pd, size_t(64 * count));
      for (int n = 0; n < count; ++n)
        for (int r = 0; r < 8; ++r)
          for (int c = 0; c < 8; ++c) {
            // "thread l holds row l / 4, elements 2 * (l % 4) and the next"; .trans exchanges them.
            const int row = transposed ? c : r, column = transposed ? r : c;
            const int lane = 4 * row + column / 2;
            REQUIRE(got[size_t(64 * n + 8 * r + c)] == lane * 64 + 2 * n + column % 2);
          }
    }
}

TEST_CASE("movmatrix transposes an 8 x 8 matrix over the lanes") {
  std::string ptx =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 pd) {\n"
      ".reg .b32 %lane, %v, %r<1>;\n.reg .b64 %x;\nmov.u32 %lane, %laneid;\n"
      "mad.lo.u32 %v, %lane, 131074, 65536;\n" // 2 * lane and the next
      "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %v;\n" +
      move_fragment("pd", 'r', 1, true) + "ret;\n}\n";
  Emulated device;
  device.load(ptx);
  uint64_t pd = device.allocate(32 * 4);
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, pd);
  auto got = device.download<uint16_t>(pd, 64);
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 8; ++column) // a matrix of 0 to 63, row by row
      REQUIRE(got[size_t(8 * row + column)] == 8 * column + row);
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

namespace {

/// A kernel of four pointers around a wmma product of 16 x 16 x 16 in f16 and f32.
std::string wmma_kernel(const std::string &load_a, const std::string &between = "") {
  return ".version 7.1\n.target sm_80\n.address_size 64\n"
         ".visible .entry k(.param .u64 pa, .param .u64 pd) {\n"
         ".reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>; .reg .b64 %pa, %pd; .reg .b32 %s;\n"
         ".shared .align 32 .b8 m[512];\n"
         "ld.param.u64 %pa, [pa]; ld.param.u64 %pd, [pd]; mov.u32 %s, 16;\n" +
         load_a + "\n" + between + "wmma.load.b.sync.aligned.row.m16n16k16.global.f16 " +
         names('b', 8) + ", [%pa];\n" + "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 " +
         names('c', 8) + ", [%pd];\n" + "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 " +
         names('c', 8) + ", " + names('a', 8) + ", " + names('b', 8) + ", " + names('c', 8) +
         ";\n" + "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%pd], " + names('c', 8) +
         ";\nret;\n}\n";
}

std::string load_a(const std::string &address, const std::string &rest = "") {
  return "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " + names('a', 8) + ", [" + address +
         "]" + rest + ";";
}

} // namespace

TEST_CASE("the WMMA API of mma.h, as NVRTC compiles it, multiplies tiles in every layout") {
  // d = a * b + c where a is 32 x 16 and b 16 x 32: four products from two tiles of each, through
  // shared memory for c. Elements are small integers, which f16 holds exactly.
  const char *source = R"(
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void multiply(const half *a, const half *b, float *d, float scale) {
  __shared__ float tile[4][16 * 24];
  int warp = threadIdx.x / 32, row = warp / 2 * 16, column = warp % 2 * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 3.0f);
  wmma::load_matrix_sync(fa, a + row * 16, 16);
  wmma::load_matrix_sync(fb, b + column * 32, 32);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= scale;
  wmma::store_matrix_sync(tile[warp], fc, 24, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x % 32; i < 256; i += 32)
    d[(row + i / 16) * 32 + column + i % 16] = tile[warp][i / 16 * 24 + i % 16];
})";
  if (!std::filesystem::exists(CUGRT_CUDA_INCLUDE "/mma.h")) {
    WARN("the CUDA headers have no mma.h");
    return;
  }
  Emulated device;
  device.load_cuda(source, "compute_80", {"--include-path=" CUGRT_CUDA_INCLUDE});
  auto half = [](int value) { // of -16 to 15
    int magnitude = std::abs(value), exponent = 0;
    while (magnitude >> (exponent + 1))
      ++exponent;
    uint32_t bits =
        magnitude ? uint32_t(exponent + 15) << 10 | (uint32_t(magnitude) << (10 - exponent) & 1023)
                  : 0;
    return uint16_t(bits | (value < 0 ? 0x8000 : 0));
  };
  auto a = [](int row, int k) { return (row * 7 + k * 3) % 32 - 16; };
  auto b = [](int k, int column) { return (column * 5 + k * 11) % 32 - 16; };
  std::vector<uint16_t> pa(32 * 16), pb(32 * 32);
  for (int i = 0; i < 32; ++i)
    for (int k = 0; k < 16; ++k) {
      pa[size_t(i * 16 + k)] = half(a(i, k));
      pb[size_t(i * 32 + k)] = half(b(k, i));
    }
  uint64_t pd = device.allocate(32 * 32 * 4);
  device.launch("multiply", {1, 1, 1}, {128, 1, 1}, 0, device.upload(pa), device.upload(pb), pd,
                2.0f);
  auto d = device.download<float>(pd, 32 * 32);
  for (int row = 0; row < 32; ++row)
    for (int column = 0; column < 32; ++column) {
      int sum = 3;
      for (int k = 0; k < 16; ++k)
        sum += a(row, k) * b(k, column);
      REQUIRE(d[size_t(row * 32 + column)] == float(2 * sum));
    }
}

TEST_CASE("a wmma fragment that is one tile of mma.sync lies in its registers as there") {
  // "Matrix Fragments for mma.m16n8k16": a, and the first column tile of c.
  std::string ptx = ".version 7.1\n.target sm_80\n.address_size 64\n"
                    ".visible .entry k(.param .u64 pa, .param .u64 pd) {\n"
                    ".reg .b32 %r<8>; .reg .b32 %lane; .reg .b64 %x, %pa;\n"
                    "mov.u32 %lane, %laneid; ld.param.u64 %pa, [pa];\n"
                    "wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r0, %r1, %r2, %r3}, "
                    "[%pa];\n" +
                    move_fragment("pd", 'r', 4, true) + "ret;\n}\n";
  Emulated device;
  device.load(ptx);
  std::vector<uint16_t> a(256);
  for (uint32_t i = 0; i < 256; ++i)
    a[i] = uint16_t(i);
  uint64_t pd = device.allocate(32 * 4 * 4);
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, device.upload(a), pd);
  auto got = device.download<uint32_t>(pd, 32 * 4);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 8; ++i) {
      Place at = a_k16_half(lane, i);
      uint32_t word = got[size_t(lane * 4 + i / 2)] >> (16 * (i % 2)) & 0xffff;
      REQUIRE(word == uint32_t(at.row * 16 + at.column));
    }
}

TEST_CASE("wmma faults beyond an allocation and where a row is not aligned") {
  Emulated device;
  uint64_t pd = device.upload(std::vector<float>(256)), pa = device.upload(std::vector<float>(128));
  device.load(wmma_kernel(load_a("%pa")));
  CHECK_FALSE(device.try_launch("k", {1, 1, 1}, {32, 1, 1}, 0, pa, pd));
  struct Case {
    std::string load;
    emulator::FaultKind kind;
    const char *message;
  };
  for (const Case &c :
       {Case{load_a("%pa+512"), emulator::FaultKind::illegal_address, "out-of-bounds"},
        Case{load_a("%pa", ", 32"), emulator::FaultKind::illegal_address, "out-of-bounds"},
        Case{load_a("%pa+8"), emulator::FaultKind::misaligned_address, "16 bytes"},
        Case{load_a("%pa", ", 17"), emulator::FaultKind::misaligned_address, "16 bytes"}}) {
    INFO(c.load);
    device.load(wmma_kernel(c.load));
    auto fault = device.try_launch("k", {1, 1, 1}, {32, 1, 1}, 0, pa, pd);
    REQUIRE(fault);
    CHECK(fault->kind == c.kind);
    CHECK(fault->message.find(c.message) != std::string::npos);
    CHECK(fault->message.find("at ptx line 8") != std::string::npos);
  }
}

TEST_CASE("wmma of sub-byte, double and mixed types, other shapes and short fragments is refused") {
  auto refusal = [](const std::string &line) {
    auto memory = std::move(emulator::AddressSpace::create(1u << 20)).value();
    auto program =
        emulator::Program::load(wmma_kernel(line), *emulator::find_profile("sm_90"), *memory);
    return program.ok() ? "accepted" : program.status().to_string();
  };
  const std::string a = names('a', 8);
  CHECK(refusal(load_a("%pa")) == "accepted");
  for (const char *opcode : {"wmma.load.a.sync.aligned.row.m8n8k32.global.s4",
                             "wmma.load.a.sync.aligned.row.m8n8k128.b1",
                             "wmma.load.a.sync.aligned.row.m8n8k4.global.f64",
                             "wmma.load.a.sync.aligned.row.m16n16k8.global.f16",
                             "wmma.load.a.sync.aligned.row.m16n16k16.global.tf32",
                             "wmma.load.a.aligned.row.m16n16k16.global.f16",
                             "wmma.load.a.sync.aligned.m16n16k16.global.f16",
                             "wmma.load.d.sync.aligned.row.m16n16k16.global.f32"}) {
    std::string text = refusal(std::string(opcode) + " " + a + ", [%pa];");
    INFO(opcode << ": " << text);
    CHECK(text.find(opcode) != std::string::npos);
    CHECK(text.find("ptx line 8") != std::string::npos);
  }
  CHECK(refusal("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32 " + a + ", " + a + ", " + a +
                ", " + a + ";")
            .find("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32") != std::string::npos);
  CHECK(refusal("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " + names('a', 4) + ", [%pa];")
            .find("a fragment of 4 registers instead of 8") != std::string::npos);
}

TEST_CASE("every type of wmma multiplies ones: the depth, and what is added") {
  struct Case {
    std::string shape, in, c, d;
    int registers, depth; // of a and b
    uint32_t one, two;    // an element of a and b; of c, in 32 bits
  };
  const std::string cube = "m16n16k16";
  const Case c = GENERATE_COPY(Case{cube, "f16", "f32", "f32", 8, 16, 0x3c003c00, 0x40000000},
                               Case{cube, "f16", "f16", "f32", 8, 16, 0x3c003c00, 0x40004000},
                               Case{cube, "f16", "f32", "f16", 8, 16, 0x3c003c00, 0x40000000},
                               Case{cube, "f16", "f16", "f16", 8, 16, 0x3c003c00, 0x40004000},
                               Case{cube, "bf16", "f32", "f32", 4, 16, 0x3f803f80, 0x40000000},
                               Case{"m16n16k8", "tf32", "f32", "f32", 4, 8, 0x3f800000, 0x40000000},
                               Case{cube, "s8", "s32", "s32", 2, 16, 0x01010101, 2},
                               Case{cube, "u8", "s32", "s32", 2, 16, 0x01010101, 2});
  INFO(c.in << " " << c.c << " " << c.d);
  auto load = [&](const std::string &matrix, const std::string &type, int count, const char *from) {
    return "wmma.load." + matrix + ".sync.aligned.row." + c.shape + "." + type + " " +
           names(matrix[0], count) + ", [%" + from + "];\n";
  };
  const int c_count = c.c == "f16" ? 4 : 8, d_count = c.d == "f16" ? 4 : 8;
  std::string types = c.in == "f16" ? c.d + "." + c.c : c.d + "." + c.in + "." + c.in + "." + c.c;
  Emulated device;
  device.load(".version 7.1\n.target sm_80\n.address_size 64\n"
              ".visible .entry k(.param .u64 pa, .param .u64 pc, .param .u64 pd) {\n"
              ".reg .b32 %a<8>, %b<8>, %c<8>, %d<8>; .reg .b64 %pa, %pc, %pd;\n"
              "ld.param.u64 %pa, [pa]; ld.param.u64 %pc, [pc]; ld.param.u64 %pd, [pd];\n" +
              load("a", c.in, c.registers, "pa") + load("b", c.in, c.registers, "pa") +
              load("c", c.c, c_count, "pc") + "wmma.mma.sync.aligned.row.row." + c.shape + "." +
              types + " " + names('d', d_count) + ", " + names('a', c.registers) + ", " +
              names('b', c.registers) + ", " + names('c', c_count) +
              ";\nwmma.store.d.sync.aligned.row." + c.shape + "." + c.d + " [%pd], " +
              names('d', d_count) + ";\nret;\n}\n");
  const uint64_t pd = device.allocate(1024);
  device.launch("k", {1, 1, 1}, {32, 1, 1}, 0, device.upload(std::vector<uint32_t>(256, c.one)),
                device.upload(std::vector<uint32_t>(256, c.two)), pd);
  for (uint32_t word : device.download<uint32_t>(pd, c.d == "f16" ? 128 : 256)) {
    if (c.d == "s32")
      REQUIRE(int(word) == c.depth + 2);
    else if (c.d == "f32")
      REQUIRE(std::bit_cast<float>(word) == float(c.depth + 2));
    else
      REQUIRE((f16_value(word & 0xffff) == c.depth + 2 && f16_value(word >> 16) == c.depth + 2));
  }
}
