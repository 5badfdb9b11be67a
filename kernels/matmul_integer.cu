// Products of bytes less their zero points, exactly: y = (a - a_zero) (b - b_zero), to i32, whose
// low bits are kept.
//
//   a: [batch, rows, inner]   b: [batch or 1, inner, columns]   y: [batch, rows, columns]
//
// Bytes without a sign become signed ones, 128 less. Four along `inner` are one word, whose
// products dp4a adds up; what the zero points take away follows from the sums of rows and columns:
//   sum (a - p)(b - q) = sum a b - q sum a - p sum b + inner p q
// A block of 16 by 16 threads has 64 rows and columns, a thread 4 by 4 of them.
//
// Options: A_UNSIGNED, B_UNSIGNED; HAS_A_ZERO and HAS_B_ZERO, one for each a_zero_step rows and
// b_zero_step columns (0: one for all); those of fusion.cuh and assume.cuh.

#include "assume.cuh"
#include "fusion.cuh"
#include "programmatic.cuh"

typedef int T;
typedef int Acc;

#ifdef A_UNSIGNED
typedef unsigned char A;
#define A_FLIP 0x80808080u
#else
typedef signed char A;
#define A_FLIP 0u
#endif
#ifdef B_UNSIGNED
typedef unsigned char B;
#define B_FLIP 0x80808080u
#else
typedef signed char B;
#define B_FLIP 0u
#endif
#ifdef HAS_A_ZERO
#define A_ZERO_PARAMETER const A *__restrict__ a_zero, long long a_zero_step,
#define A_ZERO(row) (int(a_zero[(row)*a_zero_step]) - int(A_FLIP & 0xff))
#else
#define A_ZERO_PARAMETER
#define A_ZERO(row) (-int(A_FLIP & 0xff))
#endif
#ifdef HAS_B_ZERO
#define B_ZERO_PARAMETER const B *__restrict__ b_zero, long long b_zero_step,
#define B_ZERO(column) (int(b_zero[(column)*b_zero_step]) - int(B_FLIP & 0xff))
#else
#define B_ZERO_PARAMETER
#define B_ZERO(column) (-int(B_FLIP & 0xff))
#endif

constexpr int kSide = 64, kWords = 8, kEach = 4; // of a tile: rows, words along inner; of a thread

// Four signed bytes as a word; what lies behind the end is 0, as a signed byte.
template <class Byte>
__device__ __forceinline__ int word_of(const Byte *from, long long pitch, long long left,
                                       unsigned flip) {
  unsigned word = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e)
    if (e < left)
      word |= (unsigned((unsigned char)(from[e * pitch])) ^ (flip & 0xff)) << (8 * e);
  return int(word);
}

extern "C" __global__ void __launch_bounds__(256)
    matmul_integer(const A *__restrict__ a, const B *__restrict__ b,
                   A_ZERO_PARAMETER B_ZERO_PARAMETER OUT *__restrict__ y, long long batch,
                   long long rows, long long columns, long long inner,
                   long long b_batch_stride FUSED_PARAMETERS) {
  BEGIN_EARLY();
  __builtin_assume(ASSUME);
  __shared__ int of_a[kWords][kSide + 1], of_b[kWords][kSide + 1];
  const long long across = (columns + kSide - 1) / kSide, down = (rows + kSide - 1) / kSide;
  const long long tile = (long long)(blockIdx.x) % (across * down);
  const long long image = (long long)(blockIdx.x) / (across * down);
  const long long top = tile / across * kSide, left = tile % across * kSide;
  const int thread = threadIdx.y * 16 + threadIdx.x;
  a += image * rows * inner;
  b += image * b_batch_stride;
  int sum[kEach][kEach] = {}, a_sum[kEach] = {}, b_sum[kEach] = {};
  for (long long begin = 0; begin < inner; begin += 4 * kWords) {
    for (int i = thread; i < kWords * kSide; i += 256) {
      const int a_word = i % kWords, a_row = i / kWords, b_word = i / kSide, b_column = i % kSide;
      const long long a_at = begin + 4 * a_word, b_at = begin + 4 * b_word;
      of_a[a_word][a_row] = top + a_row < rows
                                ? word_of(a + (top + a_row) * inner + a_at, 1, inner - a_at, A_FLIP)
                                : 0;
      of_b[b_word][b_column] =
          left + b_column < columns
              ? word_of(b + b_at * columns + left + b_column, columns, inner - b_at, B_FLIP)
              : 0;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      int a_words[kEach], b_words[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        a_words[e] = of_a[k][threadIdx.y + 16 * e];
        b_words[e] = of_b[k][threadIdx.x + 16 * e];
        a_sum[e] = __dp4a(a_words[e], 0x01010101, a_sum[e]);
        b_sum[e] = __dp4a(b_words[e], 0x01010101, b_sum[e]);
      }
#pragma unroll
      for (int r = 0; r < kEach; ++r)
#pragma unroll
        for (int c = 0; c < kEach; ++c)
          sum[r][c] = __dp4a(a_words[r], b_words[c], sum[r][c]);
    }
    __syncthreads(); // all have read before the next tile is written
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r)
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const long long row = top + threadIdx.y + 16 * r, column = left + threadIdx.x + 16 * c;
      if (row >= rows || column >= columns)
        continue;
      const unsigned p = unsigned(A_ZERO(row)), q = unsigned(B_ZERO(column)); // sums wrap
      const int value = int(unsigned(sum[r][c]) - q * unsigned(a_sum[r]) - p * unsigned(b_sum[c]) +
                            unsigned(inner) * p * q);
      STORE((image * rows + row) * columns + column, value);
    }
}
