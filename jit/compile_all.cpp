// Compiling many kernels in parallel, with results and errors that do not depend on the threads.
#include "jit/compiler.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace cugrt::jit {

namespace {

constexpr unsigned kMaxThreads = 8; // by default
constexpr size_t kMaxMessageBytes = 64 << 10;

/// All failures in one status, in the order of the requests.
Status join_failures(std::vector<Status> failures) {
  if (failures.size() == 1)
    return std::move(failures.front());
  std::string message = std::to_string(failures.size()) + " kernels do not compile";
  for (const Status &failure : failures) {
    message += "\n";
    if (!failure.location().empty())
      message += failure.location() + ": ";
    message += failure.message();
    if (message.size() > kMaxMessageBytes) {
      message.resize(kMaxMessageBytes);
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
    std::map<CacheKey, size_t> first;
    for (size_t i = 0; i < requests.size(); ++i) {
      auto [found, inserted] = first.try_emplace(Compiler::key(requests[i]), i);
      source_.push_back(found->second);
      if (inserted)
        order_.push_back(i);
    }
  }

  void run() {
    unsigned threads = options_.threads
                           ? options_.threads
                           : std::min(kMaxThreads, std::thread::hardware_concurrency());
    size_t wanted = std::min<size_t>(std::max(threads, 1u), order_.size());
    {
      std::vector<std::jthread> workers;
      for (size_t i = 1; i < wanted; ++i)
        workers.emplace_back([this] { work(); });
      work();
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
  bool stopped() const { return options_.cancel && options_.cancel->load(); }

  /// Takes requests until none is left. An exception ends all workers and is thrown by run().
  void work() {
    try {
      for (size_t at; (at = next_.fetch_add(1)) < order_.size() && !stopped();) {
        size_t i = order_[at];
        Result<CompileResult> result = compiler_.compile(requests_[i], options_.cancel);
        results_[i].emplace(std::move(result));
        std::lock_guard<std::mutex> lock(mutex_);
        tell(i);
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!thrown_)
        thrown_ = std::current_exception();
      next_ = order_.size();
    }
  }

  /// An equal request was compiled already: its result, or its error (told once).
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
  std::vector<size_t> order_;  // requests that no earlier one equals
  std::vector<size_t> source_; // of each request: the first that equals it
  std::vector<std::optional<Result<CompileResult>>> results_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_; // of what follows, while workers run
  CompileProgress progress_;
  std::exception_ptr thrown_;
};

} // namespace

Result<std::vector<CompileResult>> Compiler::compile_all(std::span<const CompileRequest> requests,
                                                         const CompileAllOptions &options) {
  Batch batch(*this, requests, options);
  batch.run();
  return batch.collect();
}

} // namespace cugrt::jit
