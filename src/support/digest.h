// SHA-256 digests, for cache keys and content identities.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cugrt {

using Digest = std::array<uint8_t, 32>;

/// Feeds fields one by one; each is prefixed with its length, so that no two lists of fields
/// collide.
class Digester {
public:
  Digester();
  ~Digester();
  Digester(const Digester &) = delete;
  Digester &operator=(const Digester &) = delete;

  Digester &field(std::string_view bytes);
  Digester &field(uint64_t value);
  /// Ends the digest; the digester may not be used afterwards.
  Digest finish();

private:
  struct State;
  State *state_;
};

std::string hex(const Digest &digest);

} // namespace cugrt
