// Goldens of the passes: the command is `opt` and names of passes (none: the default pipeline),
// with options as NAME=VALUE. `plan` runs them likewise and describes the plan that policy seed
// makes of the result.
#include "support/catch.h"
#include "support/describe_plan.h"
#include "support/golden.h"

#include "compiler/passes/pass.h"
#include "compiler/planner/lower/planner.h"
#include "ir/text/text.h"
#include "plan/validate/validate.h"

#include <sstream>

using namespace cugrt;

static std::string run(const std::string &command, const std::string &input) {
  Result<ir::Module> module = ir::parse_and_verify(input, "input");
  if (!module.ok())
    return module.status().message();
  std::istringstream words(command);
  std::string word;
  words >> word;
  REQUIRE((word == "opt" || word == "plan"));
  const bool plans = word == "plan";
  std::vector<const passes::Pass *> pipeline;
  passes::PassContext context;
  while (words >> word) {
    if (const size_t equals = word.find('='); equals != std::string::npos) {
      REQUIRE(context.set(word.substr(0, equals), word.substr(equals + 1)).ok());
      continue;
    }
    Result<const passes::Pass *> pass = passes::require_pass(word);
    REQUIRE(pass.ok());
    pipeline.push_back(*pass);
  }
  std::span<const passes::Pass *const> chosen = pipeline;
  if (pipeline.empty())
    chosen = passes::default_pipeline();
  Result<ir::Module> result = passes::run_passes(std::move(*module), chosen, context);
  if (!result.ok())
    return result.status().location() + ": error: " + result.status().message() + "\n";
  const std::string printed = ir::print(*result);
  Result<ir::Module> again = ir::parse_and_verify(printed, "result");
  INFO((again.ok() ? "" : again.status().message()));
  CHECK(again.ok()); // what a pass gives is a verified module
  if (!plans || !again.ok())
    return printed;
  plan::PlannerOptions options;
  options.policy = plan::Policy::published;
  Result<plan::Plan> plan = plan::make_plan(*again, options);
  if (!plan.ok())
    return plan.status().location() + ": error: " + plan.status().message() + "\n";
  CHECK(plan::validate(*plan).ok());
  return plan::describe(*plan);
}

static const bool registered = test::register_goldens("passes", GOLDEN_FOLDER "/passes", run);
