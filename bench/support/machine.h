// What a bench ran on: the header of its report.
#pragma once

#include <string>

namespace cugrt::bench {

/// "processor MODEL, N cores; Linux RELEASE; built with COMPILER". What cannot be found is left
/// out.
std::string machine_text();

} // namespace cugrt::bench
