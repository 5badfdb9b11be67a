// The rules of policy `seed`, as the planner asks for them: what the seed analysis has found,
// binding by binding. The analysis takes an extern call for a launch, as published; here it ends
// the region, since it is a host function as far as the plan can know, so one region of the
// analysis may become several.
#include "plan/regions.h"

#include "plan/seed_analysis.h"

namespace cugrt::plan {

namespace {

class SeedRules final : public RegionRules {
public:
  SeedRules(const ModuleContext &context, uint32_t function)
      : module_(context.module), function_(context.module.functions[function]),
        seed_(context.seed->functions[function]), explains_(context.report) {}

  bool copies_join() const override { return false; }

  Decision decide(const ir::Binding &b) override {
    const SeedBinding &found = seed_.bindings[next_++];
    Verdict verdict = b.kind == ir::BindingKind::extern_call ? Verdict::closes : found.verdict;
    return {verdict, explains_ ? seed_reason(module_, function_, b, found) : std::string()};
  }

private:
  const ir::Module &module_;
  const ir::Function &function_;
  const SeedFunction &seed_;
  const bool explains_; // somebody reads the reasons
  uint32_t next_ = 0;   // bindings come in program order
};

} // namespace

std::unique_ptr<RegionRules> make_seed_rules(const ModuleContext &context, uint32_t function) {
  return std::make_unique<SeedRules>(context, function);
}

} // namespace cugrt::plan
