// The rules of policy `seed`, as the planner asks for them: what the published analysis has found,
// binding by binding. The analysis takes an extern call for a launch, as published; here it ends
// the region, since it is a host function as far as the plan can know, so one region of the
// analysis may become several.
//
// Where the module runs lifted functions, each call of one is a region, whatever the analysis says.
#include "compiler/planner/lower/regions.h"

#include "compiler/planner/published/analysis.h"

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
    switch (b.kind) {
    case ir::BindingKind::launch:
      return {std::exchange(fresh_, false) ? Verdict::opens : Verdict::joins,
              "in a function that is run as one graph"};
    case ir::BindingKind::extern_call:
      return {Verdict::closes, "in a function that is run as one graph, but a host function: it "
                               "splits the graph"};
    case ir::BindingKind::op:
      return {Verdict::closes, "a tensor-level op"};
    case ir::BindingKind::alloc_storage:
    case ir::BindingKind::alloc_tensor:
    case ir::BindingKind::alloc:
    case ir::BindingKind::kill:
    case ir::BindingKind::call:
    case ir::BindingKind::host_call:
    case ir::BindingKind::alias:
    case ir::BindingKind::view:
    case ir::BindingKind::tuple:
    case ir::BindingKind::tuple_element:
    case ir::BindingKind::constant:
    case ir::BindingKind::shape:
    case ir::BindingKind::literal:
    case ir::BindingKind::match_shape:
    case ir::BindingKind::read_symbol:
    case ir::BindingKind::if_:
    case ir::BindingKind::while_:
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
