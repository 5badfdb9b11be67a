// cugrt link: several models as one module.
#include "model.h"

#include <algorithm>
#include <filesystem>
#include <memory>

namespace tool {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct LinkOptions {
  Pairs parts, weights, connect;
  std::string output;
};

/// NAME=VALUE of each, split at the first '='. `takes`: the error's words where one has no '='.
CLI::Option *add_pairs(CLI::App &command, const std::string &name, const std::string &takes,
                       Pairs &pairs, const std::string &description) {
  return command.add_option_function<std::vector<std::string>>(
      name,
      [&pairs, takes](const std::vector<std::string> &given) {
        for (const std::string &text : given) {
          const size_t equal = text.find('=');
          if (equal == std::string::npos || equal == 0 || equal + 1 == text.size())
            throw UserError(takes + ", not '" + text + "'");
          pairs.emplace_back(text.substr(0, equal), text.substr(equal + 1));
        }
      },
      description);
}

void link(const LinkOptions &options) {
  std::vector<cugrt::Module> modules;
  for (const auto &[name, path] : options.parts)
    modules.push_back(load_module(path));
  std::vector<std::optional<cugrt::Weights>> weights(modules.size());
  for (const auto &[name, path] : options.weights) {
    const auto part = std::find_if(options.parts.begin(), options.parts.end(),
                                   [&name = name](const auto &one) { return one.first == name; });
    if (part == options.parts.end())
      throw UserError("--weights " + name + "=" + path + ": there is no part '" + name + "'");
    weights[static_cast<size_t>(part - options.parts.begin())] = cugrt::Weights::load(path);
  }
  std::vector<cugrt::LinkPart> parts;
  for (size_t i = 0; i < modules.size(); ++i)
    parts.push_back({options.parts[i].first, modules[i], weights[i] ? &*weights[i] : nullptr});
  const cugrt::Module linked = cugrt::Module::link(parts, options.connect);
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
  add_pairs(*command, "PARTS", "a part is NAME=MODEL", options->parts,
            "NAME=MODEL of each: text or ONNX")
      ->required();
  repeatable(add_pairs(*command, "--connect", "--connect is PART.INPUT=PART.RESULT",
                       options->connect,
                       "PART.INPUT=PART.RESULT: an input that is another part's result"));
  repeatable(add_pairs(*command, "--weights", "--weights is NAME=FILE.safetensors",
                       options->weights,
                       "NAME=FILE.safetensors: the weights of a part that is text"));
  command->add_option("-o,--output", options->output, "The module's file, as LINKED.cugrt")
      ->required();
  command->callback([options] { link(*options); });
}

} // namespace tool
