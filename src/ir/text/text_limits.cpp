// Finds parts of modules that do not fit in text. Parsed modules are within these limits; passes
// may exceed them.
#include "ir/module/module.h"
#include "ir/text/text.h"

namespace cugrt::ir {

namespace {

class TextLimits {
public:
  TextLimits(const Module &module, const Function &function) : m_(module), f_(function) {}

  Status check() {
    CUGRT_TRY(count(f_.params.size(), "parameters", f_.location));
    for (const Value &value : f_.values)
      CUGRT_TRY(tuple(value.type, value.location));
    for (TypeId type : f_.result_types)
      CUGRT_TRY(tuple(type, f_.location));
    for (const Block &block : f_.blocks) {
      CUGRT_TRY(count(block.results.count, "results", block.end_location));
      for (const Binding &binding : block.bindings) {
        CUGRT_TRY(count(binding.operands.count, "operands", binding.location));
        CUGRT_TRY(count(binding.result_count, "results", binding.location));
      }
    }
    return {};
  }

private:
  Status count(size_t have, const char *what, SourceLocation location) const {
    return have <= kMaxOperands ? Status() : beyond(have, what, location);
  }

  Status tuple(TypeId type, SourceLocation location) const {
    if (m_.types.nesting(type) > kMaxNesting)
      return beyond(m_.types.nesting(type), "tuples in each other", location);
    return count(m_.types.leaf_count(type), "parts of a tuple", location);
  }

  Status beyond(size_t have, const char *what, SourceLocation location) const {
    return located(Code::unsupported, f_, location,
                   std::to_string(have) + " " + what + ", more than the text of a module can hold");
  }

  const Module &m_;
  const Function &f_;
};

} // namespace

Status check_text_limits(const Module &module) {
  for (const Function &function : module.functions)
    CUGRT_TRY(TextLimits(module, function).check());
  return {};
}

} // namespace cugrt::ir
