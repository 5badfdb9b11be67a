// Queries, keys and values that are parts of the rows of one tensor: attention reads them where
// they lie, with the results of the rule in double precision.
#include "attention_forms.h"

using namespace cugrt;
using namespace cugrt::test;

TEST_CASE("rows of attention that are parts of others are read where they lie") {
  // Of q, k and v [2, 4, L, 8]: rows beside each other.
  const auto flat = [](const std::string &x) {
    return "  %" + x + "t = transpose(%" + x + ") {axes = [0, 2, 1, 3]}\n  %" + x +
           "f = reshape(%" + x + "t, %flat)\n";
  };
  const std::string rows = "  %flat = shape [2, {Q}, 32]\n" + flat("q") + flat("k") + flat("v") +
                           "  %all = concat(%qf, %kf, %vf) {axis = 2}\n";
  const std::string attend = "  %kk = transpose(%k1) {axes = [0, 1, 3, 2]}\n"
                             "  %s = matmul(%q1, %kk)\n  %t = mul(%s, %quarter)\n"
                             "  %p = softmax(%t)\n  %y = matmul(%p, %v1)\n";
  const auto heads_of = [](const std::string &x) {
    return "  %" + x + "h = reshape(%" + x + "s, %heads)\n  %" + x + "1 = transpose(%" + x +
           "h) {axes = [0, 2, 1, 3]}\n";
  };
  const std::string heads =
      "  %heads = shape [2, {Q}, 4, 8]\n" + heads_of("q") + heads_of("k") + heads_of("v") + attend;
  const auto part = [](const std::string &x, const std::string &of, int begin) {
    return "  %" + x + "s = slice(%" + of + ") {starts = [" + std::to_string(begin) +
           "], ends = [" + std::to_string(begin + 32) + "], axes = [2]}\n";
  };
  const std::string columns = part("q", "all", 0) + part("k", "all", 32) + part("v", "all", 64);
  // As torch's exporter writes it.
  check_all({.name = "heads of three",
             .scores = rows +
                       "  %dims = shape [2, {Q}, 3, 4, 8]\n  %one = shape [2, 4, {Q}, 8]\n"
                       "  %packed = reshape(%all, %dims)\n"
                       "  %x = transpose(%packed) {axes = [2, 0, 3, 1, 4]}\n"
                       "  %q5 = slice(%x) {starts = [0], ends = [1], axes = [0]}\n"
                       "  %k5 = slice(%x) {starts = [1], ends = [2], axes = [0]}\n"
                       "  %v5 = slice(%x) {starts = [2], ends = [3], axes = [0]}\n"
                       "  %q1 = reshape(%q5, %one)\n  %k1 = reshape(%k5, %one)\n"
                       "  %v1 = reshape(%v5, %one)\n" +
                       attend,
             .positions = 5,
             .strided = 3});
  // With sequences and heads joined, as segmenters have them.
  const std::string three = "  %kk = transpose(%k1) {axes = [0, 2, 1]}\n"
                            "  %s = matmul(%q1, %kk)\n  %t = mul(%s, %quarter)\n"
                            "  %p = softmax(%t)\n  %y3 = matmul(%p, %v1)\n"
                            "  %first = shape [2, 4, {Q}, 8]\n  %y = reshape(%y3, %first)\n";
  check_all({.name = "heads of three, joined",
             .scores = rows +
                       "  %dims = shape [2, {Q}, 3, 4, 8]\n  %joined = shape [3, 8, {Q}, 8]\n"
                       "  %one = shape [8, {Q}, 8]\n  %packed = reshape(%all, %dims)\n"
                       "  %turned = transpose(%packed) {axes = [2, 0, 3, 1, 4]}\n"
                       "  %x = reshape(%turned, %joined)\n"
                       "  %q5, %k5, %v5 = split(%x) {axis = 0, sections = [1, 1, 1]}\n"
                       "  %q1 = reshape(%q5, %one)\n  %k1 = reshape(%k5, %one)\n"
                       "  %v1 = reshape(%v5, %one)\n" +
                       three,
             .positions = 5,
             .strided = -1});
  // With sequences behind rows, as torch's MultiheadAttention has them.
  check_all({.name = "heads of three, sequences behind rows",
             .scores = rows +
                       "  %behind = transpose(%all) {axes = [1, 0, 2]}\n"
                       "  %dims = shape [1, {Q}, 2, 3, 32]\n  %four = shape [3, {Q}, 2, 32]\n"
                       "  %joined = shape [{Q}, 8, 8]\n  %c0 = constant @c0\n"
                       "  %c1 = constant @c1\n  %c2 = constant @c2\n"
                       "  %packed = reshape(%behind, %dims)\n"
                       "  %turned = transpose(%packed) {axes = [3, 1, 2, 0, 4]}\n"
                       "  %x = reshape(%turned, %four)\n"
                       "  %q5 = gather(%x, %c0) {axis = 0}\n  %k5 = gather(%x, %c1) {axis = 0}\n"
                       "  %v5 = gather(%x, %c2) {axis = 0}\n  %q3 = reshape(%q5, %joined)\n"
                       "  %k3 = reshape(%k5, %joined)\n  %v3 = reshape(%v5, %joined)\n"
                       "  %q1 = transpose(%q3) {axes = [1, 0, 2]}\n"
                       "  %k1 = transpose(%k3) {axes = [1, 0, 2]}\n"
                       "  %v1 = transpose(%v3) {axes = [1, 0, 2]}\n" +
                       three,
             .constants = "constant @c0 : tensor<[], i64> = [0]\n"
                          "constant @c1 : tensor<[], i64> = [1]\n"
                          "constant @c2 : tensor<[], i64> = [2]\n",
             .positions = 5,
             .strided = -1});
  // As torch's exporter of exported programs turns keys: in three dimensions, between reshapes.
  const std::string turned = "  %joined = shape [8, {P}, 8]\n  %parted = shape [2, 4, 8, {P}]\n"
                             "  %k3 = reshape(%k1, %joined)\n"
                             "  %kt3 = transpose(%k3) {axes = [0, 2, 1]}\n"
                             "  %kk = reshape(%kt3, %parted)\n"
                             "  %s = matmul(%q1, %kk)\n  %t = mul(%s, %quarter)\n"
                             "  %p = softmax(%t)\n  %y = matmul(%p, %v1)\n";
  check_all({.name = "keys turned in three dimensions",
             .scores = rows + columns + "  %heads = shape [2, {Q}, 4, 8]\n" + heads_of("q") +
                       heads_of("k") + heads_of("v") + turned,
             .positions = 5,
             .strided = 3});
  check_all({.name = "columns", .scores = rows + columns + heads, .positions = 5, .strided = 3});
  // Products of one tensor, which become one: here by weights that choose columns.
  const auto chosen = [](int begin, bool transposed) {
    std::string text;
    for (int i = 0; i < 96 * 32; ++i)
      text +=
          (text.empty() ? "" : ", ") +
          std::string((transposed ? i % 96 - begin == i / 96 : i / 32 - begin == i % 32) ? "1.0"
                                                                                         : "0.0");
    return text;
  };
  const auto weights = [&](bool transposed) {
    std::string text;
    for (int i = 0; i < 3; ++i)
      text += "constant @w" + std::string(1, "qkv"[i]) + " : tensor<" +
              (transposed ? "[32, 96]" : "[96, 32]") + ", f32> = [" + chosen(32 * i, transposed) +
              "]\n";
    return text;
  };
  const std::string read = "  %wq = constant @wq\n  %wk = constant @wk\n  %wv = constant @wv\n";
  check_all({.name = "products",
             .scores = rows + read +
                       "  %qs = matmul(%all, %wq)\n  %ks = matmul(%all, %wk)\n"
                       "  %vs = matmul(%all, %wv)\n" +
                       heads,
             .constants = weights(false),
             .positions = 5,
             .strided = 3});
  check({.name = "products with biases, of transposed weights",
         .scores = rows + read +
                   "  %b = constant @quarters\n  %qless = sub(%qf, %quarter)\n"
                   "  %vless = sub(%vf, %quarter)\n"
                   "  %less = concat(%qless, %kf, %vless) {axis = 2}\n"
                   "  %qa = matmul(%less, %wq) {transpose_b = true}\n  %qs = add(%b, %qa)\n"
                   "  %ks = matmul(%less, %wk) {transpose_b = true}\n"
                   "  %vs = matmul(%less, %wv, %b) {transpose_b = true}\n" +
                   heads,
         .constants = weights(true) + "constant @quarters : tensor<[32], f32> = [" +
                      [] {
                        std::string text = "0.25";
                        for (int i = 1; i < 32; ++i)
                          text += ", 0.25";
                        return text;
                      }() +
                      "]\n",
         .positions = 5,
         .strided = 3});
  // Rows of an odd number of elements, which begin anywhere.
  check_all({.name = "odd rows",
             .scores = rows +
                       "  %odd = pad(%all) {before = [0, 0, 1], after = [0, 0, 2], value = 9.0}\n" +
                       part("q", "odd", 1) + part("k", "odd", 33) + part("v", "odd", 65) + heads,
             .positions = 5,
             .strided = 3});
  // Keys apart from values are copied. What something else reads is copied for that alone.
  check_all(
      {.name = "values alone",
       .scores = rows + columns +
                 "  %heads = shape [2, {Q}, 4, 8]\n  %k1 = transpose(%kt) {axes = [0, 2, 1, 3]}\n" +
                 heads_of("q") + heads_of("v") + attend,
       .positions = 5,
       .strided = 1});
  check({.name = "read twice",
         .scores = rows + columns + "  %heads = shape [2, {Q}, 4, 8]\n" + heads_of("q") +
                   heads_of("k") + heads_of("v") +
                   "  %kk = transpose(%k1) {axes = [0, 1, 3, 2]}\n"
                   "  %s = matmul(%q1, %kk)\n  %t = mul(%s, %quarter)\n"
                   "  %p = softmax(%t)\n  %y2 = matmul(%p, %v1)\n"
                   "  %n = sub(%qh, %qh)\n  %n1 = transpose(%n) {axes = [0, 2, 1, 3]}\n"
                   "  %y = add(%y2, %n1)\n",
         .positions = 5,
         .strided = 3});
}
