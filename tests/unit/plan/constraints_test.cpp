// Joint constraints in plans: bytes of storages and workspaces, calls, buckets, and what the
// validator makes of plans whose constraints were changed.
#include "compiler/planner/lower/planner.h"
#include "ir/text/text.h"
#include "plan/bytes/serialize.h"
#include "plan/symbols/bucket_boxes.h"
#include "plan/validate/validate_parts.h"

#include "plan/validate/validate.h"
#include "support/describe_plan.h"
#include "support/inlined.h"

#include <functional>

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::contains;
using cugrt::test::must;
using cugrt::test::refused;

namespace {

const std::string kKernels = R"(cugrt 1
kernel @one {
  inline "one" entry "one"
  params (x: in f32, y: out f32, rows: symbol i64, columns: symbol i64)
  launch { grid (rows, 1, 1) block (64, 1, 1) workspace 8*rows*columns }
}
)";

Result<Plan> plan_of(const std::string &functions, PlanReport *report = nullptr) {
  CUGRT_ASSIGN(ir::Module module, ir::parse_and_verify(kKernels + functions, "test"));
  return make_plan(cugrt::test::inlined(std::move(module)), {}, report);
}

Plan planned(const std::string &functions, PlanReport *report = nullptr) {
  auto plan = must(plan_of(functions, report));
  const Status valid = validate(plan);
  INFO(valid.to_string());
  REQUIRE(valid.ok());
  return plan;
}

/// A chain of two launches through one storage of `bytes`.
std::string chain(const std::string &attributes, const std::string &bytes) {
  return "func @main(%x: tensor<[b, s], f32>, %y: out tensor<[b, s], f32>) attributes {" +
         attributes + "} {\n  %t = alloc_storage \"global\", " + bytes +
         "\n  %a = alloc_tensor %t, 0 : tensor<[b, s], f32>\n"
         "  launch @one(%x, %a, b, s)\n  launch @one(%a, %y, b, s)\n  return\n}\n";
}

const std::string kBounds = "lower_bounds = {b = 1, s = 1}, upper_bounds = {b = 64, s = 4096}";

} // namespace

TEST_CASE("storages and workspaces have the bytes that a constraint leaves") {
  // 4*b*s bytes and, at each launch, 8*b*s: with the product of the maxima 64 times as much.
  CHECK(planned(chain(kBounds + ", constraints = [b*s <= 4096]", "4*b*s")).arenas[0].bytes ==
        (4 + 8) * 4096);
  CHECK(planned(chain(kBounds, "4*b*s")).arenas[0].bytes == (4 + 8) * 64 * 4096);
  // A storage of a fixed size that the constraint makes large enough.
  CHECK(planned(chain(kBounds + ", constraints = [b*s <= 4096]", "16384")).arenas[0].bytes ==
        (4 + 8) * 4096);
}

TEST_CASE("symbols without upper bounds of their own are sized by constraints") {
  const std::string lower = "lower_bounds = {b = 1, s = 1}, constraints = [b*s <= 4096]";
  CHECK(planned(chain(lower, "4*b*s + 16*b")).arenas[0].bytes == 4 * 4096 + 16 * 4096 + 8 * 4096);
  // From 0 on nothing follows for b alone.
  const Status open = refused(plan_of(chain("constraints = [b*s <= 4096]", "4*b*s + 16*b")));
  CHECK(contains(open.message(), "symbol b, defined in line "));
  CHECK(contains(open.message(), ", has no upper bound"));
}

TEST_CASE("a storage that the constraint leaves too small is an error with its bytes") {
  CHECK(contains(
      refused(plan_of(chain(kBounds + ", constraints = [b*s <= 4097]", "16384"))).to_string(),
      "%a may end at byte 16388 of %t, which has 16384 bytes"));
}

TEST_CASE("plans with constraints come back from their bytes") {
  const Plan plan =
      planned(chain(kBounds + ", constraints = [b*s <= 4096, 2*b + s <= 5000]", "4*b*s"));
  REQUIRE(plan.functions[0].constraints.size() == 2);
  const auto read = must(from_bytes(to_bytes(plan)));
  CHECK(describe(read) == describe(plan));
  CHECK(read.functions[0].constraints[1].most == 5000);
}

TEST_CASE("the validator refuses constraints that are none, and plans that rely on others") {
  const Plan sound = planned(chain(kBounds + ", constraints = [b*s <= 4096]", "4*b*s"));
  const struct {
    const char *message;
    std::function<void(Plan &)> damage;
  } rows[] = {
      {"outside of arena", [](Plan &p) { p.functions[0].constraints.clear(); }},
      {"outside of arena", [](Plan &p) { p.functions[0].constraints[0].most = 4097; }},
      {"contradicts", [](Plan &p) { p.functions[0].constraints[0].most = 0; }},
      {"does not exist", [](Plan &p) { p.functions[0].constraints[0].expr = {}; }},
      {"names no symbol",
       [](Plan &p) { p.functions[0].constraints[0].expr = p.exprs.constant(1); }},
      {"negative coefficient",
       [](Plan &p) {
         p.functions[0].constraints[0].expr = p.exprs.sub(p.exprs.symbol({0}), p.exprs.symbol({1}));
       }},
      {"not the function's",
       [](Plan &p) { p.functions[0].constraints[0].expr = p.exprs.symbol({7}); }},
      {"may be negative", [](Plan &p) { p.functions[0].symbols[0].bounds.lower = -1; }},
      {"or all by one match",
       [](Plan &p) { p.functions[0].symbols[0].source = ir::SymbolSource::match; }},
      {"too many",
       [](Plan &p) { p.functions[0].constraints.assign(17, p.functions[0].constraints[0]); }},
  };
  for (const auto &row : rows) {
    Plan damaged = sound;
    row.damage(damaged);
    const Status status = validate(damaged);
    INFO(row.message << ": " << status.to_string());
    REQUIRE_FALSE(status.ok());
    CHECK(contains(status.message(), row.message));
  }
}

TEST_CASE("points at the edge keep the constraints, and no symbol can be raised") {
  const Plan plan =
      planned(chain(kBounds + ", constraints = [b*s <= 4096, 3*b + s <= 3000]", "4*b*s"));
  const Function &f = plan.functions[0];
  const auto points = edge_points(plan.exprs, f);
  CHECK(points.size() >= 2);
  for (const std::vector<int64_t> &point : points) {
    const auto kept = [&](std::vector<int64_t> at) {
      return at[0] <= 64 && at[1] <= 4096 && at[0] * at[1] <= 4096 && 3 * at[0] + at[1] <= 3000;
    };
    CHECK(kept(point));
    CHECK_FALSE(kept({point[0] + 1, point[1]}));
    CHECK_FALSE(kept({point[0], point[1] + 1}));
  }
}

namespace {

std::string call(const std::string &of_caller, const std::string &of_callee,
                 const std::string &dims = "[b, s]") {
  return "func @main(%x: tensor<" + dims + ", f32>, %y: out tensor<" + dims +
         ", f32>) attributes {" + of_caller +
         "} {\n  call @inner(%x, %y)\n  return\n}\n"
         "private func @inner(%u: tensor<[p, q], f32>, %v: out tensor<[p, q], f32>) attributes {" +
         of_callee +
         "} {\n  %t = alloc_storage \"global\", 4*p*q\n"
         "  %a = alloc_tensor %t, 0 : tensor<[p, q], f32>\n"
         "  launch @one(%u, %a, p, q)\n  launch @one(%a, %v, p, q)\n  return\n}\n";
}

/// Why the call stays; "" where it does not.
std::string stays(const std::string &functions) {
  PlanReport report;
  const Plan plan = planned(functions, &report);
  if (plan.functions.size() == 1)
    return "";
  for (const BindingNote &note : report.bindings)
    if (note.binding.starts_with("call "))
      return note.reason;
  return "";
}

} // namespace

TEST_CASE("a call is planned through where the caller keeps the callee's constraints") {
  const std::string limit = ", constraints = [b*s <= 4096]";
  CHECK(stays(call(kBounds + limit, "constraints = [p*q <= 4096]")).empty());
  CHECK(stays(call("", "constraints = [p*q <= 6]", "[2, 3]")).empty());
  CHECK(stays(call(kBounds + limit, "constraints = [p*q + p <= 4160]")).empty());
  CHECK(stays(call(kBounds + limit, "constraints = [p*q <= 4095]"))
            .find("its constraint p*q <= 4095 is narrower than the caller's") != std::string::npos);
  // What stays is sized by its own constraint.
  CHECK(planned(call(kBounds, "constraints = [p*q <= 100]")).arenas[0].bytes == 512 + 800);
}

TEST_CASE("buckets are sized by what a constraint leaves of those who come into them") {
  // n from 1 on: at 8 m is at most 400, at 400 at most 800 / 9 = 88.
  const std::vector<ir::Interval> bounds = {{8, 400}, {1, 400}, {1, 400}};
  const std::vector<Bucket> buckets = {{SymbolId{0}, SymbolId{2}, {8, 400}}};
  const std::vector<ir::JointLimit> limits = {{{{1, {1, 2}}}, 800}};
  const BucketBoxes boxes(bounds, buckets, limits);
  REQUIRE(boxes.count() == 2);
  CHECK(boxes[0].box[1] == ir::Interval{1, 400});
  CHECK(boxes[1].box[1] == ir::Interval{1, 88});
  ir::ExprPool exprs;
  const ir::ExprId padded = exprs.mul(exprs.symbol({0}), exprs.symbol({1}));
  CHECK(exprs.range(padded, boxes[0]).upper == 3200);
  CHECK(exprs.range(padded, boxes[1]).upper == 35200);
  ir::SymbolDomain all(bounds, limits);
  CHECK(exprs.range(padded, all).upper == 160000);
  all.set_parts(boxes.all());
  CHECK(exprs.range(padded, all).upper == 35200);
}

TEST_CASE("a bucket that a constraint keeps all runs out of is as another") {
  const std::vector<ir::Interval> bounds = {{8, 400}, {10, 400}, {1, 400}};
  const std::vector<Bucket> buckets = {{SymbolId{0}, SymbolId{2}, {8, 100, 400}}};
  const BucketBoxes boxes(bounds, buckets, {{{{1, {1, 2}}}, 800}});
  const std::vector<std::string> names = {"nb", "m", "n"};
  REQUIRE(boxes.count() == 3);
  CHECK(boxes.label(2, names) == "nb = 400");
  CHECK(boxes[2].box[0] == ir::Interval{8, 8}); // n from 101 on would need m below 8
  CHECK(boxes[1].box[0] == ir::Interval{100, 100});
}
