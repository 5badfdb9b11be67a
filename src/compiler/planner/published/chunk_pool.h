// The free blocks of one function under storage policy `slots`: rules of reuse by size.
#pragma once

#include "ir/module/module.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace cugrt::plan {

class ChunkPool {
public:
  /// The largest factor between a request and the block that serves it.
  static constexpr int64_t kMatchRange = 16;

  /// A free block for a request of `bytes`, which is then no longer free; the caller grows it.
  /// `constant` is the value of `bytes` where it is one.
  std::optional<uint32_t> take(uint32_t scope, ir::DType dtype, ir::ExprId bytes,
                               std::optional<int64_t> constant);
  void give_back(uint32_t chunk, uint32_t scope, ir::DType dtype, ir::ExprId bytes,
                 std::optional<int64_t> constant);
  /// Takes a block out for good, if it is free.
  void withdraw(uint32_t chunk);

private:
  using Free = std::multimap<int64_t, uint32_t>; // chunks; those of equal keys oldest first
  struct Shelf {
    Free constant; // by bytes
    Free symbolic; // by the expression's number
  };
  struct Place {
    Free *free = nullptr; // null: in use
    Free::iterator entry;
  };
  uint32_t take(Free &free, Free::iterator entry);

  std::map<std::pair<uint32_t, ir::DType>, Shelf> shelves_; // by scope and dtype
  std::vector<Place> places_;                               // by chunk
};

} // namespace cugrt::plan
