// Attention as graphs write it: a form, whether FuseAttention takes it, and its results against the
// rule in double precision.
#pragma once

#include "support/catch.h"
#include "support/launch_runner.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace cugrt::test {

inline LaunchRunner &runner() {
  static LaunchRunner runner;
  return runner;
}

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr int64_t kB = 2, kH = 4, kWidth = 8;

/// What is added to a score, of sequence, head, query and position.
using Bias = std::function<double(int64_t, int64_t, int64_t, int64_t)>;

struct Form {
  std::string name;
  std::string scores; // from %q, %k and %v [2, H, length, 8] to %y [2, 4, Q, 8]
  Bias bias = [](auto...) { return 0.0; };
  bool is_found = true;
  std::string attribute{}; // of the op
  std::string params{}, constants{};
  std::vector<Array> more{}; // for params
  int64_t queries = 5, positions = 7, groups = kH;
  double scale = 0.25;
  std::function<double(int64_t)> factor = [](int64_t) { return 1.0; }; // of a head's scores
  std::string dtype = "f32"; // of the graph as it is written
  int strided = -1;          // operands that are read where they lie; -1: any number
};

inline std::string with_sizes(std::string text, const Form &form) {
  for (size_t at; form.dtype != "f32" && (at = text.find(", f32>")) != std::string::npos;)
    text.replace(at, 6, ", " + form.dtype + ">");
  for (const auto &[name, size] : {std::pair{"Q", form.queries}, {"P", form.positions}})
    for (size_t at; (at = text.find("{" + std::string(name) + "}")) != std::string::npos;)
      text.replace(at, 3, std::to_string(size));
  return text;
}

inline Array numbers(std::vector<int64_t> dims, uint32_t seed) {
  std::mt19937 random(seed);
  Array x = Array::of(dims);
  for (double &value : x.values)
    value = double(int(random() % 257) - 128) / 64; // which f16 has
  return x;
}

inline std::vector<double> expected(const Form &form, const std::vector<Array> &in) {
  const int64_t share = kH / form.groups;
  const auto at = [&](const Array &x, int64_t b, int64_t h, int64_t i, int64_t e) {
    return x.values[size_t(((b * x.dims[1] + h) * x.dims[2] + i) * kWidth + e)];
  };
  std::vector<double> y;
  for (int64_t b = 0; b < kB; ++b)
    for (int64_t h = 0; h < kH; ++h)
      for (int64_t i = 0; i < form.queries; ++i) {
        std::vector<double> weights;
        double largest = -kInfinity, sum = 0;
        for (int64_t j = 0; j < form.positions; ++j) {
          double score = 0;
          for (int64_t e = 0; e < kWidth; ++e)
            score += at(in[0], b, h, i, e) * at(in[1], b, h / share, j, e);
          // Sums with the least numbers are those of f32.
          weights.push_back(
              double(float(form.scale * form.factor(h) * score + form.bias(b, h, i, j))));
          largest = std::max(largest, weights.back());
        }
        for (double &weight : weights)
          sum += weight = std::exp(weight - largest); // NaN where all are -infinity
        for (int64_t e = 0; e < kWidth; ++e) {
          double value = 0;
          for (int64_t j = 0; j < form.positions; ++j)
            value += weights[size_t(j)] / sum * at(in[2], b, h / share, j, e);
          y.push_back(value);
        }
      }
  return y;
}

inline ir::Module after(ir::Module module, const passes::PassContext &context,
                        std::initializer_list<const char *> passes) {
  for (const char *name : passes) {
    Result<ir::Module> next = passes::find_pass(name)->run(module, context);
    INFO(name << ": " << (next.ok() ? "" : next.status().to_string()));
    REQUIRE(next.ok());
    module = std::move(next).value();
  }
  return module;
}

inline void check(const Form &form, const std::string &precision = "none") {
  const auto lengths = [](int64_t heads, const std::string &length) {
    return "tensor<[2, " + std::to_string(heads) + ", " + length + ", 8], f32>";
  };
  const std::string text = with_sizes(
      "cugrt 1\n\nconstant @quarter : tensor<[], f32> = [0.25]\n"
      "constant @half : tensor<[], f32> = [0.5]\nconstant @zero : tensor<[], f32> = [0.0]\n"
      "constant @hides : tensor<[], f32> = [-inf]\nconstant @least : tensor<[], f32> = [" +
          std::string(form.dtype == "f16" ? "-65504.0" : "-3.3895e38") + "]\n" + form.constants +
          "\nfunc @main(%q: " + lengths(kH, "{Q}") + ", %k: " + lengths(form.groups, "{P}") +
          ", %v: " + lengths(form.groups, "{P}") + form.params + ") -> (" + lengths(kH, "{Q}") +
          ") {\n  %quarter = constant @quarter\n  %half = constant @half\n  %zero = constant "
          "@zero\n"
          "  %hides = constant @hides\n  %least = constant @least\n" +
          form.scores + "  return %y\n}\n",
      form);
  INFO(form.name << ", " << precision << "\n" << text);
  const Result<ir::Module> module = ir::parse_and_verify(text, "form");
  INFO((module.ok() ? "" : module.status().to_string()));
  REQUIRE(module.ok());
  passes::PassContext context;
  REQUIRE(context.set("mixed.dtype", precision).ok());
  const ir::Module fused =
      after(*module, context, {"FuseAttention", "EliminateDeadBindings", "JoinProducts"});
  const std::string written = ir::print(fused);
  INFO(written);
  CHECK((written.find("= attention(") != std::string::npos) == form.is_found);
  CHECK((written.find("softmax") == std::string::npos) == form.is_found);
  CHECK(written.find(form.attribute) != std::string::npos);
  const ir::Module legal =
      after(fused, context,
            {"ToMixedPrecision", "EliminateDeadBindings", "LegalizeOps", "EliminateDeadBindings"});
  if (form.strided >= 0) {
    const std::string kernels = ir::print(legal);
    INFO(kernels);
    int views = 0;
    for (size_t at = 0; (at = kernels.find(", 4, 8], ", at)) != std::string::npos; ++at)
      views +=
          kernels.substr(at, kernels.find(">", at) - at).find(", strides ") != std::string::npos;
    CHECK(views == form.strided);
  }
  std::vector<Array> inputs = {numbers({kB, kH, form.queries, kWidth}, 1),
                               numbers({kB, form.groups, form.positions, kWidth}, 2),
                               numbers({kB, form.groups, form.positions, kWidth}, 3)};
  const std::vector<double> want = expected(form, inputs);
  inputs.insert(inputs.end(), form.more.begin(), form.more.end());
  const Result<std::vector<Array>> got = runner().run(legal, legal.functions[0], inputs);
  INFO((got.ok() ? "" : got.status().to_string()));
  REQUIRE(got.ok());
  const std::string &computed = precision == "none" ? form.dtype : precision;
  const double unit = computed == "f32" ? 2e-6 : computed == "f16" ? 2e-3 : 2e-2;
  REQUIRE(got->at(0).values.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const double y = got->at(0).values[i];
    CAPTURE(i, y, want[i]);
    CHECK((std::isnan(want[i]) ? std::isnan(y) : std::fabs(y - want[i]) <= unit * 2));
  }
}

/// In f32, and for 20 queries over 20 positions in f16 and bf16, which tensor cores take.
inline void check_all(Form form) {
  check(form);
  if (form.params.find("{") == std::string::npos && form.more.empty() && form.queries == 5) {
    form.queries = form.positions = 20;
    check(form, "f16");
    check(form, "bf16");
  }
}

inline const std::string kProduct = "  %kt = transpose(%k) {axes = [0, 1, 3, 2]}\n"
                                    "  %s = matmul(%q, %kt)\n",
                         kScaled = kProduct + "  %t = mul(%s, %quarter)\n",
                         kEnd = "  %y = matmul(%p, %v)\n", kSoftmax = "  %p = softmax(%u)\n" + kEnd;

} // namespace cugrt::test
