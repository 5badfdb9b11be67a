// Choice of frames and the order among them; see session_frames.h.
#include "device/session/session_frames.h"

#include "device/program/symbol_binding.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

// Ranges kept for one frame; beyond that it is taken to touch everything.
constexpr size_t kMaxRanges = 1024;

void add(Counters &sum, const Counters &one) {
  sum.runs += one.runs;
  sum.regions_prepared += one.regions_prepared;
  sum.regions_built += one.regions_built;
  sum.regions_hit += one.regions_hit;
  sum.regions_patched += one.regions_patched;
  sum.regions_eager += one.regions_eager;
  sum.fields_patched += one.fields_patched;
  sum.expressions_evaluated += one.expressions_evaluated;
  sum.eager_steps += one.eager_steps;
  sum.instances_evicted += one.instances_evicted;
  sum.largest_nodes = std::max(sum.largest_nodes, one.largest_nodes);
  sum.largest_edges = std::max(sum.largest_edges, one.largest_edges);
  for (size_t i = 0; i < sum.eager.size(); ++i)
    sum.eager[i] += one.eager[i];
}

} // namespace

Result<std::unique_ptr<SessionFrames>>
SessionFrames::open(std::shared_ptr<const Executable> executable, std::shared_ptr<Device> device,
                    const SessionOptions &given, uint32_t count) {
  if (count < 1 || count > kMaxFrames)
    return Status::error(Code::out_of_range, "a session has 1 to " + std::to_string(kMaxFrames) +
                                                 " frames, not " + std::to_string(count));
  SessionOptions options = given;
  options.cache.policy.budget_bytes /= count;
  options.log.capacity = (options.log.capacity + count - 1) / count;
  std::unique_ptr<SessionFrames> frames(new SessionFrames);
  options.frames = &frames->sessions_;
  for (uint32_t i = 0; i < count; ++i) {
    Frame &frame = frames->frames_.emplace_back();
    auto session = Session::open(executable, device, options);
    if (!session.ok())
      return session.take_status().in("frame " + std::to_string(i));
    frame.session = std::move(*session);
    frames->sessions_.push_back(frame.session.get());
  }
  frames->find_exclusive();
  return frames;
}

/// What one frame frees another one's work may still read.
SessionFrames::~SessionFrames() {
  for (Frame &frame : frames_)
    if (frame.session)
      (void)frame.session->synchronize();
}

void SessionFrames::find_exclusive() {
  const plan::Plan &plan = first().executable().plan();
  exclusive_.resize(plan.functions.size());
  for (bool changed = true; std::exchange(changed, false);) {
    for (size_t f = 0; f < plan.functions.size(); ++f) {
      const plan::Function &function = plan.functions[f];
      bool exclusive =
          std::any_of(function.params.begin(), function.params.end(),
                      [](const plan::Param &param) { return param.access == ir::Access::inout; });
      for (const plan::Block &block : function.blocks)
        for (const plan::Item &item : block.items)
          exclusive = exclusive || item.kind == plan::ItemKind::host_call ||
                      item.kind == plan::ItemKind::extern_call ||
                      (item.kind == plan::ItemKind::call && exclusive_[item.index]);
      changed = changed || exclusive != exclusive_[f];
      exclusive_[f] = exclusive;
    }
  }
}

Status SessionFrames::run(uint32_t function, const RunRequest &request) {
  InUse use(in_use_);
  if (!use.taken())
    return InUse::refusal();
  return run_exclusively(function, request);
}

Status SessionFrames::run_exclusively(uint32_t function, const RunRequest &request) {
  for (Frame &frame : frames_)
    CUGRT_TRY(frame.session->check_symbols());
  forget_handed_out(function, request.results);
  uint32_t taken = next_;
  std::vector<BoundRange> ranges = ranges_of(function, request);
  frames_[taken].session->add_result_ranges(function, ranges);
  CUGRT_TRY(wait_for_conflicts(taken, ranges, exclusive_[function], request));
  next_ = (next_ + 1) % count();
  Frame &frame = frames_[taken];
  bool whole = exclusive_[function] || (frame.in_flight && frame.touches_everything);
  // A run that fails may have launched part of its work.
  frame.in_flight = frame.touches_everything = true;
  frame.session->count_from(count_);
  Status status = frame.session->run(function, request);
  count_ = frame.session->count();
  CUGRT_TRY(std::move(status));
  // The first run with its results has made the memory for them.
  frame.session->add_result_ranges(function, ranges);
  remember(frame, ranges, whole);
  return {};
}

/// What a run handed out may come back in the same array: nothing is bound there, whichever frame
/// it was.
void SessionFrames::forget_handed_out(uint32_t function, std::span<cugrt_value> results) {
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].kind == CUGRT_VALUE_TENSOR &&
        std::any_of(sessions_.begin(), sessions_.end(), [&](const Session *session) {
          return session->handed_out(function, i, results[i].as.tensor.address);
        }))
      results[i] = cugrt_value{};
}

/// Of the caller's memory. What is wrong with an argument is told by the run itself.
std::vector<BoundRange> SessionFrames::ranges_of(uint32_t function,
                                                 const RunRequest &request) const {
  const plan::Function &planned = first().executable().plan().functions[function];
  const FunctionProgram &program = first().executable().program(function);
  std::vector<BoundRange> ranges;
  auto add = [&](const cugrt_value &value, bool written) {
    if (value.kind != CUGRT_VALUE_TENSOR || value.as.tensor.address == 0)
      return;
    if (auto bytes = tensor_bytes(value.as.tensor); bytes.ok())
      ranges.push_back({value.as.tensor.address, *bytes, written, 0});
  };
  for (size_t i = 0; i < std::min(request.arguments.size(), program.call_params.size()); ++i)
    add(request.arguments[i], ir::writes(planned.params[program.call_params[i]].access));
  for (const cugrt_value &value : request.results)
    add(value, true);
  return ranges;
}

bool SessionFrames::conflict(const Frame &frame, std::span<const BoundRange> ranges,
                             bool exclusive) const {
  if (exclusive || frame.touches_everything)
    return true;
  for (const BoundRange &a : frame.ranges)
    for (const BoundRange &b : ranges)
      if ((a.written || b.written) && overlap(a.begin, a.bytes, b.begin, b.bytes))
        return true;
  return false;
}

Status SessionFrames::wait_for_conflicts(uint32_t taken, std::span<const BoundRange> ranges,
                                         bool exclusive, const RunRequest &request) {
  for (uint32_t i = 0; i < count(); ++i) {
    Frame &other = frames_[i];
    if (i == taken || !other.in_flight)
      continue;
    CUGRT_ASSIGN(bool idle, other.session->is_idle());
    if (idle) {
      other.in_flight = other.touches_everything = false;
      other.ranges.clear();
    } else if (conflict(other, ranges, exclusive)) {
      CUGRT_TRY(frames_[taken].session->run_after(*other.session, request));
    }
  }
  return {};
}

void SessionFrames::remember(Frame &frame, std::span<const BoundRange> ranges, bool exclusive) {
  auto add = [&](const BoundRange &range) {
    bool known = std::any_of(frame.ranges.begin(), frame.ranges.end(), [&](const auto &other) {
      return other.begin == range.begin && other.bytes == range.bytes &&
             other.written == range.written;
    });
    if (!known)
      frame.ranges.push_back(range);
  };
  if (!exclusive) {
    for (const BoundRange &range : ranges)
      add(range);
  }
  frame.touches_everything = exclusive || frame.ranges.size() > kMaxRanges;
  if (frame.touches_everything)
    frame.ranges.clear();
}

Status SessionFrames::synchronize() {
  InUse use(in_use_);
  if (!use.taken())
    return InUse::refusal();
  Status first; // what one frame's work was is no reason not to wait for another's
  for (Frame &frame : frames_) {
    Status status = frame.session->synchronize();
    if (!status.ok()) {
      first = first.ok() ? std::move(status) : std::move(first);
      continue;
    }
    frame.in_flight = frame.touches_everything = false;
    frame.ranges.clear();
  }
  return first;
}

Result<bool> SessionFrames::is_idle() {
  InUse use(in_use_);
  if (!use.taken())
    return InUse::refusal();
  for (Frame &frame : frames_) {
    CUGRT_ASSIGN(const bool idle, frame.session->is_idle());
    if (!idle)
      return false;
  }
  return true;
}

Result<PrepareReport> SessionFrames::prepare(uint32_t function,
                                             std::span<const cugrt_symbol_value> symbols) {
  PrepareReport sum;
  for (Frame &frame : frames_) {
    CUGRT_ASSIGN(PrepareReport one, frame.session->prepare(function, symbols));
    if (sum.refused == 0 && one.refused != 0) {
      sum.reason = one.reason;
      sum.region = one.region;
      sum.needed_bytes = one.needed_bytes;
      sum.free_bytes = one.free_bytes;
    }
    sum.regions = one.regions;
    sum.built += one.built;
    sum.present += one.present;
    sum.unknown = one.unknown;
    sum.refused += one.refused;
    sum.built_bytes += one.built_bytes;
  }
  return sum;
}

Result<Session::Totals> SessionFrames::totals() {
  InUse use(in_use_);
  if (!use.taken())
    return InUse::refusal();
  Session::Totals sum;
  for (Frame &frame : frames_) {
    CUGRT_ASSIGN(Session::Totals one, frame.session->totals());
    add(sum.counters, one.counters);
    sum.instances += one.instances;
    sum.instance_bytes += one.instance_bytes;
    sum.weight_bytes = one.weight_bytes; // shared
    sum.weight_bytes_in_place = one.weight_bytes_in_place;
    sum.result_bytes += one.result_bytes;
    sum.arena_committed_bytes += one.arena_committed_bytes;
  }
  return sum;
}

Status SessionFrames::visit_instances(
    const std::function<void(const std::vector<GraphCache::View> &)> &visit) {
  InUse use(in_use_);
  if (!use.taken())
    return InUse::refusal();
  std::vector<GraphCache::View> all;
  for (Frame &frame : frames_)
    CUGRT_TRY(frame.session->visit_instances([&](const std::vector<GraphCache::View> &views) {
      all.insert(all.end(), views.begin(), views.end());
    }));
  visit(all);
  return {};
}

Result<size_t> SessionFrames::read_launches(std::span<LaunchRecord> records) {
  InUse use(in_use_);
  if (!use.taken())
    return InUse::refusal();
  size_t taken = 0;
  while (taken < records.size()) {
    // The frame with the earliest run, up to the earliest one of the others.
    uint32_t first = count();
    uint64_t earliest = UINT64_MAX, end_run = UINT64_MAX;
    for (uint32_t i = 0; i < frames_.size(); ++i)
      if (auto run = frames_[i].session->first_recorded_run(); run && *run < earliest) {
        end_run = std::exchange(earliest, *run);
        first = i;
      } else if (run) {
        end_run = std::min(end_run, *run);
      }
    if (first == count())
      break;
    CUGRT_ASSIGN(size_t more,
                 frames_[first].session->read_launches(records.subspan(taken), end_run));
    for (LaunchRecord &record : records.subspan(taken, more))
      record.frame = first;
    taken += more;
  }
  return taken;
}

} // namespace cugrt::runtime
