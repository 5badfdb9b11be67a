// Arguments of a function for the commands that run one: from files, at random, as numbers.
#pragma once

#include "model.h"
#include "npy.h"

#include <optional>
#include <random>

namespace tool {

/// A per-call parameter and its argument.
struct Argument {
  size_t param; // of the function
  cugrt_param_info info;
  std::optional<Array> host; // input data; absent for `out` buffers
  cugrt::Buffer buffer;      // of tensors
  std::vector<int64_t> dims;
  cugrt::Value value;
};

/// One for each per-call parameter, with a buffer on the device. Symbols get their values from
/// `symbols`, from the shapes of given inputs and from given integers and shapes that are one; with
/// all known, the rest is drawn (a fixed seed).
std::vector<Argument> make_arguments(const Model &model, Symbols symbols);

/// The values of arguments, as a run takes them.
std::vector<cugrt::Value> values_of(const std::vector<Argument> &arguments);

/// Floats are drawn from [-1, 1), integers from [0, 8), so that ids and counts stay small.
Array random_array(int32_t dtype, const std::vector<int64_t> &dims, std::mt19937 &engine);

/// The numbers of an integer or a shape, with commas between.
std::string integers_text(const cugrt::Value &value);

/// A tensor of the device, copied.
Array fetch(cugrt::Runtime &runtime, const cugrt_tensor &tensor);

/// An element as a number; NaN of dtypes that have none.
double element(const Array &array, size_t index);

} // namespace tool
