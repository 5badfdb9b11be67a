// cugrt link: several models as one module.
#include "onnx.h"

#include <filesystem>
#include <memory>

namespace tool {

namespace {

struct LinkOptions {
  std::vector<std::string> parts, weights, connect;
  std::string output;
};

/// NAME=VALUE, split at the first '='.
std::pair<std::string, std::string> pair_of(const std::string &option, const std::string &text) {
  const size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0 || equal + 1 == text.size())
    throw UserError(option + ", not '" + text + "'");
  return {text.substr(0, equal), text.substr(equal + 1)};
}

void link(const LinkOptions &options) {
  std::vector<std::string> names;
  std::vector<cugrt::Module> modules;
  std::vector<std::optional<cugrt::Weights>> weights;
  for (const std::string &part : options.parts) {
    const auto [name, path] = pair_of("a part is NAME=MODEL", part);
    names.push_back(name);
    modules.push_back(load_module(path));
    weights.emplace_back();
  }
  for (const std::string &given : options.weights) {
    const auto [name, path] = pair_of("--weights is NAME=FILE.safetensors", given);
    const auto part = std::find(names.begin(), names.end(), name);
    if (part == names.end())
      throw UserError("--weights " + given + ": there is no part '" + name + "'");
    weights[static_cast<size_t>(part - names.begin())] = cugrt::Weights::load(path);
  }
  std::vector<cugrt::LinkPart> parts;
  for (size_t i = 0; i < names.size(); ++i)
    parts.push_back({names[i], modules[i], weights[i] ? &*weights[i] : nullptr});
  std::vector<std::pair<std::string, std::string>> connect;
  for (const std::string &joined : options.connect)
    connect.push_back(pair_of("--connect is PART.INPUT=PART.RESULT", joined));
  const cugrt::Module linked = cugrt::Module::link(parts, connect);
  if (const cugrt::Weights own = linked.weights(); own.count() > 0)
    own.save(std::filesystem::path(options.output).replace_extension(".safetensors").string());
  write_whole(options.output, linked.print());
}

} // namespace

void add_link(CLI::App &app) {
  auto options = std::make_shared<LinkOptions>();
  CLI::App *command =
      app.add_subcommand("link", "Makes one module of several, whose weights go to a .safetensors "
                                 "file beside it");
  command->add_option("PARTS", options->parts, "NAME=MODEL of each: text or ONNX")->required();
  repeatable(command->add_option("--connect", options->connect,
                                 "PART.INPUT=PART.RESULT: an input that is another part's result"));
  repeatable(command->add_option("--weights", options->weights,
                                 "NAME=FILE.safetensors: the weights of a part that is text"));
  command->add_option("-o,--output", options->output, "The module's file, as LINKED.cugrt")
      ->required();
  command->callback([options] { link(*options); });
}

} // namespace tool
