// cugrt doctor: reports driver, device, compiler and cache, missing parts and how to get them, and
// whether packs run here.
#include "tool.h"

#include "base/architectures.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace tool {

namespace {

using Json = nlohmann::ordered_json;

struct DoctorOptions {
  cugrt::RuntimeOptions runtime;
  std::vector<std::string> packs;
  bool json = false;
};

/// A pack on the first device.
struct PackVerdict {
  std::string path, code, remedy; // code: empty where it does not run here
};

std::string examine(cugrt_report_format format, const cugrt::RuntimeOptions &options,
                    bool &usable) {
  cugrt_runtime_options c = options.c_options();
  cugrt_text *text = nullptr;
  int32_t can_run = 0;
  cugrt::check(cugrt::api().doctor(&c, format, &text, &can_run));
  usable = can_run != 0;
  return cugrt::detail::take_text(text);
}

/// The pack opens on the device: what of it runs there.
PackVerdict code_of(const std::string &path, const cugrt::Pack &pack, const Json &doctor) {
  const std::string device = doctor["driver"]["devices"][0]["architecture"];
  if (doctor["driver"].value("emulated", false))
    return {path, "its PTX", ""}; // the emulated driver runs nothing else
  for (const Json &target : Json::parse(pack.report(CUGRT_REPORT_JSON))["targets"])
    if (const std::string code = target["architecture"]; code.starts_with("sm_")) {
      const auto number = cugrt::jit::parse_architecture(device);
      const auto known = cugrt::jit::parse_architecture(code);
      if (number.ok() && known.ok() && cugrt::jit::runs_on(*known, number->number))
        return {path, "machine code for " + code, ""};
    }
  return {path, "PTX, which the driver compiles each time that the pack is opened",
          "make it again with --arch " + device + ", and it has machine code"};
}

PackVerdict examine_pack(const std::string &path, cugrt::Runtime &runtime, const Json &doctor) {
  try {
    const cugrt::Pack pack = cugrt::Pack::load(path);
    const cugrt::Executable opened(runtime, pack);
    return code_of(path, pack, doctor);
  } catch (const cugrt::Error &error) {
    return {path, "", error.what()};
  }
}

/// Prints one report; false if the described driver cannot run modules, or one of the packs.
bool report(const cugrt::RuntimeOptions &options, const std::vector<std::string> &packs,
            bool json) {
  bool usable = false;
  Json doctor = Json::parse(examine(CUGRT_REPORT_JSON, options, usable));
  if (!json)
    std::cout << examine(CUGRT_REPORT_TEXT, options, usable);
  std::vector<PackVerdict> verdicts;
  if (usable && !packs.empty()) {
    cugrt::Runtime runtime(options);
    for (const std::string &path : packs)
      verdicts.push_back(examine_pack(path, runtime, doctor));
  }
  for (const PackVerdict &verdict : verdicts) {
    usable &= !verdict.code.empty();
    if (json) {
      doctor["packs"].push_back({{"path", verdict.path},
                                 {"runs", !verdict.code.empty()},
                                 {"code", verdict.code},
                                 {"remedy", verdict.remedy}});
      continue;
    }
    std::cout << "pack " << verdict.path << "\n  runs            "
              << (verdict.code.empty() ? "no" : verdict.code) << "\n";
    if (!verdict.remedy.empty())
      std::cout << "  do              " << verdict.remedy << "\n";
  }
  if (json)
    std::cout << doctor.dump(2) << "\n";
  return usable;
}

// If nobody chose a driver the tool falls back to the emulated one (open_runtime); the report says
// so, and it counts. JSON is one report, of the driver in the environment.
void doctor(const DoctorOptions &options) {
  cugrt::RuntimeOptions runtime = with_log(options.runtime);
  bool usable = report(runtime, options.packs, options.json);
  if (!usable && !options.json && !driver_is_chosen(runtime)) {
    std::cout << "\nwithout that driver this tool runs modules on the emulated one:\n";
    runtime.driver = CUGRT_DRIVER_EMULATED;
    usable = report(runtime, options.packs, options.json);
  }
  std::cout.flush();
  if (!usable)
    throw CLI::RuntimeError(1);
}

} // namespace

void add_doctor(CLI::App &app) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App *command =
      app.add_subcommand("doctor", "Says what is found on this machine and what is missing");
  command->add_option(
      "PACK", options->packs,
      "Packs: whether they run here, and by what code; one that does not is an error");
  add_driver_option(*command, options->runtime);
  command->add_flag("--json", options->json, "The report as JSON");
  command->callback([options] { doctor(*options); });
}

} // namespace tool
