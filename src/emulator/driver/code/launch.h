// Kernel launches: finding the kernel, checking the configuration, copying the arguments, running.
#pragma once

#include "emulator/driver/driver.h"

namespace cugrt::emulator::api {

struct LaunchRequest {
  CUfunction function = nullptr; // or a CUkernel, cast
  CUkernel kernel = nullptr;     // used when function is null
  std::array<uint32_t, 3> grid{}, block{};
  uint32_t dynamic_shared_bytes = 0;
  void **params = nullptr, **extra = nullptr;
  bool by_state = false;                         // made of the function's LaunchState
  bool of_node = false;                          // of a graph: may have a grid of 0
  std::shared_ptr<GreenContext> green = nullptr; // whose multiprocessors it has; nullptr: all
};

/// Launches into a stream, or captures the launch (launch_api.cpp). Takes the lock itself.
CUresult launch(Driver &driver, LaunchRequest request, CUstream handle,
                const CUlaunchAttribute *attributes, unsigned count);

/// The function of a handle that may be a CUfunction or a CUkernel; a kernel is loaded into
/// `context` first if need be. Needs the lock.
CUresult resolve_function(Driver &driver, CUfunction handle, CUkernel kernel,
                          const Ref<Context> &context, Ref<Function> *out);
/// Everything that a launch or a kernel node can be refused for, then the copied arguments.
CUresult prepare_launch(Driver &driver, const LaunchRequest &request, const Ref<Context> &context,
                        KernelWork *out);
/// Checks attributes of the launch: emulated, harmless or refused ones.
CUresult check_attributes(Driver &driver, const KernelWork &work);
/// Whether a launch can have the attribute at all, whatever its value.
CUresult check_known(Driver &driver, CUlaunchAttributeID id);
/// Blocks of a cluster, as the kernel was compiled, as the launch says, or else as the function's
/// attributes do; zeros: it has none.
std::array<uint32_t, 3> cluster_of(const KernelWork &work);
bool is_cooperative(const KernelWork &work);
/// How many a cluster of the function may have.
uint32_t max_cluster_blocks(const Function &function);
/// Copies arguments given in either of the two forms, by the kernel's layout.
CUresult copy_params(const KernelInfo &info, void **params, void **extra,
                     std::vector<std::byte> *out);

/// Hooks of the launches around a kernel; see LaunchConfig.
struct KernelHooks {
  const std::function<void()> *wait_for_predecessors = nullptr;
  LaunchAccesses *accesses = nullptr;
};
/// Runs on the device thread, without the lock.
CUresult run_kernel(Driver &driver, const KernelWork &work, const KernelHooks &hooks = {});

/// Function attributes and parameter layout, for CUfunction and CUkernel alike (function_api.cpp).
CUresult get_function_attribute(Driver &driver, const Function &function,
                                CUfunction_attribute attribute, int *value);
CUresult set_function_attribute(Driver &driver, Function &function, CUfunction_attribute attribute,
                                int value);
CUresult get_param_count(const Function &function, size_t *out);
CUresult get_param_info(const Function &function, size_t index, size_t *offset, size_t *bytes);

/// How many multiprocessors work of the green context has; nullptr: work that has all.
uint64_t multiprocessors(const Driver &driver, const GreenContext *green);
/// How many blocks fit on a multiprocessor, as the occupancy calculator reckons; 0 when none does.
int max_active_blocks(const DeviceProfile &profile, const Function &function, int block_threads,
                      size_t dynamic_shared_bytes);

} // namespace cugrt::emulator::api
