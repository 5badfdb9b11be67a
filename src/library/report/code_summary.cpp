// Counting of kernels; see plan_report.h.
#include "library/report/plan_report.h"

#include "ops/emit/kernel_table.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace cugrt::runtime {

size_t CodeSummary::specialized_count() const {
  size_t count = 0;
  for (const SpecializedKernel &kernel : specialized)
    count += kernel.specialized;
  return count;
}

CodeSummary summarize_code(const plan::Plan &plan) {
  // Identifies a function, as codegen::KernelTable counts them.
  using Key = std::tuple<std::string, std::vector<std::string>, std::vector<std::string>>;
  std::map<Key, SpecializedKernel> kernels;
  for (const plan::Kernel &kernel : plan.kernels) {
    const plan::CodeUnit &code = plan.codes[kernel.code];
    const bool special =
        std::any_of(code.options.begin(), code.options.end(), [](const std::string &option) {
          return option.starts_with(codegen::kAssumptionOption);
        });
    SpecializedKernel &row =
        kernels[Key(code.name, kernel.entries, codegen::function_options(code.options))];
    row.source = code.name;
    if (row.name.empty())
      row.name = kernel.name;
    row.specialized += special;
    row.general += !special;
  }
  CodeSummary summary;
  summary.kernels = plan.kernels.size();
  summary.codes = plan.codes.size();
  for (auto &[key, row] : kernels)
    if (row.specialized)
      summary.specialized.push_back(std::move(row));
  std::stable_sort(summary.specialized.begin(), summary.specialized.end(),
                   [](const SpecializedKernel &a, const SpecializedKernel &b) {
                     return a.specialized > b.specialized;
                   });
  return summary;
}

std::string code_summary_text(const CodeSummary &summary) {
  std::string text = "  kernels " + std::to_string(summary.kernels) + ", codes " +
                     std::to_string(summary.codes) + ", specialised for their sizes " +
                     std::to_string(summary.specialized_count()) + ", at most " +
                     std::to_string(codegen::kMaxSpecializations) + " of one function\n";
  for (const SpecializedKernel &row : summary.specialized)
    text += "  " + std::to_string(row.specialized) + " of " + row.name + " (" + row.source + ")" +
            (row.general ? ", and " + std::to_string(row.general) + " for all sizes" : "") + "\n";
  return text;
}

} // namespace cugrt::runtime
