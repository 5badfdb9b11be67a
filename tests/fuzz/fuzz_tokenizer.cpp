// Reads arbitrary bytes as a GGUF file with a tokenizer: what loads takes every text, gives tokens
// of its vocabulary only, and has bytes for each of them.
#include "fronts/llm/chat/chat_template.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  using namespace cugrt;
  const auto file = gguf::File::parse({reinterpret_cast<const char *>(data), size_bytes}, "input");
  if (!file.ok())
    return 0;
  const auto tokenizer = llm::Tokenizer::load(*file);
  if (!tokenizer.ok())
    return 0;
  (void)llm::ChatTemplate::read(*file, **tokenizer, true).ok();
  for (bool is_trusted : {false, true}) {
    const llm::TextPart parts[] = {
        {"Hello  w\xc3\xb6rld, it's 123\n\n\xe4\xb8\xad <|end|>", is_trusted},
        {std::string(40, 'a'), is_trusted}};
    const auto ids = (*tokenizer)->encode(parts);
    for (size_t i = 0; ids.ok() && i < ids->size(); ++i)
      if ((*ids)[i] < 0 || static_cast<size_t>((*ids)[i]) >= (*tokenizer)->size())
        std::abort();
  }
  llm::Utf8Stream stream;
  std::string text;
  for (size_t id = 0; id < (*tokenizer)->size(); ++id)
    text += stream.push((*tokenizer)->bytes_of(static_cast<int32_t>(id)));
  if (llm::find_invalid_utf8(text + stream.finish()))
    std::abort();
  return 0;
}
