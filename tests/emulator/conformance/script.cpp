// Running scripts: steps, the process of its own, and what a child tells its parent.
#include "script.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

namespace cugrt::conformance {

namespace {

std::vector<const ScriptCase *> all_scripts() {
  std::vector<const ScriptCase *> all;
  for (const auto *list :
       {&context_scripts(), &memory_scripts(), &code_scripts(), &stream_scripts(), &graph_scripts(),
        &update_scripts(), &conditional_scripts(), &memory_op_scripts(), &newer_scripts(),
        &green_scripts(), &handle_scripts(), &check_scripts()})
    for (const ScriptCase &script : *list)
      all.push_back(&script);
  return all;
}

/// In a context that is made for it, with the module of kernels loaded.
Outcome run(const Driver &driver, const ScriptCase &which) {
  Script script(driver, which);
  const Api &api = driver.api;
  try {
    script.need(api.cuDevicePrimaryCtxRetain(&script.context, driver.device));
    script.need(api.cuCtxSetCurrent(script.context));
    script.need(api.cuModuleLoadData(&script.module, kScriptPtx));
    which.body(script);
    script.end();
  } catch (const ScriptEnds &) {
  }
  Outcome outcome = script.finish();
  // The next script starts on a fresh context; after a fault these fail, and the process ends.
  if (script.context) {
    api.cuCtxSetCurrent(script.context);
    api.cuCtxSynchronize();
    if (script.module)
      api.cuModuleUnload(script.module);
    api.cuCtxSetCurrent(nullptr);
    api.cuDevicePrimaryCtxRelease(driver.device);
    api.cuDevicePrimaryCtxReset(driver.device);
  }
  return outcome;
}

/// What a child prints: its verdict, its answers and what failed, a line each.
void tell(const Outcome &outcome) {
  std::printf("verdict\t%d\n", int(outcome.verdict));
  for (const Answer &answer : outcome.answers)
    std::printf("answer\t%d\t%s\t%s\n", int(answer.unrecorded), answer.step.c_str(),
                answer.value.c_str());
  std::printf("detail\t%s", outcome.detail.c_str());
}

/// A script that takes longer hangs.
constexpr unsigned kSeconds = 20;

/// In a process of its own: each step is told as it is taken, for what crashes or hangs behind it.
bool tells_steps = false;

Outcome told(const ScriptCase &which, const std::string &text, int status) {
  Outcome outcome{which.id, which.kind != ScriptCase::Kind::emulated_only, Verdict::failed, "", {}};
  size_t from = 0;
  bool has_verdict = false;
  std::string last = "its beginning";
  while (from < text.size()) {
    size_t to = std::min(text.find('\n', from), text.size());
    std::string line = text.substr(from, to - from);
    if (line.rfind("detail\t", 0) == 0) {
      outcome.detail = text.substr(from + 7);
      break;
    }
    if (line.rfind("verdict\t", 0) == 0) {
      outcome.verdict = Verdict(std::atoi(line.c_str() + 8));
      has_verdict = true;
    }
    if (line.rfind("step\t", 0) == 0)
      last = "'" + line.substr(5) + "'";
    if (line.rfind("answer\t", 0) == 0) {
      size_t tab = line.find('\t', 9);
      if (tab != std::string::npos)
        outcome.answers.push_back({line.substr(9, tab - 9), line.substr(tab + 1), line[7] == '1'});
    }
    from = to + 1;
  }
  if (!has_verdict)
    outcome.detail =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
            ? "hangs: its process was ended after " + std::to_string(kSeconds) + " s, behind " +
                  last
            : "its process ended with status " + std::to_string(status) + ", behind " + last;
  return outcome;
}

/// The same program, for one script.
Outcome run_apart(const ScriptCase &which, const std::string &driver_name) {
  int ends[2];
  if (pipe(ends) != 0)
    return told(which, "", -1);
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    if (which.environment)
      putenv(const_cast<char *>(which.environment));
    close(ends[0]);
    close(ends[1]);
    alarm(kSeconds); // lasts over the new program
    execl("/proc/self/exe", "cugrt-conformance", "--driver", driver_name.c_str(), "--child",
          which.id, nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return told(which, text, status);
}

} // namespace

bool Script::expect(const char *name, CUresult got, CUresult want) {
  step(name, driver.name_of(got), driver.name_of(want), false);
  return got == want;
}
bool Script::expect(const char *name, uint64_t got, uint64_t want) {
  step(name, std::to_string(got), std::to_string(want), false);
  return got == want;
}
void Script::observe(const char *name, CUresult got, CUresult emulated) {
  step(name, driver.name_of(got), driver.emulated ? driver.name_of(emulated) : "", true);
}
void Script::observe(const char *name, uint64_t got, uint64_t emulated) {
  step(name, std::to_string(got), driver.emulated ? std::to_string(emulated) : "", true);
}

/// An observed step that differs from what the emulated driver is known to answer fails only there.
void Script::step(const char *name, const std::string &got, const std::string &want,
                  bool unrecorded) {
  if (tells_steps) {
    std::printf("step\t%s\n", name);
    std::fflush(stdout);
  }
  answers_.push_back({std::to_string(answers_.size() + 1) + " " + name, got, unrecorded});
  if (got != want && !(unrecorded && want.empty()))
    failures_ += std::string(name) + " answers " + got + " instead of " + want + "\n";
}

void Script::need(CUresult result) {
  if (result == CUDA_SUCCESS)
    return;
  failures_ += "a call that prepares answers " + driver.name_of(result) + ", after step " +
               std::to_string(answers_.size()) + "\n";
  throw ScriptEnds{};
}

CUfunction Script::kernel(const char *name) {
  CUfunction function = nullptr;
  need(api.cuModuleGetFunction(&function, module, name));
  return function;
}

CUdeviceptr Script::words(size_t count, uint32_t value) {
  CUdeviceptr address = 0;
  need(api.cuMemAlloc(&address, 4 * count));
  need(api.cuMemsetD32(address, value, count));
  need(api.cuCtxSynchronize()); // streams that do not wait for the legacy one will use it
  ends_.push_back([=, this] { return api.cuMemFree(address); });
  return address;
}

CUstream Script::stream(unsigned flags) {
  CUstream made = nullptr;
  need(api.cuStreamCreate(&made, flags));
  ends_.push_back([=, this] { return api.cuStreamDestroy(made); });
  return made;
}

CUevent Script::event(unsigned flags) {
  CUevent made = nullptr;
  need(api.cuEventCreate(&made, flags));
  ends_.push_back([=, this] { return api.cuEventDestroy(made); });
  return made;
}

CUgraphExec Script::instantiate(CUgraph graph, unsigned long long flags) {
  CUgraphExec made = nullptr;
  need(api.cuGraphInstantiate(&made, graph, flags));
  ends_.push_back([=, this] { return api.cuGraphExecDestroy(made); });
  return made;
}

void Script::end() {
  if (which_.kind == ScriptCase::Kind::faulting) // nothing succeeds behind a fault
    return;
  for (; !ends_.empty(); ends_.pop_back())
    need(ends_.back()());
}

uint32_t Script::word(CUdeviceptr address) {
  uint32_t value = 0;
  need(api.cuMemcpyDtoH(&value, address, 4));
  return value;
}

Outcome Script::finish() {
  Outcome outcome{which_.id, which_.kind != ScriptCase::Kind::emulated_only,
                  failures_.empty() ? Verdict::passed : Verdict::failed, failures_, answers_};
  if (!failures_.empty())
    for (const Stated &stated : which_.stated)
      outcome.detail += std::string("cuda.h, ") + stated.function + ": \"" + stated.words + "\"\n";
  return outcome;
}

std::vector<Outcome> run_scripts(const Driver &driver, const std::string &driver_name,
                                 const std::string &only) {
  std::vector<Outcome> outcomes;
  for (const ScriptCase *script : all_scripts()) {
    if (std::string(script->id).find(only) == std::string::npos)
      continue;
    const bool emulated_only = script->kind == ScriptCase::Kind::emulated_only;
    auto left_out = [&](const std::string &reason) {
      outcomes.push_back({script->id, !emulated_only, Verdict::left_out, reason, {}});
    };
    if (emulated_only && !driver.emulated)
      left_out("for the emulated driver only");
    else if (driver.version < script->version)
      left_out("needs a driver of version " + std::to_string(script->version));
    // On a real driver each: one that crashes takes no other with it.
    else if (script->kind == ScriptCase::Kind::faulting || script->environment || !driver.emulated)
      outcomes.push_back(run_apart(*script, driver_name));
    else
      outcomes.push_back(run(driver, *script));
  }
  return outcomes;
}

int run_child(const Driver &driver, const std::string &id) {
  for (const ScriptCase *script : all_scripts())
    if (script->id == id) {
      tells_steps = true;
      tell(run(driver, *script));
      return 0;
    }
  return 2;
}

void print_citations() {
  for (const ScriptCase *script : all_scripts())
    for (const Stated &stated : script->stated)
      std::printf("%s\t%d\t%s\t%s\n", script->id, script->version, stated.function, stated.words);
}

} // namespace cugrt::conformance
