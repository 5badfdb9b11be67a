// Kernels over block formats: elements of rows bit for bit, and products, against a file of blocks
// that GGUF's own package has taken apart (tests/data/make_block_formats.py); and which block of a
// product has what.
#include "base/type/dtype.h"
#include "support/api_fixture.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

using namespace cugrt;
using namespace cugrt::test;

namespace {

std::string bytes_of(const std::string &digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

struct Format {
  std::string name;
  ir::DType dtype;
  std::string blocks;          // three
  std::vector<float> elements; // of all of them
};

std::vector<Format> formats() {
  std::ifstream file(TEST_DATA_FOLDER "/block_formats.json");
  std::vector<Format> all;
  const nlohmann::json read = nlohmann::json::parse(file);
  for (const auto &[name, format] : read.items()) {
    Format made{name, *ir::dtype_from_name(name), bytes_of(format["blocks"]), {}};
    const std::string elements = bytes_of(format["elements"]);
    made.elements.resize(elements.size() / sizeof(float));
    std::memcpy(made.elements.data(), elements.data(), elements.size());
    all.push_back(std::move(made));
  }
  return all;
}

std::string dims(int64_t rows, int64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

} // namespace

TEST_CASE("elements of every block format are those of its definition, bit for bit") {
  struct Shape {
    int64_t rows, blocks;
  };
  const std::vector<Format> all = formats();
  CHECK(all.size() == 11);
  for (const Format &format : all)
    for (const Shape &shape : {Shape{3, 1}, Shape{1, 3}, Shape{5, 9}})
      for (const bool is_tied : {false, true}) { // with a product beside, it is repacked for both
        if (is_tied && shape.rows != 5)
          continue;
        INFO(format.name << ", " << shape.rows << " rows" << (is_tied ? ", tied" : ""));
        const auto block_bytes = format.blocks.size() / 3, each = format.elements.size() / 3;
        const int64_t rows = shape.rows, width = shape.blocks * int64_t(each), count = 4;
        std::string blocks;
        std::vector<float> elements;
        for (size_t i = 0; i < size_t(rows * shape.blocks); ++i) {
          blocks += format.blocks.substr(i % 3 * block_bytes, block_bytes);
          elements.insert(elements.end(), &format.elements[i % 3 * each],
                          &format.elements[i % 3 * each] + each);
        }
        const std::string text =
            "cugrt 1\nfunc @main(%ids: tensor<[4], i64>, %x: tensor<" + dims(1, width) +
            ", f32>, %table: tensor<" + dims(rows, width) + ", " + format.name + ">) -> (tensor<" +
            dims(count, width) + ", f32>" +
            (is_tied ? ", tensor<" + dims(1, rows) + ", f32>" : "") +
            ") attributes {num_inputs = 2} {\n  %y = embedding_blocks(%table, %ids)\n" +
            (is_tied ? "  %z = matmul_blocks(%x, %table)\n  return %y, %z\n}\n"
                     : "  return %y\n}\n");
        Weights weights;
        weights.add("table", blocks.data(), static_cast<cugrt_dtype>(format.dtype),
                    std::vector<int64_t>{rows, width});
        Executable executable(emulated_runtime(), Module::parse(text));
        Session session(executable, emulated_runtime(), weights);
        CHECK(session.counters().weight_bytes <= blocks.size() + 512); // once
        const std::vector<int64_t> ids = {2, 0, -1, 99};               // the nearest row
        const Buffer input = upload(ids), x = upload(numbers(size_t(width), 3));
        const auto results =
            session.run(executable.function("main"),
                        {input.tensor(CUGRT_I64, {count}), x.tensor(CUGRT_F32, {1, width})});
        session.synchronize();
        const auto got = download<float>(results[0].as.tensor.address, size_t(count * width));
        size_t differ = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const auto row = std::clamp<int64_t>(ids[i / size_t(width)], 0, rows - 1);
          const float wanted = elements[size_t(row * width) + i % size_t(width)];
          differ += std::memcmp(&got[i], &wanted, sizeof wanted) != 0;
        }
        CHECK(differ == 0);
      }
}

TEST_CASE("products with matrices of every block format are sums of its elements") {
  for (const Format &format : formats())
    for (const cugrt_dtype dtype : {CUGRT_F32, CUGRT_F64})
      for (const int64_t n : {3, 1}) { // rows of one block, and one row of three
        INFO(format.name << ", " << n << " columns");
        const int64_t k = int64_t(format.elements.size()) / n, rows = 5;
        const std::string type = dtype == CUGRT_F64 ? "f64" : "f32";
        const std::string text =
            "cugrt 1\nfunc @main(%x: tensor<" + dims(rows, k) + ", " + type + ">, %b: tensor<[" +
            std::to_string(n) + "], " + type + ">, %w: tensor<" + dims(n, k) + ", " + format.name +
            ">) -> (tensor<" + dims(rows, n) + ", " + type +
            ">) attributes {num_inputs = 2} {\n  %y = matmul_blocks(%x, %w, %b)\n  return %y\n}\n";
        Weights weights;
        weights.add("w", format.blocks.data(), static_cast<cugrt_dtype>(format.dtype),
                    std::vector<int64_t>{n, k});
        Executable executable(emulated_runtime(), Module::parse(text));
        Session session(executable, emulated_runtime(), weights);
        const std::vector<float> x = numbers(size_t(rows * k), 3), b = numbers(size_t(n), 4);
        const std::vector<double> x_wide(x.begin(), x.end()), b_wide(b.begin(), b.end());
        const Buffer x_buffer = dtype == CUGRT_F64 ? upload(x_wide) : upload(x),
                     b_buffer = dtype == CUGRT_F64 ? upload(b_wide) : upload(b);
        const auto results =
            session.run(executable.function("main"),
                        {x_buffer.tensor(dtype, {rows, k}), b_buffer.tensor(dtype, {n})});
        session.synchronize();
        const uint64_t address = results[0].as.tensor.address;
        std::vector<double> got;
        if (dtype == CUGRT_F64) {
          got = download<double>(address, size_t(rows * n));
        } else {
          const auto narrow = download<float>(address, size_t(rows * n));
          got.assign(narrow.begin(), narrow.end());
        }
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < n; ++c) {
            double sum = b[size_t(c)], largest = 1;
            for (int64_t i = 0; i < k; ++i) {
              const double term = double(x[size_t(r * k + i)]) * format.elements[size_t(c * k + i)];
              sum += term;
              largest += std::fabs(term);
            }
            const double unit = dtype == CUGRT_F64 ? 0x1p-50 : 0x1p-22;
            CHECK(std::fabs(got[size_t(r * n + c)] - sum) <= unit * largest * 8);
          }
      }
}

// TilePlace of kernels/shared/join_splits.cuh, without parts: the strip and the tile that each
// block has.
TEST_CASE("blocks of a product that follow one another share their weights, 128 rows at a time") {
  constexpr int64_t kTogether = 16; // strips of 8 rows
  const std::string text = R"(cugrt 1
kernel @numbered {
  inline """
#include "builtin:join_splits.cuh"
extern "C" __global__ void numbered(unsigned *to, long long rows, long long across) {
  TilePlace<8, 16, 128> own;
  own.set(blockIdx.x, 1, rows, across * 16 - 15);
  to[2 * blockIdx.x] = unsigned(own.row / 8);
  to[2 * blockIdx.x + 1] = unsigned(own.column / 16);
}
"""
  entry "numbered"
  params (to: out i32, rows: symbol i64, across: symbol i64)
  launch { grid (ceildiv(rows, 8) * across, 1, 1) block (1, 1, 1) }
}
func @main(%to: out tensor<[strips, across, 2], i32>) {
  launch @numbered(%to, 8 * strips - 3, across)
  return
}
)";
  Executable executable(emulated_runtime(), Module::parse(text));
  Session session(executable, emulated_runtime());
  for (const int64_t strips : {1, 2, 16, 17, 38})
    for (const int64_t across : {1, 3, 20}) {
      INFO(strips << " strips, " << across << " tiles");
      const auto count = size_t(2 * strips * across);
      const Buffer to = upload(std::vector<int32_t>(count, -1));
      session.run(executable.function("main"), {to.tensor(CUGRT_I32, {strips, across, 2})});
      session.synchronize();
      std::vector<int32_t> wanted;
      for (int64_t first = 0; first < strips; first += kTogether)
        for (int64_t tile = 0; tile < across; ++tile)
          for (int64_t strip = first; strip < std::min(first + kTogether, strips); ++strip) {
            wanted.push_back(int32_t(strip));
            wanted.push_back(int32_t(tile));
          }
      CHECK(download<int32_t>(to.address(), count) == wanted);
    }
}
