// Text (JSON) and binary (CBOR) forms of plans; both round-trip.
#pragma once

#include "plan/plan.h"

namespace cugrt::plan {

std::string to_json(const Plan &plan);
std::string to_cbor(const Plan &plan);
/// Reads either form; every index and enumerator is checked, then validate() is run. A plan of
/// another version is Code::unsupported; anything malformed Code::parse_error.
Result<Plan> from_bytes(std::string_view bytes);

} // namespace cugrt::plan
