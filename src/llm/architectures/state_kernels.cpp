// Declarations of kernels/prompt.cu, sample.cu, decode_end.cu and embedding_blocks.cu.
#include "llm/architectures/state_kernels.h"

namespace cugrt::llm {

namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

constexpr const char *kState = R"(cugrt 1
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
  options ["-fmad=false"]
  params (request: in i32, logits: in f32, samplers: in i32, counts: inout i32, tokens: inout i32,
          positions: inout i32, lengths: inout i32, places: symbol i64, vocabulary: symbol i64)
  launch { grid (1, 1, 1) block (1024, 1, 1) }
}
kernel @sample_step {
  source "builtin:sample.cu"
  entry "sample_step"
  options ["-fmad=false"]
  params (logits: in f32, samplers: in i32, counts: inout i32, tokens: inout i32, positions: inout i32,
          lengths: inout i32, places: symbol i64, vocabulary: symbol i64)
  launch { grid (places, 1, 1) block (1024, 1, 1) }
}
kernel @decode_begin {
  source "builtin:decode_end.cu"
  entry "decode_begin"
  params (goes_on: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @decode_end {
  source "builtin:decode_end.cu"
  entry "decode_end"
  params (tokens: in i32, positions: in i32, lengths: inout i32, limits: in i32, ends: in i32, words: inout i32,
          cancel: in i32, ring: inout i32, goes_on: out i32, places: symbol i64, vocabulary: symbol i64,
          capacity: symbol i64)
  launch { grid (1, 1, 1) block (256, 1, 1) }
}
)";

constexpr const char *kEmbedding = R"(kernel @embedding_blocks {
  source "builtin:embedding_blocks.cu"
  entry "embedding_blocks"
  options ["-fmad=false"DTYPE_FLAG, "-DFORMAT=FORMAT_TABLE"]
  params (table: in TABLE, ids: in i32, y: out ELEMENT, count: symbol i64, rows: symbol i64, width: symbol i64)
  launch { grid (ceildiv(count*width, 256), 1, 1) block (256, 1, 1) }
}
)";

} // namespace

std::string state_kernels(ir::DType dtype, ir::DType table) {
  std::string text = kState;
  if (ir::info(table).kind == ir::DTypeKind::block)
    text += replaced(kEmbedding, "TABLE", ir::info(table).name);
  text = replaced(std::move(text), "DTYPE_FLAG",
                  dtype == ir::DType::f16    ? ", \"-DDTYPE_F16\""
                  : dtype == ir::DType::bf16 ? ", \"-DDTYPE_BF16\""
                                             : "");
  return replaced(std::move(text), "ELEMENT", ir::info(dtype).name);
}

} // namespace cugrt::llm
