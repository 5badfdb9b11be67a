// Arenas of plans: bytes that are live together are apart. Lifetimes are those of storage_lives.h.
// Two tensors may share bytes at one time in one case: a launch whose kernel declares it writes a
// tensor over all of one that it reads, element by element, where the one begins and the other
// ends. Where offsets are a table by bucket, bytes are compared bucket by bucket. State
// (base/type/state_scope.h) is apart in all functions.
#include "plan/validate/validate_parts.h"

#include "base/type/state_scope.h"
#include "plan/edges/hazards.h"
#include "plan/symbols/bucket_boxes.h"
#include "plan/validate/storage_lives.h"

#include <algorithm>
#include <map>

namespace cugrt::plan {
namespace {

using Extents = std::vector<Extent>; // by arena

/// One run of a life.
struct LifeRun {
  const Life *life;
  uint32_t begin, end;
};

class StorageCheck {
public:
  StorageCheck(const Plan &plan, ir::ExprPool &exprs, const Function &function,
               std::span<const Extents> callees)
      : plan_(plan), exprs_(exprs), f_(function), callees_(callees),
        boxes_(boxes_of(plan.exprs, function)), bounds_(symbol_domain(plan.exprs, function)),
        matched_(matched_symbols(exprs, function)) {}

  Status run(Extents &own) {
    CUGRT_ASSIGN(found_, find_storage_lives(plan_, exprs_, f_));
    own.assign(plan_.arenas.size(), {});
    const std::vector<std::vector<int64_t>> edges = edge_points(plan_.exprs, f_);
    for (size_t box = 0; box < boxes_.count(); ++box) {
      bounds_ = boxes_[box];
      for (Life &life : found_.lives)
        CUGRT_TRY(measure(life));
      for (const Life &life : found_.lives)
        if (life.arena != kNone)
          own[life.arena].add(life.bytes);
      for (const std::vector<int64_t> &point : edges)
        if (boxes_.count() == 1 || boxes_.find(point) == box)
          for (const Life &life : found_.lives)
            CUGRT_TRY(measure_at(life, point));
      CUGRT_TRY(disjoint());
    }
    for (const CallTime &call : found_.calls)
      for (size_t arena = 0; arena < own.size(); ++arena)
        if (plan_.arenas[arena].scope != ir::kStateScope)
          own[arena].add(callees_[call.callee][arena]);
    return {};
  }

private:
  /// The bytes that a life may cover within the bounds.
  Status measure(Life &life) {
    life.bytes = {};
    for (uint32_t b : life.buffers) {
      const Buffer &buffer = f_.buffers[b];
      ir::Interval offset = exprs_.range(buffer.offset_bytes, bounds_);
      ir::Interval end = exprs_.range(exprs_.add(buffer.offset_bytes, buffer.bytes), bounds_);
      if (offset.lower < 0 || end.upper > plan_.arenas[buffer.index].bytes)
        return plan_error(f_, "%" + buffer.name + " may lie outside of arena " +
                                  plan_.arenas[buffer.index].scope);
      life.bytes.add({offset.lower, end.upper});
    }
    return {};
  }

  /// Whether the measurements hold at one point of the domain. A run cannot launch a step whose
  /// values cannot be evaluated.
  Status measure_at(const Life &life, const std::vector<int64_t> &point) const {
    for (uint32_t b : life.buffers) {
      const auto offset = exprs_.evaluate(f_.buffers[b].offset_bytes, point);
      const auto bytes = exprs_.evaluate(f_.buffers[b].bytes, point);
      int64_t end;
      if (offset.ok() && bytes.ok() && *bytes > 0 &&
          (*offset < life.bytes.begin || __builtin_add_overflow(*offset, *bytes, &end) ||
           end > life.bytes.end))
        return plan_error(f_, "%" + f_.buffers[b].name +
                                  " leaves its bytes where the constraints are just kept");
    }
    return {};
  }

  // --- Checks ---

  bool share_bytes(const Life &a, const Life &b) {
    if (a.arena != b.arena || a.bytes.end <= b.bytes.begin || b.bytes.end <= a.bytes.begin)
      return false;
    for (uint32_t x : a.buffers)
      for (uint32_t y : b.buffers)
        if (may_overlap(exprs_, f_.buffers[x], f_.buffers[y], bounds_, matched_))
          return true;
    return false;
  }

  /// Whether a life begins where a launch writes it over another, which ends there: its only touch
  /// of the one, and all its touches of the other are parameters that may be overwritten; each
  /// names exactly the same bytes, of elements of one size.
  bool takes_over(const LifeRun &begun, const LifeRun &ending) {
    const Life &life = *begun.life, &other = *ending.life;
    auto found = found_.overwriting.find(begun.begin);
    if (found == found_.overwriting.end() || ending.end != begun.begin + 1)
      return false;
    const Step &step = *found->second;
    const std::vector<KernelParam> &params = plan_.kernels[step.kernel].params;
    auto is_of = [&](uint32_t buffer, const Life &of) {
      return std::find(of.buffers.begin(), of.buffers.end(), buffer) != of.buffers.end();
    };
    uint32_t out = kNone;
    std::vector<uint32_t> reads; // arguments
    for (uint32_t p = 0; p < params.size(); ++p) {
      const Argument &argument = f_.arguments[step.arguments.begin + p];
      if (!argument.names_buffer())
        continue;
      if (is_of(argument.index, life) && std::exchange(out, p) != kNone)
        return false;
      if (is_of(argument.index, other))
        reads.push_back(p);
    }
    if (out == kNone)
      return false;
    const Buffer &written = f_.buffers[f_.arguments[step.arguments.begin + out].index];
    for (uint32_t p : reads) {
      const Buffer &read = f_.buffers[f_.arguments[step.arguments.begin + p].index];
      if (std::find(params[out].over.begin(), params[out].over.end(), p) ==
              params[out].over.end() ||
          !matched_.same(read.offset_bytes, written.offset_bytes) ||
          !matched_.same(read.bytes, written.bytes) ||
          ir::info(read.dtype).bytes_per_block != ir::info(written.dtype).bytes_per_block ||
          !read.strides.empty() || !written.strides.empty())
        return false;
    }
    // Neither is touched but as an argument: as a workspace, say.
    for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a) {
      const BufferAccess &access = f_.accesses[a];
      if ((is_of(access.buffer, life) && access.access != Access::out) ||
          (is_of(access.buffer, other) && access.access != Access::in))
        return false;
    }
    return !reads.empty();
  }

  /// Runs of lives by begin and calls by time, merged. Lives that shared no byte with any other
  /// at their begin are in a map of their arena; those that only expressions separate are in a
  /// list.
  Status disjoint() {
    std::vector<LifeRun> order;
    for (const Life &life : found_.lives)
      if (!life.bytes.empty())
        for (auto [begin, end] : life.runs)
          order.push_back({&life, begin, end});
    std::stable_sort(order.begin(), order.end(),
                     [](const LifeRun &a, const LifeRun &b) { return a.begin < b.begin; });
    alive_.assign(plan_.arenas.size(), {});
    size_t next = 0;
    for (const CallTime &call : found_.calls) { // in the order of the run
      for (; next < order.size() && order[next].begin <= call.time; ++next)
        CUGRT_TRY(begin_run(order[next]));
      for (uint32_t arena = 0; arena < alive_.size(); ++arena)
        CUGRT_TRY(above_callers(call, arena));
    }
    for (; next < order.size(); ++next)
      CUGRT_TRY(begin_run(order[next]));
    return {};
  }

  /// Calls visit(run) for those that may share bytes with `bytes` and live at `time`.
  template <class Visit>
  Status for_alive(uint32_t arena, const Extent &bytes, uint32_t time, Visit visit) {
    auto &[ranges, others] = alive_[arena];
    auto it = ranges.upper_bound(bytes.begin);
    if (it != ranges.begin())
      --it;
    while (it != ranges.end() && it->first < bytes.end) {
      if (it->second.end <= time) {
        it = ranges.erase(it);
        continue;
      }
      if (bytes.begin < it->second.life->bytes.end)
        CUGRT_TRY(visit(it->second));
      ++it;
    }
    std::erase_if(others, [&](const LifeRun &run) { return run.end <= time; });
    for (const LifeRun &run : others)
      if (bytes.begin < run.life->bytes.end && run.life->bytes.begin < bytes.end)
        CUGRT_TRY(visit(run));
    return {};
  }

  Status begin_run(const LifeRun &run) {
    const Life &life = *run.life;
    bool apart = true;
    CUGRT_TRY(for_alive(life.arena, life.bytes, run.begin, [&](const LifeRun &other) -> Status {
      apart = false;
      if (!share_bytes(life, *other.life) || takes_over(run, other))
        return {};
      return plan_error(f_, "%" + f_.buffers[life.buffers[0]].name + " and %" +
                                f_.buffers[other.life->buffers[0]].name +
                                " are live together and share bytes of arena " +
                                plan_.arenas[life.arena].scope);
    }));
    if (apart)
      alive_[life.arena].ranges.emplace(life.bytes.begin, run);
    else
      alive_[life.arena].others.push_back(run);
    return {};
  }

  Status above_callers(const CallTime &call, uint32_t arena) {
    const Extent &callee = callees_[call.callee][arena];
    if (callee.empty())
      return {};
    return for_alive(arena, callee, call.time, [&](const LifeRun &run) -> Status {
      return plan_error(f_, "@" + plan_.functions[call.callee].name + " overwrites %" +
                                f_.buffers[run.life->buffers[0]].name +
                                ", which is live when it is called");
    });
  }

  const Plan &plan_;
  ir::ExprPool &exprs_;
  const Function &f_;
  std::span<const Extents> callees_;
  const BucketBoxes boxes_;
  ir::Domain bounds_; // of the box that is being looked at
  const MatchedSymbols matched_;
  StorageLives found_;
  struct Alive {
    std::map<int64_t, LifeRun> ranges; // by first byte, disjoint; some have ended
    std::vector<LifeRun> others;
  };
  std::vector<Alive> alive_; // by arena
};

/// Callees before callers; the structure check has refused rings.
void post_order(const Plan &plan, uint32_t root, std::vector<bool> &seen,
                std::vector<uint32_t> &order) {
  struct Visit {
    uint32_t function;
    std::vector<uint32_t> callees;
  };
  auto callees_of = [&](uint32_t f) {
    std::vector<uint32_t> callees;
    for (const Block &block : plan.functions[f].blocks)
      for (const Item &item : block.items)
        if (item.kind == ItemKind::call)
          callees.push_back(item.index);
    return callees;
  };
  std::vector<Visit> stack;
  auto enter = [&](uint32_t f) {
    if (seen[f])
      return;
    seen[f] = true;
    stack.push_back({f, callees_of(f)});
  };
  enter(root);
  while (!stack.empty()) {
    if (stack.back().callees.empty()) {
      order.push_back(stack.back().function);
      stack.pop_back();
      continue;
    }
    uint32_t next = stack.back().callees.back();
    stack.back().callees.pop_back();
    enter(next);
  }
}

/// State of a function lies apart from that of every other one.
Status state_apart(const Plan &plan, std::vector<uint32_t> order, std::span<const Extents> extents,
                   size_t arena) {
  std::erase_if(order, [&](uint32_t f) { return extents[f][arena].empty(); });
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return extents[a][arena].begin < extents[b][arena].begin;
  });
  for (size_t i = 1; i < order.size(); ++i)
    if (extents[order[i]][arena].begin < extents[order[i - 1]][arena].end)
      return plan_error(plan.functions[order[i]], "its state shares bytes with that of @" +
                                                      plan.functions[order[i - 1]].name);
  return {};
}

} // namespace

Status validate_storage(const Plan &plan) {
  ir::ExprPool exprs = plan.exprs; // grows by differences of offsets
  std::vector<bool> seen(plan.functions.size(), false);
  std::vector<uint32_t> order;
  for (uint32_t f = 0; f < plan.functions.size(); ++f)
    post_order(plan, f, seen, order);
  std::vector<Extents> extents(plan.functions.size(), Extents(plan.arenas.size()));
  for (uint32_t f : order)
    CUGRT_TRY(StorageCheck(plan, exprs, plan.functions[f], extents).run(extents[f]));
  for (size_t arena = 0; arena < plan.arenas.size(); ++arena)
    if (plan.arenas[arena].scope == ir::kStateScope)
      CUGRT_TRY(state_apart(plan, order, extents, arena));
  return {};
}

} // namespace cugrt::plan
