// From a pack to an executable: no compiler is looked for.
#pragma once

#include "device/code/executable.h"
#include "device/pack/pack.h"

#include <set>

namespace cugrt::runtime {

/// The images of a target, each once.
std::set<uint32_t> images_of(const PackTarget &target);

/// The target for a device of this number: machine code of its own architecture, else the newest
/// PTX that it takes. `only_ptx`: of a device that runs nothing else, as the emulated one. The
/// error lists what the pack has.
Result<uint32_t> choose_target(const Pack &pack, int device, bool only_ptx);

/// The executable of one of the pack's targets.
Result<std::shared_ptr<const Executable>> make_executable(const Pack &pack, uint32_t target);

/// That for a runtime's device.
Result<std::shared_ptr<const Executable>> open_pack(const Device &device, const Pack &pack);

/// The weights that the pack has or names: inside, or in a file in `folder`, whose size and digest
/// must be those of the file that the pack was made with. Empty when it has none.
Result<std::optional<WeightSet>> pack_weights(const Pack &pack, const std::string &folder);

} // namespace cugrt::runtime
