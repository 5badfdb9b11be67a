// Tensors that the module lays into one storage by hand must not share bytes while both are live:
// one would overwrite the other. In a gap of its life (compiler/planner/analysis/liveness.h) a
// tensor is not. (Two names for the same bytes are written as a view.) A launch may write a tensor
// over one that it reads last, where its kernel declares that
// (compiler/planner/analysis/liveness.h).
//
// Tensors of a storage are taken by begin of life. Bytes at the symbols' upper bounds are kept in a
// map of disjoint ranges; where two overlap there, the expressions decide, and if they tell the two
// apart, the later one goes to a list that is compared with one by one.
#include "compiler/planner/lower/function_planner.h"
#include "ir/module/module.h"
#include "plan/edges/hazards.h"

#include <algorithm>
#include <map>
#include <utility>

namespace cugrt::plan {
namespace {

struct Laid {
  uint32_t origin;
  int64_t begin, end; // bytes
  uint32_t life_end;  // of the run of its life that has begun
};

/// The tensors of one storage that may be alive.
class StorageRanges {
public:
  /// `time`: when it begins; `conflict(origin)`: that one may share bytes with it. Gives the origin
  /// of a tensor that is in the way, or kNoOrigin.
  template <class Conflict> uint32_t add(const Laid &laid, uint32_t time, Conflict conflict) {
    auto ended = [&](const Laid &other) { return other.life_end <= time; };
    bool apart = true;
    auto it = ranges_.lower_bound(laid.begin), own = ranges_.end();
    if (it != ranges_.begin() && std::prev(it)->second.end > laid.begin)
      --it;
    while (it != ranges_.end() && it->first < laid.end) {
      if (ended(it->second)) {
        if (it->first == laid.begin)
          own = it++;
        else
          spare_ = ranges_.extract(it++);
        continue;
      }
      if (conflict(it->second.origin))
        return it->second.origin;
      apart = false;
      ++it;
    }
    std::erase_if(others_, ended);
    for (const Laid &other : others_)
      if (other.begin < laid.end && laid.begin < other.end && conflict(other.origin))
        return other.origin;
    if (apart && own != ranges_.end()) {
      own->second = laid;
    } else if (apart && spare_) {
      spare_.key() = laid.begin;
      spare_.mapped() = laid;
      ranges_.insert(std::move(spare_));
    } else if (apart)
      ranges_.emplace(laid.begin, laid);
    else
      others_.push_back(laid);
    return kNoOrigin;
  }
  void clear() {
    ranges_.clear();
    others_.clear();
  }

private:
  using Ranges = std::map<int64_t, Laid>;
  Ranges ranges_;           // by begin, disjoint
  Ranges::node_type spare_; // of a range that has ended, for the next
  std::vector<Laid> others_;
};

} // namespace

/// Two tensors that may share bytes while both are live, for some values of the symbols in
/// `domain`.
std::optional<std::pair<uint32_t, uint32_t>>
FunctionPlanner::find_overlap(std::span<const LifeRun> runs, const ir::Domain &domain) {
  ir::ExprPool &exprs = context_.plan.exprs;
  StorageRanges laid_out;
  uint32_t storage = kNoOrigin;
  for (const LifeRun &run : runs) {
    const uint32_t tensor = run.origin;
    const Origin &origin = live_.origins[tensor];
    if (std::exchange(storage, origin.parent) != origin.parent)
      laid_out.clear();
    ir::Interval offset = exprs.range(values_.offset(origin.value), domain);
    ExprId size = context_.tensor(function_.value(origin.value).type).bytes;
    int64_t end = INT64_MAX;
    int64_t bytes = size.valid() ? exprs.range(size, domain).upper : end;
    if (offset.upper == INT64_MAX || __builtin_add_overflow(offset.upper, bytes, &end))
      end = INT64_MAX;
    if (offset.lower >= end)
      continue;
    uint32_t other = laid_out.add({tensor, offset.lower, end, run.end}, run.begin, [&](uint32_t o) {
      return !storage_.takes_over(tensor, o) &&
             may_overlap(exprs, values_.whole_buffer(origin.value),
                         values_.whole_buffer(live_.origins[o].value), domain,
                         values_.matched_symbols());
    });
    if (other != kNoOrigin)
      return std::pair(tensor, other);
  }
  return std::nullopt;
}

Status FunctionPlanner::check_storage_overlap() {
  std::vector<LifeRun> runs;
  for (uint32_t o = 0; o < live_.origins.size(); ++o)
    if (const Origin &origin = live_.origins[o]; origin.kind == OriginKind::tensor && origin.used())
      for_each_run(origin.begin, origin.end, live_.gaps_of(o), [&](uint32_t begin, uint32_t end) {
        runs.push_back({origin.parent, begin, o, end});
      });
  if (!std::is_sorted(runs.begin(), runs.end()))
    std::sort(runs.begin(), runs.end());
  auto found = find_overlap(runs, values_.bounds());
  const BucketBoxes &boxes = values_.boxes();
  if (found && boxes.count() > 1) { // offsets may be a table by bucket
    found.reset();
    for (size_t box = 0; box < boxes.count() && !found; ++box)
      found = find_overlap(runs, boxes[box]);
  }
  if (!found)
    return {};
  const auto [tensor, other] = *found;
  const Origin &origin = live_.origins[tensor];
  return fail(function_.value(origin.value).location,
              "%" + function_.value(origin.value).name + " may share bytes of %" +
                  function_.value(live_.origins[origin.parent].value).name + " with %" +
                  function_.value(live_.origins[other].value).name +
                  " while both are live; move one of them, or take a view");
}

} // namespace cugrt::plan
