// Functions that the forms of attention of domain com.microsoft share.
#pragma once

#include "fronts/onnx/call.h"

namespace cugrt::onnx {

/// [batch, length, heads * size] to [batch, length, heads, size].
V in_heads(Call &c, V x, int64_t heads);
/// [batch, length, heads, size] and [batch, heads, length, size] are each other's.
V swapped(Call &c, V x);
/// softmax(q k' scale + bias) v as [batch, length, heads * size], of queries [b, heads, length,
/// size] and keys and values [b, groups, ..]. Optional: the bias, and the sink, a score [heads]
/// without a value.
V attend(Call &c, V q, V k, V v, V bias, double scale, double cap, V sink);
/// A sum to the scores: `masked` where a condition does not hold.
V bias_where(Call &c, V holds, DType dtype, double masked);
V summed(Call &c, V a, V b);
/// x [.., n] with zeros behind it, up to [.., keys], which are masked.
V stretched(Call &c, V x, E keys);
/// A cache [batch, heads, room, size] and `more` rows of zeros behind it, in which row `place`
/// [batch, 1] of each sequence and the next ones are those of `fresh`, as many as `count` [batch,
/// 1] says, or all. Rows behind the end are left out.
V written(Call &c, V cache, V fresh, V place, V count, E more);
/// cosines or sines of positions [batch, length], for heads.
V angles(Call &c, V table, V positions);

void group_query_attention(Call &c);
void packed_attention(Call &c);
void packed_multi_head_attention(Call &c);

} // namespace cugrt::onnx
