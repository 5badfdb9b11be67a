// Any bytes as an ONNX file: read, imported with nothing given, and what is imported is verified
// and prints text that parses.
#include "fronts/onnx/import.h"
#include "ir/text/text.h"

#include <cstdlib>

using namespace cugrt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char *>(data), size);
  const auto imported = onnx::import_bytes(bytes, "", {});
  if (!imported.ok())
    return 0;
  if (!ir::parse_and_verify(ir::print(imported->module), "input").ok())
    std::abort();
  return 0;
}
