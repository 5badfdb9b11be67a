// The WMMA API of mma.h.
#include "support/emulated_cuda.h"

#include <cstdlib>
#include <filesystem>

using namespace cugrt::test;

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
  EmulatedCuda device;
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
