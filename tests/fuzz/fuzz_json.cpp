// Reads arbitrary bytes as JSON and, where they are, as a list of names and texts that is written
// again: what was written must read as the same.
#include "base/json.h"

#include <cstddef>
#include <cstdint>

namespace {

constexpr size_t kMaxDepth = 8;

bool is_json(std::string_view text) {
  cugrt::JsonReader json(text, kMaxDepth);
  return json.skip().ok() && json.finish().ok();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  const std::string_view bytes(reinterpret_cast<const char *>(data), size_bytes);
  (void)is_json(bytes);
  cugrt::JsonWriter writer;
  const std::string text = writer.begin_list().text(bytes).end_list().take();
  cugrt::JsonReader json(text, kMaxDepth);
  std::string read;
  if (!json.begin_list().ok() || !json.next_element().ok() || !json.text(read).ok() ||
      !json.next_element().ok() || !json.finish().ok())
    __builtin_trap();
  cugrt::JsonWriter again;
  if (again.begin_list().text(read).end_list().take() != text)
    __builtin_trap();
  return 0;
}
