// Any text: parse, verify, print, and parse what was printed.
#include "ir/text/text.h"

#include <cstdlib>

using namespace cugrt;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(data), size);
  Diagnostics diagnostics;
  ir::Module module = ir::parse(text, diagnostics);
  if (!diagnostics.empty()) {
    diagnostics.render("input", text);
    return 0;
  }
  std::string printed = ir::print(module);
  ir::Module again = ir::parse(printed, diagnostics);
  if (!diagnostics.empty() || ir::print(again) != printed)
    std::abort(); // printed text is its own normal form
  ir::verify(module, diagnostics);
  size_t errors = diagnostics.count();
  Diagnostics second;
  ir::verify(again, second);
  if (second.count() != errors)
    std::abort();
  return 0;
}
