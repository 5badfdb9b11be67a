// The kinds of weights that a kernel of phases (persistent.h) multiplies: one loop each, and one
// text that asks for a tile's first weights, for all products of the kind and all their depths.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace cugrt::codegen {

class PhaseUnits {
public:
  /// The number of a unit of kernels/linear/stream.cuh, one of whose products has so many elements.
  size_t add(const std::string &type, int64_t depth) {
    size_t number = 0;
    while (number < units_.size() && units_[number].type != type)
      ++number;
    if (number == units_.size())
      units_.push_back({type, {}});
    units_[number].depths.insert(depth);
    return number;
  }
  /// begin_product of kernels/language/persistent.cuh; multiply_any(tile, rows).
  std::string text() const {
    return "__device__ __noinline__ void begin_product(const u64 *row, long long number) {\n"
           "  const Tile tile = tile_of(row, number);\n"
           "  if (tile.products == 0)\n    return;\n" +
           by_unit("begin_tile", "tile") +
           "__device__ __forceinline__ void multiply_any(const Tile &tile, const T *x) {\n" +
           by_unit("multiply_tile", "tile, x");
  }

private:
  struct Unit {
    std::string type;
    std::set<int64_t> depths;
  };
  std::string by_unit(const std::string &function, const std::string &arguments) const {
    std::string text = "  switch (tile.unit) {\n";
    for (size_t i = 0; i < units_.size(); ++i) {
      text += "  case " + std::to_string(i) + ":\n    return " + function + "<" + units_[i].type;
      for (int64_t depth : units_[i].depths)
        text += ", " + std::to_string(depth);
      text += ">(" + arguments + ");\n";
    }
    return text + "  }\n}\n\n";
  }
  std::vector<Unit> units_;
};

} // namespace cugrt::codegen
