// Frames: several sessions behind one, so that runs may overlap on the device.
//
// Each frame has an arena, result memory, graph instances and a stream of its own; runs take the
// frames in turn, so that a run waits for the one that had its frame before it, and for nothing
// else, unless the two touch the same bytes:
//
//   frame 0   run 0 ........ run 2 ....
//   frame 1        run 1 ...... | run 3      run 3 reads what run 2 writes: it waits
//
// What a run reads and writes of its caller's memory is kept until its frame is known to be idle.
// Functions that write state (an inout parameter), call host functions or call such functions
// overlap nothing. The budget of instances and the launch records are divided among the frames;
// when the device is full, each gives up instances for all.
//
// Used by one thread at a time, and says so if not.
#pragma once

#include "device/session/session.h"

namespace cugrt::runtime {

class SessionFrames {
public:
  static constexpr uint32_t kMaxFrames = 64;

  static Result<std::unique_ptr<SessionFrames>> open(std::shared_ptr<const Executable> executable,
                                                     std::shared_ptr<Device> device,
                                                     const SessionOptions &options,
                                                     uint32_t frames);
  /// Waits for all frames' work.
  ~SessionFrames();
  SessionFrames(const SessionFrames &) = delete;

  Status run(uint32_t function, const RunRequest &request);
  Status synchronize();
  Result<bool> is_idle();
  /// For every frame.
  Result<PrepareReport> prepare(uint32_t function, std::span<const cugrt_symbol_value> symbols);
  /// The sum over the frames.
  Result<Session::Totals> totals();
  Status visit_instances(const std::function<void(const std::vector<GraphCache::View> &)> &visit);
  /// In the order of the runs. Each record names its frame; `sequence` counts within a frame.
  Result<size_t> read_launches(std::span<LaunchRecord> records);

  uint32_t count() const { return static_cast<uint32_t>(frames_.size()); }
  const Session &first() const { return *frames_[0].session; }

private:
  struct Frame {
    std::unique_ptr<Session> session;
    // Since it was last known to be idle: what its runs read and write; everything, if one of them
    // overlaps nothing or there were too many.
    std::vector<BoundRange> ranges;
    bool in_flight = false, touches_everything = false;
  };

  SessionFrames() = default;
  void find_exclusive();
  Status run_exclusively(uint32_t function, const RunRequest &request);
  void forget_handed_out(uint32_t function, std::span<cugrt_value> results);
  std::vector<BoundRange> ranges_of(uint32_t function, const RunRequest &request) const;
  bool conflict(const Frame &frame, std::span<const BoundRange> ranges, bool exclusive) const;
  Status wait_for_conflicts(uint32_t taken, std::span<const BoundRange> ranges, bool exclusive,
                            const RunRequest &request);
  void remember(Frame &frame, std::span<const BoundRange> ranges, bool exclusive);

  std::vector<Session *> sessions_; // of frames_; outlives them
  std::vector<Frame> frames_;
  Session::Count count_;        // after the last run, whichever frame had it
  std::vector<bool> exclusive_; // by function
  uint32_t next_ = 0;
  std::atomic<bool> in_use_ = false;
};

} // namespace cugrt::runtime
