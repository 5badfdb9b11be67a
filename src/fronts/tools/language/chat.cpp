// cugrt chat: a conversation with a model. Earlier text stays in the caches; only new text is taken
// in. Ctrl-C stops an answer, not the program.
#include "language_model.h"

#include <algorithm>
#include <csignal>
#include <iostream>

namespace tool {

namespace {

struct ChatOptions {
  std::string model, system;
  cugrt::RuntimeOptions runtime;
  LanguageOptions language;
  uint64_t max_tokens = 0, seed = 0;
  int64_t top_k = 40;
  double temperature = 0.8, top_p = 0.95;
};

volatile std::sig_atomic_t interrupted = 0;
void interrupt(int) { interrupted = 1; }

struct Said {
  std::string role, text;
};

class Conversation {
public:
  Conversation(const ChatOptions &options, LlmModel model, cugrt::Runtime &runtime)
      : options_(options), model_(std::move(model)) {
    cugrt_llm_session_options opening = options.language.session;
    const LlmAdapter adapter = open_adapter(model_, options.language.lora, opening);
    session_ = open_session(model_, runtime, opening, adapter);
    if (!options.system.empty())
      said_.push_back({"system", options.system});
  }

  /// Answers a line. Reports a line that cannot be taken (too long, not UTF-8, with a NUL), which
  /// is no part of the conversation.
  void answer(const std::string &text) {
    if (text.find('\0') != std::string::npos)
      return leave_out("the line has a NUL character");
    said_.push_back({"user", text});
    try {
      give_answer();
    } catch (const cugrt::Error &error) {
      if (error.code() != CUGRT_INVALID_ARGUMENT && error.code() != CUGRT_OUT_OF_RANGE)
        throw;
      leave_out(error.what());
      said_.pop_back();
      cugrt::check(llm().session_clear(session_.get())); // all is taken in anew
      held_.clear();
    }
  }

private:
  static void leave_out(const std::string &why) {
    std::cout << std::flush;
    std::cerr << "cugrt: " << why << "; this line is left out" << std::endl;
  }

  void give_answer() {
    int32_t end = -1;
    const std::vector<int32_t> all = tokens_of_all(end);
    // The answer's text may be cut into other tokens than it was given in: then all is taken in
    // anew.
    if (all.size() <= held_.size() || !std::equal(held_.begin(), held_.end(), all.begin())) {
      cugrt::check(llm().session_clear(session_.get()));
      held_.clear();
    }
    auto wanted = cugrt::detail::sized<cugrt_llm_generate_options>();
    wanted.prompt = all.data() + held_.size();
    wanted.prompt_count = all.size() - held_.size();
    wanted.max_tokens = options_.max_tokens;
    wanted.temperature = options_.temperature;
    wanted.top_k = options_.top_k;
    wanted.top_p = options_.top_p;
    wanted.seed = options_.seed;
    wanted.ends = &end;
    wanted.end_count = end >= 0;
    wanted.on_token = take;
    wanted.user = this;
    held_ = all;
    answer_.clear();
    interrupted = 0;
    auto result = cugrt::detail::sized<cugrt_llm_generate_result>();
    cugrt::check(llm().generate(session_.get(), &wanted, &result));
    std::cout << '\n' << std::flush;
    said_.push_back({"assistant", answer_});
    if (result.stop == CUGRT_LLM_STOP_CONTEXT)
      throw UserError("the context is full; --context makes it longer");
  }

  static int32_t take(void *user, int32_t token, const char *text, size_t size_bytes) {
    auto &self = *static_cast<Conversation *>(user);
    self.held_.push_back(token);
    self.answer_.append(text, size_bytes);
    std::cout.write(text, static_cast<std::streamsize>(size_bytes)).flush();
    return interrupted != 0 || !std::cout;
  }

  std::vector<int32_t> tokens_of_all(int32_t &end) const {
    std::vector<cugrt_llm_message> messages;
    for (const Said &one : said_)
      messages.push_back({one.role.c_str(), one.text.c_str()});
    cugrt_llm_tokens *tokens = nullptr;
    cugrt::check(
        llm().tokenize_chat(model_.get(), messages.data(), messages.size(), &tokens, &end));
    return cugrt::detail::take_tokens(tokens);
  }

  const ChatOptions &options_;
  LlmModel model_;
  LlmSession session_;
  std::vector<Said> said_;
  std::vector<int32_t> held_; // what the session has taken in and given
  std::string answer_;
};

void run_chat(const ChatOptions &options) {
  LlmModel model = open_model(options.model);
  cugrt::Runtime runtime = open_runtime(options.runtime);
  if (runtime.info().emulated)
    std::cerr << "EMULATED answers:\n";
  Conversation conversation(options, std::move(model), runtime);
  struct sigaction action {};
  action.sa_handler = interrupt; // without SA_RESTART: reading a line ends too
  ::sigaction(SIGINT, &action, nullptr);
  std::string line;
  while (std::cout << "> " << std::flush, std::getline(std::cin, line))
    if (!line.empty())
      conversation.answer(line);
  std::cout << '\n';
}

} // namespace

void add_chat(CLI::App &app) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App *command = app.add_subcommand("chat", "A conversation, a line a turn; Ctrl-C stops an "
                                                 "answer, the end of the input the program");
  command->add_option("MODEL", options->model, "A GGUF file; of several parts the first")
      ->required();
  command->add_option("--system", options->system, "What the model is told beforehand");
  command
      ->add_option("--max-tokens", options->max_tokens,
                   "How many tokens an answer has at most; 0: until the model ends")
      ->check(refuse_negative);
  add_sampling_options(*command, *options);
  add_session_options(*command, options->language, "Of what is computed",
                      "Positions that the caches hold; default: what the model was trained for, or "
                      "what memory leaves");
  add_driver_option(*command, options->runtime);
  command->callback([options] { run_chat(*options); });
}

} // namespace tool
