// A matrix of blocks [n, k], repacked: as many bytes as before, the quants apart from the scales,
// so that both are read in whole words.
//
//   quants | row 0: unit 0, unit 1, .. | row 1 | ..      scales | unit 0: row 0, row 1, .. | unit 1
//   | ..
//
// A unit is four neighbouring blocks of a row (the last of a row may have fewer), of 32 elements
// each. Four lanes share it: lane q has elements 8 q to 8 q + 7 of each of its blocks, one word a
// block, side by side: 16 bytes of a whole unit of 4 bits, 32 of 8 bits. A block's scale is an f16,
// and behind it in q4_1 its least.
//
// In a word of 4 bits, elements 2 j and 2 j + 1 are the nibbles at bits 4 j and 16 + 4 j: as halves
// of one register, when it is shifted by 4 j. Of 8 bits, byte e is element e, with 128 added.
//
// kFormat is 40, 41 or 80, as in block_sums.cuh.
#pragma once

constexpr int kBlock = 32, kUnit = 4;

template <int kFormat> struct Repacked {
  static constexpr int kQuantBytes = kFormat == 80 ? 32 : 16; // of a block
  static constexpr int kWordBytes = kQuantBytes / 4;          // a lane's of a block
  static constexpr int kScaleBytes = kFormat == 41 ? 4 : 2;   // of a block

  // The blocks of the unit that block `b` of a row is in; kUnit where it is known to be whole.
  template <bool kWhole = false>
  static __device__ __forceinline__ int blocks_of_unit(long long b, long long blocks) {
    if (kWhole)
      return kUnit;
    const long long rest = blocks - b / kUnit * kUnit;
    return rest < kUnit ? int(rest) : kUnit;
  }

  // Bytes from the beginning on: of lane `q`'s word of block b of row `row`, and of the block's
  // scale.
  template <bool kWhole = false>
  static __device__ __forceinline__ long long word_at(long long row, long long b, int q,
                                                      long long blocks) {
    return (row * blocks + b / kUnit * kUnit) * kQuantBytes +
           (q * blocks_of_unit<kWhole>(b, blocks) + b % kUnit) * kWordBytes;
  }
  template <bool kWhole = false>
  static __device__ __forceinline__ long long scale_at(long long row, long long b, long long rows,
                                                       long long blocks) {
    return rows * blocks * kQuantBytes +
           (b / kUnit * kUnit * rows + row * blocks_of_unit<kWhole>(b, blocks) + b % kUnit) *
               kScaleBytes;
  }
};
