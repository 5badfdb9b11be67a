// Compiling many kernels in parallel, with results and errors that do not depend on the threads.
//
// Kernels in the cache are taken first. Threads share the rest; each drives a compiling
// process of its own, since NVRTC would let only one of them compile in this process. Where there
// is no such program, or nothing to gain from it, the threads compile here.
#include "jit/compiler.h"
#include "jit/request_key.h"
#include "jit/worker_process.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace cugrt::jit {

constexpr size_t kMaxThreads = 64;
// A process takes as long to start as two kernels to compile: by default it is given at least two.
constexpr size_t kKernelsPerProcess = 2;
constexpr size_t kMaxFailuresBytes = 64 << 10;

/// All failures in one status, in the order of the requests.
static Status join_failures(std::vector<Status> failures) {
  if (failures.size() == 1)
    return std::move(failures.front());
  std::string message = std::to_string(failures.size()) + " kernels do not compile";
  for (const Status &failure : failures) {
    message += "\n";
    if (!failure.location().empty())
      message += failure.location() + ": ";
    message += failure.message();
    if (message.size() > kMaxFailuresBytes) {
      message.resize(kMaxFailuresBytes);
      message += "\n(more errors are not shown)";
      break;
    }
  }
  return Status::error(failures.front().code(), std::move(message));
}

class Batch {
public:
  Batch(Compiler &compiler, std::span<const CompileRequest> requests,
        const CompileAllOptions &options)
      : compiler_(compiler), requests_(requests), options_(options), results_(requests.size()) {
    progress_.total = requests.size();
    IncludedFiles files = compiler.included_files();
    std::map<std::pair<CacheKey, CacheKey>, size_t> first;
    for (size_t i = 0; i < requests.size(); ++i) {
      keys_.push_back(request_key(requests[i], files));
      auto [found, inserted] = first.try_emplace({keys_.back().key, keys_.back().ptx}, i);
      source_.push_back(found->second);
      if (inserted)
        order_.push_back(i);
    }
  }

  void run() {
    // The cache needs the compiler's identity; a process that must start in any case gives
    // it.
    if (!compiler_.is_identified())
      start_workers(order_.size());
    take_cached();
    if (stopped() || order_.empty())
      return;
    start_workers(order_.size());
    size_t threads = workers_.empty() ? threads_for(order_.size()) : workers_.size();
    {
      std::vector<std::jthread> others;
      for (size_t i = 1; i < threads; ++i)
        others.emplace_back([this, i] { work(i); });
      work(0);
    }
    if (thrown_)
      std::rethrow_exception(thrown_);
  }

  Result<std::vector<CompileResult>> collect() {
    if (stopped())
      return Status::error(Code::cancelled, "compilation was cancelled");
    std::vector<Status> failures;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (source_[i] != i) {
        repeat(i);
        tell(i);
      } else if (!results_[i]->ok()) {
        failures.push_back(results_[i]->status().clone());
      }
    }
    if (!failures.empty())
      return join_failures(std::move(failures));
    std::vector<CompileResult> values;
    for (auto &result : results_)
      values.push_back(std::move(*result).value());
    return values;
  }

private:
  /// Stays true: a flag that is taken back must not let unfinished work be collected.
  bool stopped() {
    if (options_.cancel && options_.cancel->load())
      stopped_ = true;
    return stopped_;
  }

  size_t threads_for(size_t kernels) const {
    if (options_.threads)
      return std::min({size_t(options_.threads), kernels, kMaxThreads});
    size_t processors = std::max(1u, std::thread::hardware_concurrency());
    size_t wanted = (kernels + kKernelsPerProcess - 1) / kKernelsPerProcess;
    return std::max<size_t>(1, std::min({processors, wanted, kMaxThreads}));
  }

  /// Starts as many processes as `kernels` need, or none. Waits only for the first one's identity,
  /// if that is unknown.
  void start_workers(size_t kernels) {
    size_t wanted = threads_for(kernels);
    if (wanted < 2 || (tried_workers_ && workers_.empty()))
      return;
    tried_workers_ = true;
    while (workers_.size() < wanted) {
      auto started = compiler_.start_worker();
      if (!started.ok()) {
        if (started.status().code() != Code::not_found)
          compiler_.give_up_workers(started.status());
        break;
      }
      workers_.push_back({std::move(*started), std::nullopt});
    }
    if (!workers_.empty() && !compiler_.is_identified() && open_worker(workers_.front()))
      compiler_.identify(*workers_.front().identity);
  }

  struct Worker {
    WorkerProcess process;
    std::optional<CompilerIdentity> identity; // once it has opened NVRTC
  };

  /// Returns false if the worker is useless: then this process compiles, and reports the problem if
  /// the compiler has it.
  bool open_worker(Worker &worker) {
    if (worker.identity)
      return true;
    auto opened = worker.process.opened(options_.cancel);
    if (opened.ok())
      worker.identity = *opened;
    else if (!stopped())
      compiler_.give_up_workers(opened.status());
    return opened.ok();
  }

  /// Removes requests from order_ that need no compilation: cached ones, and failed look-ups.
  void take_cached() {
    std::vector<size_t> missing;
    for (size_t i : order_) {
      if (stopped())
        return;
      auto found = compiler_.find(requests_[i], keys_[i]);
      if (found.ok() && !*found) {
        missing.push_back(i);
        continue;
      }
      if (found.ok())
        results_[i].emplace(std::move(**found));
      else
        results_[i].emplace(found.take_status());
      tell(i);
    }
    // The longest first, so that no thread begins with it when the others are done. How long it
    // will take is not known; the source's size goes with it.
    std::stable_sort(missing.begin(), missing.end(), [this](size_t a, size_t b) {
      return requests_[a].source.size() > requests_[b].source.size();
    });
    order_ = std::move(missing);
  }

  /// Takes requests until none is left. An exception ends all workers and is thrown by run().
  void work(size_t thread) {
    try {
      for (size_t at; (at = next_.fetch_add(1)) < order_.size() && !stopped();) {
        size_t i = order_[at];
        Result<CompileResult> result = compile(i, thread);
        results_[i].emplace(std::move(result));
        std::lock_guard<std::mutex> lock(mutex_);
        if (!stopped()) // else it may not be done
          tell(i);
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!thrown_)
        thrown_ = std::current_exception();
      next_ = order_.size();
    }
  }

  Result<CompileResult> compile(size_t i, size_t thread) {
    const CompileRequest &request = requests_[i];
    if (thread >= workers_.size())
      return compiler_.compile_here(request, keys_[i], options_.cancel);
    Worker &worker = workers_[thread];
    // A worker that failed on a kernel has reported it; the next kernel gets another worker.
    if (worker.identity && !worker.process.running())
      if (auto again = compiler_.start_worker(); again.ok())
        worker = {std::move(*again), std::nullopt};
    if (!open_worker(worker))
      return compiler_.compile_here(request, keys_[i], options_.cancel);
    return compiler_.compile_there(request, keys_[i], worker.process, *worker.identity,
                                   options_.cancel);
  }

  /// Repeats the result of an equal request, or its error, which is reported once.
  void repeat(size_t i) {
    const Result<CompileResult> &original = *results_[source_[i]];
    if (!original.ok()) {
      Status error = original.status().clone();
      results_[i].emplace(std::move(error));
      return;
    }
    CompileResult copy = original.value();
    copy.from_cache = true;
    copy.milliseconds = 0;
    results_[i].emplace(std::move(copy));
  }

  void tell(size_t i) {
    const Result<CompileResult> &result = *results_[i];
    ++progress_.done;
    progress_.request = &requests_[i];
    progress_.ok = result.ok();
    progress_.from_cache = result.ok() && result.value().from_cache;
    progress_.milliseconds = result.ok() ? result.value().milliseconds : 0;
    progress_.cached += progress_.from_cache;
    if (options_.progress)
      options_.progress(progress_);
  }

  Compiler &compiler_;
  std::span<const CompileRequest> requests_;
  const CompileAllOptions &options_;
  std::vector<RequestKey> keys_; // of each request
  std::vector<size_t> order_; // requests that no earlier one equals; then those to compile, as they
                              // are begun
  std::vector<size_t> source_; // of each request: the first that equals it
  std::vector<std::optional<Result<CompileResult>>> results_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_; // of what follows, while workers run
  CompileProgress progress_;
  std::exception_ptr thrown_;
  std::vector<Worker> workers_; // one a thread, or none
  bool tried_workers_ = false;
};

Result<std::vector<CompileResult>> Compiler::compile_all(std::span<const CompileRequest> requests,
                                                         const CompileAllOptions &options) {
  Batch batch(*this, requests, options);
  batch.run();
  return batch.collect();
}

} // namespace cugrt::jit
