// Which ops need no kernel: their results are bytes of their first operand.
#pragma once

#include "ops/table/ops.h"

#include <optional>
#include <vector>

namespace cugrt::codegen {

struct OpView {
  bool is_operand = false;               // the result is the operand itself
  std::vector<ir::ExprId> offsets_bytes; // of each result, within the operand
};

/// The results of an op on contiguous tensors of known shape, where they are runs of bytes of
/// operand 0; otherwise none. Absent operands have an invalid type. Errors are those of attributes.
Result<std::optional<OpView>> op_view(ir::Module &module, ir::Op op,
                                      std::span<const ir::TypeId> operands,
                                      std::span<const ir::TypeId> results,
                                      std::span<const ir::Attribute> attributes);

} // namespace cugrt::codegen
