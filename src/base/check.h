// CUGRT_CHECK: a broken invariant, that is, a bug in cugrt. Kept in release builds.
//
// A failed check throws BrokenInvariant, which the C ABI turns into Code::internal: the library
// never aborts its host. Never use it for errors that callers, files, the environment or drivers
// can cause.
#pragma once

#include <stdexcept>

namespace cugrt {

class BrokenInvariant : public std::logic_error {
public:
  using std::logic_error::logic_error;
};

[[noreturn]] void broken_invariant(const char *condition, const char *file, int line);

} // namespace cugrt

#define CUGRT_CHECK(condition)                                                                     \
  (static_cast<bool>(condition) ? void()                                                           \
                                : ::cugrt::broken_invariant(#condition, __FILE__, __LINE__))
