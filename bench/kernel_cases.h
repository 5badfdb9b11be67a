// What bench kernels measures: a small module for each case, in two sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cugrt::bench {

enum class Ceiling { copy, read, mma, fma };
inline constexpr const char *kCeilingNames[] = {"copy", "read", "mma", "fma"};

/// `T` is the dtype, R, C and K are sizes (small ones without a GPU) in parameters, results' types
/// and body. That stands behind "%r = ", or behind "%r, %q = " or "%r, %q, %p = " where there
/// are more results;
/// one that begins with '%' is whole statements.
struct KernelCase {
  const char *name, *dtype, *params, *body;
  Ceiling ceiling;
  int64_t small[3], large[3];                // R, C, K
  double (*operations)(const int64_t *size); // nullptr: not a measure of it
  const char *result = "tensor<[R, C], T>";
  /// The part of the first operand that is read, where another names what: no element counts twice.
  double (*part_read)(const int64_t *size) = nullptr; // nullptr: all of it
};

/// Of the rows of a table that ids name: the k-th id is k times an odd number, modulo these, so
/// that so many in a row are different ones.
inline constexpr int64_t kTableRows = 1024;

/// All: ceilings, single ops, then model_cases().
const std::vector<KernelCase> &kernel_cases();
/// Parts of models.
std::span<const KernelCase> model_cases();
/// Those whose rate is a ceiling, which come first.
bool is_ceiling(const KernelCase &c);
/// The text of the module.
std::string module_text(const KernelCase &c, const int64_t *sizes);

} // namespace cugrt::bench
