// What the emulated driver's checks tell, which no real driver can: work without the order that the
// documents ask of programs. The findings are lines of text that begin with the check's name.
#include "graph_builder.h"

#include <dlfcn.h>

namespace cugrt::conformance {

using Kind = ScriptCase::Kind;

namespace {

constexpr char kChecks[] = "CUGRT_EMU_CHECK=nodes,programmatic";

/// How many findings begin with the check's name.
uint64_t findings(Script &s, const std::string &check) {
  using Get = CUresult (*)(char *, size_t *);
  auto get = reinterpret_cast<Get>(dlsym(s.driver.library, "cuEmuGetFindings"));
  if (!get)
    return ~uint64_t(0);
  size_t bytes = 0;
  s.need(get(nullptr, &bytes));
  std::string text(bytes, '\0');
  s.need(get(text.data(), &bytes));
  uint64_t count = 0;
  for (size_t from = 0; from < text.size();) {
    count += text.compare(from, check.size(), check) == 0;
    from = std::min(text.find('\n', from), text.size() - 1) + 1;
  }
  return count;
}

void unordered_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(2, 1);
  CUgraphNode first = g.affine(cell, 1, 1);
  g.affine(cell, 1, 1); // the same bytes, and no path between the two
  g.affine(cell + 4, 1, 1, {first});
  CUgraphExec exec = g.instantiate();
  launched(s, exec, cell);
  s.expect("one pair", findings(s, "nodes"), 1);
}

void ordered_script(Script &s) {
  GraphBuilder g(s);
  CUdeviceptr cell = s.words(2, 1);
  CUgraphNode first = g.affine(cell, 1, 1);
  CUgraphNode between = g.empty({first});
  g.affine(cell, 1, 1, {between});
  g.affine(cell + 4, 1, 1); // other bytes
  CUgraphExec exec = g.instantiate();
  s.expect("in order", launched(s, exec, cell), 3);
  s.expect("nothing to tell", findings(s, "nodes"), 0);
}

} // namespace

const std::vector<ScriptCase> &check_scripts() {
  static const std::vector<ScriptCase> scripts = {
      {"nodes without order that share bytes are told",
       Kind::emulated_only,
       {{"cuGraphAddDependencies", "at corresponding indices define a dependency"}},
       unordered_script,
       12020,
       kChecks},
      {"nodes in order, or of other bytes, are not",
       Kind::emulated_only,
       {{"cuGraphAddDependencies", "at corresponding indices define a dependency"}},
       ordered_script,
       12020,
       kChecks},
  };
  return scripts;
}

} // namespace cugrt::conformance
