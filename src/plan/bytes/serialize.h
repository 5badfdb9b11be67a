// Plans as bytes, in CBOR; they round-trip.
#pragma once

#include "plan/format/plan.h"

namespace cugrt::plan {

std::string to_bytes(const Plan &plan);
/// Every index and enumerator is checked, then validate() is run. A plan of another version is
/// Code::unsupported; anything malformed Code::parse_error.
Result<Plan> from_bytes(std::string_view bytes);

} // namespace cugrt::plan
