// Reports a function's planning: each binding's region or reason, inlined calls, and places of
// tensors.
#include "compiler/ir_names.h"
#include "compiler/planner/lower/function_planner.h"

#include "compiler/planner/symbols/sizes.h"
#include "ir/text/text.h"

#include <algorithm>
#include <tuple>

namespace cugrt::plan {

static CallChain calls_from(const ir::Function &function, uint32_t call_site) {
  CallChain chain;
  for (uint32_t at = call_site; at != kNone; at = function.call_sites[at].parent)
    if (chain.calls.size() < CallChain::kMaxCalls)
      chain.calls.push_back({function.call_sites[at].callee, function.call_sites[at].location});
    else
      ++chain.more;
  return chain;
}

/// Reports an inlined call once, before the first binding that came from it.
void FunctionPlanner::note_call_site(uint32_t call_site) {
  if (!context_.report)
    return;
  call_site_noted_.resize(function_.call_sites.size(), false);
  std::vector<uint32_t> sites;
  for (; call_site != kNone && !call_site_noted_[call_site];
       call_site = function_.call_sites[call_site].parent) {
    call_site_noted_[call_site] = true;
    sites.push_back(call_site);
  }
  for (; !sites.empty(); sites.pop_back()) { // outermost first
    const ir::CallSite &site = function_.call_sites[sites.back()];
    context_.report->bindings.push_back({index_, site.location, site.call, kNone,
                                         "planned through: its " + std::to_string(site.steps) +
                                             (site.steps == 1 ? " step is" : " steps are") +
                                             " the caller's",
                                         calls_from(function_, site.parent)});
  }
}

void FunctionPlanner::note(const Binding &b, const Decision &decision, uint32_t region) {
  if (!context_.report || again_ > 0)
    return;
  note_call_site(b.call_site);
  if (!printer_)
    printer_.emplace(context_.module, function_);
  context_.report->bindings.push_back({index_, b.location, printer_->print(b), region,
                                       decision.reason.text(), calls_from(function_, b.call_site)});
}

/// Steps from `begin` to `end`, which were numbered in program order, as they are numbered now.
/// Within a region they may have changed places: there the tensor's own steps count, or, where it
/// lives beyond the region, all of the region's.
std::pair<uint32_t, uint32_t> FunctionPlanner::steps_of(uint32_t origin, uint32_t begin,
                                                        uint32_t end) {
  if (new_numbers_.empty() || begin >= end)
    return {new_numbers_.empty() ? begin : new_numbers_[begin],
            new_numbers_.empty() ? end : new_numbers_[end]};
  if (touched_.empty())
    for (uint32_t s = 0; s < out_.steps.size(); ++s)
      for (uint32_t a = out_.steps[s].accesses.begin; a < out_.steps[s].accesses.end(); ++a)
        touched_[out_.buffers[out_.accesses[a].buffer].tensor].push_back(s);
  const std::vector<uint32_t> &own = touched_[origin]; // ascending
  auto region_of = [&](uint32_t step) -> Range {
    for (const Region &region : out_.regions)
      if (step >= region.steps.begin && step < region.steps.end())
        return region.steps;
    return {step, 1};
  };
  const uint32_t first = new_numbers_[begin], last = new_numbers_[end - 1];
  const Range first_in = region_of(first), last_in = region_of(last);
  std::pair<uint32_t, uint32_t> steps = {first_in.begin, last_in.end()};
  if (std::binary_search(own.begin(), own.end(), first))
    steps.first = *std::lower_bound(own.begin(), own.end(), first_in.begin);
  if (std::binary_search(own.begin(), own.end(), last))
    steps.second = *std::prev(std::lower_bound(own.begin(), own.end(), last_in.end())) + 1;
  return steps;
}

/// The steps of a tensor that has gaps, run by run; of each run only the tensor's own steps count.
std::vector<std::pair<uint32_t, uint32_t>> FunctionPlanner::runs_of(uint32_t origin) {
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  const Origin &o = live_.origins[origin];
  for_each_run(o.begin, o.end, live_.gaps_of(origin), [&](uint32_t begin, uint32_t end) {
    std::pair<uint32_t, uint32_t> run(steps_before_[begin],
                                      steps_before_[std::min(end, live_.end_time)]);
    if (!new_numbers_.empty()) {
      const std::vector<uint32_t> &own = touched_[origin];
      std::pair<uint32_t, uint32_t> moved(UINT32_MAX, 0);
      for (uint32_t step = run.first; step < run.second; ++step)
        if (const uint32_t now = new_numbers_[step];
            std::binary_search(own.begin(), own.end(), now))
          moved = {std::min(moved.first, now), std::max(moved.second, now + 1)};
      run = moved;
    }
    if (run.first < run.second)
      runs.push_back(run);
  });
  return runs;
}

void FunctionPlanner::storage_notes() {
  if (!context_.report)
    return;
  const BucketBoxes boxes = boxes_of(context_.plan.exprs, out_);
  const std::vector<std::string> names = function_.symbol_names();
  std::vector<uint32_t> call_sites(function_.values.size(), UINT32_MAX); // by value
  for (const ir::Block &block : function_.blocks)
    for (const Binding &b : block.bindings)
      for (uint32_t i = 0; i < b.result_count; ++i)
        call_sites[b.result(i).index] = b.call_site;
  for (uint32_t o = 0; o < live_.origins.size(); ++o) {
    const Origin &origin = live_.origins[o];
    const Base &base = storage_.bases[o];
    if (base.kind != BufferBase::arena || origin.kind == OriginKind::storage || !origin.used())
      continue;
    const StorageClass &k = storage_.classes[base.index];
    const ir::Type &type = values_.type(origin.value);
    StorageNote note;
    note.function = index_;
    note.name = function_.value(origin.value).name;
    note.scope = context_.module.types.scope_name(type.scope);
    std::tie(note.first_step, note.end_step) = steps_of(
        o, steps_before_[origin.begin], steps_before_[std::min(origin.end, live_.end_time)]);
    if (!live_.gaps_of(o).empty()) {
      const auto runs = runs_of(o);
      for (size_t i = 1; i < runs.size(); ++i)
        if (runs[i - 1].second < runs[i].first)
          note.gaps.push_back({runs[i - 1].second, runs[i].first});
    }
    note.from = calls_from(function_, call_sites[origin.value.index]);
    const int64_t base_bytes = storage_.shares[k.scope].base_bytes + k.offset_bytes;
    for (size_t box = 0; box < boxes.count(); ++box) {
      if (boxes.count() > 1)
        note.bucket = boxes.label(box, names);
      note.offset_bytes =
          base_bytes + context_.plan.exprs.range(values_.offset(origin.value), boxes[box]).lower;
      note.bytes = max_tensor_bytes(context_.module.exprs, type, boxes[box]).value_or(0);
      context_.report->storages.push_back(note);
    }
  }
}

} // namespace cugrt::plan
