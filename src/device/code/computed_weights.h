// Weights that are results of functions: a weight named NAME.N, where the public function @NAME
// takes weights only, or nothing, is result N of that function, computed when weights are loaded.
// LiftTransformParams makes such functions (compiler/passes/lift_transform_params.cpp); they are no
// part of the API's view.
#pragma once

#include "base/digest.h"
#include "device/code/executable.h"
#include "device/code/weights.h"

#include <functional>
#include <map>
#include <optional>

namespace cugrt::runtime {

struct ComputedWeight {
  uint32_t function, result;
};

/// Returns the function and result that compute `param`; none: the session's weights give it.
std::optional<ComputedWeight> computed_weight(const plan::Plan &plan, const plan::Param &param);

/// Whether some weight is a result of a function; by function.
std::vector<bool> functions_of_weights(const plan::Plan &plan);

/// For each parameter: whether it is a weight whose bytes runs of the function use. A weight that
/// only functions of weights use stays a parameter.
std::vector<bool> weights_read(const plan::Function &function);

/// Fails if `set` has a tensor that a function computes: it would not be used.
Status check_not_computed(const plan::Plan &plan, const WeightSet &set);

/// A computed weight's type and constant dimensions, without an address.
Result<cugrt_tensor> describe_computed(const plan::Plan &plan, ComputedWeight weight);

/// Identifies a computed weight, whatever its model calls it. Two weights are equal byte for byte
/// if their computations and sizes are equal and their sources are pairwise equal.
struct WeightRecipe {
  Digest computation; // code, launches and constants, over the sources by their places
  std::vector<std::string> sources; // weights of the set, in the order of their first use
};

/// Finds recipes of an executable's computed weights, one after the other.
class WeightRecipes {
public:
  /// Returns a digest of a kernel's code; kernels with the same digest give the same bytes.
  using Code = std::function<Digest(uint32_t kernel)>;
  WeightRecipes(const plan::Plan &plan, Code code);
  WeightRecipes(const WeightRecipes &) = delete;
  ~WeightRecipes();
  /// None if the function does more than launch, copy and fill.
  std::optional<WeightRecipe> of(ComputedWeight weight);

private:
  using Results = std::vector<std::optional<WeightRecipe>>;
  const plan::Plan &plan_;
  const Code code_;
  std::map<uint32_t, Results> functions_; // that were asked of
  std::map<uint32_t, Digest> codes_;      // of kernels
  friend class RecipeReader;              // computed_weights.cpp
};

} // namespace cugrt::runtime
