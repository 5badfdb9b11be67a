// Which products and softmaxes FuseAttention makes the op `attention`:
//
//   q --> [x scale] --> matmul --> [x scale] --> [+ mask, where] --> softmax --> [guard] --> matmul
//   k --> [x scale] ----'                                                             v ----'
//
//   q, k, v   [B, H, length, D], [B H, length, D] or [A, B, H, length, D], k also with its last two
//             dimensions exchanged; transposes, scales and reshapes before them are looked through,
//             a slice of a product of all three likewise, and the broadcast that repeats heads of
//             keys and values; values may be wider than queries and keys
//   scale     constants, and between the products a tensor that is alike for all positions of a row
//   mask      what is added, or what where() chooses in the place of scores, scalars of at most
//             -10,000 or -infinity; also before a scale, by which it is multiplied then
//   v, weights  may stand the other way round, v with its last two dimensions exchanged and weights
//             transposed: the result is exchanged, too, as images [B, D, pixels] have it
//   guard     where() that makes rows 0 of which nothing is seen: by is_nan of the softmax, or by
//             the mask's largest element
//
// All ops lie in one block, and nothing else reads the values between the products.
#pragma once

#include "ops/table/ops.h"

#include <map>
#include <string>
#include <vector>

namespace cugrt::passes {

/// An operand of the products as [B, H, length, D]: of `value`, as `parts` if these are not empty,
/// the slice, if any, reshaped, if `reshaped` is not empty, and then read through `axes`.
struct HeadsOperand {
  ir::ValueId value;
  double scale = 1;
  std::vector<ir::ExprId> parts{};
  std::vector<int64_t> turn{};
  std::vector<ir::ExprId> begin, size; // of the slice; empty: none
  std::vector<ir::ExprId> reshaped;
  std::vector<int64_t> axes;
};

/// A step of the mask, from the product on.
struct MaskPart {
  ir::ValueId value;            // what is added, or a condition
  bool is_condition;            // scores that are not seen become `fill`
  bool hides_where_true;        // of a condition
  double fill;                  // of a condition, as the softmax reads it
  double scale;                 // of what is added, by which it is multiplied before the softmax
  std::vector<ir::ExprId> dims; // of the value, as it stretches to [B, H, Q, P]
  /// Dimensions to broadcast to first, if scores have sequences in two dimensions and the mask is
  /// the same along one of them; empty: none.
  std::vector<ir::ExprId> repeated{};
};

/// Values and bindings are those of the function that was looked at.
struct AttentionMatch {
  const ir::Binding *product = nullptr;     // the second one, where the op is computed
  bool is_turned = false;                   // it gives [.., D, Q]
  std::vector<const ir::Binding *> members; // all others that are computed no more
  HeadsOperand q, k, v;
  ir::ExprId sequences, heads, queries, positions;
  int64_t wider = 0; // by so much values are than queries and keys
  double scale = 1;
  ir::ValueId factors;                 // by which scores are multiplied, too; invalid: none
  std::vector<ir::ExprId> factor_dims; // as they stretch to [B, H, Q, 1]
  bool causal = false;
  std::vector<MaskPart> mask;
  ir::DType mask_dtype = ir::DType::f32;
  /// A row that the mask hides whole by -infinity has NaN as result, where the op has 0.
  bool hidden_rows_are_nan = false;
};

struct AttentionMatches {
  std::vector<AttentionMatch> matches;
  std::map<std::string, int> notes; // softmaxes between products that stay, with the reason
};

/// The op's cost without tensor cores, and its dtype.
struct AttentionTarget {
  bool has_tensor_cores = false; // of a device
  bool becomes_narrow = false;   // f32 will be f16 or bf16
};

/// Matches in a function whose expressions and types are those of `module`, to whose pool some are
/// added. `written`: for each value, whether its bytes may be written after it is defined.
AttentionMatches match_attention(ir::Module &module, const ir::Function &function,
                                 const AttentionTarget &target, const std::vector<bool> &written);

} // namespace cugrt::passes
