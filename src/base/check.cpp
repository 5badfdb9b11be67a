// Reporting of broken invariants.
#include "base/check.h"

#include <string>

namespace cugrt {

void broken_invariant(const char *condition, const char *file, int line) {
  throw BrokenInvariant(std::string(file) + ":" + std::to_string(line) +
                        ": broken invariant: " + condition);
}

} // namespace cugrt
