// When a storage that the module has laid out holds nothing, from the lives of the tensors in it.
#include "compiler/planner/analysis/liveness.h"

#include <algorithm>
#include <tuple>

namespace cugrt::plan {

std::vector<LifeGap> storage_gaps(const Liveness &live) {
  struct Run {
    uint32_t storage, begin, end;
  };
  std::vector<Run> runs;
  for (uint32_t o = 0; o < live.origins.size(); ++o) {
    const Origin &tensor = live.origins[o];
    if (tensor.kind != OriginKind::tensor || !tensor.used() || tensor.parent == kNoOrigin ||
        live.origins[tensor.parent].kind != OriginKind::storage)
      continue;
    const Origin &storage = live.origins[tensor.parent];
    const uint32_t begin = tensor.written_first ? tensor.begin : storage.begin;
    for_each_run(begin, tensor.end, live.gaps_of(o), [&](uint32_t from, uint32_t to) {
      runs.push_back({tensor.parent, from, to});
    });
  }
  std::sort(runs.begin(), runs.end(), [](const Run &a, const Run &b) {
    return std::tie(a.storage, a.begin, a.end) < std::tie(b.storage, b.begin, b.end);
  });
  std::vector<LifeGap> gaps;
  uint32_t end = 0; // of the runs so far of one storage
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run &run = runs[i];
    const Origin &storage = live.origins[run.storage];
    const bool first = i == 0 || runs[i - 1].storage != run.storage;
    if (!first && end < run.begin && !storage.handed_over && !storage.passed_to_host)
      gaps.push_back({run.storage, end, run.begin});
    end = first ? run.end : std::max(end, run.end);
  }
  return gaps;
}

} // namespace cugrt::plan
