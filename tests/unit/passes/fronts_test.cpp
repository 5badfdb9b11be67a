// Launches side by side: what PlanMemory leaves of them when storage is reused, and what it may
// cost. The graph is the planner's; what could run side by side is worked out here from names
// alone.
#include "compiler/passes/pass.h"
#include "compiler/planner/lower/planner.h"
#include "ir/text/text.h"

#include "support/must.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace cugrt;
using cugrt::test::must;

namespace {

const std::string kKernel = R"(cugrt 1
kernel @mix {
  inline "mix"
  entry "mix"
  params (a: in f32, b: in f32, y: out f32)
  launch { grid (1, 1, 1) block (64, 1, 1) }
}
)";

/// Launch i writes t<i> from two earlier tensors; kNone of them is %x.
struct Dag {
  std::vector<std::pair<int, int>> takes; // -1: %x
  int64_t floats = 64;                    // of every tensor

  std::string text() const {
    const std::string type = "tensor<[" + std::to_string(floats) + "], f32>";
    auto name = [](int i) { return i < 0 ? std::string("%x") : "%t" + std::to_string(i); };
    std::string out = kKernel + "func @main(%x: " + type + ") -> (" + type + ") {\n";
    for (size_t i = 0; i < takes.size(); ++i)
      out += "  " + name(int(i)) + " = alloc : " + type + "\n  launch @mix(" +
             name(takes[i].first) + ", " + name(takes[i].second) + ", " + name(int(i)) + ")\n";
    return out + "  return " + name(int(takes.size()) - 1) + "\n}\n";
  }

  /// Launches on the longest path, by who reads whose result.
  size_t depth() const {
    std::vector<size_t> depths;
    for (auto [a, b] : takes)
      depths.push_back(1 + std::max(a < 0 ? 0 : depths[size_t(a)], b < 0 ? 0 : depths[size_t(b)]));
    return *std::max_element(depths.begin(), depths.end());
  }
};

/// `count` chains of `length`, each after the other, and the launches that join their ends.
Dag branches(int count, int length) {
  Dag dag;
  std::vector<int> ends;
  for (int branch = 0; branch < count; ++branch) {
    for (int i = 0; i < length; ++i) {
      const int last = i == 0 ? -1 : int(dag.takes.size()) - 1;
      dag.takes.push_back({last, last});
    }
    ends.push_back(int(dag.takes.size()) - 1);
  }
  while (ends.size() > 1) {
    std::vector<int> next;
    for (size_t i = 0; i + 1 < ends.size(); i += 2) {
      dag.takes.push_back({ends[i], ends[i + 1]});
      next.push_back(int(dag.takes.size()) - 1);
    }
    ends = next;
  }
  return dag;
}

plan::Plan planned(const std::string &text, const std::string &reuse = "balanced") {
  auto module = must(ir::parse_and_verify(text, "test"));
  passes::PassContext context;
  REQUIRE(context.set("memory.reuse", reuse).ok());
  auto lowered = must(passes::run_passes(module, passes::default_pipeline(), context));
  return must(plan::make_plan(lowered, {}));
}

/// Nodes on the longest path of the only region.
size_t longest_path(const plan::Plan &plan) {
  REQUIRE(plan.functions.size() == 1);
  REQUIRE(plan.functions[0].regions.size() == 1);
  const plan::Region &region = plan.functions[0].regions[0];
  std::vector<size_t> depths(region.steps.count, 1);
  std::vector<plan::Edge> edges = region.edges;
  std::sort(edges.begin(), edges.end(), [](plan::Edge a, plan::Edge b) {
    return std::pair(a.to, a.from) < std::pair(b.to, b.from);
  });
  for (const plan::Edge &edge : edges)
    depths[edge.to] = std::max(depths[edge.to], depths[edge.from] + 1);
  return *std::max_element(depths.begin(), depths.end());
}

int64_t arena_bytes(const plan::Plan &plan) {
  REQUIRE(plan.arenas.size() == 1);
  return plan.arenas[0].bytes;
}

constexpr int64_t kUnit = 256; // bytes of 64 floats, and the arena's alignment

} // namespace

TEST_CASE("branches that are written one after the other run side by side") {
  const Dag dag = branches(4, 4);
  // In program order the arena holds the ends of the branches that are done and two tensors more.
  const plan::Plan smallest = planned(dag.text(), "smallest");
  CHECK(arena_bytes(smallest) == 5 * kUnit);
  CHECK(longest_path(smallest) > dag.depth());
  // Side by side, what each of four launches reads and writes is alive at once.
  const plan::Plan balanced = planned(dag.text());
  CHECK(arena_bytes(balanced) == 8 * kUnit);
  CHECK(longest_path(balanced) == dag.depth());
}

TEST_CASE("storage does not grow by more than half for launches to run side by side") {
  Dag dag = branches(16, 4);
  dag.floats = 1 << 20; // tensors of 4 MiB: two pages of 2 MiB
  const int64_t unit = dag.floats * 4;
  const plan::Plan smallest = planned(dag.text(), "smallest");
  CHECK(arena_bytes(smallest) == 17 * unit);
  const plan::Plan balanced = planned(dag.text());
  CHECK(arena_bytes(balanced) <= 17 * unit + 17 * unit / 2);
  CHECK(arena_bytes(balanced) > arena_bytes(smallest));
  CHECK(longest_path(balanced) < longest_path(smallest));
  // Sixteen that read and write two tensors each.
  const plan::Plan parallel = planned(dag.text(), "parallel");
  CHECK(arena_bytes(parallel) == 32 * unit);
  CHECK(longest_path(parallel) == dag.depth());
}

TEST_CASE("a chain is planned as it stands") {
  const Dag chain = branches(1, 50);
  CHECK(arena_bytes(planned(chain.text())) == 2 * kUnit);
  CHECK(longest_path(planned(chain.text())) == 50);
}

TEST_CASE("what early launches make for late ones is not made earlier than it is written") {
  // A chain of 40; beside each link stands a launch that takes only %x and is taken by that link.
  Dag dag;
  int link = -1;
  for (int i = 0; i < 40; ++i) {
    dag.takes.push_back({-1, -1});
    dag.takes.push_back({link, int(dag.takes.size()) - 1});
    link = int(dag.takes.size()) - 1;
  }
  const plan::Plan plan = planned(dag.text());
  CHECK(longest_path(plan) == dag.depth());
  // Of a front: the link's two operands and result, and the operand of the next that is being made.
  CHECK(arena_bytes(plan) == 4 * kUnit);
}

TEST_CASE("nothing moves across a host builtin") {
  const std::string type = "tensor<[64], f32>";
  std::string text = kKernel + "func @main(%x: " + type + ") -> (" + type + ", " + type + ") {\n";
  for (const char *name : {"a", "b"})
    text += std::string("  %") + name + " = alloc : " + type + "\n  launch @mix(%x, %x, %" + name +
            ")\n  host \"log\"(%x)\n";
  text += "  return %a, %b\n}\n";
  auto module = must(ir::parse_and_verify(text, "test"));
  auto lowered = must(passes::run_passes(module, passes::default_pipeline(), {}));
  std::vector<ir::BindingKind> kinds;
  for (const ir::Binding &b : lowered.functions[0].body().bindings)
    kinds.push_back(b.kind);
  using enum ir::BindingKind;
  CHECK(kinds == std::vector{alloc, launch, host_call, alloc, launch, host_call});
}

namespace {

/// A branch on a device scalar, and behind it a chain of six launches that takes nothing of it. Its
/// blocks make a tensor that is gone when they are done.
std::string branch_and_chain(const std::string &condition_type = "tensor<[1], i32>") {
  const std::string type = "tensor<[64], f32>";
  std::string text = kKernel + "func @main(%x: " + type + ", %c: " + condition_type + ") -> (" +
                     type + ") {\n  %r = if %c using (%x) -> (" + type + ") {\n";
  for (const char *block : {"a", "b"}) {
    const std::string name = block;
    for (const char *tensor : {"0", "1", "2"})
      text += "    %" + name + tensor + " = alloc : " + type + "\n";
    text += "    launch @mix(%x, %x, %" + name + "0)\n    launch @mix(%" + name + "0, %x, %" +
            name + "1)\n    launch @mix(%" + name + "1, %x, %" + name + "2)\n    yield %" + name +
            "2\n  }" + (name == "a" ? " else {\n" : "\n");
  }
  std::string last = "%x";
  for (int i = 0; i < 6; ++i) {
    const std::string next = "%t" + std::to_string(i);
    text +=
        "  " + next + " = alloc : " + type + "\n  launch @mix(" + last + ", %x, " + next + ")\n";
    last = next;
  }
  return text + "  %y = alloc : " + type + "\n  launch @mix(" + last +
         ", %r, %y)\n  return %y\n}\n";
}

} // namespace

TEST_CASE("a branch on the device runs beside the launches around it") {
  // In program order the chain is written over what the branch's blocks have read.
  const plan::Plan smallest = planned(branch_and_chain(), "smallest");
  CHECK(longest_path(smallest) == 8); // the branch, the chain, the launch that takes both
  CHECK(longest_path(planned(branch_and_chain())) == 7);
  CHECK(longest_path(planned(branch_and_chain(), "parallel")) == 7);
}

TEST_CASE(
    "tensors of a branch's blocks share bytes with each other, not with what runs beside it") {
  // %r, and two tensors of the block that runs or of the chain.
  CHECK(arena_bytes(planned(branch_and_chain(), "smallest")) == 3 * kUnit);
  // %r, two tensors of the block that runs, and the one that the chain's first launch writes
  // beside.
  CHECK(arena_bytes(planned(branch_and_chain())) == 4 * kUnit);
}

TEST_CASE("two branches on the device are two fronts") {
  const std::string type = "tensor<[64], f32>";
  std::string text = kKernel + "func @main(%x: " + type + ", %c: tensor<[1], i32>, %y: out " +
                     type + ", %z: out " + type + ") {\n";
  for (const char *out : {"%y", "%z"})
    text += std::string("  if %c using (%x, ") + out + ") {\n    %t" + (out + 1) +
            " = alloc : " + type + "\n    launch @mix(%x, %x, %t" + (out + 1) +
            ")\n    launch @mix(%t" + (out + 1) + ", %x, " + out + ")\n    yield\n  } else {\n" +
            "    yield\n  }\n";
  text += "  return\n}\n";
  CHECK(arena_bytes(planned(text, "parallel")) == kUnit); // one waits for the other
}

TEST_CASE("a branch that the host runs ends a front") {
  const plan::Plan smallest = planned(branch_and_chain("bool"), "smallest");
  CHECK(arena_bytes(planned(branch_and_chain("bool"), "parallel")) == arena_bytes(smallest));
}

TEST_CASE("whatever the launches, the graph's longest path is that of who reads whose result") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Dag dag;
    const int count = 2 + int(random() % 60), reach = 1 + int(random() % 30);
    for (int i = 0; i < count; ++i) {
      auto some = [&] { return std::max(-1, i - 1 - int(random() % unsigned(reach))); };
      dag.takes.push_back({some(), some()});
    }
    INFO(dag.text());
    REQUIRE(longest_path(planned(dag.text(), "parallel")) == dag.depth());
  }
}

TEST_CASE("workspaces of launches that run side by side are apart") {
  const std::string type = "tensor<[64], f32>";
  const std::string text = R"(cugrt 1
kernel @work {
  inline "work"
  entry "work"
  params (x: in f32, y: out f32)
  launch { grid (1, 1, 1) block (64, 1, 1) workspace 512 }
}
func @main(%x: )" + type + ", %y: out " +
                           type + ", %z: out " + type + R"() {
  launch @work(%x, %y)
  launch @work(%x, %z)
  return
}
)";
  CHECK(arena_bytes(planned(text)) == 1024);
  CHECK(longest_path(planned(text)) == 1);
  auto module = must(ir::parse_and_verify(text, "test"));
  plan::PlannerOptions one_lane;
  one_lane.max_lanes = 1;
  auto plan = must(plan::make_plan(module, one_lane));
  CHECK(arena_bytes(plan) == 512);
}
