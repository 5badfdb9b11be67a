// A few threads that help a launch through its blocks. The thread that launches always works too,
// so a pool without helpers is complete; launches of several streams share the helpers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cugrt::emulator {

class ThreadPool {
public:
  /// The pool of as many threads as CUGRT_EMU_THREADS says, else as the machine has.
  static ThreadPool &shared();
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Threads that can work at one launch, the calling one included.
  uint32_t width() const { return width_; }
  /// Calls `work` on this thread and on up to `helpers` others; returns when all have returned.
  /// Then throws the exception that one of them threw.
  void run(uint32_t helpers, const std::function<void()> &work);

private:
  class Shared;
  struct Job {
    const std::function<void()> *work;
    uint32_t wanted, running = 0;
    std::exception_ptr failure{}; // of a helper

    void run(std::exception_ptr &failed) const noexcept;
  };
  explicit ThreadPool(uint32_t width);
  void loop();

  uint32_t width_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job *> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_; // started at the first need
};

} // namespace cugrt::emulator
