// The kernel declarations of a module while ops become launches: equal ones are declared once, and
// the number of specialised ones is bounded.
#pragma once

#include "ir/module/module.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cugrt::codegen {

/// Limit on specialised declarations of one function of one source. Beyond it, kernels are declared
/// without facts about their sizes: one kernel takes them all as parameters.
inline constexpr uint32_t kMaxSpecializations = 32;
/// Prefix of the option that tells the compiler the known facts about sizes.
inline constexpr std::string_view kAssumptionOption = "-DASSUME=";
/// Likewise for the part of a size parameter that registers must hold
/// (kernels/attention/attention.cu). Kernels that differ in it are one function: its
/// specialisations count together.
inline constexpr std::string_view kRegistersOption = "-DMAX_WIDTH=";
/// The options that make a function: all but those two.
std::vector<std::string> function_options(std::span<const std::string> options);

/// Facts about the device for the rules that choose among kernels. Defaults stand for an unknown
/// one; src/compiler/passes/options.def has the same.
struct Target {
  int64_t multiprocessors = 64;
  int64_t compute_capability = 80; // 90 of 9.0
  bool cooperative_bodies = false; // of conditional nodes: they take cooperative launches
};

/// Shared memory that the blocks of a multiprocessor have together.
int64_t shared_bytes_of_multiprocessor(const Target &target);

/// How a kernel is chosen where several compute the same.
struct KernelChoice {
  Target target;
  std::string matmul = "auto";    // a variant in matmul.cpp that products take where they can
  std::string attention = "auto"; // or "whole", "split"
  bool tf32 = false; // products of f32 may round their factors to tf32, for tensor cores
};

class KernelTable {
public:
  /// `module` must outlive the table; its kernels are taken in. Nobody else may add kernels
  /// meanwhile. New kernels are not called as one of `functions`, which the module may still lack.
  KernelTable(ir::Module &module, std::span<const ir::Function> functions,
              bool programmatic = false, KernelChoice choice = {});

  /// Whether kernels are declared as written with wait and trigger.
  bool programmatic() const { return programmatic_; }
  const KernelChoice &choice() const { return choice_; }

  /// The number of a declaration that equals `kernel` but for its name and location. When there is
  /// none, `kernel` is added, under its name or, where that is taken, with a number after it.
  uint32_t intern(ir::Kernel kernel);
  /// As intern, for a kernel that may be specialised by the option `assumption`, which comes last.
  /// Leaves it out beyond kMaxSpecializations of the function.
  uint32_t intern_specialized(ir::Kernel kernel, const std::string &assumption);

  /// Symbols that the present block has read (checked_element), keyed by tensor and upper
  /// bound.
  std::map<std::pair<uint32_t, int64_t>, ir::ExprId> &reads() { return reads_; }
  /// Stands where a block begins and ends.
  void leave_block() { reads_.clear(); }

private:
  ir::Module &module_;
  const bool programmatic_;
  const KernelChoice choice_;
  std::map<std::pair<uint32_t, int64_t>, ir::ExprId> reads_;
  std::unordered_map<std::string, uint32_t> index_; // by everything that makes a declaration
  std::unordered_map<std::string, uint32_t> specializations_; // how many, by the function's text
  /// Names of kernels, functions and constants, with the next number to try (ir::unique_name).
  std::unordered_map<std::string, uint32_t> names_;
};

} // namespace cugrt::codegen
