// Which free block serves a request.
#include "compiler/planner/published/chunks.h"

#include "base/checked_math.h"

namespace cugrt::plan {

uint32_t ChunkPool::take(Free &free, Free::iterator entry) {
  const uint32_t chunk = entry->second;
  free.erase(entry);
  places_[chunk] = {};
  return chunk;
}

std::optional<uint32_t> ChunkPool::take(uint32_t scope, ir::DType dtype, ir::ExprId bytes,
                                        std::optional<int64_t> constant) {
  auto shelf = shelves_.find({scope, dtype});
  if (shelf == shelves_.end())
    return std::nullopt;
  if (!constant) {
    Free &free = shelf->second.symbolic;
    auto found = free.lower_bound(bytes.index);
    if (found == free.end() || found->first != bytes.index)
      return std::nullopt;
    return take(free, found);
  }
  Free &free = shelf->second.constant;
  const int64_t most = checked_mul(*constant, kMatchRange).value_or(INT64_MAX);
  auto found = free.lower_bound(*constant);
  if (found != free.end() && found->first <= most)
    return take(free, found);
  // If none is large and near enough: the largest smaller one, the youngest of equals.
  if (found == free.begin() || std::prev(found)->first < *constant / kMatchRange)
    return std::nullopt;
  return take(free, std::prev(found));
}

void ChunkPool::give_back(uint32_t chunk, uint32_t scope, ir::DType dtype, ir::ExprId bytes,
                          std::optional<int64_t> constant) {
  Shelf &shelf = shelves_[{scope, dtype}];
  Free &free = constant ? shelf.constant : shelf.symbolic;
  if (places_.size() <= chunk)
    places_.resize(chunk + 1);
  places_[chunk] = {&free, free.emplace(constant.value_or(bytes.index), chunk)};
}

void ChunkPool::withdraw(uint32_t chunk) {
  if (chunk < places_.size() && places_[chunk].free)
    take(*places_[chunk].free, places_[chunk].entry);
}

} // namespace cugrt::plan
