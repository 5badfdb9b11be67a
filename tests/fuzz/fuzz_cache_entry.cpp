// Any bytes are an entry that writes back to the same bytes, or no entry.
#include "jit/cache_entry.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view file(reinterpret_cast<const char *>(data), size);
  if (auto entry = cugrt::jit::read_entry(file))
    if (cugrt::jit::write_entry(entry->key, entry->compiler, entry->kind, entry->architecture,
                                entry->payload) != file)
      std::abort();
  return 0;
}
