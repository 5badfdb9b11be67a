// The file's chat template; see chat_template.h.
#include "fronts/llm/chat/chat_template.h"

#include "base/json.h"

#include <algorithm>

namespace cugrt::llm {

namespace {

using jinja::Value;

constexpr std::string_view kRoles[] = {"system", "developer", "user",    "assistant",
                                       "tool",   "function",  "ipython", "model"};

struct TokenKey {
  std::string_view key, variable;
};
constexpr TokenKey kTokenKeys[] = {
    {"tokenizer.ggml.bos_token_id", "bos_token"},
    {"tokenizer.ggml.eos_token_id", "eos_token"},
    {"tokenizer.ggml.unknown_token_id", "unk_token"},
    {"tokenizer.ggml.padding_token_id", "pad_token"},
    {"tokenizer.ggml.seperator_token_id", "sep_token"}, // as the format spells it
    {"tokenizer.ggml.cls_token_id", "cls_token"},
    {"tokenizer.ggml.mask_token_id", "mask_token"}};

Value role_of(std::string_view role) {
  return jinja::make_text(jinja::text_of(role, std::ranges::count(kRoles, role) > 0));
}

Value *field_of(jinja::Dict::Entries &entries, jinja::TextView name) {
  for (auto &[key, value] : entries)
    if (key.text() && *key.text() == name)
      return &value;
  return nullptr;
}

/// The messages with roles as they are trusted.
Result<Value> messages_of(const Value &messages) {
  const jinja::List *list = messages.list();
  const auto is_dict = [](const Value &value) { return value.dict() != nullptr; };
  if (!list || !std::ranges::all_of(list->values, is_dict))
    return Status::error(Code::invalid_argument, "messages are a list of objects");
  std::vector<Value> made;
  for (const Value &message : list->values) {
    jinja::Dict::Entries entries = message.dict()->entries;
    if (Value *role = field_of(entries, U"role"); role && role->text())
      *role = role_of(jinja::utf8_of(*role->text()));
    made.push_back(jinja::make_dict(std::move(entries)));
  }
  return jinja::make_list(std::move(made));
}

/// The messages with nothing in the content of one of them, or none where it is no system message
/// with a text.
Value without_system(const jinja::List &messages, size_t index) {
  jinja::Dict::Entries entries = messages.values[index].dict()->entries;
  const Value *role = field_of(entries, U"role");
  Value *content = field_of(entries, U"content");
  const bool is_system =
      role && role->text() && (*role->text() == U"system" || *role->text() == U"developer");
  if (!is_system || !content || !content->text() ||
      jinja::strip(*content->text(), jinja::Side::both).empty())
    return jinja::None{};
  *content = jinja::make_text({});
  std::vector<Value> made = messages.values;
  made[index] = jinja::make_dict(std::move(entries));
  return jinja::make_list(std::move(made));
}

/// Runs of characters of one mark.
std::vector<TextPart> parts_of(const jinja::Text &text) {
  std::vector<TextPart> parts;
  for (char32_t c : text) {
    if (parts.empty() || parts.back().is_trusted != jinja::is_trusted(c))
      parts.push_back({"", jinja::is_trusted(c)});
    append_utf8(parts.back().text, jinja::code_of(c));
  }
  return parts;
}

} // namespace

Value message_of(std::string_view role, std::string_view text) {
  jinja::Dict::Entries entries;
  entries.emplace_back(jinja::make_text(U"role"), role_of(role));
  entries.emplace_back(jinja::make_text(U"content"), jinja::make_text(jinja::text_of(text, false)));
  return jinja::make_dict(std::move(entries));
}

Result<ChatTemplate> ChatTemplate::read(const gguf::File &file, const Tokenizer &tokenizer,
                                        bool has_tools) {
  constexpr std::string_view kTools = "tokenizer.chat_template.tool_use";
  const bool has_own = has_tools && file.find(kTools);
  CUGRT_ASSIGN(const std::string_view source,
               file.string(has_own ? kTools : "tokenizer.chat_template"));
  CUGRT_ASSIGN(jinja::Template parsed, jinja::Template::parse(source));
  ChatTemplate made(tokenizer, std::move(parsed));
  for (const TokenKey &token : kTokenKeys) {
    CUGRT_ASSIGN(const int64_t id, file.integer(token.key, -1));
    if (id < 0 || id >= static_cast<int64_t>(tokenizer.size()))
      continue;
    const std::string_view text = tokenizer.name_of(static_cast<int32_t>(id));
    if (!find_invalid_utf8(text))
      made.tokens_.emplace_back(token.variable, jinja::make_text(jinja::text_of(text)));
  }
  return made;
}

Result<std::vector<TextPart>> ChatTemplate::apply(const Conversation &conversation) const {
  CUGRT_ASSIGN(const Value messages, messages_of(conversation.messages));
  CUGRT_ASSIGN(const jinja::Text text, render(conversation, messages));
  CUGRT_TRY(check_system(conversation, messages, text));
  return parts_of(text);
}

Status ChatTemplate::check_system(const Conversation &conversation, const Value &messages,
                                  const jinja::Text &text) const {
  constexpr int kMaxLooks = 4; // each is a rendering
  int looks = 0;
  for (size_t i = 0; i < messages.list()->values.size() && looks < kMaxLooks; ++i) {
    Value others = without_system(*messages.list(), i);
    if (others.is_none())
      continue;
    ++looks;
    if (const auto rendered = render(conversation, std::move(others));
        rendered.ok() && *rendered == text)
      return Status::error(Code::invalid_argument, "the chat template leaves out message " +
                                                       std::to_string(i + 1) +
                                                       ", a system message");
  }
  return {};
}

Result<jinja::Text> ChatTemplate::render(const Conversation &conversation, Value messages) const {
  std::vector<std::pair<std::string, Value>> variables = {
      // of two of a name the first is seen
      {"messages", std::move(messages)},
      {"tools", conversation.tools},
      {"documents", conversation.documents},
      {"add_generation_prompt", conversation.add_generation_prompt}};
  if (const jinja::Dict *dict = conversation.variables.dict())
    for (const auto &[key, value] : dict->entries)
      if (key.text())
        variables.emplace_back(jinja::utf8_of(*key.text()), value);
  for (const auto &known : tokens_)
    variables.push_back(known);
  return template_.render(std::move(variables));
}

int32_t ChatTemplate::end_of_answer() const {
  const int32_t preset = tokenizer_->ends().empty() ? -1 : tokenizer_->ends().front();
  Conversation conversation{
      jinja::make_list({message_of("user", "a"), message_of("assistant", "b")})};
  conversation.add_generation_prompt = false;
  const Result<std::vector<TextPart>> parts = apply(conversation);
  if (!parts.ok())
    return preset;
  size_t behind = parts->size(); // the text behind the answer, which is the last untrusted one
  while (behind > 0 && (*parts)[behind - 1].is_trusted)
    --behind;
  if (behind == 0 || behind == parts->size() || (*parts)[behind - 1].text != "b")
    return preset;
  const int32_t found = tokenizer_->find_special((*parts)[behind].text);
  return found < 0 ? preset : found;
}

} // namespace cugrt::llm
