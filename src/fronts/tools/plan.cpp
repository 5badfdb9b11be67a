// cugrt plan: regions, storage and memory of a module or a pack, without running anything.
#include "model.h"
#include "plan_group.h"

#include <filesystem>
#include <iostream>
#include <memory>

namespace tool {

namespace {

struct PlanOptions {
  std::string module, html, onnx;
  std::vector<std::string> others, words; // of a group
  uint64_t budget = 0;
  bool group = false;
  PlanningOptions planning;
  ImportOptions import;
  LanguageOptions language;
  Symbols symbols;
  bool json = false, dot = false, svg = false;
};

/// Writes to the page's file, or to standard output.
void write(const PlanOptions &options, const std::string &report) {
  if (options.html.empty())
    std::cout << report;
  else
    write_whole(options.html, report);
}

/// The module's ops before they become kernels: without unused ones, and with a function for each
/// group that becomes one kernel.
cugrt::Module optimised(const cugrt::Module &module, const PlanOptions &options) {
  const std::vector<std::string> passes = {"EliminateDeadBindings", "FuseOps"};
  return module.run_passes(passes, options.planning.pass_options);
}

void write_optimised(const PlanOptions &options) {
  if (is_pack(options.module) || is_gguf(options.module))
    throw UserError("--onnx takes a module or an ONNX file: a pack has no ops left, and a language "
                    "model's are of formats that ONNX does not have");
  if (!is_onnx(options.module))
    return write_onnx(optimised(load_module(options.module), options), nullptr, options.onnx);
  const OnnxModel model(options.module, options.import);
  model.write_onnx(optimised(model.module(), options), options.onnx);
}

/// `weights`: those that the file has, if any.
GroupMember member_of(const std::string &path, const PlanOptions &options,
                      std::optional<cugrt::Weights> &weights) {
  const std::string name = std::filesystem::path(path).stem().string();
  if (is_pack(path)) {
    const cugrt::Pack pack = cugrt::Pack::load(path);
    try {
      weights = pack.weights();
    } catch (const cugrt::Error &) { // a file beside it that is not here: they are known by size
    }
    return group_member(name, pack.report(CUGRT_REPORT_JSON, {}));
  }
  LoadedModule loaded = load_any(path, options.import, &options.language);
  weights = std::move(loaded.weights);
  auto plan_options = cugrt::detail::sized<cugrt_plan_options>();
  options.planning.apply(plan_options);
  plan_options.format = CUGRT_REPORT_JSON;
  GroupMember member = group_member(name, loaded.module.plan_report(plan_options));
  if (const cugrt_llm_memory &memory = loaded.memory; memory.context > 0) {
    member.weights = memory.weight_bytes + memory.table_bytes;
    member.caches = memory.cache_bytes;
  }
  return member;
}

void plan_group(const PlanOptions &options) {
  GroupPlan group;
  std::vector<std::string> paths = {options.module};
  paths.insert(paths.end(), options.others.begin(), options.others.end());
  std::vector<std::optional<cugrt::Weights>> weights(paths.size());
  for (size_t i = 0; i < paths.size(); ++i)
    group.members.push_back(member_of(paths[i], options, weights[i]));
  share_weights(group, weights);
  for (size_t i = 0; i < group.members.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (group.members[i].name == group.members[k].name)
        throw UserError("two models are called '" + group.members[i].name + "', as their files");
  for (const std::string &word : options.words)
    set_word(group, word);
  if (options.budget != 0)
    group.budget = options.budget;
  std::cout << (options.json  ? group_json(group)
                : options.svg ? group_svg(group)
                              : group_text(group));
}

void plan(const PlanOptions &options) {
  if (options.group)
    return plan_group(options);
  if (!options.others.empty())
    throw UserError("several models are planned with --group");
  if (!options.onnx.empty())
    return write_optimised(options);
  cugrt_report_format format = options.json            ? CUGRT_REPORT_JSON
                               : options.dot           ? CUGRT_REPORT_DOT
                               : options.svg           ? CUGRT_REPORT_SVG
                               : !options.html.empty() ? CUGRT_REPORT_HTML
                                                       : CUGRT_REPORT_TEXT;
  if (is_pack(options.module)) {
    options.planning.require_none();
    return write(options, cugrt::Pack::load(options.module).report(format, options.symbols));
  }
  const LoadedModule loaded = load_any(options.module, options.import, &options.language);
  const std::vector<cugrt_symbol_value> values = symbol_values(options.symbols);
  auto plan_options = cugrt::detail::sized<cugrt_plan_options>();
  options.planning.apply(plan_options);
  plan_options.format = format;
  plan_options.symbols = values.data();
  plan_options.symbol_count = values.size();
  // The plan has what is the module's own; weights and caches are its callers'.
  const std::string report = loaded.module.plan_report(plan_options);
  if (loaded.memory.context > 0 && format == CUGRT_REPORT_TEXT)
    std::cout << memory_text(loaded.memory, options.language.session.places) << report;
  else if (loaded.memory.context > 0 && format == CUGRT_REPORT_JSON)
    std::cout << with_memory(report, loaded.memory) << "\n";
  else
    write(options, report);
}

} // namespace

void add_plan(CLI::App &app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App *command = app.add_subcommand(
      "plan",
      "Static regions, why each binding is or is not in one, storage and memory of a module");
  command
      ->add_option("MODULE", options->module,
                   "The file of a module or a pack; - is a module on standard input")
      ->required();
  command->add_option("OTHERS", options->others, "With --group: further models");
  auto *group = command->add_flag("--group", options->group,
                                  "What the models take of one device together, in bytes");
  command->add_option("--budget", options->budget, "Of a group: bytes of device memory")
      ->needs(group);
  repeatable(command->add_option("--word", options->words,
                                 "Of a group: WORD=MODEL,MODEL, which share one arena"))
      ->needs(group);
  add_planning_options(*command, options->planning);
  add_import_options(*command, options->import);
  add_language_options(*command, options->language);
  add_symbol_option(*command, options->symbols, "SYMBOL=N: show memory at this value");
  auto *json = command->add_flag("--json", options->json, "The plan and the report as JSON");
  auto *dot =
      command->add_flag("--dot", options->dot, "The regions' graphs for Graphviz")->excludes(json);
  auto *svg = command->add_flag("--svg", options->svg, "Storage as a drawing, offset against time")
                  ->excludes(json)
                  ->excludes(dot);
  dot->excludes(group);
  command
      ->add_option("--html", options->html,
                   "Writes this file: one page for a browser, with graph, storage and reasons")
      ->excludes(json)
      ->excludes(dot)
      ->excludes(svg);
  command->add_option("--onnx", options->onnx,
                      "Writes this file alone: the module with its ops fused, as ONNX, for Netron");
  command->callback([options] { plan(*options); });
}

} // namespace tool
