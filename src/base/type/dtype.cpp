// The data type table.
#include "base/type/dtype.h"

#include "base/check.h"

namespace cugrt::ir {

// X-macro names are C++ identifiers; only boolean is written otherwise in text.
static constexpr std::string_view text_name(std::string_view name) {
  return name == "boolean" ? std::string_view("bool") : name;
}

static constexpr DTypeInfo kTable[] = {
#define CUGRT_DTYPE(name, kind, elements, bytes)                                                   \
  {text_name(#name), DTypeKind::kind, elements, bytes},
#include "base/type/dtypes.def"
#undef CUGRT_DTYPE
};

const DTypeInfo &info(DType dtype) {
  CUGRT_CHECK(static_cast<size_t>(dtype) < std::size(kTable));
  return kTable[static_cast<size_t>(dtype)];
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kTable); ++i)
    if (kTable[i].name == name)
      return static_cast<DType>(i);
  return std::nullopt;
}

} // namespace cugrt::ir
