// Reads arbitrary bytes as PTX and as a cubin: what is found stands in the input, and there is no
// more of it than the input has room for.
#include "device/code/code_entries.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  const std::string_view image(reinterpret_cast<const char *>(data), size_bytes);
  for (bool cubin : {false, true}) {
    auto entries = cugrt::runtime::read_code_entries(image, cubin);
    if (!entries)
      continue;
    size_t params = 0;
    for (const cugrt::runtime::CodeEntry &entry : *entries) {
      if (image.find(entry.name) == image.npos)
        std::abort();
      params += entry.param_bytes ? entry.param_bytes->size() : 0;
    }
    if (entries->size() > size_bytes || params > size_bytes)
      std::abort();
  }
  return 0;
}
