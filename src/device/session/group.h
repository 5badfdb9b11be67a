// Groups: sessions of several models on one device, with one budget of its memory.
//
// A word says which models never run at once: their sessions use one arena after another. A run
// holds the word from before it is bound until its end is recorded, so that the host alone gives
// the order, and the device keeps it by events of earlier submissions:
//
//   run of A     lock [launches on A's stream] unlock
//   run of B                                    lock [record A's end | wait for it | launches] ...
//
// So runs of one session after each other neither record nor wait. On a caller's stream, which may
// be captured or end later, the run itself records its end. The host works between two launches of
// a run under the lock, too. Weights, results, constants, state and counters are each
// session's own.
#pragma once

#include "device/code/executable.h"
#include "device/code/group_weights.h"
#include "device/context/arena.h"
#include "device/context/device.h"
#include "device/context/in_use.h"
#include "device/driver/stream.h"
#include "device/graph/instance_policy.h"
#include "device/session/ahead_limit.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace cugrt::runtime {

class LoadedWeights;
class Session;

/// State that sessions of one word share. One run at a time holds it; opening, moving and freeing
/// hold it as well.
class Word {
public:
  class Hold {
  public:
    /// null: nothing to hold.
    explicit Hold(Word *word) : word_(word && word->lock() ? word : nullptr) {}
    ~Hold() {
      if (word_)
        word_->unlock();
    }
    Hold(const Hold &) = delete;
    /// null if this thread held it already, in a run that began another one inside of it.
    Word *word() const { return word_; }

  private:
    Word *const word_;
  };

  /// Returns the arena of a storage scope, for another plan of `bytes`; grows a small one at once.
  Result<std::shared_ptr<ArenaMemory>> arena(const driver::Context &context,
                                             const std::string &scope, uint64_t bytes,
                                             const std::shared_ptr<MemoryBudget> &budget);
  /// The session of the last run; null: no work is on its way.
  const Session *last() const { return last_; }
  /// Makes later work on `stream` follow the last run. Context current.
  Status follow(driver::StreamRef stream);
  /// Notes the session's run: on its own stream, or with an end that the event records.
  void ran(const Session *session, CUevent event = nullptr) {
    last_ = session;
    last_event_ = event;
  }
  /// Forgets the session's stream and event; its work has ended.
  void leave(const Session *session) {
    if (last_ == session)
      last_ = nullptr;
  }
  /// Waits until the last run has ended. Context current.
  Status wait();
  /// Counts moves of arenas; none happens while some session is sealed.
  uint64_t moves = 0;
  uint32_t sealed = 0; // sessions

private:
  bool lock() {
    std::thread::id holder; // of no thread: it is free
    return holder_.compare_exchange_strong(holder, std::this_thread::get_id()) ||
           (holder != std::this_thread::get_id() && lock_later());
  }
  void unlock() {
    holder_.store(std::thread::id());
    if (waiting_.load() != 0) [[unlikely]]
      wake_one();
  }
  bool lock_later();
  void wake_one();
  Status record_last();

  // A lock that costs a run one exchange and one store, where nobody waits for it.
  std::atomic<std::thread::id> holder_{};
  std::atomic<uint32_t> waiting_ = 0; // threads, which sleep by what follows
  std::mutex mutex_;
  std::condition_variable freed_;

  const Session *last_ = nullptr;
  CUevent last_event_ = nullptr; // the last run's end; null: not recorded yet
  std::map<std::string, std::shared_ptr<ArenaMemory>> arenas_;
};

/// Any thread. Sessions keep it alive.
class Group {
public:
  struct Options {
    uint64_t budget_bytes = 0;          // 0: no limit, as of the next
    uint32_t low_priority_ahead = 0;    // graphs of sessions of priority 0 that may be on their way
    uint64_t instance_budget_bytes = 0; // 0: sessions have budgets of their own
  };
  static Result<std::shared_ptr<Group>> make(std::shared_ptr<Device> device,
                                             const Options &options);
  Group(std::shared_ptr<Device> device, uint64_t budget_bytes);
  ~Group();
  Group(const Group &) = delete;

  Device &device() const { return *device_; }
  const std::shared_ptr<Device> &device_owner() const { return device_; }
  const std::shared_ptr<MemoryBudget> &budget() const { return weights_->budget(); }
  const std::shared_ptr<GroupWeights> &weights() const { return weights_; }
  /// The limit of sessions of priority 0; null: none.
  AheadLimit *low_priority_ahead() const { return low_priority_ahead_.get(); }
  /// Returns the word of an executable's sessions; null: none. All have the first session's word,
  /// and another `name` fails; "" takes the existing word.
  Result<std::shared_ptr<Word>> word_of(const std::shared_ptr<const Executable> &executable,
                                        const std::string &name);

  /// Adds a session with its weights; note() changes them.
  void add(Session &session, LoadedWeights *weights);
  void note(Session &session, LoadedWeights *weights);
  void remove(Session &session) noexcept;

  /// The budget of all sessions' graph instances; null: each session has its own.
  const std::shared_ptr<InstanceBudget> &instances() const { return instances_; }
  /// Call with the session in use. Gives up an instance of a session that was not used since the
  /// last two calls. If that session's work has not ended, it gives it up in its next run. True:
  /// there is more room. Context current.
  bool make_instance_room();

  /// Waits for the work of all sessions that read the session's weights, and frees these weights'
  /// device memory; then that of bases that no other weights on the device read. Busy while such a
  /// session runs or is in use; after an error the next run has them.
  /// `has_use`: the caller has the session in use.
  Status evict(const Session &session, bool has_use = false);
  bool is_resident(const Session &session);
  /// Call if the session is in use: waits if the group uses it; false if a thread does.
  bool take_use(InUse &use);

private:
  struct Model {
    std::weak_ptr<const Executable> executable; // ended: the address may be another's
    std::string word;
  };
  std::shared_ptr<Device> device_;
  std::shared_ptr<GroupWeights> weights_;
  std::unique_ptr<AheadLimit> low_priority_ahead_;
  std::shared_ptr<InstanceBudget> instances_;
  std::mutex words_mutex_; // guards the two maps
  std::map<const Executable *, Model> models_;
  std::map<std::string, std::shared_ptr<Word>> words_;
  struct Member {
    Session *session;
    LoadedWeights *weights;
    uint64_t runs = 0, last_use = 0;  // at the end of the last look, which counts looks
    uint64_t runs_asked = UINT64_MAX; // when somebody asked for an instance's room
    uint32_t asked = 0;               // times since it was last used
  };
  bool make_room();
  Status evict_locked(LoadedWeights *weights, bool wait, const Session *in_use = nullptr);
  bool is_sealed(const LoadedWeights *weights) const;

  std::mutex members_mutex_; // guards what follows; no session ends while it is held
  std::vector<Member> members_;
  uint64_t looks_ = 0;
};

} // namespace cugrt::runtime
