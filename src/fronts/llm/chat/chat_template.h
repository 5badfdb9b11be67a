// How a conversation is written for a model: by the file's own template, a program in Jinja's
// language, with the variables that transformers' apply_chat_template gives it.
#pragma once

#include "fronts/llm/jinja/template.h"
#include "fronts/llm/tokenizer/tokenizer.h"

namespace cugrt::llm {

/// Variables of a template. It does not trust the values' text: a control token's name in it stays
/// text, whatever the template does with it. It trusts the names of roles that all templates know,
/// since templates make control tokens of them.
struct Conversation {
  jinja::Value messages;                  // a list of dicts
  jinja::Value tools = jinja::None{};     // a list of dicts, or none
  jinja::Value documents = jinja::None{}; // likewise
  jinja::Value variables = jinja::None{}; // a dict of further ones, or none
  bool add_generation_prompt = true;      // to end where the answer begins
};

/// A message of plain text.
jinja::Value message_of(std::string_view role, std::string_view text);

class ChatTemplate {
public:
  /// Reads the keys tokenizer.chat_template and, for tools if there is one,
  /// tokenizer.chat_template.tool_use. The tokenizer must outlive it. Errors of the template have
  /// its line as their location.
  static Result<ChatTemplate> read(const gguf::File &file, const Tokenizer &tokenizer,
                                   bool has_tools);

  /// Code::invalid_argument also of a system message that the template leaves out: one that changes
  /// nothing in the text. The first four of a conversation are looked at.
  Result<std::vector<TextPart>> apply(const Conversation &conversation) const;
  /// The token that ends an answer: the first special one that the template writes behind an
  /// answer, or else the file's end of text; -1 when there is neither.
  int32_t end_of_answer() const;

private:
  ChatTemplate(const Tokenizer &tokenizer, jinja::Template parsed)
      : tokenizer_(&tokenizer), template_(std::move(parsed)) {}
  Result<jinja::Text> render(const Conversation &conversation, jinja::Value messages) const;
  Status check_system(const Conversation &conversation, const jinja::Value &messages,
                      const jinja::Text &text) const;

  const Tokenizer *tokenizer_;
  jinja::Template template_;
  std::vector<std::pair<std::string, jinja::Value>> tokens_; // bos_token, eos_token..
};

} // namespace cugrt::llm
