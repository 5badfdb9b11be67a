// What modules with buckets are drawn from (padding_test.cpp): parameters, constants, calls that
// random operands would hardly make, and words of attributes.
#pragma once

#include "ops/table/ops.h"

#include <cmath>
#include <string>
#include <vector>

namespace cugrt::test {

using ir::Op;

constexpr int64_t kN = -1; // the symbol, among sizes

struct Given {
  const char *name;
  std::vector<int64_t> dims;
  ir::DType dtype = ir::DType::f32;
};
inline const Given kParams[] = {
    {"x", {kN, 4}},
    {"t", {4, kN}},
    {"v", {kN}},
    {"c", {kN, 1}},
    {"h", {3, kN, 4}},
    {"sq", {kN, kN}},
    {"signal", {2, 4, kN}},
    {"image", {2, 2, kN, 4}},
    {"volume", {1, 2, kN, 2, 3}},
    {"batch", {kN, 2, 4, 3}},
    {"heads", {2, kN, 2, 4}},
    {"many_heads", {kN, 3, 2, 4}},
    {"gates", {kN, 2, 1, 8}},
    {"batch_gates", {3, kN, 1, 8}},
    {"places", {2, 3, kN, 2}},
    {"mask", {kN}, ir::DType::boolean},
    {"rows_mask", {kN, 1}, ir::DType::boolean},
    {"ids", {kN}, ir::DType::i64},
    {"ids_of_rows", {kN, 4}, ir::DType::i64},
    {"ids_nd", {kN, 1}, ir::DType::i64},
    {"bytes", {kN, 4}, ir::DType::i8},
    {"bytes_t", {4, kN}, ir::DType::i8},
    // Without the symbol.
    {"few", {2}, ir::DType::i64},
    {"few_nd", {2, 1}, ir::DType::i64},
    {"few_rows", {2, 4}, ir::DType::i64},
    {"updates", {2, 4}},
    {"w", {4, 6}},
    {"scale", {4}},
    {"scalar", {}},
    {"taps", {4, 4, 3}},
    {"tap", {4, 4, 1}},
    {"taps2", {2, 2, 3, 1}},
    {"tap2", {3, 2, 1, 1}},
    {"taps_last", {3, 1, 3, 4}},
    {"tap_last", {3, 1, 1, 4}},
    {"taps3", {2, 2, 1, 1, 3}},
    {"bias4", {4}},
    {"weights", {1, 2, 8}},
    {"cached", {2, 5, 2, 4}},
    {"grid", {2, 3, 4, 2}},
    {"zero_point", {1}, ir::DType::i8},
    {"lengths", {2}, ir::DType::i64},
};
constexpr size_t kParamCount = std::size(kParams);
inline const double kConstants[] = {0, 1, 2, -1e9, -INFINITY, INFINITY};

/// Calls that random operands would hardly make, by names of parameters ("-": absent).
inline const std::pair<Op, std::vector<std::string>> kForms[] = {
    {Op::attention, {"heads", "heads", "heads"}},
    {Op::attention, {"heads", "heads", "heads", "lengths"}},
    {Op::attention, {"heads", "cached", "cached"}},
    {Op::attention, {"cached", "heads", "heads", "lengths"}},
    {Op::attention, {"heads", "heads", "heads", "lengths", "hiding"}},
    {Op::attention, {"cached", "heads", "heads"}},
    {Op::attention, {"many_heads", "many_heads", "many_heads"}},
    {Op::attention, {"heads", "heads", "heads", "-", "hiding"}},
    {Op::conv1d, {"signal", "taps"}},
    {Op::conv1d, {"signal", "tap", "bias4"}},
    {Op::conv1d, {"signal", "tap"}},
    {Op::conv_transpose, {"signal", "taps"}},
    {Op::conv2d, {"image", "taps2"}},
    {Op::conv2d, {"image", "tap2"}},
    {Op::conv2d, {"image", "taps_last"}},
    {Op::conv2d, {"image", "tap_last"}},
    {Op::conv3d, {"volume", "taps3"}},
    {Op::max_pool2d, {"image"}},
    {Op::avg_pool2d, {"image"}},
    {Op::avg_pool2d, {"batch"}},
    {Op::grid_sample, {"image", "grid"}},
    {Op::grid_sample, {"image", "places"}},
    {Op::lstm, {"gates", "weights"}},
    {Op::lstm, {"batch_gates", "weights"}},
    {Op::rotary, {"many_heads", "ids_of_rows"}},
    {Op::rotary, {"heads", "ids"}},
    {Op::matmul_integer, {"bytes", "bytes_t"}},
    {Op::matmul_integer, {"bytes_t", "bytes"}},
    {Op::matmul_integer, {"bytes_t", "bytes", "zero_point"}},
    {Op::scatter_nd, {"x", "few_nd", "updates"}},
    {Op::scatter_nd, {"x", "ids_nd", "x"}},
    {Op::scatter_elements, {"x", "few_rows", "updates"}},
    {Op::gather_nd, {"x", "few_nd"}},
    {Op::gather_nd, {"w", "ids_nd"}},
    {Op::gather_elements, {"x", "ids_of_rows"}},
    {Op::embedding, {"x", "few"}},
    {Op::embedding, {"w", "ids"}},
    {Op::where, {"rows_mask", "x", "constant4"}},
    {Op::where, {"mask", "t", "constant4"}},
    {Op::where, {"mask", "t", "constant5"}},
    {Op::where, {"mask", "constant0", "constant4"}},
    {Op::where, {"rows_mask", "x", "constant1"}},
};

/// Words that string attributes have.
inline std::vector<std::string> words(Op op, std::string_view name) {
  if (name == "reduction")
    return {"none", "add", "mul", "max", "min"};
  if (name == "approximate")
    return {"none", "tanh"};
  if (op == Op::pad)
    return {"constant", "edge", "reflect"};
  if (name == "mode")
    return {"nearest", "linear", "cubic"};
  if (name == "coordinates")
    return {"half_pixel", "align_corners", "asymmetric"};
  if (op == Op::grid_sample)
    return {"zeros", "border", "reflection"};
  return {};
}

} // namespace cugrt::test
