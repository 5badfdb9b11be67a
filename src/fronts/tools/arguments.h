// Arguments of a function for the commands that run one: from files, at random, as numbers.
#pragma once

#include "npy.h"
#include "tool.h"

#include <optional>
#include <random>

namespace tool {

/// One per-call parameter with what it is bound to.
struct Argument {
  size_t param; // of the function
  cugrt_param_info info;
  std::optional<Array> host; // input data; absent for `out` buffers
  cugrt::Buffer buffer;      // of tensors
  std::vector<int64_t> dims;
  cugrt::Value value;
};

/// The function of that name; without a name main, or the only one.
cugrt::Function choose_function(const cugrt::Executable &executable, const std::string &name);

/// One for each per-call parameter, with a buffer on the device. `given` are NAME=FILE.npy,
/// NAME=random, NAME=NUMBER and NAME=NUMBER,NUMBER,... Symbols get their values from `symbols`,
/// from the shapes of given inputs and from given integers and shapes that are one; with all known,
/// the rest is drawn (a fixed seed).
std::vector<Argument> make_arguments(cugrt::Runtime &runtime, const cugrt::Function &function,
                                     const std::vector<std::string> &given, Symbols symbols);

/// Floats are drawn from [-1, 1), integers from [0, 8), so that ids and counts stay small.
Array random_array(int32_t dtype, const std::vector<int64_t> &dims, std::mt19937 &engine);

/// Adds NAME=random for every tensor that is read and not given.
void add_random(const cugrt::Function &function, std::vector<std::string> &given);

/// Of an integer or a shape, with commas.
std::string integers_text(const cugrt::Value &value);

/// A tensor of the device, copied.
Array fetch(cugrt::Runtime &runtime, const cugrt_tensor &tensor);

/// An element as a number; NaN of dtypes that have none.
double element(const Array &array, size_t index);

} // namespace tool
