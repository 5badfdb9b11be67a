// cugrt opt: passes over a module, text in, text out.
#include "model.h"

#include <iostream>
#include <memory>

namespace tool {

namespace {

struct OptOptions {
  std::string module;
  std::vector<std::string> passes, settings;
  bool list = false;
};

void opt(const OptOptions &options) {
  if (options.list) {
    for (size_t i = 0; i < cugrt::api().pass_count(); ++i)
      std::cout << cugrt::api().pass_name(i) << "\n    " << cugrt::api().pass_description(i)
                << "\n";
    return;
  }
  if (options.module.empty())
    throw UserError("opt needs a MODULE; - is standard input");
  std::cout << load_module(options.module).run_passes(options.passes, options.settings).print();
}

} // namespace

void add_opt(CLI::App &app) {
  auto options = std::make_shared<OptOptions>();
  CLI::App *command = app.add_subcommand("opt", "Runs passes over a module and prints the result");
  command->add_option("MODULE", options->module, "The module's file; - is standard input");
  repeatable(command->add_option("--pass", options->passes,
                                 "A pass to run, in order; none: the default pipeline"));
  repeatable(
      command->add_option("--option", options->settings, "NAME=VALUE: an option of the passes"));
  command->add_flag("--list", options->list, "Lists the passes");
  command->callback([options] { opt(*options); });
}

} // namespace tool
