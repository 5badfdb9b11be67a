// A model: an executable with its weights on a device, and the sessions that run it.
//
// Sessions are lent to calls. A call takes the one that was given back last, or opens another when
// all are out; so there are as many as calls ever ran at once, and the weights, which sessions
// share, stand on the device once. The first session is opened with the model and keeps them there.
#pragma once

#include "argument.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cugrt::python {

/// A parameter that runs are given, or a result.
struct Slot {
  std::string name; // as Python says it
  nb::object key;   // the same, interned
  cugrt_param_info declared;
  size_t index = 0; // of results: among those of a run
};

struct FunctionInfo {
  const cugrt_function *function = nullptr;
  std::string name;
  std::vector<Slot> params;  // weights are not among them
  std::vector<Slot> results; // without counts, which show in the shapes of what they count
  size_t run_results = 0;    // with them
};

/// A session's state for calls, kept from call to call.
struct Bound {
  struct Staging { // memory that a host array is copied to
    Buffer buffer;
    void *host = nullptr; // the same memory, where the device reads the host's
    uint64_t bytes = 0;
  };
  std::vector<Staging> staging; // by parameter
  std::vector<GivenArray> given;
  std::vector<Value> arguments, results;
};

struct CallSpan { // nanoseconds of the steady clock
  size_t function;
  int64_t begin_ns, queued_ns, end_ns;
};

struct OpenSession {
  OpenSession(Executable &executable, Device &device, std::shared_ptr<const Weights> with,
              const cugrt_session_options &options, size_t functions)
      : session(executable, device.runtime(), *with, options),
        stream(device.runtime(), options.priority), weights(std::move(with)), bound(functions) {}

  std::mutex busy; // held by the call that has it, and by who asks for its counters
  Session session;
  Stream stream;
  std::shared_ptr<const Weights> weights; // that the session has
  std::vector<Bound> bound;               // by function
  bool records = false;                   // launches and calls, for a trace
  bool lent = false;                      // to a call; guarded by the model's mutex
  std::vector<CallSpan> spans;
};

/// Late runs until they are reported; a thread of the driver's notes them without Python.
class MissedRuns {
public:
  static void note(void *self, const cugrt_missed_run *run) {
    static_cast<MissedRuns *>(self)->note(*run);
  }
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  std::vector<cugrt_missed_run> take() {
    std::lock_guard lock(mutex_);
    return {runs_.begin(), runs_.begin() + count_.exchange(0)};
  }

private:
  void note(const cugrt_missed_run &run) {
    std::lock_guard lock(mutex_);
    if (const uint32_t count = count_.load(); count < runs_.size()) {
      runs_[count] = run;
      count_.store(count + 1);
    }
  }
  std::mutex mutex_; // guards what follows
  std::array<cugrt_missed_run, 256> runs_;
  std::atomic<uint32_t> count_ = 0;
};

class Model {
public:
  struct Source {
    std::shared_ptr<Device> device;
    std::shared_ptr<const Module> module; // one of the two
    std::optional<Pack> pack;
    std::shared_ptr<const Weights> weights;             // the model's mutex guards which
    std::vector<std::string> input_names, result_names; // of main, where a file says others
    std::shared_ptr<SharedDevice> group{};              // null: none
    std::string exclusive{};                            // word in it; "": none
    int32_t priority = 0, wait = CUGRT_WAIT_DEFAULT;    // as of cugrt_session_options
    uint64_t deadline_us = 0;                           // likewise
    nb::object missed{};                                // None: nobody is told
  };
  /// Opens the first session. The GIL is held.
  Model(Source source, Executable executable);
  ~Model();

  /// See bind_model.cpp for the contract.
  nb::object call(size_t function, nb::dict arrays, const std::optional<nb::dict> &out, bool device,
                  bool unwrap);
  size_t find_function(const std::string &name) const; // "": main, or the only one
  const std::vector<FunctionInfo> &functions() const { return functions_; }
  Device &device() { return *source_.device; }
  const std::shared_ptr<Device> &shared_device() { return source_.device; }

  std::string plan(cugrt_report_format format,
                   const std::vector<std::pair<std::string, int64_t>> &symbols);
  cugrt_prepare_report prepare(size_t function, const std::vector<cugrt_symbol_value> &symbols);
  /// Sums over the sessions, those that a trace had and closed not among them; waits for calls that
  /// run.
  cugrt_counters counters();
  /// From now on calls run in sessions of their own that keep records, which `end_trace`
  /// returns.
  void begin_trace();
  std::vector<std::unique_ptr<OpenSession>> end_trace();
  /// Calls that begin when this has returned take the changed weights; one that runs ends with
  /// those it began with. Waits for the sessions' work. A failure leaves the weights as they were.
  void update_weights(const Weights &changes, bool in_place);
  /// Sums over the sessions; shared memory counts once.
  cugrt_memory memory();
  /// Frees the weights' device memory between calls, until the next one.
  void evict();
  bool is_resident();
  /// The sessions that there are make nothing any more, and there will be no others.
  void seal();
  struct Latency {
    cugrt_latency host = detail::sized<cugrt_latency>(), device = host, whole = host;
    uint64_t missed = 0; // this and `whole` of a model with a deadline
  };
  /// Over all sessions; of a model in a group.
  Latency latency();
  bool has_deadline() const { return source_.deadline_us != 0; }
  /// Calls the source's function for late runs. The GIL is held.
  void tell_missed();
  bool waits_its_way() const { return source_.wait != CUGRT_WAIT_DEFAULT; }
  /// Frees the model's device memory once running calls have ended. Later calls fail.
  void close();
  bool closed();

private:
  friend class Lease;
  std::unique_ptr<OpenSession> open_session(uint32_t record_capacity);
  nb::object call_once(size_t function, nb::dict arrays, const std::optional<nb::dict> &out,
                       bool device, bool unwrap);
  OpenSession *take();
  void refresh(OpenSession &session);
  /// The sessions, which stay as long as it lives.
  class Kept {
  public:
    explicit Kept(Model &model);
    Kept(const Kept &) = delete;
    ~Kept() { model_.end_lending(); }
    std::vector<OpenSession *> all;

  private:
    Model &model_;
  };
  void give_back(OpenSession *session);
  void end_lending();

  MissedRuns missed_; // outlives the sessions
  Source source_;
  std::optional<Executable> executable_;
  std::vector<FunctionInfo> functions_;
  std::mutex updating_; // held while weights are updated
  std::mutex mutex_;    // of what follows
  std::vector<std::unique_ptr<OpenSession>> sessions_, traced_;
  std::vector<OpenSession *> idle_;
  bool tracing_ = false, closed_ = false, sealed_ = false;
  size_t lent_ = 0;
};

/// A session for as long as a call lasts.
class Lease {
public:
  explicit Lease(Model &model) : model_(model), session_(model.take()) {}
  ~Lease() { model_.give_back(session_); }
  Lease(const Lease &) = delete;
  Lease &operator=(const Lease &) = delete;
  OpenSession *operator->() const { return session_; }
  OpenSession &operator*() const { return *session_; }

private:
  Model &model_;
  OpenSession *session_;
};

void bind_model(nb::module_ &module);

// Makes a model of a Python source: text, pack or ONNX, recognised by content, with weights.

/// "text", "pack", "onnx" or "gguf" by the first bytes; throws cugrt::Error for other content,
/// which `name` stands for in the message.
const char *kind_of(std::string_view content, const std::string &name);

/// Constructs in place. `source` is what cugrt/_model.py puts together: see open_model there.
void open_model(Model *self, nb::dict source);

/// Adds those of a dict of arrays; a path of a safetensors file takes the place of all; none: as
/// they are.
void add_weights(Weights &weights, nb::object given, Device &device);

void bind_sources(nb::module_ &module);

} // namespace cugrt::python
