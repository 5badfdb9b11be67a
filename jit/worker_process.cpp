// The client's side of a compiling process; see worker_process.h.
#include "jit/worker_process.h"

#include "jit/message_socket.h"
#include "jit/worker_protocol.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

// Path from the library's folder to the program's, as installed.
#ifndef CUGRT_WORKER_FOLDER
#define CUGRT_WORKER_FOLDER "../libexec/cugrt"
#endif

namespace cugrt::jit {

constexpr const char *kProgram = "cugrt-compile";
constexpr int kAnswerLimitMs = 10 * 60 * 1000; // the slowest kernels take seconds

/// The folder of the file that this code was linked into, with a slash; empty when unknown.
static std::string own_folder() {
  Dl_info info;
  static const char anchor = 0;
  char resolved[PATH_MAX];
  if (!dladdr(&anchor, &info) || !info.dli_fname || !::realpath(info.dli_fname, resolved))
    return {};
  std::string path = resolved;
  return path.substr(0, path.rfind('/') + 1);
}

static bool is_program(const std::string &path) { return ::access(path.c_str(), X_OK) == 0; }

std::string find_worker(const std::string &configured) {
  std::string chosen = configured;
  if (const char *text = std::getenv("CUGRT_COMPILER_PROCESS"); chosen.empty() && text)
    chosen = text;
  if (!chosen.empty())
    return chosen != "off" && is_program(chosen) ? chosen : std::string();
  std::string folder = own_folder();
  if (folder.empty())
    return {};
  for (const char *below : {"", CUGRT_WORKER_FOLDER "/"})
    if (std::string path = folder + below + kProgram; is_program(path))
      return path;
  return {};
}

Result<WorkerProcess> WorkerProcess::start(const std::string &program,
                                           const NvrtcLocation &location, int opening_ms) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status::error(Code::io_error,
                         std::string("cannot make a socket: ") + std::strerror(errno));
  WorkerProcess worker;
  worker.socket_ = ends[0];
  worker.opening_ms_ = opening_ms;
  auto process = spawn_quietly(program, ends[1]);
  ::close(ends[1]);
  if (!process.ok())
    return process.take_status();
  worker.process_ = *process;
  Status sent = send_message(worker.socket_, encode(OpenMessage{kWorkerProtocol, location}),
                             {nullptr, kAnswerLimitMs});
  if (!sent.ok())
    return worker.failure(sent.message());
  return worker;
}

WorkerProcess &WorkerProcess::operator=(WorkerProcess &&other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(process_, other.process_);
  std::swap(opening_ms_, other.opening_ms_);
  return *this;
}

void WorkerProcess::end() {
  if (socket_ >= 0)
    ::close(std::exchange(socket_, -1));
  end_quietly(process_);
}

Status WorkerProcess::failure(const std::string &what) {
  end();
  return Status::error(Code::compile_error, "the compiling process failed: " + what);
}

Result<std::string> WorkerProcess::answer(const std::atomic<bool> *cancel, int limit_ms) {
  auto message = receive_message(socket_, {cancel, limit_ms});
  if (message.ok())
    return message;
  if (message.status().code() == Code::cancelled) {
    end();
    return message;
  }
  return failure(message.status().message());
}

Result<CompilerIdentity> WorkerProcess::opened(const std::atomic<bool> *cancel) {
  if (!running())
    return failure("it does not run");
  CUGRT_ASSIGN(std::string message, answer(cancel, opening_ms_));
  if (kind_of(message) == MessageKind::failed) {
    end(); // it answers once
    return decode_failed(message);
  }
  auto opened = decode_opened(message);
  return opened.ok() ? std::move(opened)
                     : Result<CompilerIdentity>(failure("its answer is broken"));
}

Result<CompileResult> WorkerProcess::compile(const CompileRequest &request,
                                             const std::string &target,
                                             const std::atomic<bool> *cancel) {
  std::string kernel = "kernel '" + request.name + "'";
  if (!running())
    return failure("it does not run").in(kernel);
  Status sent =
      send_message(socket_, encode(CompileMessage{request, target}), {cancel, kAnswerLimitMs});
  if (sent.code() == Code::cancelled) {
    end();
    return sent;
  }
  if (!sent.ok())
    return failure(sent.message()).in(kernel);
  auto message = answer(cancel, kAnswerLimitMs);
  if (!message.ok())
    return message.status().code() == Code::cancelled ? message.take_status()
                                                      : message.take_status().in(kernel);
  if (kind_of(*message) == MessageKind::failed) {
    Status told = decode_failed(*message);
    return told.code() == Code::parse_error ? failure("its answer is broken").in(kernel)
                                            : std::move(told);
  }
  auto compiled = decode_compiled(*message);
  return compiled.ok() ? std::move(compiled)
                       : Result<CompileResult>(failure("its answer is broken").in(kernel));
}

} // namespace cugrt::jit
