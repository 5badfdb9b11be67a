// Scans arbitrary text for #include: a name stands in the text, lines joined, between its marks,
// and no mark ends a name early.
#include "jit/include_scan.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  const std::string_view source(reinterpret_cast<const char *>(data), size_bytes);
  const bool joined = source.find('\\') != source.npos;
  for (const std::string &name : cugrt::jit::scan_includes(source).names) {
    if (name.find('\n') != name.npos)
      std::abort();
    if (!joined && source.find("\"" + name + "\"") == source.npos &&
        source.find("<" + name + ">") == source.npos)
      std::abort();
  }
  return 0;
}
