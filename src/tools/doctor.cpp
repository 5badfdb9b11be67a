// cugrt doctor: what driver, device, compiler and cache are found, what is missing and what to do.
#include "tool.h"

#include <iostream>
#include <memory>

namespace tool {

void add_doctor(CLI::App &app) {
  struct Options {
    std::string driver;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command =
      app.add_subcommand("doctor", "Says what is found on this machine and what is missing");
  command->add_option("--driver", options->driver, "system, emulated, or a driver library's path");
  command->add_flag("--json", options->json, "The report as JSON");
  command->callback([options] {
    cugrt::RuntimeOptions runtime = runtime_options(options->driver);
    cugrt_runtime_options c = runtime.c_options();
    cugrt_text *report = nullptr;
    int32_t usable = 0;
    cugrt::check(cugrt::api().doctor(&c, options->json ? CUGRT_REPORT_JSON : CUGRT_REPORT_TEXT,
                                     &report, &usable));
    std::cout << cugrt::detail::take_text(report);
    std::cout.flush();
    if (!usable)
      throw CLI::RuntimeError(1);
  });
}

} // namespace tool
