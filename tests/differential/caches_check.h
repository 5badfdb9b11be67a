// Modules that are legalized and run, and blocks of q8_0 as GGUF has them.
#pragma once

#include "kernels_check.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"

#include <cmath>

namespace cugrt::test {

/// Multiples of 1/64 from -2 to 2, which f16 and bf16 have.
inline std::vector<double> sixty_fourths(const Dims &dims, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> values(size_t(Array::of(dims).count()));
  for (double &value : values)
    value = double(int(random() % 256) - 128) / 64;
  return values;
}

/// The bytes of blocks of q8_0 by GGUF's rule, for rows of whole blocks of f32.
inline Array quantized(const Array &x) {
  Array blocks{x.dims, {}};
  for (size_t at = 0; at < x.values.size(); at += 32) {
    float largest = 0;
    for (size_t i = 0; i < 32; ++i)
      largest = std::max(largest, std::fabs(float(x.values[at + i])));
    const float scale = largest / 127, inverse = scale > 0 ? 1 / scale : 0;
    for (const char c : encode(DType::f16, {{1}, {double(scale)}}))
      blocks.values.push_back(uint8_t(c));
    for (size_t i = 0; i < 32; ++i)
      blocks.values.push_back(uint8_t(int8_t(std::round(float(x.values[at + i]) * inverse))));
  }
  return blocks;
}

/// What such bytes stand for.
inline Array meaning(const Array &blocks) {
  Array x{blocks.dims, {}};
  for (size_t at = 0; at < blocks.values.size(); at += 34) {
    const std::string half = {char(uint8_t(blocks.values[at])),
                              char(uint8_t(blocks.values[at + 1]))};
    const double scale = decode(DType::f16, half)[0];
    for (size_t i = 2; i < 34; ++i)
      x.values.push_back(scale * int8_t(uint8_t(blocks.values[at + i])));
  }
  return x;
}

inline std::string type_of(const Dims &dims, const std::string &dtype) {
  std::string text = "tensor<[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "], " + dtype + ">";
}

/// The results of a module's one function, legalized.
inline std::vector<Array> results_of(const std::string &text, const std::vector<Array> &inputs) {
  INFO(text);
  const Result<ir::Module> module = ir::parse_and_verify(text, "caches");
  INFO((module.ok() ? "" : module.status().to_string()));
  REQUIRE(module.ok());
  const Result<ir::Module> legal =
      passes::find_pass("LegalizeOps")->run(*module, passes::PassContext());
  REQUIRE(legal.ok());
  const Result<std::vector<Array>> got = runner().run(*legal, legal->functions[0], inputs);
  INFO((got.ok() ? "" : got.status().to_string()));
  REQUIRE(got.ok());
  return *got;
}

} // namespace cugrt::test
