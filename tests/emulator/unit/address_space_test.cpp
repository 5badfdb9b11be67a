// Where the emulated device's memory puts allocations.
#include "emulator/device/address_space.h"
#include "support/catch.h"

#include <algorithm>
#include <map>
#include <random>

using cugrt::emulator::AddressSpace;

namespace {

constexpr uint64_t kDeviceBytes = 64 << 20;

uint64_t up(uint64_t value, uint64_t granule) { return (value + granule - 1) / granule * granule; }

/// Live allocations, and where the lowest place for another one is: on a multiple of 512, or of a
/// page from a mebibyte on, with unused addresses behind each, as many as it has, a page at most.
struct Places {
  std::map<uint64_t, uint64_t> live; // address to bytes

  static uint64_t whole(uint64_t bytes) { return up(bytes, 512); }
  static uint64_t unused(uint64_t bytes) { return std::min<uint64_t>(whole(bytes), 4096); }

  uint64_t lowest(uint64_t first, uint64_t bytes) const {
    const uint64_t granule = bytes >= 1 << 20 ? 4096 : 512;
    uint64_t at = first;
    for (const auto &[begin, size] : live) {
      if (at + whole(bytes) + unused(bytes) <= begin)
        return at;
      at = up(begin + whole(size) + unused(size), granule);
    }
    return at;
  }
};

} // namespace

TEST_CASE("An allocation takes the lowest gap that has room for it, whatever was freed before") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 draw(seed);
    const auto space = AddressSpace::create(kDeviceBytes).value();
    const uint64_t first = space->allocate(1).value();
    Places places{{{first, 1}}};
    for (int step = 0; step < 400; ++step) {
      CAPTURE(seed, step);
      // More is allocated than freed, and what is freed is old as often as new.
      if (places.live.size() > 1 && draw() % 5 < 2) {
        const auto victim = std::next(places.live.begin(), draw() % places.live.size());
        REQUIRE(space->free(victim->first));
        places.live.erase(victim);
        continue;
      }
      constexpr uint64_t kLargest[] = {600, 600, 9000, 100000, 1100000};
      const uint64_t bytes = 1 + draw() % kLargest[draw() % 5];
      const uint64_t wanted = places.lowest(first, bytes);
      const auto address = space->allocate(bytes);
      if (!address.ok()) {
        REQUIRE(wanted + bytes > first + kDeviceBytes);
        continue;
      }
      REQUIRE(*address == wanted);
      places.live.emplace(*address, bytes);
    }
  }
}

TEST_CASE("Where a reservation has ended, allocations find its addresses again") {
  const auto space = AddressSpace::create(4 << 20).value();
  const uint64_t first = space->allocate(1 << 20).value();
  const uint64_t reserved = space->reserve(2 << 20, 2 << 20).value();
  REQUIRE_FALSE(space->allocate(2 << 20).ok());
  REQUIRE(space->release(reserved, 2 << 20));
  CHECK(space->allocate(2 << 20).value() == first + (1 << 20) + 4096);
}
