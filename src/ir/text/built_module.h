// Modules in memory on their way from the library that builds them (the importer of ONNX files,
// that of language models) to libcugrt.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>

/// Object behind the C ABI's handle. Both libraries must be of one build: `build`, the first member
/// in every version, tells.
struct cugrt_built_module {
  const char *build = nullptr;
  std::shared_ptr<const cugrt::ir::Module> module;
  std::shared_ptr<const std::string> text; // printed; its parts' places are the module's
  /// Keyed by line of the text: the name in the file that it was made from, such as an ONNX node's.
  std::map<uint32_t, std::string> names{};
};

namespace cugrt::ir {

/// Prints the module and gives every part of it the place at which it stands in that text, so that
/// messages quote lines. Code::unsupported where text cannot hold it.
Result<cugrt_built_module> make_built(Module module);

/// Whether another library's module may be used: it is of this build and verified. `file` names the
/// text in messages.
Status check_built(const cugrt_built_module &built, std::string_view file);

} // namespace cugrt::ir
