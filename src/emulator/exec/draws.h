// Decisions of a seed, one draw after the other.
#pragma once

#include <cstdint>
#include <utility>

namespace cugrt::emulator {

class Draws {
public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  uint64_t next() { // splitmix64
    uint64_t x = state_ += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  /// A number from 0 to below `count`, which is not 0.
  uint64_t below(uint64_t count) { return next() % count; }
  bool once_in(uint64_t count) { return below(count) == 0; }
  template <class List> void shuffle(List &list) {
    for (uint64_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[below(i)]);
  }

private:
  uint64_t state_;
};

/// The numbers below `count` in an order drawn from a seed. Takes no memory: a Feistel network over
/// the next even number of bits, walked until it meets a number below `count`.
class Permutation {
public:
  Permutation(uint64_t count, uint64_t seed) : count_(count), seed_(seed) {
    while (half_bits_ < 32 && count_ > uint64_t(1) << 2 * half_bits_)
      ++half_bits_;
  }
  uint64_t operator[](uint64_t i) const {
    do
      i = encrypt(i);
    while (i >= count_);
    return i;
  }

private:
  uint64_t scramble(uint64_t round, uint64_t half) const {
    return Draws((seed_ + round) ^ (half << 8)).next();
  }
  uint64_t encrypt(uint64_t i) const {
    constexpr uint64_t kRounds = 4;
    const uint64_t mask = (uint64_t(1) << half_bits_) - 1;
    uint64_t left = i >> half_bits_, right = i & mask;
    for (uint64_t round = 0; round < kRounds; ++round)
      left = std::exchange(right, left ^ (scramble(round, right) & mask));
    return left << half_bits_ | right;
  }
  uint64_t count_, seed_;
  unsigned half_bits_ = 1;
};

} // namespace cugrt::emulator
