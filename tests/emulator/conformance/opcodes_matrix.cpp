// mma.sync, ldmatrix, stmatrix and movmatrix. Fragment layouts are written from the ISA's text for
// each shape, products by plain loops.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

constexpr int kLanes = 32;

struct FragmentPlace {
  int row, column;
};
using Layout = FragmentPlace (*)(int lane, int i);

// groupID is %laneid >> 2, threadID_in_group is %laneid % 4.
int group(int lane) { return lane >> 2; }
int within(int lane) { return lane % 4; }

// "Matrix Fragments for mma.m16n8k16 with floating point type", and its neighbours.
FragmentPlace c_16x8(int lane, int i) {
  return {i < 2 ? group(lane) : group(lane) + 8, within(lane) * 2 + (i & 1)};
}
FragmentPlace a_half_16(int lane, int i) {
  bool upper = i == 2 || i == 3 || i == 6 || i == 7;
  return {group(lane) + (upper ? 8 : 0), within(lane) * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}
FragmentPlace b_half_16(int lane, int i) {
  return {within(lane) * 2 + (i & 1) + (i < 2 ? 0 : 8), group(lane)};
}
FragmentPlace a_half_8(int lane, int i) { return c_16x8(lane, i); }
FragmentPlace b_half_8(int lane, int i) { return {within(lane) * 2 + i, group(lane)}; }
FragmentPlace a_word_8(int lane, int i) {
  return {group(lane) + (i & 1 ? 8 : 0), within(lane) + (i < 2 ? 0 : 4)};
}
FragmentPlace b_word_8(int lane, int i) { return {within(lane) + (i ? 4 : 0), group(lane)}; }
FragmentPlace a_word_4(int lane, int i) { return {group(lane) + (i ? 8 : 0), within(lane)}; }
FragmentPlace b_word_4(int lane, int) { return {within(lane), group(lane)}; }
FragmentPlace a_byte_32(int lane, int i) {
  bool upper = (i >= 4 && i < 8) || i >= 12;
  return {group(lane) + (upper ? 8 : 0), within(lane) * 4 + (i & 3) + (i < 8 ? 0 : 16)};
}
FragmentPlace b_byte_32(int lane, int i) {
  return {within(lane) * 4 + (i & 3) + (i < 4 ? 0 : 16), group(lane)};
}
FragmentPlace a_byte_16(int lane, int i) {
  return {group(lane) + (i < 4 ? 0 : 8), within(lane) * 4 + (i & 3)};
}
FragmentPlace b_byte_16(int lane, int i) { return {within(lane) * 4 + i, group(lane)}; }

/// Elements: how they are made, so that sums are not all special values, and what they are worth.
struct Numbers {
  int bits;
  uint32_t (*make)(Random &);
  double (*value)(uint32_t);
};
uint32_t small_float(const Format &t, Random &random) {
  return uint32_t(encode(t, Real(int(random() % 4096) - 2048) / 1024));
}
const Numbers kHalf{16, [](Random &r) { return small_float(kF16, r); },
                    [](uint32_t v) { return double(decode(kF16, v)); }};
const Numbers kBrain{16, [](Random &r) { return small_float(kBf16, r); },
                     [](uint32_t v) { return double(decode(kBf16, v)); }};
const Numbers kTensor{32, [](Random &r) { return small_float(kF32, r) & 0xffffe000; },
                      [](uint32_t v) { return double(decode(kF32, v & 0xffffe000)); }};
const Numbers kSingle{32, [](Random &r) { return small_float(kF32, r); },
                      [](uint32_t v) { return double(decode(kF32, v)); }};
const Numbers kSigned{8, [](Random &r) { return uint32_t(r() & 255); },
                      [](uint32_t v) { return double(int8_t(v)); }};
const Numbers kUnsigned{8, [](Random &r) { return uint32_t(r() & 255); },
                        [](uint32_t v) { return double(v & 255); }};
const Numbers kWord{32, [](Random &r) { return uint32_t(r() % 3 ? r() % 100000 : 0x7fffff00); },
                    [](uint32_t v) { return double(int32_t(v)); }};

struct Shape {
  std::string opcode;
  int depth;
  Numbers a, b, c;
  Layout a_layout, b_layout;
};

struct Matrix {
  std::vector<double> cells;
  int columns;
  Matrix(int rows, int columns) : cells(size_t(rows * columns)), columns(columns) {}
  double &at(FragmentPlace p) { return cells[size_t(p.row * columns + p.column)]; }
  double at(int row, int column) const { return cells[size_t(row * columns + column)]; }
};

/// Fills a fragment of `count` registers a lane behind what `words` has, and the matrix.
void fill(std::vector<uint32_t> &words, int count, const Numbers &numbers, Layout layout,
          Matrix &matrix, Random &random) {
  const int each = 32 / numbers.bits;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < count * each; ++i) {
      uint32_t bits = numbers.make(random);
      if (i % each == 0)
        words.push_back(0);
      words.back() |= bits << (i % each * numbers.bits);
      matrix.at(layout(lane, i)) = numbers.value(bits);
    }
}

std::string loads(char letter, int count, int first_word) {
  std::string text = "mad.wide.u32 %x, %i, " + std::to_string(4 * count) + ", %in;\n";
  for (int i = 0; i < count; ++i)
    text += "ld.global.b32 %" + std::string(1, letter) + std::to_string(i) + ", [%x+" +
            std::to_string(4 * (first_word + i)) + "];\n";
  return text;
}

std::string stores(char letter, int count) {
  std::string text = "mad.wide.u32 %x, %i, " + std::to_string(4 * count) + ", %out;\n";
  for (int i = 0; i < count; ++i)
    text += "st.global.b32 [%x+" + std::to_string(4 * i) + "], %" + std::string(1, letter) +
            std::to_string(i) + ";\n";
  return text;
}

/// Sums of floats are accumulated in an order and a precision that the ISA leaves open: right
/// within a share of the sum of magnitudes. Integers are exact.
std::function<bool(size_t, uint32_t)> bound(std::vector<double> want, std::vector<double> scale,
                                            bool half) {
  return [want = std::move(want), scale = std::move(scale), half](size_t word, uint32_t got) {
    if (!half)
      return std::fabs(double(decode(kF32, got)) - want[word]) <= scale[word] * 0x1p-21;
    for (size_t k = 0; k < 2; ++k)
      if (!(std::fabs(double(decode(kF16, got >> (16 * k) & 0xffff)) - want[2 * word + k]) <=
            scale[2 * word + k] * 0x1p-9))
        return false;
    return true;
  };
}

void add(OpcodeCases &cases, const Shape &shape) {
  const int depth = shape.depth, a_count = 16 * depth * shape.a.bits / 1024,
            b_count = 8 * depth * shape.b.bits / 1024, c_count = shape.c.bits == 16 ? 2 : 4;
  Matrix a(16, depth), b(depth, 8), c(16, 8);
  Random random(Bits(depth) + 7);
  const bool is_integer = shape.a.bits == 8;
  Program &p =
      cases.program(shape.opcode, "Warp-Level Matrix Instructions: mma.sync",
                    is_integer ? "D = A * B + C; .satfinite clamps, otherwise the sum wraps"
                               : "D = A * B + C; the order of accumulation is left open");
  fill(p.input, a_count, shape.a, shape.a_layout, a, random);
  fill(p.input, b_count, shape.b, shape.b_layout, b, random);
  fill(p.input, c_count, shape.c, c_16x8, c, random);
  p.body = ".reg .b32 %a<8>, %b<8>, %c<8>, %d<8>;\n.reg .b64 %x;\n" + loads('a', a_count, 0) +
           loads('b', b_count, kLanes * a_count) +
           loads('c', c_count, kLanes * (a_count + b_count)) + shape.opcode + " " +
           register_names('d', c_count) + ", " + register_names('a', a_count) + ", " +
           register_names('b', b_count) + ", " + register_names('c', c_count) + ";\n" +
           stores('d', c_count);
  std::vector<double> want, scale;
  const bool saturates = shape.opcode.find("satfinite") != std::string::npos;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      FragmentPlace at = c_16x8(lane, i);
      double total = c.at(at), magnitudes = std::fabs(total);
      for (int k = 0; k < depth; ++k) {
        double product = a.at(at.row, k) * b.at(k, at.column);
        total += product;
        magnitudes += std::fabs(product);
      }
      want.push_back(total);
      scale.push_back(magnitudes);
      if (is_integer) // int64_t holds the sum; it wraps unless it is limited
        p.expected.push_back(uint32_t(
            saturates ? int64_t(std::clamp(total, -2147483648.0, 2147483647.0)) : int64_t(total)));
      else if (c_count == 4)
        p.expected.push_back(uint32_t(encode(kF32, total)));
      else if (i % 2)
        p.expected.back() |= uint32_t(encode(kF16, total)) << 16;
      else
        p.expected.push_back(uint32_t(encode(kF16, total)));
    }
  if (!is_integer)
    p.accepts = bound(std::move(want), std::move(scale), c_count == 2);
  p.target.compute = 80;
}

void add_floats(OpcodeCases &cases) {
  const std::string m = "mma.sync.aligned.m16n8k";
  for (const Shape &shape :
       {Shape{m + "16.row.col.f32.f16.f16.f32", 16, kHalf, kHalf, kSingle, a_half_16, b_half_16},
        Shape{m + "16.row.col.f16.f16.f16.f16", 16, kHalf, kHalf, kHalf, a_half_16, b_half_16},
        Shape{m + "16.row.col.f32.bf16.bf16.f32", 16, kBrain, kBrain, kSingle, a_half_16,
              b_half_16},
        Shape{m + "8.row.col.f32.f16.f16.f32", 8, kHalf, kHalf, kSingle, a_half_8, b_half_8},
        Shape{m + "8.row.col.f16.f16.f16.f16", 8, kHalf, kHalf, kHalf, a_half_8, b_half_8},
        Shape{m + "8.row.col.f32.bf16.bf16.f32", 8, kBrain, kBrain, kSingle, a_half_8, b_half_8},
        Shape{m + "8.row.col.f32.tf32.tf32.f32", 8, kTensor, kTensor, kSingle, a_word_8, b_word_8},
        Shape{m + "4.row.col.f32.tf32.tf32.f32", 4, kTensor, kTensor, kSingle, a_word_4, b_word_4}})
    add(cases, shape);
}

void add_byte_products(OpcodeCases &cases) {
  for (const char *saturation : {"", ".satfinite"})
    for (bool a_signed : {false, true})
      for (bool b_signed : {false, true}) {
        const std::string types = std::string(saturation) + ".s32" + (a_signed ? ".s8" : ".u8") +
                                  (b_signed ? ".s8" : ".u8") + ".s32";
        const Numbers &a = a_signed ? kSigned : kUnsigned, &b = b_signed ? kSigned : kUnsigned;
        add(cases,
            {"mma.sync.aligned.m16n8k32.row.col" + types, 32, a, b, kWord, a_byte_32, b_byte_32});
        add(cases,
            {"mma.sync.aligned.m16n8k16.row.col" + types, 16, a, b, kWord, a_byte_16, b_byte_16});
      }
}

/// Lane l fills row l of a table of 32 rows of 8 halves: element c is l * 16 + c.
void add_ldmatrix(OpcodeCases &cases, int count, bool transposed) {
  Program &p = cases.program(
      "ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (transposed ? ".trans" : "") +
          ".shared.b16",
      "Warp-Level Matrix Instructions: ldmatrix",
      "lane l holds elements 2 * (l % 4) and the next of row l / 4; .trans exchanges them");
  p.body = ".shared .align 16 .b8 m[512];\n.reg .b32 %s, %v, %r<4>;\n.reg .b16 %h;\n.reg .b64 %x;\n"
           "mov.u32 %s, m;\nmad.lo.u32 %s, %i, 16, %s;\n";
  for (int c = 0; c < 8; ++c)
    p.body += "mad.lo.u32 %v, %i, 16, " + std::to_string(c) + ";\ncvt.u16.u32 %h, %v;\n" +
              "st.shared.u16 [%s+" + std::to_string(2 * c) + "], %h;\n";
  p.body += "bar.sync 0;\n" + p.name + " " + register_names('r', count) + ", [%s];\n" +
            stores('r', count);
  for (int lane = 0; lane < kLanes; ++lane)
    for (int m = 0; m < count; ++m) {
      uint32_t word = 0;
      for (int e = 0; e < 2; ++e) {
        int row = lane / 4, column = 2 * (lane % 4) + e;
        if (transposed)
          std::swap(row, column);
        word |= uint32_t((m * 8 + row) * 16 + column) << (16 * e);
      }
      p.expected.push_back(word);
    }
  p.target.compute = 75;
}

/// Lane l holds l * 64 + m * 2 + e in element e of matrix m; the rows of 16 bytes go to shared
/// memory.
void add_stmatrix(OpcodeCases &cases, int count, bool transposed) {
  Program &p = cases.program(
      "stmatrix.sync.aligned.m8n8.x" + std::to_string(count) + (transposed ? ".trans" : "") +
          ".shared.b16",
      "Warp-Level Matrix Instructions: stmatrix",
      "lane l holds elements 2 * (l % 4) and the next of row l / 4; .trans exchanges them");
  p.body = ".shared .align 16 .b8 m[512];\n.reg .b32 %s, %t, %v, %r<4>;\n.reg .b16 %g, %h;\n"
           ".reg .b64 %x;\nmov.u32 %s, m;\nmad.lo.u32 %s, %i, 16, %s;\n";
  for (int m = 0; m < count; ++m)
    p.body += "mad.lo.u32 %v, %i, 64, " + std::to_string(2 * m) +
              ";\nadd.u32 %t, %v, 1;\ncvt.u16.u32 %g, %v;\ncvt.u16.u32 %h, %t;\nmov.b32 %r" +
              std::to_string(m) + ", {%g, %h};\n";
  // Lane l reads words 4 l and on of what was stored.
  p.body += p.name + " [%s], " + register_names('r', count) +
            ";\nbar.sync 0;\nmul.lo.u32 %t, %i, " + std::to_string(4 * count) +
            ";\nmov.u32 %s, m;\nadd.u32 %s, %s, %t;\n";
  for (int n = 0; n < count; ++n)
    p.body += "ld.shared.u32 %r" + std::to_string(n) + ", [%s+" + std::to_string(4 * n) + "];\n";
  p.body += stores('r', count);
  // Word w holds columns 2 * (w % 4) and the next of row w / 4 of all matrices' rows.
  for (int w = 0; w < kLanes * count; ++w) {
    uint32_t word = 0;
    for (int e = 0; e < 2; ++e) {
      int m = w / 32, row = w / 4 % 8, column = 2 * (w % 4) + e;
      if (transposed)
        std::swap(row, column);
      const int lane = 4 * row + column / 2;
      word |= uint32_t(lane * 64 + 2 * m + column % 2) << (16 * e);
    }
    p.expected.push_back(word);
  }
  p.target.compute = 90;
}

/// Element e of lane l is l * 2 + e: row l / 4, column 2 * (l % 4) + e.
void add_movmatrix(OpcodeCases &cases) {
  Program &p = cases.program("movmatrix.sync.aligned.m8n8.trans.b16",
                             "Warp-Level Matrix Instructions: movmatrix",
                             "the matrix is read row by row over the lanes and written transposed");
  p.body = ".reg .b32 %v, %r<1>;\n.reg .b16 %g, %h;\n.reg .b64 %x;\nmul.lo.u32 %v, %i, 2;\n"
           "cvt.u16.u32 %g, %v;\nadd.u32 %v, %v, 1;\ncvt.u16.u32 %h, %v;\nmov.b32 %v, {%g, %h};\n" +
           p.name + " %r0, %v;\n" + stores('r', 1);
  for (int lane = 0; lane < kLanes; ++lane) {
    uint32_t word = 0;
    for (int e = 0; e < 2; ++e) {
      const int row = 2 * (lane % 4) + e, column = lane / 4; // of the source
      word |= uint32_t(2 * (4 * row + column / 2) + column % 2) << (16 * e);
    }
    p.expected.push_back(word);
  }
  p.target.compute = 75;
}

} // namespace

void add_matrix_cases(OpcodeCases &cases) {
  add_floats(cases);
  add_byte_products(cases);
  for (int count : {1, 2, 4})
    for (bool transposed : {false, true})
      add_ldmatrix(cases, count, transposed);
  for (int count : {1, 2, 4})
    for (bool transposed : {false, true})
      add_stmatrix(cases, count, transposed);
  add_movmatrix(cases);
}

} // namespace cugrt::conformance
