// Tiles of products of bytes on tensor cores, exactly. For sm_80 and later; matmul_integer.cu and
// conv_integer_mma.cuh stand on it.
//
// clang-format off
//         kDepth           kColumns
//        +------+         +---------+     Both tiles lie in shared memory with k along their rows, which
//  kRows |  l   |  kDepth |    r    |     are kPitch bytes apart: the eight rows that ldmatrix reads
//        +------+         +---------+     lie in different banks, 16 bytes each. There are two stages:
//                                         while one step is multiplied, the next is read into registers.
// clang-format on
//
// Four warps stand in a square; each has kHigh x kWide fragments of 16 x 8 sums, laid out over its
// lanes as mma.m16n8k32 says in the PTX ISA. Bytes keep their signs: what zero points take away
// follows from the sums of rows and columns, which are taken where bytes pass through registers.
#pragma once

template <class Byte> constexpr bool kHasSign = Byte(-1) < Byte(0);

// sum + the products of two words' bytes, which have signs. NVRTC 12 declares __dp4a and has no
// body for it: of unsigned words nowhere, of others not before sm_80.
__device__ __forceinline__ int dot4(unsigned a, unsigned b, int sum) {
  int result;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

// sum + the products of two words' bytes, of which each has a sign or not.
template <class Left, class Right>
__device__ __forceinline__ int dot_bytes(unsigned a, unsigned b, int sum) {
  int result;
#define DOT(types) asm("dp4a." types " %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum))
  if constexpr (kHasSign<Left> && kHasSign<Right>)
    DOT("s32.s32");
  else if constexpr (kHasSign<Left>)
    DOT("s32.u32");
  else if constexpr (kHasSign<Right>)
    DOT("u32.s32");
  else
    DOT("u32.u32");
#undef DOT
  return result;
}

// Adds the four bytes of a word.
template <class Byte> __device__ __forceinline__ int add_bytes(unsigned word, int sum) {
  if (kHasSign<Byte>)
    return dot4(word, 0x01010101, sum);
  int result;
  asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(word), "r"(0x01010101), "r"(sum));
  return result;
}

// A sum of products of bytes less their zero points, four of them at a time:
//   sum (x - p)(w - q) = sum x w - p sum w - q sum x + count p q
template <class X, class W, bool kHasWZero, bool kHasXZero> struct ByteSum {
  unsigned x_word = 0, w_word = 0, count = 0;
  int products = 0, of_x = 0, of_w = 0;

  __device__ __forceinline__ void add(X x, W w) {
    x_word = __byte_perm(x_word, unsigned((unsigned char)(x)), 0x4321); // the last one's place
    w_word = __byte_perm(w_word, unsigned((unsigned char)(w)), 0x4321);
    if (++count % 4 == 0)
      add_words();
  }
  __device__ __forceinline__ int total(int x_zero, int w_zero) { // sums wrap
    add_words();
    return int(unsigned(products) - unsigned(x_zero) * unsigned(of_w) -
               unsigned(w_zero) * unsigned(of_x) + count * unsigned(x_zero) * unsigned(w_zero));
  }

private:
  __device__ __forceinline__ void add_words() {
    products = dot_bytes<X, W>(x_word, w_word, products);
    if (kHasWZero)
      of_x = add_bytes<X>(x_word, of_x);
    if (kHasXZero)
      of_w = add_bytes<W>(w_word, of_w);
    x_word = w_word = 0;
  }
};

// kBytes bytes, 8 or 16, from `from` on, of which `left` are there; the others are 0. Where they
// are aligned, at a multiple of kBytes, all of them are there or none.
template <int kBytes, bool kAligned, class Byte>
__device__ __forceinline__ void read_bytes(const Byte *from, long long left,
                                           unsigned (&word)[kBytes / 4]) {
#pragma unroll
  for (int i = 0; i < kBytes / 4; ++i)
    word[i] = 0;
  if constexpr (!kAligned) {
#pragma unroll
    for (int e = 0; e < kBytes; ++e)
      if (e < left)
        word[e / 4] |= unsigned((unsigned char)(from[e])) << e % 4 * 8;
  } else if (left > 0) {
    if constexpr (kBytes == 16) {
      const uint4 all = *reinterpret_cast<const uint4 *>(from);
      word[0] = all.x, word[1] = all.y, word[2] = all.z, word[3] = all.w;
    } else {
      const uint2 all = *reinterpret_cast<const uint2 *>(from);
      word[0] = all.x, word[1] = all.y;
    }
  }
}

#if __CUDA_ARCH__ >= 800

// Four fragments of 8 rows of 16 bytes.
__device__ __forceinline__ void load_bytes(const unsigned char *p, unsigned (&f)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(unsigned(__cvta_generic_to_shared(p)))
               : "memory");
}

template <class Left, class Right>
__device__ __forceinline__ void multiply_bytes(int (&sum)[4], const unsigned (&l)[4], unsigned r0,
                                               unsigned r1) {
#define MULTIPLY(types)                                                                            \
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." types                                      \
               ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"              \
               : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])                            \
               : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(r0), "r"(r1))
  if constexpr (kHasSign<Left> && kHasSign<Right>)
    MULTIPLY("s8.s8");
  else if constexpr (kHasSign<Left>)
    MULTIPLY("s8.u8");
  else if constexpr (kHasSign<Right>)
    MULTIPLY("u8.s8");
  else
    MULTIPLY("u8.u8");
#undef MULTIPLY
}

template <class L, class R, int kHigh, int kWide> struct ByteTile {
  typedef L Left;
  typedef R Right;
  static constexpr int kRows = 2 * kHigh * 16, kColumns = 2 * kWide * 8, kThreads = 128;
  static constexpr int kDepth = 64, kPitch = kDepth + 16; // bytes
  static constexpr int kStage = (kRows + kColumns) * kPitch;
  static constexpr int kChunks = kRows * kDepth / 16 / kThreads;  // of the left tile, a thread's
  static constexpr int kWords = kColumns * kDepth / 4 / kThreads; // of the right tile, a thread's

  // Calls store(row, column, sum) for each sum of the tile, neighbouring lanes for neighbouring
  // columns: through shared memory, so that what is done with a sum is written out kHigh times and
  // not for each of a thread's. Nothing else uses `stages` by then.
  template <class Store>
  static __device__ __forceinline__ void each_sum(const int (&sum)[kHigh][kWide][4],
                                                  unsigned char *stages, Store store) {
    constexpr int kAcross = kWide * 8, kLine = kAcross + 8; // rows of a fragment in other banks
    static_assert(4 * 16 * kLine * sizeof(int) <= 2 * kStage,
                  "a warp's rows fit beside the others'");
    const int lane = threadIdx.x;
    int *lines = reinterpret_cast<int *>(stages) + threadIdx.y * 16 * kLine;
#pragma unroll
    for (int r = 0; r < kHigh; ++r) {
      __syncwarp();
#pragma unroll
      for (int q = 0; q < kWide; ++q)
#pragma unroll
        for (int e = 0; e < 4; e += 2)
          *reinterpret_cast<int2 *>(lines + (lane / 4 + e / 2 * 8) * kLine + q * 8 + lane % 4 * 2) =
              int2{sum[r][q][e], sum[r][q][e + 1]};
      __syncwarp();
      const int top = threadIdx.y / 2 * kHigh * 16 + r * 16, left = threadIdx.y % 2 * kAcross;
#pragma unroll 2
      for (int i = lane; i < 16 * kAcross; i += 32)
        store(top + i / kAcross, left + i % kAcross, lines[i / kAcross * kLine + i % kAcross]);
    }
  }

  // This thread's chunks of the left tile: bytes `chunk()` of the rows left_row(j).
  static __device__ __forceinline__ int thread() { return threadIdx.y * 32 + threadIdx.x; }
  static __device__ __forceinline__ int chunk() { return thread() % (kDepth / 16) * 16; }
  static __device__ __forceinline__ int left_row(int j) {
    return thread() / (kDepth / 16) + j * (kThreads / (kDepth / 16));
  }

  // Adds the products of k bytes. left(j, at, word) reads bytes `at` and the following 15 of row
  // left_row(j). right.read(at) reads what this thread has of the right tile from byte `at` of k
  // on; right.words(store) calls store(i, column, word, value) for each of its kWords words of four
  // bytes along k. With kLeftSums or kRightSums the sums of rows or columns are added to those in
  // shared memory, zeros before; all are there behind a barrier. `stages` has two.
  template <bool kLeftSums, bool kRightSums, class ReadLeft, class Right>
  static __device__ __forceinline__ void add(long long k, ReadLeft left, Right &right,
                                             unsigned char *stages, int (&sum)[kHigh][kWide][4],
                                             int *row_sums, int *column_sums) {
    unsigned chunks[kChunks][4];
    int left_sums[kChunks] = {}, right_sums[kWords] = {};
    auto read = [&](long long at) {
#pragma unroll
      for (int j = 0; j < kChunks; ++j)
        left(j, at + chunk(), chunks[j]);
      right.read(at);
    };
    auto write = [&](int stage) {
      unsigned char *tile = stages + stage * kStage;
#pragma unroll
      for (int j = 0; j < kChunks; ++j) {
        const unsigned(&word)[4] = chunks[j];
        *reinterpret_cast<uint4 *>(tile + left_row(j) * kPitch + chunk()) =
            uint4{word[0], word[1], word[2], word[3]};
        if (kLeftSums)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            left_sums[j] = add_bytes<L>(word[i], left_sums[j]);
      }
      right.words([&](int i, int column, int word, unsigned value) {
        *reinterpret_cast<unsigned *>(tile + (kRows + column) * kPitch + word * 4) = value;
        if (kRightSums)
          right_sums[i] = add_bytes<R>(value, right_sums[i]);
      });
    };
    const int steps = int((k + kDepth - 1) / kDepth);
    if (steps > 0) {
      read(0);
      write(0);
    }
    __syncthreads();
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      if (s + 1 < steps)
        read((long long)(s + 1) * kDepth);
      multiply(stages + s % 2 * kStage, sum);
      if (s + 1 < steps)
        write((s + 1) % 2); // its bytes were read before the last barrier
      __syncthreads();
    }
    if (kLeftSums)
#pragma unroll
      for (int j = 0; j < kChunks; ++j)
        atomicAdd(row_sums + left_row(j), left_sums[j]);
    if (kRightSums)
      right.words([&](int i, int column, int, unsigned) {
        atomicAdd(column_sums + column, right_sums[i]);
      });
  }

private:
  static __device__ __forceinline__ void multiply(const unsigned char *stage,
                                                  int (&sum)[kHigh][kWide][4]) {
    const int lane = threadIdx.x;
    const unsigned char *left =
        stage + (threadIdx.y / 2 * kHigh * 16 + lane % 16) * kPitch + lane / 16 * 16;
    const unsigned char *right =
        stage + (kRows + threadIdx.y % 2 * kWide * 8 + lane / 16 * 8 + lane % 8) * kPitch +
        lane / 8 % 2 * 16;
#pragma unroll
    for (int d = 0; d < kDepth; d += 32) {
      unsigned l[kHigh][4], r[kWide / 2][4];
#pragma unroll
      for (int i = 0; i < kHigh; ++i)
        load_bytes(left + i * 16 * kPitch + d, l[i]);
#pragma unroll
      for (int q = 0; q < kWide / 2; ++q)
        load_bytes(right + q * 16 * kPitch + d, r[q]);
#pragma unroll
      for (int i = 0; i < kHigh; ++i)
#pragma unroll
        for (int q = 0; q < kWide; ++q)
          multiply_bytes<L, R>(sum[i][q], l[i], r[q / 2][q % 2 * 2], r[q / 2][q % 2 * 2 + 1]);
    }
  }
};

#endif
