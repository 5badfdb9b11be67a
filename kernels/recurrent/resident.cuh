// Recurrent networks whose weights stay on the chip: the blocks of a direction share its hidden
// units, a warp each, and hold their weights in registers through the whole sequence. After each
// round the blocks exchange the state through words in memory. Part of recurrent.cu, with its
// parameters and options.
//
//   words: [16 + directions x 2 x SEQUENCES x pitch] of 64 bits: a counter for each direction, then
//   two rows of words for each sequence, of which a round takes the one by its turn's last bit
//
// A word is {value, turn}: low 32 bits and high 32 bits, stored and loaded as one. So it needs
// neither a fence nor a flag: whoever finds the turn has the value. A block publishes a turn only
// after all its threads have the one before it, which every block has published by then; so nobody
// still reads the row that is written, and two rows are enough.
//
// Turns go on from run to run: the first block of a direction counts the published ones at its end,
// when all blocks have read the counter, since all have published. Turns are counted in 32 bits and
// may go round: what a row holds while it is waited for is always the turn two before, or the zeros
// of the beginning, of which turn 1 and 2 are waited for first. The words are state of the session:
// zeros when it opens, never shared.
//
// The grid is launched cooperatively, since blocks wait for one another. A thread that has asked
// MOST_TRIES times says so in `turn`, and its block ends; so do the others after as many.
//
// Options: SEQUENCES, the most there may be, up to 8; MOST_TRIES.
#pragma once

#include "shared/device_symbol.cuh"

typedef unsigned long long u64;

#ifndef MOST_TRIES
#define MOST_TRIES (1u << 26)
#endif

namespace resident {

constexpr int kUnits = 8, kThreads = 32 * kUnits; // of a block
constexpr int kPitch = (MAX_WIDTH + 127) / 128 * 128;
constexpr int kEach = kPitch / 32; // weights that a lane has of a column
constexpr int kHead = 16;
constexpr int kSequences = SEQUENCES;

struct State {
  Acc x[2][kSequences]
       [kPitch]; // what the weights are multiplied by; elements beyond `hidden` are 0
  u64 counter;
};

__device__ __forceinline__ u64 load_relaxed(const u64 *from) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

__device__ __forceinline__ void store_relaxed(u64 *to, u64 value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

// One block's part, and what its warp and its lanes have. The four lanes of a group have a
// sequence: those of its gates 0 to 3.
struct Part {
  long long direction, unit; // unit: may be beyond the hidden ones
  int lane, sequence, gate;  // of the lane
  bool counts, owns;         // the direction's first block; the lane has a unit's sequence
  u64 *words;                // of the direction
  unsigned turn;             // of what was published last
  int slot;                  // of State::x

  __device__ __forceinline__ Part(u64 *all, long long batch, long long hidden) {
    const long long blocks = (hidden + kUnits - 1) / kUnits;
    direction = (long long)(blockIdx.x) / blocks;
    unit = (long long)(blockIdx.x) % blocks * kUnits + threadIdx.x / 32;
    lane = threadIdx.x % 32;
    sequence = lane / 4;
    gate = lane % 4;
    counts = (long long)(blockIdx.x) % blocks == 0 && threadIdx.x == 0;
    owns = sequence < batch && unit < hidden;
    words = all + kHead + direction * 2 * kSequences * kPitch;
    slot = 0;
  }

  // For the next turn, by all lanes of a group; `publish` is called for each turn once.
  __device__ __forceinline__ void publish(Acc value) {
    ++turn;
    if (owns && gate == 0)
      store_relaxed(words + ((turn & 1) * kSequences + sequence) * kPitch + unit,
                    u64(turn) << 32 | __float_as_uint(value));
  }

  // All values of the turn, to the other slot. False where a block did not publish it in time.
  __device__ __forceinline__ bool gather(State &state, int batch, int hidden,
                                         const cugrt_symbol<long long> &symbol) {
    slot ^= 1;
    const u64 *from = words + (turn & 1) * kSequences * kPitch;
    unsigned tries = 0;
#pragma unroll 1
    for (int b = 0; b < batch; ++b)
#pragma unroll 1
      for (int i = threadIdx.x * 2; i < hidden; i += 2 * kThreads) {
        const bool both = i + 1 < hidden;
        u64 p, q;
        do
          asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                       : "=l"(p), "=l"(q)
                       : "l"(from + b * kPitch + i)
                       : "memory");
        while ((unsigned(p >> 32) != turn || (both && unsigned(q >> 32) != turn)) &&
               ++tries < MOST_TRIES);
        state.x[slot][b][i] = __uint_as_float(unsigned(p));
        if (both)
          state.x[slot][b][i + 1] = __uint_as_float(unsigned(q));
      }
    const bool late = tries >= MOST_TRIES;
    if (late)
      cugrt_gave_up(symbol);
    return !__syncthreads_or(late);
  }

  __device__ __forceinline__ void count(u64 *all, const State &state) const {
    if (counts)
      store_relaxed(all + direction, state.counter + (turn - unsigned(state.counter)));
  }
};

// The weights of kGates columns of a unit, those of gates first on.
template <int kGates, int kAll>
__device__ __forceinline__ void load_weights(Acc (&weights)[kGates][kEach], const T *recurrent,
                                             const Part &part, int first, int hidden) {
  const T *from = recurrent + part.direction * hidden * kAll * hidden + part.unit;
#pragma unroll
  for (int g = 0; g < kGates; ++g)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int k = j / 4 * 128 + part.lane * 4 + j % 4;
      weights[g][j] = k < hidden && part.unit < hidden
                          ? Acc(from[(long long)(k)*kAll * hidden + (first + g) * hidden])
                          : Acc(0);
    }
}

// The lane's gate of its own sequence: columns times what `x` has of it. Every sequence has the
// same order of sums, however many there are.
template <int kGates>
__device__ __forceinline__ Acc product(const Acc (&weights)[kGates][kEach], const Acc (*x)[kPitch],
                                       int batch, const Part &part) {
  Acc own = 0;
#pragma unroll 1
  for (int b = 0; b < batch; ++b) {
    Acc sum[4] = {};
#pragma unroll
    for (int j = 0; j < kEach; j += 4) {
      const float4 v = *reinterpret_cast<const float4 *>(&x[b][j * 32 + part.lane * 4]);
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        sum[g] = fma(weights[g][j], v.x, sum[g]);
        sum[g] = fma(weights[g][j + 1], v.y, sum[g]);
        sum[g] = fma(weights[g][j + 2], v.z, sum[g]);
        sum[g] = fma(weights[g][j + 3], v.w, sum[g]);
      }
    }
    // Pairs of lanes keep a pair of gates each, then one: lane l ends with gate l % 4.
    const bool odd = part.lane & 1, upper = part.lane & 2;
    const Acc low = (odd ? sum[1] : sum[0]) + __shfl_xor_sync(~0u, odd ? sum[0] : sum[1], 1);
    const Acc high = (odd ? sum[3] : sum[2]) + __shfl_xor_sync(~0u, odd ? sum[2] : sum[3], 1);
    Acc all = (upper ? high : low) + __shfl_xor_sync(~0u, upper ? low : high, 2);
#pragma unroll
    for (int step = 4; step < 32; step *= 2)
      all += __shfl_xor_sync(~0u, all, step);
    own = b == part.sequence ? all : own;
  }
  return own;
}

// What another lane of the group has.
__device__ __forceinline__ Acc of_gate(const Part &part, Acc value, int gate) {
  return __shfl_sync(~0u, value, (part.lane & ~3) + gate);
}

} // namespace resident

// The beginning of each: `part`, its lane's sequence, and the state before the first step.
#define RESIDENT_BEGIN                                                                             \
  __builtin_assume(ASSUME);                                                                        \
  using namespace resident;                                                                        \
  __shared__ __align__(16) State state;                                                            \
  Part part(words, batch, hidden);                                                                 \
  Place place;                                                                                     \
  place.direction = part.direction;                                                                \
  place.sequence = part.sequence;                                                                  \
  place.length = part.sequence < batch ? limited(LENGTH_OF(part.sequence), steps) : 0;             \
  place.reversed = REVERSED;                                                                       \
  const int sequences = int(batch), width = int(hidden);                                           \
  long long total = 0;                                                                             \
  for (int b = 0; b < sequences; ++b) {                                                            \
    const long long length = limited(LENGTH_OF(b), steps);                                         \
    total = length > total ? length : total;                                                       \
  }                                                                                                \
  for (int b = 0; b < kSequences; ++b)                                                             \
    for (int i = threadIdx.x; i < kPitch; i += kThreads) {                                         \
      state.x[0][b][i] = b < sequences && i < width                                                \
                             ? FIRST_HIDDEN((part.direction * batch + b) * hidden + i)             \
                             : Acc(0);                                                             \
      state.x[1][b][i] = 0;                                                                        \
    }                                                                                              \
  if (threadIdx.x == 0)                                                                            \
    state.counter = load_relaxed(words + part.direction);                                          \
  const long long own = (part.direction * batch + part.sequence) * hidden + part.unit;             \
  Acc h = part.owns ? FIRST_HIDDEN(own) : Acc(0)

// The gate's element of what the inputs give at a step, of `count` gates; 0 where the lane has
// none.
#define RESIDENT_GATE(s, count)                                                                    \
  part.owns &&part.gate < count &&s < place.length                                                 \
      ? Acc((GATES_OF(s, count))[part.gate * hidden + part.unit])                                  \
      : Acc(0)

#define RESIDENT_RESULT(s)                                                                         \
  if (part.owns && part.gate == 0 && s < place.length)                                             \
  (RESULT_OF(place.step(s)))[part.unit] = T(h)

#define RESIDENT_FINISH                                                                            \
  part.count(words, state);                                                                        \
  if (!part.owns || part.gate != 0)                                                                \
    return;                                                                                        \
  for (long long t = place.length; t < steps; ++t)                                                 \
    (RESULT_OF(t))[part.unit] = T(Acc(0));                                                         \
  last_hidden[own] = LastState(h)

#if defined(CELL_LSTM)
extern "C" __global__ void __launch_bounds__(resident::kThreads, 1)
    lstm_resident(const T *__restrict__ gates,
                  RECURRENT_PARAMETERS HIDDEN_PARAMETER CELL_PARAMETER PEEPHOLES_PARAMETER
                      LENGTHS_PARAMETER RESIDENT_PARAMETERS T *__restrict__ y,
                  LastState *__restrict__ last_hidden, LastState *__restrict__ last_cell, SIZES) {
  RESIDENT_BEGIN;
  Acc weights[4][kEach];
  load_weights<4, 4>(weights, recurrent, part, 0, width);
  Acc c = part.owns ? FIRST_CELL(own) : Acc(0);
#ifdef HAS_PEEPHOLES
  const bool peeps = part.owns && part.gate < 3;
  const Acc peephole =
      peeps ? Acc(peepholes[(part.direction * 3 + part.gate) * hidden + part.unit]) : Acc(0);
  // Those of i, o and f stand in the order of the gates.
#define RESIDENT_PEEP(value, cell) (part.gate < 3 ? fma(peephole, cell, value) : value)
#else
#define RESIDENT_PEEP(value, cell) value
#endif
  __syncthreads();
  part.turn = unsigned(state.counter);
#pragma unroll 1
  for (long long s = 0; s < total; ++s) {
    const Acc given = RESIDENT_GATE(s, 4);
    if (s > 0 && !part.gather(state, sequences, width, turn))
      return;
    const Acc sum = given + product<4>(weights, state.x[part.slot], sequences, part);
    const Acc before = RESIDENT_PEEP(sum, c);
    const Acc open = part.gate == 3 ? op::tanh(before) : op::sigmoid(before);
    const Acc cell =
        fma(of_gate(part, open, 2), c, of_gate(part, open, 0) * of_gate(part, open, 3));
#ifdef HAS_PEEPHOLES
    const Acc opened = of_gate(part, op::sigmoid(RESIDENT_PEEP(sum, cell)), 1);
#else
    const Acc opened = of_gate(part, open, 1);
#endif
    const Acc next = opened * op::tanh(cell);
    if (s < place.length) {
      c = cell;
      h = next;
    }
    if (s + 1 < total)
      part.publish(h);
    RESIDENT_RESULT(s);
  }
  RESIDENT_FINISH;
  last_cell[own] = LastState(c);
}
#elif defined(CELL_GRU)
extern "C" __global__ void __launch_bounds__(resident::kThreads, 1)
    gru_resident(const T *__restrict__ gates,
                 RECURRENT_PARAMETERS HIDDEN_PARAMETER BIAS_PARAMETER LENGTHS_PARAMETER
                     RESIDENT_PARAMETERS T *__restrict__ y,
                 LastState *__restrict__ last_hidden, SIZES) {
  RESIDENT_BEGIN;
#ifdef HAS_BIAS
  Acc weights[3][kEach];
  load_weights<3, 3>(weights, recurrent, part, 0, width);
  const Acc offset = part.unit < hidden ? Acc(bias[part.direction * hidden + part.unit]) : Acc(0);
#else
  Acc weights[2][kEach], candidate[1][kEach];
  load_weights<2, 3>(weights, recurrent, part, 0, width);
  load_weights<1, 3>(candidate, recurrent, part, 2, width);
#endif
  __syncthreads();
  part.turn = unsigned(state.counter);
#pragma unroll 1
  for (long long s = 0; s < total; ++s) {
    const Acc given = RESIDENT_GATE(s, 3);
    if (s > 0 && !part.gather(state, sequences, width, turn))
      return;
#ifdef HAS_BIAS
    const Acc sum = product<3>(weights, state.x[part.slot], sequences, part);
    const Acc open = op::sigmoid(given + sum);
    const Acc update = of_gate(part, open, 0);
    const Acc made = of_gate(part, open, 1) * (of_gate(part, sum, 2) + offset);
#else
    const Acc sum = product<2>(weights, state.x[part.slot], sequences, part);
    const Acc open = op::sigmoid(given + sum);
    const Acc update = of_gate(part, open, 0);
    part.publish(of_gate(part, open, 1) * h);
    if (!part.gather(state, sequences, width, turn))
      return;
    const Acc made = of_gate(part, product<1>(candidate, state.x[part.slot], sequences, part), 0);
#endif
    const Acc next = op::tanh(of_gate(part, given, 2) + made);
    if (s < place.length)
      h = fma(update, h, (1 - update) * next);
    if (s + 1 < total)
      part.publish(h);
    RESIDENT_RESULT(s);
  }
  RESIDENT_FINISH;
}
#else
extern "C" __global__ void __launch_bounds__(resident::kThreads, 1) rnn_resident(
    const T *__restrict__ gates,
    RECURRENT_PARAMETERS HIDDEN_PARAMETER LENGTHS_PARAMETER RESIDENT_PARAMETERS T *__restrict__ y,
    LastState *__restrict__ last_hidden, SIZES) {
  RESIDENT_BEGIN;
  Acc weights[1][kEach];
  load_weights<1, 1>(weights, recurrent, part, 0, width);
  __syncthreads();
  part.turn = unsigned(state.counter);
#pragma unroll 1
  for (long long s = 0; s < total; ++s) {
    const Acc given = RESIDENT_GATE(s, 1);
    if (s > 0 && !part.gather(state, sequences, width, turn))
      return;
    const Acc sum = product<1>(weights, state.x[part.slot], sequences, part);
    const Acc next = of_gate(part, op::ACTIVATION(given + sum), 0);
    if (s < place.length)
      h = next;
    if (s + 1 < total)
      part.publish(h);
    RESIDENT_RESULT(s);
  }
  RESIDENT_FINISH;
}
#endif
