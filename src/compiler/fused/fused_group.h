// Makes generated kernels of a group of ops.
//
// A kernel computes one result. At most one of its ops is an *anchor*, one of the library's kernels
// with places for other ops (kernels/shared/fusion.cuh): a reduction, behind ops on its loads; or a
// matmul, convolution, softmax and so on; either before ops on its stores. The others, elementwise
// ops with broadcasting, transpositions and reshapes, are computed element by element.
//
// Results are those of the ops one by one, bit for bit: each op's result is rounded to its dtype,
// the arithmetic is the same source (kernels/elementwise/elementwise.cuh), and products and sums
// are contracted only where the source says so.
#pragma once

#include "base/status.h"
#include "ir/module/builder.h"
#include "ops/emit/kernel_table.h"
#include "ops/table/ops.h"

#include <vector>

namespace cugrt::codegen {

struct FusedOp {
  ir::Op op;
  std::vector<ir::Attribute> attributes;
  std::vector<uint32_t> operands; // values of the group; kNoValue: absent
  uint32_t result;
};

struct FusedGroup {
  static constexpr uint32_t kNoValue = UINT32_MAX;
  struct Value {
    ir::TypeId type; // a contiguous tensor of known shape
    ir::ValueId
        given; // in the function that is built: of the group's inputs, and what was launched
  };
  std::vector<Value> values;
  std::vector<FusedOp> ops; // each after what it uses; the last one's result is the group's
  SourceLocation location{};
};

/// Ops that are computed together, in order: one op, or several that become one kernel.
struct FusedPart {
  std::vector<uint32_t> ops; // of the group, in order
};

/// Whether an op on operands of these types (absent ones invalid) may be part of a generated
/// kernel: arithmetic there is on floats.
bool can_fuse(const ir::Module &module, ir::Op op, std::span<const ir::TypeId> operands,
              ir::TypeId result);

/// "fused_matmul_add_relu": of a function or kernel of these ops; of many, the first six.
std::string fused_name(std::span<const ir::Op> ops);

/// Few parts, in order, of which kernels can be made. Ops that need none (reshapes at the ends)
/// stand alone. Several parts may compute the same op.
std::vector<FusedPart> split_group(ir::Module &module, const FusedGroup &group);

/// Appends the launch of a part of several ops, whose last result is `result`, an allocated tensor.
/// Code::unsupported when no kernel can be made; nothing has been appended then.
Status emit_fused(KernelTable &table, ir::FunctionBuilder &builder, const FusedGroup &group,
                  const FusedPart &part, ir::ValueId result);

} // namespace cugrt::codegen
