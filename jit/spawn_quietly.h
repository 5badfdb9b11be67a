// Starting a program without the application that we live in noticing.
#pragma once

#include "base/status.h"

#include <string>
#include <sys/types.h>

namespace cugrt::jit {

/// A process that is not our child: whoever adopts orphans (init) collects its end.
struct QuietProcess {
  pid_t number = -1;
  int handle = -1; // a pidfd; -1 before Linux 5.2
};

/// Starts `program` with `socket` as its standard input and nothing else open that the application
/// marked as close-on-exec. It is in a session of its own, with default signal handling.
Result<QuietProcess> spawn_quietly(const std::string &program, int socket);

/// Kills the process if it still runs, waits until it has ended, and closes the handle. Without a
/// handle nothing is killed, since the number may be another's by now: the program must end by
/// itself when its socket is closed.
void end_quietly(QuietProcess &process);

} // namespace cugrt::jit
