/* cugrt: language models, from a GGUF file to text. C ABI.
 *
 * libcugrt-llm exports one function, cugrt_llm_get_api, which returns a table of functions. What
 * cugrt.h says of errors, ownership, strings and growth holds here too: statuses are freed by the
 * status_free of libcugrt.so, which this library uses and which makes runtimes.
 *
 * Threads. Models and tokens may be used by several threads at once, a session by one at a time.
 *
 * A session has places, each of which holds one sequence of tokens. `generate` goes on with one
 * sequence until it ends. A batch is stepped by the caller: sequence_add takes an empty place,
 * session_step goes on with all of them at once, and sequences come and go between steps.
 */
#ifndef CUGRT_LLM_H
#define CUGRT_LLM_H

#include <cugrt/cugrt.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUGRT_LLM_API_VERSION 1u

/* Why a generation ended. */
typedef enum cugrt_llm_stop {
  CUGRT_LLM_STOP_END = 0,     /* the model gave a token that ends a text */
  CUGRT_LLM_STOP_LENGTH = 1,  /* max_tokens were given */
  CUGRT_LLM_STOP_CONTEXT = 2, /* the caches are full */
  CUGRT_LLM_STOP_CALLER = 3,  /* on_token asked for the end */
  CUGRT_LLM_STOP_NOT = -1     /* an event: the sequence goes on */
} cugrt_llm_stop;

/* Whether the host or a loop on the device starts each token's step. Both give the same text. */
typedef enum cugrt_llm_loop {
  CUGRT_LLM_LOOP_HOST = 0,  /* the host, with one launch a token */
  CUGRT_LLM_LOOP_DEVICE = 1 /* a loop within the graph; the host reads its tokens while it runs */
} cugrt_llm_loop;

/* Source of a step's drafts, with which one reading of the weights can give several tokens. The
 * text is the same; docs/language_models.md says when it helps. */
typedef enum cugrt_llm_draft {
  CUGRT_LLM_DRAFT_NONE = 0,
  CUGRT_LLM_DRAFT_NGRAM = 1 /* the tokens that followed an earlier place of the text's last
                             * tokens, in prompt and answer */
} cugrt_llm_draft;

typedef struct cugrt_llm_model cugrt_llm_model;     /* a file, mapped, and its tokenizer */
typedef struct cugrt_llm_tokens cugrt_llm_tokens;   /* a list of tokens */
typedef struct cugrt_llm_session cugrt_llm_session; /* weights, caches and graphs on a device */
typedef struct cugrt_llm_prompt cugrt_llm_prompt;   /* tokens and their caches, in host memory */
typedef struct cugrt_llm_adapter
    cugrt_llm_adapter; /* an adapter (LoRA) of a model: a file, mapped */

typedef struct cugrt_llm_model_info {
  size_t struct_size;
  const char *architecture; /* as in the file; lives as long as the model */
  int64_t layers;
  int64_t vocabulary;
  int64_t trained_context; /* positions that the model was trained for */
} cugrt_llm_model_info;

typedef struct cugrt_llm_message {
  const char *role; /* "system", "user" or "assistant" */
  const char *text;
} cugrt_llm_message;

/* A conversation with everything that a chat template may read, each part JSON of so many bytes. */
typedef struct cugrt_llm_conversation {
  size_t struct_size;
  const char *messages; /* a list of objects: role, content (a text, or a list of parts), and
                         * other keys that the template knows, as tool_calls, tool_call_id, name */
  size_t messages_bytes;
  const char *tools; /* a list of objects, or NULL */
  size_t tools_bytes;
  const char *documents; /* likewise */
  size_t documents_bytes;
  const char *variables; /* an object of further variables of the template, or NULL */
  size_t variables_bytes;
  int32_t add_generation_prompt; /* not 0: ends where the answer begins */
} cugrt_llm_conversation;

typedef struct cugrt_llm_session_options {
  size_t struct_size;
  int32_t dtype;   /* CUGRT_F32, CUGRT_F16 or CUGRT_BF16: of the computation */
  int64_t context; /* positions that the caches hold; 0: as many as the model was trained for, or
                    * as the device's memory leaves */
  cugrt_progress_callback progress; /* as for compiling */
  void *progress_user;
  int64_t places; /* sequences at once, each with a context of its own: 1 to 1024; 0: 1 */
  int32_t loop;   /* cugrt_llm_loop; CUGRT_UNSUPPORTED: the driver, below 12.3, has no loops */
  /* A file that pack_write made of model_plan's module, or NULL. It needs no compiler, and
   * decides dtypes, context, places, loop, draft and room for adapters. Weights and
   * tokenizer come from the model; CUGRT_INVALID_ARGUMENT says that the pack belongs to
   * another model. */
  const char *pack;
  /* Dtype of keys and values in the caches: CUGRT_F32, CUGRT_F16, CUGRT_BF16, or CUGRT_Q8_0 in
   * blocks of 32 along a head (CUGRT_UNSUPPORTED if 32 does not divide the head); 0: as dtype.
   */
  int32_t cache;
  /* As in cugrt_session_options. The group's budget counts caches and state, too. Other models
   * with the same word wait for one step, or, where the device loops, for the whole text. */
  cugrt_group *group;
  const char *exclusive;
  int32_t priority;
  int32_t wait;  /* cugrt_wait */
  int32_t draft; /* cugrt_llm_draft */
  /* The largest rank that an adapter may have, up to 512; 0: the session takes no adapters. */
  int64_t lora_rank;
  /* The modules that an adapter may add to, in PEFT's names, with commas between: q_proj,
   * k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, embed_tokens, lm_head. NULL or "":
   * the first seven. Each costs time in every step with an adapter, even with one that lacks it. */
  const char *lora_targets;
  int32_t time_steps; /* as in cugrt_session_options, for session_steps */
} cugrt_llm_session_options;

/* Memory that a session of a model would take; the plan of its module gives the arena. */
typedef struct cugrt_llm_memory {
  size_t struct_size;
  int64_t context;        /* as the options ask, or as the model was trained for */
  uint64_t weight_bytes;  /* as in the file */
  uint64_t table_bytes;   /* tables of positions, and the texts that drafts come from */
  uint64_t cache_bytes;   /* all places */
  uint64_t adapter_bytes; /* one adapter on the device */
} cugrt_llm_memory;

typedef struct cugrt_llm_session_info {
  size_t struct_size;
  int64_t context;
  uint64_t cache_bytes;
  uint64_t weight_bytes;
  uint64_t arena_bytes;
  uint64_t decode_nodes; /* of the largest instance of a decode step; 0 before the first */
  uint64_t instances_built, fields_patched; /* since the session was opened */
  int64_t places, places_empty;
  int32_t loop;  /* cugrt_llm_loop */
  int32_t draft; /* cugrt_llm_draft */
  /* Over all sequences since the session was opened: steps that gave them tokens, and accepted
   * drafts, which are the tokens beyond one a step. */
  uint64_t verifications, accepted;
  int64_t lora_rank; /* largest rank of adapters; 0: the session takes none */
} cugrt_llm_session_info;

typedef struct cugrt_llm_adapter_info {
  size_t struct_size;
  int64_t rank;        /* largest of its modules: the least lora_rank of a session that takes it */
  const char *targets; /* its modules, in the form of lora_targets; lives as long as the adapter */
} cugrt_llm_adapter_info;

typedef struct cugrt_llm_generate_options {
  size_t struct_size;
  /* `generate` adds the prompt to the tokens that the session holds; a sequence begins with it. */
  const int32_t *prompt;
  size_t prompt_count; /* at least 1 */
  uint64_t max_tokens; /* 0: until an end, or until the caches are full */
  double temperature;  /* 0: the most likely token, whatever the fields below */
  int64_t top_k;       /* draws from this many most likely tokens only; 0: from all */
  double top_p;        /* and of these from the fewest with this much of the probability; 0: all */
  uint64_t seed;
  const int32_t *ends; /* tokens that end the text besides those that the file names */
  size_t end_count;
  /* Gets every token when it is made, an end too, and the whole characters that it adds to the
   * text, "" for an end. Not 0 ends the generation. */
  int32_t (*on_token)(void *user, int32_t token, const char *text, size_t size_bytes);
  void *user;
  double min_p; /* draws only from tokens with this share of the most likely one's probability;
                 * at most 1; 0: from all */
  /* Divides positive logits of tokens that the sequence holds, and multiplies others; 0 or 1:
   * none. The second is subtracted from a logit as often as the token was given; 0: none. Both
   * apply even if the most likely token is taken. */
  double repetition_penalty, frequency_penalty;
  /* A prompt, made before, that the sequence begins with; its caches are not computed again.
   * NULL: none. `generate` takes it only if the session holds nothing. May be freed at any time. */
  const cugrt_llm_prompt *prefix;
  /* For a sequence of a batch: its events have the log-probabilities of the token and of the
   * log_probabilities - 1 most likely tokens. 0: none. Copies each token's logits to the host.
   * CUGRT_UNSUPPORTED for a loop on the device.
   */
  int64_t log_probabilities;
} cugrt_llm_generate_options;

typedef struct cugrt_llm_generate_result {
  size_t struct_size;
  int32_t stop; /* cugrt_llm_stop */
  uint64_t tokens;
  double prompt_seconds; /* up to the first token */
  double seconds;        /* for the further tokens */
} cugrt_llm_generate_result;

/* A token that the model might have given. */
typedef struct cugrt_llm_likely {
  int32_t token;
  float log_probability;
} cugrt_llm_likely;

/* A token of a sequence. */
typedef struct cugrt_llm_event {
  size_t struct_size;
  uint64_t sequence;
  int32_t token;
  int32_t
      stop; /* cugrt_llm_stop: why the sequence ended, on its last token; its place is then empty */
  const char *text; /* text that the token adds, as for on_token; lives until the next step */
  size_t size_bytes;
  /* From the model's logits alone, before penalties, temperature and choice; natural logarithms.
   * Set only if the options ask for it. */
  double log_probability;
  const cugrt_llm_likely *likely; /* the most likely first; lives as long as the text */
  size_t likely_count;
} cugrt_llm_event;

typedef struct cugrt_llm_api {
  size_t struct_size;
  uint32_t version;

  /* The first file of a model in several files opens all of them. */
  cugrt_status *(*model_open)(const char *path, cugrt_llm_model **model);
  void (*model_free)(cugrt_llm_model *model);
  cugrt_status *(*model_get_info)(const cugrt_llm_model *model, cugrt_llm_model_info *info);

  /* Tokens of a UTF-8 text, beginning with the token that begins every text if the file asks for
   * it. Reads names of control tokens as text. */
  cugrt_status *(*tokenize)(const cugrt_llm_model *model, const char *text, size_t size_bytes,
                            cugrt_llm_tokens **tokens);
  /* Renders a conversation by the file's chat template, up to where the answer begins. `end`
   * (may be NULL) gets the token that ends an answer: the first special one that the template
   * writes after an answer, else the file's end of text, else -1. The template runs with limits;
   * breaking one, or using unknown syntax, is an error with its line. Control tokens' names in
   * messages stay text. */
  cugrt_status *(*tokenize_chat)(const cugrt_llm_model *model, const cugrt_llm_message *messages,
                                 size_t count, cugrt_llm_tokens **tokens, int32_t *end);
  const int32_t *(*tokens_data)(const cugrt_llm_tokens *tokens);
  size_t (*tokens_count)(const cugrt_llm_tokens *tokens);
  void (*tokens_free)(cugrt_llm_tokens *tokens);

  /* Compiles, loads weights and makes the caches. The model may be freed before the session, the
   * runtime may not. */
  cugrt_status *(*session_open)(const cugrt_llm_model *model, cugrt_runtime *runtime,
                                const cugrt_llm_session_options *options,
                                cugrt_llm_session **session);
  void (*session_free)(cugrt_llm_session *session);
  cugrt_status *(*session_get_info)(cugrt_llm_session *session, cugrt_llm_session_info *info);
  /* Forgets all tokens, and ends all sequences. */
  cugrt_status *(*session_clear)(cugrt_llm_session *session);
  /* After a failure, call session_clear. */
  cugrt_status *(*generate)(cugrt_llm_session *session, const cugrt_llm_generate_options *options,
                            cugrt_llm_generate_result *result);

  /* Batches. `generate` fails while sequences run. A sequence may take the place of the tokens
   * that `generate` holds, which the session then forgets. */

  /* Begins a sequence: takes an empty place, and computes nothing yet. Copies the options, which
   * mean the same as for `generate`. CUGRT_BUSY if no place is empty. Sequence numbers begin
   * with 1 and are given once. */
  cugrt_status *(*sequence_add)(cugrt_llm_session *session,
                                const cugrt_llm_generate_options *options, uint64_t *sequence);
  /* Ends a sequence and empties its place. CUGRT_NOT_FOUND if the sequence has ended. */
  cugrt_status *(*sequence_cancel)(cugrt_llm_session *session, uint64_t sequence);
  /* Takes in the next part (at most 128 tokens) of the oldest prompt that is not in yet, and gives
   * a token to every sequence whose prompt is in; with drafts, up to 8. Each token is an event and
   * goes to the sequence's on_token. `count` events stay until the next step; there are 0 if only a
   * part was taken in or nothing runs. A loop on the device may be up to 63 tokens ahead of the
   * caller: these come first, one a call, before those of a sequence that has joined. After a
   * failure, call session_clear.
   */
  cugrt_status *(*session_step)(cugrt_llm_session *session, size_t *count);
  cugrt_status *(*session_get_event)(const cugrt_llm_session *session, size_t index,
                                     cugrt_llm_event *event);

  /* Prompts that many sequences begin with. Making one takes an empty place meanwhile,
   * CUGRT_BUSY if there is none. A prompt fits all sessions of its model and caches' dtype whose
   * context is long enough. */
  cugrt_status *(*prompt_make)(cugrt_llm_session *session, const int32_t *tokens, size_t count,
                               cugrt_llm_prompt **prompt);
  /* Leaves the old file at `path` if the new one cannot be written whole. */
  cugrt_status *(*prompt_write)(const cugrt_llm_prompt *prompt, const char *path);
  cugrt_status *(*prompt_read)(const char *path, cugrt_llm_prompt **prompt);
  const int32_t *(*prompt_tokens)(const cugrt_llm_prompt *prompt, size_t *count);
  void (*prompt_free)(cugrt_llm_prompt *prompt);

  /* Without a device, and without reading a weight: the memory that a session with these options
   * would take, and the module that it would compile (`module` may be NULL). */
  cugrt_status *(*model_plan)(const cugrt_llm_model *model,
                              const cugrt_llm_session_options *options, cugrt_llm_memory *memory,
                              cugrt_module **module);

  /* Returns the size in bytes of a token's text and writes at most `room` of them to `bytes`.
   * They are not always whole characters; 0 for a number that is no token. */
  size_t (*token_bytes)(const cugrt_llm_model *model, int32_t token, char *bytes, size_t room);

  /* tokenize_chat for a conversation with tools, documents and other keys that the template
   * knows. With tools, it prefers the file's template tokenizer.chat_template.tool_use. */
  cugrt_status *(*tokenize_conversation)(const cugrt_llm_model *model,
                                         const cugrt_llm_conversation *conversation,
                                         cugrt_llm_tokens **tokens, int32_t *end);
  /* The text of a conversation's tokens, as the template wrote it: UTF-8, which lives as long as
   * the tokens. NULL for other tokens. */
  const char *(*tokens_text)(const cugrt_llm_tokens *tokens, size_t *size_bytes);

  /* The session that runs the steps; it lives as long as this one. Use it for the memory,
   * weights and times that cugrt.h reports of a session. Only the language model runs it. */
  cugrt_session *(*session_steps)(cugrt_llm_session *session);

  /* Adapters (LoRA) in PEFT's format: a folder, or its file adapter_model.safetensors, beside
   * adapter_config.json. CUGRT_UNSUPPORTED names a key or tensor that changes numbers in an
   * unsupported way; CUGRT_INVALID_ARGUMENT one that does not fit the model. The model may be
   * freed before the adapter. */
  cugrt_status *(*adapter_open)(const cugrt_llm_model *model, const char *path,
                                cugrt_llm_adapter **adapter);
  void (*adapter_free)(cugrt_llm_adapter *adapter);
  cugrt_status *(*adapter_get_info)(const cugrt_llm_adapter *adapter, cugrt_llm_adapter_info *info);
  /* Computes all later tokens with the adapter, whose products are multiplied by `scale`; NULL
   * or a scale of 0 means the plain model, at no cost. The first call copies the adapter to the
   * device, where it stays until it is dropped or the session freed, whatever becomes of
   * `adapter`; later switches build no graph. Forgets the tokens that `generate` left. Prompts
   * belong to the adapter and scale that they were made with. CUGRT_BUSY while sequences run. A
   * failure changes nothing. */
  cugrt_status *(*session_set_adapter)(cugrt_llm_session *session, const cugrt_llm_adapter *adapter,
                                       double scale);
  /* Frees the adapter's memory on the session's device. CUGRT_BUSY if it is the one in use. */
  cugrt_status *(*session_drop_adapter)(cugrt_llm_session *session,
                                        const cugrt_llm_adapter *adapter);
} cugrt_llm_api;

/* The table for clients of `version` (CUGRT_LLM_API_VERSION), or NULL when this library is older.
 */
CUGRT_EXPORT const cugrt_llm_api *cugrt_llm_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
