// Whole messages over a socket, with a bound on size and time.
#pragma once

#include "base/status.h"

#include <atomic>
#include <string>
#include <string_view>

namespace cugrt::jit {

/// When to give up. Either may be null or 0: never.
struct Patience {
  const std::atomic<bool> *cancel = nullptr;
  int limit_ms = 0;
};

/// Both fail with io_error when the other end is gone, cancelled, or out_of_range when time is up
/// or a message exceeds kMaxMessageBytes. After any failure the socket is of no more use. No
/// SIGPIPE is raised.
Status send_message(int socket, std::string_view message, const Patience &patience);
Result<std::string> receive_message(int socket, const Patience &patience);

} // namespace cugrt::jit
