// Packing of items that occupy only a part of their bytes at times: the branch of pack() for input
// with windows, see the essay in pack_windows.cpp.
#pragma once

#include "plan/pack.h"

namespace cugrt::plan {

/// Whether some gap has a window that is not empty.
bool has_windows(const PackInput &input);

/// pack() for such input, which must have passed check_input(). Looks for a peak of `goal_bytes`,
/// which at least is the bound, with about `node_budget` decisions.
Result<Packing> pack_windows(const PackInput &input, const PackOptions &options, int64_t goal_bytes,
                             int64_t node_budget);

} // namespace cugrt::plan
