// The rules of policy `seed`, in the planner's form: the results of the published analysis, binding
// by binding. The analysis takes an extern call for a launch, as published; here it ends the
// region, since it is a host function as far as the plan can know, so one region of the analysis
// may become several.
//
// Where the module runs lifted functions, each call of one is a region, whatever the analysis says.
#include "compiler/planner/lower/regions.h"

#include "compiler/planner/published/analysis.h"
#include "compiler/planner/rewrite/inline_graphs.h"

#include <utility>

namespace cugrt::plan {

namespace {

class PublishedRules final : public RegionRules {
public:
  PublishedRules(const ModuleContext &context, uint32_t function)
      : module_(context.module), function_(context.module.functions[function]),
        published_(context.published->functions[function]),
        captures_(context.graphs ? context.graphs->captures[function] : Captures()),
        explains_(context.report) {}

  bool copies_join() const override { return false; }

  Decision decide(const ir::Binding &b) override {
    uint32_t number = next_++;
    uint32_t capture = captures_.empty() ? kNoCapture : captures_[number];
    bool changed = capture != std::exchange(last_capture_, capture);
    if (capture != kNoCapture)
      return captured(b, changed);
    const PublishedBinding &found = published_.bindings[number];
    Verdict verdict = b.kind == ir::BindingKind::extern_call ? Verdict::closes : found.verdict;
    if (changed) // the region that is open is a captured one
      verdict = verdict == Verdict::joins        ? Verdict::opens
                : verdict == Verdict::joins_open ? Verdict::closes
                                                 : verdict;
    return {verdict, explains_ ? published_reason(module_, function_, b, found) : std::string()};
  }

private:
  Decision captured(const ir::Binding &b, bool first) {
    fresh_ = fresh_ || first;
    switch (b.work()) {
    case ir::BindingWork::launches:
      return {std::exchange(fresh_, false) ? Verdict::opens : Verdict::joins,
              "in a function that is run as one graph"};
    case ir::BindingWork::calls_host: // an extern: functions that are captured call no builtins
      return {Verdict::closes, "in a function that is run as one graph, but a host function: it "
                               "splits the graph"};
    case ir::BindingWork::computes:
      return {Verdict::closes, "a tensor-level op"};
    case ir::BindingWork::names:
    case ir::BindingWork::kills:
    case ir::BindingWork::calls:
    case ir::BindingWork::matches:
    case ir::BindingWork::reads:
    case ir::BindingWork::controls:
      break;
    }
    return {fresh_ ? Verdict::stays : Verdict::joins_open,
            "in a function that is run as one graph: names storage, runs nothing"};
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const PublishedFunction &published_;
  const Captures captures_;
  const bool explains_; // somebody reads the reasons
  uint32_t next_ = 0;   // bindings come in program order
  uint32_t last_capture_ = kNoCapture;
  bool fresh_ = false; // the captured function has no step yet
};

} // namespace

std::unique_ptr<RegionRules> make_published_rules(const ModuleContext &context, uint32_t function) {
  return std::make_unique<PublishedRules>(context, function);
}

} // namespace cugrt::plan
