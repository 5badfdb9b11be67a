// Device symbols that are checked: what a kernel gets for a parameter `p: checked_symbol i32`.
//
//   extern "C" __global__ void append(const float *x, float *cache, cugrt_symbol<int> p) {
//     const int at = cugrt_read(p); // within the symbol's bounds
//
// cugrt_read gives the value in device memory, or the nearest bound where it is out of its bounds;
// then it leaves the symbol's number in a word of the session's, which refuses its next run with
// the symbol's name. The word is written by volatile stores: any of several will do, whoever is
// last.
//
// The layout is part of docs/ir.md: five fields of 8 bytes, whatever T is (int or a 64-bit
// integer).
#pragma once

template <class T> struct cugrt_symbol {
  const T *value;          // the element that is read
  long long lower, upper;  // inclusive
  volatile unsigned *word; // where to leave `number`; the host may read it at any time
  unsigned long long number;
};

// A value within bounds, which stand for the symbol's own: the nearest one, told in its name.
template <class T>
__device__ long long cugrt_within(const cugrt_symbol<T> &symbol, long long value, long long lower,
                                  long long upper) {
  if (value >= lower && value <= upper)
    return value;
  *symbol.word = (unsigned)symbol.number;
  return value < lower ? lower : upper;
}

template <class T> __device__ T cugrt_read(const cugrt_symbol<T> &symbol) {
  return (T)cugrt_within(symbol, *symbol.value, symbol.lower, symbol.upper);
}

// A kernel whose blocks wait for one another has waited in vain and ends; the symbol's number with
// its highest bit set says so.
template <class T> __device__ void cugrt_gave_up(const cugrt_symbol<T> &symbol) {
  *symbol.word = 0x80000000u | (unsigned)symbol.number;
}
