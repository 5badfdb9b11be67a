// cugrt plan: regions, storage and memory of a module or a pack, without running anything.
#include "tool.h"

#include <iostream>
#include <memory>

namespace tool {

namespace {

struct Options {
  std::string module, policy = "patch";
  std::vector<std::string> settings;
  bool json = false, dot = false, svg = false;
};

void plan(const Options &options) {
  cugrt_report_format format = options.json  ? CUGRT_REPORT_JSON
                               : options.dot ? CUGRT_REPORT_DOT
                               : options.svg ? CUGRT_REPORT_SVG
                                             : CUGRT_REPORT_TEXT;
  if (is_pack(options.module)) {
    if (options.policy != "patch")
      throw UserError("a pack is planned already; --policy goes with cugrt compile");
    std::cout << cugrt::Pack::load(options.module).report(format, parse_symbols(options.settings));
    return;
  }
  cugrt::Module module = load_module(options.module);
  std::cout << module.plan_report(format, parse_policy(options.policy),
                                  parse_symbols(options.settings));
}

} // namespace

void add_plan(CLI::App &app) {
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand(
      "plan",
      "Static regions, why each binding is or is not in one, storage and memory of a module");
  command
      ->add_option("MODULE", options->module,
                   "The file of a module or a pack; - is a module on standard input")
      ->required();
  command->add_option("--policy", options->policy, "What makes a region")
      ->check(CLI::IsMember({"patch", "seed"}));
  repeatable(command->add_option("--set", options->settings, "SYMBOL=N: show memory at this value")
                 ->delimiter(','));
  auto *json = command->add_flag("--json", options->json, "The plan and the report as JSON");
  auto *dot =
      command->add_flag("--dot", options->dot, "The regions' graphs for Graphviz")->excludes(json);
  command->add_flag("--svg", options->svg, "Storage as a drawing, offset against time")
      ->excludes(json)
      ->excludes(dot);
  command->callback([options] { plan(*options); });
}

} // namespace tool
