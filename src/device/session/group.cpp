// Groups and words; see group.h. How a session runs in them stands in session_group.cpp.
#include "device/session/group.h"

#include "device/code/loaded_code.h"

#include <algorithm>

namespace cugrt::runtime {

Result<std::shared_ptr<ArenaMemory>> Word::arena(const driver::Context &context,
                                                 const std::string &scope, uint64_t bytes,
                                                 const std::shared_ptr<MemoryBudget> &budget) {
  std::shared_ptr<ArenaMemory> &arena = arenas_[scope];
  if (!arena) {
    uint64_t reserved = budget->limit_bytes();
    if (reserved == 0) {
      CUGRT_ASSIGN(const auto memory, context.memory());
      reserved = memory.total_bytes;
    }
    arena = std::make_shared<ArenaMemory>(ArenaMemory::shared(reserved, budget));
  }
  arena->raise(bytes);
  CUGRT_ASSIGN(const bool reserves, driver::VirtualRange::available(context));
  // Where addresses cannot be reserved, a large one moves when a run needs more.
  if (!arena->moves_for(bytes) || !(arena->is_small() || (reserves && !arena->is_reserved())))
    return arena;
  if (sealed != 0)
    return Status::error(Code::invalid_argument,
                         "a session of the word is sealed, whose arena would have to move for " +
                             std::to_string(bytes) +
                             " bytes: open the model that needs most before one is sealed");
  CUGRT_ASSIGN(driver::ContextGuard guard, context.enter());
  CUGRT_TRY(wait());
  ++moves;
  CUGRT_TRY(arena->move(context, bytes));
  return arena;
}

bool Word::lock_later() {
  ++waiting_; // before it asks again: who frees it then sees that somebody waits
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] {
    std::thread::id holder;
    return holder_.compare_exchange_strong(holder, std::this_thread::get_id());
  });
  --waiting_;
  return true;
}

void Word::wake_one() {
  { std::lock_guard lock(mutex_); } // whoever has asked in vain sleeps by now
  freed_.notify_one();
}

Result<std::shared_ptr<Group>> Group::make(std::shared_ptr<Device> device, const Options &options) {
  auto group = std::make_shared<Group>(std::move(device), options.budget_bytes);
  if (options.low_priority_ahead != 0) {
    CUGRT_ASSIGN(group->low_priority_ahead_,
                 AheadLimit::make(group->device_->context(), options.low_priority_ahead));
  }
  if (options.instance_budget_bytes != 0)
    group->instances_ = std::make_shared<InstanceBudget>(options.instance_budget_bytes);
  return group;
}

Group::Group(std::shared_ptr<Device> device, uint64_t budget_bytes)
    : device_(std::move(device)),
      weights_(std::make_shared<GroupWeights>(std::make_shared<MemoryBudget>(budget_bytes))) {
  budget()->set_make_room([this] { return make_room(); });
}

Group::~Group() { budget()->set_make_room({}); } // weights of no session may keep the budget

Result<std::shared_ptr<Word>> Group::word_of(const std::shared_ptr<const Executable> &executable,
                                             const std::string &name) {
  std::lock_guard lock(words_mutex_);
  std::erase_if(models_, [](const auto &entry) { return entry.second.executable.expired(); });
  const auto [entry, is_new] = models_.try_emplace(executable.get(), Model{executable, name});
  const std::string &word = entry->second.word;
  if (!is_new && !name.empty() && name != word)
    return Status::error(Code::invalid_argument,
                         "the model has " + (word.empty() ? "no word" : "the word '" + word + "'") +
                             " in its group, which all of its sessions share: '" + name +
                             "' comes too late");
  if (word.empty())
    return std::shared_ptr<Word>();
  std::shared_ptr<Word> &shared = words_[word];
  if (!shared)
    shared = std::make_shared<Word>();
  return shared;
}

void Group::add(Session &session, LoadedWeights *weights) {
  std::lock_guard lock(members_mutex_);
  members_.push_back({.session = &session, .weights = weights});
  weights->opened();
}

void Group::note(Session &session, LoadedWeights *weights) {
  std::lock_guard lock(members_mutex_);
  for (Member &member : members_)
    if (member.session == &session)
      member.weights = weights;
  weights->opened();
}

Status Group::evict(const Session &session, bool has_use) {
  std::lock_guard lock(members_mutex_);
  const auto own = std::ranges::find(members_, &session, &Member::session);
  if (own == members_.end())
    return {};
  const Session *const in_use = has_use ? &session : nullptr;
  CUGRT_TRY(evict_locked(own->weights, true, in_use));
  for (const std::shared_ptr<LoadedWeights> &base : own->weights->bases())
    if (std::ranges::none_of(members_, [&](const Member &member) {
          return member.weights != own->weights && member.weights->has_own() &&
                 member.weights->reads(base.get());
        }))
      CUGRT_TRY(evict_locked(base.get(), true, in_use));
  return {};
}

bool Group::is_resident(const Session &session) {
  std::lock_guard lock(members_mutex_);
  for (const Member &member : members_)
    if (member.session == &session)
      return member.weights->is_resident();
  return true;
}

bool Group::take_use(InUse &use) {
  std::lock_guard lock(members_mutex_);
  return use.try_again();
}

void Group::remove(Session &session) noexcept {
  std::lock_guard lock(members_mutex_);
  std::erase_if(members_, [&](const Member &member) { return member.session == &session; });
}

} // namespace cugrt::runtime
