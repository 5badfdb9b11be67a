// Makes an executable of a pack without a compiler.
#pragma once

#include "device/code/executable.h"
#include "device/pack/pack.h"

#include <set>

namespace cugrt::runtime {

/// The images of a target, each once.
std::set<uint32_t> images_of(const PackTarget &target);

/// Chooses the target for a device of capability `device`: machine code of its own architecture,
/// else the newest PTX that it takes. `only_ptx`: the device runs nothing else, as the emulated
/// one. The error lists the pack's targets.
Result<uint32_t> choose_target(const Pack &pack, int device, bool only_ptx);

/// Makes the executable of one of the pack's targets.
Result<std::shared_ptr<const Executable>> make_executable(const Pack &pack, uint32_t target);

/// Makes the executable for a runtime's device.
Result<std::shared_ptr<const Executable>> open_pack(const Device &device, const Pack &pack);

/// Returns the weights that the pack has inside or names. A named file is in `folder` and must have
/// the size and digest that it had when the pack was made. Empty if the pack has none.
Result<std::optional<WeightSet>> pack_weights(const Pack &pack, const std::string &folder);

} // namespace cugrt::runtime
