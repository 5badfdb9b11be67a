// Starting a program without the application noticing; see spawn_quietly.h.
//
// An application may handle SIGCHLD, may collect every child that it finds, or may ignore them all;
// a child of ours would meet that code. exec sets the signal that a process sends at its end to
// SIGCHLD whatever it was before, so no direct child is quiet. So there are two steps:
//
//   application ──clone, signal 0──> go-between ──clone──> program
//        └───── waits for it ────────────┘  ends at once: init adopts the program
//
// The go-between never calls exec, sends no signal, and only a wait with __WALL sees it. Both
// clones are those of posix_spawn: until exec the child runs in the parent's memory while the
// calling thread is stopped. It makes system calls only and allocates nothing, and all signals are
// blocked, so that no handler of the application runs in it.
#include "jit/spawn_quietly.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cugrt::jit {

namespace {

constexpr size_t kStackBytes = 64 << 10; // of each of the two
constexpr int kEndLimitMs = 5000;        // for a killed process to end

struct Child {
  const char *program;
  int socket;
  void *stack; // the program's; grows down
  QuietProcess process;
  int error = 0;
};

/// Runs in the child. The address sanitizer would take its stack for heap memory of the parent's.
__attribute__((no_sanitize("address", "thread", "undefined"))) int run_child(void *argument) {
  auto *child = static_cast<Child *>(argument);
  struct sigaction handling = {};
  handling.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal)
    (void)::sigaction(signal, &handling, nullptr); // SIGKILL and SIGSTOP cannot be set: no matter
  (void)::setsid();
  // dup2 leaves its copy open across exec; the socket itself closes.
  int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (::dup2(child->socket, STDIN_FILENO) >= 0 && nowhere >= 0 &&
      ::dup2(nowhere, STDOUT_FILENO) >= 0 && ::dup2(nowhere, STDERR_FILENO) >= 0) {
    sigset_t none;
    sigemptyset(&none);
    (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
    char *arguments[] = {const_cast<char *>(child->program), nullptr};
    (void)::execve(child->program, arguments, environ);
  }
  child->error = errno;
  ::_exit(127);
}

/// Runs in the go-between, which shares the application's descriptors: the handle is for it.
__attribute__((no_sanitize("address", "thread", "undefined"))) int run_between(void *argument) {
  auto *child = static_cast<Child *>(argument);
  child->process.number =
      ::clone(run_child, child->stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, child,
              &child->process.handle);
  if (child->process.number < 0)
    child->error = errno;
  ::_exit(0);
}

/// The top of a stack in the upper or lower half of `memory`, aligned as the ABI wants.
void *stack_top(std::byte *memory, size_t half) {
  auto end = reinterpret_cast<uintptr_t>(memory + (half + 1) * kStackBytes);
  return reinterpret_cast<void *>(end & ~uintptr_t(63));
}

} // namespace

Result<QuietProcess> spawn_quietly(const std::string &program, int socket) {
  auto cannot = [&](int error) {
    return Status::error(error == ENOENT ? Code::not_found : Code::io_error,
                         "cannot start '" + program + "': " + std::strerror(error));
  };
  // Not one of the three that the child replaces, which an application may have closed.
  int above = ::fcntl(socket, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (above < 0)
    return cannot(errno);
  auto memory = std::make_unique<std::byte[]>(2 * kStackBytes);
  Child child{program.c_str(), above, stack_top(memory.get(), 0), {}};
  sigset_t all, before;
  sigfillset(&all);
  int cancellation = 0;
  (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
  (void)::pthread_sigmask(SIG_BLOCK, &all, &before);
  pid_t between = ::clone(run_between, stack_top(memory.get(), 1),
                          CLONE_VM | CLONE_VFORK | CLONE_FILES, &child);
  int error = between < 0 ? errno : child.error;
  while (between > 0 && ::waitpid(between, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  (void)::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  (void)::pthread_setcancelstate(cancellation, nullptr);
  ::close(above);
  if (error) {
    end_quietly(child.process);
    return cannot(error);
  }
  return child.process;
}

void end_quietly(QuietProcess &process) {
  if (process.handle >= 0) {
    (void)::syscall(SYS_pidfd_send_signal, process.handle, SIGKILL, nullptr, 0);
    pollfd entry{process.handle, POLLIN, 0};
    while (::poll(&entry, 1, kEndLimitMs) < 0 && errno == EINTR) {
    }
    // An application that is init itself, as in many containers, has adopted the process.
    siginfo_t info;
    (void)::waitid(P_PIDFD, static_cast<id_t>(process.handle), &info, WEXITED | WNOHANG | __WALL);
    ::close(process.handle);
  }
  process = {};
}

} // namespace cugrt::jit
