// Scripts of driver calls with the results that cuda.h states.
//
// A step compares one answer, a CUresult or a value, with what a sentence of cuda.h states; the
// sentence is cited by the function (or type) whose comment holds it and a few of its words. Where
// no document states an answer, the step only observes it: it is written into recordings, and held
// to them, and counts as unrecorded until a device has answered.
//
// A script runs in a context of its own, current to the calling thread. One that is marked as
// faulting makes the device report an error that sticks to the process, and runs in a process of
// its own. Scripts of the emulated driver alone try what a real driver may answer by crashing:
// freed and foreign handles.
#pragma once

#include "driver.h"
#include "report.h"

#include <functional>
#include <string>
#include <vector>

namespace cugrt::conformance {

/// Where a result is stated: the function whose comment says so, and some of its words, which a
/// test finds in cuda.h.
struct Stated {
  const char *function, *words;
};

class Script; // below

struct ScriptCase {
  enum class Kind { shared, faulting, emulated_only };
  using Body = void (*)(Script &);
  static constexpr int kVersion = 12020;

  ScriptCase(const char *name, Kind what, std::vector<Stated> why, Body script,
             int since = kVersion, const char *variable = nullptr)
      : id(name), kind(what), stated(std::move(why)), body(script), version(since),
        environment(variable) {}
  ScriptCase(const char *name, std::vector<Stated> why, Body script, int since = kVersion,
             const char *variable = nullptr)
      : ScriptCase(name, Kind::shared, std::move(why), script, since, variable) {}

  const char *id;
  Kind kind;
  std::vector<Stated> stated;
  Body body;
  int version; // the driver that has all that is called
  /// NAME=VALUE for the emulated driver; such a script runs in a process of its own.
  const char *environment;
};

/// What a body works with.
class Script {
public:
  Script(const Driver &driver, const ScriptCase &which)
      : driver(driver), api(driver.api), which_(which) {}

  const Driver &driver;
  const Api &api;
  CUcontext context = nullptr;
  CUmodule module = nullptr; // of the kernels below

  /// A step whose result is stated.
  bool expect(const char *step, CUresult got, CUresult want = CUDA_SUCCESS);
  bool expect(const char *step, uint64_t got, uint64_t want);
  bool expect_true(const char *step, bool holds) { return expect(step, uint64_t(holds), 1); }
  /// A step that no document states: the emulated driver is held to `emulated` until a device has
  /// answered.
  void observe(const char *step, CUresult got, CUresult emulated);
  void observe(const char *step, uint64_t got, uint64_t emulated);
  /// A call that only prepares: the script ends in failure when it does not succeed.
  void need(CUresult result);

  CUfunction kernel(const char *name);
  /// Device memory of so many 32-bit words, all `value`. It, the streams, events and instances that
  /// follow last until the script ends, and then must end without an error.
  CUdeviceptr words(size_t count, uint32_t value = 0);
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING);
  CUevent event(unsigned flags = 0);
  CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0);
  uint32_t word(CUdeviceptr address);

  /// Ends what was made, the latest first.
  void end();
  Outcome finish();

private:
  void step(const char *name, const std::string &got, const std::string &want, bool unrecorded);

  const ScriptCase &which_;
  std::vector<std::function<CUresult()>> ends_;
  std::vector<Answer> answers_;
  std::string failures_;
};

/// Thrown by need() to end a script.
struct ScriptEnds {};

const std::vector<ScriptCase> &context_scripts();
const std::vector<ScriptCase> &memory_scripts();
const std::vector<ScriptCase> &code_scripts();
const std::vector<ScriptCase> &stream_scripts();
const std::vector<ScriptCase> &graph_scripts();
const std::vector<ScriptCase> &update_scripts();
const std::vector<ScriptCase> &conditional_scripts();
const std::vector<ScriptCase> &memory_op_scripts();
const std::vector<ScriptCase> &newer_scripts();
const std::vector<ScriptCase> &green_scripts();
const std::vector<ScriptCase> &handle_scripts();
const std::vector<ScriptCase> &check_scripts();

/// The kernels that scripts launch: see script_kernels.cpp.
extern const char kScriptPtx[];

std::vector<Outcome> run_scripts(const Driver &driver, const std::string &driver_name,
                                 const std::string &only);
/// Runs one script and prints its outcome for the process that waits for it.
int run_child(const Driver &driver, const std::string &id);
/// A line each sentence that a script cites: the script, the driver's version that it needs, the
/// function and words, with tabs between.
void print_citations();

} // namespace cugrt::conformance
