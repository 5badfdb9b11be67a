// Kernels of CUDA C++, compiled by NVRTC and executed as they are, against double-precision C++.
#include "support/emulated_cuda.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <unistd.h>

using namespace cugrt::test;

namespace {

const char *const kTargets[] = {"compute_75", "compute_80", "compute_90", "compute_100",
                                "compute_120"};

std::string profile_for(const std::string &target) {
  return "sm" + target.substr(target.find('_'));
}

/// A device of the target's architecture with a program compiled for it.
struct OnTarget : EmulatedCuda {
  OnTarget(const char *target, std::string_view source,
           const std::vector<std::string> &options = {})
      : EmulatedCuda(profile_for(target)) {
    load_cuda(source, target, options);
  }
};

void check_close(const std::vector<float> &got, const std::vector<double> &want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double error = std::abs(got[i] - want[i]) / std::max(1.0, std::abs(want[i]));
    if (!(error <= worst)) {
      worst = error;
      at = i;
    }
  }
  INFO("element " << at << " is " << got[at] << " instead of " << want[at]);
  CHECK(worst <= tolerance);
}

} // namespace

TEST_CASE("vectors are added, with a tail that fills no warp") {
  for (const char *target : kTargets) {
    OnTarget device(
        target, R"(extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) c[i] = a[i] + b[i];
    })");
    int n = 1000;
    auto a = Random(1).floats(n), b = Random(2).floats(n);
    uint64_t pa = device.upload(a), pb = device.upload(b), pc = device.allocate(n * 4);
    device.launch("add", {8, 1, 1}, {128, 1, 1}, 0, pa, pb, pc, n);
    auto c = device.download<float>(pc, n);
    for (int i = 0; i < n; ++i)
      REQUIRE(c[i] == a[i] + b[i]);
  }
}

TEST_CASE("a block reduces with shuffles and shared memory") {
  for (const char *target : kTargets) {
    OnTarget device(target, R"(extern "C" __global__ void sum(const float *x, float *out, int n) {
      __shared__ float parts[32];
      float s = 0;
      for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[blockIdx.x * n + i];
      for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
      __syncthreads();
      if (threadIdx.x < 32) {
        s = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.f;
        for (int o = 16; o; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
        if (threadIdx.x == 0) out[blockIdx.x] = s;
      }
    })");
    int n = 3001, rows = 5;
    auto x = Random(3).floats(size_t(n * rows));
    uint64_t px = device.upload(x), out = device.allocate(size_t(rows) * 4);
    device.launch("sum", {5, 1, 1}, {256, 1, 1}, 0, px, out, n);
    std::vector<double> want(static_cast<size_t>(rows));
    for (int i = 0; i < n * rows; ++i)
      want[size_t(i / n)] += x[size_t(i)];
    check_close(device.download<float>(out, size_t(rows)), want, 1e-4);
  }
}

TEST_CASE("softmax and layer norm over rows agree with double precision") {
  const char *source = R"(
    __device__ float reduce(float v, bool largest, float *parts) {
      for (int o = 16; o; o >>= 1) {
        float w = __shfl_xor_sync(~0u, v, o);
        v = largest ? fmaxf(v, w) : v + w;
      }
      __syncthreads();
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
      __syncthreads();
      v = parts[0];
      for (int i = 1; i < blockDim.x / 32; ++i) v = largest ? fmaxf(v, parts[i]) : v + parts[i];
      return v;
    }
    extern "C" __global__ void softmax(const float *x, float *y, int n) {
      __shared__ float parts[32];
      x += blockIdx.x * n, y += blockIdx.x * n;
      float m = -INFINITY;
      for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, x[i]);
      m = reduce(m, true, parts);
      float s = 0;
      for (int i = threadIdx.x; i < n; i += blockDim.x) s += expf(x[i] - m);
      s = reduce(s, false, parts);
      for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - m) / s;
    }
    extern "C" __global__ void layer_norm(const float *x, const float *g, const float *b, float *y, int n) {
      __shared__ float parts[32];
      x += blockIdx.x * n, y += blockIdx.x * n;
      float s = 0, q = 0;
      for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[i];
      s = reduce(s, false, parts) / n;
      for (int i = threadIdx.x; i < n; i += blockDim.x) q += (x[i] - s) * (x[i] - s);
      q = rsqrtf(reduce(q, false, parts) / n + 1e-5f);
      for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = (x[i] - s) * q * g[i] + b[i];
    })";
  for (const char *target : kTargets) {
    for (bool fast : {false, true}) {
      EmulatedCuda device(profile_for(target));
      std::vector<std::string> options{"-DINFINITY=__int_as_float(0x7f800000)"};
      if (fast)
        options.push_back("--use_fast_math");
      device.load_cuda(source, target, options);
      int n = 777, rows = 6;
      auto x = Random(4).floats(size_t(n * rows), -5, 5), g = Random(5).floats(size_t(n)),
           b = Random(6).floats(size_t(n));
      uint64_t px = device.upload(x), pg = device.upload(g), pb = device.upload(b);
      uint64_t py = device.allocate(x.size() * 4), pz = device.allocate(x.size() * 4);
      device.launch("softmax", {6, 1, 1}, {128, 1, 1}, 0, px, py, n);
      device.launch("layer_norm", {6, 1, 1}, {96, 1, 1}, 0, px, pg, pb, pz, n);
      std::vector<double> soft(x.size()), norm(x.size());
      for (int r = 0; r < rows; ++r) {
        const float *row = x.data() + r * n;
        double sum = 0, mean = 0, square = 0;
        for (int i = 0; i < n; ++i)
          sum += std::exp(double(row[i])), mean += row[i] / double(n);
        for (int i = 0; i < n; ++i)
          square += (row[i] - mean) * (row[i] - mean) / n;
        for (int i = 0; i < n; ++i) {
          soft[size_t(r * n + i)] = std::exp(double(row[i])) / sum;
          norm[size_t(r * n + i)] =
              (row[i] - mean) / std::sqrt(square + 1e-5) * g[size_t(i)] + b[size_t(i)];
        }
      }
      check_close(device.download<float>(py, x.size()), soft, 1e-6);
      check_close(device.download<float>(pz, x.size()), norm, 1e-5);
    }
  }
}

TEST_CASE("matrices are multiplied through tiles in shared memory") {
  for (const char *target : kTargets) {
    OnTarget device(
        target,
        R"(extern "C" __global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k) {
      __shared__ float ta[16][16], tb[16][17];
      extern __shared__ float bias[];
      int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
      bias[threadIdx.y * 16 + threadIdx.x] = 0.5f;
      float sum = 0;
      for (int t = 0; t < k; t += 16) {
        ta[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0.f;
        tb[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
        __syncthreads();
      }
      if (row < m && col < n) c[row * n + col] = sum + bias[threadIdx.x * 16 + threadIdx.y];
    })");
    int m = 45, n = 37, k = 51;
    auto a = Random(7).floats(size_t(m * k)), b = Random(8).floats(size_t(k * n));
    uint64_t pa = device.upload(a), pb = device.upload(b), pc = device.allocate(size_t(m * n) * 4);
    device.launch("matmul", {3, 3, 1}, {16, 16, 1}, 1024, pa, pb, pc, m, n, k);
    std::vector<double> want(size_t(m * n), 0.5);
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j)
        for (int l = 0; l < k; ++l)
          want[size_t(i * n + j)] += double(a[size_t(i * k + l)]) * b[size_t(l * n + j)];
    check_close(device.download<float>(pc, want.size()), want, 1e-5);
  }
}

TEST_CASE("a direct convolution handles its borders") {
  for (const char *target : kTargets) {
    OnTarget device(target, R"(struct Shape { int channels, height, width, filters; };
    extern "C" __global__ void conv(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, Shape s) {
      int i = blockIdx.x * blockDim.x + threadIdx.x, f = blockIdx.y;
      if (i >= s.height * s.width) return;
      int r = i / s.width, c = i % s.width;
      float sum = 0;
      for (int k = 0; k < s.channels; ++k)
        for (int dr = -1; dr <= 1; ++dr)
          for (int dc = -1; dc <= 1; ++dc) {
            int rr = r + dr, cc = c + dc;
            if (rr < 0 || rr >= s.height || cc < 0 || cc >= s.width) continue;
            sum += x[(k * s.height + rr) * s.width + cc] * w[((f * s.channels + k) * 3 + dr + 1) * 3 + dc + 1];
          }
      y[f * s.height * s.width + i] = fmaxf(sum, 0.f);
    })");
    struct {
      int channels = 3, height = 9, width = 11, filters = 4;
    } s;
    auto x = Random(9).floats(3 * 9 * 11), w = Random(10).floats(4 * 3 * 9);
    uint64_t px = device.upload(x), pw = device.upload(w), py = device.allocate(4 * 99 * 4);
    device.launch("conv", {2, 4, 1}, {64, 1, 1}, 0, px, pw, py, s);
    std::vector<double> want(4 * 99);
    for (int f = 0; f < 4; ++f)
      for (int r = 0; r < 9; ++r)
        for (int c = 0; c < 11; ++c) {
          double sum = 0;
          for (int k = 0; k < 3; ++k)
            for (int dr = 0; dr < 3; ++dr)
              for (int dc = 0; dc < 3; ++dc) {
                int rr = r + dr - 1, cc = c + dc - 1;
                if (rr >= 0 && rr < 9 && cc >= 0 && cc < 11)
                  sum += double(x[size_t((k * 9 + rr) * 11 + cc)]) *
                         w[size_t(((f * 3 + k) * 3 + dr) * 3 + dc)];
              }
          want[size_t(f * 99 + r * 11 + c)] = std::max(sum, 0.0);
        }
    check_close(device.download<float>(py, want.size()), want, 1e-5);
  }
}

TEST_CASE("atomics of many blocks lose nothing") {
  for (const char *target : kTargets) {
    OnTarget device(
        target,
        R"(extern "C" __global__ void count(unsigned *bins, float *sum, unsigned long long *top, int *low, unsigned *ticket) {
      __shared__ unsigned local[8];
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (threadIdx.x < 8) local[threadIdx.x] = 0;
      __syncthreads();
      atomicAdd(&local[i % 7], 1u);
      __syncthreads();
      if (threadIdx.x < 8) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
      atomicAdd(sum, 0.5f);
      atomicMax(top, (unsigned long long)i * 3);
      atomicMin(low, 100 - i);
      unsigned old = atomicInc(ticket, 0xffffffff), seen;
      atomicOr(&bins[8], 1u << (old & 31));
      do { seen = *(volatile unsigned *)&bins[9]; } while (atomicCAS(&bins[9], seen, seen + 2) != seen);
    })");
    uint64_t bins = device.upload(std::vector<uint32_t>(10)),
             sum = device.upload(std::vector<float>(1)),
             top = device.upload(std::vector<uint64_t>(1)),
             low = device.upload(std::vector<int>(1)),
             ticket = device.upload(std::vector<uint32_t>(1));
    device.launch("count", {9, 1, 1}, {100, 1, 1}, 0, bins, sum, top, low, ticket);
    auto b = device.download<uint32_t>(bins, 10);
    for (uint32_t i = 0; i < 7; ++i)
      CHECK(b[i] == 900 / 7 + (i < 900 % 7));
    CHECK(b[8] == ~0u);
    CHECK(b[9] == 1800);
    CHECK(device.download<float>(sum, 1)[0] == 450);
    CHECK(device.download<uint64_t>(top, 1)[0] == 899 * 3);
    CHECK(device.download<int>(low, 1)[0] == 100 - 899);
    CHECK(device.download<uint32_t>(ticket, 1)[0] == 900);
  }
}

TEST_CASE("divergent loops, nested branches, switches and early returns reconverge") {
  for (const char *target : kTargets) {
    OnTarget device(target, R"(extern "C" __global__ void paths(int *out, int n) {
      __shared__ int seen;
      int i = threadIdx.x;
      if (i == 0) seen = 0;
      __syncthreads();
      if (i >= n) return;
      int steps = 0, x = i + 1;
      while (x != 1) { x = x % 2 ? 3 * x + 1 : x / 2; ++steps; }
      int kind;
      switch (i % 9) {
      case 0: kind = steps * 2; break;
      case 1: kind = steps + 7; break;
      case 2: kind = -steps; break;
      case 3: for (kind = 0; kind * kind < i; ++kind); break;
      case 4: kind = steps ^ i; break;
      case 5: kind = i << 3; break;
      case 6: kind = i % 5 ? (i % 3 ? 1 : 2) : 3; break;
      default: kind = steps * i;
      }
      __syncthreads();
      atomicAdd(&seen, 1);
      __syncthreads();
      unsigned odd = __ballot_sync(__activemask(), i & 1);
      out[i] = kind + seen * 1000 + (odd & 1);
    })");
    int n = 75;
    uint64_t out = device.upload(std::vector<int>(96));
    device.launch("paths", {1, 1, 1}, {96, 1, 1}, 0, out, n);
    auto got = device.download<int>(out, 96);
    for (int i = 0; i < n; ++i) {
      int steps = 0, kind = 0;
      for (int x = i + 1; x != 1; ++steps)
        x = x % 2 ? 3 * x + 1 : x / 2;
      switch (i % 9) {
      case 0:
        kind = steps * 2;
        break;
      case 1:
        kind = steps + 7;
        break;
      case 2:
        kind = -steps;
        break;
      case 3:
        for (kind = 0; kind * kind < i; ++kind)
          ;
        break;
      case 4:
        kind = steps ^ i;
        break;
      case 5:
        kind = i << 3;
        break;
      case 6:
        kind = i % 5 ? (i % 3 ? 1 : 2) : 3;
        break;
      default:
        kind = steps * i;
      }
      INFO("thread " << i << " for " << target);
      REQUIRE(got[size_t(i)] == kind + n * 1000);
    }
    CHECK(got[95] == 0);
  }
}

TEST_CASE("elementary functions are accurate, large arguments of sine included") {
  for (const char *target : kTargets) {
    OnTarget device(target,
                    R"(extern "C" __global__ void functions(const float *x, float *y, int n) {
      int i = threadIdx.x;
      float v = x[i];
      y[i] = expf(v);
      y[n + i] = sinf(v);
      y[2 * n + i] = powf(fabsf(v), 1.7f);
      y[3 * n + i] = sinf(v * 1e7f);
      y[4 * n + i] = tanhf(v);
      y[5 * n + i] = logf(fabsf(v));
      y[6 * n + i] = erff(v);
      y[7 * n + i] = sqrtf(fabsf(v)) / (v * v);
      y[8 * n + i] = log1pf(fabsf(v)) + cosf(v) + rsqrtf(fabsf(v)) + cbrtf(v);
    })");
    int n = 64;
    auto x = Random(11).floats(size_t(n), -9, 9);
    uint64_t px = device.upload(x), py = device.allocate(size_t(9 * n) * 4);
    device.launch("functions", {1, 1, 1}, {64, 1, 1}, 0, px, py, n);
    const std::function<double(float)> functions[] = {
        [](double v) { return std::exp(v); },
        [](double v) { return std::sin(v); },
        [](double v) { return std::pow(std::abs(v), double(1.7f)); },
        [](float v) { return std::sin(double(v * 1e7f)); },
        [](double v) { return std::tanh(v); },
        [](double v) { return std::log(std::abs(v)); },
        [](double v) { return std::erf(v); },
        [](double v) { return std::sqrt(std::abs(v)) / (v * v); },
        [](double v) {
          return std::log1p(std::abs(v)) + std::cos(v) + 1 / std::sqrt(std::abs(v)) + std::cbrt(v);
        }};
    std::vector<double> want;
    for (const auto &function : functions)
      for (float v : x)
        want.push_back(function(v));
    check_close(device.download<float>(py, want.size()), want, 1e-6);
  }
}

TEST_CASE("integer division by variables and constants follows C") {
  for (const char *target : kTargets) {
    OnTarget device(
        target,
        R"(extern "C" __global__ void divide(const int *a, const int *b, long long *y, int n) {
      int i = threadIdx.x;
      int p = a[i], q = b[i];
      long long w = (long long)p * 1000003, v = (long long)q * 77;
      y[i] = p / q; y[n + i] = p % q; y[2 * n + i] = p / 7; y[3 * n + i] = p % 10;
      y[4 * n + i] = (unsigned)p / (unsigned)q; y[5 * n + i] = (unsigned)p % 13u;
      y[6 * n + i] = w / v; y[7 * n + i] = w % v;
      y[8 * n + i] = __mulhi(p, q); y[9 * n + i] = (short)p / 3 + (signed char)q;
    })");
    int n = 64;
    Random random(12);
    std::vector<int> a, b;
    for (int i = 0; i < n; ++i) {
      a.push_back(int(random.bits()));
      int divisor = int(random.bits() >> (32 + i % 20));
      b.push_back(divisor ? divisor : 1);
    }
    uint64_t pa = device.upload(a), pb = device.upload(b), py = device.allocate(size_t(10 * n) * 8);
    device.launch("divide", {1, 1, 1}, {64, 1, 1}, 0, pa, pb, py, n);
    auto y = device.download<int64_t>(py, size_t(10 * n));
    for (int i = 0; i < n; ++i) {
      size_t k = size_t(i), s = size_t(n);
      int64_t p = a[k], q = b[k], w = p * 1000003, v = q * 77;
      CHECK(y[k] == p / q);
      CHECK(y[s + k] == p % q);
      CHECK(y[2 * s + k] == p / 7);
      CHECK(y[3 * s + k] == p % 10);
      CHECK(y[4 * s + k] == uint32_t(p) / uint32_t(q));
      CHECK(y[5 * s + k] == uint32_t(p) % 13u);
      CHECK(y[6 * s + k] == w / v);
      CHECK(y[7 * s + k] == w % v);
      CHECK(y[8 * s + k] == (p * q) >> 32);
      CHECK(y[9 * s + k] == int16_t(p) / 3 + int8_t(q));
    }
  }
}

TEST_CASE("constant tables, globals with addresses of others, and calls of functions") {
  for (const char *target : kTargets) {
    OnTarget device(target, R"(
      __constant__ float table[8] = {1, 2, 4, 8, 16, 32, 64, 128};
      __device__ int values[3] = {5, 6, 7};
      __device__ int *pointer = values + 1;
      __noinline__ __device__ float twice(float x, int depth) {
        volatile float scratch[4];
        scratch[depth & 3] = x;
        if (depth > 0) return twice(scratch[depth & 3], depth - 1) * 2;
        return scratch[0];
      }
      struct Pair { float a; double b; };
      __noinline__ __device__ Pair make(float x, Pair y) { return Pair{x + y.a, x * y.b}; }
      extern "C" __global__ void run(float *out) {
        int i = threadIdx.x;
        float v = table[i & 7] + pointer[i % 2];
        if (i & 1) v = twice(v, i % 5);
        Pair p = make(v, Pair{1.f, 2.0});
        out[i] = p.a + (float)p.b;
      })");
    uint64_t out = device.allocate(64 * 4);
    device.launch("run", {1, 1, 1}, {64, 1, 1}, 0, out);
    auto got = device.download<float>(out, 64);
    int values[] = {6, 7};
    for (int i = 0; i < 64; ++i) {
      float v = float(1 << (i & 7)) + float(values[i % 2]);
      if (i & 1)
        v *= float(1 << (i % 5));
      REQUIRE(got[size_t(i)] == v + 1 + 2 * v);
    }
    auto table = device.program().find_global("table");
    REQUIRE(table);
    CHECK(table->bytes == 32);
  }
}

TEST_CASE("half and bfloat16 kernels round as the formats do") {
  for (const char *target : kTargets) {
    OnTarget device(target, R"(
      #include <cuda_fp16.h>
      #include <cuda_bf16.h>
      extern "C" __global__ void halves(const float *x, const float *y, float *out, int n) {
        int i = threadIdx.x;
        __half a = __float2half(x[i]), b = __float2half(y[i]);
        __nv_bfloat16 c = __float2bfloat16(x[i]), d = __float2bfloat16(y[i]);
        out[i] = __half2float(a);
        out[n + i] = __half2float(__hadd(a, b));
        out[2 * n + i] = __half2float(__hmul(a, b));
        out[3 * n + i] = __half2float(__hfma(a, b, a));
        out[4 * n + i] = __bfloat162float(c);
        out[5 * n + i] = __bfloat162float(__hadd(c, d));
        out[6 * n + i] = __bfloat162float(__hmul(c, d));
        __half2 h = __hadd2(__halves2half2(a, b), __halves2half2(b, a));
        out[7 * n + i] = __low2float(h);
        out[8 * n + i] = __hgt(a, b) ? 1.f : 0.f;
        out[9 * n + i] = __half2float(__hmax(a, b)) + __half2float(hexp(a));
      })");
    int n = 32;
    auto x = Random(13).floats(size_t(n), -3, 3), y = Random(14).floats(size_t(n), -3, 3);
    uint64_t px = device.upload(x), py = device.upload(y),
             out = device.allocate(size_t(10 * n) * 4);
    device.launch("halves", {1, 1, 1}, {32, 1, 1}, 0, px, py, out, n);
    auto got = device.download<float>(out, size_t(10 * n));
    // Rounding of a double to so many mantissa bits, all values normal here.
    auto round_to = [](double v, int bits) {
      int e;
      double m = std::frexp(v, &e);
      return std::ldexp(std::nearbyint(std::ldexp(m, bits)), e - bits);
    };
    for (int i = 0; i < n; ++i) {
      size_t k = size_t(i), s = size_t(n);
      double a = round_to(x[k], 11), b = round_to(y[k], 11), c = round_to(x[k], 8),
             d = round_to(y[k], 8);
      CHECK(got[k] == a);
      CHECK(got[s + k] == round_to(a + b, 11));
      CHECK(got[2 * s + k] == round_to(a * b, 11));
      CHECK(got[3 * s + k] == round_to(a * b + a, 11));
      CHECK(got[4 * s + k] == c);
      CHECK(got[5 * s + k] == round_to(c + d, 8));
      CHECK(got[6 * s + k] == round_to(c * d, 8));
      CHECK(got[7 * s + k] == round_to(a + b, 11));
      CHECK(got[8 * s + k] == (a > b));
      CHECK(std::abs(got[9 * s + k] - (std::max(a, b) + std::exp(a))) < 2e-2 * (1 + std::exp(a)));
    }
  }
}

// The compiler's own division mixes chains: sub.cc whose carry addc reads.
TEST_CASE("128-bit integers are divided, multiplied and compared as the host does") {
  __extension__ using Wide = __int128;
  __extension__ using Unsigned = unsigned __int128;
  Random random(12);
  std::vector<Wide> a, b;
  for (int i = 0; i < 2048; ++i)
    for (auto *list : {&a, &b}) {
      const int shift = std::min(i % 13 * 9 + (list == &b ? i % 31 : 0), 126);
      list->push_back(Wide(Unsigned(random.bits()) << 64 | random.bits()) >> shift | 1);
    }
  for (const char *target : kTargets) {
    OnTarget device(target, R"(typedef __int128 S; typedef unsigned __int128 U;
    extern "C" __global__ void divide(const S *a, const S *b, S *out) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      S *o = out + 8 * i;
      o[0] = a[i] / b[i]; o[1] = a[i] % b[i];
      o[2] = U(a[i]) / U(b[i]); o[3] = U(a[i]) % U(b[i]);
      o[4] = a[i] * b[i]; o[5] = a[i] - b[i];
      o[6] = (a[i] < b[i]) + 2 * (U(a[i]) < U(b[i])); o[7] = a[i] + b[i];
    })",
                    {"--device-int128"});
    const uint64_t pa = device.upload(a), pb = device.upload(b),
                   out = device.allocate(a.size() * 8 * sizeof(Wide));
    device.launch("divide", {uint32_t(a.size() / 128), 1, 1}, {128, 1, 1}, 0, pa, pb, out);
    const auto got = device.download<Wide>(out, a.size() * 8);
    size_t wrong = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const Unsigned ua = Unsigned(a[i]), ub = Unsigned(b[i]);
      const Wide want[8] = {a[i] / b[i],
                            a[i] % b[i],
                            Wide(ua / ub),
                            Wide(ua % ub),
                            Wide(ua * ub),
                            Wide(ua - ub),
                            (a[i] < b[i]) + 2 * (ua < ub),
                            Wide(ua + ub)};
      for (size_t n = 0; n < 8; ++n)
        wrong += got[8 * i + n] != want[n];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("printf returns how many arguments it took, and narrows what h and hh say") {
  EmulatedCuda device;
  device.load_cuda(R"(extern "C" int printf(const char *, ...);
    extern "C" __global__ void say(int *out) {
      out[0] = printf("none %%|");
      out[1] = printf("%d %s %5.1f|", 1, "x", 2.0);
      out[2] = printf("%hhd %hhu %hd %hu %hx|", 300, -1, 70000, -1, 0x12345);
      out[3] = printf("%ld %lld %d %u|", -(1l << 40), 1ll << 41, -2, -2);
      out[4] = printf(0);
    })");
  const uint64_t out = device.allocate(20);
  std::FILE *file = std::tmpfile();
  std::fflush(stdout);
  const int saved = dup(1);
  dup2(fileno(file), 1);
  auto fault = device.try_launch("say", {1, 1, 1}, {1, 1, 1}, 0, out);
  std::fflush(stdout);
  dup2(saved, 1);
  close(saved);
  REQUIRE(!fault);
  CHECK(device.download<int>(out, 5) == std::vector<int>{0, 3, 5, 4, -1});
  char text[256] = {};
  std::rewind(file);
  const size_t bytes = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  CHECK(std::string(text, bytes) == "none %|1 x   2.0|44 255 4464 65535 2345|"
                                    "-1099511627776 2199023255552 -2 4294967294|");
}
