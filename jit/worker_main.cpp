// cugrt-compile: a process that compiles what its parent sends on standard input, a socket, and
// ends with it. Not for people: started by the library (worker_process.h), its messages are those
// of worker_protocol.h.
#include "jit/message_socket.h"
#include "jit/nvrtc_compile.h"
#include "jit/worker_protocol.h"

#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace cugrt::jit {
constexpr int kSocket = STDIN_FILENO;

/// Descriptors that the application had opened without O_CLOEXEC are none of ours to keep open.
static void close_inherited() {
  DIR *listing = ::opendir("/proc/self/fd");
  if (!listing)
    return;
  int own = ::dirfd(listing);
  while (const dirent *item = ::readdir(listing)) {
    int descriptor = std::atoi(item->d_name);
    if (descriptor > STDERR_FILENO && descriptor != own)
      ::close(descriptor);
  }
  ::closedir(listing);
}

/// A compilation may take long; the process must not outlive its parent meanwhile.
static void end_with_the_parent() {
  for (;;) {
    pollfd entry{kSocket, POLLRDHUP, 0};
    if (::poll(&entry, 1, -1) > 0 && entry.revents)
      ::_exit(0);
  }
}

static Status answer_open(std::string_view message, std::unique_ptr<Nvrtc> &nvrtc) {
  CUGRT_ASSIGN(OpenMessage open, decode_open(message));
  if (open.protocol != kWorkerProtocol)
    return Status::error(Code::unsupported, "the compiling process is of another version");
  CUGRT_ASSIGN(nvrtc, open_nvrtc(open.location));
  CompilerIdentity identity{nvrtc->major, nvrtc->minor,
                            headers_digest(nvrtc->location.include_folder)};
  return send_message(kSocket, encode(identity), {});
}

static Status answer_compile(std::string_view message, const Nvrtc *nvrtc) {
  if (!nvrtc)
    return Status::error(Code::invalid_argument, "NVRTC is not open");
  CUGRT_ASSIGN(CompileMessage compile, decode_compile(message));
  CUGRT_ASSIGN(CompileResult result,
               compile_with_nvrtc(*nvrtc, compile.request, compile.target, nullptr));
  return send_message(kSocket, encode(result), {});
}

/// Answers one message; an error ends the conversation.
static Status serve(std::unique_ptr<Nvrtc> &nvrtc) {
  CUGRT_ASSIGN(std::string message, receive_message(kSocket, {}));
  bool open = kind_of(message) == MessageKind::open;
  Status status = open ? answer_open(message, nvrtc) : answer_compile(message, nvrtc.get());
  return status.ok() ? Status() : send_message(kSocket, encode(status), {});
}

static bool is_socket(int descriptor) {
  struct stat info;
  return ::fstat(descriptor, &info) == 0 && S_ISSOCK(info.st_mode);
}
} // namespace cugrt::jit

int main() {
  using namespace cugrt::jit;
  if (!is_socket(kSocket)) {
    std::fputs("cugrt-compile is started by the cugrt library and does nothing by itself\n",
               stderr);
    return 2;
  }
  close_inherited();
  std::thread(end_with_the_parent).detach();
  std::unique_ptr<Nvrtc> nvrtc;
  while (serve(nvrtc).ok()) {
  }
  ::_exit(0); // NVRTC's own destructors have nothing to save
}
