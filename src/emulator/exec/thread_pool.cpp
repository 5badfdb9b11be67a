// Helpers wait for jobs; a job asks for some of them and takes the free ones.
#include "emulator/exec/thread_pool.h"

#include <algorithm>
#include <cstdlib>
#include <pthread.h>

namespace cugrt::emulator {

static uint32_t configured_width() {
  constexpr long kMaxThreads = 256;
  if (const char *text = std::getenv("CUGRT_EMU_THREADS")) {
    char *end = nullptr;
    long value = std::strtol(text, &end, 10);
    if (end != text && *end == 0 && value >= 1)
      return uint32_t(std::min(value, kMaxThreads));
  }
  return std::clamp(std::thread::hardware_concurrency(), 1u, uint32_t(kMaxThreads));
}

/// A pool for each process: a forked child has none of its parent's threads, and a lock that one of
/// them held stays held there. The child leaves that pool as it is, and gets one of its own.
class ThreadPool::Shared {
public:
  Shared() {
    pools_.push_back(new ThreadPool(configured_width()));
    pthread_atfork(nullptr, nullptr, [] { instance().begin_in_child(); });
  }
  ~Shared() { delete pools_.back(); }
  static Shared &instance() {
    static Shared shared;
    return shared;
  }
  ThreadPool &pool() { return *pools_.back(); }

private:
  void begin_in_child() { pools_.push_back(new ThreadPool(pools_.back()->width())); }

  std::vector<ThreadPool *> pools_; // the last is this process's, the others its parents'
};

ThreadPool &ThreadPool::shared() { return Shared::instance().pool(); }

ThreadPool::ThreadPool(uint32_t width) : width_(width) {}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
}

void ThreadPool::run(uint32_t helpers, const std::function<void()> &work) {
  helpers = std::min(helpers, width_ - 1);
  if (helpers == 0)
    return work();
  Job job{&work, helpers};
  {
    std::lock_guard lock(mutex_);
    try {
      while (threads_.size() < width_ - 1)
        threads_.emplace_back([this] { loop(); });
    } catch (const std::exception &) {
      // The machine gives no more threads: those there are will do.
    }
    jobs_.push_back(&job);
  }
  if (helpers == 1)
    wake_.notify_one();
  else
    wake_.notify_all();
  std::exception_ptr failure;
  job.run(failure);
  std::unique_lock lock(mutex_);
  if (auto it = std::find(jobs_.begin(), jobs_.end(), &job); it != jobs_.end())
    jobs_.erase(it);
  done_.wait(lock, [&] { return job.running == 0; });
  if (!failure)
    failure = job.failure;
  if (failure)
    std::rethrow_exception(failure);
}

void ThreadPool::Job::run(std::exception_ptr &failed) const noexcept {
  try {
    (*work)();
  } catch (...) {
    failed = std::current_exception();
  }
}

void ThreadPool::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_)
      return;
    Job *job = jobs_.front();
    ++job->running;
    if (--job->wanted == 0)
      jobs_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    job->run(failure);
    lock.lock();
    if (failure)
      job->failure = failure;
    if (--job->running == 0)
      done_.notify_all();
  }
}

} // namespace cugrt::emulator
