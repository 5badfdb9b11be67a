// Declarations of kernels/language/prompt.cu, sample.cu and decode_words.cu; draft.cu and
// verify.cu.
#include "fronts/llm/architectures/decoder.h"

namespace cugrt::llm {

const char *const kStateKernels = R"(cugrt 1
kernel @prompt_rows {
  source "builtin:prompt.cu"
  entry "prompt_rows"
  params (request: in i32, ids: in i32, counts: inout i32, positions: out i32, place: out i32, sequence: out i32,
          own: out i32, last: out i32, rows: symbol i64, vocabulary: symbol i64)
  launch { grid (ceildiv(rows, 64), 1, 1) block (64, 1, 1) }
}
kernel @sample_prompt {
  source "builtin:sample.cu"
  entry "sample_prompt"
  options ["-fmad=false", "-DOF_PROMPT"]
  params (request: in i32, logits: in f32, samplers: in i32, counts: inout i32, tokens: inout i32,
          positions: inout i32, lengths: inout i32, places: symbol i64, vocabulary: symbol i64)
  launch { grid (1, 1, 1) block (1024, 1, 1) }
}
kernel @sample_step {
  source "builtin:sample.cu"
  entry "sample_step"
  options ["-fmad=false"]
  params (logits: in f32, samplers: in i32, counts: inout i32, tokens: inout i32, positions: inout i32,
          lengths: inout i32, limits: in i32, ends: in i32, told: in i32, steps: inout i32, ring: inout i32,
          published: inout i32, goes_on: out i32, places: symbol i64, vocabulary: symbol i64, capacity: symbol i64)
  launch { grid (places, 1, 1) block (1024, 1, 1) }
}
kernel @decode_begin {
  source "builtin:decode_words.cu"
  entry "decode_begin"
  params (goes_on: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @decode_hear {
  source "builtin:decode_words.cu"
  entry "decode_hear"
  params (heard: in i32, told: out i32, count: symbol i64)
  launch { grid (ceildiv(count, 256), 1, 1) block (256, 1, 1) }
}
)";

const char *const kDraftKernels = R"(
kernel @prompt_text {
  source "builtin:draft.cu"
  entry "prompt_text"
  params (request: in i32, ids: in i32, texts: inout i32, rows: symbol i64, context: symbol i64)
  launch { grid (ceildiv(rows, 64), 1, 1) block (64, 1, 1) }
}
kernel @draft_rows {
  source "builtin:draft.cu"
  entry "draft_rows"
  params (tokens: in i32, positions: in i32, lengths: in i32, limits: in i32, texts: inout i32, ids: out i32,
          row_positions: out i32, row_places: out i32, row_lengths: out i32, places: symbol i64, rows: symbol i64,
          context: symbol i64)
  launch { grid (places, 1, 1) block (256, 1, 1) }
}
kernel @verify_step {
  source "builtin:verify.cu"
  entry "verify_step"
  options ["-fmad=false"]
  params (logits: in f32, samplers: in i32, counts: inout i32, tokens: inout i32, positions: inout i32,
          lengths: inout i32, limits: in i32, ends: in i32, told: in i32, steps: inout i32, ring: inout i32,
          published: inout i32, goes_on: out i32, ids: in i32, row_lengths: in i32, texts: inout i32,
          chosen: out i32, places: symbol i64, vocabulary: symbol i64, capacity: symbol i64, rows: symbol i64,
          context: symbol i64)
  launch { grid (places * rows, 1, 1) block (1024, 1, 1) }
}
)";

} // namespace cugrt::llm
