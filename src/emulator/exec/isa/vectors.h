// Operations that the vectoriser does not find by itself: comparisons into masks, permutations of a
// warp's 32 lanes, words gathered from anywhere. Each has a plain form; guards of the build's
// instruction set choose others.
#pragma once

#include "emulator/exec/isa/lanes.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace cugrt::emulator::CUGRT_ISA {

/// Bit i: a[i] == base + i * Step.
template <u64 Step> CUGRT_INLINE u32 equal_lanes(const u64 *a, u64 base) {
#if defined(__AVX512F__)
  __m512i want = _mm512_add_epi64(
      _mm512_set1_epi64(s64(base)),
      _mm512_set_epi64(7 * Step, 6 * Step, 5 * Step, 4 * Step, 3 * Step, 2 * Step, Step, 0));
  const __m512i on = _mm512_set1_epi64(8 * Step);
  u32 mask = 0;
  for (u32 i = 0; i < kLanes; i += 8) {
    mask |= u32(_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(a + i), want)) << i;
    want = _mm512_add_epi64(want, on);
  }
  return mask;
#elif defined(__AVX2__)
  __m256i want = _mm256_add_epi64(_mm256_set1_epi64x(s64(base)),
                                  _mm256_set_epi64x(3 * Step, 2 * Step, Step, 0));
  const __m256i on = _mm256_set1_epi64x(4 * Step);
  u32 mask = 0;
  for (u32 i = 0; i < kLanes; i += 4) {
    __m256i equal =
        _mm256_cmpeq_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(a + i)), want);
    mask |= u32(_mm256_movemask_pd(_mm256_castsi256_pd(equal))) << i;
    want = _mm256_add_epi64(want, on);
  }
  return mask;
#else
  u32 mask = 0;
  for (u32 i = 0; i < kLanes; ++i)
    mask |= u32(a[i] == base + i * Step) << i;
  return mask;
#endif
}

template <u64 Step> CUGRT_INLINE u32 equal_lanes(const u32 *a, u32 base) {
  u32 different[kLanes];
  for (u32 i = 0; i < kLanes; ++i)
    different[i] = a[i] ^ (base + i * u32(Step));
#if defined(__AVX512F__)
  u32 low = _mm512_testn_epi32_mask(_mm512_loadu_si512(different), _mm512_loadu_si512(different));
  u32 high = _mm512_testn_epi32_mask(_mm512_loadu_si512(different + 16),
                                     _mm512_loadu_si512(different + 16));
  return low | high << 16;
#else
  u32 mask = 0;
  for (u32 i = 0; i < kLanes; ++i)
    mask |= u32(different[i] == 0) << i;
  return mask;
#endif
}

/// Bit i: the sign of p[i], which is the truth of a predicate.
CUGRT_INLINE u32 true_lanes(const u32 *p) {
#if defined(__AVX512F__)
  return u32(_mm512_movepi32_mask(_mm512_loadu_si512(p))) |
         u32(_mm512_movepi32_mask(_mm512_loadu_si512(p + 16))) << 16;
#elif defined(__AVX2__)
  u32 mask = 0;
  for (u32 i = 0; i < kLanes; i += 8)
    mask |= u32(_mm256_movemask_ps(_mm256_loadu_ps(reinterpret_cast<const float *>(p + i)))) << i;
  return mask;
#else
  u32 mask = 0;
  for (u32 i = 0; i < kLanes; ++i)
    mask |= p[i] & 1u << i;
  return mask;
#endif
}

/// d[i] = a[index[i]], indices below 32; d may be a.
CUGRT_INLINE void permute_lanes(u32 *d, const u32 *a, const u32 *index) {
#if defined(__AVX512F__)
  __m512i low = _mm512_loadu_si512(a), high = _mm512_loadu_si512(a + 16);
  __m512i first = _mm512_permutex2var_epi32(low, _mm512_loadu_si512(index), high);
  __m512i second = _mm512_permutex2var_epi32(low, _mm512_loadu_si512(index + 16), high);
  _mm512_storeu_si512(d, first);
  _mm512_storeu_si512(d + 16, second);
#else
  u32 result[kLanes];
  for (u32 i = 0; i < kLanes; ++i)
    result[i] = a[index[i] & 31];
  for (u32 i = 0; i < kLanes; ++i)
    d[i] = result[i];
#endif
}

/// d[i] = the f16 in the low half of a[i] as f32, whose NaN is the canonical one; d may be a. Only
/// where kHasHalves.
#if defined(__AVX512F__)
constexpr bool kHasHalves = true;
#else
constexpr bool kHasHalves = false;
#endif
CUGRT_INLINE void widen_halves(u32 *d, const u32 *a) {
#if defined(__AVX512F__)
  for (u32 i = 0; i < 32; i += 16) {
    const __m512 wide = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_loadu_si512(a + i)));
    const __mmask16 nan = _mm512_cmp_ps_mask(wide, wide, _CMP_UNORD_Q);
    _mm512_storeu_si512(d + i, _mm512_mask_mov_epi32(_mm512_castps_si512(wide), nan,
                                                     _mm512_set1_epi32(0x7fffffff)));
  }
#endif
}

/// Sixteen words from p on, or the one at p sixteen times.
CUGRT_INLINE void load_or_spread(u32 *d, const std::byte *p, bool runs) {
#if defined(__AVX512F__)
  // Reads only words that count: one word, or sixteen of which each goes to its own lane.
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __mmask16 all = __mmask16(-s32(runs));
  __m512i words = _mm512_maskz_loadu_epi32(__mmask16(all | 1), p);
  _mm512_storeu_si512(d, _mm512_permutexvar_epi32(_mm512_maskz_mov_epi32(all, lane), words));
#else
  u32 value[16];
  if (runs) {
    __builtin_memcpy(value, p, sizeof value);
    __builtin_memcpy(d, value, sizeof value);
  } else {
    __builtin_memcpy(value, p, sizeof(u32));
    for (u32 i = 0; i < 16; ++i)
      d[i] = value[0];
  }
#endif
}

/// Four words each from sixteen places side by side from p on, or sixteen times the four at p: word
/// n of lane i to d[n][i].
CUGRT_INLINE void load_or_spread_quads(u32 *const (&d)[4], const std::byte *p, bool runs) {
#if defined(__AVX512F__)
  if (!runs) {
    u32 word[4];
    __builtin_memcpy(word, p, sizeof word);
    for (u32 n = 0; n < 4; ++n)
      _mm512_storeu_si512(d[n], _mm512_set1_epi32(s32(word[n])));
    return;
  }
  // Words n and n + 1 of eight lanes, then of sixteen.
  auto words = [](s32 n) {
    const __m512i step = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);
    return _mm512_add_epi32(step,
                            _mm512_inserti64x4(_mm512_set1_epi32(n), _mm256_set1_epi32(n + 1), 1));
  };
  const __m512i four[4] = {_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64),
                           _mm512_loadu_si512(p + 128), _mm512_loadu_si512(p + 192)};
  for (u32 n = 0; n < 4; n += 2) {
    __m512i low = _mm512_permutex2var_epi32(four[0], words(s32(n)), four[1]);
    __m512i high = _mm512_permutex2var_epi32(four[2], words(s32(n)), four[3]);
    _mm512_storeu_si512(d[n], _mm512_shuffle_i64x2(low, high, 0x44));
    _mm512_storeu_si512(d[n + 1], _mm512_shuffle_i64x2(low, high, 0xEE));
  }
#else
  u32 value[16][4];
  for (u32 i = 0; i < 16; ++i)
    __builtin_memcpy(value[i], p + (runs ? i * 16 : 0), 16);
  for (u32 n = 0; n < 4; ++n)
    for (u32 i = 0; i < 16; ++i)
      d[n][i] = value[i][n];
#endif
}

/// Words from 32 places. No place depends on another lane of d.
template <class Where> CUGRT_INLINE void gather_words(u32 *d, Where where) {
  auto word = [&](u32 i) {
    u32 value;
    __builtin_memcpy(&value, where(i), sizeof value);
    return value;
  };
#if defined(__AVX512F__)
  for (u32 i = 0; i < kLanes; i += 16) {
    __m128i part[4];
    for (u32 j = 0; j < 4; ++j) {
      u32 k = i + 4 * j;
      part[j] = _mm_set_epi32(s32(word(k + 3)), s32(word(k + 2)), s32(word(k + 1)), s32(word(k)));
    }
    __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(part[0]), part[1], 1);
    __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(part[2]), part[3], 1);
    _mm512_storeu_si512(d + i, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }
#else
  u32 value[kLanes];
  for (u32 i = 0; i < kLanes; ++i)
    value[i] = word(i);
  for (u32 i = 0; i < kLanes; ++i)
    d[i] = value[i];
#endif
}

/// Four words from each of 32 places: word n of lane i to d[n][i]. The same holds of places.
template <class Where> CUGRT_INLINE void gather_quads(u32 *const (&d)[4], Where where) {
#if defined(__AVX512F__)
  for (u32 i = 0; i < kLanes; i += 16) {
    // Row r: lanes i + r, i + r + 4, i + r + 8, i + r + 12, a quarter each; transposed by quarters.
    __m512i row[4];
    for (u32 r = 0; r < 4; ++r) {
      auto quad = [&](u32 lane) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(where(lane)));
      };
      __m256i low =
          _mm256_inserti128_si256(_mm256_castsi128_si256(quad(i + r)), quad(i + r + 4), 1);
      __m256i high =
          _mm256_inserti128_si256(_mm256_castsi128_si256(quad(i + r + 8)), quad(i + r + 12), 1);
      row[r] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    __m512i a = _mm512_unpacklo_epi32(row[0], row[1]), b = _mm512_unpackhi_epi32(row[0], row[1]);
    __m512i c = _mm512_unpacklo_epi32(row[2], row[3]), e = _mm512_unpackhi_epi32(row[2], row[3]);
    _mm512_storeu_si512(d[0] + i, _mm512_unpacklo_epi64(a, c));
    _mm512_storeu_si512(d[1] + i, _mm512_unpackhi_epi64(a, c));
    _mm512_storeu_si512(d[2] + i, _mm512_unpacklo_epi64(b, e));
    _mm512_storeu_si512(d[3] + i, _mm512_unpackhi_epi64(b, e));
  }
#else
  u32 value[kLanes][4];
  for (u32 i = 0; i < kLanes; ++i)
    __builtin_memcpy(value[i], where(i), 16);
  for (u32 n = 0; n < 4; ++n)
    for (u32 i = 0; i < kLanes; ++i)
      d[n][i] = value[i][n];
#endif
}

} // namespace cugrt::emulator::CUGRT_ISA
