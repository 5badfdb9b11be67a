// Sessions in groups: arenas that others move, weights that leave and come back; see group.h.
#include "base/type/state_scope.h"
#include "device/driver/driver_error.h"
#include "device/session/function_state.h"
#include "device/session/group.h"
#include "device/session/session.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>
#include <list>

namespace cugrt::runtime {

/// Makes an event record the end of the last run.
Status Word::record_last() {
  if (last_event_)
    return {};
  CUGRT_TRY(last_->word_event_.record(last_->last_stream_));
  last_event_ = last_->word_event_.get();
  return {};
}

Status Word::wait() {
  if (!last_)
    return {};
  CUGRT_TRY(record_last());
  CUGRT_DRIVER(last_->word_event_.api(), EventSynchronize, (last_event_),
               "the last run of the word");
  return {};
}

Status Word::follow(driver::StreamRef stream) {
  if (!last_ || stream.is_same_queue(last_->last_stream_))
    return {};
  CUGRT_TRY(record_last());
  return stream.wait(last_event_);
}

Status Session::join(const SessionOptions &options) {
  const driver::Context &context = code_->device().context();
  if (&group_->device() != &code_->device() &&
      !(context.is_green() && context.shares_memory_with(group_->device().context())))
    return Status::error(Code::invalid_argument,
                         "the group is of another runtime than the session");
  if (allocator_)
    return Status::error(Code::invalid_argument,
                         "sessions of a group have memory of the driver's, which the group counts: "
                         "give an allocator to sessions without one");
  CUGRT_ASSIGN(word_, group_->word_of(code_->executable_owner(), options.word));
  if (word_) {
    CUGRT_ASSIGN(word_event_, driver::Event::create(context));
  }
  claim();
  ahead_ = options.priority == 0 ? group_->low_priority_ahead() : nullptr;
  straight_ = kOtherwise;
  return {};
}

/// Claims arenas and results for the largest symbols.
void Session::claim() {
  const plan::Plan &plan = executable().plan();
  std::vector<MemoryBudget::Claim> claims;
  for (const plan::Arena &arena : plan.arenas) {
    const auto bytes = static_cast<uint64_t>(arena.bytes);
    claims.push_back(
        {.word = arena.scope == ir::kStateScope ? nullptr : word_.get(),
         .scope = arena.scope,
         .bytes = bytes <= MemoryBudget::kMapped ? bytes : MemoryBudget::mapped(bytes)});
  }
  for (const plan::Function &function : plan.functions)
    for (const plan::Slot &slot : function.slots)
      if (slot.kind == plan::SlotKind::result && !function.is_private && slot.bytes.valid())
        if (const int64_t upper =
                plan.exprs.range(slot.bytes, plan::symbol_domain(plan.exprs, function)).upper;
            upper != INT64_MAX)
          claims.push_back({.bytes = static_cast<uint64_t>(std::max<int64_t>(upper, 0))});
  group_->budget()->claim(this, std::move(claims));
}

/// Follows arenas that another session of the word has moved. The word is held.
Status Session::follow_arenas() {
  if (arena_moves_ == word_->moves)
    return {};
  std::unique_lock lock(moving_);
  CUGRT_TRY(wait_for_last());
  cache_.drop_all();
  bind_to_arenas();
  find_arenas_room();
  arena_moves_ = word_->moves;
  return {};
}

GraphCache::Options Session::cache_options(const SessionOptions &options) {
  GraphCache::Options cache = options.cache;
  if (group_ && group_->instances()) {
    cache.policy.shared = group_->instances();
    cache.policy.more_room = [this] { return group_->make_instance_room(); };
  }
  return cache;
}

/// Follows changes that other sessions of the group made. The session is in use, its word held.
Status Session::follow_group() {
  if (std::exchange(gives_up_instance_, false))
    (void)give_up_one();
  if (word_)
    CUGRT_TRY(follow_arenas());
  return group_ ? bring_weights() : Status();
}

/// The session is in use, so weights stay, and so does everything else that straight_ depends on.
Status Session::bring_weights() {
  if (!weights_->is_resident())
    CUGRT_TRY(weights_->come_back(memory_device()));
  if (weights_->moves() != weight_moves_) {
    std::unique_lock lock(moving_);
    take_weights();
  }
  if (!times_)
    straight_ = word_ ? kInWord : kStraight;
  return {};
}

/// Binds all functions to the weights' addresses for the next run. moving_ is held.
void Session::take_weights() {
  std::lock_guard weights_stay(weights_->mutex());
  weights_->follow_bases();
  weight_moves_ = weights_->moves();
  for (size_t f = 0; f < functions_.size(); ++f) {
    const std::vector<cugrt_value> &params = weights_->params(f);
    for (size_t i = 0; i < params.size(); ++i)
      if (params[i].kind == CUGRT_VALUE_TENSOR)
        functions_[f]->params[i] = params[i];
    functions_[f]->last.forget(); // the next run is bound from the start, to the new addresses
  }
}

/// Bytes of an arena that the session has; of a shared one, those that it may use.
uint64_t Session::arena_held(size_t arena) const {
  const plan::Arena &planned = executable().plan().arenas[arena];
  const uint64_t committed = arenas_[arena]->committed_bytes();
  return word_ && planned.scope != ir::kStateScope
             ? std::min(committed, static_cast<uint64_t>(planned.bytes))
             : committed;
}

Status Session::evict() {
  if (!group_)
    return Status::error(Code::unsupported,
                         "weights leave the device for sessions of a group: open the session in "
                         "one");
  return group_->evict(*this);
}

bool Session::is_resident() const { return !group_ || group_->is_resident(*this); }

/// Evicts the idle model's weights whose last use is longest ago. The caller, who needs memory, has
/// its own session in use, which stays.
bool Group::make_room() {
  std::lock_guard lock(members_mutex_);
  ++looks_;
  for (Member &member : members_) {
    InUse use(member.session->in_use_);
    const uint64_t runs = use.taken() ? member.session->counters_.runs : UINT64_MAX;
    if (runs != member.runs || !use.taken())
      member.last_use = looks_;
    member.runs = runs;
  }
  std::vector<std::pair<uint64_t, LoadedWeights *>> order;
  const auto note_use = [&](uint64_t last_use, LoadedWeights *weights) {
    auto known = std::find_if(order.begin(), order.end(),
                              [&](const auto &entry) { return entry.second == weights; });
    if (known == order.end())
      order.emplace_back(last_use, weights);
    else
      known->first = std::max(known->first, last_use);
  };
  for (const Member &member : members_) {
    note_use(member.last_use, member.weights);
    for (const std::shared_ptr<LoadedWeights> &base : member.weights->bases())
      note_use(member.last_use, base.get());
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto &a, const auto &b) { return a.first < b.first; });
  for (const auto &[last_use, weights] : order)
    if (!is_sealed(weights) && weights->has_own() &&
        weights->size_bytes() + weights->size_bytes_in_place() != 0 &&
        evict_locked(weights, false).ok())
      return true;
  return false;
}

bool Group::make_instance_room() {
  std::lock_guard lock(members_mutex_);
  Member *longest = nullptr; // without a use
  for (Member &member : members_) {
    InUse use(member.session->in_use_);
    const uint64_t runs = use.taken() ? member.session->counters_.runs : UINT64_MAX;
    member.asked = use.taken() && runs == member.runs_asked ? member.asked + 1 : 0;
    member.runs_asked = runs;
    const GraphCache &cache = member.session->cache_;
    if (member.asked != 0 && !cache.sealed() && cache.instance_count() != 0 &&
        (!longest || member.asked > longest->asked))
      longest = &member;
  }
  if (!longest)
    return false;
  Session &session = *longest->session;
  InUse use(session.in_use_);
  if (!use.taken() || session.gives_up_instance_)
    return false;
  if (const auto ended = session.has_ended(); !ended.ok() || !*ended) {
    session.gives_up_instance_ = true; // a message to its owner
    session.straight_ = Session::kOtherwise;
    return false;
  }
  return session.finish_work().ok() && session.give_up_one();
}

/// Whether a sealed session reads the weights. The members' mutex is held.
bool Group::is_sealed(const LoadedWeights *weights) const {
  return std::any_of(members_.begin(), members_.end(), [&](const Member &member) {
    return member.weights->reads(weights) && member.session->cache_.sealed();
  });
}

/// `wait`: waits for the sessions' work; else a session that is not idle keeps the weights. The
/// caller has `in_use` in use. The members' mutex is held.
Status Group::evict_locked(LoadedWeights *weights, bool wait, const Session *in_use) {
  std::list<InUse> uses; // of all sessions that read them: none of these runs meanwhile
  for (const Member &member : members_)
    if (member.weights->reads(weights) && member.session != in_use &&
        !uses.emplace_back(member.session->in_use_).taken())
      return Status::error(Code::busy, "a session that has the weights is in use by another "
                                       "thread: they leave between runs");
  for (const Member &member : members_) {
    if (!member.weights->reads(weights))
      continue;
    if (!wait) {
      CUGRT_ASSIGN(const bool is_idle, member.session->has_ended());
      if (!is_idle)
        return Status::error(Code::busy, "work of the weights' sessions is on its way");
    }
    CUGRT_TRY(member.session->finish_work());
    member.session->straight_ = Session::kOtherwise;
  }
  return weights->leave(*device_);
}

} // namespace cugrt::runtime
