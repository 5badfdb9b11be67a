// The C ABI of language models: versions, wrong arguments, older structs, and statuses.
#include "support/catch.h"
#include "support/gguf_bytes.h"
#include "support/temporary_folder.h"

#include <cugrt/llm.h>

#include <cstring>
#include <fstream>

using namespace cugrt::test;

namespace {

const cugrt_llm_api &llm() { return *cugrt_llm_get_api(CUGRT_LLM_API_VERSION); }

std::string message_of(cugrt_status *status) {
  const cugrt_api &api = *cugrt_get_api(CUGRT_API_VERSION);
  std::string message = status ? api.status_message(status) : "no error";
  api.status_free(status);
  return message;
}

std::string write_model(const std::string &folder) {
  GgufBytes made;
  made.text("general.architecture", "llama").text("tokenizer.ggml.model", "gpt2");
  made.text("tokenizer.ggml.pre", "gpt-2").texts("tokenizer.ggml.tokens", {"a", "b", "ab"});
  made.texts("tokenizer.ggml.merges", {"a b"});
  made.u32("llama.block_count", 1).u32("llama.context_length", 64).u32("llama.embedding_length", 8);
  made.u32("llama.feed_forward_length", 8).u32("llama.attention.head_count", 1);
  made.key("llama.attention.layer_norm_rms_epsilon", 6, little_endian(1e-5f));
  const std::string path = folder + "/m.gguf";
  std::ofstream(path, std::ios::binary) << made.file();
  return path;
}

} // namespace

TEST_CASE("the table is given for versions that this library has") {
  CHECK(cugrt_llm_get_api(0) == nullptr);
  CHECK(cugrt_llm_get_api(CUGRT_LLM_API_VERSION + 1) == nullptr);
  CHECK(llm().struct_size == sizeof(cugrt_llm_api));
}

TEST_CASE("a model tells of itself, and its tokens outlive it") {
  TemporaryFolder folder;
  const std::string path = write_model(folder.path);
  cugrt_llm_model *model = nullptr;
  REQUIRE(llm().model_open(path.c_str(), &model) == nullptr);
  cugrt_llm_model_info info = CUGRT_INIT(cugrt_llm_model_info);
  REQUIRE(llm().model_get_info(model, &info) == nullptr);
  CHECK(std::string(info.architecture) == "llama");
  CHECK(info.layers == 1);
  CHECK(info.vocabulary == 3);
  CHECK(info.trained_context == 64);

  // An older caller's struct ends before the last field.
  cugrt_llm_model_info older = CUGRT_INIT(cugrt_llm_model_info);
  older.struct_size = offsetof(cugrt_llm_model_info, trained_context);
  REQUIRE(llm().model_get_info(model, &older) == nullptr);
  CHECK(older.vocabulary == 3);
  CHECK(older.trained_context == 0);
  older.struct_size = 0;
  CHECK(message_of(llm().model_get_info(model, &older)) == "info: struct_size is not set");

  cugrt_llm_tokens *tokens = nullptr;
  REQUIRE(llm().tokenize(model, "aab", 3, &tokens) == nullptr);
  CHECK(message_of(llm().tokenize(model, "\xff", 1, &tokens)) ==
        "the text is not UTF-8 from byte 0 on");
  const cugrt_llm_message message = {"user", "a"};
  CHECK(message_of(llm().tokenize_chat(model, &message, 1, &tokens, nullptr)) ==
        "'" + path + "' has no key 'tokenizer.chat_template'");
  llm().model_free(model);
  REQUIRE(llm().tokens_count(tokens) == 2);
  CHECK(llm().tokens_data(tokens)[0] == 0);
  CHECK(llm().tokens_data(tokens)[1] == 2);
  llm().tokens_free(tokens);
}

TEST_CASE("what is missing is named, and nothing is freed twice") {
  cugrt_llm_model *model = nullptr;
  cugrt_llm_tokens *tokens = nullptr;
  CHECK(message_of(llm().model_open(nullptr, &model)) == "path or model is missing");
  CHECK(message_of(llm().model_open("/none.gguf", &model)).find("cannot read '/none.gguf'") == 0);
  CHECK(model == nullptr);
  CHECK(message_of(llm().tokenize(nullptr, "a", 1, &tokens)) == "model, text or tokens is missing");
  CHECK(message_of(llm().session_clear(nullptr)) == "session is missing");
  CHECK(message_of(llm().generate(nullptr, nullptr, nullptr)) ==
        "session, options or result is missing");
  CHECK(llm().tokens_count(nullptr) == 0);
  llm().model_free(nullptr);
  llm().tokens_free(nullptr);
  llm().session_free(nullptr);
}
