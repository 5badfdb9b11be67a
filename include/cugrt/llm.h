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
  CUGRT_LLM_STOP_CALLER = 3,  /* on_token asked for it */
  CUGRT_LLM_STOP_NOT = -1     /* of an event: it goes on */
} cugrt_llm_stop;

/* Who goes from one token to the next. Both give the same text. */
typedef enum cugrt_llm_loop {
  CUGRT_LLM_LOOP_HOST = 0,  /* the host, by one launch a token */
  CUGRT_LLM_LOOP_DEVICE = 1 /* a loop within the graph, whose tokens are read while it runs */
} cugrt_llm_loop;

/* What a step takes in beside a sequence's token, to be given several tokens by reading the weights
 * once. The text is the same; see docs/language_models.md for when it helps. */
typedef enum cugrt_llm_draft {
  CUGRT_LLM_DRAFT_NONE = 0,
  CUGRT_LLM_DRAFT_NGRAM = 1 /* what followed where the text's last tokens stood before, in prompt
                             * and answer */
} cugrt_llm_draft;

typedef struct cugrt_llm_model cugrt_llm_model;     /* a file, mapped, and its tokenizer */
typedef struct cugrt_llm_tokens cugrt_llm_tokens;   /* a list of tokens */
typedef struct cugrt_llm_session cugrt_llm_session; /* weights, caches and graphs on a device */
typedef struct cugrt_llm_prompt cugrt_llm_prompt;   /* tokens and their caches, in host memory */
typedef struct cugrt_llm_adapter
    cugrt_llm_adapter; /* an adapter (LoRA) of a model: a file, mapped */

typedef struct cugrt_llm_model_info {
  size_t struct_size;
  const char *architecture; /* as the file has it; lives as long as the model */
  int64_t layers;
  int64_t vocabulary;
  int64_t trained_context; /* positions that the model was trained for */
} cugrt_llm_model_info;

typedef struct cugrt_llm_message {
  const char *role; /* "system", "user" or "assistant" */
  const char *text;
} cugrt_llm_message;

/* A conversation with all that a chat template may look at, each part JSON of so many bytes. */
typedef struct cugrt_llm_conversation {
  size_t struct_size;
  const char *messages; /* a list of objects: role, content (a text, or a list of parts), and what
                         * else the template knows, as tool_calls, tool_call_id, name */
  size_t messages_bytes;
  const char *tools; /* a list of objects, or NULL */
  size_t tools_bytes;
  const char *documents; /* likewise */
  size_t documents_bytes;
  const char *variables; /* an object of further variables of the template, or NULL */
  size_t variables_bytes;
  int32_t add_generation_prompt; /* not 0: up to where the answer begins */
} cugrt_llm_conversation;

typedef struct cugrt_llm_session_options {
  size_t struct_size;
  int32_t dtype;   /* CUGRT_F32, CUGRT_F16 or CUGRT_BF16: of what is computed */
  int64_t context; /* positions that the caches hold; 0: what the model was trained for, or as many
                    * as the device's memory leaves */
  cugrt_progress_callback progress; /* as for compiling */
  void *progress_user;
  int64_t places; /* sequences at once, each with a context of its own: 1 to 1024; 0: 1 */
  int32_t loop;   /* cugrt_llm_loop; CUGRT_UNSUPPORTED where the driver, below 12.3, has none */
  /* A file that pack_write made of model_plan's module, or NULL. No compiler is needed then;
   * dtypes, context, places, loop, draft and room for adapters are those that it was planned with.
   * Weights and tokenizer are the model's, of which CUGRT_INVALID_ARGUMENT says that the pack is
   * another one's. */
  const char *pack;
  /* Of keys and values in the caches: CUGRT_F32, CUGRT_F16, CUGRT_BF16, or CUGRT_Q8_0, of blocks of
   * 32 elements along a head (CUGRT_UNSUPPORTED where a head is no multiple of them); 0: as dtype.
   */
  int32_t cache;
  /* As of cugrt_session_options. Caches and state count in the group's budget, too. Of one word
   * with other models, these wait for a step; for the whole text, where the device loops. */
  cugrt_group *group;
  const char *exclusive;
  int32_t priority;
  int32_t wait;  /* cugrt_wait */
  int32_t draft; /* cugrt_llm_draft */
  /* Adapters: the largest rank that one may have, up to 512; 0: the session takes none. */
  int64_t lora_rank;
  /* The modules that one may add to, as PEFT names them, with commas between: of q_proj, k_proj,
   * v_proj, o_proj, gate_proj, up_proj, down_proj, embed_tokens and lm_head. NULL or "": the first
   * seven. Each costs time in every step with an adapter, also where that one has it not. */
  const char *lora_targets;
  int32_t time_steps; /* as of cugrt_session_options, for session_steps */
} cugrt_llm_session_options;

/* What a session of a model would take; the arena is told by the plan of its module. */
typedef struct cugrt_llm_memory {
  size_t struct_size;
  int64_t context;        /* as asked for, or what the model was trained for */
  uint64_t weight_bytes;  /* as they stand in the file */
  uint64_t table_bytes;   /* of positions, and the texts that are drafted from */
  uint64_t cache_bytes;   /* of all places */
  uint64_t adapter_bytes; /* of each adapter on the device */
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
  /* Of all sequences since the session was opened: steps that gave them tokens, and the tokens
   * beyond one a step, which were drafted. */
  uint64_t verifications, accepted;
  int64_t lora_rank; /* that adapters may have; 0: there are none */
} cugrt_llm_session_info;

typedef struct cugrt_llm_adapter_info {
  size_t struct_size;
  int64_t rank;        /* the largest of its modules: the least lora_rank of a session for it */
  const char *targets; /* its modules, as the option lora_targets has them; lives as long as it */
} cugrt_llm_adapter_info;

typedef struct cugrt_llm_generate_options {
  size_t struct_size;
  /* Of `generate` taken in behind what the session already holds; a sequence begins with it. */
  const int32_t *prompt;
  size_t prompt_count; /* at least 1 */
  uint64_t max_tokens; /* 0: until an end, or until the caches are full */
  double temperature;  /* 0: the most likely token, whatever the fields below */
  int64_t top_k;       /* draws from the most likely ones only; 0: from all */
  double top_p;        /* and of these from the fewest that have this much together; 0: all */
  uint64_t seed;
  const int32_t *ends; /* tokens that end the text besides those that the file names */
  size_t end_count;
  /* Every token as it comes, an end too, with what it adds to the text: whole characters, "" of an
   * end. Not 0 ends the generation. */
  int32_t (*on_token)(void *user, int32_t token, const char *text, size_t size_bytes);
  void *user;
  double min_p; /* draws from those only that have this much of the most likely one's probability;
                 * at most 1; 0: from all */
  /* Of tokens that the sequence holds, the logits above 0 are divided by it and others multiplied;
   * 0 or 1: none. Taken from a logit as often as the token was given: 0: none. Both also where the
   * most likely token is taken. */
  double repetition_penalty, frequency_penalty;
  /* What the sequence begins with, before the prompt, without computing it again; or NULL. Of
   * `generate` where the session holds nothing. May be freed at any time. */
  const cugrt_llm_prompt *prefix;
  /* Of a sequence of a batch: events have log-probabilities, of the token and of the
   * log_probabilities - 1 most likely tokens. 0: none. Each token's logits are copied to the host.
   * CUGRT_UNSUPPORTED of a loop on the device.
   */
  int64_t log_probabilities;
} cugrt_llm_generate_options;

typedef struct cugrt_llm_generate_result {
  size_t struct_size;
  int32_t stop; /* cugrt_llm_stop */
  uint64_t tokens;
  double prompt_seconds; /* up to the first token */
  double seconds;        /* of the further ones */
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
      stop; /* cugrt_llm_stop: of the last token of a sequence why it ended; its place is empty */
  const char *text; /* what the token adds, as for on_token; lives until the session's next step */
  size_t size_bytes;
  /* By the model's logits alone, before penalties, temperature and choice; natural logarithms. Only
   * where the options ask for it. */
  double log_probability;
  const cugrt_llm_likely *likely; /* the most likely first; lives as long as the text */
  size_t likely_count;
} cugrt_llm_event;

typedef struct cugrt_llm_api {
  size_t struct_size;
  uint32_t version;

  /* The first part of a model in parts opens all of them. */
  cugrt_status *(*model_open)(const char *path, cugrt_llm_model **model);
  void (*model_free)(cugrt_llm_model *model);
  cugrt_status *(*model_get_info)(const cugrt_llm_model *model, cugrt_llm_model_info *info);

  /* Tokens of UTF-8, with the one that begins every text where the file asks for it; the names of
   * control tokens are text. */
  cugrt_status *(*tokenize)(const cugrt_llm_model *model, const char *text, size_t size_bytes,
                            cugrt_llm_tokens **tokens);
  /* A conversation as the file's chat template has it, up to where the answer begins, and the token
   * that ends an answer (`end` may be NULL): the first special one that the template writes behind
   * an answer, or the file's end of text; -1 when there is neither. The template is run, in limits;
   * what it does not allow, or has of a language that is not known, is an error with its line.
   * Names of control tokens in messages stay text. */
  cugrt_status *(*tokenize_chat)(const cugrt_llm_model *model, const cugrt_llm_message *messages,
                                 size_t count, cugrt_llm_tokens **tokens, int32_t *end);
  const int32_t *(*tokens_data)(const cugrt_llm_tokens *tokens);
  size_t (*tokens_count)(const cugrt_llm_tokens *tokens);
  void (*tokens_free)(cugrt_llm_tokens *tokens);

  /* Compiles, loads weights and makes the caches. The model may be freed before the session, the
   * runtime not. */
  cugrt_status *(*session_open)(const cugrt_llm_model *model, cugrt_runtime *runtime,
                                const cugrt_llm_session_options *options,
                                cugrt_llm_session **session);
  void (*session_free)(cugrt_llm_session *session);
  cugrt_status *(*session_get_info)(cugrt_llm_session *session, cugrt_llm_session_info *info);
  /* Forgets all tokens, and ends all sequences. */
  cugrt_status *(*session_clear)(cugrt_llm_session *session);
  /* After a failure the session is to be cleared. */
  cugrt_status *(*generate)(cugrt_llm_session *session, const cugrt_llm_generate_options *options,
                            cugrt_llm_generate_result *result);

  /* Batches. `generate` is refused while sequences run; a sequence may take the place of what
   * `generate` holds, which is forgotten then. */

  /* Begins a sequence: takes an empty place, and nothing is computed yet. Everything in the options
   * is as for `generate`, and copied. CUGRT_BUSY when no place is empty. Numbers begin with 1 and
   * are given once. */
  cugrt_status *(*sequence_add)(cugrt_llm_session *session,
                                const cugrt_llm_generate_options *options, uint64_t *sequence);
  /* Ends a sequence, whose place is empty then. CUGRT_NOT_FOUND of one that has ended. */
  cugrt_status *(*sequence_cancel)(cugrt_llm_session *session, uint64_t sequence);
  /* Takes in the next part (at most 128 tokens) of the oldest prompt that is not in yet, and gives
   * a token of every sequence whose prompt is in, with drafts up to 8. Each token is an event, and
   * given to the sequence's on_token; `count` events, 0 where only a part was taken in or nothing
   * runs, stay until the next step. A loop on the device may be up to 63 tokens ahead of the
   * caller: these come first, one a call, before those of a sequence that has joined. After a
   * failure the session is to be cleared.
   */
  cugrt_status *(*session_step)(cugrt_llm_session *session, size_t *count);
  cugrt_status *(*session_get_event)(const cugrt_llm_session *session, size_t index,
                                     cugrt_llm_event *event);

  /* Prompts that many sequences begin with. Takes an empty place meanwhile, CUGRT_BUSY when there
   * is none. A prompt fits all sessions of its model and caches' dtype whose context is long
   * enough. */
  cugrt_status *(*prompt_make)(cugrt_llm_session *session, const int32_t *tokens, size_t count,
                               cugrt_llm_prompt **prompt);
  /* What was at `path` stays there when the file cannot be written whole. */
  cugrt_status *(*prompt_write)(const cugrt_llm_prompt *prompt, const char *path);
  cugrt_status *(*prompt_read)(const char *path, cugrt_llm_prompt **prompt);
  const int32_t *(*prompt_tokens)(const cugrt_llm_prompt *prompt, size_t *count);
  void (*prompt_free)(cugrt_llm_prompt *prompt);

  /* Without a device, and without reading a weight: what a session with these options would take,
   * and the module that it would compile (`module` may be NULL). */
  cugrt_status *(*model_plan)(const cugrt_llm_model *model,
                              const cugrt_llm_session_options *options, cugrt_llm_memory *memory,
                              cugrt_module **module);

  /* What a token stands for: its size in bytes, of which as many as `room` go to `bytes`. Not
   * always whole characters; 0 of a token that is none. */
  size_t (*token_bytes)(const cugrt_llm_model *model, int32_t token, char *bytes, size_t room);

  /* tokenize_chat of a conversation with tools, documents and whatever the template knows. With
   * tools, a file's template tokenizer.chat_template.tool_use comes first. */
  cugrt_status *(*tokenize_conversation)(const cugrt_llm_model *model,
                                         const cugrt_llm_conversation *conversation,
                                         cugrt_llm_tokens **tokens, int32_t *end);
  /* The text of a conversation's tokens, as the template wrote it: UTF-8, which lives as long as
   * the tokens. NULL of others. */
  const char *(*tokens_text)(const cugrt_llm_tokens *tokens, size_t *size_bytes);

  /* The session that the steps run in, which lives as long: for what cugrt.h tells of sessions'
   * memory, weights and times. Its runs are the language model's alone. */
  cugrt_session *(*session_steps)(cugrt_llm_session *session);

  /* Adapters (LoRA), as PEFT writes them: a folder, or the file adapter_model.safetensors in it,
   * beside adapter_config.json. CUGRT_UNSUPPORTED names a key or a tensor that changes numbers in a
   * way that is not followed; CUGRT_INVALID_ARGUMENT one that does not fit the model. The model may
   * be freed before it. */
  cugrt_status *(*adapter_open)(const cugrt_llm_model *model, const char *path,
                                cugrt_llm_adapter **adapter);
  void (*adapter_free)(cugrt_llm_adapter *adapter);
  cugrt_status *(*adapter_get_info)(const cugrt_llm_adapter *adapter, cugrt_llm_adapter_info *info);
  /* What all tokens from here on are computed with: the adapter, its products times `scale`; of
   * NULL or a scale of 0 the model as it is, which costs nothing. The first time it is copied to
   * the device, where it stays, whatever becomes of `adapter`, until it is dropped or the session
   * freed; after that no switch builds a graph. What `generate` left is forgotten, and prompts are
   * of the adapter and scale that they were made with. CUGRT_BUSY while sequences run. A failure
   * leaves what was set. */
  cugrt_status *(*session_set_adapter)(cugrt_llm_session *session, const cugrt_llm_adapter *adapter,
                                       double scale);
  /* Frees what the session's device has of it. CUGRT_BUSY of the one that is set. */
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
