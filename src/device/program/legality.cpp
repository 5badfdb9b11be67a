// Look-ups in legality.def; see legality.h.
#include "device/program/legality.h"

#include <algorithm>

namespace cugrt::runtime {

constexpr Legality kTable[] = {
#define CUGRT_LEGALITY(node, change, verdict, why)                                                 \
  {NodeKind::node, Change::change, Verdict::verdict, why},
#include "device/program/legality.def"
#undef CUGRT_LEGALITY
};

std::span<const Legality> legality_table() { return kTable; }

const Legality *legality(NodeKind node, Change change) {
  const auto *row = std::find_if(std::begin(kTable), std::end(kTable), [&](const Legality &r) {
    return r.node == node && r.change == change;
  });
  return row == std::end(kTable) ? nullptr : row;
}

bool can_patch(NodeKind node, std::span<const Change> changes) {
  return std::all_of(changes.begin(), changes.end(), [&](Change change) {
    const Legality *row = legality(node, change);
    return row && (row->verdict == Verdict::node_patch || row->verdict == Verdict::disable);
  });
}

} // namespace cugrt::runtime
