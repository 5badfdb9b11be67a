// Several PTX modules as one, as a linker of relocatable device code sees them.
//
// What a module keeps to itself (no linkage directive) stays its own. Of the others a name is
// defined once, or weakly any number of times: a strong definition goes before weak ones, the first
// weak one before the rest. .extern declarations stand for the definition of another module.
// Functions that the driver provides need none.
//
// An image is what a module is loaded from: PTX text, or several texts behind a header (the
// linker's output, which no other loader reads):
//
//     magic | total bytes | most registers | number of texts | length of each | the texts
//
// Numbers have 8 bytes.
#pragma once

#include "base/status.h"
#include "emulator/ptx/module.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::emulator {

inline constexpr std::string_view kLinkedMagic = "\x7f"
                                                 "cugrtLK";
inline constexpr size_t kMaxLinkedTexts = 4096;

/// The parts become one module, which owns them. `names` (of the inputs, for messages) may be
/// shorter than `parts`. verify_error when a name is defined twice, not_found when one is nowhere.
Result<std::unique_ptr<ptx::Module>> link(std::vector<std::unique_ptr<ptx::Module>> parts,
                                          std::span<const std::string> names = {});

/// `max_registers`: of a thread; 0: not stated.
std::string linked_image(std::span<const std::string> texts, uint32_t max_registers);
/// The length that a linked image states in its first 16 bytes; 0 if it is none.
uint64_t linked_image_bytes(std::string_view head);
/// PTX text or a linked image, parsed. A malformed image is a parse_error.
Result<std::unique_ptr<ptx::Module>> parse_image(std::string_view image);

} // namespace cugrt::emulator
