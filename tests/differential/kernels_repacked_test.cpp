// Products with repacked blocks.
#include "kernels_check.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"

#include <cmath>

namespace {

/// Bytes of [n, k] in a block format: quants of any bits, scales of about 1 / 16.
Array blocks_of(DType format, int64_t n, int64_t k) {
  Array w{{n, k}, {}};
  const ir::DTypeInfo &info = ir::info(format);
  // Where halves are: d, and the least or m.
  const std::vector<int64_t> halves = format == DType::q2_k   ? std::vector<int64_t>{80, 82}
                                      : format == DType::q3_k ? std::vector<int64_t>{108}
                                      : format == DType::q6_k ? std::vector<int64_t>{208}
                                      : format == DType::q4_1 || format == DType::q5_1 ||
                                              format == DType::q4_k || format == DType::q5_k
                                          ? std::vector<int64_t>{0, 2}
                                          : std::vector<int64_t>{0};
  std::mt19937 random(uint32_t(n * 131 + k));
  for (int64_t block = 0; block < n * k / info.elements_per_block; ++block) {
    const size_t begin = w.values.size();
    for (int64_t i = 0; i < info.bytes_per_block; ++i)
      w.values.push_back(double(random() % 256));
    for (size_t h = 0; h < halves.size(); ++h) // the exponents; scales of scales are smaller
      w.values[begin + size_t(halves[h]) + 1] =
          (info.elements_per_block == 32 ? 0x2c : 0x1c) + (h ? 0x80 : 0);
  }
  return w;
}

struct RepackedCase {
  DType dtype, format;
  int64_t rows, n, k;
  bool bias;
  bool symbolic = false; // the number of rows
  int64_t multiprocessors = 64;
  int64_t behind = 0; // elements of x's tensor: then it may begin anywhere
};

/// Which entry shall compute it. Blocks stay for up to 8 rows of whole groups of 16 columns; of the
/// formats that have high bits apart, of whole units. Of f32 four rows have a form of their own;
/// where rows go on beyond eight, it alone, and of others that of eight.
std::string entry_of(const RepackedCase &c) {
  const bool has_high_bits = c.format == DType::q5_0 || c.format == DType::q5_1;
  const int64_t unit = has_high_bits ? 128 : ir::info(c.format).elements_per_block;
  const bool streams = c.n % 16 == 0 && c.k % unit == 0;
  if (c.rows > 8 || (streams && c.dtype == DType::f32 && c.symbolic && c.rows > 4))
    return c.rows > 64 ? "matmul_repacked_tiles" : "matmul_repacked_tiles_32";
  return !streams                               ? "matmul_repacked"
         : c.rows == 1 && !c.symbolic           ? "matmul_stream_1"
         : c.dtype == DType::f32 && c.rows <= 4 ? "matmul_stream_4"
                                                : "matmul_stream";
}

/// The product.
Array check_repacked(const RepackedCase &c) {
  const std::string rows = c.symbolic ? "r" : std::to_string(c.rows);
  const std::string x_type = "tensor<[" + rows + ", " + std::to_string(c.k) + "], ";
  const std::string dtype(ir::info(c.dtype).name), format(ir::info(c.format).name);
  const std::string n = std::to_string(c.n), k = std::to_string(c.k);
  const std::string w_type = "tensor<[" + n + ", " + k + "], " + format + ">";
  const std::string all = std::to_string(c.behind + c.rows * c.k),
                    param = (c.behind == 0 ? "%x: " + x_type : "%all: tensor<[" + all + "], ") +
                            dtype + "> align 16",
                    part = c.behind == 0
                               ? ""
                               : "  %part = slice(%all) {starts = [" + std::to_string(c.behind) +
                                     "], ends = [" + all + "]}\n  %x = reshape(%part) {shape = [" +
                                     rows + ", " + k + "]}\n";
  const std::string text = "cugrt 1\nfunc @main(" + param + ", %w: " + w_type + ", %b: tensor<[" +
                           n + "], " + dtype + ">) -> (tensor<[" + rows + ", " + n + "], " + dtype +
                           ">, " + w_type + ") {\n  %p = repack_blocks(%w)\n" + part +
                           "  %y = matmul_blocks(%x, %p" + (c.bias ? ", %b" : "") +
                           ") {repacked = true}\n  return %y, %p\n}\n";
  INFO(text);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> number(-2, 2);
  Array x{{c.rows, c.k}, {}}, b{{c.n}, {}};
  for (int64_t i = 0; i < c.n; ++i) // the same whatever the rows
    b.values.push_back(round_to(c.dtype, number(random)));
  for (int64_t i = 0; i < c.rows * c.k; ++i)
    x.values.push_back(round_to(c.dtype, number(random)));
  const Array w = blocks_of(c.format, c.n, c.k);
  const Result<ir::Module> module = ir::parse_and_verify(text, "op");
  INFO((module.ok() ? "" : module.status().to_string()));
  REQUIRE(module.ok());
  passes::PassContext context;
  REQUIRE(context.set("target.multiprocessors", std::to_string(c.multiprocessors)).ok());
  const Result<ir::Module> legal = passes::find_pass("LegalizeOps")->run(*module, context);
  REQUIRE(legal.ok());
  const bool tells =
      std::any_of(legal->kernels.begin(), legal->kernels.end(), [](const ir::Kernel &kernel) {
        return std::find(kernel.options.begin(), kernel.options.end(), "-DX_ALIGNED") !=
               kernel.options.end();
      });
  CHECK(tells == (c.behind * ir::info(c.dtype).bytes_per_block % 16 == 0));
  Array whole = x;
  if (c.behind > 0) {
    whole.dims = {c.behind + c.rows * c.k};
    whole.values.insert(whole.values.begin(), size_t(c.behind), 1.0);
  }
  const std::vector<Array> inputs = {whole, w, b};
  const Result<std::vector<Array>> got = runner().run(*legal, legal->functions[0], inputs);
  INFO((got.ok() ? "" : got.status().to_string()));
  REQUIRE(got.ok());
  std::vector<std::string> entries = {"repack_blocks"};
  if (c.rows > 0)
    entries.push_back(entry_of(c));
  CHECK(runner().counters().entries == entries);
  const std::vector<const Array *> only = {&w};
  const Array layout = evaluate_op(Op::repack_blocks, only, {}, c.format)[0];
  REQUIRE(got->at(1).values.size() == layout.values.size());
  size_t differ = 0;
  for (size_t i = 0; i < layout.values.size(); ++i)
    differ += got->at(1).values[i] != layout.values[i];
  CHECK(differ == 0);
  // The result's rounding, and that of sums in f32: their terms are quants of at most 8 bits, on
  // tensor cores with what is added to them, by x and the scales.
  const bool is_f32 = c.dtype == DType::f32;
  const double unit = is_f32 ? 0x1p-24 : c.dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  const double added = is_f32 ? 0 : 1, rounding = is_f32 ? 0x1p-21 : 0x1p-18;
  double most = 0;
  std::vector<double> elements;
  for (int64_t i = 0; i < c.n * c.k; ++i)
    elements.push_back(block_element(c.format, w.values, i));
  for (int64_t row = 0; row < c.rows; ++row)
    for (int64_t column = 0; column < c.n; ++column) {
      double sum = c.bias ? b.values[size_t(column)] : 0, size = std::fabs(sum);
      for (int64_t j = 0; j < c.k; ++j) {
        const double term = x.values[size_t(row * c.k + j)] * elements[size_t(column * c.k + j)];
        sum += term, size += std::fabs(term) + added;
      }
      const double off = std::fabs(got->at(0).values[size_t(row * c.n + column)] - sum);
      most = std::max(most, off / (unit * std::fabs(sum) + size * rounding));
    }
  INFO("off by " << most);
  CHECK(most <= 1);
  return got->at(0);
}

} // namespace

TEST_CASE("products with repacked blocks agree with the formats' definitions") {
  for (DType format :
       {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::iq4_nl})
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      check_repacked({dtype, format, 1, 33, 1152, true}); // nine units
      check_repacked({dtype, format, 11, 40, 160, true});
      if (dtype == DType::bf16 && format != DType::q4_0)
        continue; // as f16, but for how quants become numbers
      check_repacked({dtype, format, 1, 16, 512, false}); // a unit for each warp
      check_repacked({dtype, format, 3, 5, 96, true});    // less than one
      check_repacked({dtype, format, 8, 17, 576, false}); // four and a half
      check_repacked({dtype, format, 2, 3, 416, false});  // an odd number of blocks
      check_repacked({dtype, format, 0, 8, 32, false});
    }
}

TEST_CASE("products with repacked blocks of 256 elements agree with the formats' definitions") {
  for (DType format : {DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k})
    for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      check_repacked({dtype, format, 3, 33, 2304, true}); // nine units, of an odd number of rows
      check_repacked({dtype, format, 11, 18, 768, false});
      if (dtype == DType::bf16 && format != DType::q4_k)
        continue; // as f16, but for how quants become numbers
      check_repacked({dtype, format, 1, 16, 2048, false}); // a unit for each warp
      check_repacked({dtype, format, 8, 6, 256, true});
      check_repacked({dtype, format, 0, 8, 256, false});
    }
}

TEST_CASE("rows of x may begin anywhere") {
  const auto check = [](DType dtype, DType format, int64_t rows, int64_t k, int64_t behind) {
    check_repacked({dtype, format, rows, 48, k, true, false, 1, behind});
  };
  for (int64_t rows : {1, 8, 9})
    check(DType::f16, DType::q4_k, rows, 2304, 1);
  for (int64_t rows : {1, 4})
    check(DType::f32, DType::q4_k, rows, 2304, 3);
  check(DType::f32, DType::q4_1, 9, 576, 1);
  check(DType::f32, DType::q6_k, 66, 256, 2);
  check(DType::bf16, DType::q5_1, 33, 256, 5);
  check(DType::f16, DType::q8_0, 2, 512, 8); // and so at 16 bytes
}

constexpr DType kFormats[] = {DType::q4_0, DType::q4_1,   DType::q5_0, DType::q5_1,
                              DType::q8_0, DType::iq4_nl, DType::q2_k, DType::q3_k,
                              DType::q4_k, DType::q5_k,   DType::q6_k};

TEST_CASE("tiles of products with repacked blocks agree with the formats' definitions") {
  for (DType format : kFormats)
    for (DType dtype : {DType::f16, DType::bf16}) {
      const int64_t unit = ir::info(format).elements_per_block == 32 ? 128 : 256;
      if (dtype == DType::f16)
        check_repacked({dtype, format, 9, 34, unit, true});
      for (int64_t rows : {33, 65}) // by one kernel
        check_repacked({dtype, format, rows, 130, 3 * unit, dtype == DType::bf16, true, 1});
    }
}

TEST_CASE("tiles that do not fill the device are cut along k") {
  // Of one unit; of up to eight parts, of one unit and more; of 257 rows
  // three tiles of 128 rows for two multiprocessors, of which one is cut.
  for (const auto &[dtype, format] : {std::pair{DType::f16, DType::q4_1},
                                      {DType::bf16, DType::q4_k},
                                      {DType::bf16, DType::q5_k}, // of 64 columns
                                      {DType::f32, DType::q4_k},
                                      {DType::f16, DType::q6_k}}) {
    const int64_t unit = ir::info(format).elements_per_block == 32 ? 128 : 256;
    for (int64_t units : {1, 8, 12, 16})
      check_repacked({dtype, format, 12 + units, 32, units * unit, units == 8, units == 12});
    check_repacked({dtype, format, 70, 32, 24 * unit, false});
    check_repacked({dtype, format, 257, 18, 16 * unit, true, false, 2});
    check_repacked({dtype, format, 40, 250, 6 * unit, true, true, 1}); // four tiles, three places
  }
}

TEST_CASE("half a unit may be behind the whole ones of a tile") {
  for (DType format :
       {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::iq4_nl})
    for (DType dtype : {DType::f16, DType::bf16}) {
      check_repacked({dtype, format, 9, 34, 64, true});                           // nothing else
      check_repacked({dtype, format, 66, 131, 576, true, true, 1});               // behind four
      check_repacked({dtype, format, 30, 33, 832, false, format == DType::q4_1}); // cut in three
    }
}

TEST_CASE("tiles have as many rows as there are") {
  for (const auto &[dtype, format] :
       {std::pair{DType::f16, DType::q4_0}, {DType::f16, DType::q4_k}, {DType::f32, DType::q4_k}})
    for (int64_t rows : {63, 64, 128, 301, 512, 513})
      check_repacked({dtype, format, rows, 40, 256, false, rows == 301, 1});
  check_repacked({DType::bf16, DType::q5_k, 140, 150, 512, true, true, 2}); // three of 64 columns
  check_repacked(
      {DType::f16, DType::q8_0, 1100, 130, 128, true, false, 1}); // more than go together
}

TEST_CASE("tiles in registers agree with the formats' definitions") {
  for (DType format : kFormats) {
    const bool is_small = ir::info(format).elements_per_block == 32;
    const int64_t unit = is_small ? 128 : 256;
    check_repacked({DType::f32, format, 65, 70, 2 * unit, true, true, 1});
    if (is_small)
      check_repacked(
          {DType::f32, format, 31, 65, 480, false, true, 1}); // three blocks behind three
  }
  check_repacked({DType::f32, DType::q8_0, 70, 33, 32, true});                  // less than a unit
  check_repacked({DType::f32, DType::q6_k, 129, 16, 3 * 256, false, false, 4}); // cut in three
}

TEST_CASE("tiles in registers compute what tensor cores have none of") {
  for (DType format : kFormats)
    if (ir::info(format).elements_per_block == 32) // part of a unit
      check_repacked({format == DType::q4_1 || format == DType::q8_0 ? DType::bf16 : DType::f16,
                      format, 130, 40, 160, true, true, 1});
  check_repacked({DType::f16, DType::q4_0, 8, 34, 128, true, false, 1}); // strips
  check_repacked({DType::f16, DType::q6_k, 9, 33, 256, true, false, 1}); // half a word at the end
  for (DType dtype : {DType::f16, DType::bf16})
    check_repacked({dtype, DType::q3_k, 9, 33, 256, true, false, 1});
}

TEST_CASE("products of few rows go on behind whole units") {
  const auto check = [](DType dtype, DType format, int64_t k) {
    const Array many = check_repacked({dtype, format, 8, 48, k, true});
    for (int64_t rows : {1, 4, 7}) {
      const Array few = check_repacked({dtype, format, rows, 48, k, true, false, 1});
      REQUIRE(few.values.size() == size_t(rows * 48));
      CHECK(std::equal(few.values.begin(), few.values.end(), many.values.begin()));
    }
  };
  for (DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (int64_t k : {96, 608, 1120}) // none; behind four and eight units three blocks
      check(dtype, DType::q4_0, k);
  for (DType format : {DType::q4_1, DType::q8_0, DType::iq4_nl, DType::q5_1})
    check(DType::f16, format, 608);
  check(DType::f32, DType::q5_1, 608);
}

TEST_CASE("products of few rows have the bits of eight rows") {
  // Of one multiprocessor two blocks, of two and three tiles, whose warps have one or two units.
  const int64_t n = 80;
  for (DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (DType format : kFormats) {
      const int64_t k = ir::info(format).elements_per_block == 32 ? 1280 : 2560;
      // A symbol's kernel has all forms, and takes long to compile; more of f32 than four are
      // tiles.
      const bool symbolic = (format == DType::q5_1 && dtype != DType::f32) ||
                            (format == DType::q2_k && dtype == DType::f16);
      const Array many = check_repacked({dtype, format, 8, n, k, true});
      for (int64_t rows : {1, 3, 6}) {
        const Array few = check_repacked({dtype, format, rows, n, k, true, symbolic, 1});
        REQUIRE(few.values.size() == size_t(rows * n));
        CHECK(std::equal(few.values.begin(), few.values.end(), many.values.begin()));
      }
    }
}
