// The boundary of the C ABI: exceptions become statuses, parameter structs of any release are read,
// null handles are refused. Internal to src/runtime/api/.
#pragma once

#include "base/check.h"
#include "device/context/abi_types.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace cugrt::runtime::api {

/// Runs `body`, which returns a Status, and hands its status out. Nothing passes through but that.
template <class Body> cugrt_status *guarded(Body &&body) noexcept {
  try {
    try {
      Status status = body();
      return status.ok() ? nullptr : give_status(std::move(status));
    } catch (const std::bad_alloc &) {
      return out_of_memory_status();
    } catch (const BrokenInvariant &broken) {
      return give_status(Status::error(
          Code::internal, std::string("a bug in cugrt, please report it: ") + broken.what()));
    } catch (const std::exception &unexpected) {
      return give_status(Status::error(
          Code::internal, std::string("a bug in cugrt, please report it: unexpected exception: ") +
                              unexpected.what()));
    } catch (...) {
      return give_status(Status::error(Code::internal, "a bug in cugrt, please report it"));
    }
  } catch (...) { // memory ran out while the message was made
    return out_of_memory_status();
  }
}

inline Status null_argument(const char *name) {
  return Status::error(Code::invalid_argument, std::string("argument '") + name + "' is null");
}

/// No struct of the ABI will ever be larger; more is not a size.
inline constexpr size_t kMaxStructBytes = 65536;

/// `first_bytes`: the struct's size in the first release. An older client's struct is filled up
/// with zeros; of a newer client's, what this library does not know must be zero.
template <class T>
Result<T> read_struct(const T *given, const char *name, size_t first_bytes, T defaults) {
  if (!given)
    return defaults;
  size_t size = given->struct_size;
  if (size < first_bytes || size > kMaxStructBytes)
    return Status::error(Code::invalid_argument, std::string(name) + ": struct_size is " +
                                                     std::to_string(size) +
                                                     "; initialise the struct with CUGRT_INIT");
  const auto *bytes = reinterpret_cast<const unsigned char *>(given);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; }))
    return Status::error(Code::unsupported,
                         std::string(name) + " sets a field that this library does not know; use a "
                                             "newer libcugrt.so");
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
  if (size < first_bytes || size > kMaxStructBytes)
    return Status::error(Code::invalid_argument, std::string(name) + ": struct_size is " +
                                                     std::to_string(size) +
                                                     "; initialise the struct with CUGRT_INIT");
  std::memcpy(out, &value, std::min(size, sizeof(T)));
  out->struct_size = size;
  return {};
}

/// Bytes up to the end of `member`: a struct's size in the release where it was the last.
#define CUGRT_SIZE_THROUGH(type, member) (offsetof(type, member) + sizeof(type::member))

inline constexpr size_t kRuntimeOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_runtime_options, context);
inline constexpr size_t kPlanOptionsBytes = CUGRT_SIZE_THROUGH(cugrt_plan_options, symbol_count);

/// Of the first argument that is null. `names`: as written, with ", " between them.
template <class... Arguments>
Status first_null(std::string_view names, const Arguments &...arguments) {
  for (const bool is_given : {static_cast<bool>(arguments)...}) {
    if (!is_given)
      break;
    names.remove_prefix(std::min(names.find(", "), names.size() - 2) + 2);
  }
  return null_argument(std::string(names.substr(0, names.find(", "))).c_str());
}

template <class... Arguments> bool are_given(const Arguments &...arguments) {
  return (static_cast<bool>(arguments) && ...);
}

/// Returns from the enclosing guarded body when an argument is null.
#define CUGRT_REQUIRE(...)                                                                         \
  do {                                                                                             \
    if (!::cugrt::runtime::api::are_given(__VA_ARGS__))                                            \
      return ::cugrt::runtime::api::first_null(#__VA_ARGS__, __VA_ARGS__);                         \
  } while (false)

} // namespace cugrt::runtime::api
