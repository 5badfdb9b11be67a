// Options about the device; see module_plan.h.
#include "library/compile/module_plan.h"

#include "base/architectures.h"
#include "device/context/device.h"

#include <optional>

namespace cugrt::runtime {

namespace {

struct TargetDevice {
  int number, multiprocessors;
};

constexpr TargetDevice kDevices[] = {
#define CUGRT_TARGET_DEVICE(number, multiprocessors) {number, multiprocessors},
#include "library/compile/target_devices.def"
#undef CUGRT_TARGET_DEVICE
};

std::optional<int> multiprocessors_of(const jit::Architecture &architecture) {
  for (const TargetDevice &device : kDevices)
    if (architecture.real && device.number == architecture.number)
      return device.multiprocessors;
  return std::nullopt;
}

} // namespace

Status set_target(passes::PassContext &context, const Device *device,
                  std::string_view architecture) {
  const bool has_device = device && device->has_driver();
  std::optional<int> multiprocessors, capability;
  if (!architecture.empty()) {
    CUGRT_ASSIGN(const jit::Architecture named, jit::parse_architecture(architecture));
    capability = named.number;
    multiprocessors = multiprocessors_of(named);
  } else if (has_device) {
    capability = device->context().capability();
  }
  if (has_device) {
    CUGRT_ASSIGN(multiprocessors,
                 device->context().attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    CUGRT_TRY(context.set_default("target.cooperative_bodies",
                                  device->cooperative_bodies() ? "true" : "false"));
  }
  if (capability)
    CUGRT_TRY(context.set_default("target.compute_capability", std::to_string(*capability)));
  if (multiprocessors && *multiprocessors > 0)
    CUGRT_TRY(context.set_default("target.multiprocessors", std::to_string(*multiprocessors)));
  return {};
}

} // namespace cugrt::runtime
