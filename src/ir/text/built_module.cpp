// Handing modules over in memory; see built_module.h.
#include "ir/text/built_module.h"

#include "ir/text/text.h"

#include <cstring>

namespace cugrt::ir {

/// Equal in libraries whose modules have the same layout.
static const char *own_build() {
  static const std::string build = [] {
    std::string text = CUGRT_VERSION " " __VERSION__;
    for (const size_t bytes :
         {sizeof(Module), sizeof(Function), sizeof(Binding), sizeof(Kernel), sizeof(Symbol),
          sizeof(Type), sizeof(ExprNode), sizeof(cugrt_built_module)})
      text += " " + std::to_string(bytes);
    return text;
  }();
  return build.c_str();
}

Result<cugrt_built_module> make_built(Module module) {
  CUGRT_TRY(check_text_limits(module));
  auto text = std::make_shared<const std::string>(print_with_places(module));
  return cugrt_built_module{
      own_build(), std::make_shared<const Module>(std::move(module)), std::move(text), {}};
}

Status check_built(const cugrt_built_module &built, std::string_view file) {
  if (std::strcmp(built.build, own_build()) != 0)
    return Status::error(Code::invalid_argument, "'" + std::string(file) +
                                                     "': the library that built the module is of " +
                                                     built.build + ", this one of " + own_build());
  Diagnostics diagnostics;
  verify(*built.module, diagnostics);
  return diagnostics.to_status(Code::verify_error, file, *built.text);
}

} // namespace cugrt::ir
