// Tilings of a rectangle: packings that are known to leave no byte free.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace cugrt::test {

/// Steps [begin, end) and bytes [low, high).
struct Tile {
  uint32_t begin, end;
  int64_t low, high;
};

/// Cuts the rectangle [0, steps) by [0, bytes) until there are so many pieces, which must be
/// possible.
inline std::vector<Tile> cut_rectangle(std::mt19937 &random, uint32_t steps, int64_t bytes,
                                       size_t pieces) {
  std::vector<Tile> tiles = {{0, steps, 0, bytes}};
  while (tiles.size() < pieces) {
    Tile &tile = tiles[random() % tiles.size()], other = tile;
    if (random() % 2 && tile.end - tile.begin > 1) {
      tile.end = other.begin = tile.begin + 1 + random() % (tile.end - tile.begin - 1);
      tiles.push_back(other);
    } else if (tile.high - tile.low > 1) {
      tile.high = other.low = tile.low + 1 + int64_t(random() % uint64_t(tile.high - tile.low - 1));
      tiles.push_back(other);
    }
  }
  return tiles;
}

} // namespace cugrt::test
