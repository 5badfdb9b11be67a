// Plans of modules, as described for people: what the planner makes of text.
//
//   plan, plan seed   the plan under a policy
//   notes, notes seed each binding with its region or the rule that kept it out
//   plan inlined      policy patch, behind the passes that inline calls and plan storage
//   storage           every planned tensor's place and life
//   edges             why each edge exists
#include "compiler/planner/lower/planner.h"
#include "ir/text/text.h"
#include "plan/bytes/serialize.h"

#include "plan/validate/validate.h"
#include "support/catch.h"
#include "support/describe_plan.h"
#include "support/golden.h"
#include "support/inlined.h"
#include "support/published_text.h"

using namespace cugrt;

static std::string notes(const plan::PlanReport &report, const plan::Plan &plan) {
  std::string text;
  for (const plan::BindingNote &note : report.bindings) {
    text += std::to_string(note.location.line) + ": " + note.binding + "\n    " +
            (note.region == plan::kNone ? "no region"
                                        : plan.functions[note.function].regions[note.region].name) +
            ": " + note.reason + "\n";
    for (const plan::CallNote &call : note.from.calls)
      text += "    from the call of @" + call.callee + " in line " +
              std::to_string(call.location.line) + "\n";
  }
  return text;
}

static std::string storage(const plan::PlanReport &report) {
  std::string text = "before " + std::to_string(report.storage_before_bytes) + "\n";
  for (const plan::StorageNote &note : report.storages) {
    text += "%" + note.name + " " + note.scope + " [" + std::to_string(note.offset_bytes) + ", " +
            std::to_string(note.offset_bytes + note.bytes) + ") steps [" +
            std::to_string(note.first_step) + ", " + std::to_string(note.end_step) + ")";
    for (auto [begin, end] : note.gaps)
      text += " but [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
    text += "\n";
    for (const plan::CallNote &call : note.from.calls)
      text += "    from the call of @" + call.callee + " in line " +
              std::to_string(call.location.line) + "\n";
  }
  return text;
}

static std::string edges(const plan::PlanReport &report, const plan::Plan &plan) {
  std::string text;
  for (const plan::EdgeNote &note : report.edges)
    text += plan.functions[note.function].regions[note.region].name + " " +
            std::to_string(note.edge.from) + "->" + std::to_string(note.edge.to) + " " +
            note.reason + "\n";
  return text;
}

static std::string run(const std::string &command, const std::string &input) {
  Diagnostics diagnostics;
  ir::Module module = ir::parse(input, diagnostics);
  if (diagnostics.empty())
    ir::verify(module, diagnostics);
  if (!diagnostics.empty())
    return diagnostics.render("input", input);
  if (command == "seed") {
    plan::PublishedAnalysis analysis = plan::analyze_published(module);
    return test::PublishedText(module, analysis).all();
  }
  plan::PlannerOptions options;
  if (command.ends_with("seed"))
    options.policy = plan::Policy::published;
  if (command.ends_with("inlined"))
    module = test::inlined_and_stored(std::move(module));
  plan::PlanReport report;
  auto result = plan::make_plan(module, options, &report);
  if (!result.ok())
    return "input:" + result.status().location() + ": error: " + result.status().message() + "\n";
  Status valid = plan::validate(*result);
  INFO(valid.to_string());
  CHECK(valid.ok());
  std::string bytes = plan::to_bytes(*result);
  auto again = plan::from_bytes(bytes);
  CHECK((again.ok() && plan::to_bytes(*again) == bytes));
  if (command.starts_with("notes"))
    return notes(report, *result);
  if (command.starts_with("storage"))
    return storage(report);
  if (command.starts_with("edges"))
    return edges(report, *result);
  return plan::describe(*result);
}

static const bool registered = cugrt::test::register_goldens("plan", GOLDEN_FOLDER "/plan", run);
