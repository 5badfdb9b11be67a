// PTX text: its words, the version of the ISA that it is written in, and the oldest driver for
// it.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

namespace cugrt::runtime {

/// Whether a character belongs to a name, register or directive.
inline bool is_ptx_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

/// 90 for PTX whose .version is 9.0; 0 where the text names none. NVRTC writes its own version, so
/// a driver that is older than the compiler refuses the PTX.
int ptx_version(std::string_view ptx);
/// The oldest driver that takes PTX of this version, as cuDriverGetVersion counts: 13000 for 90;
/// 0 where that is not known.
int driver_of_ptx(int version);
/// "PTX 9.0, for drivers of CUDA 13.0 and newer".
std::string ptx_version_text(int version);

} // namespace cugrt::runtime
