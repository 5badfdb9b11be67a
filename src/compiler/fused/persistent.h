// Launches of a decode step, one after the other, as one: phases of a kernel whose blocks stay and
// exchange rows through words in memory (kernels/language/persistent.cuh). The kernel is generated:
// phases of equal text are one form, and a table has what each of them reads and writes.
//
//   row of the table: form | the next product's row | addresses: weights, caches, words, ..
//
// Results are those of the launches one by one, bit for bit.
#pragma once

#include "compiler/fused/products.h"

#include <variant>

namespace cugrt::codegen {

/// Attention of one query a sequence over caches, in the form of ops/attention/grouped_form.h.
struct AttentionPhase {
  ir::ValueId q, keys, values, lengths, places; // the last two may be invalid
  ir::ValueId result;                           // allocated
  bool causal;
  int64_t window; // 0: none
  double scale;   // 0: by the width
};

/// The phases of one launch, in their order.
struct PersistentRun {
  std::vector<std::variant<ProductKernel, AttentionPhase>> phases;
  std::vector<ir::ValueId> exchanged; // results that other phases read, and nothing else
  SourceLocation location;
};

/// Appends the launch. Code::unsupported if no kernel can be made; the bindings appended until then
/// only read or allocate.
Status emit_persistent(KernelTable &table, ir::FunctionBuilder &builder, const PersistentRun &run);

} // namespace cugrt::codegen
