// Arenas of plans. Lifetimes are taken from what the plan's steps and items touch, in the order in
// which they run, not from the planner's liveness: a tensor lives from its first touch to its last;
// one that is touched inside and outside a loop lives through the whole loop, and so does one that
// a loop reads before it writes it. Its life has a gap before a step that writes all of it, reading
// nothing of it, and runs whenever what touches it later does: others may have its bytes from the
// touch before on. Two may share bytes at one time in one case: a launch whose kernel declares it
// writes a tensor over all of one that it reads, element by element, where the one begins and the
// other ends. Where offsets are a table by bucket, bytes are compared bucket by bucket.
#include "plan/validate.h"

#include "plan/bucket_boxes.h"
#include "plan/edge_points.h"
#include "plan/hazards.h"
#include "plan/step_conditions.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

namespace cugrt::plan {
namespace {

struct Extent {
  int64_t begin = INT64_MAX, end = 0;
  bool empty() const { return begin >= end; }
  void add(const Extent &other) {
    if (other.empty())
      return;
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
};

using Extents = std::vector<Extent>; // by arena

struct Place {
  uint32_t parent = kNone, depth = 0;
  uint32_t loop_begin = 0, loop_end = 0; // of a loop's blocks
  bool loop = false;
};

struct Touch {
  uint32_t time, block, condition; // StepConditions
  bool writes_all;                 // reads nothing, and surely runs where its condition holds
};

struct Life {
  uint32_t arena = kNone;
  std::vector<std::pair<uint32_t, uint32_t>> runs; // of times, ascending, apart
  uint32_t block = kNone;                          // the innermost block that holds all touches
  bool first_is_read = false;
  Extent bytes;
  std::vector<Touch> touches;
  std::vector<uint32_t> buffers;
};

/// One run of a life.
struct LifeRun {
  const Life *life;
  uint32_t begin, end;
};

struct CallTime {
  uint32_t time, callee;
};

class StorageCheck {
public:
  StorageCheck(const Plan &plan, ir::ExprPool &exprs, const Function &function,
               std::span<const Extents> callees)
      : plan_(plan), exprs_(exprs), f_(function), callees_(callees),
        conditions_(plan.exprs, function), boxes_(boxes_of(plan.exprs, function)),
        all_bounds_(symbol_domain(plan.exprs, function)), bounds_(all_bounds_),
        matched_(matched_symbols(exprs, function)), places_(f_.blocks.size()) {}

  Status run(Extents &own) {
    for (uint32_t b = 0; b < f_.buffers.size(); ++b)
      CUGRT_TRY(add_buffer(b));
    block(0);
    for (Life &life : lives_)
      close(life);
    own.assign(plan_.arenas.size(), {});
    const std::vector<std::vector<int64_t>> edges = edge_points(plan_.exprs, f_);
    for (size_t box = 0; box < boxes_.count(); ++box) {
      bounds_ = boxes_[box];
      for (Life &life : lives_)
        CUGRT_TRY(measure(life));
      for (const Life &life : lives_)
        if (life.arena != kNone)
          own[life.arena].add(life.bytes);
      for (const std::vector<int64_t> &point : edges)
        if (boxes_.count() == 1 || boxes_.find(point) == box)
          for (const Life &life : lives_)
            CUGRT_TRY(measure_at(life, point));
      CUGRT_TRY(disjoint());
    }
    for (const CallTime &call : calls_)
      for (size_t arena = 0; arena < own.size(); ++arena)
        own[arena].add(callees_[call.callee][arena]);
    return {};
  }

private:
  Status add_buffer(uint32_t b) {
    const Buffer &buffer = f_.buffers[b];
    if (buffer.base != BufferBase::arena)
      return {};
    if (!buffer.bytes.valid())
      return plan_error(f_, "%" + buffer.name + " lies in an arena and has no size");
    auto [it, added] = numbers_.try_emplace(buffer.tensor, uint32_t(lives_.size()));
    if (added)
      lives_.emplace_back();
    Life &life = lives_[it->second];
    if (life.arena != kNone && life.arena != buffer.index)
      return plan_error(f_, "%" + buffer.name + " lies in two arenas");
    life.arena = buffer.index;
    life.buffers.push_back(b);
    return {};
  }

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

  /// Whether what was measured holds at one point of the domain. What cannot be evaluated there no
  /// run can launch.
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

  // --- Touches, in the order of the run ---

  /// `step`: that accesses it as its kernel declares.
  void touch(uint32_t buffer, bool reads, uint32_t step = kNone) {
    auto it = numbers_.find(f_.buffers[buffer].tensor);
    if (f_.buffers[buffer].base != BufferBase::arena || it == numbers_.end())
      return;
    Life &life = lives_[it->second];
    if (life.touches.empty())
      life.first_is_read = reads;
    if (life.touches.empty() || life.touches.back().time != time_ ||
        life.touches.back().block != block_) {
      const uint32_t condition = step == kNone ? StepConditions::kAlways : conditions_[step];
      const bool known =
          step != kNone && (condition != StepConditions::kAlways || !f_.steps[step].when.valid());
      life.touches.push_back({time_, block_, condition, known && !reads && is_whole(buffer, life)});
    }
  }

  /// Whether a buffer is all of its tensor, whatever the symbols' values.
  bool is_whole(uint32_t buffer, const Life &life) {
    const Buffer &whole = f_.buffers[buffer];
    auto never_negative = [&](ExprId difference) {
      return exprs_.range(difference, all_bounds_).lower >= 0;
    };
    return std::all_of(life.buffers.begin(), life.buffers.end(), [&](uint32_t b) {
      const Buffer &part = f_.buffers[b];
      if (part.offset_bytes == whole.offset_bytes && part.bytes == whole.bytes)
        return true;
      return never_negative(exprs_.sub(part.offset_bytes, whole.offset_bytes)) &&
             never_negative(exprs_.sub(exprs_.add(whole.offset_bytes, whole.bytes),
                                       exprs_.add(part.offset_bytes, part.bytes)));
    });
  }

  void touch(const OperandRef &ref, bool reads) {
    if (ref.kind == OperandRef::Kind::buffer)
      touch(ref.index, reads);
    else if (ref.kind == OperandRef::Kind::list)
      for (const OperandRef &element : f_.lists[ref.index])
        touch(element, reads);
  }

  void step(uint32_t index) {
    const Step &step = f_.steps[index];
    if (step.kind == StepKind::kernel &&
        std::any_of(plan_.kernels[step.kernel].params.begin(),
                    plan_.kernels[step.kernel].params.end(),
                    [](const KernelParam &param) { return !param.over.empty(); }))
      overwriting_.emplace(time_, &step);
    for (bool reads : {true, false})
      for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a) {
        Access access = f_.accesses[a].access;
        if (reads ? access != Access::out : access != Access::in)
          touch(f_.accesses[a].buffer, reads, index);
      }
    ++time_;
  }

  void item(const Item &item) {
    switch (item.kind) {
    case ItemKind::step:
      return step(item.index);
    case ItemKind::region:
      return steps(f_.regions[item.index].steps.begin, f_.regions[item.index].steps.end());
    case ItemKind::if_:
    case ItemKind::while_:
      return construct(item);
    case ItemKind::match:
      return;
    case ItemKind::copy_back:
      touch(item.operands[0], true);
      touch(item.operands[1], false);
      ++time_;
      return;
    case ItemKind::call:
      calls_.push_back({time_, item.index});
      [[fallthrough]];
    default:
      for (const OperandRef &ref : item.operands)
        touch(ref, true);
      for (const OperandRef &ref : item.results)
        touch(ref, false);
      ++time_;
    }
  }

  /// Bodies of conditionals are blocks: a conditional itself touches nothing but its condition.
  void steps(uint32_t begin, uint32_t end) {
    for (uint32_t s = begin; s < end; ++s) {
      if (f_.steps[s].kind != StepKind::conditional) {
        step(s);
        continue;
      }
      const Conditional &conditional = f_.conditionals[f_.steps[s].conditional];
      touch(f_.accesses[f_.steps[s].accesses.begin].buffer, true);
      const uint32_t time = time_++, first = uint32_t(places_.size());
      for (uint32_t count : conditional.bodies) {
        const auto body = uint32_t(places_.size());
        places_.push_back({block_, places_[block_].depth + 1, time, 0,
                           conditional.kind == ConditionalKind::while_});
        uint32_t outer = std::exchange(block_, body);
        steps(s + 1, s + 1 + count);
        block_ = outer;
        ++time_;
        s += count;
      }
      for (size_t body = first; body < places_.size(); ++body)
        if (places_[body].parent == block_)
          places_[body].loop_end = time_;
    }
  }

  void construct(const Item &item) {
    bool loop = item.kind == ItemKind::while_;
    if (!loop)
      for (const OperandRef &ref : item.operands)
        touch(ref, true);
    uint32_t begin = time_++;
    for (uint32_t b = item.blocks.begin; b < item.blocks.end(); ++b) {
      places_[b] = {block_, places_[block_].depth + 1, begin, 0, loop};
      block(b);
    }
    for (uint32_t b = item.blocks.begin; b < item.blocks.end(); ++b)
      places_[b].loop_end = time_;
  }

  void block(uint32_t index) {
    uint32_t outer = std::exchange(block_, index);
    for (const Item &i : f_.blocks[index].items)
      item(i);
    if (index != 0 && places_[index].loop) // a loop's condition may be in device memory
      for (const OperandRef &ref : f_.blocks[index].results)
        touch(ref, true);
    ++time_;
    block_ = outer;
  }

  // --- Lifetimes ---

  uint32_t common(uint32_t a, uint32_t b) const {
    while (a != b) {
      uint32_t &deeper = places_[a].depth >= places_[b].depth ? a : b;
      deeper = places_[deeper].parent;
    }
    return a;
  }

  /// The touches, each for as long as the loops run that it is in, but for those around all of
  /// them. A touch that writes all, at the level of them all, and wherever later ones run, begins a
  /// run of its own.
  void close(Life &life) const {
    if (life.touches.empty())
      return;
    life.block = life.touches.front().block;
    for (const Touch &touch : life.touches)
      life.block = common(life.block, touch.block);
    std::array<uint32_t, StepConditions::kMost> later{}; // touches, by condition
    for (const Touch &touch : life.touches)
      ++later[touch.condition];
    for (const Touch &touch : life.touches) {
      --later[touch.condition];
      uint32_t begin = touch.time, end = touch.time + 1;
      for (uint32_t b = touch.block; b != life.block; b = places_[b].parent)
        if (places_[b].loop) {
          begin = std::min(begin, places_[b].loop_begin);
          end = std::max(end, places_[b].loop_end);
        }
      const bool anew = touch.writes_all && touch.block == life.block && !life.first_is_read &&
                        runs_before(touch, later);
      if (life.runs.empty() || (anew && life.runs.back().second < begin))
        life.runs.push_back({begin, end});
      else
        life.runs.back() = {std::min(life.runs.back().first, begin),
                            std::max(life.runs.back().second, end)};
    }
    if (life.first_is_read)
      for (uint32_t b = life.block; b != kNone; b = places_[b].parent)
        if (places_[b].loop)
          life.runs.back() = {std::min(life.runs.back().first, places_[b].loop_begin),
                              std::max(life.runs.back().second, places_[b].loop_end)};
  }

  /// Whether a touch runs wherever any of these does.
  bool runs_before(const Touch &touch,
                   const std::array<uint32_t, StepConditions::kMost> &others) const {
    for (uint32_t c = 0; c < others.size(); ++c)
      if (others[c] && !conditions_.implies(c, touch.condition))
        return false;
    return true;
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
    auto found = overwriting_.find(begun.begin);
    if (found == overwriting_.end() || ending.end != begun.begin + 1)
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

  /// Runs of lives by begin and calls by time, merged. What was alive and did not share a byte with
  /// anything at its begin stands in a map of its arena; what the expressions alone tell apart, in
  /// a list.
  Status disjoint() {
    std::vector<LifeRun> order;
    for (const Life &life : lives_)
      if (!life.bytes.empty())
        for (auto [begin, end] : life.runs)
          order.push_back({&life, begin, end});
    std::stable_sort(order.begin(), order.end(),
                     [](const LifeRun &a, const LifeRun &b) { return a.begin < b.begin; });
    alive_.assign(plan_.arenas.size(), {});
    size_t next = 0;
    for (const CallTime &call : calls_) { // in the order of the run
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
  const StepConditions conditions_;
  const BucketBoxes boxes_;
  const ir::SymbolDomain all_bounds_;
  ir::Domain bounds_; // of the box that is being looked at
  const MatchedSymbols matched_;
  std::vector<Place> places_;
  std::unordered_map<uint32_t, uint32_t> numbers_; // Buffer::tensor of arenas: lives_
  std::vector<Life> lives_;
  std::vector<CallTime> calls_;
  std::unordered_map<uint32_t, const Step *> overwriting_; // launches that may, by time
  struct Alive {
    std::map<int64_t, LifeRun> ranges; // by first byte, disjoint; some have ended
    std::vector<LifeRun> others;
  };
  std::vector<Alive> alive_; // by arena
  uint32_t time_ = 0, block_ = 0;
};

/// Callees before callers; the structure check has refused rings.
void post_order(const Plan &plan, uint32_t root, std::vector<bool> &seen,
                std::vector<uint32_t> &order) {
  struct Frame {
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
  std::vector<Frame> stack;
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
  return {};
}

} // namespace cugrt::plan
