// Fronts and the order that makes them: accesses of launches, then one list schedule a segment, a
// run of bindings that holds only launches and what names memory.
#include "compiler/planner/storage/fronts.h"

#include "base/checked_math.h"
#include "compiler/ir_names.h"
#include "compiler/planner/packing/packing.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/op.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>
#include <set>

namespace cugrt::plan {

// Launches that are ready and that a front looks at: beyond, program order decides.
static constexpr size_t kWindow = 64;

int64_t most_bytes(Reuse reuse, int64_t smallest_bytes) {
  const auto grown = checked_add(smallest_bytes, smallest_bytes / 2);
  if (reuse == Reuse::smallest)
    return smallest_bytes;
  return reuse == Reuse::parallel || !grown ? INT64_MAX : std::max(*grown, kPageBytes);
}

SideBySide::SideBySide(const ir::Module &module, const ir::Function &function, const Liveness &live)
    : module_(module), f_(function), live_(live), bounds_(symbol_domain(module, function)),
      all_bounded_(std::all_of(bounds_.box().begin(), bounds_.box().end(),
                               [](ir::Interval i) { return i.upper != INT64_MAX; })) {
  roles_.resize(live.times.size());
  starts_.resize(live.times.size() + 1);
  for (uint32_t block = 0; block < f_.blocks.size(); ++block)
    for (uint32_t i = 0; i < f_.blocks[block].bindings.size(); ++i) {
      const Binding &b = f_.blocks[block].bindings[i];
      const size_t at = index(block, i);
      roles_[at] = role_of(b);
      starts_[at] = uint32_t(accesses_.size());
      if (roles_[at] == Role::launch)
        add_accesses(b);
      else if (roles_[at] == Role::conditional)
        add_construct(b);
      starts_[at + 1] = uint32_t(accesses_.size());
    }
}

SideBySide::Role SideBySide::role_of(const Binding &b) const {
  if (b.work() == ir::BindingWork::names)
    return Role::name;
  // Launches on memory that is allocated during the run end regions.
  if (b.kind == BindingKind::launch && !any_dynamic(f_.operands_of(b)))
    return Role::launch;
  const bool is_construct = b.kind == BindingKind::while_ ||
                            (b.kind == BindingKind::if_ && is_device_scalar(f_.operands_of(b)[0]));
  return is_construct && runs_on_device(b) ? Role::conditional : Role::other;
}

bool SideBySide::is_dynamic(uint32_t o) const {
  if (o == kNoOrigin)
    return false;
  const Origin &origin = live_.origins[o];
  if (origin.kind != OriginKind::alloc || origin.returned_whole)
    return origin.kind == OriginKind::host_result;
  const ir::Type &type = module_.types[f_.value(origin.value).type];
  return origin.passed_to_host || !type.known_shape ||
         (!all_bounded_ && !max_tensor_bytes(module_.exprs, type, bounds_));
}

bool SideBySide::any_dynamic(std::span<const Operand> operands) const {
  return std::any_of(operands.begin(), operands.end(), [&](const Operand &operand) {
    return operand.kind == Operand::Kind::value && is_dynamic(live_.origin(operand.value()));
  });
}

bool SideBySide::is_device_scalar(const Operand &operand) const {
  return operand.kind == Operand::Kind::value &&
         module_.types[f_.value(operand.value()).type].kind == ir::TypeKind::tensor;
}

/// Whether a construct's blocks hold only bindings that a conditional node's bodies may have.
/// compiler/planner/lower/regions.h decides; if it refuses, launches have changed places for
/// nothing.
bool SideBySide::runs_on_device(const Binding &construct) const {
  if (any_dynamic(f_.operands_of(construct)))
    return false;
  for (uint32_t i = 0; i < construct.result_count; ++i)
    if (live_.origin(construct.result(i)) == kNoOrigin)
      return false;
  if (construct.kind == BindingKind::while_ &&
      !is_device_scalar(f_.results_of(f_.blocks[construct.blocks.begin])[0]))
    return false;
  for (uint32_t block = construct.blocks.begin; block < construct.blocks.end(); ++block) {
    if (any_dynamic(f_.results_of(f_.blocks[block])))
      return false;
    for (const Binding &b : f_.blocks[block].bindings) {
      const Role role = role_of(b);
      const bool on_symbols = b.kind == BindingKind::if_ &&
                              f_.operands_of(b)[0].kind == Operand::Kind::expr && runs_on_device(b);
      if (role == Role::other && b.kind != BindingKind::kill && !on_symbols)
        return false;
      if (role == Role::launch)
        for (const ir::KernelVariant &variant : module_.kernels[b.callee].variants)
          if (variant.cooperative)
            return false;
    }
  }
  return true;
}

void SideBySide::add_access(uint32_t origin, bool writes) {
  if (origin == kNoOrigin)
    return;
  if (live_.origins[origin].parent != kNoOrigin)
    origin = live_.origins[origin].parent;
  accesses_.push_back({origin, writes});
}

void SideBySide::add_accesses(const Binding &launch) {
  const ir::Kernel &kernel = module_.kernels[launch.callee];
  const std::span<const Operand> operands = f_.operands_of(launch);
  for (size_t i = 0; i < operands.size() && i < kernel.params.size(); ++i)
    if (operands[i].kind == Operand::Kind::value) {
      const ir::KernelParam &param = kernel.params[i];
      add_access(live_.origin(operands[i].value()),
                 param.kind == ir::KernelParamKind::tensor && ir::writes(param.access));
    }
}

/// Adds a construct's operands, the accesses of its blocks' launches, the blocks' results, and its
/// own results, which those write.
void SideBySide::add_construct(const Binding &construct) {
  auto read = [&](std::span<const Operand> operands) {
    for (const Operand &operand : operands)
      if (operand.kind == Operand::Kind::value)
        add_access(live_.origin(operand.value()), false);
  };
  read(f_.operands_of(construct));
  for (uint32_t i = 0; i < construct.result_count; ++i)
    add_access(live_.origin(construct.result(i)), true);
  for (uint32_t block = construct.blocks.begin; block < construct.blocks.end(); ++block) {
    read(f_.results_of(f_.blocks[block]));
    for (const Binding &b : f_.blocks[block].bindings)
      if (b.kind == BindingKind::launch)
        add_accesses(b);
      else if (b.kind == BindingKind::if_ || b.kind == BindingKind::while_)
        add_construct(b);
  }
}

/// Fronts as launches stand, and how few there could be: no launch can run before those on the
/// longest path to it have ended.
class SideBySide::Measure {
public:
  Measure(const SideBySide &all, uint32_t lanes)
      : all_(all), lanes_(lanes), origins_(all.live_.origins.size()) {}

  Fronts run() {
    for (uint32_t block = 0; block < all_.f_.blocks.size(); ++block) {
      end_segment();
      const uint32_t count = uint32_t(all_.f_.blocks[block].bindings.size());
      for (uint32_t i = 0; i < count; ++i) {
        const size_t at = all_.index(block, i);
        if (runs(all_.roles_[at]))
          add(all_.accesses(at), times_of(all_.f_.blocks[block].bindings[i], at));
        else if (all_.roles_[at] == Role::other)
          end_segment();
      }
    }
    end_segment();
    widen();
    return std::move(out_);
  }

private:
  /// [begin, end) without the hole, in which a construct's blocks stand.
  struct Times {
    uint32_t begin, end, hole_begin, hole_end;
    bool has_hole() const { return hole_begin < hole_end; }
  };
  /// The last front, and the depth of the deepest launch, that touch or write an origin.
  struct OriginState {
    uint32_t touched_in = 0, written_in = 0, touched_at = 0, written_at = 0;
  };

  Times times_of(const Binding &b, size_t at) const {
    const uint32_t time = all_.live_.times[at];
    if (all_.roles_[at] == Role::launch)
      return {time, time + 1, 0, 0};
    const uint32_t end = all_.live_.blocks[b.blocks.end() - 1].end;
    return {time, end, time + 1, end};
  }

  void add(std::span<const Access> accesses, const Times &times) {
    bool waits = size_ == 0 || size_ == lanes_ || (times.has_hole() && open_.has_hole());
    uint32_t depth = base_;
    for (const Access &access : accesses) {
      const OriginState &origin = origins_[access.origin];
      waits |= (access.writes ? origin.touched_in : origin.written_in) == front_;
      depth = std::max(depth, access.writes ? origin.touched_at : origin.written_at);
    }
    if (waits)
      begin_front(times);
    open_.end = times.end;
    if (times.has_hole()) {
      open_.hole_begin = times.hole_begin;
      open_.hole_end = times.hole_end;
      ++constructs_;
    }
    deepest_ = std::max(deepest_, ++depth);
    for (const Access &access : accesses) {
      OriginState &origin = origins_[access.origin];
      origin.touched_in = front_;
      origin.touched_at = std::max(origin.touched_at, depth);
      if (access.writes) {
        origin.written_in = front_;
        origin.written_at = std::max(origin.written_at, depth);
      }
    }
    ++launches_;
    if (++size_ == 2)
      wide_.push_back(open_);
    else if (size_ > 2)
      wide_.back() = open_;
  }

  void begin_front(const Times &times) {
    ++front_;
    ++out_.count_;
    size_ = 0;
    open_ = {times.begin, times.end, 0, 0};
  }

  void end_segment() {
    out_.least_ += std::max({deepest_ - base_, (launches_ + lanes_ - 1) / lanes_, constructs_});
    base_ = deepest_; // what was touched before orders nothing here
    launches_ = size_ = constructs_ = 0;
  }

  void widen() {
    if (wide_.empty())
      return;
    const uint32_t end = all_.live_.end_time + 1;
    out_.begins_.resize(end);
    out_.ends_.resize(end);
    for (uint32_t time = 0; time < end; ++time) {
      out_.begins_[time] = time;
      out_.ends_[time] = time + 1;
    }
    for (const Times &times : wide_)
      for (uint32_t time = times.begin; time < times.end; ++time) {
        if (times.has_hole() && time == times.hole_begin)
          time = times.hole_end;
        if (time == times.end)
          break;
        out_.begins_[time] = times.begin;
        out_.ends_[time] = times.end;
      }
  }

  const SideBySide &all_;
  const uint32_t lanes_;
  std::vector<OriginState> origins_;
  uint32_t front_ = 0, size_ = 0; // the front that is open
  Times open_{};                  // its times
  uint32_t base_ = 0, deepest_ = 0, launches_ = 0,
           constructs_ = 0; // of the segment: depths, counts
  std::vector<Times> wide_;
  Fronts out_;
};

Fronts SideBySide::fronts(uint32_t lanes) const { return Measure(*this, lanes).run(); }

/// One segment of a block: the order between its launches, and an interleaved order.
class SideBySide::Segment {
public:
  explicit Segment(const SideBySide &all)
      : all_(all), written_by_(all.live_.origins.size(), kNobody),
        read_from_(all.live_.origins.size(), kNobody) {}

  /// The order of `bindings`, which begin at `first` of all; empty where launches form a chain.
  std::vector<uint32_t> schedule(std::span<const Binding> bindings, size_t first, uint32_t lanes) {
    collect(bindings, first);
    measure();
    std::vector<uint32_t> order;
    if (launches_.size() < 2 ||
        *std::max_element(heights_.begin(), heights_.end()) == launches_.size())
      return order;
    for (uint32_t launch : list(lanes))
      place(bindings, launches_[launch], order);
    for (uint32_t i = 0; i < bindings.size(); ++i)
      place(bindings, i, order);
    return order;
  }

private:
  static constexpr uint32_t kNobody = UINT32_MAX;

  struct Edge {
    uint32_t from, to; // of launches_
  };
  struct Reader {
    uint32_t launch, next; // of the same origin, since it was last written
  };

  void collect(std::span<const Binding> bindings, size_t first) {
    launches_.clear();
    is_construct_.clear();
    edges_.clear();
    readers_.clear();
    touched_.clear();
    for (uint32_t i = 0; i < bindings.size(); ++i)
      if (runs(all_.roles_[first + i])) {
        add(all_.accesses(first + i));
        launches_.push_back(i);
        is_construct_.push_back(all_.roles_[first + i] == Role::conditional);
      }
    for (uint32_t origin : touched_)
      written_by_[origin] = read_from_[origin] = kNobody;
    find_makers(bindings);
  }

  void add(std::span<const Access> accesses) {
    const uint32_t launch = uint32_t(launches_.size());
    for (const Access &access : accesses) {
      wait_for(written_by_[access.origin], launch);
      if (access.writes)
        for (uint32_t r = read_from_[access.origin]; r != kNobody; r = readers_[r].next)
          wait_for(readers_[r].launch, launch);
    }
    for (const Access &access : accesses) {
      touched_.push_back(access.origin);
      if (access.writes) {
        written_by_[access.origin] = launch;
        read_from_[access.origin] = kNobody;
      } else {
        readers_.push_back({launch, read_from_[access.origin]});
        read_from_[access.origin] = uint32_t(readers_.size() - 1);
      }
    }
  }

  void find_makers(std::span<const Binding> bindings) {
    placed_.assign(bindings.size(), false);
    maker_.clear();
    first_value_ = kNobody;
    for (const Binding &b : bindings)
      if (b.result_count)
        first_value_ = std::min(first_value_, b.first_result);
    for (uint32_t i = 0; i < bindings.size(); ++i)
      for (uint32_t r = 0; r < bindings[i].result_count; ++r) {
        const size_t value = bindings[i].first_result + r - first_value_;
        if (maker_.size() <= value)
          maker_.resize(value + 1, kNobody);
        maker_[value] = i;
      }
  }

  void wait_for(uint32_t earlier, uint32_t launch) {
    if (earlier != kNobody && earlier != launch)
      edges_.push_back({earlier, launch});
  }

  /// Measures heights, the launches on the longest path from each to the end, and finds successors.
  void measure() {
    heights_.assign(launches_.size(), 1);
    for (size_t e = edges_.size(); e-- > 0;) // `to` ascends: nothing after changes its height
      heights_[edges_[e].from] = std::max(heights_[edges_[e].from], heights_[edges_[e].to] + 1);
    starts_.assign(launches_.size() + 1, 0);
    waits_.assign(launches_.size(), 0);
    for (const Edge &edge : edges_) {
      ++starts_[edge.from + 1];
      ++waits_[edge.to];
    }
    for (size_t i = 1; i < starts_.size(); ++i)
      starts_[i] += starts_[i - 1];
    successors_.resize(edges_.size());
    std::vector<uint32_t> next(starts_.begin(), starts_.end() - 1);
    for (const Edge &edge : edges_)
      successors_[next[edge.from]++] = edge.to;
  }

  std::vector<uint32_t> list(uint32_t lanes) {
    std::vector<uint32_t> order;
    std::set<uint32_t> ready;
    for (uint32_t launch = 0; launch < launches_.size(); ++launch)
      if (waits_[launch] == 0)
        ready.insert(ready.end(), launch);
    while (!ready.empty()) {
      const size_t front = order.size();
      // The first launch left waits for nothing: all that stands before it is placed.
      const uint32_t least = heights_[*ready.begin()];
      size_t looked_at = 0;
      bool has_construct = false;
      for (auto it = ready.begin();
           it != ready.end() && looked_at < kWindow && order.size() - front < lanes; ++looked_at) {
        if (heights_[*it] < least || (has_construct && is_construct_[*it])) {
          ++it;
          continue;
        }
        has_construct = has_construct || is_construct_[*it];
        order.push_back(*it);
        it = ready.erase(it);
      }
      for (size_t i = front; i < order.size(); ++i)
        for (uint32_t f = starts_[order[i]]; f < starts_[order[i] + 1]; ++f)
          if (--waits_[successors_[f]] == 0)
            ready.insert(successors_[f]);
    }
    return order;
  }

  /// Appends a binding behind the segment's bindings that make its operands.
  void place(std::span<const Binding> bindings, uint32_t binding, std::vector<uint32_t> &order) {
    pending_.assign(1, binding);
    while (!pending_.empty()) {
      const uint32_t i = pending_.back();
      const size_t before = pending_.size();
      if (!placed_[i])
        for (const Operand &operand : all_.f_.operands_of(bindings[i])) {
          if (operand.kind != Operand::Kind::value || operand.index < first_value_ ||
              operand.index - first_value_ >= maker_.size())
            continue;
          const uint32_t maker = maker_[operand.index - first_value_];
          if (maker != kNobody && !placed_[maker])
            pending_.push_back(maker);
        }
      if (pending_.size() > before)
        continue;
      pending_.pop_back();
      if (!placed_[i])
        order.push_back(i);
      placed_[i] = true;
    }
  }

  const SideBySide &all_;
  std::vector<uint32_t> launches_; // bindings of the segment
  std::vector<bool> is_construct_; // of each launch
  std::vector<Edge> edges_;        // ascending by `to`
  std::vector<uint32_t> heights_, waits_, starts_, successors_;
  std::vector<uint32_t> written_by_, read_from_, touched_; // by origin: launch, readers_; origins
  std::vector<Reader> readers_;
  std::vector<uint32_t> maker_; // by value from first_value_ on: binding of the segment
  uint32_t first_value_ = 0;
  std::vector<bool> placed_; // by binding of the segment
  std::vector<uint32_t> pending_;
};

std::optional<ir::Function> SideBySide::interleave(uint32_t lanes, const Fronts &fronts) const {
  if (fronts.count_ <= fronts.least_)
    return std::nullopt;
  for (const ir::Block &block : f_.blocks)
    for (const Binding &b : block.bindings)
      if (b.kind == BindingKind::alloc_storage || b.kind == BindingKind::alloc_tensor ||
          b.kind == BindingKind::kill) // storages may come from a host builtin or a parameter, too
        return std::nullopt;
  Segment segment(*this);
  std::optional<ir::Function> moved;
  for (uint32_t block = 0; block < f_.blocks.size(); ++block) {
    const std::span<const Binding> bindings = f_.blocks[block].bindings;
    for (uint32_t begin = 0; begin < bindings.size();) {
      uint32_t end = begin;
      while (end < bindings.size() && roles_[index(block, end)] != Role::other)
        ++end;
      const std::vector<uint32_t> order =
          segment.schedule(bindings.subspan(begin, end - begin), index(block, begin), lanes);
      if (!std::is_sorted(order.begin(), order.end())) {
        if (!moved)
          moved = f_;
        for (size_t i = 0; i < order.size(); ++i)
          moved->blocks[block].bindings[begin + i] = bindings[begin + order[i]];
      }
      begin = end + 1;
    }
  }
  return moved;
}

} // namespace cugrt::plan
