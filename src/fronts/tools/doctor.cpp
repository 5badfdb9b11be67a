// cugrt doctor: what driver, device, compiler and cache are found, what is missing and what to do.
#include "tool.h"

#include <iostream>
#include <memory>

namespace tool {

namespace {

struct DoctorOptions {
  std::string driver;
  bool json = false;
};

// Prints one report; false when what it describes cannot run modules.
bool report(cugrt::RuntimeOptions options, bool json) {
  cugrt_runtime_options c = options.c_options();
  cugrt_text *text = nullptr;
  int32_t usable = 0;
  cugrt::check(
      cugrt::api().doctor(&c, json ? CUGRT_REPORT_JSON : CUGRT_REPORT_TEXT, &text, &usable));
  std::cout << cugrt::detail::take_text(text);
  return usable != 0;
}

// Where nobody chose a driver the tool falls back to the emulated one (open_runtime): that is told
// too, and counts. JSON is one report, of the driver in the environment.
void doctor(const DoctorOptions &options) {
  cugrt::RuntimeOptions runtime = runtime_options(options.driver);
  bool usable = report(runtime, options.json);
  if (!usable && !options.json && !driver_is_chosen(runtime)) {
    std::cout << "\nwithout that driver this tool runs modules on the emulated one:\n";
    runtime.driver = CUGRT_DRIVER_EMULATED;
    usable = report(runtime, options.json);
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
  command->add_option("--driver", options->driver, "system, emulated, or a driver library's path");
  command->add_flag("--json", options->json, "The report as JSON");
  command->callback([options] { doctor(*options); });
}

} // namespace tool
