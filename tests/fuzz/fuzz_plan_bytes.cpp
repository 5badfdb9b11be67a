// Reads arbitrary bytes as a plan; what is read writes back and reads again as the same.
#include "plan/bytes/serialize.h"
#include "support/describe_plan.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  auto plan = cugrt::plan::from_bytes({reinterpret_cast<const char *>(data), size_bytes});
  if (!plan.ok())
    return 0;
  cugrt::plan::describe(*plan);
  std::string bytes = cugrt::plan::to_bytes(*plan);
  auto again = cugrt::plan::from_bytes(bytes);
  if (!again.ok() || cugrt::plan::to_bytes(*again) != bytes)
    __builtin_trap();
  return 0;
}
