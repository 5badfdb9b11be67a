// SHA-256 by FIPS 180-4: section 6.2.2 is block(), section 5.1.1 is finish().
#include "base/digest.h"

#include "base/little_endian.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cugrt {

/// Section 4.2.2: of the cube roots of the first 64 primes, the first 32 bits behind the point.
constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t big_endian(const uint8_t *bytes) {
  return uint32_t(bytes[0]) << 24 | uint32_t(bytes[1]) << 16 | uint32_t(bytes[2]) << 8 | bytes[3];
}

void Sha256::block(const uint8_t *bytes) {
  uint32_t w[64];
  for (int t = 0; t < 16; ++t)
    w[t] = big_endian(bytes + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const uint32_t x = w[t - 15], y = w[t - 2];
    const uint32_t s0 = std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3,
                   s1 = std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int t = 0; t < 64; ++t) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25),
                   s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[t] + w[t],
                   t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const uint32_t end[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i)
    state_[size_t(i)] += end[i];
}

Sha256 &Sha256::add(std::string_view bytes) {
  const auto *at = reinterpret_cast<const uint8_t *>(bytes.data());
  size_t left = bytes.size(), filled = size_bytes_ % rest_.size();
  size_bytes_ += left;
  if (filled != 0) {
    const size_t taken = std::min(left, rest_.size() - filled);
    std::memcpy(rest_.data() + filled, at, taken);
    at += taken, left -= taken, filled += taken;
    if (filled < rest_.size())
      return *this;
    block(rest_.data());
  }
  for (; left >= rest_.size(); at += rest_.size(), left -= rest_.size())
    block(at);
  if (left != 0)
    std::memcpy(rest_.data(), at, left);
  return *this;
}

Digest Sha256::finish() {
  const uint64_t bits = size_bytes_ * 8;
  std::string padding(1, '\x80');
  padding.append((119 - size_bytes_ % 64) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8)
    padding += static_cast<char>(bits >> shift);
  add(padding);
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digester &Digester::field(std::span<const std::string_view> parts) {
  uint64_t size_bytes = 0;
  for (const std::string_view part : parts)
    size_bytes += part.size();
  field(size_bytes);
  for (const std::string_view part : parts)
    sha_.add(part);
  return *this;
}

Digester &Digester::field(uint64_t value) {
  std::string raw;
  little_endian::put(raw, value);
  sha_.add(raw);
  return *this;
}

std::string hex(const Digest &digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint8_t byte : digest)
    (text += kDigits[byte >> 4]) += kDigits[byte & 15];
  return text;
}

} // namespace cugrt
