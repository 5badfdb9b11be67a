// Declarations of kernels/cache_write.cu, prompt.cu, advance.cu and embedding_blocks.cu.
#include "llm/architectures/state_kernels.h"

namespace cugrt::llm {

namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

constexpr const char *kState = R"(cugrt 1
kernel @cache_write {
  source "builtin:cache_write.cu"
  entry "cache_write"
  options ["-fmad=false"DTYPE_FLAG]
  params (keys: in ELEMENT, values: in ELEMENT, positions: in i32, lengths: in i32, key_cache: inout ELEMENT,
          value_cache: inout ELEMENT, rows: symbol i64, each: symbol i64, places: symbol i64, capacity: symbol i64,
          width: symbol i64)
  launch { grid (ceildiv(rows*width, 256), 1, 1) block (256, 1, 1) }
}
kernel @cache_write_at {
  source "builtin:cache_write.cu"
  entry "cache_write"
  options ["-fmad=false", "-DHAS_PLACES"DTYPE_FLAG]
  params (keys: in ELEMENT, values: in ELEMENT, positions: in i32, lengths: in i32, of_sequence: in i32,
          key_cache: inout ELEMENT, value_cache: inout ELEMENT, rows: symbol i64, each: symbol i64,
          places: symbol i64, capacity: symbol i64, width: symbol i64)
  launch { grid (ceildiv(rows*width, 256), 1, 1) block (256, 1, 1) }
}
kernel @prompt_rows {
  source "builtin:prompt.cu"
  entry "prompt_rows"
  params (request: in i32, positions: out i32, place: out i32, sequence: out i32, own: out i32, last: out i32,
          rows: symbol i64)
  launch { grid (ceildiv(rows, 64), 1, 1) block (64, 1, 1) }
}
kernel @prompt_end {
  source "builtin:prompt.cu"
  entry "prompt_end"
  params (request: in i32, next: in i32, tokens: inout i32, positions: inout i32, lengths: inout i32,
          places: symbol i64)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @advance {
  source "builtin:advance.cu"
  entry "advance"
  params (next: in i32, tokens: inout i32, positions: inout i32, lengths: inout i32, places: symbol i64)
  launch { grid (ceildiv(places, 256), 1, 1) block (256, 1, 1) }
}
)";

constexpr const char *kEmbedding = R"(kernel @embedding_blocks {
  source "builtin:embedding_blocks.cu"
  entry "embedding_blocks"
  options ["-fmad=false"DTYPE_FLAG, "-DFORMAT=FORMAT_NUMBER"]
  params (table: in TABLE, ids: in i32, y: out ELEMENT, count: symbol i64, rows: symbol i64, width: symbol i64)
  launch { grid (ceildiv(count*width, 256), 1, 1) block (256, 1, 1) }
}
)";

/// As embedding_blocks.cu numbers the formats.
std::string_view format_of(ir::DType table) {
  return table == ir::DType::q4_0   ? "40"
         : table == ir::DType::q4_1 ? "41"
         : table == ir::DType::q8_0 ? "80"
                                    : "";
}

} // namespace

bool has_embedding(ir::DType table) { return !format_of(table).empty(); }

std::string state_kernels(ir::DType dtype, ir::DType table) {
  std::string text = kState;
  if (has_embedding(table))
    text += replaced(replaced(kEmbedding, "TABLE", ir::info(table).name), "FORMAT_NUMBER",
                     format_of(table));
  text = replaced(std::move(text), "DTYPE_FLAG",
                  dtype == ir::DType::f16    ? ", \"-DDTYPE_F16\""
                  : dtype == ir::DType::bf16 ? ", \"-DDTYPE_BF16\""
                                             : "");
  return replaced(std::move(text), "ELEMENT", ir::info(dtype).name);
}

} // namespace cugrt::llm
