// Recurrent networks: a whole sequence in one launch, a block for each direction of each of the
// batch, which keeps its state in shared memory.
//
//   gates: [steps, batch, directions, gates x hidden]   what inputs and biases give, for all steps
//   recurrent: [directions, hidden, gates x hidden]     weights of the state
//   y: [steps, directions, batch, hidden]
//   last_hidden, last_cell: [directions, batch, hidden]
//
//   lstm   i, o, f, g of x + h R     c = s(f) c + s(i) tanh(g)        h = s(o) tanh(c)
//          with WEIGHTS         h R in integers: see below
//   gru    z, r, n                   h = (1 - s(z)) n + s(z) h        n = tanh(x + (s(r) h) R)
//          with HAS_BIAS             n = tanh(x + s(r) (h R + bias))
//   rnn    h = ACTIVATION(x + h R)
//
// s is the logistic function. Peepholes are [directions, 3, hidden], of i, o and f: products with
// the cell, for o with the new one. Of a direction that is reversed, the sequence is read and
// written from its end; with two directions that is the second. With lengths a sequence has so many
// steps (limited to those that are there); y is 0 behind them. The state is kept in Acc.
//
// WEIGHTS, i8 or u8: the weights less their zero points, and the state, of each step and sequence
// on its own, as 0 to 255 between its least and its largest element, 0 among them; their product is
// exact, and times both scales. Scales and zero points are one for each direction, or for each
// column (EACH_COLUMN).
//
// With RESIDENT, and SEQUENCES, the entries with _resident stand beside these: see resident.cuh.
//
// Options: HAS_HIDDEN, HAS_CELL (else 0); WIDE_FIRST, WIDE_LAST: these and the last states are Acc,
// not T; HAS_PEEPHOLES, HAS_BIAS, HAS_LENGTHS, WIDE_LENGTHS for
// i64; REVERSE; ACTIVATION; MAX_WIDTH, no less than hidden; those of floating.cuh and assume.cuh.

#include "shared/assume.cuh"
#include "shared/block_reduce.cuh"
#include "elementwise/elementwise.cuh"
#include "shared/device_symbol.cuh"
#include "shared/floating.cuh"
#include "shared/options.cuh"
#include "shared/programmatic.cuh"

typedef Chosen<IS_SET(WIDE_FIRST), Acc, T>::type FirstState;
typedef Chosen<IS_SET(WIDE_LAST), Acc, T>::type LastState;
#ifdef HAS_HIDDEN
#define HIDDEN_PARAMETER const FirstState *__restrict__ first_hidden,
#define FIRST_HIDDEN(i) Acc(first_hidden[i])
#else
#define HIDDEN_PARAMETER
#define FIRST_HIDDEN(i) Acc(0)
#endif
#ifdef HAS_CELL
#define CELL_PARAMETER const FirstState *__restrict__ first_cell,
#define FIRST_CELL(i) Acc(first_cell[i])
#else
#define CELL_PARAMETER
#define FIRST_CELL(i) Acc(0)
#endif
#ifdef HAS_PEEPHOLES
#define PEEPHOLES_PARAMETER const T *__restrict__ peepholes,
#define WITH_CELL(value, gate, i, cell)                                                            \
  fma(Acc(peepholes[(place.direction * 3 + gate) * hidden + i]), cell, value)
#else
#define PEEPHOLES_PARAMETER
#define WITH_CELL(value, gate, i, cell) value
#endif
#ifdef HAS_BIAS
#define BIAS_PARAMETER const T *__restrict__ bias,
#else
#define BIAS_PARAMETER
#endif
typedef Chosen<IS_SET(WIDE_LENGTHS), long long, int>::type Id;
#ifdef HAS_LENGTHS
#define LENGTHS_PARAMETER const Id *__restrict__ lengths,
#define LENGTH_OF(sequence) (long long)(lengths[sequence])
#else
#define LENGTHS_PARAMETER
#define LENGTH_OF(sequence) steps
#endif
#ifdef REVERSE
#define REVERSED true
#else
#define REVERSED place.direction == 1
#endif
#ifndef ACTIVATION
#define ACTIVATION tanh
#endif
#ifndef MAX_WIDTH
#define MAX_WIDTH 1024
#endif

#ifdef RESIDENT
#define RESIDENT_PARAMETERS unsigned long long *__restrict__ words, cugrt_symbol<long long> turn,
#else
#define RESIDENT_PARAMETERS
#endif

#define SIZES long long steps, long long batch, long long directions, long long hidden

// Which sequence and direction a block has, and how it goes through them.
struct Place {
  long long sequence, direction, state; // state: of the first element of its own
  long long length;
  bool reversed;

  __device__ __forceinline__ long long step(long long s) const {
    return reversed ? length - 1 - s : s;
  }
};

__device__ __forceinline__ Place place_of(long long batch, long long hidden) {
  Place place;
  place.sequence = blockIdx.x % unsigned(batch); // a grid has batch x directions blocks
  place.direction = blockIdx.x / unsigned(batch);
  place.state = (long long)(blockIdx.x) * hidden;
  return place;
}

__device__ __forceinline__ long long limited(long long length, long long steps) {
  return length < 0 ? 0 : length > steps ? steps : length;
}

// f(k, weight) for a column of `hidden` weights, in order. A block reads all weights at each step:
// kAhead of a thread are on their way before the first is used.
template <class W, class F>
__device__ __forceinline__ void each_weight(const W *weights, int hidden, long long pitch, F f) {
  constexpr int kAhead = 16;
  int k = 0;
#pragma unroll 1
  for (; k + kAhead <= hidden; k += kAhead) {
    W ahead[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j, weights += pitch)
      ahead[j] = *weights;
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      f(k + j, ahead[j]);
  }
#pragma unroll 1
  for (; k < hidden; ++k, weights += pitch)
    f(k, *weights);
}

// A column of the weights times the state.
__device__ __forceinline__ Acc product(const Acc *state, const T *weights, long long hidden,
                                       long long pitch) {
  Acc sum = 0;
  each_weight(weights, int(hidden), pitch,
              [&](int k, const T &weight) { sum = fma(state[k], Acc(weight), sum); });
  return sum;
}

#ifdef WEIGHTS
typedef signed char i8;
typedef unsigned char u8;
#ifdef EACH_COLUMN
#define SCALE_AT(column) (place.direction * 4 * hidden + (column))
#else
#define SCALE_AT(column) place.direction
#endif
#ifdef HAS_ZEROS
#define ZEROS_PARAMETER const WEIGHTS *__restrict__ zeros,
#define ZERO_AT(column) int(zeros[SCALE_AT(column)])
#else
#define ZEROS_PARAMETER
#define ZERO_AT(column) 0
#endif
#define RECURRENT_PARAMETERS                                                                       \
  const WEIGHTS *__restrict__ recurrent, const float *__restrict__ scales, ZEROS_PARAMETER

__device__ __forceinline__ Acc least(Acc p, Acc q) { return q < p ? q : p; }
__device__ __forceinline__ Acc largest(Acc p, Acc q) { return q > p ? q : p; }

// The state as `quantized`, from 0 to 255 less the zero point; the result is its scale.
__device__ __forceinline__ Acc quantize(const Acc *h, int *quantized, Acc *shared, int hidden) {
  Acc low = 0, high = 0;
  for (int j = threadIdx.x; j < hidden; j += blockDim.x) {
    low = least(low, h[j]);
    high = largest(high, h[j]);
  }
  low = block_reduce(low, shared, least);
  high = block_reduce(high, shared, largest);
  const Acc scale = high == low ? Acc(1) : (high - low) / 255;
  const Acc zero = rint(least(Acc(255), largest(Acc(0), -low / scale)));
  for (int j = threadIdx.x; j < hidden; j += blockDim.x) {
    const Acc level = rint(h[j] / scale) + zero;
    quantized[j] = int(least(Acc(255), largest(Acc(0), level)) - zero);
  }
  __syncthreads();
  return scale;
}

__device__ __forceinline__ int product(const int *state, const WEIGHTS *weights, int zero,
                                       long long hidden, long long pitch) {
  int sum = 0;
  each_weight(weights, int(hidden), pitch,
              [&](int k, const WEIGHTS &weight) { sum += state[k] * (int(weight) - zero); });
  return sum;
}
#else
#define RECURRENT_PARAMETERS const T *__restrict__ recurrent,
#endif

#define PLACE                                                                                      \
  BEGIN_EARLY();                                                                                   \
  __builtin_assume(ASSUME);                                                                        \
  __shared__ Acc h[MAX_WIDTH];                                                                     \
  Place place = place_of(batch, hidden);                                                           \
  place.length = limited(LENGTH_OF(place.sequence), steps);                                        \
  place.reversed = REVERSED;                                                                       \
  for (int j = threadIdx.x; j < int(hidden); j += blockDim.x)                                      \
  h[j] = FIRST_HIDDEN(place.state + j)

// The gates of a step, and the elements of y that it makes.
#define GATES_OF(s, count)                                                                         \
  gates + ((place.step(s) * batch + place.sequence) * directions + place.direction) * (count)*hidden
#define RESULT_OF(t) y + (((t)*directions + place.direction) * batch + place.sequence) * hidden

#define FINISH                                                                                     \
  for (long long t = place.length; t < steps; ++t)                                                 \
    for (int j = threadIdx.x; j < int(hidden); j += blockDim.x)                                    \
      (RESULT_OF(t))[j] = T(Acc(0));                                                               \
  for (int j = threadIdx.x; j < int(hidden); j += blockDim.x)                                      \
  last_hidden[place.state + j] = LastState(h[j])

#if defined(CELL_LSTM)
extern "C" __global__ void __launch_bounds__(1024, 1)
    lstm(const T *__restrict__ gates,
         RECURRENT_PARAMETERS HIDDEN_PARAMETER CELL_PARAMETER PEEPHOLES_PARAMETER LENGTHS_PARAMETER
             RESIDENT_PARAMETERS T *__restrict__ y,
         LastState *__restrict__ last_hidden, LastState *__restrict__ last_cell, SIZES) {
  PLACE;
  __shared__ Acc c[MAX_WIDTH], gate[4 * MAX_WIDTH];
#ifdef WEIGHTS
  __shared__ Acc shared[32];
  __shared__ int quantized[MAX_WIDTH];
#endif
  for (int j = threadIdx.x; j < int(hidden); j += blockDim.x)
    c[j] = FIRST_CELL(place.state + j);
  recurrent += place.direction * hidden * 4 * hidden;
  __syncthreads();
  for (long long s = 0; s < place.length; ++s) {
    const T *x = GATES_OF(s, 4);
#ifdef WEIGHTS
    const Acc scale = quantize(h, quantized, shared, int(hidden));
    for (int j = threadIdx.x; j < int(4 * hidden); j += blockDim.x) {
      const int sum = product(quantized, recurrent + j, ZERO_AT(j), hidden, 4 * hidden);
      gate[j] = Acc(x[j]) + Acc(sum) * (scale * Acc(scales[SCALE_AT(j)]));
    }
#else
    for (int j = threadIdx.x; j < int(4 * hidden); j += blockDim.x)
      gate[j] = Acc(x[j]) + product(h, recurrent + j, hidden, 4 * hidden);
#endif
    __syncthreads();
    T *out = RESULT_OF(place.step(s));
    for (int j = threadIdx.x; j < int(hidden); j += blockDim.x) {
      const Acc in = op::sigmoid(WITH_CELL(gate[j], 0, j, c[j]));
      const Acc forget = op::sigmoid(WITH_CELL(gate[2 * hidden + j], 2, j, c[j]));
      const Acc cell = fma(forget, c[j], in * op::tanh(gate[3 * hidden + j]));
      const Acc opened = op::sigmoid(WITH_CELL(gate[hidden + j], 1, j, cell));
      c[j] = cell;
      h[j] = opened * op::tanh(cell);
      out[j] = T(h[j]);
    }
    __syncthreads();
  }
  FINISH;
  for (int j = threadIdx.x; j < int(hidden); j += blockDim.x)
    last_cell[place.state + j] = LastState(c[j]);
}
#elif defined(CELL_GRU)
extern "C" __global__ void __launch_bounds__(1024, 1)
    gru(const T *__restrict__ gates, const T *__restrict__ recurrent,
        HIDDEN_PARAMETER BIAS_PARAMETER LENGTHS_PARAMETER RESIDENT_PARAMETERS T *__restrict__ y,
        LastState *__restrict__ last_hidden, SIZES) {
  PLACE;
  __shared__ Acc gate[3 * MAX_WIDTH]; // s(z); s(r), or its product with h; of n, what h gives
  recurrent += place.direction * hidden * 3 * hidden;
  __syncthreads();
  for (long long s = 0; s < place.length; ++s) {
    const T *x = GATES_OF(s, 3);
#ifdef HAS_BIAS
    for (int j = threadIdx.x; j < int(3 * hidden); j += blockDim.x) {
      const Acc sum = product(h, recurrent + j, hidden, 3 * hidden);
      gate[j] = j < int(2 * hidden) ? op::sigmoid(Acc(x[j]) + sum)
                                    : sum + Acc(bias[place.direction * hidden + j - 2 * hidden]);
    }
    __syncthreads();
#else
    for (int j = threadIdx.x; j < int(2 * hidden); j += blockDim.x) {
      const Acc open = op::sigmoid(Acc(x[j]) + product(h, recurrent + j, hidden, 3 * hidden));
      gate[j] = j < int(hidden) ? open : open * h[j - hidden];
    }
    __syncthreads();
    for (int j = threadIdx.x; j < int(hidden); j += blockDim.x)
      gate[2 * hidden + j] = product(gate + hidden, recurrent + 2 * hidden + j, hidden, 3 * hidden);
#endif
    T *out = RESULT_OF(place.step(s));
    for (int j = threadIdx.x; j < int(hidden); j += blockDim.x) {
      const Acc given = (IS_SET(HAS_BIAS) ? gate[hidden + j] : 1) * gate[2 * hidden + j];
      const Acc next = op::tanh(Acc(x[2 * hidden + j]) + given);
      h[j] = fma(gate[j], h[j], (1 - gate[j]) * next);
      out[j] = T(h[j]);
    }
    __syncthreads();
  }
  FINISH;
}
#else
extern "C" __global__ void __launch_bounds__(1024, 1)
    rnn(const T *__restrict__ gates, const T *__restrict__ recurrent,
        HIDDEN_PARAMETER LENGTHS_PARAMETER RESIDENT_PARAMETERS T *__restrict__ y,
        LastState *__restrict__ last_hidden, SIZES) {
  PLACE;
  __shared__ Acc next[MAX_WIDTH];
  recurrent += place.direction * hidden * hidden;
  __syncthreads();
  for (long long s = 0; s < place.length; ++s) {
    const T *x = GATES_OF(s, 1);
    for (int j = threadIdx.x; j < int(hidden); j += blockDim.x)
      next[j] = op::ACTIVATION(Acc(x[j]) + product(h, recurrent + j, hidden, hidden));
    __syncthreads();
    T *out = RESULT_OF(place.step(s));
    for (int j = threadIdx.x; j < int(hidden); j += blockDim.x) {
      h[j] = next[j];
      out[j] = T(h[j]);
    }
    __syncthreads();
  }
  FINISH;
}
#endif

#ifdef RESIDENT
#include "recurrent/resident.cuh"
#endif
