// The seam between the emulated driver's API and the execution of PTX.
//
// The driver side (driver/, graph/) loads a Program for each module and launches its kernels; the
// execution side (ptx/, exec/, decode/) knows nothing of contexts, streams or graphs.
#pragma once

#include "emulator/device/address_space.h"
#include "emulator/device/profile.h"
#include "emulator/exec/executor.h"

namespace cugrt::emulator {

struct LoadOptions {
  bool optimize = true;       // false: operations as they were decoded, for comparison
  uint32_t max_registers = 0; // of a thread, where a kernel states nothing; 0: none
};

class Program {
public:
  virtual ~Program() = default;

  /// Parses, checks and decodes PTX text (a trailing NUL is allowed), and places its globals in
  /// `memory`, which must outlive the program. Errors: parse_error with line and what was expected;
  /// unsupported, naming the opcode and its line, if every kernel has opcodes that the emulator
  /// does not execute (KernelInfo::missing); invalid_argument for a .target newer than the
  /// profile.
  static Result<std::unique_ptr<Program>> load(std::string_view ptx, const DeviceProfile &profile,
                                               AddressSpace &memory,
                                               const LoadOptions &options = {});

  virtual const KernelInfo *find_kernel(std::string_view name) const = 0;
  virtual std::optional<GlobalInfo> find_global(std::string_view name) const = 0;
  virtual std::vector<const KernelInfo *> kernels() const = 0;
  /// The PTX, as long as the program lives; empty when it was linked from several.
  virtual std::string_view text() const = 0;

  /// Executes the whole grid before it returns. The driver side has checked the configuration
  /// against the kernel's and the device's limits. Thread-safe.
  virtual std::optional<Fault> launch(const KernelInfo &kernel,
                                      const LaunchConfig &config) const = 0;
};

} // namespace cugrt::emulator
