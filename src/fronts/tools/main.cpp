// cugrt: the command-line tool. One file a command; this one parses the command line and reports
// errors.
#include "tool.h"

#include "commit.h"

#include <cstdio>
#include <iostream>

constexpr int kUsageStatus = 2; // as getopt programs have it

/// Prints a usage error in one line, and where help is. Returns the exit status.
static int report_usage(const CLI::App &app, const CLI::ParseError &error) {
  const CLI::App *command = &app;
  std::string path = "cugrt";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  std::string problem = error.what();
  const std::vector<std::string> unknown = command->remaining();
  if (command->get_require_subcommand_min() > 0 && !unknown.empty()) {
    problem = "there is no command '" + unknown.front() + "'; the commands are";
    for (const CLI::App *one : command->get_subcommands({}))
      problem += " " + one->get_name();
  }
  std::fprintf(stderr, "cugrt: error: %s (%s --help tells more)\n", problem.c_str(), path.c_str());
  return kUsageStatus;
}

/// The status of a command whose output may not have been written.
static int finish(int status) {
  std::cout.flush();
  if (std::cout)
    return status;
  std::fputs("cugrt: cannot write to standard output\n", stderr);
  return 1;
}

int main(int argc, char **argv) try {
  CLI::App app("cugrt runs, plans and transforms modules on CUDA graphs built node by node.");
  app.set_version_flag("--version", std::string("cugrt ") + cugrt::api().version_string +
                                        " (commit " + tool::commit() + ")");
  app.require_subcommand(1);
  tool::add_run(app);
  tool::add_plan(app);
  tool::add_compile(app);
  tool::add_opt(app);
  tool::add_doctor(app);
  tool::add_bench(app);
  tool::add_trace(app);
  tool::add_attribute(app);
  tool::add_emulate(app, tool::take_emulated_command(argc, argv));
  tool::add_cache(app);
  tool::add_tokenize(app);
  tool::add_generate(app);
  tool::add_chat(app);
  tool::add_import(app);
  tool::add_link(app);
  tool::add_compare(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError &) {
    throw;
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success))
      return finish(app.exit(error)); // what --help and --version ask for
    return report_usage(app, error);
  }
  return finish(0);
} catch (const CLI::RuntimeError &exit) { // a command's own exit status
  return exit.get_exit_code();
} catch (const cugrt::Error &error) {
  std::fprintf(stderr, "cugrt: error: %s\n", error.what());
  return 1;
} catch (const std::exception &error) {
  std::fprintf(stderr, "cugrt: error: %s\n", error.what());
  return 1;
}
