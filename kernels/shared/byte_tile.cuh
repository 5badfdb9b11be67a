// Tiles of products of bytes on tensor cores, exactly. For sm_80 and later; matmul_integer.cu and
// conv_integer_mma.cuh stand on it.
//
// clang-format off
//         kDepth           kColumns
//        +------+         +---------+     Both tiles lie in shared memory with k along their rows. A row's
//  kRows |  l   |  kDepth |    r    |     chunks of 16 bytes are exchanged so that the eight rows that
//        +------+         +---------+     ldmatrix reads lie in different banks.
// clang-format on
//
// Where both have k along their rows in memory, too, they come by asynchronous copies into STAGES
// stages: while one step is multiplied, those of the next ones are on their way. Else there are two
// stages, and the next step is read into registers meanwhile.
//
// Four warps stand in a square; each has kHigh x kWide fragments of 16 x 8 sums, laid out over its
// lanes as mma.m16n8k32 says in the PTX ISA. Bytes keep their signs: what zero points take away
// follows from the sums of rows and columns, which are taken from fragments: of two warps that read
// the same ones each takes those of half of k.
#pragma once

#include "shared/join_splits.cuh"
#include "shared/mma.cuh"

// What a kernel whose blocks share tiles takes for them.
#ifdef SPLIT
#define SPLIT_PARAMETERS int *parts, unsigned *__restrict__ counters, long long splits,
#define SPLIT_ARGUMENTS parts, counters, splits,
#else
#define SPLIT_PARAMETERS
#define SPLIT_ARGUMENTS
#endif

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

// The steps of kDepth of k that one of `blocks` has which share a tile, and their bytes.
struct ByteSteps {
  int first, count;
  unsigned bytes;
  __device__ __forceinline__ ByteSteps(unsigned k, int depth, unsigned own, unsigned blocks) {
    const unsigned all = (k + depth - 1) / depth, end = (own + 1) * all / blocks;
    first = int(own * all / blocks), count = int(end) - first;
    bytes = blocks == 1 ? k : (end * depth < k ? end * depth : k) - first * depth;
  }
};

// Four fragments of 8 rows of 16 bytes.
__device__ __forceinline__ void load_bytes(const unsigned char *p, unsigned (&f)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(shared_address(p))
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
  static constexpr int kDepth = 64; // bytes
  static constexpr int kStage = (kRows + kColumns) * kDepth;
  static constexpr int kChunks = kRows * kDepth / 16 / kThreads;  // of the left tile, a thread's
  static constexpr int kWords = kColumns * kDepth / 4 / kThreads; // of the right tile, a thread's

  // Calls store(row, column, sum) for each sum of the tile, neighbouring lanes for neighbouring
  // columns: through shared memory, so that code for a sum is written out kHigh times and not for
  // each of a thread's. Nothing else uses `stages` by then.
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

  // Takes away what zero points of rows and columns do, of products of `k` bytes, by the sums of
  // bytes in shared memory, which are there behind a barrier:
  //   sum (l - p)(r - q) = sum l r - q sum l - p sum r + k p q
  // Zero points go through shared memory, too: registers are full of sums.
  template <bool kLeftSums, bool kRightSums, class LeftZero, class RightZero>
  static __device__ __forceinline__ void
  take_zeros(int (&sum)[kHigh][kWide][4], const int *row_sums, int *column_sums, unsigned k,
             LeftZero left_zero, RightZero right_zero) {
    if (!kLeftSums && !kRightSums)
      return;
    __shared__ unsigned row_zeros[kRows], column_zeros[kColumns];
    if (kRightSums)
      for (int r = thread(); r < kRows; r += kThreads)
        row_zeros[r] = unsigned(left_zero(r));
    for (int c = thread(); c < kColumns; c += kThreads) {
      const unsigned zero = kLeftSums ? unsigned(right_zero(c)) : 0; // sums wrap
      if (kLeftSums)
        column_zeros[c] = zero;
      if (kRightSums)
        column_sums[c] = int(k * zero - unsigned(column_sums[c]));
    }
    __syncthreads();
    const int top = threadIdx.y / 2 * kHigh * 16 + threadIdx.x / 4;
    const int left = threadIdx.y % 2 * kWide * 8 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < kHigh * 2; ++i)
#pragma unroll
      for (int q = 0; q < kWide; ++q)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int row = top + i * 8, column = left + q * 8 + c;
          int &value = sum[i / 2][q][i % 2 * 2 + c];
          if (kLeftSums)
            value = int(unsigned(value) - column_zeros[column] * unsigned(row_sums[row]));
          if (kRightSums)
            value = int(unsigned(value) + row_zeros[row] * unsigned(column_sums[column]));
        }
  }

  // This thread's chunks of the left tile: bytes `chunk()` of the rows left_row(j).
  static __device__ __forceinline__ int thread() { return threadIdx.y * 32 + threadIdx.x; }
  static __device__ __forceinline__ int chunk() { return thread() % (kDepth / 16) * 16; }
  static __device__ __forceinline__ int left_row(int j) {
    return thread() / (kDepth / 16) + j * (kThreads / (kDepth / 16));
  }

  // The place of a row's byte in a stage; the right tile's rows stand behind the left one's.
  static __device__ __forceinline__ int at(int row, int byte) {
    return row * kDepth + ((byte / 16 ^ (row >> 1 & 3)) * 16 | byte % 16);
  }

  // What zero points need, of this thread's lanes and steps; rows and columns as fragments have
  // them.
  struct ByteSums {
    int row[kHigh][2] = {}, column[kWide] = {};
  };

  // Adds the products of k bytes. left(j, at, word) reads bytes `at` and the following 15 of row
  // left_row(j). right.read(at) reads what this thread has of the right tile from byte `at` of k
  // on; right.words(store) calls store(column, word, value) for each of its kWords words of four
  // bytes along k. With kLeftSums or kRightSums the sums of rows or columns are added to those in
  // shared memory, zeros before; all are there behind a barrier. `stages` has two.
  template <bool kLeftSums, bool kRightSums, class ReadLeft, class Right>
  static __device__ __forceinline__ void add(long long k, ReadLeft left, Right &right,
                                             unsigned char *stages, int (&sum)[kHigh][kWide][4],
                                             int *row_sums, int *column_sums) {
    unsigned chunks[kChunks][4];
    ByteSums sums;
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
        *reinterpret_cast<uint4 *>(tile + at(left_row(j), chunk())) =
            uint4{word[0], word[1], word[2], word[3]};
      }
      right.words([&](int column, int word, unsigned value) {
        *reinterpret_cast<unsigned *>(tile + at(kRows + column, word * 4)) = value;
      });
    };
    // Registers do not do for the next step's bytes beside both sums.
    constexpr bool kReadsAhead = !(kLeftSums && kRightSums);
    const int steps = int((k + kDepth - 1) / kDepth);
    if (steps > 0) {
      read(0);
      write(0);
    }
    __syncthreads();
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      if (kReadsAhead && s + 1 < steps)
        read((long long)(s + 1) * kDepth);
      multiply<kLeftSums, kRightSums>(stages + s % 2 * kStage, sum, sums);
      if (!kReadsAhead && s + 1 < steps)
        read((long long)(s + 1) * kDepth);
      if (s + 1 < steps)
        write((s + 1) % 2); // its bytes were read before the last barrier
      __syncthreads();
    }
    add_sums<kLeftSums, kRightSums>(sums, row_sums, column_sums);
  }

  // The same of tiles that copy(stage) asks for, step by step; with kWaits it writes them itself.
  // `stages` has kStages.
  template <bool kLeftSums, bool kRightSums, int kStages, bool kWaits, class Copy>
  static __device__ __forceinline__ void add_copied(int steps, Copy copy, unsigned char *stages,
                                                    int (&sum)[kHigh][kWide][4], int *row_sums,
                                                    int *column_sums) {
    ByteSums sums;
    constexpr int kAhead = kWaits ? 0 : kStages - 1;
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (s < steps)
        copy(stages + s * kStage);
      end_copies();
    }
    int now = 0, next = kAhead; // stages
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      if (!kWaits)
        wait_for_copies<kStages - 2>();
      __syncthreads(); // the tiles are there for all, and those of the step before have been read
      if (s + kAhead < steps)
        copy(stages + next * kStage);
      if (kWaits)
        __syncthreads();
      else
        end_copies();
      multiply<kLeftSums, kRightSums>(stages + now * kStage, sum, sums);
      if (!kWaits) {
        now = now + 1 < kStages ? now + 1 : 0;
        next = next + 1 < kStages ? next + 1 : 0;
      }
    }
    wait_for_copies<0>();
    add_sums<kLeftSums, kRightSums>(sums, row_sums, column_sums);
  }

private:
  template <bool kLeftSums, bool kRightSums>
  static __device__ __forceinline__ void add_sums(const ByteSums &sums, int *row_sums,
                                                  int *column_sums) {
    const int top = threadIdx.y / 2 * kHigh * 16 + threadIdx.x / 4;
    const int left = threadIdx.y % 2 * kWide * 8 + threadIdx.x / 4;
    if (kLeftSums)
#pragma unroll
      for (int i = 0; i < kHigh * 2; ++i)
        atomicAdd(row_sums + top + i * 8, sums.row[i / 2][i % 2]);
    if (kRightSums)
#pragma unroll
      for (int q = 0; q < kWide; ++q)
        atomicAdd(column_sums + left + q * 8, sums.column[q]);
  }

  template <bool kLeftSums, bool kRightSums>
  static __device__ __forceinline__ void multiply(const unsigned char *stage,
                                                  int (&sum)[kHigh][kWide][4], ByteSums &sums) {
    const int lane = threadIdx.x, top = threadIdx.y / 2 * kHigh * 16;
    const int left = kRows + threadIdx.y % 2 * kWide * 8;
    const int half = (threadIdx.y ^ threadIdx.y / 2) % 2 * 32; // neighbours have the other one
#pragma unroll
    for (int d = 0; d < kDepth; d += 32) {
      unsigned l[kHigh][4], r[kWide / 2][4];
      // Chunks of rows 16 apart are exchanged alike.
      const unsigned char *rows = stage + at(top + lane % 16, (d ^ half) + lane / 16 * 16);
      const unsigned char *columns =
          stage + at(left + lane / 16 * 8 + lane % 8, (d ^ half) + lane / 8 % 2 * 16);
#pragma unroll
      for (int i = 0; i < kHigh; ++i)
        load_bytes(rows + i * 16 * kDepth, l[i]);
#pragma unroll
      for (int q = 0; q < kWide / 2; ++q)
        load_bytes(columns + q * 16 * kDepth, r[q]);
      if (kLeftSums && d == 0)
#pragma unroll
        for (int i = 0; i < kHigh; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            sums.row[i][e % 2] = add_bytes<L>(l[i][e], sums.row[i][e % 2]);
      if (kRightSums && d == 0)
#pragma unroll
        for (int q = 0; q < kWide; ++q)
#pragma unroll
          for (int e = 0; e < 2; ++e)
            sums.column[q] = add_bytes<R>(r[q / 2][q % 2 * 2 + e], sums.column[q]);
#pragma unroll
      for (int i = 0; i < kHigh; ++i)
#pragma unroll
        for (int q = 0; q < kWide; ++q)
          multiply_bytes<L, R>(sum[i][q], l[i], r[q / 2][q % 2 * 2], r[q / 2][q % 2 * 2 + 1]);
    }
  }
};

// Copies of a tile of kHeight rows of a matrix with k along them, kBytes (16, 8, 4) at once, of
// which its beginning and `width` are multiples; with 1 they are read and written byte by byte.
// Each step moves on along k. Behind the matrix's rows the last one is read again, behind k there
// are zeros.
template <class Tile, int kHeight, int kBytes, class Byte> struct RowCopies {
  static constexpr int kAcross = Tile::kDepth / 16, kStep = Tile::kThreads / kAcross;
  static constexpr int kCopies = kHeight / kStep;
  const Byte *from;
  unsigned row[kCopies]; // offsets of this thread's
  int left;              // bytes of k from there on

  // From byte `first` of k on.
  __device__ __forceinline__ RowCopies(const Byte *matrix, long long height, long long width,
                                       int first) {
    from = matrix + first + Tile::chunk(), left = int(width) - first - Tile::chunk();
#pragma unroll
    for (int j = 0; j < kCopies; ++j) {
      const int own = Tile::thread() / kAcross + j * kStep;
      row[j] = unsigned(own < height ? own : int(height) - 1) * unsigned(width);
    }
  }
  // `first`: the tile's first row in the stage.
  __device__ __forceinline__ void copy(unsigned char *stage, int first) {
    unsigned char *to = stage + Tile::at(first + Tile::thread() / kAcross, Tile::chunk());
#pragma unroll
    for (int j = 0; j < kCopies; ++j) {
      unsigned char *chunk = to + j * kStep * Tile::kDepth;
      if constexpr (kBytes == 1) {
        unsigned word[4];
        read_bytes<16, false>(from + row[j], left, word);
        *reinterpret_cast<uint4 *>(chunk) = uint4{word[0], word[1], word[2], word[3]};
      } else {
#pragma unroll
        for (int e = 0; e < 16; e += kBytes)
          copy_or_zeros<kBytes>(e < left, shared_address(chunk + e), from + row[j] + e);
      }
    }
    from += Tile::kDepth, left -= Tile::kDepth;
  }
};

#endif
