// bench: the launch bench's modules, quantiles and Markdown.
#include "support/catch.h"

#include "bench/launch/graphs.h"
#include "bench/support/report.h"
#include "bench/support/samples.h"

#include "compiler/passes/pass.h"
#include "compiler/planner/lower/planner.h"
#include "ir/text/text.h"

using namespace cugrt;
using namespace cugrt::bench;

namespace {

plan::Plan planned(std::string_view graph, uint32_t nodes) {
  auto module = ir::parse_and_verify(launch_module(graph, nodes).text, "bench");
  INFO((module.ok() ? "" : module.status().to_string()));
  REQUIRE(module.ok());
  auto lowered =
      passes::run_passes(std::move(*module), passes::default_pipeline(), passes::PassContext());
  INFO((lowered.ok() ? "" : lowered.status().to_string()));
  REQUIRE(lowered.ok());
  plan::PlannerOptions options;
  options.max_region_nodes = plan::kMaxRegionNodes;
  auto plan = plan::make_plan(*lowered, options);
  INFO((plan.ok() ? "" : plan.status().to_string()));
  REQUIRE(plan.ok());
  return std::move(*plan);
}

uint32_t longest_path(const plan::Region &region) {
  std::vector<uint32_t> depth(region.steps.count, 1);
  uint32_t longest = 1;
  for (const plan::Edge &edge : region.edges) // sorted by where they begin
    depth[edge.to] = std::max(depth[edge.to], depth[edge.from] + 1);
  for (uint32_t d : depth)
    longest = std::max(longest, d);
  return longest;
}

} // namespace

TEST_CASE("every graph of the launch bench is one region of as many nodes as asked for") {
  for (std::string_view graph : {"chain", "fork_join", "layered"})
    for (uint32_t nodes : {1u, 10u, 100u, 1000u}) {
      INFO(graph << " of " << nodes);
      plan::Plan plan = planned(graph, nodes);
      REQUIRE(plan.functions[0].regions.size() == 1);
      CHECK(plan.functions[0].regions[0].steps.count == nodes);
    }
}

TEST_CASE("a transformer of the launch bench has whole layers, at least as many nodes as asked for",
          "[long]") {
  for (uint32_t nodes : {1u, 7u, 8u, 10'000u}) {
    INFO(nodes);
    plan::Plan plan = planned("transformer", nodes);
    uint32_t layers = (nodes + 6) / 7;
    REQUIRE(plan.functions[0].regions.size() == 1);
    CHECK(plan.functions[0].regions[0].steps.count == 7 * layers);
  }
}

TEST_CASE("the launch bench's graphs are as deep as their names say") {
  CHECK(longest_path(planned("chain", 100).functions[0].regions[0]) == 100);
  // Ten groups of a fork, a join and one more: three deep each.
  CHECK(longest_path(planned("fork_join", 100).functions[0].regions[0]) == 30);
  // 112 launches are seven layers of sixteen; sharing of storage may only make it deeper.
  uint32_t depth = longest_path(planned("layered", 112).functions[0].regions[0]);
  CHECK(depth >= 7);
  CHECK(depth < 112);
}

TEST_CASE("both shapes of a launch module are within its bounds and differ") {
  for (std::string_view graph : launch_graphs()) {
    LaunchModule module = launch_module(graph, 10);
    CHECK(module.shapes[0] != module.shapes[1]);
    CHECK(module.shapes[0].size() == module.shapes[1].size());
  }
}

TEST_CASE("quantiles lie between the closest ranks") {
  Samples samples;
  CHECK(!samples.median());
  for (double value : {4.0, 1.0, 3.0, 2.0})
    samples.add(value);
  CHECK(samples.median() == 2.5);
  CHECK(samples.quantile(0) == 1.0);
  CHECK(samples.quantile(0.25) == 1.75);
  CHECK(samples.quantile(1) == 4.0);
  Samples one;
  one.add(7);
  CHECK(one.quantile(0.25) == 7.0);
}

TEST_CASE("a Markdown table aligns names to the left and figures to the right") {
  CHECK(markdown_table({"name", "us"}, {{"a", "1.5"}, {"longer", "10"}}) == "| name   |  us |\n"
                                                                            "|--------|----:|\n"
                                                                            "| a      | 1.5 |\n"
                                                                            "| longer |  10 |\n");
}

TEST_CASE("figures have three significant digits, and none is a dash") {
  CHECK(figure_text(std::nullopt) == "-");
  CHECK(figure_text(1234.4) == "1234");
  CHECK(figure_text(99.96) == "100");
  CHECK(figure_text(56.71) == "56.7");
  CHECK(figure_text(9.996) == "10.0");
  CHECK(figure_text(1.234) == "1.23");
  CHECK(figure_text(0.0121) == "0.012");
  CHECK(figure_text(-2.5) == "-2.50");
}
