// A compiling process, as its client sees it.
//
// NVRTC compiles one program at a time in a process, so what is to go in parallel goes to processes
// of the small program `cugrt-compile`. The library lives in somebody else's application; so that
// it disturbs nothing there:
//   - it is started as posix_spawn does (the application's memory is not copied, no handler of the
//     application runs in it) and is no child of the application: its end raises no SIGCHLD, and no
//     wait() of the application sees it (spawn_quietly.h);
//   - it has its own session, so that keys at the terminal do not reach it, and its output goes
//     nowhere;
//   - one socket connects the two; it raises no SIGPIPE, and no descriptor of the application stays
//     open in the child;
//   - it ends when its client does, however that happens.
#pragma once

#include "jit/compiler.h"
#include "jit/nvrtc.h"
#include "jit/spawn_quietly.h"

#include <atomic>

namespace cugrt::jit {

/// The program at `configured`, else at CUGRT_COMPILER_PROCESS, else where an installation or a
/// build has it, seen from the file that this code was linked into. Empty: there is none, or either
/// says "off".
std::string find_worker(const std::string &configured);

/// One process, for one thread at a time. Its destruction, or any failure, kills it and waits for
/// its end; every later call is an error.
class WorkerProcess {
public:
  WorkerProcess() = default;
  /// Starts the program and names the NVRTC to open; does not wait for that. opened() waits for
  /// `opening_ms` at most.
  static Result<WorkerProcess> start(const std::string &program, const NvrtcLocation &location,
                                     int opening_ms);
  WorkerProcess(WorkerProcess &&other) noexcept { *this = std::move(other); }
  WorkerProcess &operator=(WorkerProcess &&other) noexcept;
  ~WorkerProcess() { end(); }

  bool running() const { return socket_ >= 0; }
  /// Call once, before the first compilation: waits for an open NVRTC. `cancel` may be null.
  Result<CompilerIdentity> opened(const std::atomic<bool> *cancel);
  /// compile_error when the process ends or answers nonsense; cancelled ends the process.
  Result<CompileResult> compile(const CompileRequest &request, const std::string &target,
                                const std::atomic<bool> *cancel);

private:
  Result<std::string> answer(const std::atomic<bool> *cancel, int limit_ms);
  Status failure(const std::string &what);
  void end();

  int socket_ = -1, opening_ms_ = 0;
  QuietProcess process_;
};

} // namespace cugrt::jit
