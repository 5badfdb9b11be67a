// Tensors that the module lays into one storage by hand must not share bytes while both are live:
// one would overwrite the other. (Two names for the same bytes are written as a view.)
#include "plan/function_planner.h"
#include "plan/hazards.h"
#include "plan/located.h"

#include <algorithm>

namespace cugrt::plan {

Status FunctionPlanner::check_storage_overlap() {
  // Tensors by storage and begin of life; those of the same storage that are still alive are
  // compared.
  std::vector<uint32_t> tensors;
  for (uint32_t o = 0; o < live_.origins.size(); ++o)
    if (live_.origins[o].kind == OriginKind::tensor && live_.origins[o].used())
      tensors.push_back(o);
  std::sort(tensors.begin(), tensors.end(), [&](uint32_t a, uint32_t b) {
    const Origin &x = live_.origins[a], &y = live_.origins[b];
    return std::tuple(x.parent, x.begin, a) < std::tuple(y.parent, y.begin, b);
  });
  struct Alive {
    uint32_t origin;
    Buffer buffer;
  };
  std::vector<Alive> alive;
  for (uint32_t tensor : tensors) {
    const Origin &origin = live_.origins[tensor];
    std::erase_if(alive, [&](const Alive &other) {
      const Origin &o = live_.origins[other.origin];
      return o.parent != origin.parent || o.end <= origin.begin;
    });
    Buffer buffer = values_.whole_buffer(origin.value);
    for (const Alive &other : alive)
      if (may_overlap(context_.plan.exprs, buffer, other.buffer, values_.bounds())) {
        const Origin &o = live_.origins[other.origin];
        return fail(function_.value(origin.value).location,
                    "%" + function_.value(origin.value).name + " may share bytes of %" +
                        function_.value(live_.origins[origin.parent].value).name + " with %" +
                        function_.value(o.value).name +
                        " while both are live; move one of them, or take a view");
      }
    alive.push_back({tensor, std::move(buffer)});
  }
  return {};
}

} // namespace cugrt::plan
