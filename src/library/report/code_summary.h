// How many kernels a plan has, and how many of them are one kernel compiled for different sizes.
#pragma once

#include "plan/format/plan.h"

namespace cugrt::runtime {

/// A kernel of the library that was specialised: the compiled function of one source, for one set
/// of options.
struct SpecializedKernel {
  std::string name, source; // of the first one that is declared
  uint32_t specialized = 0; // declarations that tell the compiler what is known of their sizes
  uint32_t general = 0;     // that take all sizes as parameters: what came beyond the bound, or
                            // nothing is known of; of attention for each number of registers
};

struct CodeSummary {
  size_t kernels = 0;
  size_t codes = 0; // what is compiled, or loaded, once for each architecture
  std::vector<SpecializedKernel> specialized; // most specialised first, then by name
  size_t specialized_count() const;
};

CodeSummary summarize_code(const plan::Plan &plan);

/// As lines of a report, each indented: all in one, then a line for each specialised function.
std::string code_summary_text(const CodeSummary &summary);

} // namespace cugrt::runtime
