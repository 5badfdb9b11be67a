// Division of indices by a size that is known when a kernel begins: what depends on the size alone
// is computed once, so that a quotient is a product and two corrections.
//
// For sizes and indices below 2^31. Of 32 bits: `inverse` is at most 2^32 / size and misses it by
// less than 2, so that the high half of index * inverse misses the quotient by 2 at most.
#pragma once

#include "shared/assume.cuh"

template <class I> struct DivisorOf {
  I size;
  unsigned inverse;

  __device__ __forceinline__ explicit DivisorOf(long long given) : size(I(given)), inverse(0) {
    if constexpr (sizeof(I) == 4) {
      // Below 2^32 / size, whatever the roundings; then a step of Newton's, which stays below.
      const float estimate = __fdividef(4294963200.0f, float(unsigned(size)));
      inverse = unsigned(estimate * 0.999999f);
      inverse += __umulhi(inverse, 0u - unsigned(size) * inverse);
    }
  }

  __device__ __forceinline__ I quotient(I i) const {
    if constexpr (sizeof(I) == 4) {
      unsigned whole = __umulhi(unsigned(i), inverse), rest = unsigned(i) - whole * unsigned(size);
#pragma unroll
      for (int step = 0; step < 2; ++step)
        if (rest >= unsigned(size)) {
          ++whole;
          rest -= unsigned(size);
        }
      return I(whole);
    } else {
      return i / size;
    }
  }

  __device__ __forceinline__ I rest(I i) const { return i - quotient(i) * size; }
};
typedef DivisorOf<Index> Divisor;
