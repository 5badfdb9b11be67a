// SHA-256 digests (FIPS 180-4), for cache keys and content identities.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cugrt {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
public:
  Sha256 &add(std::string_view bytes);
  /// Ends the digest; nothing may be added afterwards.
  Digest finish();

private:
  void block(const uint8_t *bytes);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_{}; // of bytes that fill no block yet
  uint64_t size_bytes_ = 0;        // of all that was added
};

/// Feeds fields one by one; each is prefixed with its length, so that no two lists of fields
/// collide.
class Digester {
public:
  Digester &field(std::string_view bytes) { return field(std::span(&bytes, 1)); }
  /// The parts, one behind the other, are one field.
  Digester &field(std::span<const std::string_view> parts);
  Digester &field(uint64_t value);
  /// Ends the digest; the digester may not be used afterwards.
  Digest finish() { return sha_.finish(); }

private:
  Sha256 sha_;
};

std::string hex(const Digest &digest);

} // namespace cugrt
