// The walk that finds lives; see storage_lives.h.
#include "plan/validate/storage_lives.h"

#include "base/type/state_scope.h"
#include "plan/edges/step_conditions.h"
#include "plan/symbols/bucket_boxes.h"
#include "plan/validate/validate_parts.h"

#include <algorithm>
#include <array>

namespace cugrt::plan {
namespace {

struct TouchPlace {
  uint32_t parent = kNone, depth = 0;
  uint32_t loop_begin = 0, loop_end = 0; // of a loop's blocks
  bool loop = false;
};

class LifeFinder {
public:
  LifeFinder(const Plan &plan, ir::ExprPool &exprs, const Function &function)
      : plan_(plan), exprs_(exprs), f_(function), conditions_(plan.exprs, function),
        all_bounds_(symbol_domain(plan.exprs, function)), places_(f_.blocks.size()) {}

  Result<StorageLives> run() {
    for (uint32_t b = 0; b < f_.buffers.size(); ++b)
      CUGRT_TRY(add_buffer(b));
    block(0);
    for (Life &life : found_.lives)
      close(life);
    return std::move(found_);
  }

private:
  Status add_buffer(uint32_t b) {
    const Buffer &buffer = f_.buffers[b];
    if (buffer.base != BufferBase::arena)
      return {};
    if (!buffer.bytes.valid())
      return plan_error(f_, "%" + buffer.name + " lies in an arena and has no size");
    auto [it, added] = numbers_.try_emplace(buffer.tensor, uint32_t(found_.lives.size()));
    if (added)
      found_.lives.emplace_back();
    Life &life = found_.lives[it->second];
    if (life.arena != kNone && life.arena != buffer.index)
      return plan_error(f_, "%" + buffer.name + " lies in two arenas");
    life.arena = buffer.index;
    life.buffers.push_back(b);
    return {};
  }

  // --- Touches, in the order of the run ---

  /// `step`: that accesses it as its kernel declares.
  void touch(uint32_t buffer, bool reads, uint32_t step = kNone) {
    auto it = numbers_.find(f_.buffers[buffer].tensor);
    if (f_.buffers[buffer].base != BufferBase::arena || it == numbers_.end())
      return;
    Life &life = found_.lives[it->second];
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
      found_.overwriting.emplace(time_, &step);
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
    case ItemKind::read: // runs nothing; what takes the symbol accesses the element
      return;
    case ItemKind::copy_back:
      touch(item.operands[0], true);
      touch(item.operands[1], false);
      ++time_;
      return;
    case ItemKind::call:
      found_.calls.push_back({time_, item.index});
      [[fallthrough]];
    case ItemKind::allocate:
    case ItemKind::release:
    case ItemKind::host_call:
    case ItemKind::extern_call:
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
    if (plan_.arenas[life.arena].scope == ir::kStateScope) { // from run to run
      life.runs.push_back({0, UINT32_MAX});
      life.block = 0;
      return;
    }
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

  const Plan &plan_;
  ir::ExprPool &exprs_;
  const Function &f_;
  const StepConditions conditions_;
  const ir::SymbolDomain all_bounds_;
  std::vector<TouchPlace> places_;
  std::unordered_map<uint32_t, uint32_t> numbers_; // Buffer::tensor of arenas: StorageLives::lives
  StorageLives found_;
  uint32_t time_ = 0, block_ = 0;
};

} // namespace

Result<StorageLives> find_storage_lives(const Plan &plan, ir::ExprPool &exprs,
                                        const Function &function) {
  return LifeFinder(plan, exprs, function).run();
}

} // namespace cugrt::plan
