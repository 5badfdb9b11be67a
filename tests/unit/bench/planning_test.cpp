// The modules of the planning bench.
#include "bench/planning_modules.h"

#include "ir/text/text.h"
#include "support/catch.h"

#include <algorithm>
#include <sstream>

using namespace cugrt;
using bench::PlanningModule;

TEST_CASE("planning modules have exactly the bindings asked for, and hold by the verifier") {
  for (std::string_view kind : bench::planning_kinds())
    for (uint32_t bindings : {2u, 1000u, 1234u}) {
      INFO(kind << " " << bindings);
      ir::Module module = bench::to_ir(bench::planning_module(kind, bindings));
      CHECK(module.functions[0].body().bindings.size() == bindings);
      Diagnostics diagnostics;
      ir::verify(module, diagnostics);
      CHECK(diagnostics.empty());
    }
}

TEST_CASE("a planning module's kind says who takes what") {
  PlanningModule chain = bench::planning_module("chain", 20);
  for (uint32_t launch = 0; launch < 10; ++launch)
    CHECK(chain.taken_by(launch)[0] == launch);
  PlanningModule fork = bench::planning_module("fork_join", 40);
  CHECK(fork.taken_by(7)[0] == 0);     // the last of eight branches of the input
  CHECK(fork.taken_by(8).size() == 8); // joins them
  CHECK(fork.taken_by(9)[0] == 9);     // takes the join, tensor 1 + 8
  PlanningModule shared = bench::planning_module("shared_weight", 300'000);
  auto readers = [&] {
    uint32_t count = 0;
    for (uint32_t launch = 0; launch < shared.launch_count(); ++launch) {
      auto taken = shared.taken_by(launch);
      count += std::find(taken.begin(), taken.end(), 1u) != taken.end();
    }
    return count;
  };
  CHECK(readers() == 100'000);
}

TEST_CASE("the neutral text of a planning module is its sizes and what each launch takes") {
  PlanningModule module = bench::planning_module("chain", 4);
  std::istringstream text(bench::to_neutral(module));
  uint32_t inputs, weights, taken;
  int64_t elements;
  REQUIRE((text >> inputs >> weights >> elements));
  CHECK(inputs == 1);
  CHECK(weights == 0);
  CHECK(elements == module.elements[0]);
  for (uint32_t launch = 0; launch < 2; ++launch) {
    REQUIRE((text >> elements >> taken));
    CHECK(elements == module.elements[launch + 1]);
    CHECK(taken == launch);
  }
}
