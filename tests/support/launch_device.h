// What a LaunchRunner runs kernels on: the emulated device's execution core by itself, or a driver
// that executes, a real one among them.
//
// Allocations come poisoned, so that a byte not written shows; on the execution core they also end
// at their last byte, so that an access beyond shows, too.
#pragma once

#include "base/status.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cugrt::test {

inline Status failed(std::string message) {
  return Status::error(Code::internal, std::move(message));
}

class LaunchDevice {
public:
  virtual ~LaunchDevice() = default;
  /// The architecture that code is compiled for, such as "sm_90".
  virtual std::string_view architecture() const = 0;

  virtual Result<uint64_t> allocate(uint64_t bytes) = 0;
  virtual void free(uint64_t address) = 0;
  virtual Status write(uint64_t address, std::string_view bytes) = 0;
  virtual Result<std::string> read(uint64_t address, size_t bytes) = 0;

  /// Keeps PTX text loaded as long as the device lives; a number for `launch`.
  virtual Result<size_t> load(const std::string &ptx, const std::string &name) = 0;
  using Dim = std::array<uint32_t, 3>;
  /// One launch, waited for, whose blocks are resident at once where it is cooperative; `shared`
  /// bytes of dynamic shared memory a block. `arguments[i]` holds the bytes of parameter i. How
  /// many operations lanes have executed, or 0 where that is not counted.
  virtual Result<uint64_t> launch(size_t code, const std::string &entry, Dim grid, Dim block,
                                  uint32_t shared, bool cooperative,
                                  std::span<const std::string> arguments) = 0;
};

/// The execution core with a row of the emulated devices, such as "sm_90"; or, where
/// CUGRT_TEST_DRIVER names a driver (`system`, `emulated` or a path), the first device of that one
/// whatever the profile, with code for `profile` where the device can run it.
std::unique_ptr<LaunchDevice> open_launch_device(std::string_view profile);

} // namespace cugrt::test
