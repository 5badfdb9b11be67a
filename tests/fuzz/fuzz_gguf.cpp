// Reads arbitrary bytes as a GGUF file: what is read lies within them, whole, and every key can be
// asked for as whatever type.
#include "fronts/gguf/gguf.h"

#include <cstdlib>
#include <functional>

namespace {

bool lies_in(std::string_view part, std::string_view whole) {
  const std::less_equal<const char *> before;
  return part.empty() || (before(whole.data(), part.data()) &&
                          before(part.data() + part.size(), whole.data() + whole.size()));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  using namespace cugrt::gguf;
  const std::string_view bytes(reinterpret_cast<const char *>(data), size_bytes);
  const auto file = File::parse(bytes, "input");
  if (!file.ok())
    return 0;
  for (const Tensor &tensor : file->tensors())
    if (!lies_in(tensor.bytes, bytes) || !lies_in(tensor.name, bytes) ||
        file->find_tensor(tensor.name) != &tensor)
      std::abort();
  for (std::string_view key : file->keys()) {
    (void)file->integer(key).ok();
    (void)file->number(key).ok();
    (void)file->boolean(key).ok();
    (void)file->integers(key).ok();
    (void)file->numbers(key).ok();
    const auto list = file->strings(key);
    for (size_t i = 0; list.ok() && i < list->size(); ++i)
      if (!lies_in((*list)[i], bytes))
        std::abort();
    if (const auto text = file->string(key); text.ok() && !lies_in(*text, bytes))
      std::abort();
  }
  return 0;
}
