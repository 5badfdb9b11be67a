// Blocks that share a tile of a result: each has a part of its sums, and the one that ends last,
// which a counter says, adds them up in the blocks' order and goes on alone. So no block waits, and
// the bits are the same in each run. Counters are 0 before and after a launch.
//
//   parts: [tiles, splits, sums of a thread / 4, threads, 4]   block tile * splits + split
#pragma once

// Where a block's tile lies, of ceil(rows / kRows) * ceil(n / kColumns), where `places` blocks are
// resident: whole waves of them have a tile each; the remaining tiles are cut, each into as many
// parts as the grid has blocks for. Blocks start by their numbers, so tiles of the same columns, of
// kRowsTogether rows at most, follow one another: the first reads the right matrix from memory, the
// others from the L2 cache, where the rows stay themselves.
template <int kRows, int kColumns, int kRowsTogether = 1024> struct TilePlace {
  static constexpr unsigned kTogether = kRowsTogether / kRows;
  unsigned cut, part, parts; // which of the tiles that are cut; parts of a tile
  long long row, column;

  __device__ __forceinline__ void set(unsigned block, unsigned places, long long rows,
                                      long long n) {
    cut = part = 0;
    parts = 1;
    const unsigned across = unsigned((n + kColumns - 1) / kColumns),
                   down = unsigned((rows + kRows - 1) / kRows), tiles = across * down;
    const unsigned rest = tiles % places, whole = tiles - rest;
    unsigned tile = block;
    if (block >= whole) {
      parts = (gridDim.x - whole) / rest;
      cut = (block - whole) / parts;
      part = (block - whole) % parts;
      tile = whole + cut;
    }
    const unsigned together = down < kTogether ? down : kTogether;
    const unsigned first = tile / (across * together) * together;
    const unsigned within = tile % (across * together), left = down - first;
    const unsigned tall = left < together ? left : together;
    row = (long long)(first + within % tall) * kRows;
    column = (long long)(within / tall) * kColumns;
  }
};

// Four sums; of integers they wrap.
template <class Sum> struct FourSums;
template <> struct FourSums<float> { typedef float4 Type; };
template <> struct FourSums<int> { typedef uint4 Type; };

// Adds up what this block, number `own` of `splits`, and the others of its tile have; false where
// others are to come. `shared`: of the block, for anything, read to its end.
template <int kThreads, class Sum, int kHigh, int kWide>
__device__ __forceinline__ bool join_splits(Sum *parts, unsigned *counters, unsigned tile,
                                            unsigned own, unsigned splits, int thread, void *shared,
                                            Sum (&sum)[kHigh][kWide][4]) {
  typedef typename FourSums<Sum>::Type Four;
  constexpr int kVectors = kHigh * kWide;
  Four *part = reinterpret_cast<Four *>(parts) +
               (long long)(tile * splits + own) * kVectors * kThreads + thread;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const Sum(&from)[4] = sum[v / kWide][v % kWide];
    Four own_sums;
    own_sums.x = from[0], own_sums.y = from[1], own_sums.z = from[2], own_sums.w = from[3];
    part[v * kThreads] = own_sums;
  }
  unsigned &ended = *static_cast<unsigned *>(shared);
  __syncthreads(); // the block's part is written, and the tiles have been read
  if (thread == 0) {
    __threadfence();
    ended = atomicInc(counters + tile, splits - 1);
    __threadfence();
  }
  __syncthreads();
  if (ended != splits - 1)
    return false;
  part -= (long long)(own)*kVectors * kThreads;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const Four first = __ldcg(part + v * kThreads);
    Sum(&to)[4] = sum[v / kWide][v % kWide];
    to[0] = first.x, to[1] = first.y, to[2] = first.z, to[3] = first.w;
  }
#pragma unroll 1
  for (unsigned s = 1; s < splits; ++s) {
    part += kVectors * kThreads;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const Four more = __ldcg(part + v * kThreads);
      Sum(&to)[4] = sum[v / kWide][v % kWide];
      to[0] += more.x, to[1] += more.y, to[2] += more.z, to[3] += more.w;
    }
  }
  return true;
}
