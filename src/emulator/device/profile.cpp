// The table of device profiles.
#include "emulator/device/profile.h"

namespace cugrt::emulator {

constexpr DeviceProfile kProfiles[] = {
#define PROFILE(name, ...) {#name, __VA_ARGS__},
#include "emulator/device/profiles.def"
#undef PROFILE
};

const DeviceProfile *find_profile(std::string_view name) {
  for (const DeviceProfile &profile : kProfiles)
    if (profile.name == name)
      return &profile;
  return nullptr;
}

const DeviceProfile &default_profile() { return *find_profile("sm_90"); }

} // namespace cugrt::emulator
