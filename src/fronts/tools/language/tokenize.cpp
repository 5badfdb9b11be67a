// cugrt tokenize: JSON strings from standard input, one a line, to JSON lists of tokens.
#include "language_model.h"

#include <nlohmann/json.hpp>

#include <iostream>

namespace tool {

static std::string text_of(const std::string &line, size_t number) {
  const auto wrong = [&] {
    return UserError("line " + std::to_string(number) + " of the input is no JSON string");
  };
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
  if (!value.is_string())
    throw wrong();
  return value.get<std::string>();
}

static void run_tokenize(const std::string &path) {
  const LlmModel model = open_model(path);
  std::string line;
  for (size_t number = 1; std::getline(std::cin, line); ++number)
    std::cout << nlohmann::json(tokenize(model, text_of(line, number))).dump() << '\n';
}

void add_tokenize(CLI::App &app) {
  auto model = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand(
      "tokenize", "Reads JSON strings, one a line, and prints each one's tokens as a JSON list");
  command->add_option("MODEL", *model, "A GGUF file")->required();
  command->callback([model] { run_tokenize(*model); });
}

} // namespace tool
