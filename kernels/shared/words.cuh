// Elements of two bytes that begin anywhere, read in the words of four bytes that hold them: where
// a row begins in the middle of a word the first one holds a neighbour, too, and perhaps the last.
//
//   x   | . 0 | 1 2 | 3 4 | 5 6 | 7 . |      each result is two words, shifted
#pragma once

// x[0] to x[kCount - 1], two in a result; those from x[left] on are zeros. Nothing behind them is
// read where x begins with a word: they may be a tensor's last.
template <int kCount, class E>
__device__ __forceinline__ void read_words(const E *x, long long left,
                                           unsigned (&pairs)[kCount / 2]) {
  static_assert(sizeof(E) == 2);
  const int before = int((unsigned long long)(x)&2) / 2; // elements of the first word, not x's
  const unsigned *words = reinterpret_cast<const unsigned *>(x - before);
  auto read = [&](int i) -> unsigned {
    if (left == 2 * i + 1 && before == 0) // of an even `left` compilers see no load of two bytes
      return *reinterpret_cast<const unsigned short *>(words + i);
    return left > 0 && 2 * i - before < left ? words[i] : 0;
  };
  unsigned word = read(0);
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const unsigned next = i + 1 < kCount / 2 || before ? read(i + 1) : 0;
    const unsigned pair = __funnelshift_r(word, next, before * 16);
    pairs[i] = 2 * i + 1 < left ? pair : 2 * i < left ? pair & 0xffffu : 0;
    word = next;
  }
}

// An element of a tensor that has an even number of them, by the word that holds it.
template <class E> __device__ __forceinline__ E read_by_word(const E *x) {
  static_assert(sizeof(E) == 2);
  const int before = int((unsigned long long)(x)&2) / 2;
  const unsigned word = *reinterpret_cast<const unsigned *>(x - before);
  const unsigned short bits = (unsigned short)(word >> before * 16);
  return reinterpret_cast<const E &>(bits);
}
