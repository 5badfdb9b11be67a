// Regions of plans, checked without the planner's sweep: all pairs of accesses that share bytes are
// looked at (found by sorting each space's accesses), and each must be joined by a path.
#include "plan/validate.h"

#include <algorithm>
#include <map>

namespace cugrt::plan {
namespace {

struct Touch {
  uint32_t step; // within the region
  bool writes;
  int64_t begin, end;
  uint32_t buffer;
};

class RegionCheck {
public:
  RegionCheck(const Plan &plan, const Function &function, const Region &region,
              std::span<const ir::Interval> bounds)
      : plan_(plan), f_(function), region_(region), bounds_(bounds) {}

  Status run() {
    CUGRT_TRY(dependencies());
    close_paths();
    std::map<std::pair<BufferBase, uint32_t>, std::vector<Touch>> spaces;
    for (uint32_t s = 0; s < region_.steps.count; ++s) {
      Range accesses = f_.steps[region_.steps.begin + s].accesses;
      for (uint32_t a = accesses.begin; a < accesses.end(); ++a) {
        const BufferAccess &access = f_.accesses[a];
        const Buffer &buffer = f_.buffers[access.buffer];
        auto [begin, end] = range(buffer);
        if (begin < end)
          spaces[{buffer.base, buffer.index}].push_back(
              {s, access.access != Access::in, begin, end, access.buffer});
      }
    }
    for (auto &[space, touches] : spaces)
      CUGRT_TRY(covered(touches));
    return {};
  }

private:
  Status fail(const std::string &what) const {
    return plan_error(f_, "region " + region_.name + ": " + what);
  }

  std::pair<int64_t, int64_t> range(const Buffer &buffer) const {
    if (!buffer.bytes.valid())
      return {0, INT64_MAX};
    ir::Interval offset = plan_.exprs.range(buffer.offset_bytes, bounds_);
    ir::Interval bytes = plan_.exprs.range(buffer.bytes, bounds_);
    int64_t end = INT64_MAX;
    if (offset.upper != INT64_MAX && bytes.upper != INT64_MAX &&
        __builtin_add_overflow(offset.upper, bytes.upper, &end))
      end = INT64_MAX;
    return {std::max<int64_t>(offset.lower, 0), end};
  }

  /// reach_[to] has a bit for every step that a path leads from.
  void close_paths() {
    words_ = (region_.steps.count + 63) / 64;
    reach_.assign(words_ * region_.steps.count, 0);
    std::vector<Edge> edges = region_.edges;
    std::sort(edges.begin(), edges.end(), [](const Edge &a, const Edge &b) { return a.to < b.to; });
    for (const Edge &edge : edges) { // sources are complete: all their edges have lower targets
      for (size_t w = 0; w < words_; ++w)
        reach_[edge.to * words_ + w] |= reach_[edge.from * words_ + w];
      reach_[edge.to * words_ + edge.from / 64] |= uint64_t(1) << (edge.from % 64);
    }
  }
  bool path(uint32_t from, uint32_t to) const {
    return (reach_[to * words_ + from / 64] >> (from % 64)) & 1;
  }

  Status covered(std::vector<Touch> &touches) const {
    if (std::none_of(touches.begin(), touches.end(), [](const Touch &t) { return t.writes; }))
      return {};
    std::sort(touches.begin(), touches.end(), [](const Touch &a, const Touch &b) {
      return a.begin != b.begin ? a.begin < b.begin : a.step < b.step;
    });
    for (size_t i = 0; i < touches.size(); ++i)
      for (size_t j = i + 1; j < touches.size() && touches[j].begin < touches[i].end; ++j) {
        const Touch &a = touches[i], &b = touches[j];
        if ((!a.writes && !b.writes) || a.step == b.step)
          continue;
        if (!path(std::min(a.step, b.step), std::max(a.step, b.step)))
          return fail("steps " + std::to_string(std::min(a.step, b.step)) + " and " +
                      std::to_string(std::max(a.step, b.step)) + " share bytes of %" +
                      f_.buffers[a.buffer].name + " and %" + f_.buffers[b.buffer].name +
                      ", but no path of edges joins them");
      }
    return {};
  }

  Status in_key(ExprId id) const {
    if (!id.valid())
      return {};
    std::vector<SymbolId> symbols;
    plan_.exprs.collect_symbols(id, symbols);
    for (SymbolId symbol : symbols) {
      if (f_.symbols[symbol.index].source == ir::SymbolSource::device)
        return fail("a node depends on symbol " + f_.symbols[symbol.index].name +
                    ", which lives in device memory");
      if (!std::binary_search(region_.key.begin(), region_.key.end(), symbol))
        return fail("symbol " + f_.symbols[symbol.index].name + " is missing in its key");
    }
    return {};
  }

  Status dependencies() const {
    if (!std::is_sorted(region_.key.begin(), region_.key.end()) ||
        !std::is_sorted(region_.slots.begin(), region_.slots.end()) ||
        !std::is_sorted(region_.host_values.begin(), region_.host_values.end()))
      return fail("its key, slots or host values are out of order");
    for (uint32_t s = region_.steps.begin; s < region_.steps.end(); ++s) {
      const Step &step = f_.steps[s];
      for (uint32_t a = step.arguments.begin; a < step.arguments.end(); ++a) {
        const Argument &argument = f_.arguments[a];
        if (argument.kind == ArgumentKind::expr)
          CUGRT_TRY(in_key({argument.index}));
        if (argument.kind == ArgumentKind::host_value &&
            !std::binary_search(region_.host_values.begin(), region_.host_values.end(),
                                argument.index))
          return fail("a host value is missing");
      }
      for (uint32_t l = step.launches.begin; l < step.launches.end(); ++l) {
        const LaunchRule &rule = f_.launches[l];
        CUGRT_TRY(in_key(rule.predicate));
        CUGRT_TRY(in_key(rule.shared_bytes));
        for (size_t d = 0; d < 3; ++d) {
          CUGRT_TRY(in_key(rule.grid[d]));
          CUGRT_TRY(in_key(rule.block[d]));
        }
      }
      for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a) {
        const Buffer &buffer = f_.buffers[f_.accesses[a].buffer];
        CUGRT_TRY(in_key(buffer.offset_bytes));
        if (step.kind != StepKind::kernel)
          CUGRT_TRY(in_key(buffer.bytes));
        if (buffer.base == BufferBase::dynamic)
          return fail("touches %" + buffer.name + ", which is allocated during the run");
        if (buffer.base == BufferBase::slot &&
            !std::binary_search(region_.slots.begin(), region_.slots.end(), buffer.index))
          return fail("a slot is missing");
      }
    }
    return {};
  }

  const Plan &plan_;
  const Function &f_;
  const Region &region_;
  std::span<const ir::Interval> bounds_;
  size_t words_ = 0;
  std::vector<uint64_t> reach_;
};

/// Every pointer that a step passes is among its accesses, with at least the declared access, and
/// nothing read-only is written.
Status check_accesses(const Plan &plan, const Function &f) {
  for (const Step &step : f.steps) {
    std::map<uint32_t, std::pair<bool, bool>> has; // buffer: read, written
    for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a) {
      const BufferAccess &access = f.accesses[a];
      has[access.buffer].first |= access.access != Access::out;
      has[access.buffer].second |= access.access != Access::in;
      const Buffer &buffer = f.buffers[access.buffer];
      bool read_only =
          buffer.base == BufferBase::weight || buffer.base == BufferBase::constant ||
          (buffer.base == BufferBase::slot && f.slots[buffer.index].access == Access::in);
      if (access.access != Access::in && read_only)
        return plan_error(f, "step '" + step.name + "' writes %" + buffer.name +
                                 ", which is read-only");
    }
    if (step.kind != StepKind::kernel)
      continue;
    const Kernel &kernel = plan.kernels[step.kernel];
    for (size_t p = 0; p < kernel.params.size(); ++p) {
      const Argument &argument = f.arguments[step.arguments.begin + p];
      if (argument.kind != ArgumentKind::buffer)
        continue;
      auto found = has.find(argument.index);
      bool tensor = kernel.params[p].kind == ir::KernelParamKind::tensor;
      Access access = tensor ? kernel.params[p].access : Access::in;
      if (found == has.end() || (access != Access::out && !found->second.first) ||
          (access != Access::in && !found->second.second))
        return plan_error(f, "step '" + step.name + "' passes %" + f.buffers[argument.index].name +
                                 " without its access");
    }
    for (uint32_t l = step.launches.begin; l < step.launches.end(); ++l)
      if (uint32_t workspace = f.launches[l].workspace;
          workspace != kNone && !(has.contains(workspace) && has[workspace].second))
        return plan_error(f, "step '" + step.name + "' has a workspace that it does not write");
  }
  return {};
}

} // namespace

Status validate_regions(const Plan &plan) {
  for (const Function &function : plan.functions) {
    std::vector<ir::Interval> bounds;
    for (const Symbol &symbol : function.symbols)
      bounds.push_back(symbol.bounds);
    CUGRT_TRY(check_accesses(plan, function));
    for (const Region &region : function.regions)
      CUGRT_TRY(RegionCheck(plan, function, region, bounds).run());
  }
  return {};
}

} // namespace cugrt::plan
