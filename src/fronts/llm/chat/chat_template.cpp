// The chat templates; see chat_template.h.
#include "fronts/llm/chat/chat_template.h"

namespace cugrt::llm {

namespace {

struct Row {
  ChatTemplate kind;
  std::string_view name, sign; // a text that no other's template has
  // Before and after each role's text; what begins an answer.
  std::string_view system_begin, system_end, user_begin, user_end, answer_begin, answer_end;
  std::string_view last; // the token that ends an answer
};

// In the order in which their signs are looked for.
constexpr Row kRows[] = {
    {ChatTemplate::chatml, "chatml", "<|im_start|>", "<|im_start|>system\n", "<|im_end|>\n",
     "<|im_start|>user\n", "<|im_end|>\n", "<|im_start|>assistant\n", "<|im_end|>\n", "<|im_end|>"},
    {ChatTemplate::llama3, "llama3", "<|start_header_id|>",
     "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>",
     "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>",
     "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", "<|eot_id|>"},
    {ChatTemplate::gemma, "gemma", "<start_of_turn>", "", "\n\n", "<start_of_turn>user\n",
     "<end_of_turn>\n", "<start_of_turn>model\n", "<end_of_turn>\n", "<end_of_turn>"},
    {ChatTemplate::mistral, "mistral", "[INST]", "", "\n\n", "[INST] ", " [/INST]", "", "</s>",
     "</s>"},
    {ChatTemplate::phi, "phi", "<|user|>", "<|system|>\n", "<|end|>\n", "<|user|>\n", "<|end|>\n",
     "<|assistant|>\n", "<|end|>\n", "<|end|>"},
};

const Row &row_of(ChatTemplate kind) { return kRows[static_cast<size_t>(kind)]; }

} // namespace

Result<ChatTemplate> find_chat_template(const gguf::File &file) {
  CUGRT_ASSIGN(const std::string_view text, file.string("tokenizer.chat_template"));
  std::string names;
  for (const Row &row : kRows) {
    if (text.find(row.sign) != text.npos)
      return row.kind;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  std::string begin;
  for (char c : text.substr(0, 60))
    begin += c >= ' ' && c <= '~' ? c : ' ';
  return Status::error(Code::unsupported, "'" + file.name() + "': the chat template '" + begin +
                                              "...' is none of " + names);
}

Result<std::vector<TextPart>> apply_chat_template(ChatTemplate kind,
                                                  std::span<const Message> messages) {
  const Row &row = row_of(kind);
  std::vector<TextPart> parts;
  const auto add = [&](std::string_view begin, const std::string &text, std::string_view end) {
    if (!begin.empty())
      parts.push_back({std::string(begin), true});
    parts.push_back({text, false});
    if (!end.empty())
      parts.push_back({std::string(end), true});
  };
  std::string before; // the system's text where it has no place of its own
  for (const Message &message : messages) {
    if (message.role == "system" && !row.system_begin.empty())
      add(row.system_begin, message.text, row.system_end);
    else if (message.role == "system")
      before += message.text + std::string(row.system_end);
    else if (message.role == "user")
      add(row.user_begin, std::exchange(before, "") + message.text, row.user_end);
    else if (message.role == "assistant")
      add(row.answer_begin, message.text, row.answer_end);
    else
      return Status::error(Code::invalid_argument, "there is no role '" + message.role +
                                                       "' in a conversation; there are system, "
                                                       "user and assistant");
  }
  if (!row.answer_begin.empty())
    parts.push_back({std::string(row.answer_begin), true});
  return parts;
}

std::string_view end_of_answer(ChatTemplate kind) { return row_of(kind).last; }

} // namespace cugrt::llm
