// A module, compiled and opened on the emulated runtime, for tests through the public C++ API.
#pragma once

#include "support/api_fixture.h"

namespace cugrt::test {

/// Branches in the graphs, branches of the host between graphs, or step by step.
enum class Way { graph, host, eager };

inline cugrt_session_options session_options(bool eager = false) {
  auto options = detail::sized<cugrt_session_options>();
  options.eager = eager;
  return options;
}

/// The elements of a value that is a tensor.
template <class T = float> std::vector<T> contents(const Value &value) {
  return download<T>(value.as.tensor.address, elements(value.as.tensor));
}

struct Program {
  explicit Program(Executable made, cugrt_session_options options = session_options(),
                   const Weights &weights = Weights())
      : executable(std::move(made)), session(executable, emulated_runtime(), weights, options) {}
  explicit Program(const std::string &text, cugrt_session_options options = session_options(),
                   const Weights &weights = Weights())
      : Program(Executable(emulated_runtime(), Module::parse(text)), options, weights) {}
  Program(const std::string &text, Way way, const Weights &weights = Weights())
      : Program(compile(text, way), session_options(way == Way::eager), weights) {}

  static Executable compile(const std::string &text, Way way) {
    auto options = detail::sized<cugrt_compile_options>();
    options.host_control = way == Way::host;
    return Executable(emulated_runtime(), Module::parse(text), &options);
  }

  Function main() const { return executable.function("main"); }
  /// A run that has ended.
  std::vector<Value> run(const std::vector<Value> &arguments, const char *function = "main") {
    std::vector<Value> results = session.run(executable.function(function), arguments);
    session.synchronize();
    return results;
  }

  Executable executable;
  Session session;
};

} // namespace cugrt::test
