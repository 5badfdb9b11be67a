// Cases of bench kernels that are parts of models: what a decode step and a prompt of 8 thousand
// million parameters multiply, recurrences, the shapes of ResNets, attention and the small products
// of models for images and speech.
//
// Of decode steps three copies follow one another, each with weights of its own, as layers do: no
// cache holds them, and what a kernel fetches before its predecessor has ended is seen.
#include "bench/kernel_cases.h"

namespace cugrt::bench {
namespace {

// The layer's half with the inner width C: a norm, two products, their gate, a third and the sum.
// F: a format of blocks.
#define CUGRT_FFN_WEIGHTS(i, F)                                                                    \
  ", %g" i ": tensor<[C, K], " F ">, %u" i ": tensor<[C, K], " F ">, %d" i ": tensor<[K, C], " F ">"
#define CUGRT_FFN_PARAMS(F)                                                                        \
  "%x: tensor<[R, K], T>, %n: tensor<[K], T>" CUGRT_FFN_WEIGHTS("0", F) CUGRT_FFN_WEIGHTS("1", F)  \
      CUGRT_FFN_WEIGHTS("2", F)
#define CUGRT_FFN(i, x, y, op, how)                                                                \
  "%h" i " = rms_norm(" x ", %n) %a" i " = " op "(%h" i ", %g" i ") {" how "} %b" i " = " op       \
  "(%h" i ", %u" i ") {" how "} %s" i " = silu(%a" i ") %m" i " = mul(%s" i ", %b" i ") %o" i      \
  " = " op "(%m" i ", %d" i ") {" how "} " y " = add(" x ", %o" i ") "
#define CUGRT_FFN_BODY(op, how)                                                                    \
  CUGRT_FFN("0", "%x", "%x1", op, how)                                                             \
  CUGRT_FFN("1", "%x1", "%x2", op, how) CUGRT_FFN("2", "%x2", "%r", op, how)
#define CUGRT_FFN_CASE(name, F, op, how, rows, c, k)                                               \
  {                                                                                                \
    name, "f16", CUGRT_FFN_PARAMS(F), CUGRT_FFN_BODY(op, how), Ceiling::read, {rows, c, k},        \
        {rows, 14336, 4096}, nullptr, "tensor<[R, K], T>"                                          \
  }

// Two products of [K, K] a copy, behind a norm and before a sum.
#define CUGRT_SQUARE(i, x, y)                                                                      \
  "%h" i " = rms_norm(" x ", %n) %q" i " = matmul_blocks(%h" i ", %a" i ") {repacked = true} %o" i \
  " = matmul_blocks(%q" i ", %b" i ") {repacked = true} " y " = add(" x ", %o" i ") "

double tokens_product(const int64_t *s) { return 2.0 * double(s[0]) * double(s[1]) * double(s[2]); }
#define CUGRT_PREFILL(tokens)                                                                      \
  {                                                                                                \
    "prefill_q4_k_" #tokens, "f16", "%x: tensor<[R, K], T>, %w: tensor<[C, K], q4_k>",             \
        "matmul_blocks(%x, %w) {repacked = true}", Ceiling::mma, {16, 32, 256},                    \
        {tokens, 14336, 4096}, tokens_product                                                      \
  }

// R steps of C hidden, in K directions.
#define CUGRT_LSTM(hidden, directions)                                                             \
  {                                                                                                \
    "lstm_" #hidden "_" #directions, "f32",                                                        \
        "%x: tensor<[R, 1, K, 4*C], T>, %w: tensor<[K, C, 4*C], T>", "lstm(%x, %w)",               \
        Ceiling::read, {3, 32, directions}, {512, hidden, directions},                             \
        [](const int64_t *s) { return 8.0 * double(s[0] * s[2]) * double(s[1] * s[1]); },          \
        "tensor<[R, K, 1, C], T>, tensor<[K, 1, C], T>, tensor<[K, 1, C], T>"                      \
  }
#define CUGRT_GRU(hidden, directions)                                                              \
  {                                                                                                \
    "gru_" #hidden "_" #directions, "f32",                                                         \
        "%x: tensor<[R, 1, K, 3*C], T>, %w: tensor<[K, C, 3*C], T>", "gru(%x, %w)", Ceiling::read, \
        {3, 32, directions}, {512, hidden, directions},                                            \
        [](const int64_t *s) { return 6.0 * double(s[0] * s[2]) * double(s[1] * s[1]); },          \
        "tensor<[R, K, 1, C], T>, tensor<[K, 1, C], T>"                                            \
  }

// An image of R x R, C channels to K.
#define CUGRT_RESNET_3X3(size, channels)                                                           \
  {                                                                                                \
    "resnet_3x3_" #size, "f16", "%x: tensor<[1, R, R, C], T>, %w: tensor<[K, 3, 3, C], T>",        \
        "conv2d(%x, %w) {padding = [1, 1], channels_last = true}", Ceiling::mma, {4, 8, 8},        \
        {size, channels, channels},                                                                \
        [](const int64_t *s) { return 18.0 * double(s[0] * s[0]) * double(s[1] * s[2]); },         \
        "tensor<[1, R, R, K], T>"                                                                  \
  }
#define CUGRT_RESNET_1X1(size, from, to)                                                           \
  {                                                                                                \
    "resnet_1x1_" #size, "f16", "%x: tensor<[1, R, R, C], T>, %w: tensor<[K, 1, 1, C], T>",        \
        "conv2d(%x, %w) {channels_last = true}", Ceiling::mma, {4, 8, 8}, {size, from, to},        \
        [](const int64_t *s) { return 2.0 * double(s[0] * s[0]) * double(s[1] * s[2]); },          \
        "tensor<[1, R, R, K], T>"                                                                  \
  }

// R positions, C heads of K, as the op and as products with a softmax between.
#define CUGRT_ATTENTION(name, length, heads, width)                                                \
  {"attention_" name,                                                                              \
   "f16",                                                                                          \
   "%q: tensor<[1, R, C, K], T>, %k: tensor<[1, R, C, K], T>, %v: tensor<[1, R, C, K], T>",        \
   "attention(%q, %k, %v)",                                                                        \
   Ceiling::mma,                                                                                   \
   {9, 2, 16},                                                                                     \
   {length, heads, width},                                                                         \
   [](const int64_t *s) { return 4.0 * double(s[0] * s[0]) * double(s[1] * s[2]); },               \
   "tensor<[1, R, C, K], T>"},                                                                     \
  {                                                                                                \
    "attention_of_products_" name, "f16",                                                          \
        "%q: tensor<[1, R, C, K], T>, %k: tensor<[1, R, C, K], T>, %v: tensor<[1, R, C, K], T>",   \
        "%qt = transpose(%q) {axes = [0, 2, 1, 3]} %kt = transpose(%k) {axes = [0, 2, 3, 1]} "     \
        "%vt = transpose(%v) {axes = [0, 2, 1, 3]} %p = matmul(%qt, %kt) %a = softmax(%p) "        \
        "%y = matmul(%a, %vt) %r = transpose(%y) {axes = [0, 2, 1, 3]}",                           \
        Ceiling::mma, {9, 2, 16}, {length, heads, width},                                          \
        [](const int64_t *s) { return 4.0 * double(s[0] * s[0]) * double(s[1] * s[2]); },          \
        "tensor<[1, R, C, K], T>"                                                                  \
  }
#define CUGRT_SMALL_PRODUCT(name, rows, k, columns)                                                \
  {                                                                                                \
    "product_" name, "f16", "%x: tensor<[R, K], T>, %w: tensor<[K, C], T>", "matmul(%x, %w)",      \
        Ceiling::mma, {9, 16, 16}, {rows, columns, k}, tokens_product                              \
  }

constexpr KernelCase kParts[] = {
    CUGRT_FFN_CASE("decode_ffn_q4_k", "q4_k", "matmul_blocks", "repacked = true", 1, 256, 256),
    CUGRT_FFN_CASE("decode_ffn_q6_k", "q6_k", "matmul_blocks", "repacked = true", 1, 256, 256),
    CUGRT_FFN_CASE("decode_ffn_q8_0", "q8_0", "matmul_blocks", "repacked = true", 1, 64, 64),
    CUGRT_FFN_CASE("decode_ffn_f16", "f16", "matmul", "transpose_b = true", 1, 64, 64),
    CUGRT_FFN_CASE("decode_ffn_q4_k_8", "q4_k", "matmul_blocks", "repacked = true", 8, 256, 256),
    {"decode_square_q4_k",
     "f16",
     "%x: tensor<[R, K], T>, %n: tensor<[K], T>, %a0: tensor<[K, K], q4_k>, "
     "%b0: tensor<[K, K], q4_k>, %a1: tensor<[K, K], q4_k>, %b1: tensor<[K, K], q4_k>, "
     "%a2: tensor<[K, K], q4_k>, %b2: tensor<[K, K], q4_k>",
     CUGRT_SQUARE("0", "%x", "%x1") CUGRT_SQUARE("1", "%x1", "%x2") CUGRT_SQUARE("2", "%x2", "%r"),
     Ceiling::read,
     {1, 0, 256},
     {1, 0, 4096},
     nullptr,
     "tensor<[R, K], T>"},
    {"decode_head_q6_k",
     "f16",
     "%x: tensor<[R, K], T>, %n: tensor<[K], T>, %w: tensor<[C, K], q6_k>",
     "%h = rms_norm(%x, %n) %r = matmul_blocks(%h, %w) {repacked = true}",
     Ceiling::read,
     {1, 32, 256},
     {1, 49152, 4096},
     tokens_product},
    CUGRT_PREFILL(64),
    CUGRT_PREFILL(128),
    CUGRT_PREFILL(512),
    CUGRT_LSTM(256, 1),
    CUGRT_LSTM(512, 1),
    CUGRT_LSTM(512, 2),
    CUGRT_LSTM(1024, 1),
    CUGRT_GRU(512, 2),
    CUGRT_RESNET_3X3(56, 64),
    CUGRT_RESNET_3X3(28, 128),
    CUGRT_RESNET_3X3(14, 256),
    CUGRT_RESNET_3X3(7, 512),
    CUGRT_RESNET_1X1(56, 64, 256),
    CUGRT_RESNET_1X1(28, 512, 128),
    CUGRT_RESNET_1X1(14, 1024, 256),
    CUGRT_RESNET_1X1(7, 2048, 512),
    CUGRT_ATTENTION("image", 197, 3, 64),
    CUGRT_ATTENTION("speech", 1500, 6, 64),
    CUGRT_ATTENTION("text", 128, 12, 32),
    CUGRT_SMALL_PRODUCT("image", 197, 768, 192),
    CUGRT_SMALL_PRODUCT("speech", 1500, 384, 1536),
    CUGRT_SMALL_PRODUCT("text", 128, 384, 384),
};

} // namespace

std::span<const KernelCase> model_cases() { return kParts; }

} // namespace cugrt::bench
