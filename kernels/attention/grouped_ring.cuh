// The ring through which a warp's tiles of keys and values come: attention_grouped.cu.
//
// A slot has 16 rows of keys and 16 of values. Of T they are a tile as it is multiplied. Of q8_0
// they are blocks as they are stored; each tile becomes T, in a place of the warp's own, before it
// is multiplied, its elements rounded once.
#pragma once

#include "attention/grouped_tiles.cuh"

#ifndef STAGES
#define STAGES 2
#endif

// Bytes of a row in a slot, and of a copy; copies of a row.
__device__ constexpr int low_bit(int n) { return n & -n; }
#ifdef CACHE_Q8_0
constexpr int kSlotRow = kWidth / kCacheBlock * kCacheBlockBytes;
constexpr int kCopy = low_bit(kSlotRow) < 16 ? low_bit(kSlotRow) : 16;
constexpr int kCopies = kSlotRow / kCopy, kOwnTiles = 2 * kTileBytes;
static_assert(kCopy >= 4, "what cp.async moves");
#else
constexpr int kSlotRow = kPitch, kCopy = 16, kCopies = kChunks, kOwnTiles = 0;
#endif
constexpr int kSlotTile = kTile * kSlotRow, kSlotBytes = 2 * kSlotTile;
// Shared memory of a warp: its tiles that become T, and the ring.
constexpr int kWarpBytes = kOwnTiles + STAGES * kSlotBytes;
static_assert(STAGES >= 2 && kWarpBytes % 128 == 0 && kLeftBytes <= kWarpBytes, "there is room");

#if __CUDA_ARCH__ >= 800

// Lanes that copy neighbouring pieces of a row; rows that a warp copies at a time.
constexpr int kAcross = kOwnTiles > 0 || kCopies % 8 == 0 ? 8 : kCopies % 4 == 0 ? 4 : 2;
constexpr int kRowsAtOnce = 32 / kAcross;

// Where a piece of a row lies in a slot's keys or values.
__device__ __forceinline__ unsigned piece_at(int row, int piece) {
#ifdef CACHE_Q8_0
  return unsigned(row * kSlotRow + piece * kCopy);
#else
  return place_of(row, piece);
#endif
}

// A copy of kCopy bytes from so many bytes behind an address, or zeros.
template <int kBehind>
__device__ __forceinline__ void copy_or_clear(bool is_there, unsigned to, const void *from) {
  if constexpr (kCopy == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1 + %3], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? 16 : 0), "n"(kBehind)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1 + %3], %4, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? kCopy : 0), "n"(kBehind), "n"(kCopy)
                 : "memory");
}
// The lane's pieces of a row, from its first one on; `to`: where that one goes.
template <int kPiece = 0>
__device__ __forceinline__ void copy_row(bool is_there, unsigned to, const void *from) {
  if (kPiece + kAcross <= kCopies || int(threadIdx.x) % kAcross + kPiece < kCopies)
    copy_or_clear<kPiece * kCopy>(is_there, to + kPiece * kCopy, from);
  if constexpr (kPiece + kAcross < kCopies)
    copy_row<kPiece + kAcross>(is_there, to, from);
}

#ifdef CACHE_Q8_0
// Four elements of a block as two pairs of T.
__device__ __forceinline__ void scale_four(unsigned quants, __half scale, unsigned *to) {
  quants ^= 0x80808080u; // from 0 on
#ifdef DTYPE_F16
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned above = __byte_perm(quants, 0x64646464u, i == 0 ? 0x4140 : 0x4342); // 1024 + q
    const __half2 pair = __hmul2(__hsub2(*reinterpret_cast<const __half2 *>(&above),
                                         __half2half2(__ushort_as_half(0x6480))), // 1152
                                 __half2half2(scale));
    to[i] = *reinterpret_cast<const unsigned *>(&pair);
  }
#else
  float element[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) // 2^23 + q
    element[e] = (__uint_as_float(__byte_perm(quants, 0x4b000000u, 0x7540 + e)) - 8388736.0f) *
                 __half2float(scale);
#pragma unroll
  for (int i = 0; i < 2; ++i)
    to[i] = pair_of(T(element[2 * i]), T(element[2 * i + 1]));
#endif
}

// The keys and values of a slot as T: sixteen elements of a row at a time.
__device__ __forceinline__ void expand(unsigned slot, unsigned tile) {
  constexpr int kParts = kWidth / 16;
#pragma unroll
  for (int i = 0; i < 2 * kTile * kParts / 32; ++i) {
    const int part = int(threadIdx.x % 32) + i * 32, row = part / kParts, column = part % kParts;
    const unsigned block = slot + row * kSlotRow + column / 2 * kCacheBlockBytes,
                   from = block + 2 + column % 2 * (kCacheBlock / 2);
    unsigned short bits;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(block) : "memory");
    unsigned word[5] = {}, pair[8]; // words of four bytes, from one that begins two before
#pragma unroll
    for (int w = 0; w < 5; ++w)
      if (w < 4 || from % 4 != 0)
        asm volatile("ld.shared.u32 %0, [%1];"
                     : "=r"(word[w])
                     : "r"(from / 4 * 4 + w * 4)
                     : "memory");
#pragma unroll
    for (int w = 0; w < 4; ++w)
      scale_four(__byte_perm(word[w], word[w + 1], from % 4 != 0 ? 0x5432 : 0x3210),
                 __ushort_as_half(bits), pair + 2 * w);
#pragma unroll
    for (int h = 0; h < 2; ++h)
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(
                       tile + row / kTile * kTileBytes + place_of(row % kTile, column * 2 + h)),
                   "r"(pair[4 * h]), "r"(pair[4 * h + 1]), "r"(pair[4 * h + 2]),
                   "r"(pair[4 * h + 3])
                   : "memory");
  }
}
#endif

// A warp's tiles of keys and values, `stride` elements or bytes from position to position: those
// that begin at `at` and every kStep behind it, up to `end`.
struct Tiles {
  const Cached *keys, *values; // of position 0
  long long stride;
  unsigned own; // the warp's shared memory
  int at, end;

  __device__ __forceinline__ unsigned slot(int number) const {
    return own + kOwnTiles + number * kSlotBytes;
  }
  // Whether copies may be asked for.
  __device__ __forceinline__ bool are_aligned() const {
    return (((unsigned long long)(keys) | (unsigned long long)(values) |
             (unsigned long long)(stride * sizeof(Cached))) %
            kCopy) == 0;
  }

  // Asks for the tile at a position, into a slot: zeros from `end` on.
  __device__ __forceinline__ void copy(unsigned slot, int position) const {
    const int lane = threadIdx.x % 32, row = lane / kAcross, piece = lane % kAcross;
    const long long from = (position + row) * stride + piece * (kCopy / int(sizeof(Cached)));
#pragma unroll
    for (int r = 0; r < kTile; r += kRowsAtOnce) {
      const bool is_there = position + row + r < end;
      const unsigned to = slot + piece_at(row + r, piece);
      copy_row(is_there, to, keys + from + r * stride);
      copy_row(is_there, to + kSlotTile, values + from + r * stride);
    }
  }
  // The same of rows that begin anywhere.
  __device__ __forceinline__ void store(unsigned slot, int position) const {
    constexpr int kBytes = int(sizeof(Cached)), kEach = kCopies * kCopy / kBytes; // of a row
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < 2 * kTile * kEach; i += 32) {
      const int element = i % kEach, row = i / kEach % kTile, byte = element * kBytes;
      const Cached *const from = i < kTile * kEach ? keys : values;
      unsigned short bits = 0;
      if (position + row < end) {
        const Cached x = from[(position + row) * stride + element];
        memcpy(&bits, &x, kBytes);
      }
      const unsigned to =
          slot + i / (kTile * kEach) * kSlotTile + piece_at(row, byte / kCopy) + byte % kCopy;
      if constexpr (kBytes == 2)
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(bits) : "memory");
      else
        asm volatile("st.shared.u8 [%0], %1;" ::"r"(to), "h"(bits) : "memory");
    }
  }
  // A slot's tile as it is multiplied.
  __device__ __forceinline__ unsigned ready(unsigned slot) const {
#ifdef CACHE_Q8_0
    expand(slot, own);
    __syncwarp();
    return own;
#else
    return slot;
#endif
  }

  // add(tile, position) of each. Nothing is on its way behind it.
  template <bool kAligned, class Add> __device__ __forceinline__ void each(Add add) const {
    if constexpr (kAligned) {
#pragma unroll
      for (int s = 0; s < STAGES - 1; ++s) {
        if (at + s * kStep < end)
          copy(slot(s), at + s * kStep);
        end_copies();
      }
      unsigned now = slot(0), next = slot(STAGES - 1);
#pragma unroll 1
      for (int position = at; position < end; position += kStep) {
        wait_for_copies<STAGES - 2>();
        __syncwarp(); // of all lanes; and the tile before has been read
        if (position + (STAGES - 1) * kStep < end)
          copy(next, position + (STAGES - 1) * kStep);
        end_copies();
        next = next == slot(STAGES - 1) ? slot(0) : next + kSlotBytes;
        add(ready(now), position);
        now = now == slot(STAGES - 1) ? slot(0) : now + kSlotBytes;
      }
      wait_for_copies<0>();
    } else {
#pragma unroll 1
      for (int position = at; position < end; position += kStep) {
        __syncwarp();
        store(slot(0), position);
        __syncwarp();
        add(ready(slot(0)), position);
      }
    }
  }
};

#endif
