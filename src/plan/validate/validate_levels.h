// The graphs of a plan's regions: that bodies nest, and that edges, conditionals and conditions
// stand where they may. A part of validate_structure(): indices are known to name rows.
#pragma once

#include "plan/format/plan.h"

namespace cugrt::plan {

class RegionLevelCheck {
public:
  RegionLevelCheck(const Plan &plan, const Function &function)
      : plan_(plan), f_(function), conditional_uses_(function.conditionals.size()),
        condition_sets_(function.conditionals.size()) {}

  Status region(const Region &region);
  /// After all regions.
  Status conditionals() const;

private:
  Status fail(const std::string &what) const;
  bool runs_only_where(ExprId when, ExprId outer) const;
  Status levels(const Region &region);
  Status programmatic(const Region &region) const;

  const Plan &plan_;
  const Function &f_;
  std::vector<uint8_t> conditional_uses_, condition_sets_; // by conditional
};

} // namespace cugrt::plan
