// The order of a region's nodes, and launches that write in place, as the validator sees them.
#include "compiler/planner/edges/region_nodes.h"
#include "compiler/planner/lower/planner.h"

#include "ir/text/text.h"
#include "plan/validate/validate.h"
#include "support/describe_plan.h"
#include "support/must.h"

#include <random>

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::must;

namespace {

using Order = std::optional<std::vector<uint32_t>>;

Plan ordered_plan(const std::string &text, PlannerOptions options = {}) {
  auto module = must(ir::parse_and_verify(text, "test"));
  return must(make_plan(module, options));
}

const char *const kInPlace = R"(cugrt 1
kernel @relu {
  inline "relu"
  entry "relu"
  params (x: in f32, y: out f32 over x)
  launch { grid (1, 1, 1) block (64, 1, 1) }
}
func @main(%x: tensor<[64], f32>, %y: out tensor<[64], f32>) {
  %s = alloc_storage "global", 512
  %a = alloc_tensor %s, 0 : tensor<[64], f32>
  launch @relu(%x, %a)
  %b = alloc_tensor %s, 0 : tensor<[64], f32>
  launch @relu(%a, %b)
  launch @relu(%b, %y)
  return
}
)";

} // namespace

TEST_CASE("chains one after the other take as many turns as the longest, once reordered") {
  // 0 1 2 and 3 4 5: the second begins in the turn of the first one's last node.
  const std::vector<Edge> two = {{0, 1}, {1, 2}, {3, 4}, {4, 5}};
  CHECK(issue_turns(6, two) == 5);
  CHECK(longest_path_first(6, two) == Order({0, 3, 1, 4, 2, 5}));
  CHECK(issue_turns(6, two, 1) == 6);
  CHECK_FALSE(longest_path_first(6, two, 1)); // one lane: any order takes 6
}

TEST_CASE("of nodes that may begin those with the longest path below them go first") {
  // 0 is alone, 1 begins a chain of two and 3 one of three.
  const std::vector<Edge> edges = {{1, 2}, {3, 4}, {4, 5}};
  // As numbered on two lanes: 0 1 | 2 3 | 4 | 5.
  CHECK(issue_turns(6, edges, 2) == 4);
  // 3 (three) and 1 (two) | 4 (two) and, of 0 and 2 (one each), the first | 2 and 5.
  CHECK(longest_path_first(6, edges, 2) == Order({3, 1, 4, 0, 2, 5}));
}

TEST_CASE("an order that takes no fewer turns leaves the nodes as they are") {
  CHECK_FALSE(longest_path_first(0, {}));
  CHECK_FALSE(longest_path_first(1, {}));
  const std::vector<Edge> chain = {{0, 1}, {1, 2}};
  CHECK_FALSE(longest_path_first(3, chain));
  const std::vector<Edge> side_by_side = {{0, 2}, {1, 3}};
  CHECK_FALSE(longest_path_first(4, side_by_side));
  CHECK(issue_turns(64, {}) == 2); // 32 lanes
  CHECK_FALSE(longest_path_first(64, {}));
}

TEST_CASE("an order keeps to the edges, and takes fewer turns by the definition of a turn") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const uint32_t nodes = 2 + random() % 40, lanes = 1 + random() % 6;
    std::vector<Edge> edges;
    for (uint32_t to = 1; to < nodes; ++to)
      for (uint32_t from = to > 6 ? to - 6 : 0; from < to; ++from)
        if (random() % 5 == 0)
          edges.push_back({from, to});
    std::sort(edges.begin(), edges.end());
    const Order order = longest_path_first(nodes, edges, lanes);
    if (!order)
      continue;
    std::vector<uint32_t> place(nodes, kNone);
    REQUIRE(order->size() == nodes);
    for (uint32_t i = 0; i < nodes; ++i)
      place[order->at(i)] = i;
    std::vector<Edge> moved;
    for (const Edge &edge : edges) {
      REQUIRE(place[edge.from] < place[edge.to]);
      moved.push_back({place[edge.from], place[edge.to]});
    }
    // Slots again, node by node from the definition.
    std::vector<uint32_t> turn(nodes, 0);
    for (uint32_t i = 0; i < nodes; ++i) {
      if (i)
        turn[i] = turn[i - 1];
      for (const Edge &edge : moved)
        if (edge.to == i)
          turn[i] = std::max(turn[i], turn[edge.from] + 1);
      if (i >= lanes && turn[i - lanes] == turn[i])
        ++turn[i];
    }
    std::sort(moved.begin(), moved.end());
    CHECK(issue_turns(nodes, moved, lanes) == turn.back() + 1);
    CHECK(turn.back() + 1 < issue_turns(nodes, edges, lanes));
  }
}

TEST_CASE("tensors written in parts keep their region in program order") {
  // %w is written in two halves, the second one where %a lay. In program order %a is gone before %w
  // begins; the chain that writes the first half would go before %a's last reader.
  const std::string text = R"(cugrt 1
kernel @k {
  inline "k"
  entry "k"
  params (x: in any, y: out any)
  launch { grid (1, 1, 1) block (64, 1, 1) }
}
func @main(%x: tensor<[64], f32>, %y: out tensor<[64], f32>, %z: out tensor<[128], f32>) {
  %s = alloc_storage "global", 1024
  %a = alloc_tensor %s, 256 : tensor<[64], f32>
  launch @k(%x, %a)
  %b = alloc_tensor %s, 512 : tensor<[64], f32>
  launch @k(%a, %b)
  launch @k(%b, %y)
  %c = alloc_tensor %s, 768 : tensor<[64], f32>
  launch @k(%x, %c)
  %w = alloc_tensor %s, 0 : tensor<[128], f32>
  %first = view %w, 0 : tensor<[64], f32>
  %second = view %w, 256 : tensor<[64], f32>
  launch @k(%x, %first)
  launch @k(%c, %second)
  launch @k(%w, %z)
  return
}
)";
  const Plan plan = ordered_plan(text);
  const Status valid = validate(plan);
  INFO(valid.to_string() << "\n" << describe(plan));
  CHECK(valid.ok());
}

TEST_CASE("bytes that a launch may write in place may be shared there, and only there") {
  const Plan plan = ordered_plan(kInPlace);
  REQUIRE(validate(plan).ok());
  const auto refused = [](const Plan &damaged) {
    const Status status = validate(damaged);
    return !status.ok() && status.message().find("live together") != std::string::npos;
  };
  Plan undeclared = plan;
  undeclared.kernels[0].params[1].over.clear();
  CHECK(refused(undeclared));
  auto buffer = [](Plan &p, const std::string &name) -> Buffer & {
    for (Buffer &b : p.functions[0].buffers)
      if (b.name == name)
        return b;
    throw std::out_of_range(name);
  };
  Plan moved = plan; // other bytes than those that are read
  buffer(moved, "b").offset_bytes = moved.exprs.constant(128);
  CHECK(refused(moved));
  Plan apart = plan;
  buffer(apart, "b").offset_bytes = apart.exprs.constant(256);
  CHECK_FALSE(refused(apart));
  Plan wider = plan; // elements of another size
  buffer(wider, "b").dtype = ir::DType::f16;
  CHECK(refused(wider));
  Plan later = plan; // %a is read once more, after it was overwritten
  for (Step &step : later.functions[0].steps)
    if (step.name == "relu %y")
      for (uint32_t b = 0; b < later.functions[0].buffers.size(); ++b)
        if (later.functions[0].buffers[b].name == "a")
          for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a)
            if (later.functions[0].accesses[a].access == Access::in)
              later.functions[0].accesses[a].buffer = b;
  CHECK_FALSE(validate(later).ok());
}

TEST_CASE("a kernel of a plan writes over parameters that it has and reads") {
  for (uint32_t read : {1u, 7u}) {
    Plan plan = ordered_plan(kInPlace);
    plan.kernels[0].params[1].over = {read};
    const Status status = validate(plan);
    CHECK_FALSE(status.ok());
    CHECK(status.message().find("writes over a parameter") != std::string::npos);
  }
}
