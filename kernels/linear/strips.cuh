// Which rows and columns a block has of a product whose left matrix is cut into strips of a few
// rows, while each strip reads all of the right one. Blocks start by their numbers, so that those
// of one tile of columns follow one another: the first reads the tile's weights from memory, the
// others from the L2 cache. So do at most kShared rows, which stay in that cache themselves.
//
//   blocks of 5 strips and 3 tiles, 2 strips together (strip, tile):
//   (0, 0) (1, 0) (0, 1) (1, 1) (0, 2) (1, 2) | (2, 0) (3, 0) .. (3, 2) | (4, 0) (4, 1) (4, 2)
#pragma once

template <int kTall, int kShared = 128> struct StripTile {
  static constexpr unsigned kTogether = kShared / kTall;
  unsigned strip, tile;

  // Of block `block` of ceil(rows / kTall) * across; at least a row.
  __device__ __forceinline__ StripTile(unsigned block, long long rows, unsigned across) {
    const unsigned strips = unsigned((rows + kTall - 1) / kTall);
    const unsigned together = strips < kTogether ? strips : kTogether;
    const unsigned first = block / (across * together) * together;
    const unsigned within = block % (across * together), left = strips - first;
    const unsigned own = left < together ? left : together;
    strip = first + within % own;
    tile = within / own;
  }
};
