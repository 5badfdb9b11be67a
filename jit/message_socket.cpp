// Framing of messages; see message_socket.h and worker_protocol.h.
#include "jit/message_socket.h"

#include "base/little_endian.h"
#include "jit/worker_protocol.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace cugrt::jit {

namespace {

constexpr int kCancelPollMs = 10; // nobody signals a cancellation
constexpr size_t kReadBytes = 1 << 20;

/// Waits for an event of one socket within the caller's patience.
class Waiter {
public:
  Waiter(int socket, const Patience &patience) : socket_(socket), patience_(patience) {}

  Status wait(short event) {
    for (;;) {
      if (patience_.cancel && patience_.cancel->load(std::memory_order_relaxed))
        return Status::error(Code::cancelled, "compilation was cancelled");
      int timeout_ms = patience_.cancel ? kCancelPollMs : -1;
      if (patience_.limit_ms) {
        auto spent = std::chrono::steady_clock::now() - start_;
        auto left = std::chrono::milliseconds(patience_.limit_ms) - spent;
        auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
        if (left_ms <= 0)
          return Status::error(Code::out_of_range,
                               "no answer within " + std::to_string(patience_.limit_ms) + " ms");
        timeout_ms =
            static_cast<int>(timeout_ms < 0 ? left_ms : std::min<int64_t>(timeout_ms, left_ms));
      }
      pollfd entry{socket_, event, 0};
      int ready = ::poll(&entry, 1, timeout_ms);
      if (ready > 0)
        return {};
      if (ready < 0 && errno != EINTR)
        return Status::error(Code::io_error, std::strerror(errno));
    }
  }

private:
  int socket_;
  Patience patience_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool try_again(int error) { return error == EINTR || error == EAGAIN || error == EWOULDBLOCK; }

Status send_all(int socket, std::string_view bytes, Waiter &waiter) {
  while (!bytes.empty()) {
    ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && !try_again(errno))
      return Status::error(Code::io_error, std::strerror(errno));
    if (n < 0)
      CUGRT_TRY(waiter.wait(POLLOUT));
    else
      bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

/// Grows `bytes` as data arrives, so that a size which was only claimed allocates nothing.
Status receive_all(int socket, std::string &bytes, size_t size, Waiter &waiter) {
  for (size_t done = 0; done < size;) {
    bytes.resize(std::min(size, done + kReadBytes));
    ssize_t n = ::recv(socket, bytes.data() + done, bytes.size() - done, MSG_DONTWAIT);
    if (n == 0)
      return Status::error(Code::io_error, "it ended without an answer");
    if (n < 0 && !try_again(errno))
      return Status::error(Code::io_error, std::strerror(errno));
    if (n < 0)
      CUGRT_TRY(waiter.wait(POLLIN));
    else
      done += static_cast<size_t>(n);
  }
  return {};
}

} // namespace

Status send_message(int socket, std::string_view message, const Patience &patience) {
  if (message.size() > kMaxMessageBytes)
    return Status::error(Code::out_of_range,
                         "a message of " + std::to_string(message.size()) + " bytes is too long");
  std::string head;
  little_endian::put(head, uint32_t(message.size()));
  Waiter waiter(socket, patience);
  CUGRT_TRY(send_all(socket, head, waiter));
  return send_all(socket, message, waiter);
}

Result<std::string> receive_message(int socket, const Patience &patience) {
  Waiter waiter(socket, patience);
  std::string bytes;
  CUGRT_TRY(receive_all(socket, bytes, 4, waiter));
  const auto size = little_endian::get<uint32_t>(bytes, 0);
  if (size > kMaxMessageBytes)
    return Status::error(Code::out_of_range,
                         "a message of " + std::to_string(size) + " bytes is too long");
  bytes.clear();
  CUGRT_TRY(receive_all(socket, bytes, size, waiter));
  return bytes;
}

} // namespace cugrt::jit
