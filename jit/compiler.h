// The compiler: source and options in, bytes out. It knows neither the driver nor the IR.
//
// A request is first looked up in the code cache; only a miss opens NVRTC. Thread-safe.
#pragma once

#include "base/compiler_report.h"
#include "base/log.h"
#include "base/status.h"
#include "jit/code_cache.h"

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cugrt::jit {

struct CompileRequest {
  std::string name;                 // the kernel's, for messages and progress
  std::string source;               // CUDA C++
  std::string file;                 // where the source stands, for the log; empty: the name
  int first_line = 1;               // of `source` in `file`
  std::vector<std::string> options; // NVRTC's, e.g. "-DN=4"; architecture and -I are added
  OutputKind kind = OutputKind::cubin;
  bool with_ptx = false;    // of a cubin: the PTX that it was made from, too
  std::string architecture; // "sm_90"; for PTX "compute_90" or "sm_90"
};

struct CompileResult {
  std::string bytes; // a cubin, or PTX text (without the terminating NUL; c_str() has one)
  std::string ptx;   // of a cubin `with_ptx`
  std::string log;   // the compiler's warnings; empty from the cache
  bool from_cache = false;
  double milliseconds = 0;
};

/// One line of progress: "[done/total] name 31 ms, cached cached" is for the caller to print.
struct CompileProgress {
  size_t done = 0, total = 0, cached = 0; // this request included
  const CompileRequest *request = nullptr;
  double milliseconds = 0;
  bool from_cache = false, ok = false;
};

struct CompileAllOptions {
  /// Compilations at a time. 0: one for each processor that this process may use, but at most one
  /// for each kernel to compile. With more than one, each runs in a process of its own
  /// (worker_process.h), since NVRTC compiles one program at a time in a process.
  unsigned threads = 0;
  /// Called after each request, one call at a time, from any thread.
  std::function<void(const CompileProgress &)> progress;
  /// Set by anyone to stop: compiling processes are killed; a compilation in this process ends at
  /// NVRTC's next callback.
  const std::atomic<bool> *cancel = nullptr;
};

struct CompilerConfig {
  enum class Use {
    automatic, // use NVRTC when it is found
    never,     // cache only, as on a device without a compiler
  };
  Use use = Use::automatic;
  std::string nvrtc_path;         // a library or a toolkit's folder; empty: see find_nvrtc
  int newest_major = 0;           // of NVRTC that is preferred; see find_nvrtc
  std::string worker;             // the program cugrt-compile, or "off"; empty: see find_worker
  int worker_opening_ms = 30'000; // a program that is silent for longer as it starts is of no use
  CacheConfig cache = CacheConfig::from_environment();
};

class IncludedFiles;
class WorkerProcess;
struct RequestKey;

class Compiler {
public:
  explicit Compiler(CompilerConfig config, Logger log = {});
  ~Compiler();
  Compiler(const Compiler &) = delete;
  Compiler &operator=(const Compiler &) = delete;

  /// compile_error holds the kernel's name, its file and the compiler's log; not_found means that
  /// neither cache nor compiler is there.
  Result<CompileResult> compile(const CompileRequest &request);
  /// The same, stopped when `cancel` (may be null) becomes true.
  Result<CompileResult> compile(const CompileRequest &request, const std::atomic<bool> *cancel);

  /// Compiles all, in parallel; results stand in the order of the requests. All requests are tried;
  /// the error then names each one that failed, in that order. Code::cancelled when stopped.
  Result<std::vector<CompileResult>> compile_all(std::span<const CompileRequest> requests,
                                                 const CompileAllOptions &options = {});

  /// NVRTC's version, opening it if it is neither remembered nor open. {0, 0}-free: an error
  /// instead.
  Result<CompilerIdentity> identity();
  /// The architectures that NVRTC compiles for: 75, 80, ..., ascending. Opens it where they are not
  /// remembered.
  Result<std::vector<int>> architectures();

  CodeCache &cache() { return *cache_; }
  CompilerReport report() const;

private:
  friend class Batch;
  struct State;

  /// For keys of requests: the present content of files.
  IncludedFiles included_files() const;
  /// Reads the cache; empty if the request must be compiled. `key` costs a digest of the request's
  /// source and included files.
  Result<std::optional<CompileResult>> find(const CompileRequest &request, const RequestKey &key);
  /// Compiles a request that find() missed: here, or in `worker`, which has `identity`.
  Result<CompileResult> compile_here(const CompileRequest &request, const RequestKey &key,
                                     const std::atomic<bool> *cancel);
  Result<CompileResult> compile_there(const CompileRequest &request, const RequestKey &key,
                                      WorkerProcess &worker, const CompilerIdentity &identity,
                                      const std::atomic<bool> *cancel);
  /// Puts the result in the cache, unless an included file has changed meanwhile.
  void keep(const CompileRequest &request, const RequestKey &key, const CompilerIdentity &identity,
            const std::string &target, const CompileResult &result);
  /// A process that is opening NVRTC; not_found when all is to be compiled in this process.
  Result<WorkerProcess> start_worker();
  /// Whether the compiler's identity is known without opening anything.
  bool is_identified();
  /// A worker's answer, when nothing was known.
  void identify(const CompilerIdentity &identity);
  /// Workers do not work here: says so once, and compiles in this process from then on.
  void give_up_workers(const Status &reason);

  std::unique_ptr<CodeCache> cache_;
  std::unique_ptr<State> state_;
};

} // namespace cugrt::jit
