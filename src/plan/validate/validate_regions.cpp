// Regions of plans, checked without the planner's sweep. Each space's bytes are walked in the order
// of the steps: a read needs a path from the last write of every byte, a write one from the last
// write and from every read since; all other pairs follow. What runs under a condition is walked by
// itself, and whatever may run beside it is looked at, too: it needs no path from what never runs
// where it does. Paths are found on chains of the
// region's own edges, or with a bit for each pair of nodes where there are many chains. The bodies
// of conditionals are walked each by itself; outside, their conditional stands for them. Where
// offsets are a table by bucket, all that is done bucket by bucket.
#include "plan/edges/region_levels.h"
#include "plan/edges/step_conditions.h"
#include "plan/symbols/bucket_boxes.h"
#include "plan/validate/validate_parts.h"

#include <algorithm>
#include <map>

namespace cugrt::plan {
namespace {

class Paths {
public:
  Paths(uint32_t node_count, std::vector<Edge> edges) : chain_(node_count), at_(node_count) {
    std::sort(edges.begin(), edges.end(), [](const Edge &a, const Edge &b) {
      return std::pair(a.to, a.from) < std::pair(b.to, b.from);
    });
    std::vector<uint32_t> tails; // by chain
    std::vector<int32_t> length;
    for (uint32_t node = 0, e = 0; node < node_count; ++node) {
      chain_[node] = uint32_t(tails.size());
      for (; e < edges.size() && edges[e].to == node; ++e)
        if (tails[chain_[edges[e].from]] == edges[e].from)
          chain_[node] = chain_[edges[e].from];
      if (chain_[node] == tails.size()) {
        tails.push_back(node);
        length.push_back(0);
      }
      tails[chain_[node]] = node;
      at_[node] = length[chain_[node]]++;
    }
    by_bits_ = tails.size() > kMostChains;
    width_ = by_bits_ ? (node_count + 31) / 32 : tails.size();
    width_ = (width_ + kUnit - 1) / kUnit * kUnit;
    rows_.assign(width_ * node_count, 0);
    for (const Edge &edge : edges) // sources are complete: all their edges have lower targets
      add(&rows_[width_ * edge.to], edge.from);
  }

  bool path(uint32_t from, uint32_t to) const {
    const int32_t *row = &rows_[width_ * to];
    return by_bits_ ? (uint32_t(row[from / 32]) >> (from % 32)) & 1 : row[chain_[from]] > at_[from];
  }

private:
  static constexpr size_t kMostChains = 64;
  static constexpr size_t kUnit = 4; // rows are whole vectors of signed words, which compilers use

  void add(int32_t *row, uint32_t from) const {
    const int32_t *other = &rows_[width_ * from];
    if (by_bits_) {
      for (size_t i = 0; i < width_; ++i)
        row[i] |= other[i];
      row[from / 32] = int32_t(uint32_t(row[from / 32]) | uint32_t(1) << (from % 32));
      return;
    }
    for (size_t i = 0; i < width_; i += kUnit)
      for (size_t j = i; j < i + kUnit; ++j)
        row[j] = std::max(row[j], other[j]);
    row[chain_[from]] = std::max(row[chain_[from]], at_[from] + 1);
  }

  size_t width_ = 0; // of a row: how much of each chain reaches the node, or bits
  bool by_bits_ = false;
  std::vector<uint32_t> chain_; // by node
  std::vector<int32_t> at_;     // by node: its place on its chain
  std::vector<int32_t> rows_;
};

struct StepTouch {
  uint32_t step = kNone; // within the region
  uint32_t buffer = kNone;
};

/// Reads since the last write, latest first. One that reaches a later one is left out.
struct Read {
  StepTouch touch;
  uint32_t next;
};

struct Bytes {
  int64_t end;
  StepTouch writer;
  uint32_t reads = kNone; // RegionCheck::reads_
};

class RegionCheck {
public:
  /// `ranges`: of all buffers of the function, at the symbols' bounds.
  RegionCheck(const Plan &plan, const Function &function, const Region &region,
              std::span<const std::pair<int64_t, int64_t>> ranges, const StepConditions &conditions)
      : plan_(plan), f_(function), region_(region), ranges_(ranges), conditions_(conditions),
        paths_(region.steps.count, region.edges) {}

  Status run() {
    CUGRT_TRY(dependencies());
    auto levels = find_region_levels(f_, region_.steps);
    for (const RegionLevel &level : levels->levels) {
      spaces_.clear();
      reads_.clear();
      checked_ = {kNone, kNone};
      for (uint32_t s : level.steps)
        for (bool writes : {false, true})
          CUGRT_TRY(step(s, writes));
      if (level.step != kNone)
        CUGRT_TRY(touched_as(level));
    }
    return {};
  }

private:
  using Space = std::map<int64_t, Bytes>;   // by begin, disjoint
  using Spaces = std::map<uint32_t, Space>; // by condition

  Status fail(const std::string &what) const {
    return plan_error(f_, "region " + region_.name + ": " + what);
  }

  Status step(uint32_t s, bool writes) {
    Range accesses = f_.steps[region_.steps.begin + s].accesses;
    for (uint32_t a = accesses.begin; a < accesses.end(); ++a) {
      const BufferAccess &access = f_.accesses[a];
      const Buffer &buffer = f_.buffers[access.buffer];
      auto [begin, end] = ranges_[access.buffer];
      if (begin >= end || (writes ? access.access == Access::in : access.access == Access::out))
        continue;
      const uint32_t condition = conditions_[region_.steps.begin + s];
      Spaces &spaces = spaces_[{buffer.base, buffer.index}];
      StepTouch touch{s, access.buffer};
      for (auto &[other, space] : spaces)
        if (other == condition || !conditions_.exclusive(other, condition))
          CUGRT_TRY(after(space, begin, end, touch, writes));
      if (!writes) {
        read(spaces[condition], begin, end, touch);
        continue;
      }
      for (auto &[other, space] : spaces)
        if (conditions_.implies(other, condition)) { // all of it has a path to this write
          cut(space, begin);
          cut(space, end);
          space.erase(space.lower_bound(begin), space.lower_bound(end));
        }
      spaces[condition][begin] = {end, touch, kNone};
    }
    return {};
  }

  Status after(Space &space, int64_t begin, int64_t end, StepTouch touch, bool writes) {
    cut(space, begin);
    cut(space, end);
    for (auto it = space.lower_bound(begin); it != space.end() && it->first < end; ++it)
      CUGRT_TRY(writes ? before_write(it->second, touch) : before_read(it->second, touch));
    return {};
  }

  /// Checks that a conditional touches everything that the steps of its body touch; a level at a
  /// time, this covers nested bodies.
  Status touched_as(const RegionLevel &level) const {
    const Step &conditional = f_.steps[region_.steps.begin + level.step];
    std::map<uint32_t, Access> has;
    for (uint32_t a = conditional.accesses.begin; a < conditional.accesses.end(); ++a)
      has[f_.accesses[a].buffer] = f_.accesses[a].access;
    for (uint32_t s : level.steps) {
      Range accesses = f_.steps[region_.steps.begin + s].accesses;
      for (uint32_t a = accesses.begin; a < accesses.end(); ++a) {
        auto found = has.find(f_.accesses[a].buffer);
        if (found == has.end() ||
            (f_.accesses[a].access != Access::in && found->second != Access::inout))
          return fail("step '" + conditional.name +
                      "' leaves out what a step of its bodies does to %" +
                      f_.buffers[f_.accesses[a].buffer].name);
      }
    }
    return {};
  }

  static void cut(Space &space, int64_t at) {
    auto it = space.lower_bound(at);
    if (it == space.begin() || std::prev(it)->second.end <= at)
      return;
    --it;
    Bytes upper = it->second;
    it->second.end = at;
    space.emplace(at, upper);
  }

  void read(Space &space, int64_t begin, int64_t end, StepTouch touch) {
    for (auto it = space.lower_bound(begin); begin < end; ++it) {
      if (it == space.end() || it->first > begin) { // nobody has been there
        int64_t hole_end = it == space.end() ? end : std::min(end, it->first);
        it = space.emplace(begin, Bytes{hole_end, {}, kNone}).first;
      }
      uint32_t next = it->second.reads;
      while (next != kNone && (reads_[next].touch.step == touch.step ||
                               paths_.path(reads_[next].touch.step, touch.step)))
        next = reads_[next].next;
      reads_.push_back({touch, next});
      it->second.reads = uint32_t(reads_.size() - 1);
      begin = it->second.end;
    }
  }

  Status before_read(const Bytes &bytes, StepTouch touch) const {
    return joined(bytes.writer, touch);
  }

  Status before_write(const Bytes &bytes, StepTouch touch) {
    CUGRT_TRY(joined(bytes.writer, touch));
    if (checked_ == std::pair(bytes.reads, touch.step)) // as the bytes before it
      return {};
    for (uint32_t r = bytes.reads; r != kNone; r = reads_[r].next)
      CUGRT_TRY(joined(reads_[r].touch, touch));
    checked_ = {bytes.reads, touch.step};
    return {};
  }

  Status joined(StepTouch a, StepTouch b) const {
    if (a.step == kNone || a.step == b.step || paths_.path(a.step, b.step))
      return {};
    return fail("steps " + std::to_string(a.step) + " and " + std::to_string(b.step) +
                " share bytes of %" + f_.buffers[a.buffer].name + " and %" +
                f_.buffers[b.buffer].name + ", but no path of edges joins them");
  }

  bool has_bucket(SymbolId symbol) const {
    return std::any_of(f_.buckets.begin(), f_.buckets.end(),
                       [&](const Bucket &bucket) { return bucket.of == symbol; });
  }

  Status in_key(ExprId id, bool by_value = false) const {
    if (!id.valid())
      return {};
    std::vector<SymbolId> symbols;
    plan_.exprs.collect_symbols(id, symbols);
    for (SymbolId symbol : symbols) {
      if (f_.symbols[symbol.index].source == ir::SymbolSource::device)
        return fail("a node depends on symbol " + f_.symbols[symbol.index].name +
                    ", which lives in device memory");
      if (!std::binary_search(region_.key.begin(), region_.key.end(), symbol) &&
          !(by_value && has_bucket(symbol)))
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
      CUGRT_TRY(in_key(step.when));
      for (uint32_t a = step.arguments.begin; a < step.arguments.end(); ++a) {
        const Argument &argument = f_.arguments[a];
        if (argument.kind == ArgumentKind::expr)
          CUGRT_TRY(in_key({argument.index}, true));
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
        if (step.kind == StepKind::copy || step.kind == StepKind::fill)
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
  std::span<const std::pair<int64_t, int64_t>> ranges_;
  const StepConditions &conditions_;
  Paths paths_;
  std::map<std::pair<BufferBase, uint32_t>, Spaces> spaces_;
  std::vector<Read> reads_;
  std::pair<uint32_t, uint32_t> checked_{kNone, kNone}; // reads, and the step that follows them
};

/// Every byte that the buffer may cover.
std::pair<int64_t, int64_t> range_of(const Plan &plan, const Buffer &buffer,
                                     const ir::Domain &domain) {
  if (!buffer.bytes.valid())
    return {0, INT64_MAX};
  ir::Interval offset = plan.exprs.range(buffer.offset_bytes, domain);
  ir::Interval bytes = plan.exprs.range(buffer.bytes, domain);
  int64_t end = INT64_MAX;
  if (offset.upper != INT64_MAX && bytes.upper != INT64_MAX &&
      __builtin_add_overflow(offset.upper, bytes.upper, &end))
    end = INT64_MAX;
  return {std::max<int64_t>(offset.lower, 0), end};
}

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
      if (!argument.names_buffer())
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
    CUGRT_TRY(check_accesses(plan, function));
    const BucketBoxes boxes = boxes_of(plan.exprs, function);
    const StepConditions conditions(plan.exprs, function);
    for (size_t box = 0; box < boxes.count(); ++box) {
      std::vector<std::pair<int64_t, int64_t>> ranges;
      ranges.reserve(function.buffers.size());
      for (const Buffer &buffer : function.buffers)
        ranges.push_back(range_of(plan, buffer, boxes[box]));
      for (const Region &region : function.regions)
        CUGRT_TRY(RegionCheck(plan, function, region, ranges, conditions).run());
    }
  }
  return {};
}

} // namespace cugrt::plan
