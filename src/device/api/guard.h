// The boundary of the C ABI: exceptions become statuses, parameter structs of any release are read,
// null handles are refused. Internal to src/device/api/.
#pragma once

#include "device/context/abi_types.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

namespace cugrt::runtime::api {

/// Converts the exception that is being handled.
cugrt_status *status_of_exception() noexcept;

/// Runs `body`, which returns a Status, and returns it as a handle. No exception leaves it.
template <class Body> cugrt_status *guarded(Body &&body) noexcept {
  try {
    Status status = body();
    return status.ok() ? nullptr : give_status(std::move(status));
  } catch (...) {
    return status_of_exception();
  }
}

/// `body` takes an entry's arguments and returns a Status.
template <auto body, class... Arguments> void set_entry(cugrt_status *(*&entry)(Arguments...)) {
  entry = [](Arguments... arguments) { return guarded([&] { return body(arguments...); }); };
}

Status null_argument(const char *name);

/// Upper bound of every ABI struct's size; a larger struct_size is an error.
inline constexpr size_t kMaxStructBytes = 65536;

/// Checks a struct's `size`; its first release had `first_bytes`.
Status check_size(const char *name, size_t size, size_t first_bytes);
/// Fails unless a newer client's struct is zero beyond the `known` bytes.
Status check_tail(const char *name, const void *given, size_t known, size_t size);

/// Copies a client's struct; members that an older client lacks keep their `defaults`.
template <class T>
Result<T> read_struct(const T *given, const char *name, size_t first_bytes, T defaults) {
  if (!given)
    return defaults;
  size_t size = given->struct_size;
  CUGRT_TRY(check_size(name, size, first_bytes));
  CUGRT_TRY(check_tail(name, given, sizeof(T), size));
  std::memcpy(&defaults, given, std::min(size, sizeof(T)));
  defaults.struct_size = sizeof(T);
  return defaults;
}

/// Fills in a client's struct as far as its release has it.
template <class T>
Status write_struct(const T &value, T *out, const char *name, size_t first_bytes) {
  if (!out)
    return null_argument(name);
  size_t size = out->struct_size;
  CUGRT_TRY(check_size(name, size, first_bytes));
  std::memcpy(out, &value, std::min(size, sizeof(T)));
  out->struct_size = size;
  return {};
}

/// Bytes up to the end of `member`: a struct's size in the release where it was the last.
#define CUGRT_SIZE_THROUGH(type, member) (offsetof(type, member) + sizeof(type::member))

inline constexpr size_t kRuntimeOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_runtime_options, context);
inline constexpr size_t kPlanOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_plan_options, symbol_count);

/// Names the first null argument. `names`: the arguments as written, with ", " between them.
Status first_null(std::string_view names, std::initializer_list<bool> given);
template <class... Arguments>
Status first_null_of(std::string_view names, const Arguments &...arguments) {
  return first_null(names, {static_cast<bool>(arguments)...});
}

template <class... Arguments> bool are_given(const Arguments &...arguments) {
  return (static_cast<bool>(arguments) && ...);
}

/// Returns from the enclosing guarded body when an argument is null.
#define CUGRT_REQUIRE(...)                                                                         \
  do {                                                                                             \
    if (!::cugrt::runtime::api::are_given(__VA_ARGS__))                                            \
      return ::cugrt::runtime::api::first_null_of(#__VA_ARGS__, __VA_ARGS__);                      \
  } while (false)

} // namespace cugrt::runtime::api
