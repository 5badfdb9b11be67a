// The C ABI of include/cugrt/llm.h.
#include "fronts/llm/api/abi.h"
#include "fronts/llm/generation/session_module.h"
#include "fronts/llm/jinja_values/value.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace cugrt::llm {

namespace {

constexpr int64_t kMaxPlaces = 1024, kMaxContext = int64_t(1) << 24;

Status model_open(const char *path, cugrt_llm_model **model) {
  CUGRT_TRY(require(path && model, "path or model"));
  CUGRT_ASSIGN(std::shared_ptr<const Model> opened, Model::open(path));
  *model = new cugrt_llm_model{std::move(opened)};
  return {};
}

void model_free(cugrt_llm_model *model) { delete model; }

Status model_get_info(const cugrt_llm_model *model, cugrt_llm_model_info *info) {
  CUGRT_TRY(require(model, "model"));
  CUGRT_ASSIGN(const Decoder decoder, read_decoder(model->model->file));
  auto made = detail::sized<cugrt_llm_model_info>();
  made.architecture = model->model->architecture.c_str();
  made.layers = decoder.layers;
  made.vocabulary = static_cast<int64_t>(model->model->tokenizer->size());
  made.trained_context = decoder.trained_context;
  return give_struct(made, info, "info");
}

Status tokenize(const cugrt_llm_model *model, const char *text, size_t size_bytes,
                cugrt_llm_tokens **tokens) {
  CUGRT_TRY(require(model && tokens && (text || size_bytes == 0), "model, text or tokens"));
  CUGRT_ASSIGN(std::vector<int32_t> ids,
               model->model->tokenizer->encode(std::string_view(text, size_bytes)));
  *tokens = new cugrt_llm_tokens{std::move(ids)};
  return {};
}

/// Reads a text's JSON; a null pointer gives None.
Result<jinja::Value> read_json(std::string_view what, const char *json, size_t size_bytes) {
  if (!json)
    return jinja::Value(jinja::None{});
  return jinja::value_of_json(what, std::string_view(json, size_bytes));
}

Status give_conversation(const Model &model, const Conversation &conversation,
                         cugrt_llm_tokens **tokens, int32_t *end) {
  const bool has_tools = conversation.tools.list() && !conversation.tools.list()->values.empty();
  CUGRT_ASSIGN(const ChatTemplate made,
               ChatTemplate::read(model.file, *model.tokenizer, has_tools));
  CUGRT_ASSIGN(const std::vector<TextPart> parts, made.apply(conversation));
  CUGRT_ASSIGN(std::vector<int32_t> ids, model.tokenizer->encode(parts));
  std::string text;
  for (const TextPart &part : parts)
    text += part.text;
  if (end)
    *end = made.end_of_answer();
  *tokens = new cugrt_llm_tokens{std::move(ids), std::move(text)};
  return {};
}

Status tokenize_chat(const cugrt_llm_model *model, const cugrt_llm_message *messages, size_t count,
                     cugrt_llm_tokens **tokens, int32_t *end) {
  CUGRT_TRY(require(model && tokens && (messages || count == 0), "model, messages or tokens"));
  std::vector<jinja::Value> list;
  for (size_t i = 0; i < count; ++i) {
    const auto &[role, text] = messages[i];
    CUGRT_TRY(require(role && text, "a message's role or text"));
    if (find_invalid_utf8(role) || find_invalid_utf8(text))
      return Status::error(Code::invalid_argument, "a message's role or text is not UTF-8");
    list.push_back(message_of(role, text));
  }
  return give_conversation(*model->model, {jinja::make_list(std::move(list))}, tokens, end);
}

Status tokenize_conversation(const cugrt_llm_model *model,
                             const cugrt_llm_conversation *conversation, cugrt_llm_tokens **tokens,
                             int32_t *end) {
  CUGRT_TRY(require(model && conversation && tokens, "model, conversation or tokens"));
  CUGRT_ASSIGN(const cugrt_llm_conversation given, take_struct(conversation, "conversation"));
  CUGRT_TRY(require(given.messages, "the conversation's messages"));
  Conversation wanted;
  CUGRT_ASSIGN(wanted.messages, read_json("messages", given.messages, given.messages_bytes));
  CUGRT_ASSIGN(wanted.tools, read_json("tools", given.tools, given.tools_bytes));
  CUGRT_ASSIGN(wanted.documents, read_json("documents", given.documents, given.documents_bytes));
  CUGRT_ASSIGN(wanted.variables, read_json("variables", given.variables, given.variables_bytes));
  if (!wanted.variables.is_none() && !wanted.variables.dict())
    return Status::error(Code::invalid_argument, "variables are an object");
  for (const jinja::Value *list : {&wanted.tools, &wanted.documents})
    if (!list->is_none() && !list->list())
      return Status::error(Code::invalid_argument, "tools and documents are lists");
  wanted.add_generation_prompt = given.add_generation_prompt != 0;
  return give_conversation(*model->model, wanted, tokens, end);
}

const char *tokens_text(const cugrt_llm_tokens *tokens, size_t *size_bytes) {
  const bool has_text = tokens && tokens->text;
  if (size_bytes)
    *size_bytes = has_text ? tokens->text->size() : 0;
  return has_text ? tokens->text->c_str() : nullptr;
}

const int32_t *tokens_data(const cugrt_llm_tokens *tokens) {
  return tokens ? tokens->ids.data() : nullptr;
}
size_t tokens_count(const cugrt_llm_tokens *tokens) { return tokens ? tokens->ids.size() : 0; }
void tokens_free(cugrt_llm_tokens *tokens) { delete tokens; }

/// Reads options, which are not null.
Result<EngineOptions> engine_options_of(const cugrt_llm_session_options *options) {
  CUGRT_ASSIGN(const cugrt_llm_session_options given, take_struct(options, "options"));
  if (given.dtype != CUGRT_F32 && given.dtype != CUGRT_F16 && given.dtype != CUGRT_BF16)
    return Status::error(Code::invalid_argument, "dtype is f32, f16 or bf16");
  if (given.cache != CUGRT_BOOL && given.cache != CUGRT_F32 && given.cache != CUGRT_F16 &&
      given.cache != CUGRT_BF16 && given.cache != CUGRT_Q8_0)
    return Status::error(Code::invalid_argument, "the cache's dtype is f32, f16, bf16 or q8_0");
  if (given.context < 0)
    return Status::error(Code::invalid_argument, "the context is not negative");
  if (given.places < 0 || given.places > kMaxPlaces)
    return Status::error(Code::invalid_argument,
                         "a session has from 1 to " + std::to_string(kMaxPlaces) + " places");
  if (given.loop < CUGRT_LLM_LOOP_HOST || given.loop > CUGRT_LLM_LOOP_DEVICE)
    return Status::error(Code::invalid_argument, "loop is a cugrt_llm_loop");
  if (given.draft < CUGRT_LLM_DRAFT_NONE || given.draft > CUGRT_LLM_DRAFT_NGRAM)
    return Status::error(Code::invalid_argument, "draft is a cugrt_llm_draft");
  if (given.lora_rank < 0 || given.lora_rank > kMaxLoraRank)
    return Status::error(Code::invalid_argument,
                         "lora_rank is from 0 to " + std::to_string(kMaxLoraRank));
  EngineOptions wanted;
  wanted.lora_rank = given.lora_rank;
  CUGRT_ASSIGN(wanted.lora_targets,
               parse_lora_targets(given.lora_targets ? given.lora_targets : ""));
  wanted.loop = static_cast<Loop>(given.loop);
  wanted.draft = static_cast<Draft>(given.draft);
  wanted.dtype = static_cast<ir::DType>(given.dtype);
  if (given.cache != CUGRT_BOOL)
    wanted.cache = static_cast<ir::DType>(given.cache);
  wanted.context = given.context;
  wanted.places = std::max<int64_t>(given.places, 1);
  wanted.pack = given.pack ? given.pack : "";
  wanted.group = given.group;
  wanted.exclusive = given.exclusive;
  wanted.priority = given.priority;
  wanted.wait = given.wait;
  wanted.time_steps = given.time_steps;
  wanted.progress = given.progress;
  wanted.progress_user = given.progress_user;
  return wanted;
}

Status session_open(const cugrt_llm_model *model, cugrt_runtime *runtime,
                    const cugrt_llm_session_options *options, cugrt_llm_session **session) {
  CUGRT_TRY(require(model && runtime && session && options, "model, runtime, options or session"));
  CUGRT_ASSIGN(const EngineOptions wanted, engine_options_of(options));
  CUGRT_ASSIGN(std::unique_ptr<Generator> made, Generator::open(model->model, runtime, wanted));
  *session = new cugrt_llm_session{std::move(made)};
  return {};
}

void session_free(cugrt_llm_session *session) { delete session; }
cugrt_session *session_steps(cugrt_llm_session *session) {
  return session ? session->generator->engine().steps() : nullptr;
}

Status session_get_info(cugrt_llm_session *session, cugrt_llm_session_info *info) {
  CUGRT_TRY(require(session, "session"));
  CUGRT_ASSIGN(const EngineInfo known, session->generator->info());
  auto made = detail::sized<cugrt_llm_session_info>();
  made.context = session->generator->engine().context();
  made.cache_bytes = known.cache_bytes;
  made.weight_bytes = known.counters.weight_bytes;
  made.arena_bytes = known.counters.arena_bytes;
  made.decode_nodes = known.decode_nodes;
  made.instances_built = known.counters.regions_built;
  made.fields_patched = known.counters.fields_patched;
  made.places = session->generator->engine().places();
  made.places_empty = session->generator->empty_places();
  made.loop =
      session->generator->engine().loops_on_device() ? CUGRT_LLM_LOOP_DEVICE : CUGRT_LLM_LOOP_HOST;
  made.draft =
      session->generator->engine().rows() > 1 ? CUGRT_LLM_DRAFT_NGRAM : CUGRT_LLM_DRAFT_NONE;
  made.verifications = session->generator->verifications();
  made.accepted = session->generator->accepted();
  made.lora_rank = session->generator->engine().lora_rank();
  return give_struct(made, info, "info");
}

Status adapter_open(const cugrt_llm_model *model, const char *path, cugrt_llm_adapter **adapter) {
  CUGRT_TRY(require(model && path && adapter, "model, path or adapter"));
  CUGRT_ASSIGN(std::shared_ptr<const LoraAdapter> opened, LoraAdapter::open(*model->model, path));
  std::string targets = lora_targets_text(opened->targets());
  *adapter = new cugrt_llm_adapter{std::move(opened), std::move(targets)};
  return {};
}

void adapter_free(cugrt_llm_adapter *adapter) { delete adapter; }

Status adapter_get_info(const cugrt_llm_adapter *adapter, cugrt_llm_adapter_info *info) {
  CUGRT_TRY(require(adapter, "adapter"));
  auto made = detail::sized<cugrt_llm_adapter_info>();
  made.rank = adapter->adapter->rank();
  made.targets = adapter->targets.c_str();
  return give_struct(made, info, "info");
}

Status session_set_adapter(cugrt_llm_session *session, const cugrt_llm_adapter *adapter,
                           double scale) {
  CUGRT_TRY(require(session, "session"));
  return session->generator->set_adapter(adapter ? adapter->adapter : nullptr, scale);
}

Status session_drop_adapter(cugrt_llm_session *session, const cugrt_llm_adapter *adapter) {
  CUGRT_TRY(require(session && adapter, "session or adapter"));
  return session->generator->drop_adapter(*adapter->adapter);
}

Status session_clear(cugrt_llm_session *session) {
  CUGRT_TRY(require(session, "session"));
  return session->generator->clear();
}

/// Reads and copies options, which are not null.
Result<Request> request_of(const cugrt_llm_generate_options *options) {
  CUGRT_ASSIGN(const cugrt_llm_generate_options given, take_struct(options, "options"));
  CUGRT_TRY(
      require((given.prompt || given.prompt_count == 0) && (given.ends || given.end_count == 0),
              "prompt or ends"));
  if (!(given.temperature >= 0) || given.top_k < 0 || !(given.top_p >= 0))
    return Status::error(Code::invalid_argument, "temperature, top_k and top_p are not negative");
  if (!(given.min_p >= 0 && given.min_p <= 1))
    return Status::error(Code::invalid_argument, "min_p is from 0 to 1");
  if (!(given.repetition_penalty >= 0) || !std::isfinite(given.repetition_penalty) ||
      !std::isfinite(given.frequency_penalty))
    return Status::error(Code::invalid_argument,
                         "penalties are finite, and that of repetition is not negative");
  if (given.log_probabilities < 0)
    return Status::error(Code::invalid_argument, "log_probabilities is not negative");
  Request request;
  request.prompt.assign(given.prompt, given.prompt + given.prompt_count);
  request.max_tokens = given.max_tokens;
  request.sampling = {given.temperature,
                      given.top_k,
                      given.top_p,
                      given.min_p,
                      given.repetition_penalty > 0 ? given.repetition_penalty : 1,
                      given.frequency_penalty,
                      given.seed};
  request.ends.assign(given.ends, given.ends + given.end_count);
  if (given.prefix)
    request.prefix = given.prefix->cache;
  request.log_probabilities = static_cast<size_t>(given.log_probabilities);
  if (given.on_token)
    request.on_token = [on_token = given.on_token, user = given.user](int32_t token,
                                                                      std::string_view text) {
      return on_token(user, token, text.data() ? text.data() : "", text.size()) == 0;
    };
  return request;
}

Status generate(cugrt_llm_session *session, const cugrt_llm_generate_options *options,
                cugrt_llm_generate_result *result) {
  CUGRT_TRY(require(session && options && result, "session, options or result"));
  CUGRT_ASSIGN(Request request, request_of(options));
  Outcome outcome;
  CUGRT_TRY(session->generator->generate(std::move(request), outcome));
  auto made = detail::sized<cugrt_llm_generate_result>();
  made.stop = static_cast<int32_t>(outcome.stop);
  made.tokens = outcome.tokens;
  made.prompt_seconds = outcome.prompt_seconds;
  made.seconds = outcome.seconds;
  return give_struct(made, result, "result");
}

Status sequence_add(cugrt_llm_session *session, const cugrt_llm_generate_options *options,
                    uint64_t *sequence) {
  CUGRT_TRY(require(session && options && sequence, "session, options or sequence"));
  CUGRT_ASSIGN(Request request, request_of(options));
  CUGRT_ASSIGN(*sequence, session->generator->add(std::move(request)));
  return {};
}

Status sequence_cancel(cugrt_llm_session *session, uint64_t sequence) {
  CUGRT_TRY(require(session, "session"));
  return session->generator->cancel(sequence);
}

Status session_step(cugrt_llm_session *session, size_t *count) {
  CUGRT_TRY(require(session && count, "session or count"));
  CUGRT_TRY(session->generator->step());
  *count = session->generator->events().size();
  return {};
}

Status session_get_event(const cugrt_llm_session *session, size_t index, cugrt_llm_event *event) {
  CUGRT_TRY(require(session, "session"));
  const std::span<const TokenEvent> events = session->generator->events();
  if (index >= events.size())
    return Status::error(Code::out_of_range, "event " + std::to_string(index) + " is none of the " +
                                                 std::to_string(events.size()) +
                                                 " of the last step");
  const TokenEvent &found = events[index];
  auto made = detail::sized<cugrt_llm_event>();
  made.sequence = found.sequence;
  made.token = found.token;
  made.stop = static_cast<int32_t>(found.stop);
  made.text = found.text.c_str();
  made.size_bytes = found.text.size();
  made.log_probability = found.likely.log_probability;
  made.likely = found.likely.most.data();
  made.likely_count = found.likely.most.size();
  return give_struct(made, event, "event");
}

Status prompt_make(cugrt_llm_session *session, const int32_t *tokens, size_t count,
                   cugrt_llm_prompt **prompt) {
  CUGRT_TRY(require(session && prompt && (tokens || count == 0), "session, tokens or prompt"));
  CUGRT_ASSIGN(PromptCache made,
               session->generator->make_prompt(std::vector<int32_t>(tokens, tokens + count)));
  *prompt = new cugrt_llm_prompt{std::make_shared<const PromptCache>(std::move(made))};
  return {};
}

Status prompt_write(const cugrt_llm_prompt *prompt, const char *path) {
  CUGRT_TRY(require(prompt && path, "prompt or path"));
  return prompt->cache->write(path);
}

Status prompt_read(const char *path, cugrt_llm_prompt **prompt) {
  CUGRT_TRY(require(path && prompt, "path or prompt"));
  CUGRT_ASSIGN(PromptCache read, PromptCache::read(path));
  *prompt = new cugrt_llm_prompt{std::make_shared<const PromptCache>(std::move(read))};
  return {};
}

const int32_t *prompt_tokens(const cugrt_llm_prompt *prompt, size_t *count) {
  if (count)
    *count = prompt ? prompt->cache->tokens.size() : 0;
  return prompt ? prompt->cache->tokens.data() : nullptr;
}

void prompt_free(cugrt_llm_prompt *prompt) { delete prompt; }

Status model_plan(const cugrt_llm_model *model, const cugrt_llm_session_options *options,
                  cugrt_llm_memory *memory, cugrt_module **module) {
  CUGRT_TRY(require(model && options && memory, "model, options or memory"));
  CUGRT_ASSIGN(EngineOptions wanted, engine_options_of(options));
  CUGRT_ASSIGN(const Decoder decoder, read_decoder(model->model->file));
  if (wanted.context == 0)
    wanted.context = decoder.trained_context;
  if (wanted.context > kMaxContext)
    return Status::error(Code::out_of_range,
                         "a context has at most " + std::to_string(kMaxContext) + " positions");
  CUGRT_ASSIGN(const EngineMemory known, memory_of(*model->model, decoder, wanted));
  auto made = detail::sized<cugrt_llm_memory>();
  made.context = wanted.context;
  made.weight_bytes = known.weight_bytes;
  made.table_bytes = known.table_bytes;
  made.cache_bytes = known.cache_bytes;
  made.adapter_bytes = known.adapter_bytes;
  CUGRT_TRY(give_struct(made, memory, "memory"));
  if (!module)
    return {};
  CUGRT_ASSIGN(DecoderModule built, module_of(*model->model, decoder, wanted));
  return adopt_module(built, model->model->file.name(), module);
}

size_t token_bytes(const cugrt_llm_model *model, int32_t token, char *bytes, size_t room) {
  if (!model || token < 0 || static_cast<size_t>(token) >= model->model->tokenizer->size())
    return 0;
  try {
    const std::string found = model->model->tokenizer->bytes_of(token);
    if (bytes)
      std::copy_n(found.data(), std::min(found.size(), room), bytes);
    return found.size();
  } catch (const std::bad_alloc &) {
    return 0;
  }
}

constexpr cugrt_llm_api kTable = {
    .struct_size = sizeof(cugrt_llm_api),
    .version = CUGRT_LLM_API_VERSION,
    .model_open = entry<model_open>,
    .model_free = model_free,
    .model_get_info = entry<model_get_info>,
    .tokenize = entry<tokenize>,
    .tokenize_chat = entry<tokenize_chat>,
    .tokens_data = tokens_data,
    .tokens_count = tokens_count,
    .tokens_free = tokens_free,
    .session_open = entry<session_open>,
    .session_free = session_free,
    .session_get_info = entry<session_get_info>,
    .session_clear = entry<session_clear>,
    .generate = entry<generate>,
    .sequence_add = entry<sequence_add>,
    .sequence_cancel = entry<sequence_cancel>,
    .session_step = entry<session_step>,
    .session_get_event = entry<session_get_event>,
    .prompt_make = entry<prompt_make>,
    .prompt_write = entry<prompt_write>,
    .prompt_read = entry<prompt_read>,
    .prompt_tokens = prompt_tokens,
    .prompt_free = prompt_free,
    .model_plan = entry<model_plan>,
    .token_bytes = token_bytes,
    .tokenize_conversation = entry<tokenize_conversation>,
    .tokens_text = tokens_text,
    .session_steps = session_steps,
    .adapter_open = entry<adapter_open>,
    .adapter_free = adapter_free,
    .adapter_get_info = entry<adapter_get_info>,
    .session_set_adapter = entry<session_set_adapter>,
    .session_drop_adapter = entry<session_drop_adapter>,
};

} // namespace

} // namespace cugrt::llm

extern "C" const cugrt_llm_api *cugrt_llm_get_api(uint32_t version) {
  const bool has_cugrt = cugrt_get_api(CUGRT_API_VERSION) != nullptr;
  return has_cugrt && version >= 1 && version <= CUGRT_LLM_API_VERSION ? &cugrt::llm::kTable
                                                                       : nullptr;
}
