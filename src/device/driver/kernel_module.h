// Loaded code: modules and their kernels.
#pragma once

#include "device/driver/stream.h"

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cugrt::driver {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  friend bool operator==(const Dim3 &, const Dim3 &) = default;
};

/// Fills in any of the driver's structs of launches.
template <class Params>
void set_shape(Params &params, Dim3 grid, Dim3 block, uint32_t dynamic_shared_bytes) {
  params.gridDimX = grid.x;
  params.gridDimY = grid.y;
  params.gridDimZ = grid.z;
  params.blockDimX = block.x;
  params.blockDimY = block.y;
  params.blockDimZ = block.z;
  params.sharedMemBytes = dynamic_shared_bytes;
}

/// One launch, as a kernel node or on a stream. `arguments[i]` points to the value of parameter i;
/// both are read during the call only. `attributes`: cluster, cooperative, priority and the like.
struct LaunchParams {
  CUfunction function = nullptr; // or a CUkernel, for nodes with the green context it runs in
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  void **arguments = nullptr;
  std::span<const CUlaunchAttribute> attributes;
  CUcontext green = nullptr;
};

/// Enqueues one launch. Context current.
Status launch(StreamRef stream, const LaunchParams &params, std::string_view kernel_name);

struct KernelParam {
  size_t offset_bytes = 0, size_bytes = 0;
  friend bool operator==(const KernelParam &, const KernelParam &) = default;
};

/// A kernel of a loaded module; valid while the module is.
class Kernel {
public:
  /// The handle for launches: its function, or the CUkernel if the context is green.
  CUfunction get() const { return launched_; }
  const std::string &name() const { return name_; }
  /// The compiled kernel's parameters; empty optional where the driver cannot tell (before 12.4).
  const std::optional<std::vector<KernelParam>> &params() const { return params_; }

  /// Compares a launch's arguments (the size of each) with the compiled kernel. Passes if the
  /// driver cannot tell.
  Status check_params(std::span<const size_t> argument_bytes) const;

  Result<int> attribute(CUfunction_attribute attribute) const;
  /// How many blocks of so many threads and bytes of dynamic shared memory a multiprocessor holds
  /// at once; 0 if the driver cannot tell.
  Result<int> resident_blocks(int threads, size_t dynamic_shared_bytes) const;
  /// Above 48 KiB of dynamic shared memory a kernel must opt in; does so when needed.
  Status allow_dynamic_shared(uint32_t bytes) const;
  /// Larger clusters do not run on every device.
  static constexpr uint32_t kPortableClusterBlocks = 8;
  Status allow_large_clusters() const;

private:
  friend class KernelModule;
  const DriverApi *api_ = nullptr;
  CUfunction function_ = nullptr, launched_ = nullptr;
  std::string name_;
  std::optional<std::vector<KernelParam>> params_;
};

class KernelModule {
public:
  using Handle = UniqueHandle<CUmodule, &DriverApi::ModuleUnload, kInContext>;

  using LibraryHandle = UniqueHandle<CUlibrary, &DriverApi::LibraryUnload, kInContext>;

  KernelModule() = default;
  /// Loads a cubin or PTX text. `name` is for messages; the driver's own log joins them.
  static Result<KernelModule> load(const Context &context, const std::string &image,
                                   std::string_view name);

  Result<Kernel> kernel(const std::string &entry) const;

  struct Global {
    uint64_t address = 0, size_bytes = 0;
  };
  Result<Global> global(const std::string &name) const;

private:
  const DriverApi *api_ = nullptr;
  CUcontext context_ = nullptr;
  Handle module_;
  LibraryHandle library_; // in place of a module, where the context is green
  std::string name_;
};

} // namespace cugrt::driver
