// cugrt compile: a pack from a module, for machines without a compiler.
#include "model.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

namespace tool {

namespace {

struct CompileOptions {
  std::string module, output, weights;
  PlanningOptions planning;
  ImportOptions import;
  LanguageOptions language;
  std::vector<std::string> architectures;
  unsigned threads = 0;
  bool weights_inside = false, names = false;
};

void show_progress(void *, size_t done, size_t total, const char *kernel, double milliseconds,
                   size_t cached) {
  std::fprintf(stderr, "[%zu/%zu] %s %.0f ms, %zu cached\n", done, total, kernel, milliseconds,
               cached);
}

/// Reads the written pack back, as its users do, and summarises it.
void show_summary(const std::string &path) {
  auto report = nlohmann::json::parse(cugrt::Pack::load(path).report(CUGRT_REPORT_JSON));
  std::string architectures;
  for (const auto &target : report["targets"])
    architectures += " " + target["architecture"].get<std::string>() +
                     (target.contains("ptx") ? " (" + target["ptx"].get<std::string>() + ")" : "");
  std::fprintf(stderr, "%s: %ju bytes for%s\n", path.c_str(), std::filesystem::file_size(path),
               architectures.c_str());
  for (const auto &plan : report["plans"]) {
    const auto &code = plan["code"];
    std::fprintf(
        stderr,
        "kernels %zu, codes %zu, specialised for their sizes %zu, at most %zu of one function\n",
        code["kernels"].get<size_t>(), code["codes"].get<size_t>(),
        code["specialized"].get<size_t>(), code["most_specialized"].get<size_t>());
    for (const auto &function : code["functions"]) {
      const auto general = function["general"].get<size_t>();
      std::fprintf(stderr, "  %zu of %s%s\n", function["specialized"].get<size_t>(),
                   function["name"].get<std::string>().c_str(),
                   general ? (", and " + std::to_string(general) + " for all sizes").c_str() : "");
    }
  }
}

/// An empty one is a slip of the hand, and which was meant is not known.
std::vector<std::string> split_architectures(const std::vector<std::string> &given) {
  std::vector<std::string> architectures;
  for (const std::string &list : given)
    for (std::string &one : split_at_commas(list)) {
      if (one.empty())
        throw UserError("--arch '" + list + "' has an empty architecture; give them as in " +
                        "--arch sm_87,compute_75");
      architectures.push_back(std::move(one));
    }
  return architectures;
}

void compile(const CompileOptions &options) {
  if (options.output == "-")
    throw UserError("-o - names no file: a pack is written to a file, not to standard output");
  const LoadedModule loaded = load_any(options.module, options.import, &options.language);
  cugrt::RuntimeOptions none; // what it is compiled for need not be here
  none.driver = CUGRT_DRIVER_NONE;
  cugrt::Runtime runtime(with_log(none));
  const std::vector<const char *> architectures = cugrt::detail::pointers(options.architectures);
  auto pack = cugrt::detail::sized<cugrt_pack_options>();
  options.planning.apply(pack);
  pack.architectures = architectures.data();
  pack.architecture_count = architectures.size();
  if (!options.weights.empty())
    pack.weights_path = options.weights.c_str();
  else if (loaded.weights)
    pack.weights = loaded.weights->get();
  pack.weights_inside = options.weights_inside;
  pack.threads = options.threads;
  pack.names = options.names;
  pack.progress = show_progress;
  cugrt::write_pack(runtime, loaded.module, pack, options.output);
  show_summary(options.output);
}

} // namespace

void add_compile(CLI::App &app) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App *command = app.add_subcommand(
      "compile", "Plans and compiles a module into a pack, which runs without a compiler");
  command->add_option("MODULE", options->module, "The module's file; - is standard input")
      ->required();
  command->add_option("-o,--output", options->output, "The pack's file")->required();
  repeatable(command->add_option_function<std::vector<std::string>>(
                 "--arch",
                 [options](const std::vector<std::string> &given) {
                   options->architectures = split_architectures(given);
                 },
                 "sm_87,compute_75: machine code for sm_..., PTX for compute_..."))
      ->required();
  auto *weights =
      command->add_option("--weights", options->weights,
                          "A .safetensors file, which is to stand beside the pack where it is run");
  command->add_flag("--weights-inside", options->weights_inside, "Puts the weights into the pack")
      ->needs(weights);
  command->add_flag(
      "--names", options->names,
      "Puts in what ops and an ONNX or GGUF file call the pack's steps, for trace and "
      "bench: at most 40 bytes a step");
  add_planning_options(*command, options->planning);
  add_import_options(*command, options->import);
  add_language_options(*command, options->language);
  command
      ->add_option("--threads", options->threads,
                   "Kernels compiled at a time; default: as many as the machine has cores")
      ->check(CLI::PositiveNumber);
  command->callback([options] { compile(*options); });
}

} // namespace tool
