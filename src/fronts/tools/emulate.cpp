// cugrt emulate COMMAND...: runs a program with the emulated driver in the place of libcuda.so.1.
//
// Beside the emulator's library lies a folder with one link to it, by the name that programs open.
// That folder goes to the front of LD_LIBRARY_PATH and the command takes this process over, so that
// its output, signals and exit status are its own. What the emulator's checks find goes to stderr.
#include "tool.h"

#include "base/path.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tool {

namespace {

constexpr const char *kLibrary = "libcugrt-emu.so", *kFolder = "cugrt-emu";
// Exit statuses of shells.
constexpr int kNotFound = 127, kNotExecutable = 126;

/// The folder of libcugrt.so, with a slash at the end.
std::string library_folder() {
  Dl_info info;
  if (!dladdr(&cugrt::api(), &info) || !info.dli_fname)
    return {};
  return cugrt::folder_of(info.dli_fname) + '/';
}

/// The emulator's library, where the runtime finds it too: CUGRT_EMULATOR, beside libcugrt.so, or
/// by the loader's own search. It is loaded, which runs none of its code.
std::string find_emulator() {
  std::vector<std::string> names;
  if (const char *named = std::getenv("CUGRT_EMULATOR"); named && *named)
    names = {named};
  else
    names = {library_folder() + kLibrary, kLibrary};
  std::string reason;
  for (const std::string &name : names) {
    void *handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!handle) {
      const char *text = dlerror();
      reason = text ? text : name + ": cannot be loaded";
      continue;
    }
    Dl_info info;
    void *entry = dlsym(handle, "cuEmuGetStatistics");
    if (entry && dladdr(entry, &info) && info.dli_fname)
      return cugrt::real_path(info.dli_fname);
    reason = name + " is no emulated driver";
  }
  throw UserError("cannot load the emulated driver: " + reason + "; put " + kLibrary +
                  " beside libcugrt.so, or name it in CUGRT_EMULATOR");
}

/// The folder whose libcuda.so.1 is that library.
std::string driver_folder(const std::string &library) {
  std::string folder = cugrt::folder_of(library) + '/' + kFolder, link = folder + "/libcuda.so.1";
  struct stat wanted, found;
  if (stat(link.c_str(), &found) != 0)
    throw UserError(link + ": " + std::strerror(errno) + "; it is a link to " + library +
                    " and installed with it: install cugrt again");
  if (stat(library.c_str(), &wanted) != 0 || wanted.st_dev != found.st_dev ||
      wanted.st_ino != found.st_ino)
    throw UserError(link + " is another library than " + library + ": install cugrt again");
  if (folder.find_first_of(":;$") != std::string::npos)
    throw UserError("the folder " + folder +
                    " cannot be named in LD_LIBRARY_PATH: install cugrt below a folder without "
                    "':', ';' and '$' in its name");
  return folder;
}

void set_variable(const char *name, const std::string &value, bool replace) {
  if (setenv(name, value.c_str(), replace) != 0)
    throw UserError(std::string("cannot set ") + name + ": " + std::strerror(errno));
}

void set_environment(const std::string &folder) {
  const char *before = std::getenv("LD_LIBRARY_PATH");
  set_variable("LD_LIBRARY_PATH", before && *before ? folder + ":" + before : folder, true);
  set_variable("CUGRT_EMU_CHECK", "all", false);
  set_variable("CUGRT_EMU_REPORT", "stderr", false);
}

[[noreturn]] void become(const std::vector<std::string> &command) {
  std::vector<char *> arguments;
  for (const std::string &word : command)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  int error = errno;
  bool missing = error == ENOENT || error == ENOTDIR;
  std::fprintf(stderr, "cugrt: error: emulate: %s: %s\n", arguments[0],
               missing ? "no such command" : std::strerror(error));
  throw CLI::RuntimeError(missing ? kNotFound : kNotExecutable);
}

void emulate(const std::vector<std::string> &command) {
  if (command.empty() || command.front().empty())
    throw UserError("emulate needs a command to run, as in: cugrt emulate python3 program.py");
  set_environment(driver_folder(find_emulator()));
  become(command);
}

} // namespace

std::vector<std::string> take_emulated_command(int &argc, char **argv) {
  if (argc < 3 || std::string_view(argv[1]) != "emulate")
    return {};
  bool ended = std::string_view(argv[2]) == "--";
  if (argv[2][0] == '-' && !ended)
    return {};
  std::vector<std::string> command(argv + (ended ? 3 : 2), argv + argc);
  argc = 2;
  return command;
}

void add_emulate(CLI::App &app, const std::vector<std::string> &words) {
  CLI::App *command =
      app.add_subcommand("emulate", "Runs a program on the emulated driver, as its libcuda.so.1");
  command->footer("Usage: cugrt emulate [--] COMMAND...\n"
                  "COMMAND...: the program and its arguments, as they stand.\n"
                  "What the emulated driver's checks find is told on stderr; CUGRT_EMU_CHECK and\n"
                  "CUGRT_EMU_REPORT say otherwise.");
  command->callback([words] { emulate(words); });
}

} // namespace tool
