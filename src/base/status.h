// Status and Result: how every fallible function reports an input or environment error.
//
// A Status is one pointer wide; success allocates nothing. Errors carry a code, a message (lower
// case, no full stop, names the thing and the remedy), where in the IR the cause stands, and the
// CUDA error's name where the driver was the cause. Broken invariants are not statuses: see
// base/check.h. std::bad_alloc may pass through any function of the library; the C ABI turns it
// into Code::out_of_host_memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace cugrt {

/// The values are part of the C ABI (cugrt_code): append only.
enum class Code : int {
  ok = 0,
  invalid_argument = 1, // the caller passed something that cannot be right
  parse_error = 2,      // text, plan, weights or another file is malformed
  verify_error = 3,     // well-formed IR that breaks a rule of the IR
  not_found = 4,        // a name, file, kernel or device does not exist
  unsupported = 5,      // legal, but not available here: driver too old, no device
  out_of_range = 6,     // a size or symbol is outside its bounds, or arithmetic overflows
  out_of_host_memory = 7,
  out_of_device_memory = 8,
  io_error = 9,
  compile_error = 10, // a kernel does not compile; the message holds the log
  driver_error = 11,  // a CUDA driver call failed; cuda_error() names the error
  device_lost = 12,   // a sticky CUDA error: every object of the device repeats the first cause
  busy = 13,          // a session is used by two threads at once
  cancelled = 14,
  internal = 15, // a broken invariant: a bug in cugrt
};

/// The code's name as written above, for messages and JSON.
const char *code_name(Code code);

class [[nodiscard]] Status {
public:
  Status() = default;
  static Status error(Code code, std::string message);

  bool ok() const { return !rep_; }
  Code code() const { return rep_ ? rep_->code : Code::ok; }
  const std::string &message() const;
  /// "file:line:column" or "function/binding"; empty when unknown.
  const std::string &location() const;
  /// "CUDA_ERROR_OUT_OF_MEMORY" and the like; empty when the driver was not the cause.
  const std::string &cuda_error() const;

  /// Setters return the status itself, so that they chain; no effect on success. The location is
  /// set only where none is known yet: the innermost one wins.
  Status &&at(std::string location) &&;
  Status &&with_cuda_error(std::string name) &&;
  /// Puts "context: " before the message.
  Status &&in(std::string_view context) &&;

  /// A copy; explicit, since statuses are moved in normal use.
  Status clone() const;
  /// One line: location, message, CUDA error, code.
  std::string to_string() const;

private:
  struct Rep {
    Code code;
    std::string message, location, cuda_error;
  };
  std::unique_ptr<Rep> rep_;
};

/// A value or the error that prevented it. Check ok() before value().
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}

  bool ok() const { return state_.index() == 0; }
  T &value() & { return std::get<0>(state_); }
  const T &value() const & { return std::get<0>(state_); }
  T &&value() && { return std::get<0>(std::move(state_)); }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }
  Status take_status() { return ok() ? Status() : std::move(std::get<1>(state_)); }
  const Status &status() const { return std::get<1>(state_); }

private:
  std::variant<T, Status> state_;
};

} // namespace cugrt

#define CUGRT_CONCAT_(a, b) a##b
#define CUGRT_CONCAT(a, b) CUGRT_CONCAT_(a, b)

/// Returns from the enclosing function when `expression` (a Status) is an error.
#define CUGRT_TRY(expression)                                                                      \
  do {                                                                                             \
    if (::cugrt::Status try_status_ = (expression); !try_status_.ok())                             \
      return try_status_;                                                                          \
  } while (false)

/// CUGRT_ASSIGN(auto x, f()): declares or assigns x from a Result, or returns its error.
#define CUGRT_ASSIGN(target, expression)                                                           \
  auto CUGRT_CONCAT(result_, __LINE__) = (expression);                                             \
  if (!CUGRT_CONCAT(result_, __LINE__).ok())                                                       \
    return CUGRT_CONCAT(result_, __LINE__).take_status();                                          \
  target = std::move(CUGRT_CONCAT(result_, __LINE__)).value()
