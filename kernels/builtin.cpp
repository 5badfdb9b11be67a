// Lookup in the generated table of kernel sources.
#include "kernels/builtin.h"

namespace cugrt::kernels {

std::span<const BuiltinSource> builtin_sources() {
  return {detail::kSources, detail::kSourceCount};
}

std::optional<std::string_view> builtin_source(std::string_view name) {
  for (const BuiltinSource &source : builtin_sources())
    if (source.name == name)
      return source.text;
  return std::nullopt;
}

} // namespace cugrt::kernels
