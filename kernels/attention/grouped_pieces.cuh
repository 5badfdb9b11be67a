// The pieces of attention_grouped.cu, which a block, or those of its threads that MEET,
// compute.
//
// Options: ATTENDED, what the result is given as, by default an address; MEET, a barrier of
// kThreads threads, by default the block's; MOST_CHUNKS, where only some calls have SPLIT, a power
// of two up to it; those of attention_grouped.cu.
#pragma once

#include "attention/attention_parameters.cuh"
#include "attention/grouped_ring.cuh"

#ifndef ATTENDED
#define ATTENDED T *__restrict__
#endif
#ifndef MEET
#define MEET __syncthreads
#endif
#ifndef MOST_CHUNKS
#define MOST_CHUNKS SPLIT
#endif
#ifdef SPLIT
#define RESULT Acc *parts, unsigned *__restrict__ counters, ATTENDED y
#define RESULT_ARGUMENTS parts, counters, y
#else
#define RESULT ATTENDED y
#define RESULT_ARGUMENTS y
#endif

#if __CUDA_ARCH__ >= 800

// One piece of work: of a sequence a chunk, of `chunks`, for one unit: heads and queries that go
// together.
struct Piece {
  long long sequence, length; // positions that are filled
  unsigned unit, chunk, chunks;
  int begin, positions; // of the first chunk; of each
};

// How many chunks a sequence has, at least one, where they begin and their size.
__device__ __forceinline__ unsigned chunks_of(long long length, long long queries, Piece &piece) {
  piece.length = length;
  piece.begin = int(first_seen(seen_by(0, length, queries))) / kTile * kTile;
  const int positions = int(length) - piece.begin;
#ifdef SPLIT
  const int few = MOST_CHUNKS * kStep;
  const int bits = positions <= few ? 0 : 32 - __clz((positions - 1) / few);
  piece.positions = kStep << bits;
  piece.chunks = positions <= 0 ? 1 : unsigned((positions - 1) >> bits) / kStep + 1;
#else
  piece.positions = positions;
  piece.chunks = 1;
#endif
  return piece.chunks;
}

// Every `blocks`-th piece from number `block` on, by kThreads threads, of which this is `thread`.
// `ring`: kWarps * kWarpBytes of shared memory.
__device__ __forceinline__ void attend_pieces(unsigned char *ring, unsigned thread, unsigned block,
                                              unsigned blocks, PARAMETERS(RESULT)) {
  const int warp = thread / 32, lane = thread % 32;
  const unsigned across = unsigned(heads / SHARE),
                 units = across * ((unsigned(queries) + QUERIES - 1) / QUERIES);
  const long long stride = cached_offset(KV_ROW);
  const float factor = scale * 1.44269504088896340736f; // scores are exponents of 2

  // The piece of a number, the same in all lanes; none is left where it says so.
  auto find = [&](unsigned number, Piece &piece) {
#pragma unroll 1
    for (long long first = 0; first < sequences; first += 32) {
      Piece own;
      own.sequence = first + lane;
      const unsigned mine =
          own.sequence < sequences ? chunks_of(LENGTH_OF(own.sequence), queries, own) * units : 0;
      unsigned upto = mine;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const unsigned before = __shfl_up_sync(0xffffffffu, upto, distance);
        upto += lane >= distance ? before : 0;
      }
      const unsigned all = __shfl_sync(0xffffffffu, upto, 31);
      if (number < all) {
        const int at = __popc(__ballot_sync(0xffffffffu, upto <= number)); // sequences before
        number -= __shfl_sync(0xffffffffu, upto - mine, at);
        piece.sequence = first + at;
        chunks_of(LENGTH_OF(piece.sequence), queries, piece);
        piece.unit = number % units;
        piece.chunk = number / units;
        return true;
      }
      number -= all;
    }
    return false;
  };

  Piece piece;
#pragma unroll 1
  for (unsigned number = block; find(number, piece); number += blocks) {
    const int head = int(piece.unit % across) * SHARE, first = int(piece.unit / across) * QUERIES;
    const int here = int(queries) - first < QUERIES ? int(queries) - first : QUERIES;
    // Row r is of query r / SHARE, head r % SHARE.
    auto query_at = [&](int r) { return piece.sequence * queries + first + r / SHARE; };
    auto row_at = [&](int r) { return query_at(r) * heads + head + r % SHARE; }; // of y, of parts
    const int kv_head = head / int(heads / kv_heads);
    const long long cache =
        cached_offset(ROW_OF(piece.sequence) * capacity * KV_ROW + kv_head * kWidth);
    const int least = int(seen_by(first, piece.length, queries)),
              most = int(seen_by(first + here - 1, piece.length, queries));
    Tiles tiles = {keys + cache, values + cache, stride};
    const int begin = piece.begin + int(piece.chunk) * piece.positions;
    tiles.own = shared_address(ring) + warp * kWarpBytes;
    tiles.at = begin + warp * kTile;
    tiles.end = most - begin < piece.positions ? most : begin + piece.positions;
    Rows rows;
    rows.begin([&](int r) { return r < here * SHARE; },
               [&](int r) {
                 r = r < here * SHARE ? r : 0;
                 return q + query_at(r) * Q_ROW + (head + r % SHARE) * kWidth;
               });

    auto add = [&](unsigned tile, int position) {
      const bool is_edge = position + kTile > least || position < first_seen(most);
      rows.add(tile, factor, is_edge, [&](int r, int p) {
        const long long seen =
            QUERIES == 1 ? most : seen_by(first + r / SHARE, piece.length, queries);
        return position + p >= seen || position + p < first_seen(seen);
      });
    };
    // One of both has nothing to do.
    const bool is_aligned = tiles.are_aligned();
    const int end = tiles.end;
    tiles.end = is_aligned ? end : tiles.at;
    tiles.each<true>(add);
    tiles.end = is_aligned ? tiles.at : end;
    tiles.each<false>(add);

    __syncwarp(); // the ring has been read
    rows.leave(reinterpret_cast<float *>(ring + warp * kWarpBytes));
    MEET();
    auto left = [&](int warp, int at) {
      return reinterpret_cast<const float *>(ring + warp * kWarpBytes)[at];
    };
#pragma unroll 1
    for (int i = thread; i < here * SHARE * kWidth; i += kThreads) {
      const int r = i / kWidth, column = i % kWidth, of_row = kRowTiles * 8 * kLeftRow + r * 2;
      float reference = left(0, of_row), value = 0, sum = 0;
#pragma unroll
      for (int w = 1; w < kWarps; ++w)
        reference = fmaxf(reference, left(w, of_row));
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const float keep = power_of_two(left(w, of_row) - reference);
        value = fmaf(left(w, r * kLeftRow + column), keep, value);
        sum = fmaf(left(w, of_row + 1), keep, sum);
      }
#ifdef SPLIT
      if (piece.chunks > 1) {
        Acc *const part = parts + (row_at(r) * SPLIT + piece.chunk) * (kWidth + 2);
        part[column] = value;
        if (column == 0)
          part[kWidth] = reference, part[kWidth + 1] = sum;
        continue;
      }
#endif
      y[row_at(r) * kWidth + column] = T(sum == 0 ? 0 : value * inverse_of(sum));
    }
    MEET(); // what the warps left has been read, and the part is written
#ifdef SPLIT
    if (piece.chunks == 1)
      continue;
    __shared__ bool is_last;
    if (thread == 0) {
      __threadfence();
      is_last = atomicInc(counters + piece.sequence * units + piece.unit, piece.chunks - 1) ==
                piece.chunks - 1;
      __threadfence();
    }
    MEET();
    if (!is_last)
      continue;
    // A warp weighs the parts of a row, and all threads add them up.
    float *const weights = reinterpret_cast<float *>(ring); // [row][chunk]
    constexpr int kPart = kWidth + 2, kEach = (SPLIT + 31) / 32;
#pragma unroll
    for (int r = warp; r < kRowTiles * 8; r += kWarps) {
      if (r >= here * SHARE)
        break;
      const Acc *const row = parts + row_at(r) * SPLIT * kPart + kWidth;
      float reference[kEach], sum[kEach], largest = no_reference(), all = 0;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        const int p = lane + e * 32;
        reference[e] = p < piece.chunks ? row[p * kPart] : no_reference();
        sum[e] = p < piece.chunks ? row[p * kPart + 1] : 0;
        largest = fmaxf(largest, reference[e]);
      }
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        reference[e] = power_of_two(reference[e] - largest);
        all = fmaf(sum[e], reference[e], all);
      }
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        all += __shfl_xor_sync(0xffffffffu, all, distance);
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        if (lane + e * 32 < SPLIT)
          weights[r * SPLIT + lane + e * 32] = all == 0 ? 0 : reference[e] * inverse_of(all);
    }
    MEET();
#pragma unroll 1
    for (int i = thread; i < here * SHARE * kWidth; i += kThreads) {
      const int r = i / kWidth;
      const Acc *const part = parts + row_at(r) * SPLIT * kPart + i % kWidth;
      float value = 0;
#pragma unroll 8
      for (unsigned p = 0; p < piece.chunks; ++p)
        value = fmaf(part[p * kPart], weights[r * SPLIT + p], value);
      y[row_at(r) * kWidth + i % kWidth] = T(value);
    }
    MEET(); // of the next piece
#endif
  }
}
#endif
