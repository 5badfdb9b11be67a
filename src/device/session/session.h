// Session: an executable opened on a device: arenas, result memory, graph instances. Used by one
// thread at a time, and says so if not.
//
// Runs of one session are ordered on the device: when the stream changes, the new one waits for an
// event of the last run. On the session's own stream it is recorded then; on a caller's it is
// recorded behind every run, so that a stream is touched by runs on it only: what else its owner
// queues there holds nothing back, and it may be captured. A caller's stream must live until the
// session has run on another one, was synchronised or is gone, since a new one with its handle
// would be taken for it. Asynchronous failures show at the next call; a sticky one poisons the
// device (see device.h).
#pragma once

#include "device/code/loaded_code.h"
#include "device/context/arena.h"
#include "device/context/dynamic_memory.h"
#include "device/context/in_use.h"
#include "device/driver/stream.h"
#include "device/graph/graph_cache.h"
#include "device/program/symbol_flag.h"
#include "device/session/group.h"
#include "device/session/run_times.h"

#include <shared_mutex>

namespace cugrt::runtime {

struct FunctionState;

struct SessionOptions {
  const WeightSet *weights = nullptr; // none: no function has weights; used while opening only
  GraphCache::Options cache;
  LaunchLog::Options log;
  /// Allocates arenas, results and unplanned tensors; null: the driver does.
  std::shared_ptr<const cugrt_allocator> allocator;
  bool measure_costs = false;   // cache.cost's constants that are assumed, by the device's own
  std::shared_ptr<Group> group; // null: none
  std::string word;             // in the group; "": the one that the executable has, if any
  int priority = 0;             // of its own stream; larger goes first
  cugrt_wait wait = CUGRT_WAIT_DEFAULT;
  bool measures_latency = false;
  DeadlineWatch::Options deadline; // one has the latency measured, too
};

struct RunRequest {
  std::span<const cugrt_value> arguments; // per-call parameters, in order
  std::span<cugrt_value> results;         // empty, or one for each result
  bool own_stream = true;
  void *stream = nullptr; // the caller's, when own_stream is false
};

class Session {
public:
  static Result<std::unique_ptr<Session>> open(std::shared_ptr<const Executable> executable,
                                               std::shared_ptr<Device> device,
                                               const SessionOptions &options);
  /// Waits for the session's work.
  ~Session();
  Session(const Session &) = delete;

  /// Fails once if an earlier run found a device symbol out of its bounds. So does synchronize(),
  /// after waiting.
  Status run(uint32_t function, const RunRequest &request);
  Status synchronize();
  /// Returns the error of earlier runs, as far as the device has got, once.
  Status check_symbols() { return symbol_flag_.raised() ? take_flag() : Status(); }

  /// Waits for the session's work, then gives later runs these weights, which must be complete. A
  /// failure keeps the old ones.
  Status update_weights(const WeightSet &set);
  /// Likewise, in the memory of the old ones, which no other session may read.
  Status update_weights_in_place(const WeightSet &set);

  /// Backs arenas and the session's results up to the bounds of symbols. A later run that would
  /// allocate device memory or make an instance fails.
  Status seal();
  /// Adds the times of runs so far; invalid_argument if the session keeps none.
  Status add_latency(DurationHistogram &host, DurationHistogram &device);

  /// Waits for all runs and adds their times and the late ones; an error without a deadline.
  Status add_deadline(DurationHistogram &whole, uint64_t &missed);

  /// Waits for the work of all sessions that share the session's weights, and frees the weights'
  /// device memory; the next run brings them back. Busy while one runs. Any thread.
  Status evict();
  bool is_resident() const; // any thread

  /// Whether all work has ended, as far as this can tell without waiting.
  Result<bool> is_idle();

  /// Makes and uploads the instances of a function's regions for these values of its symbols. May
  /// be called from any thread, also while another one runs the session.
  Result<PrepareReport> prepare(uint32_t function, std::span<const cugrt_symbol_value> symbols);

  const Executable &executable() const { return code_->executable(); }
  const std::shared_ptr<Group> &group() const { return group_; }
  struct Totals {
    Counters counters;
    uint64_t instances = 0, instance_bytes = 0, weight_bytes = 0, weight_bytes_in_place = 0,
             result_bytes = 0, arena_committed_bytes = 0; // of a shared arena: its own part
  };
  Result<Totals> totals();
  /// Calls `visit` with the instances alive; busy while a run is on its way on another thread.
  Status visit_instances(const std::function<void(const std::vector<GraphCache::View> &)> &visit);
  /// Moves records out of the launch log; see LaunchLog::read.
  Result<size_t> read_launches(std::span<LaunchRecord> records);
  /// Costs that the instance policy uses.
  const InstanceCost &cost() const { return cache_.cost(); }

private:
  friend class HostProgram;
  friend class Word;
  friend class Group; // which takes the use of sessions whose weights leave
  Session(std::shared_ptr<LoadedCode> code, const SessionOptions &options);
  Result<std::shared_ptr<LoadedWeights>> load_weights(const WeightSet &set);
  Status join(const SessionOptions &options);
  void claim();
  static Status compute_weights(const std::shared_ptr<LoadedCode> &code, const Device &memory,
                                LoadedWeights &weights);
  Status allocate(const SessionOptions &options);
  Status add_functions();
  void set_fixed_bases(RunBinding &run) const;
  Status take_flag();
  Status clear_state();

  Status match_or_bind(FunctionState &state, const RunRequest &request);
  Status check_callers_stream(driver::StreamRef stream);
  Status run_otherwise(FunctionState &state, uint32_t function, const RunRequest &request);
  Status check_callers_run(driver::StreamRef stream);
  GraphCache::Options cache_options(const SessionOptions &options);
  Status follow_group();
  Status follow_arenas();
  Status bring_weights();
  void take_weights();
  void find_arenas_room();
  uint64_t arena_held(size_t arena) const;
  Result<bool> has_ended();
  /// Takes the session for this thread; waits if its group uses it for a moment.
  bool taken(InUse &use) { return use.taken() || (group_ && group_->take_use(use)); }
  Status take(InUse &use) { return taken(use) ? Status() : InUse::refusal(); }
  void bind_to_arenas();
  /// The device of memory that other sessions of the group may share, and may keep for longer.
  const Device &memory_device() const { return group_ ? group_->device() : code_->device(); }
  BudgetCharge result_charge() const {
    return {group_ ? group_->budget() : nullptr, HeldFor::results};
  }
  Status launch(FunctionState &state, uint32_t function);
  Status give_results(FunctionState &state, const RunRequest &request);
  Status check_counts(const FunctionState &state, const RunRequest &request) const;
  Status bind(FunctionState &state, const RunRequest &request);
  void remember(FunctionState &state, const RunRequest &request);
  void find_fixed_ranges(std::vector<BoundRange> &ranges) const;
  Status bind_results(FunctionState &state);
  Status bind_matched_results(FunctionState &state, uint32_t match);
  Status bind_result(FunctionState &state, uint32_t slot);
  Result<uint64_t> result_memory(FunctionState &state, uint32_t slot, uint64_t bytes);
  Result<MemoryBlock> allocate_memory(uint64_t bytes);
  Status cover(FunctionState &state);
  Status cover_from_start(FunctionState &state);
  Status move_arena(FunctionState &state, size_t arena, uint64_t bytes);
  Status arena_error(Status status, const FunctionState &state, size_t arena, uint64_t bytes) const;
  driver::StreamRef stream_of(const RunRequest &request) const {
    return request.own_stream
               ? own_stream_.ref()
               : driver::StreamRef(&code_->device().api(), static_cast<CUstream>(request.stream));
  }
  std::string memory_figures() const;
  Status check_given_result(const FunctionState &state, uint32_t result,
                            const cugrt_tensor &given) const;
  Status check_overlaps(FunctionState &state, uint32_t reached);
  std::string range_name(const FunctionState &state, uint32_t name) const;
  void note_place(FunctionState &state, size_t result);
  Status describe_results(FunctionState &state);
  Status update_results(FunctionState &state);
  Status enter_context(bool &pushed);
  Status order_on(driver::StreamRef stream);
  Status record_end();
  Status end_on_callers(Status launched);
  Status wait_for_last() const;
  Status wait_as_told() const;
  Status seal_results(FunctionState &state);
  Status refuse_sealed(const FunctionState &state, const std::string &what) const;
  Status finish_work();
  bool give_up_one();
  bool give_back_unplanned();
  Status in_unplanned_figures(Status status) const;
  /// Calls `attempt`; if memory runs out and unplanned memory can be given back, calls it again.
  template <class Attempt> Status with_unplanned_given_back(Attempt attempt) {
    Status status = attempt();
    while (status.code() == Code::out_of_device_memory && give_back_unplanned())
      status = attempt();
    return in_unplanned_figures(std::move(status));
  }

  std::shared_ptr<LoadedCode> code_; // keeps executable and device alive
  std::shared_ptr<Group> group_;     // null: none
  std::shared_ptr<Word> word_;       // likewise
  std::shared_ptr<LoadedWeights> weights_;
  uint64_t weight_moves_ = 0, arena_moves_ = 0;      // of weights and word that the bindings know
  std::shared_ptr<const cugrt_allocator> allocator_; // outlives the memory
  std::vector<std::shared_ptr<ArenaMemory>> arenas_; // one a storage scope; some are the word's
  bool arenas_grow_ = false, arenas_move_ = false;   // some may
  std::shared_mutex moving_; // shared by whoever prepares, since that reads arenas' addresses
  SymbolFlag symbol_flag_;   // that of kernels where they check symbols
  std::vector<std::unique_ptr<FunctionState>> functions_;
  Counters counters_;
  LaunchLog log_;
  DynamicMemory dynamic_memory_;
  GraphCache cache_;
  // Scratch of binding: kept, so that a run at another shape takes no memory.
  std::vector<BoundRange> ranges_, fixed_ranges_;
  std::vector<bool> unbound_;
  uint64_t next_run_ = 0; // for the log

  driver::Stream own_stream_;
  driver::Event order_event_, word_event_; // the latter: of the session's context, as the stream
  driver::StreamRef last_stream_;
  /// The last few callers' streams that could be recorded on, and the default stream.
  std::array<CUstream, 8> known_streams_{};
  size_t next_known_ = 0;
  static constexpr uint8_t kStraight = 1, kOtherwise = 2, kInWord = 3;
  /// kStraight: a run with this own_stream needs only a launch; kInWord: also the word. Has values
  /// of own_stream, so that one comparison decides for a run.
  uint8_t straight_ = kStraight;
  bool gives_up_instance_ = false; // with the next run, for the group
  cugrt_wait wait_ = CUGRT_WAIT_DEFAULT;
  std::unique_ptr<RunTimes> times_; // null: not kept
  AheadLimit *ahead_ = nullptr;     // the group's, for this session; null: none
  bool in_flight_ = false;          // last_stream_ has work of ours that nobody has waited for
  bool end_recorded_ = false;       // by order_event_: last_stream_ is not to be touched
  std::atomic<bool> in_use_ = false;
};

} // namespace cugrt::runtime
