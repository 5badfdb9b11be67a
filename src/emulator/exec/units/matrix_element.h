// Elements of matrix fragments as numbers; for the sources of mma and wmma.
#pragma once

#include "emulator/exec/isa/numbers.h"
#include "emulator/exec/warps/warp.h"

#include <algorithm>
#include <type_traits>

namespace cugrt::emulator {

/// All lanes of the warp execute these together; otherwise those that are here wait.
inline bool all_here(const Op *op, Warp &w) {
  if (w.mask == w.live)
    return true;
  w.leave = Leave::waiting;
  w.at = op;
  w.able = 0;
  w.taken = w.mask;
  return false;
}

struct tf32 {};

// Elements of a register, and the type that products are summed in.
template <class T> struct Element;
#define CUGRT_ELEMENT(T, S, bits, expression)                                                      \
  template <> struct Element<T> {                                                                  \
    using Sum = S;                                                                                 \
    static constexpr uint32_t kBits = bits;                                                        \
    static S load(uint32_t word) { return expression; }                                            \
  };
CUGRT_ELEMENT(CUGRT_ISA::f16, double, 16, CUGRT_ISA::f16::load(word))
CUGRT_ELEMENT(CUGRT_ISA::bf16, double, 16, CUGRT_ISA::bf16::load(word))
CUGRT_ELEMENT(tf32, double, 32, CUGRT_ISA::float_of(word & 0xffffe000)) // 13 bits do not count
CUGRT_ELEMENT(float, double, 32, CUGRT_ISA::float_of(word))
CUGRT_ELEMENT(int8_t, int64_t, 8, int8_t(word))
CUGRT_ELEMENT(uint8_t, int64_t, 8, uint8_t(word))
CUGRT_ELEMENT(int32_t, int64_t, 32, int32_t(word))
#undef CUGRT_ELEMENT

/// Element e of a register.
template <class T> auto element(uint32_t word, uint32_t e) {
  constexpr uint32_t kBits = Element<T>::kBits;
  return Element<T>::load(kBits == 32 ? word : word >> (e * kBits));
}

} // namespace cugrt::emulator
