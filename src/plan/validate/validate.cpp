// validate(): all parts, in order.
#include "plan/validate/validate.h"

#include "plan/validate/validate_parts.h"

namespace cugrt::plan {

Status validate(const Plan &plan) {
  CUGRT_TRY(validate_structure(plan));
  CUGRT_TRY(validate_buffers(plan));
  CUGRT_TRY(validate_regions(plan));
  return validate_storage(plan);
}

} // namespace cugrt::plan
