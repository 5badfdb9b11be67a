// wmma: fragments loaded from memory, multiplied and stored. What lies in which register is open,
// so that a case goes from memory to memory; products are made by plain loops.
#include "opcodes_wmma.h"

#include <algorithm>
#include <cmath>

namespace cugrt::conformance {

namespace {

/// An element type of a, b, c or d: how values are made, written down and read.
struct WmmaElement {
  std::string name;
  int bits;
  const Format *format; // none: an integer
  bool is_signed;

  uint32_t encoded(double value) const {
    uint32_t all = format ? uint32_t(encode(*format, Real(value))) : uint32_t(int64_t(value));
    return bits == 32 ? all : all & ((1u << bits) - 1);
  }
};
const WmmaElement kF16Element{"f16", 16, &kF16, true}, kBf16Element{"bf16", 16, &kBf16, true},
    kTf32Element{"tf32", 32, &kF32, true}, kF32Element{"f32", 32, &kF32, true},
    kS8Element{"s8", 8, nullptr, true}, kU8Element{"u8", 8, nullptr, false},
    kS32Element{"s32", 32, nullptr, true};

/// A value that every type of the element's kind holds exactly.
double small(const WmmaElement &element, Random &random) {
  if (element.format)
    return (int(random() % 256) - 128) / 64.0;
  if (element.bits == 32)
    return random() % 4 ? double(random() % 100000) : 2147483647.0 - double(random() % 9);
  return element.is_signed ? double(int(random() % 256) - 128) : double(random() % 256);
}

/// A matrix in memory: rows, or columns, `stride` elements apart.
struct Stored {
  WmmaElement element;
  int rows = 0, columns = 0, stride = 0;
  bool by_column = false;

  size_t index(int row, int column) const {
    return size_t(by_column ? column * stride + row : row * stride + column);
  }
  size_t words() const { return size_t((by_column ? columns : rows) * stride * element.bits / 32); }
  void put(uint32_t *words, int row, int column, double value) const {
    const size_t bit = index(row, column) * size_t(element.bits);
    words[bit / 32] |= element.encoded(value) << (bit % 32);
  }
  const char *layout() const { return by_column ? "col" : "row"; }
};

struct WmmaShape {
  int m, n, k;
  std::string name() const {
    return "m" + std::to_string(m) + "n" + std::to_string(n) + "k" + std::to_string(k);
  }
};

struct Product {
  WmmaShape shape;
  WmmaElement in, c, d;
  bool a_by_column, b_by_column, c_by_column, d_by_column, padded;
  int compute;
  std::string space, saturation;
};

int registers(const Product &p, char matrix) {
  if (matrix == 'c' || matrix == 'd')
    return (matrix == 'c' ? p.c : p.d).bits == 16 ? 4 : 8;
  if (p.in.name == "f16")
    return 8;
  return (matrix == 'a' ? p.shape.m : p.shape.n) * p.shape.k * p.in.bits / 1024;
}

Stored stored(const Product &p, char matrix) {
  Stored s;
  s.element = matrix == 'c' ? p.c : matrix == 'd' ? p.d : p.in;
  s.rows = matrix == 'b' ? p.shape.k : p.shape.m;
  s.columns = matrix == 'a' ? p.shape.k : p.shape.n;
  s.by_column = matrix == 'a'   ? p.a_by_column
                : matrix == 'b' ? p.b_by_column
                : matrix == 'c' ? p.c_by_column
                                : p.d_by_column;
  // Rows stay aligned to the 32 bytes of the largest fragment.
  s.stride = (s.by_column ? s.rows : s.columns) + (p.padded ? 32 * 8 / s.element.bits : 0);
  return s;
}

std::string access(const Product &p, char matrix, const Stored &s, const std::string &address) {
  const bool stores = matrix == 'd';
  std::string opcode = std::string("wmma.") + (stores ? "store.d" : std::string("load.") + matrix) +
                       ".sync.aligned." + s.layout() + "." + p.shape.name() + p.space + "." +
                       s.element.name;
  std::string fragment = register_names(matrix, registers(p, matrix));
  return opcode + " " +
         (stores ? "[" + address + "], " + fragment : fragment + ", [" + address + "]") +
         (p.padded ? ", " + std::to_string(s.stride) : "") + ";\n";
}

std::string declarations(const Product &p) {
  // f16 fragments are of pairs, floats of floats, everything else of words.
  auto type = [&](const WmmaElement &e) {
    return e.name == "f16" ? ".b32" : e.name == "f32" ? ".f32" : ".b32";
  };
  return std::string(".reg ") + type(p.in) + " %a<8>, %b<8>;\n.reg " + type(p.c) +
         " %c<8>;\n.reg " + type(p.d) + " %d<8>;\n";
}

void add(OpcodeCases &cases, const Product &p) {
  const Stored a = stored(p, 'a'), b = stored(p, 'b'), c = stored(p, 'c'), d = stored(p, 'd');
  Random random(Bits(p.shape.m * 64 + p.shape.n + p.in.bits));
  std::vector<double> values_a(size_t(p.shape.m * p.shape.k)),
      values_b(size_t(p.shape.k * p.shape.n)), values_c(size_t(p.shape.m * p.shape.n));
  std::string multiply = std::string("wmma.mma.sync.aligned.") + a.layout() + "." + b.layout() +
                         "." + p.shape.name() + "." + p.d.name;
  if (p.in.name != "f16")
    multiply += "." + p.in.name + "." + p.in.name;
  multiply += "." + p.c.name + p.saturation;
  Program &program =
      cases.program(multiply + (p.padded ? " padded" : "") + (p.space.empty() ? " generic" : "") +
                        (c.by_column ? " c col" : "") + (d.by_column ? " d col" : ""),
                    "Warp-Level Matrix Instructions: wmma.load, wmma.mma, wmma.store",
                    p.d.format ? "D = A * B + C; the order of accumulation is left open"
                               : "D = A * B + C; .satfinite clamps, otherwise the sum wraps");
  program.input.resize(a.words() + b.words() + c.words());
  auto fill = [&](const Stored &s, std::vector<double> &values, size_t first) {
    for (int row = 0; row < s.rows; ++row)
      for (int column = 0; column < s.columns; ++column) {
        double value = small(s.element, random);
        values[size_t(row * s.columns + column)] = value;
        s.put(program.input.data() + first, row, column, value);
      }
  };
  fill(a, values_a, 0);
  fill(b, values_b, a.words());
  fill(c, values_c, a.words() + b.words());
  auto at = [](size_t words) { return words ? "%in+" + std::to_string(4 * words) : "%in"; };
  program.body = declarations(p) + access(p, 'a', a, at(0)) + access(p, 'b', b, at(a.words())) +
                 access(p, 'c', c, at(a.words() + b.words())) + multiply + " " +
                 register_names('d', registers(p, 'd')) + ", " +
                 register_names('a', registers(p, 'a')) + ", " +
                 register_names('b', registers(p, 'b')) + ", " +
                 register_names('c', registers(p, 'c')) + ";\n" + access(p, 'd', d, "%out");
  program.expected.resize(d.words());
  const size_t each = size_t(32 / p.d.bits), count = program.expected.size() * each;
  std::vector<double> want(count), scale(count);
  for (int row = 0; row < p.shape.m; ++row)
    for (int column = 0; column < p.shape.n; ++column) {
      double total = values_c[size_t(row * p.shape.n + column)], magnitudes = std::fabs(total);
      for (int k = 0; k < p.shape.k; ++k) {
        double product =
            values_a[size_t(row * p.shape.k + k)] * values_b[size_t(k * p.shape.n + column)];
        total += product;
        magnitudes += std::fabs(product);
      }
      if (!p.saturation.empty())
        total = std::clamp(total, -2147483648.0, 2147483647.0);
      want[d.index(row, column)] = total;
      scale[d.index(row, column)] = magnitudes;
      d.put(program.expected.data(), row, column, total);
    }
  if (p.d.format)
    program.accepts = [want, scale, each, format = p.d.format, bits = p.d.bits](size_t word,
                                                                                uint32_t got) {
      for (size_t e = 0; e < each; ++e) {
        uint32_t element = bits == 32 ? got : got >> (16 * e) & 0xffff;
        double error = std::fabs(double(decode(*format, element)) - want[word * each + e]);
        if (!(error <= scale[word * each + e] * (bits == 32 ? 0x1p-21 : 0x1p-9)))
          return false;
      }
      return true;
    };
  program.target.compute = p.compute;
}

} // namespace

void add_wmma_cases(OpcodeCases &cases) {
  const WmmaShape shapes[] = {{16, 16, 16}, {32, 8, 16}, {8, 32, 16}}, shallow{16, 16, 8};
  const std::string global = ".global";
  for (const WmmaShape &shape : shapes)
    for (bool by_column : {false, true}) {
      auto product = [&](const WmmaElement &in, const WmmaElement &c, const WmmaElement &d,
                         int compute) {
        add(cases, {shape, in, c, d, by_column, !by_column, by_column, !by_column, by_column,
                    compute, global, ""});
      };
      product(kF16Element, kF32Element, kF32Element, 75);
      product(kF16Element, kF16Element, kF16Element, 75);
      product(kF16Element, kF16Element, kF32Element, 75);
      product(kF16Element, kF32Element, kF16Element, 75);
      product(kBf16Element, kF32Element, kF32Element, 80);
      product(kS8Element, kS32Element, kS32Element, 75);
      product(kU8Element, kS32Element, kS32Element, 75);
      add(cases, {shape, kS8Element, kS32Element, kS32Element, by_column, by_column, false, false,
                  true, 75, global, ".satfinite"});
    }
  for (bool by_column : {false, true})
    add(cases, {shallow, kTf32Element, kF32Element, kF32Element, by_column, by_column, false,
                by_column, by_column, 80, global, ""});
  add(cases, {shapes[0], kF16Element, kF32Element, kF32Element, false, false, false, false, true,
              75, "", ""});
}

} // namespace cugrt::conformance
