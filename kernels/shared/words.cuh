// Elements of two bytes that begin anywhere, read in the words of four bytes that hold them: where
// a row begins in the middle of a word the first and the last one hold a neighbour, too.
//
//   x   | . 0 | 1 2 | 3 4 | 5 6 | 7 . |      each result is two words, shifted
#pragma once

// x[0] to x[kCount - 1], two in a result; those from x[left] on are zeros, and are not read.
template <int kCount, class E>
__device__ __forceinline__ void read_words(const E *x, long long left,
                                           unsigned (&pairs)[kCount / 2]) {
  static_assert(sizeof(E) == 2);
  const unsigned long long first = (unsigned long long)(x);
  const unsigned *words = reinterpret_cast<const unsigned *>(first & ~3ull);
  const int before = int(first & 2) / 2; // elements of the first word that are not x's
  unsigned word = left > 0 ? words[0] : 0;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const int next_begins = 2 * (i + 1) - before;
    const unsigned next = next_begins < kCount && next_begins < left ? words[i + 1] : 0;
    const unsigned pair = __funnelshift_r(word, next, before * 16);
    pairs[i] = 2 * i + 1 < left ? pair : pair & 0xffffu;
    word = next;
  }
}
