// The host's rounding mode for the length of a scope. Sources that include this are built with
// -frounding-math; operands are loaded after the mode is set and stored before it is restored,
// which the memory clobbers hold in place.
#pragma once

#include "emulator/exec/opcodes/op.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace cugrt::emulator::CUGRT_ISA {

class RoundingScope {
public:
  explicit RoundingScope(Rounding mode) {
#if defined(__x86_64__)
    // Bits 13 and 14 of MXCSR: 0 nearest, 1 down, 2 up, 3 toward zero.
    constexpr unsigned kBits[] = {0, 3, 1, 2};
    saved_ = _mm_getcsr();
    _mm_setcsr((saved_ & ~0x6000u) | kBits[unsigned(mode)] << 13);
#else
    constexpr int kModes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    saved_ = unsigned(std::fegetround());
    std::fesetround(kModes[unsigned(mode)]);
#endif
    asm volatile("" ::: "memory");
  }
  ~RoundingScope() {
    asm volatile("" ::: "memory");
#if defined(__x86_64__)
    _mm_setcsr(saved_);
#else
    std::fesetround(int(saved_));
#endif
  }
  RoundingScope(const RoundingScope &) = delete;
  RoundingScope &operator=(const RoundingScope &) = delete;

private:
  unsigned saved_;
};

} // namespace cugrt::emulator::CUGRT_ISA
