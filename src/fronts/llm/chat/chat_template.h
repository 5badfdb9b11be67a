// How a conversation is written for a model. Templates are known by name, recognised in the text of
// the file's key tokenizer.chat_template; that text, a program, is not run.
#pragma once

#include "fronts/llm/tokenizer/tokenizer.h"

namespace cugrt::llm {

enum class ChatTemplate : uint8_t { chatml, llama3, gemma, mistral, phi };

/// Code::unsupported, with the template's beginning, when it is none of them.
Result<ChatTemplate> find_chat_template(const gguf::File &file);

struct Message {
  std::string role; // "system", "user" or "assistant"
  std::string text;
};

/// The conversation up to where the answer begins. What people wrote is not trusted: a control
/// token's name in it stays text. A template without a place for the system's text puts it before
/// the first user's.
Result<std::vector<TextPart>> apply_chat_template(ChatTemplate kind,
                                                  std::span<const Message> messages);
/// The token that ends an answer.
std::string_view end_of_answer(ChatTemplate kind);

} // namespace cugrt::llm
