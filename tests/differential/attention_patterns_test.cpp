// Attention that is written as products and a softmax: which forms FuseAttention takes, and that
// their results are those of the rule in double precision, rows of NaN included.
#include "attention_forms.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// A condition of [2, 1, 1, P]: sequence 0 sees the first positions, sequence 1 as many as said.
Array lengths_of(int64_t positions, int64_t first, int64_t second) {
  Array seen = Array::of({kB, 1, 1, positions});
  for (int64_t j = 0; j < positions; ++j) {
    seen.values[size_t(j)] = j < first;
    seen.values[size_t(positions + j)] = j < second;
  }
  return seen;
}

std::string matrix(int64_t n, const std::function<std::string(int64_t, int64_t)> &element) {
  std::string text = "[";
  for (int64_t i = 0; i < n * n; ++i)
    text += (i ? ", " : "") + element(i / n, i % n);
  return text + "]\n";
}

} // namespace

TEST_CASE("products with a softmax between them become attention, wherever the scale stands") {
  check_all({.name = "after the product", .scores = kScaled + "  %p = softmax(%t)\n" + kEnd});
  check_all({.name = "a quotient",
             .scores = kProduct +
                       "  %c = constant @four\n  %t = div(%s, %c)\n"
                       "  %p = softmax(%t)\n" +
                       kEnd,
             .constants = "constant @four : tensor<[], f32> = [4.0]\n"});
  check_all({.name = "on both sides",
             .scores = "  %kt = transpose(%k) {axes = [0, 1, 3, 2]}\n"
                       "  %q2 = mul(%q, %half)\n  %k2 = mul(%half, %kt)\n"
                       "  %s = matmul(%q2, %k2)\n  %p = softmax(%s) {axis = 3}\n" +
                       kEnd});
  check_all({.name = "none",
             .scores = "  %s = matmul(%q, %k) {transpose_b = true}\n  %p = softmax(%s)\n" + kEnd,
             .attribute = "scale = 1.0",
             .scale = 1});
  // As exporters write it for images, whose pixels stand behind channels.
  for (const char *end : {"  %pt = transpose(%p) {axes = [0, 1, 3, 2]}\n  %yt = matmul(%vt, %pt)\n",
                          "  %yt = matmul(%vt, %p) {transpose_b = true}\n"})
    check_all({.name = "values before weights",
               .scores = kScaled + "  %p = softmax(%t)\n" +
                         "  %vt = transpose(%v) {axes = [0, 1, 3, 2]}\n" + end +
                         "  %y = transpose(%yt) {axes = [0, 1, 3, 2]}\n"});
  check({.name = "weights of keys",
         .scores = kScaled +
                   "  %p = softmax(%t)\n  %pt = transpose(%p) {axes = [1, 0, 3, 2]}\n"
                   "  %vt = transpose(%v) {axes = [1, 0, 3, 2]}\n"
                   "  %yt = matmul(%vt, %pt)\n  %y = transpose(%yt) {axes = [1, 0, 3, 2]}\n",
         .is_found = false});
  check_all(
      {.name = "sequences and heads in one dimension",
       .scores =
           "  %d3 = shape [8, {Q}, 8]\n  %e3 = shape [8, {P}, 8]\n  %f = shape [2, 4, {Q}, 8]\n"
           "  %q3 = reshape(%q, %d3)\n  %k3 = reshape(%k, %e3)\n  %v3 = reshape(%v, %e3)\n"
           "  %q4 = mul(%q3, %quarter)\n  %s = matmul(%q4, %k3) {transpose_b = true}\n"
           "  %p = softmax(%s)\n  %y3 = matmul(%p, %v3)\n  %y = reshape(%y3, %f)\n"});
  check_all(
      {.name = "repeated heads",
       .scores =
           "  %u5 = shape [2, 2, 1, {P}, 8]\n  %w5 = shape [2, 2, 2, {P}, 8]\n"
           "  %f = shape [2, 4, {P}, 8]\n"
           "  %k5 = reshape(%k, %u5)\n  %kw = broadcast_to(%k5, %w5)\n  %kr = reshape(%kw, %f)\n"
           "  %v5 = reshape(%v, %u5)\n  %vw = broadcast_to(%v5, %w5)\n  %vr = reshape(%vw, %f)\n"
           "  %kt = transpose(%kr) {axes = [0, 1, 3, 2]}\n  %s = matmul(%q, %kt)\n"
           "  %t = mul(%s, %quarter)\n  %p = softmax(%t)\n  %y = matmul(%p, %vr)\n",
       .groups = 2});
  check_all({.name = "repeated heads, and keys turned in three dimensions",
             .scores = "  %u5 = shape [2, 2, 1, {P}, 8]\n  %w5 = shape [2, 2, 2, {P}, 8]\n"
                       "  %f = shape [2, 4, {P}, 8]\n  %f3 = shape [8, {P}, 8]\n"
                       "  %ft = shape [2, 4, 8, {P}]\n"
                       "  %k5 = reshape(%k, %u5)\n  %kw = broadcast_to(%k5, %w5)\n"
                       "  %k3 = reshape(%kw, %f3)\n  %t3 = transpose(%k3) {axes = [0, 2, 1]}\n"
                       "  %kt = reshape(%t3, %ft)\n"
                       "  %v5 = reshape(%v, %u5)\n  %vw = broadcast_to(%v5, %w5)\n"
                       "  %vr = reshape(%vw, %f)\n  %s = matmul(%q, %kt)\n"
                       "  %t = mul(%s, %quarter)\n  %p = softmax(%t)\n  %y = matmul(%p, %vr)\n",
             .groups = 2});
}

TEST_CASE("factors of each head, as cosine attention has them, go into queries") {
  const auto factor = [](int64_t head) { return double(1 << head) / 8; };
  const auto numbers = [](const std::string &dims) {
    return "constant @f : tensor<" + dims + ", f32> = [0.125, 0.25, 0.5, 1.0]\n";
  };
  for (const char *dims : {"[4, 1, 1]", "[1, 4, 1, 1]"})
    check_all({.name = dims,
               .scores = kProduct +
                         "  %f = constant @f\n  %t = mul(%f, %s)\n  %u = mul(%t, %half)\n" +
                         kSoftmax,
               .constants = numbers(dims),
               .scale = 0.5,
               .factor = factor});
  check_all({.name = "in one dimension with sequences",
             .scores = "  %d3 = shape [8, {Q}, 8]\n  %e3 = shape [8, {P}, 8]\n"
                       "  %f4 = shape [2, 4, {Q}, 8]\n  %n4 = shape [2, 4, 1, 1]\n"
                       "  %n3 = shape [8, 1, 1]\n  %f1 = constant @f\n"
                       "  %fw = broadcast_to(%f1, %n4)\n  %f = reshape(%fw, %n3)\n"
                       "  %q3 = reshape(%q, %d3)\n  %k3 = reshape(%k, %e3)\n"
                       "  %v3 = reshape(%v, %e3)\n"
                       "  %s = matmul(%q3, %k3) {transpose_b = true}\n  %t = mul(%s, %f)\n"
                       "  %p = softmax(%t)\n  %y3 = matmul(%p, %v3)\n  %y = reshape(%y3, %f4)\n",
             .constants = numbers("[4, 1, 1]"),
             .scale = 1,
             .factor = factor});
  check({.name = "of positions",
         .scores = kProduct + "  %c = constant @c\n  %t = mul(%s, %c)\n  %p = softmax(%t)\n" + kEnd,
         .is_found = false,
         .constants = "constant @c : tensor<[1, 7], f32> = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]\n",
         .scale = 0.5});
}

TEST_CASE("attention over sequences in two dimensions, as windows of images are, is found") {
  // Scores have five dimensions where the mask is added, products four, q, k and v five before.
  const auto five = [](const std::string &x, const std::string &length) {
    return "  %" + x + "d = shape [1, 2, 4, " + length + ", 8]\n  %" + x + "c = shape [2, 4, " +
           length + ", 8]\n  %" + x + "5 = reshape(%" + x + ", %" + x + "d)\n  %" + x +
           "t = transpose(%" + x + "5) {axes = [0, 1, 3, 2, 4]}\n  %" + x + "n = neg(%" + x +
           "t)\n  %" + x + "u = neg(%" + x + "n)\n  %" + x + "b = transpose(%" + x +
           "u) {axes = [0, 1, 3, 2, 4]}\n  %" + x + "4 = reshape(%" + x + "b, %" + x + "c)\n";
  };
  check_all(
      {.name = "windows",
       .scores = five("q", "{Q}") + five("k", "{P}") + five("v", "{P}") +
                 "  %d5 = shape [1, 2, 4, {Q}, {P}]\n  %d4 = shape [2, 4, {Q}, {P}]\n"
                 "  %s4 = matmul(%q4, %k4) {transpose_b = true}\n"
                 "  %s5 = reshape(%s4, %d5)\n  %t5 = mul(%s5, %quarter)\n"
                 "  %u5 = add(%t5, %m)\n  %p5 = softmax(%u5) {axis = -1}\n"
                 "  %p4 = reshape(%p5, %d4)\n  %y = matmul(%p4, %v4)\n",
       .bias = [](int64_t b, int64_t, int64_t, int64_t j) { return b ? 0.25 * double(j) : 0; },
       .params = ",\n    %m: tensor<[1, 2, 1, 1, {P}], f32>",
       .more = {[] {
         Array mask = Array::of({1, 2, 1, 1, 7});
         for (int64_t j = 0; j < 7; ++j)
           mask.values[size_t(7 + j)] = 0.25 * double(j);
         return mask;
       }()}});
}

TEST_CASE("products of five dimensions are attention, too") {
  // Windows before heads lie beside sequences; heads before windows do not, by their transposition.
  const auto five = [](const std::string &x, const std::string &length, const std::string &dims,
                       const std::string &axes) {
    return "  %" + x + "d = shape [" + dims + ", " + length + ", 8]\n  %" + x + "r = reshape(%" +
           x + ", %" + x + "d)\n  %" + x + "5 = transpose(%" + x + "r) {axes = " + axes + "}\n";
  };
  for (const bool apart : {false, true}) {
    const std::string dims = apart ? "2, 2, 2" : "1, 2, 4",
                      kept = apart ? "[0, 2, 1, 3, 4]" : "[0, 1, 2, 3, 4]",
                      turned = apart ? "[0, 2, 1, 4, 3]" : "[0, 1, 2, 4, 3]";
    const std::string ends = (apart ? "  %yt = transpose(%y5) {axes = " + kept + "}\n" : "") +
                             "  %f = shape [2, 4, {Q}, 8]\n  %y = reshape(%y" +
                             (apart ? "t" : "5") + ", %f)\n";
    Form form{.name = apart ? "heads before windows" : "windows before heads",
              .scores = five("q", "{Q}", dims, kept) + five("k", "{P}", dims, turned) +
                        five("v", "{P}", dims, kept) +
                        "  %s = matmul(%q5, %k5)\n  %t = mul(%s, %quarter)\n"
                        "  %p = softmax(%t)\n  %y5 = matmul(%p, %v5)\n" +
                        ends};
    check(form);
    form.name += ", a mask";
    form.scores.replace(form.scores.find("softmax(%t)"), 11, "softmax(%u)");
    form.scores.insert(form.scores.find("  %p ="), "  %u = add(%t, %m)\n");
    form.params = ",\n    %m: tensor<[1, 1, 1, 1, 7], f32>";
    form.more = {numbers({1, 1, 1, 1, 7}, 5)};
    form.bias = [mask = form.more[0].values](int64_t, int64_t, int64_t, int64_t j) {
      return mask[size_t(j)];
    };
    form.is_found = !apart;
    check(form);
  }
}

TEST_CASE("what attention gives may be transposed in any order") {
  check({.name = "columns before rows",
         .scores = "  %kt = transpose(%k) {axes = [0, 1, 3, 2]}\n  %s = matmul(%q, %kt)\n"
                   "  %t = mul(%s, %quarter)\n  %p = softmax(%t)\n  %o = matmul(%p, %v)\n"
                   "  %ot = transpose(%o) {axes = [0, 1, -1, 2]}\n"
                   "  %y = transpose(%ot) {axes = [0, 1, 3, 2]}\n"});
}

TEST_CASE("values may be wider than queries and keys") {
  check({.name = "wider",
         .scores = kScaled + "  %p = softmax(%t)\n  %w = concat(%k, %v) {axis = 3}\n"
                             "  %y2 = matmul(%p, %w)\n"
                             "  %y = slice(%y2) {starts = [8], ends = [16], axes = [3]}\n"});
}

TEST_CASE("a mask of windows is the same for all images of a batch, or one of images for windows") {
  // Two images of two windows of two heads each.
  const std::string scores =
      "  %d4 = shape [4, 2, {Q}, 8]\n  %e4 = shape [4, 2, {P}, 8]\n  %f = shape [2, 4, {Q}, 8]\n"
      "  %a5 = shape [2, 2, 2, {Q}, {P}]\n  %a4 = shape [4, 2, {Q}, {P}]\n"
      "  %q4 = reshape(%q, %d4)\n  %k4 = reshape(%k, %e4)\n  %v4 = reshape(%v, %e4)\n"
      "  %s = matmul(%q4, %k4) {transpose_b = true}\n  %t = mul(%s, %quarter)\n"
      "  %t5 = reshape(%t, %a5)\n  %u5 = add(%t5, %m)\n  %w5 = add(%m, %u5)\n"
      "  %u = reshape(%w5, %a4)\n  %p = softmax(%u)\n  %y4 = matmul(%p, %v4)\n"
      "  %y = reshape(%y4, %f)\n";
  Array of_second = Array::of({2, 1, 1, 7});
  for (size_t j = 0; j < 7; ++j)
    of_second.values[7 + j] = double(j) / 4;
  for (const std::string dims : {"2, 1, 1, {P}", "1, 2, 1, 1, {P}", "2, 1, 1, 1, {P}"}) {
    const bool of_images = dims == "2, 1, 1, 1, {P}";
    if (dims.size() > 12)
      of_second.dims = {of_images ? 2 : 1, of_images ? 1 : 2, 1, 1, 7};
    check({.name = dims,
           .scores = scores,
           .bias = [=](int64_t b, int64_t h, int64_t,
                       int64_t j) { return (of_images ? b : h / 2) ? double(j) / 2 : 0; },
           .params = ",\n    %m: tensor<[" + dims + "], f32>",
           .more = {of_second}});
  }
}

TEST_CASE("masks that are added or chosen become that of attention") {
  const std::string param = ",\n    %m: tensor<[2, 1, 1, {P}], bool>";
  const auto lengths = [](int64_t first, int64_t second, double fill) {
    return [=](int64_t b, int64_t, int64_t, int64_t j) {
      return j < (b == 0 ? first : second) ? 0.0 : fill;
    };
  };
  const double least = std::numeric_limits<float>::lowest();
  for (const char *precision : {"none", "f16", "bf16"}) {
    const int64_t n = precision == std::string("none") ? 7 : 20;
    // Sequence 1 sees nothing: the average of all, or NaN, as the softmax has it.
    for (const auto &[name, fill] : {std::pair{"%least", least}, {"%hides", -kInfinity}}) {
      const std::string number = name;
      check({.name = "where" + number,
             .scores = kScaled + "  %u = where(%m, %t, " + number + ")\n" + kSoftmax,
             .bias = lengths(3, 0, fill),
             .params = param,
             .more = {lengths_of(n, 3, 0)},
             .queries = n,
             .positions = n},
            precision);
      check({.name = "a bias that is chosen" + number,
             .scores = kScaled + "  %b = where(%m, %zero, " + number + ")\n  %u = add(%b, %t)\n" +
                       kSoftmax,
             .bias = lengths(3, 0, fill),
             .params = param,
             .more = {lengths_of(n, 3, 0)},
             .queries = n,
             .positions = n},
            precision);
    }
    // What is added before the scores are scaled, as relative positions are.
    Form before{.name = "a bias before the scale",
                .scores = kProduct + "  %a = add(%s, %m)\n  %u = mul(%a, %quarter)\n" + kSoftmax,
                .params = ",\n    %m: tensor<[2, 1, {Q}, {P}], f32>",
                .more = {numbers({kB, 1, n, n}, 6)},
                .queries = n,
                .positions = n};
    before.bias = [n, m = before.more[0].values](int64_t b, int64_t, int64_t i, int64_t j) {
      return 0.25 * m[size_t((b * n + i) * n + j)];
    };
    check(before, precision);
    check(
        {.name = "where before the scale",
         .scores = kProduct + "  %a = where(%m, %s, %least)\n  %u = mul(%a, %quarter)\n" + kSoftmax,
         .bias = lengths(3, 0, least),
         .params = param,
         .more = {lengths_of(n, 3, 0)},
         .queries = n,
         .positions = n},
        precision);
    check({.name = "hidden where true",
           .scores = kScaled + "  %u = where(%m, %least, %t)\n" + kSoftmax,
           .bias = [](int64_t b, int64_t, int64_t,
                      int64_t j) { return b == 0 && j < 3 ? -1e30 : 0.0; },
           .params = param,
           .more = {lengths_of(n, 3, 0)},
           .queries = n,
           .positions = n},
          precision);
  }
  // The graph's own narrow numbers: its least one does not take scores away.
  for (const char *dtype : {"f16", "bf16"})
    for (int64_t n : {7, 20})
      check({.name = "where, narrow",
             .scores = kScaled + "  %u = where(%m, %t, %least)\n" + kSoftmax,
             .bias = lengths(3, 0, -1e30),
             .params = param,
             .more = {lengths_of(n, 3, 0)},
             .queries = n,
             .positions = n,
             .dtype = dtype});
  // Large numbers of f64 are -infinity in other dtypes.
  for (const char *dtype : {"f32", "f16", "bf16"})
    check({.name = "a bias that a cast makes infinite",
           .scores = kScaled +
                     "  %c = constant @c\n  %o = constant @o\n  %w = where(%m, %o, %c)\n"
                     "  %b = cast(%w) {dtype = " +
                     dtype +
                     "}\n"
                     "  %u = add(%b, %t)\n" +
                     kSoftmax,
           .bias = lengths(3, 0, -kInfinity),
           .params = param,
           .constants = "constant @c : tensor<[1], f64> = [-1e300]\n"
                        "constant @o : tensor<[1], f64> = [0.0]\n",
           .more = {lengths_of(7, 3, 0)},
           .dtype = dtype});
  // By the numbers of the mask, of which rows may be -infinity whole.
  Array bias = numbers({1, kH, 5, 7}, 9);
  for (size_t j = 0; j < 7; ++j)
    bias.values[7 + j] = -kInfinity;
  check({.name = "a bias that is given",
         .scores = kScaled + "  %u = add(%t, %m)\n" + kSoftmax,
         .bias = [=](int64_t, int64_t h, int64_t i,
                     int64_t j) { return bias.values[size_t((h * 5 + i) * 7 + j)]; },
         .params = ",\n    %m: tensor<[1, 4, {Q}, {P}], f32>",
         .more = {bias}});
}

TEST_CASE("rows that a guard makes 0 where nothing is seen are those of attention") {
  const std::string param = ",\n    %m: tensor<[2, 1, 1, {P}], bool>",
                    masked = kScaled + "  %b = where(%m, %zero, %hides)\n  %u = add(%t, %b)\n"
                                       "  %w = softmax(%u)\n";
  for (const std::string &guard :
       {std::string("  %n = is_nan(%w)\n"),
        std::string("  %l = reduce_max(%b) {axes = [3], keep_dims = true}\n"
                    "  %n = equal(%l, %hides)\n")})
    for (const char *precision : {"none", "f16"}) {
      Form form{
          .name = "guard",
          .scores = masked + guard + "  %p = where(%n, %zero, %w)\n" + kEnd,
          .bias = [](int64_t, int64_t, int64_t, int64_t j) { return j < 3 ? 0.0 : -kInfinity; },
          .params = param,
          .more = {lengths_of(20, 3, 3)},
          .queries = 20,
          .positions = 20};
      check(form, precision);
    }
}

TEST_CASE("masks that hide what comes later become causal where that is certain") {
  for (const std::string hidden : {"-inf", "-1e9"}) {
    Form form{
        .name = "constant",
        .scores = kScaled + "  %m = constant @m\n  %u = add(%t, %m)\n" + kSoftmax,
        .bias = [](int64_t, int64_t, int64_t i, int64_t j) { return j > i ? -kInfinity : 0.0; },
        .attribute = "causal = true",
        .queries = 20,
        .positions = 20};
    form.constants = "constant @m : tensor<[1, 1, 20, 20], f32> = " +
                     matrix(20, [&](int64_t i, int64_t j) { return j > i ? hidden : "0.0"; });
    check(form);
    check(form, "f16");
    // One position more is a mask.
    form.attribute = "";
    form.constants = "constant @m : tensor<[1, 1, 20, 20], f32> = " +
                     matrix(20, [&](int64_t i, int64_t j) { return j > i + 1 ? hidden : "0.0"; });
    form.bias = [](int64_t, int64_t, int64_t i, int64_t j) { return j > i + 1 ? -1e9 : 0.0; };
    check(form);
  }
  Form counted{
      .name = "counted",
      .scores = kScaled +
                "  %i = range() {length = {Q}, dtype = i64}\n"
                "  %d = shape [{Q}, 1]\n  %r = reshape(%i, %d)\n"
                "  %c = greater_equal(%r, %i)\n  %u = where(%c, %t, %hides)\n" +
                kSoftmax,
      .bias = [](int64_t, int64_t, int64_t i, int64_t j) { return j > i ? -kInfinity : 0.0; },
      .attribute = "causal = true",
      .positions = 5};
  check_all(counted);
  // The same numbers by head, not by query.
  check({.name = "counted by head",
         .scores = kScaled +
                   "  %i = range() {length = 4, dtype = i64}\n"
                   "  %d = shape [4, 1]\n  %r = reshape(%i, %d)\n"
                   "  %c = greater_equal(%r, %i)\n  %e = shape [4, 1, 4]\n"
                   "  %h = reshape(%c, %e)\n  %u = where(%h, %t, %hides)\n" +
                   kSoftmax,
         .bias = [](int64_t, int64_t h, int64_t, int64_t j) { return j > h ? -kInfinity : 0.0; },
         .queries = 4,
         .positions = 4});
}

TEST_CASE("what is not attention, or may differ from it, stays") {
  // Rows that another mask than that of the scores makes 0.
  const std::string guard = "  %b = where(%m, %zero, %hides)\n"
                            "  %l = reduce_max(%b) {axes = [3], keep_dims = true}\n"
                            "  %n = equal(%l, %hides)\n  %p = where(%n, %zero, %w)\n";
  check({.name = "a guard without a mask",
         .scores = kScaled + "  %w = softmax(%t)\n" + guard + kEnd,
         .is_found = false,
         .params = ",\n    %m: tensor<[2, 1, 1, {P}], bool>",
         .more = {lengths_of(7, 3, 7)}});
  check({.name = "a guard beside a causal mask",
         .scores = kScaled + "  %a = constant @a\n  %u = add(%t, %a)\n  %w = softmax(%u)\n" +
                   guard + kEnd,
         .bias = [](int64_t, int64_t, int64_t i, int64_t j) { return j > i ? -1e9 : 0.0; },
         .is_found = false,
         .params = ",\n    %m: tensor<[2, 1, 1, {P}], bool>",
         .constants = "constant @a : tensor<[5, 5], f32> = " +
                      matrix(5, [](int64_t i, int64_t j) { return j > i ? "-1e9" : "0.0"; }),
         .more = {lengths_of(5, 3, 5)},
         .queries = 5,
         .positions = 5});
  check({.name = "weights that are read",
         .scores = kScaled + "  %p = softmax(%t)\n  %o = matmul(%p, %v)\n"
                             "  %l = reduce_max(%p) {axes = [3], keep_dims = true}\n"
                             "  %z = mul(%l, %zero)\n  %y = add(%o, %z)\n",
         .is_found = false});
  check({.name = "a mask that is scaled",
         .scores = kProduct + "  %m = mul(%s, %zero)\n  %n = add(%s, %m)\n"
                              "  %p = softmax(%n)\n  %y2 = matmul(%p, %v)\n"
                              "  %y = add(%y2, %zero)\n",
         .is_found = false,
         .scale = 1});
  check({.name = "a mask that is turned round",
         .scores = kProduct +
                   "  %m = where(%c, %zero, %hides)\n  %n = add(%s, %m)\n"
                   "  %i = constant @minus\n  %u = mul(%n, %i)\n" +
                   kSoftmax,
         .is_found = false,
         .params = ",\n    %c: tensor<[2, 1, 1, {P}], bool>",
         .constants = "constant @minus : tensor<[], f32> = [-1.0]\n",
         .more = {lengths_of(7, 7, 7)},
         .scale = -1});
  check({.name = "a number that hides little before the scale",
         .scores = kProduct +
                   "  %m = constant @m\n  %few = constant @few\n"
                   "  %n = where(%m, %s, %few)\n  %u = mul(%n, %quarter)\n" +
                   kSoftmax,
         .is_found = false,
         .constants = "constant @m : tensor<[1], bool> = [true]\n"
                      "constant @few : tensor<[], f32> = [-30000.0]\n"});
  check({.name = "a number that hides little",
         .scores = kScaled +
                   "  %c = constant @c\n  %few = constant @few\n  %u = where(%c, %t, %few)\n" +
                   kSoftmax,
         .is_found = false,
         .constants = "constant @c : tensor<[1], bool> = [true]\n"
                      "constant @few : tensor<[], f32> = [-100.0]\n"});
}

TEST_CASE("graphs that the op cannot stand for are left, whatever else lies between the products") {
  const auto found = [](const std::string &text) {
    INFO(text.substr(0, 2000));
    const Result<ir::Module> module = ir::parse_and_verify("cugrt 1\n\n" + text, "form");
    INFO((module.ok() ? "" : module.status().to_string()));
    REQUIRE(module.ok());
    const std::string written = ir::print(after(*module, {}, {"FuseAttention"}));
    size_t times = 0;
    for (size_t at = 0; (at = written.find("= attention(", at)) != std::string::npos; ++at)
      ++times;
    return times;
  };
  // The write between the products would come before the op; without it nothing stands against it.
  const std::string write = "  %c2 = cache_write(%c, %n, none, %i, %l)\n";
  for (const std::string &between : {std::string(), write})
    CHECK(found("func @main(%q: tensor<[2, 4, 1, 8], f32>, %c: inout tensor<[2, 7, 4, 8], f32>,\n"
                "    %n: tensor<[2, 1, 4, 8], f32>, %i: tensor<[2], i32>, %l: tensor<[2], i32>)\n"
                "    -> (tensor<[2, 4, 1, 8], f32>) {\n"
                "  %kt = transpose(%c) {axes = [0, 2, 3, 1]}\n  %s = matmul(%q, %kt)\n"
                "  %v = transpose(%c) {axes = [0, 2, 1, 3]}\n" +
                between + "  %p = softmax(%s)\n  %y = matmul(%p, %v)\n  return %y\n}\n") ==
          (between.empty() ? 1 : 0));
  // What is written before it is read, and after the op, is no matter.
  CHECK(found("func @main(%q: tensor<[2, 4, 1, 8], f32>, %c: inout tensor<[2, 7, 4, 8], f32>,\n"
              "    %n: tensor<[2, 1, 4, 8], f32>, %i: tensor<[2], i32>, %l: tensor<[2], i32>)\n"
              "    -> (tensor<[2, 4, 1, 8], f32>) {\n" +
              write +
              "  %kt = transpose(%c2) {axes = [0, 2, 3, 1]}\n  %s = matmul(%q, %kt)\n"
              "  %v = transpose(%c2) {axes = [0, 2, 1, 3]}\n"
              "  %p = softmax(%s)\n  %y = matmul(%p, %v)\n"
              "  %c3 = cache_write(%c2, %n, none, %i, %l)\n  return %y\n}\n") == 1);
  // The second product of the first softmax is the first of the second one.
  CHECK(found("func @main(%q: tensor<[2, 4, 5, 8], f32>, %k: tensor<[2, 4, 8, 7], f32>,\n"
              "    %v: tensor<[2, 4, 7, 8], f32>, %w: tensor<[2, 4, 8, 7], f32>)\n"
              "    -> (tensor<[2, 4, 5, 7], f32>) {\n"
              "  %s = matmul(%q, %k)\n  %p = softmax(%s)\n  %o = matmul(%p, %v)\n"
              "  %r = softmax(%o)\n  %y = matmul(%r, %w)\n  return %y\n}\n") == 1);
  // The op adds masks of f32 to narrow products alone.
  for (const char *dtype : {"f16", "f64"})
    CHECK(found("constant @c : tensor<[], f32> = [-1e30]\n\nfunc @main(%q: tensor<[2, 4, 5, 8], " +
                std::string(dtype) + ">, %k: tensor<[2, 4, 8, 7], " + dtype +
                ">,\n    %v: tensor<[2, 4, 7, 8], " + dtype +
                ">, %m: tensor<[2, 1, 1, 7], bool>)\n    -> (tensor<[2, 4, 5, 8], " + dtype +
                ">) {\n  %c = constant @c\n"
                "  %s = matmul(%q, %k)\n  %t = cast(%s) {dtype = f32}\n"
                "  %u = where(%m, %t, %c)\n  %w = softmax(%u)\n"
                "  %p = cast(%w) {dtype = " +
                dtype + "}\n  %y = matmul(%p, %v)\n  return %y\n}\n") ==
          (dtype == std::string("f16") ? 1 : 0));
  // A long way from product to softmax is not followed to its end.
  std::string steps;
  for (int i = 0; i < 200000; ++i)
    steps += "  %s" + std::to_string(i + 1) + " = mul(%s" + std::to_string(i) + ", %c)\n";
  CHECK(found("constant @c : tensor<[], f32> = [1.0]\n\nfunc @main(%q: tensor<[2, 4, 5, 8], f32>, "
              "%k: tensor<[2, 4, 8, 7], f32>,\n    %v: tensor<[2, 4, 7, 8], f32>)\n"
              "    -> (tensor<[2, 4, 5, 8], f32>) {\n  %c = constant @c\n"
              "  %s0 = matmul(%q, %k)\n" +
              steps + "  %p = softmax(%s200000)\n  %y = matmul(%p, %v)\n  return %y\n}\n") == 0);
}
