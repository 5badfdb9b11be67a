// Renders diagnostics at arbitrary places of arbitrary text: the input's first bytes are locations,
// the rest is the source.
#include "base/diagnostics.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace {

constexpr size_t kLocations = 4;

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  cugrt::SourceLocation locations[kLocations];
  if (size_bytes < sizeof(locations))
    return 0;
  std::memcpy(locations, data, sizeof(locations));
  const std::string_view source(reinterpret_cast<const char *>(data) + sizeof(locations),
                                size_bytes - sizeof(locations));
  cugrt::Diagnostics diagnostics;
  for (const cugrt::SourceLocation &location : locations)
    diagnostics.error(location, "unexpected text");
  const cugrt::Status status =
      diagnostics.to_status(cugrt::Code::parse_error, "module.cugrt", source);
  // Every diagnostic is in the message, whatever the text is.
  if (status.message().size() < kLocations * std::strlen("unexpected text"))
    __builtin_trap();
  return 0;
}
