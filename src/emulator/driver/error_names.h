// Names and descriptions of CUresult codes; the table is errors.def.
#pragma once

#include <optional>
#include <string_view>

namespace cugrt::emulator::api {

/// nullptr for a value that is no CUresult.
const char *error_name(int code);
const char *error_description(int code);
std::optional<int> find_error_code(std::string_view name);

} // namespace cugrt::emulator::api
