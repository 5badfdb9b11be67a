// ptxas counts the registers of a module's kernels; see module.h.
#include "emulator/driver/code/module.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cugrt::emulator::api {

namespace {

using Counts = std::map<std::string, uint32_t, std::less<>>;

constexpr uint32_t kWarp = 32;

/// A multiprocessor gives registers to warps, in units of 256.
uint64_t registers_of_block(uint32_t of_thread, uint32_t threads) {
  constexpr uint64_t kUnit = 256;
  const uint64_t warps = (threads + kWarp - 1) / kWarp;
  return (uint64_t(of_thread) * kWarp + kUnit - 1) / kUnit * kUnit * warps;
}

/// An upper bound without machine code: more than an assembler makes of so many registers of PTX,
/// of which some have 64 bits.
uint32_t upper_bound(const KernelInfo &kernel) {
  constexpr uint32_t kOfItsOwn = 24;
  return std::min(2 * kernel.registers + kOfItsOwn, kernel.max_registers);
}

/// "sm_90a" of ".target sm_90a, debug".
std::string target_of(std::string_view ptx) {
  constexpr std::string_view kDirective = ".target";
  size_t at = std::min(ptx.find(kDirective), ptx.size());
  at = std::min(ptx.find("sm_", at), ptx.size());
  const size_t end = ptx.find_first_not_of("sm_0123456789af", at);
  return std::string(ptx.substr(at, end == ptx.npos ? end : end - at));
}

/// The output of `program -arch=target -v` for the text; empty if it cannot be run.
std::string ask(const char *program, const std::string &target, std::string_view ptx) {
  const int text = memfd_create("ptx", 0);
  int out[2];
  if (text < 0 || pipe2(out, O_CLOEXEC) != 0) {
    if (text >= 0)
      close(text);
    return {};
  }
  for (size_t done = 0; done < ptx.size();) {
    const ssize_t wrote = write(text, ptx.data() + done, ptx.size() - done);
    if (wrote <= 0)
      break;
    done += size_t(wrote);
  }
  const std::string arch = "-arch=" + target, file = "/proc/self/fd/" + std::to_string(text);
  const char *arguments[] = {program, arch.c_str(), "-v", "-o", "/dev/null", file.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
  pid_t child = 0;
  const int started = posix_spawnp(&child, program, &actions, nullptr,
                                   const_cast<char *const *>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(text);
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 1; started == 0 && got != 0;) {
    got = read(out[0], buffer, sizeof buffer);
    if (got < 0 && errno != EINTR)
      break;
    answer.append(buffer, size_t(std::max<ssize_t>(got, 0)));
  }
  close(out[0]);
  int status = -1;
  while (started == 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? answer : std::string();
}

/// Lines "... entry function 'NAME' for ..." and then "... Used N registers, ...".
Counts parse(std::string_view answer) {
  Counts counts;
  constexpr std::string_view kEntry = "entry function '", kUsed = "Used ";
  for (size_t at = 0; (at = answer.find(kEntry, at)) != answer.npos;) {
    at += kEntry.size();
    const size_t end = answer.find('\'', at), used = answer.find(kUsed, at);
    if (end == answer.npos || used == answer.npos)
      break;
    counts.emplace(answer.substr(at, end - at),
                   uint32_t(std::strtoul(answer.data() + used + kUsed.size(), nullptr, 10)));
  }
  return counts;
}

Counts count_registers(std::string_view ptx) {
  if (ptx.empty())
    return {};
  if (ptx.back() == 0)
    ptx.remove_suffix(1);
  for (const char *program : {"ptxas", "/usr/local/cuda/bin/ptxas"})
    if (std::string answer = ask(program, target_of(ptx), ptx); !answer.empty())
      return parse(answer);
  return {};
}

} // namespace

bool has_registers(Driver &driver, Module &module, const KernelInfo &kernel, uint32_t threads) {
  constexpr uint64_t kOfMultiprocessor = 65536;
  if (registers_of_block(upper_bound(kernel), threads) <= kOfMultiprocessor)
    return true;
  if (!module.register_counts)
    module.register_counts = count_registers(module.program->text());
  auto counted = module.register_counts->find(kernel.name);
  if (counted == module.register_counts->end())
    return true;
  const uint32_t registers = std::min(counted->second, kernel.max_registers);
  if (registers_of_block(registers, threads) <= kOfMultiprocessor)
    return true;
  driver.set_message("kernel " + kernel.name + " has " + std::to_string(registers) +
                     " registers a thread: too many for blocks of " + std::to_string(threads));
  return false;
}

} // namespace cugrt::emulator::api
