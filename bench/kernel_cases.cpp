// The cases of bench kernels; see kernel_cases.h.
#include "bench/kernel_cases.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace cugrt::bench {
namespace {

/// The ceilings' kernels. `read` writes only what cannot be, so that its loads stay.
constexpr const char *kCeilings = R"(
kernel @ceiling_copy {
  inline """
extern "C" __global__ void ceiling_copy(const uint4 *x, uint4 *y, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n / 4;
       i += (long long)gridDim.x * blockDim.x)
    y[i] = x[i];
}
"""
  entry "ceiling_copy"
  params (x: in f32, y: out f32, n: symbol i64)
  launch { grid (min(ceildiv(n, 1024), 4096), 1, 1) block (256, 1, 1) }
}
kernel @ceiling_read {
  inline """
extern "C" __global__ void ceiling_read(const uint4 *x, unsigned *y, long long n) {
  unsigned all = 0;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n / 4;
       i += (long long)gridDim.x * blockDim.x) {
    const uint4 v = x[i];
    all |= v.x | v.y | v.z | v.w;
  }
  if (blockIdx.x == 0 || all == 0x80000001u)
    y[threadIdx.x] = all;
}
"""
  entry "ceiling_read"
  params (x: in f32, y: out f32, n: symbol i64)
  launch { grid (min(ceildiv(n, 1024), 4096), 1, 1) block (256, 1, 1) }
}
kernel @ceiling_mma {
  inline """
extern "C" __global__ void ceiling_mma(const unsigned *x, float *y, long long steps) {
#if __CUDA_ARCH__ >= 800
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = x[i];
  for (int i = 0; i < 2; ++i) b[i] = x[4 + i];
  float sum[8][4] = {};
  for (long long s = 0; s < steps; ++s)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                   "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  float all = 0;
  for (int i = 0; i < 8; ++i) all += sum[i][0] + sum[i][1] + sum[i][2] + sum[i][3];
  if (threadIdx.x < 32 && blockIdx.x == 0) y[threadIdx.x] = all;
#endif
}
"""
  entry "ceiling_mma"
  params (x: in f32, y: out f32, steps: symbol i64)
  launch { grid (1056, 1, 1) block (256, 1, 1) }
}
kernel @ceiling_fma {
  inline """
extern "C" __global__ void ceiling_fma(const float *x, float *y, long long steps) {
  const float a = x[0], b = x[1];
  float sum[16];
  for (int i = 0; i < 16; ++i) sum[i] = x[i];
  for (long long s = 0; s < steps; ++s)
#pragma unroll
    for (int e = 0; e < 64; ++e) sum[e % 16] = fmaf(sum[e % 16], a, b);
  float all = 0;
  for (int i = 0; i < 16; ++i) all += sum[i];
  if (threadIdx.x < 32 && blockIdx.x == 0) y[threadIdx.x] = all;
}
"""
  entry "ceiling_fma"
  params (x: in f32, y: out f32, steps: symbol i64)
  launch { grid (1056, 1, 1) block (256, 1, 1) }
}
)";
constexpr double kMmaBlocks = 1056, kMmaWarps = 8, kMmaEach = 8, kMmaOperations = 2.0 * 16 * 8 * 16;
constexpr double kFmaThreads = 1056 * 256, kFmaEach = 64;

double rows_read(const int64_t *s) { return std::min(1.0, double(s[0]) / double(kTableRows)); }
double columns_read(const int64_t *s) { return std::min(1.0, double(s[1]) / double(kTableRows)); }

double product(const int64_t *s) { return 2.0 * double(s[0]) * double(s[1]) * double(s[2]); }

constexpr int64_t kRows = 1 << 14, kColumns = 1 << 12; // 256 MB of f32
#define CUGRT_PLAIN {16, 96, 0}, {kRows, kColumns, 0}, nullptr
#define CUGRT_HALVES {16, 96, 0}, {2 * kRows, kColumns, 0}, nullptr
constexpr const char *kOne = "%x: tensor<[R, C], T>";
constexpr const char *kTwo = "%x: tensor<[R, C], T>, %y: tensor<[R, C], T>";

constexpr KernelCase kCases[] = {
    {"ceiling_copy", "f32", kOne, "alloc : tensor<[R, C], T> launch @ceiling_copy(%x, %r, R*C)",
     Ceiling::copy, CUGRT_PLAIN},
    {"ceiling_read", "f32", kOne, "alloc : tensor<[256], T> launch @ceiling_read(%x, %r, R*C)",
     Ceiling::read, CUGRT_PLAIN, "tensor<[256], T>"},
    {"ceiling_mma",
     "f32",
     "%x: tensor<[64], T>",
     "alloc : tensor<[32], T> launch @ceiling_mma(%x, %r, R)",
     Ceiling::mma,
     {1, 0, 0},
     {4096, 0, 0},
     [](const int64_t *s) {
       return double(s[0]) * kMmaBlocks * kMmaWarps * kMmaEach * kMmaOperations;
     },
     "tensor<[32], T>"},
    {"ceiling_fma",
     "f32",
     "%x: tensor<[64], T>",
     "alloc : tensor<[32], T> launch @ceiling_fma(%x, %r, R)",
     Ceiling::fma,
     {1, 0, 0},
     {4096, 0, 0},
     [](const int64_t *s) { return double(s[0]) * kFmaThreads * kFmaEach * 2; },
     "tensor<[32], T>"},
    {"relu", "f32", kOne, "relu(%x)", Ceiling::copy, CUGRT_PLAIN},
    {"relu", "f16", kOne, "relu(%x)", Ceiling::copy, CUGRT_HALVES},
    {"gelu", "bf16", kOne, "gelu(%x)", Ceiling::copy, CUGRT_HALVES},
    {"add", "f32", kTwo, "add(%x, %y)", Ceiling::copy, CUGRT_PLAIN},
    {"add", "f16", kTwo, "add(%x, %y)", Ceiling::copy, CUGRT_HALVES},
    {"add_row", "f32", "%x: tensor<[R, C], T>, %y: tensor<[C], T>", "add(%x, %y)", Ceiling::copy,
     CUGRT_PLAIN},
    {"where", "f32", "%c: tensor<[R, C], bool>, %x: tensor<[R, C], T>, %y: tensor<[R, C], T>",
     "where(%c, %x, %y)", Ceiling::copy, CUGRT_PLAIN},
    {"cast_f16", "f32", kOne, "cast(%x) {dtype = f16}", Ceiling::copy, CUGRT_PLAIN,
     "tensor<[R, C], f16>"},
    {"softmax", "f32", kOne, "softmax(%x)", Ceiling::copy, CUGRT_PLAIN},
    {"softmax", "f16", kOne, "softmax(%x)", Ceiling::copy, CUGRT_HALVES},
    {"softmax_columns", "f32", kOne, "softmax(%x) {axis = 0}", Ceiling::copy, CUGRT_PLAIN},
    {"log_softmax", "f32", kOne, "log_softmax(%x)", Ceiling::copy, CUGRT_PLAIN},
    {"layer_norm", "f16", "%x: tensor<[R, C], T>, %s: tensor<[C], T>, %b: tensor<[C], T>",
     "layer_norm(%x, %s, %b)", Ceiling::copy, CUGRT_HALVES},
    {"rms_norm", "bf16", "%x: tensor<[R, C], T>, %s: tensor<[C], T>", "rms_norm(%x, %s)",
     Ceiling::copy, CUGRT_HALVES},
    {"group_norm",
     "f16",
     "%x: tensor<[R, C, 64], T>",
     "group_norm(%x) {groups = 32}",
     Ceiling::copy,
     {2, 64, 0},
     {1024, 512, 0},
     nullptr,
     "tensor<[R, C, 64], T>"},
    {"reduce_sum_rows", "f32", kOne, "reduce_sum(%x) {axes = [1]}", Ceiling::read, CUGRT_PLAIN,
     "tensor<[R], T>"},
    {"reduce_max_columns", "f32", kOne, "reduce_max(%x) {axes = [0]}", Ceiling::read, CUGRT_PLAIN,
     "tensor<[C], T>"},
    {"argmax", "f32", kOne, "argmax(%x)", Ceiling::read, CUGRT_PLAIN, "tensor<[R], i64>"},
    {"cumsum", "f32", kOne, "cumsum(%x)", Ceiling::copy, CUGRT_PLAIN},
    {"transpose", "f32", kOne, "transpose(%x)", Ceiling::copy, CUGRT_PLAIN, "tensor<[C, R], T>"},
    {"transpose", "f16", kOne, "transpose(%x)", Ceiling::copy, CUGRT_HALVES, "tensor<[C, R], T>"},
    {"slice", "f32", "%x: tensor<[R, C], T>", "slice(%x) {starts = [0, 8], ends = [R, C]}",
     Ceiling::copy, CUGRT_PLAIN, "tensor<[R, C - 8], T>"},
    {"pad", "f32", kOne, "pad(%x) {before = [0, 8], after = [0, 8]}", Ceiling::copy, CUGRT_PLAIN,
     "tensor<[R, C + 16], T>"},
    {"concat", "f32", kTwo, "concat(%x, %y) {axis = 1}", Ceiling::copy, CUGRT_PLAIN,
     "tensor<[R, 2*C], T>"},
    {"embedding", "f16", "%x: tensor<[1024, C], T>, %i: tensor<[R], i32>", "embedding(%x, %i)",
     Ceiling::copy, CUGRT_HALVES, "tensor<[R, C], T>", rows_read},
    {"gather", "f32", "%x: tensor<[1024, C], T>, %i: tensor<[R], i64>", "gather(%x, %i)",
     Ceiling::copy, CUGRT_PLAIN, "tensor<[R, C], T>", rows_read},
    {"gather_elements", "f32", "%x: tensor<[R, 1024], T>, %i: tensor<[R, C], i32>",
     "gather_elements(%x, %i) {axis = 1}", Ceiling::copy, CUGRT_PLAIN, "tensor<[R, C], T>",
     columns_read},
    {"one_hot", "f32", "%i: tensor<[R], i64>", "one_hot(%i) {depth = C}", Ceiling::copy,
     CUGRT_PLAIN},
    {"range",
     "f32",
     "%x: tensor<[1], T>",
     "%n = shape [R] %r = range(%n)",
     Ceiling::copy,
     {96, 0, 0},
     {kRows * kColumns, 0, 0},
     nullptr,
     "tensor<[R], T>"},
    {"split", "f32", "%x: tensor<[R, 2*C], T>", "split(%x) {axis = 1, sections = [C, C]}",
     Ceiling::copy, CUGRT_PLAIN, "tensor<[R, C], T>, tensor<[R, C], T>"},
    {"fused_elementwise", "f16", kTwo, "%a = sigmoid(%x) %b = mul(%a, %x) %r = add(%b, %y)",
     Ceiling::copy, CUGRT_HALVES},
    {"rotary",
     "f16",
     "%x: tensor<[R, 32, C], T>, %i: tensor<[R], i64>",
     "rotary(%x, %i)",
     Ceiling::copy,
     {8, 32, 0},
     {kRows * 4, 128, 0},
     nullptr,
     "tensor<[R, 32, C], T>"},
    {"top_k", "f32", kOne, "top_k(%x) {k = 8}", Ceiling::read, CUGRT_PLAIN,
     "tensor<[R, 8], T>, tensor<[R, 8], i64>"},
    {"dynamic_quantize", "f32", kOne, "dynamic_quantize(%x)", Ceiling::read, CUGRT_PLAIN,
     "tensor<[R, C], u8>, tensor<[], f32>, tensor<[], u8>"},
    {"max_pool2d",
     "f32",
     "%x: tensor<[R, C, 32, 32], T>",
     "max_pool2d(%x) {kernel = [2, 2], strides = [2, 2]}",
     Ceiling::copy,
     {1, 2, 0},
     {256, 256, 0},
     nullptr,
     "tensor<[R, C, 16, 16], T>"},
    {"avg_pool2d",
     "f32",
     "%x: tensor<[R, C, 32, 32], T>",
     "avg_pool2d(%x) {kernel = [2, 2], strides = [2, 2]}",
     Ceiling::copy,
     {1, 2, 0},
     {256, 256, 0},
     nullptr,
     "tensor<[R, C, 16, 16], T>"},
    {"attention_decode",
     "f16",
     "%x: tensor<[R, 1, 32, 128], T>, %k: tensor<[R, C, 8, 128], T>, %v: tensor<[R, C, 8, 128], T>",
     "attention(%x, %k, %v)",
     Ceiling::read,
     {1, 33, 0},
     {32, 4096, 0},
     [](const int64_t *s) { return 4.0 * double(s[0]) * double(s[1]) * 32 * 128; },
     "tensor<[R, 1, 32, 128], T>"},
    {"attention_decode_split", // 32 blocks, which are few for any device of 8 multiprocessors
     "f16",
     "%x: tensor<[R, 1, 32, 128], T>, %k: tensor<[R, C, 8, 128], T>, %v: tensor<[R, C, 8, 128], T>",
     "attention(%x, %k, %v)",
     Ceiling::read,
     {1, 520, 0},
     {1, 1 << 16, 0},
     [](const int64_t *s) { return 4.0 * double(s[0]) * double(s[1]) * 32 * 128; },
     "tensor<[R, 1, 32, 128], T>"},
    {"attention_decode_small", // as of a model of 135 million parameters, bound by latency
     "f32",
     "%x: tensor<[R, 1, 9, 64], T>, %k: tensor<[R, C, 3, 64], T>, %v: tensor<[R, C, 3, 64], T>",
     "attention(%x, %k, %v)",
     Ceiling::read,
     {1, 260, 0},
     {1, 1024, 0},
     [](const int64_t *s) { return 4.0 * double(s[0]) * double(s[1]) * 9 * 64; },
     "tensor<[R, 1, 9, 64], T>"},
    {"attention_prefill",
     "f16",
     "%x: tensor<[1, R, 32, 128], T>, %k: tensor<[1, R, 8, 128], T>, %v: tensor<[1, R, 8, 128], T>",
     "attention(%x, %k, %v) {causal = true}",
     Ceiling::mma,
     {9, 0, 0},
     {4096, 0, 0},
     [](const int64_t *s) { return 2.0 * double(s[0]) * double(s[0] + 1) * 32 * 128; },
     "tensor<[1, R, 32, 128], T>"},
    {"matmul_gemv",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul(%x, %w)",
     Ceiling::read,
     {1, 96, 64},
     {1, 16384, 16384},
     product},
    {"matmul_gemv_transposed",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], T>",
     "matmul(%x, %w) {transpose_b = true}",
     Ceiling::read,
     {1, 96, 64},
     {1, 16384, 16384},
     product},
    {"matmul_gemv_transposed_8",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], T>",
     "matmul(%x, %w) {transpose_b = true}",
     Ceiling::read,
     {8, 96, 64},
     {8, 16384, 16384},
     product},
    {"decode_gate_small", // and so are these
     "f32",
     "%x: tensor<[R, K], T>, %n: tensor<[K], T>, %g: tensor<[C, K], q4_1>, %u: tensor<[C, K], "
     "q4_1>",
     "%h = rms_norm(%x, %n) %a = matmul_blocks(%h, %g) {repacked = true} "
     "%b = matmul_blocks(%h, %u) {repacked = true} %s = silu(%a) %r = mul(%s, %b)",
     Ceiling::read,
     {1, 24, 64},
     {1, 1536, 576},
     [](const int64_t *s) { return 2 * product(s); }},
    {"decode_down_small",
     "f32",
     "%x: tensor<[R, K], T>, %y: tensor<[R, C], T>, %w: tensor<[C, K], q4_1>",
     "%m = matmul_blocks(%x, %w) {repacked = true} %r = add(%y, %m)",
     Ceiling::read,
     {1, 24, 64},
     {1, 576, 1536},
     product},
    {"matmul_q4_1_gemv_repacked",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q4_1>",
     "matmul_blocks(%x, %w) {repacked = true}",
     Ceiling::read,
     {1, 24, 64},
     {1, 32768, 16384},
     product},
    {"matmul_q4_1_gemv_repacked",
     "f32",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q4_1>",
     "matmul_blocks(%x, %w) {repacked = true}",
     Ceiling::read,
     {1, 24, 64},
     {1, 32768, 16384},
     product},
    {"matmul_q8_0_gemv_repacked",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q8_0>",
     "matmul_blocks(%x, %w) {repacked = true}",
     Ceiling::read,
     {1, 24, 64},
     {1, 16384, 16384},
     product},
    {"matmul_q4_k_gemv_repacked",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q4_k>",
     "matmul_blocks(%x, %w) {repacked = true}",
     Ceiling::read,
     {1, 24, 256},
     {1, 32768, 16384},
     product},
    {"matmul_q6_k_gemv_repacked",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q6_k>",
     "matmul_blocks(%x, %w) {repacked = true}",
     Ceiling::read,
     {1, 24, 256},
     {1, 32768, 16384},
     product},
    {"matmul_q4_0_gemv",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q4_0>",
     "matmul_blocks(%x, %w)",
     Ceiling::read,
     {1, 24, 64},
     {1, 32768, 16384},
     product},
    {"matmul_q4_1_gemv",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q4_1>",
     "matmul_blocks(%x, %w)",
     Ceiling::read,
     {1, 24, 64},
     {1, 32768, 16384},
     product},
    {"matmul_q4_k_gemv",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q4_k>",
     "matmul_blocks(%x, %w)",
     Ceiling::read,
     {1, 24, 256},
     {1, 32768, 16384},
     product},
    {"matmul_q8_0_gemv",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[C, K], q8_0>",
     "matmul_blocks(%x, %w)",
     Ceiling::read,
     {1, 24, 64},
     {1, 16384, 16384},
     product},
    {"matmul",
     "f32",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul(%x, %w)",
     Ceiling::fma,
     {64, 64, 64},
     {4096, 4096, 4096},
     product},
    {"matmul",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul(%x, %w)",
     Ceiling::mma,
     {64, 64, 64},
     {4096, 4096, 4096},
     product},
    {"matmul",
     "bf16",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul(%x, %w)",
     Ceiling::mma,
     {64, 64, 64},
     {4096, 4096, 4096},
     product},
    {"matmul_batched",
     "f16",
     "%x: tensor<[8, R, K], T>, %w: tensor<[8, K, C], T>",
     "matmul(%x, %w)",
     Ceiling::mma,
     {24, 40, 32},
     {2048, 2048, 2048},
     [](const int64_t *s) { return 8 * product(s); },
     "tensor<[8, R, C], T>"},
    {"matmul_epilogue",
     "f16",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>, %b: tensor<[C], T>, %z: tensor<[R, C], T>",
     "%m = matmul(%x, %w, %b) %g = gelu(%m) %r = add(%g, %z)",
     Ceiling::mma,
     {64, 64, 64},
     {4096, 4096, 4096},
     product},
    {"conv1d",
     "f16",
     "%x: tensor<[R, C, 1024], T>, %w: tensor<[K, C, 3], T>",
     "conv1d(%x, %w) {padding = [1]}",
     Ceiling::mma,
     {1, 2, 2},
     {256, 256, 256},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 3 * 1024; },
     "tensor<[R, K, 1024], T>"},
    {"conv2d_depthwise",
     "f32",
     "%x: tensor<[R, C, 64, 64], T>, %w: tensor<[C, 1, 3, 3], T>",
     "conv2d(%x, %w) {padding = [1, 1], groups = C}",
     Ceiling::copy,
     {1, 4, 0},
     {64, 128, 0},
     nullptr,
     "tensor<[R, C, 64, 64], T>"},
    {"conv2d_1x1",
     "f32",
     "%x: tensor<[R, C, 32, 32], T>, %w: tensor<[K, C, 1, 1], T>",
     "conv2d(%x, %w)",
     Ceiling::fma,
     {1, 64, 64},
     {256, 256, 256},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 32 * 32; },
     "tensor<[R, K, 32, 32], T>"},
    {"conv2d_1x1",
     "f16",
     "%x: tensor<[R, C, 32, 32], T>, %w: tensor<[K, C, 1, 1], T>",
     "conv2d(%x, %w)",
     Ceiling::mma,
     {1, 64, 64},
     {256, 256, 256},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 32 * 32; },
     "tensor<[R, K, 32, 32], T>"},
    {"conv2d_epilogue",
     "f16",
     "%x: tensor<[R, C, 32, 32], T>, %w: tensor<[K, C, 3, 3], T>, %b: tensor<[K], T>",
     "%m = conv2d(%x, %w, %b) {padding = [1, 1]} %r = relu(%m)",
     Ceiling::mma,
     {1, 4, 4},
     {256, 256, 64},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 9 * 32 * 32; },
     "tensor<[R, K, 32, 32], T>"},
    {"conv3d",
     "f16",
     "%x: tensor<[R, C, 8, 16, 16], T>, %w: tensor<[K, C, 3, 3, 3], T>",
     "conv3d(%x, %w) {padding = [1, 1, 1]}",
     Ceiling::mma,
     {1, 2, 2},
     {64, 64, 64},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 27 * 8 * 16 * 16; },
     "tensor<[R, K, 8, 16, 16], T>"},
    {"conv_transpose",
     "f16",
     "%x: tensor<[R, C, 16, 16], T>, %w: tensor<[C, K, 2, 2], T>",
     "conv_transpose(%x, %w) {strides = [2, 2]}",
     Ceiling::mma,
     {1, 4, 4},
     {256, 256, 64},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 4 * 16 * 16; },
     "tensor<[R, K, 32, 32], T>"},
    {"matmul_integer",
     "i8",
     "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>",
     "matmul_integer(%x, %w)",
     Ceiling::mma,
     {64, 64, 64},
     {4096, 4096, 4096},
     product,
     "tensor<[R, C], i32>"},
    {"conv_integer",
     "i8",
     "%x: tensor<[R, C, 32, 32], T>, %w: tensor<[K, C, 3, 3], T>",
     "conv_integer(%x, %w) {padding = [1, 1]}",
     Ceiling::mma,
     {1, 4, 8},
     {256, 128, 128},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 9 * 32 * 32; },
     "tensor<[R, K, 32, 32], i32>"},
    {"conv_integer_channels_last",
     "i8",
     "%x: tensor<[R, 32, 32, C], T>, %w: tensor<[K, 3, 3, C], T>",
     "conv_integer(%x, %w) {padding = [1, 1], channels_last = true}",
     Ceiling::mma,
     {1, 16, 16},
     {256, 128, 128},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 9 * 32 * 32; },
     "tensor<[R, 32, 32, K], i32>"},
    {"gather_nd", "f32", "%x: tensor<[1024, C], T>, %i: tensor<[R, 1], i64>", "gather_nd(%x, %i)",
     Ceiling::copy, CUGRT_PLAIN, "tensor<[R, C], T>", rows_read},
    {"scatter_nd",
     "f32",
     "%x: tensor<[1024, C], T>, %i: tensor<[R, 1], i64>, %u: tensor<[R, C], T>",
     "scatter_nd(%x, %i, %u)",
     Ceiling::copy,
     {16, 96, 0},
     {1024, 1 << 16, 0},
     nullptr,
     "tensor<[1024, C], T>"},
    {"resize_linear",
     "f32",
     "%x: tensor<[R, C, 32, 32], T>",
     "%s = shape [R, C, 64, 64] %r = resize(%x, %s) {mode = \"linear\", axes = [2, 3]}",
     Ceiling::copy,
     {1, 2, 0},
     {128, 128, 0},
     nullptr,
     "tensor<[R, C, 64, 64], T>"},
    {"grid_sample",
     "f32",
     "%x: tensor<[R, C, 32, 32], T>, %g: tensor<[R, 32, 32, 2], T>",
     "grid_sample(%x, %g)",
     Ceiling::copy,
     {1, 2, 0},
     {256, 128, 0},
     nullptr,
     "tensor<[R, C, 32, 32], T>"},
    {"gru",
     "f32",
     "%x: tensor<[R, 1, 1, 3*C], T>, %w: tensor<[1, C, 3*C], T>",
     "gru(%x, %w)",
     Ceiling::read,
     {4, 32, 0},
     {512, 512, 0},
     [](const int64_t *s) { return 6.0 * double(s[0]) * double(s[1]) * double(s[1]); },
     "tensor<[R, 1, 1, C], T>, tensor<[1, 1, C], T>"},
    {"conv2d",
     "f32",
     "%x: tensor<[R, C, 32, 32], T>, %w: tensor<[K, C, 3, 3], T>",
     "conv2d(%x, %w) {padding = [1, 1]}",
     Ceiling::fma,
     {1, 4, 8},
     {256, 256, 64},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 9 * 32 * 32; },
     "tensor<[R, K, 32, 32], T>"},
    {"conv2d",
     "f16",
     "%x: tensor<[R, C, 32, 32], T>, %w: tensor<[K, C, 3, 3], T>",
     "conv2d(%x, %w) {padding = [1, 1]}",
     Ceiling::mma,
     {1, 4, 4},
     {256, 256, 64},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 9 * 32 * 32; },
     "tensor<[R, K, 32, 32], T>"},
    {"conv2d_channels_last",
     "f16",
     "%x: tensor<[R, 32, 32, C], T>, %w: tensor<[K, 3, 3, C], T>",
     "conv2d(%x, %w) {padding = [1, 1], channels_last = true}",
     Ceiling::mma,
     {1, 8, 16},
     {256, 256, 64},
     [](const int64_t *s) { return 2.0 * double(s[0] * s[1] * s[2]) * 9 * 32 * 32; },
     "tensor<[R, 32, 32, K], T>"},
};

/// Dtypes and sizes put in: T, R, C and K stand alone as words.
std::string filled(std::string text, const std::string &dtype, const int64_t *sizes) {
  const std::string with[] = {dtype, std::to_string(sizes[0]), std::to_string(sizes[1]),
                              std::to_string(sizes[2])};
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t which = std::string_view("TRCK").find(text[at]);
    const bool alone =
        (at == 0 || !is_word(text[at - 1])) && (at + 1 == text.size() || !is_word(text[at + 1]));
    if (which != std::string_view::npos && alone)
      text.replace(at, 1, with[which]);
  }
  return text;
}

} // namespace

const std::vector<KernelCase> &kernel_cases() {
  static const std::vector<KernelCase> cases = [] {
    std::vector<KernelCase> all(std::begin(kCases), std::end(kCases));
    const std::span<const KernelCase> parts = model_cases();
    all.insert(all.end(), parts.begin(), parts.end());
    return all;
  }();
  return cases;
}

bool is_ceiling(const KernelCase &c) { return std::string_view(c.name).starts_with("ceiling_"); }

std::string module_text(const KernelCase &c, const int64_t *sizes) {
  const std::string_view result = c.result, body = c.body;
  std::string results;
  size_t count = 0;
  for (size_t at = 0; (at = result.find("tensor<", at)) != std::string_view::npos; ++at)
    results += std::string(count ? ", %" : "%") + "rqp"[count], ++count;
  return "cugrt 1\n" + std::string(kCeilings) + "func @main(" + filled(c.params, c.dtype, sizes) +
         ") -> (" + filled(c.result, c.dtype, sizes) + ") {\n  " +
         (body.starts_with('%') ? "" : results + " = ") + filled(c.body, c.dtype, sizes) +
         "\n  return " + results + "\n}\n";
}

} // namespace cugrt::bench
