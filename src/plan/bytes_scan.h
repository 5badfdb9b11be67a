// A look over the bytes of a plan before a parser sees them: nesting and lengths within bounds.
#pragma once

#include <string_view>

namespace cugrt::plan {

/// Whether brackets outside of strings nest at most kMaxByteNesting deep. Says nothing of syntax.
bool scan_json(std::string_view bytes);
/// Whether the bytes are one CBOR item of definite lengths, with the types that plans use, nested
/// at most kMaxByteNesting deep, every length within the bytes.
bool scan_cbor(std::string_view bytes);

inline constexpr int kMaxByteNesting = 16;

} // namespace cugrt::plan
