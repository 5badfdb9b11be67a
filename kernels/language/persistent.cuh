// A decode step as one launch: phases, one after the other, by blocks that stay. What a phase
// gives, later ones read from words in memory; a product's phases have one ring in shared memory,
// which is filled for the next product before the block waits for what that one reads.
//
//   words: [16 + ..] of 64 bits: the steps that have ended, how many blocks have left; then a word
//   for each element that goes from phase to phase, for each tile of rows that go to caches, and
//   counters
//
// A word is {value, step}: low 32 bits and high 32 bits, stored and loaded as one. So it needs
// neither a fence nor a flag: whoever finds the step has the value. Each element has a word of its
// own, which is written once a step; what it holds while it is waited for is the step before, or
// the zeros of the beginning, of which step 1 is waited for first. Steps are counted in 32 bits and
// may go round. Rows of caches are memory without steps: the word of their tile is stored with
// release behind them, and loaded with acquire.
//
// All blocks read the count of steps when they begin; the last one to leave adds one, so nobody
// waits for that. The words are state of the session: zeros when it opens, and after a step that
// failed.
//
// With more than one block the grid is launched cooperatively, since blocks wait for one another. A
// thread that has asked MOST_TRIES times says so in a symbol, and its block ends; so do the others
// after as many. One block waits for nobody: phases come in the order in which they read one
// another.
//
// All tiles of products of one kind of weights are multiplied by one loop, whose sizes are those of
// a Tile: a phase has text for what it reads before, and what it does behind.
//
// Options: MOST_TRIES; RINGS_AT; MOST_GIVEN, MOST_NORMED, PRODUCTS, what a block has of rows,
// normed rows and products; PHASES, ROW_WORDS, COMMONS of the table of phases; WARP_RING; SCATTERED
// where a tile's columns may be no two runs; HAS_SUM where norms of some phases read sums; those of
// products.cuh.
#pragma once

typedef unsigned long long u64;

// What follows from a thread's numbers is the same in all phases, so it would be computed in front
// of the loop over them, for all forms together, and kept in more registers than there are. A phase
// reads a zero that only memory knows, and has its numbers from that.
__shared__ unsigned zero_of_phase;
struct ThreadNumbers {
  unsigned x, y, z;
};
__device__ __forceinline__ ThreadNumbers thread_of_phase() {
  unsigned zero;
  asm("ld.shared.u32 %0, [%1];"
      : "=r"(zero)
      : "r"(unsigned(__cvta_generic_to_shared(&zero_of_phase))));
  return {threadIdx.x + zero, threadIdx.y + zero, zero};
}
#define threadIdx thread_of_phase()

#include "language/publish.cuh"
#include "linear/products.cuh"

#ifndef MOST_TRIES
#define MOST_TRIES (1u << 26)
#endif

__device__ __forceinline__ u64 load_relaxed(const u64 *from) {
  u64 word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
}
__device__ __forceinline__ u64 load_acquire(const u64 *from) {
  u64 word;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  return word;
}

template <class E> __device__ __forceinline__ u64 word_of(E value, unsigned step) {
  static_assert(sizeof(E) <= 4, "a value has 32 bits");
  unsigned bits = 0;
  memcpy(&bits, &value, sizeof(E));
  return u64(step) << 32 | bits;
}
template <class E> __device__ __forceinline__ E value_of(u64 word) {
  const unsigned bits = unsigned(word);
  E value;
  memcpy(&value, &bits, sizeof(E));
  return value;
}
__device__ __forceinline__ bool is_of(u64 word, unsigned step) {
  return unsigned(word >> 32) == step;
}

// Address of a phase's rows: of their words, or with kPlain set of memory that the launch finds as
// it is, or leaves.
constexpr u64 kPlain = 1;
template <class E> __device__ __forceinline__ E *plain(u64 at) {
  return reinterpret_cast<E *>(at & ~kPlain);
}

// Target of a phase that writes element by element.
template <class E> struct Given {
  u64 at;
  unsigned step;
  struct Element {
    u64 at;
    unsigned step;
    long long number;
    __device__ __forceinline__ void operator=(E value) const {
      if (at & kPlain)
        plain<E>(at)[number] = value;
      else
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(plain<u64>(at) + number),
                     "l"(word_of(value, step))
                     : "memory");
    }
  };
  template <class Number> __device__ __forceinline__ Element operator[](Number number) const {
    return {at, step, (long long)(number)};
  }
};

// A block's shared memory; rings follow at RINGS_AT. A row of the table: the phase's form, the
// number of the next row of a product, how many tiles the phase has, and addresses; what all rows
// of a form have is common.
struct Shared {
  u64 table[PHASES][ROW_WORDS], common[COMMONS];
  __align__(16) T given[MOST_GIVEN], normed[MOST_NORMED];
  StreamSums partial;
  Sums sums[PRODUCTS];
  cugrt_symbol<long long> gave_up;
  unsigned step;
};
static_assert(sizeof(Shared) <= RINGS_AT, "rings begin behind it");
extern __shared__ __align__(128) Byte memory_of_block[];
#define SHARED (*reinterpret_cast<Shared *>(memory_of_block))

// The columns of a tile, as those of products.cuh have them.
#ifdef SCATTERED
struct ColumnsOfTile {
  unsigned width, turned; // of heads; 0: in order
  static constexpr bool kHasRuns = false;
  template <int kTile> static __device__ __forceinline__ ColumnsOfTile of(InOrderOf<kTile>, long) {
    return {1, 0};
  }
  template <bool kInterleaved, bool kInSixteens, int kTile>
  static __device__ __forceinline__ ColumnsOfTile
  of(InPairs<kInterleaved, kInSixteens, kTile> columns, long) {
    return {kInterleaved ? 1u : columns.width, kInterleaved ? 0u : columns.turned};
  }
  __device__ __forceinline__ unsigned column(unsigned place) const {
    const unsigned within = place % width;
    return within >= turned ? place : place - within + within % 2 * (turned / 2) + within / 2;
  }
  __device__ __forceinline__ unsigned least_column(unsigned place) const { return place; }
  __device__ __forceinline__ unsigned apart(unsigned) const { return 8; }
  __device__ __forceinline__ int row(unsigned, int o) const { return o; }
};
#else
struct ColumnsOfTile {
  unsigned begin, least, apart_by; // of 16 places
  bool has_halves;
  static constexpr bool kHasRuns = true;
  template <class Columns>
  static __device__ __forceinline__ ColumnsOfTile of(Columns columns, long long begin) {
    return {unsigned(begin), columns.least_column(unsigned(begin)), columns.apart(unsigned(begin)),
            columns.row(unsigned(begin), 1) != 1};
  }
  __device__ __forceinline__ unsigned column(unsigned place) const {
    const unsigned r = row(begin, place - begin);
    return least + r + (r < 8 ? 0 : apart_by - 8);
  }
  __device__ __forceinline__ unsigned least_column(unsigned) const { return least; }
  __device__ __forceinline__ unsigned apart(unsigned) const { return apart_by; }
  __device__ __forceinline__ int row(unsigned, int o) const {
    return has_halves ? o % 2 * 8 + o / 2 : o;
  }
};
#endif

// The next product of a block: tile `number` of so many matrices [n, k] of a kind of weights.
struct Tile {
  const Byte *w[PRODUCTS];
  const T *bias[PRODUCTS];
  unsigned products, unit, number, n, k;
  ColumnsOfTile columns;
};
template <int kProducts, class Columns>
__device__ __forceinline__ Tile tile_of_part(const Byte *const (&w)[kProducts],
                                             const T *const (&bias)[kProducts], unsigned unit,
                                             long long tile, long long n, long long k,
                                             Columns columns) {
  const long long place = tile * COLUMNS, last = n < COLUMNS ? 0 : n - COLUMNS;
  Tile made;
#pragma unroll
  for (int i = 0; i < PRODUCTS; ++i)
    made.w[i] = w[i < kProducts ? i : 0], made.bias[i] = bias[i < kProducts ? i : 0];
  made.products = kProducts, made.unit = unit, made.number = unsigned(tile);
  made.n = unsigned(n), made.k = unsigned(k);
  made.columns = ColumnsOfTile::of(columns, place < last ? place : last);
  return made;
}

// kDepths: the sizes k of all tiles of this kind.
template <class Unit, int... kDepths>
__device__ __forceinline__ long long depth_of(const Tile &tile) {
  constexpr int kFirst = (kDepths, ...);
  if constexpr (((kDepths == kFirst) && ...))
    return kFirst;
  if constexpr (((kDepths % Unit::kElements == 0) && ...))
    __builtin_assume(tile.k % Unit::kElements == 0);
  return tile.k;
}
template <class Unit, int... kDepths> __device__ __forceinline__ void begin_tile(const Tile &tile) {
  begin_stream<Unit>((const T *)nullptr, tile.w, tile.number, tile.n,
                     depth_of<Unit, kDepths...>(tile), tile.columns, memory_of_block + RINGS_AT,
                     tile.products);
}
template <class Unit, int... kDepths>
__device__ __forceinline__ void multiply_tile(const Tile &tile, const T *x) {
  multiply_stream<Unit>(x, tile.w, tile.bias, tile.number, ROWS, tile.n,
                        depth_of<Unit, kDepths...>(tile), tile.columns, memory_of_block + RINGS_AT,
                        SHARED.partial, SHARED.sums, tile.products);
}

// The rows that a phase reads: `count` elements, 0 for none, and the norm's parameters. Where they
// are summed that norm is of residual + first norm(rows), which the first block gives to others.
struct Rows {
  u64 from;
  int count;
  bool is_normed;
  const T *scale, *bias;
#ifdef HAS_SUM
  bool is_summed, is_given;
  u64 residual;
  const T *first_scale, *first_bias;
  Given<T> sum;
#endif
};

// Values of the table that are known before a launch: kOfWords marks numbers of words, kOfLaunch
// places where the launch has an address. The kernel adds the addresses in the place that this
// returns: all rows, and behind them the common ones.
constexpr u64 kOfWords = 1ull << 62, kOfLaunch = 1ull << 63;
template <int kCount>
__device__ __forceinline__ u64 *fill_known(u64 *words, const u64 (&known)[kCount]) {
  u64 *const table = &SHARED.table[0][0];
  for (int i = warp_anew() * 32 + thread_anew(); i < kCount; i += kThreads)
    if (const u64 word = known[i]; word != kOfLaunch)
      table[i] = word & kOfWords ? u64(words + (word & ~kOfWords)) : word;
  return table;
}

// Asks for the first weights of tile `number` of a row's product.
__device__ void begin_product(const u64 *row, long long number);
// What a block begins behind tile `number` of a row's product, or behind a product that has no tile
// for it: the next one, of this or of the product that follows.
__device__ __forceinline__ void go_on(const u64 *row, long long number) {
  if (number + gridDim.x < row[2])
    begin_product(row, number + gridDim.x);
  else if (row[1] < PHASES)
    begin_product(SHARED.table[row[1]], blockIdx.x);
}

// A thread in a phase.
struct Walk {
  const int thread = threadIdx.y * 32 + threadIdx.x;
  const unsigned step = SHARED.step;
  unsigned tries = 0;

  // Whether all threads of the block have found what they waited for.
  __device__ __forceinline__ bool meet() const {
    const bool late = tries >= MOST_TRIES;
    if (late)
      cugrt_gave_up(SHARED.gave_up);
    return !__syncthreads_or(late);
  }

  // `count` elements, an even number. False where one did not come in time.
  template <class E> __device__ __forceinline__ bool gather(u64 from, E *to, int count) {
    constexpr int kAhead = 4, kEach = 2 * kThreads;
    if (from & kPlain)
#pragma unroll 1
      for (int i = thread; i < count; i += kThreads)
        to[i] = plain<const E>(from)[i];
    else
#pragma unroll 1
      for (int first = 2 * thread; first < count; first += kAhead * kEach) {
        u64 word[kAhead][2] = {};
        const auto load = [&](int j) {
          asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                       : "=l"(word[j][0]), "=l"(word[j][1])
                       : "l"(plain<const u64>(from) + first + j * kEach)
                       : "memory");
        };
#pragma unroll
        for (int j = 0; j < kAhead; ++j)
          if (first + j * kEach < count)
            load(j);
#pragma unroll
        for (int j = 0; j < kAhead; ++j)
          if (const int at = first + j * kEach; at < count) {
            while ((!is_of(word[j][0], step) || !is_of(word[j][1], step)) && ++tries < MOST_TRIES)
              load(j);
            to[at] = value_of<E>(word[j][0]);
            to[at + 1] = value_of<E>(word[j][1]);
          }
      }
    return meet();
  }

  // A row's `count` elements, an even number, to SHARED.given; of a sum the residual, which has
  // been there for a while, to SHARED.normed.
  __device__ __forceinline__ bool take(const Rows &rows) {
#ifdef HAS_SUM
#pragma unroll 1
    for (int turn = rows.is_summed ? 0 : 1; turn < 2; ++turn)
      if (!gather(turn == 0 ? rows.residual : rows.from, turn == 0 ? SHARED.normed : SHARED.given,
                  rows.count))
        return false;
    return true;
#else
    return gather(rows.from, SHARED.given, rows.count);
#endif
  }

#ifdef HAS_SUM
  // Writes the sum of the normed and the given rows in SHARED over the given ones.
  __device__ __forceinline__ void add_residual(const Rows &rows) const {
#pragma unroll 1
    for (int i = thread; i < rows.count; i += kThreads) {
      const T sum = T(Acc(SHARED.normed[i]) + Acc(SHARED.given[i]));
      SHARED.given[i] = sum;
      if (rows.is_given && blockIdx.x == 0)
        rows.sum[i] = sum;
    }
    __syncthreads();
  }
#endif

  // The block's threads have written a tile of rows of a cache.
  __device__ __forceinline__ void arrive(u64 *word) const {
    __syncthreads();
    if (thread == 0)
      asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(u64(step) << 32)
                   : "memory");
  }
  // Waits until all of `count` tiles have come; the block has to meet behind it.
  __device__ __forceinline__ void await(const u64 *words, int count) {
#pragma unroll 1
    for (int i = thread; i < count; i += kThreads)
      while (!is_of(load_acquire(words + i), step) && ++tries < MOST_TRIES)
        ;
  }
};

// Source of a phase that reads element by element.
template <class E> struct Taken {
  u64 at;
  Walk &walk;
  template <class Number> __device__ __forceinline__ E operator[](Number number) const {
    if (at & kPlain)
      return plain<const E>(at)[number];
    u64 word;
    do
      word = load_relaxed(plain<const u64>(at) + number);
    while (!is_of(word, walk.step) && ++walk.tries < MOST_TRIES);
    return value_of<E>(word);
  }
};

// A thread's phase lies in shared memory meanwhile: registers are for what phases compute.
__shared__ unsigned short phase_of_thread[kThreads];
__device__ __forceinline__ volatile unsigned short &own_phase() {
  return *(volatile unsigned short *)&phase_of_thread[warp_anew() * 32 + thread_anew()];
}
__device__ __forceinline__ const u64 *begin_phase(int p) {
  own_phase() = (unsigned short)(p);
  return SHARED.table[p];
}
__device__ __forceinline__ int next_phase() { return own_phase() + 1; }

// Call before the first phase: also fills the table.
__device__ __forceinline__ void enter(const u64 *words, const cugrt_symbol<long long> &gave_up) {
  if (warp_anew() == 0 && thread_anew() == 0) {
    zero_of_phase = 0;
    SHARED.gave_up = gave_up;
    SHARED.step = unsigned(load_relaxed(words)) + 1;
  }
  __syncthreads();
}

// The block leaves; the last one ends the step.
__device__ __forceinline__ void leave(u64 *words) {
  if (threadIdx.y != 0 || threadIdx.x != 0 ||
      join(reinterpret_cast<unsigned *>(words + 1), 1) + 1 != gridDim.x)
    return;
  *reinterpret_cast<unsigned *>(words + 1) = 0;
  words[0] = SHARED.step;
}
