// cugrt: the command-line tool. One file a command; this one parses the command line and reports
// errors.
#include "tool.h"

#include <cstdio>
#include <iostream>

int main(int argc, char **argv) try {
  CLI::App app("cugrt runs, plans and transforms modules on CUDA graphs built node by node.");
  app.set_version_flag("--version", cugrt::api().version_string);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  tool::add_run(app);
  tool::add_plan(app);
  tool::add_compile(app);
  tool::add_opt(app);
  tool::add_doctor(app);
  tool::add_bench(app);
  tool::add_trace(app);
  tool::add_emulate(app, tool::take_emulated_command(argc, argv));
  tool::add_cache(app);
  CLI11_PARSE(app, argc, argv);
  std::cout.flush();
  if (!std::cout) {
    std::fputs("cugrt: cannot write to standard output\n", stderr);
    return 1;
  }
  return 0;
} catch (const CLI::RuntimeError &exit) { // a command's own exit status
  return exit.get_exit_code();
} catch (const cugrt::Error &error) {
  std::fprintf(stderr, "cugrt: error: %s\n", error.what());
  return 1;
} catch (const std::exception &error) {
  std::fprintf(stderr, "cugrt: error: %s\n", error.what());
  return 1;
}
