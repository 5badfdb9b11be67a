// Groups: sessions of several models on one device, with one budget of its memory.
//
// A word says which models never run at once: their sessions use one arena after another. A run
// holds the word from before it is bound until its end is recorded, so that the host alone gives
// the order, and the device keeps it by events of earlier submissions:
//
//   run of A     lock [wait for the word's last event | launches | record A's event] unlock
//   run of B                                                 lock [wait for A's event | ...
//
// What the host does between two launches of a run is done under the lock, too. Weights, results,
// constants, state and counters are each session's own.
#pragma once

#include "device/code/executable.h"
#include "device/context/arena.h"
#include "device/context/device.h"
#include "device/context/in_use.h"
#include "device/driver/stream.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace cugrt::runtime {

class LoadedWeights;
class Session;

/// What sessions of one word share. Held by one run at a time; what opens, moves and frees holds it
/// as well.
class Word {
public:
  class Hold {
  public:
    explicit Hold(Word &word) : word_(word), lock_(word.mutex_) {
      word_.holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    ~Hold() { word_.holder_.store(std::thread::id(), std::memory_order_relaxed); }
    Hold(const Hold &) = delete;

  private:
    Word &word_;
    std::lock_guard<std::mutex> lock_;
  };
  /// By this thread: a run that began another one inside of it.
  bool held_here() const {
    return holder_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  /// The arena of a storage scope, for a plan of `bytes` more; a small one is as large at once.
  Result<std::shared_ptr<ArenaMemory>> arena(const driver::Context &context,
                                             const std::string &scope, uint64_t bytes,
                                             const std::shared_ptr<MemoryBudget> &budget);
  /// Work that is put on `stream` follows the last run of another session.
  Status follow(driver::StreamRef stream, const Session *session) const {
    return last_ == session || !last_event_ ? Status() : stream.wait(last_event_);
  }
  /// The session's run ends with its event; null: it has ended.
  void ran(const Session *session, CUevent event) {
    last_ = session;
    last_event_ = event;
  }
  /// Its event goes; its work has ended.
  void leave(const Session *session) {
    if (last_ == session)
      ran(nullptr, nullptr);
  }
  /// Until the last run has ended. Context current.
  Status wait(const driver::DriverApi &api) const;
  /// How often arenas have moved. Never, while some session is sealed.
  uint64_t moves = 0;
  uint32_t sealed = 0; // sessions

private:
  std::mutex mutex_;
  std::atomic<std::thread::id> holder_{};
  std::map<std::string, std::shared_ptr<ArenaMemory>> arenas_;
  const Session *last_ = nullptr;
  CUevent last_event_ = nullptr;
};

/// Any thread. Sessions keep it alive.
class Group {
public:
  /// A budget of 0: no limit.
  Group(std::shared_ptr<Device> device, uint64_t budget_bytes);
  ~Group();
  Group(const Group &) = delete;

  Device &device() const { return *device_; }
  const std::shared_ptr<Device> &device_owner() const { return device_; }
  const std::shared_ptr<MemoryBudget> &budget() const { return budget_; }
  /// The word of an executable's sessions, null where it has none: all have that of the first one,
  /// and another one is refused. "": whatever it is.
  Result<std::shared_ptr<Word>> word_of(const std::shared_ptr<const Executable> &executable,
                                        const std::string &name);

  /// A session with the weights that it has; note() tells of others.
  void add(Session &session, LoadedWeights *weights);
  void note(Session &session, LoadedWeights *weights);
  void remove(Session &session) noexcept;

  /// Waits for the work of all sessions that have the session's weights, and frees what these hold
  /// on the device. Busy where one runs or is used; after an error the next run has them.
  Status evict(const Session &session);
  bool is_resident(const Session &session);
  /// For a session that is in use: by the group, for whose end this waits, or by a thread.
  bool take_use(InUse &use);

private:
  struct Model {
    std::weak_ptr<const Executable> executable; // ended: the address may be another's
    std::string word;
  };
  std::shared_ptr<Device> device_;
  std::shared_ptr<MemoryBudget> budget_;
  std::mutex words_mutex_; // guards the two maps
  std::map<const Executable *, Model> models_;
  std::map<std::string, std::shared_ptr<Word>> words_;
  struct Member {
    Session *session;
    LoadedWeights *weights;
    uint64_t runs = 0, last_use = 0; // at the end of the last look, which counts looks
  };
  bool make_room();
  Status evict_locked(LoadedWeights *weights, bool wait);
  bool is_sealed(const LoadedWeights *weights) const;

  std::mutex members_mutex_; // guards what follows; no session ends while it is held
  std::vector<Member> members_;
  uint64_t looks_ = 0;
};

} // namespace cugrt::runtime
