// Dimensions that the device counts, in plans: kept as bytes, and refused where they are wrong.
#include "compiler/planner/lower/planner.h"
#include "ir/text/text.h"
#include "plan/bytes/serialize.h"

#include "plan/validate/validate.h"
#include "support/must.h"

#include <functional>

using namespace cugrt;
using namespace cugrt::plan;
using cugrt::test::must;
using cugrt::test::refused;

namespace {

Plan counted_plan(const std::string &attribute) {
  auto module = must(ir::parse_and_verify(R"(cugrt 1
kernel @find {
  inline "find" entry "find"
  params (x: in f32, y: out i64, z: out q8_0, c: out i64)
  launch { grid (1, 1, 1) block (64, 1, 1) }
}
func @main(%x: tensor<[n], f32>, %k: int)
    -> (tensor<[2, n], i64>, tensor<[n, 32], q8_0>, tensor<[1], i64>, int)
    attributes {upper_bounds = {n = 8})" + attribute +
                                              R"(} {
  %y = alloc : tensor<[2, n], i64>
  %z = alloc : tensor<[n, 32], q8_0>
  %c = alloc : tensor<[1], i64>
  launch @find(%x, %y, %z, %c)
  return %y, %z, %c, %k
}
)",
                                          "test"));
  return must(make_plan(module, {}));
}

constexpr const char *kCounted = ", counted_dims = [0[1] = 2]";

} // namespace

TEST_CASE("a plan's bytes have counted dimensions, and no word of them where there are none") {
  const Plan plan = counted_plan(kCounted), plain = counted_plan("");
  REQUIRE(plan.functions[0].counted_dims == std::vector<CountedDim>{{0, 1, 2}});
  const auto read = must(from_bytes(to_bytes(plan)));
  CHECK(read.functions == plan.functions);
  CHECK(to_bytes(plan).find("counted_dims") != std::string::npos);
  CHECK(to_bytes(plain).find("counted_dims") == std::string::npos);
  CHECK(from_bytes(to_bytes(plain)).ok());
}

TEST_CASE("an empty list of counted dimensions is no form of a plan") {
  // The list of one row is the last thing of the function, which is the last of the plan.
  const std::string bytes = to_bytes(counted_plan(kCounted));
  const size_t at = bytes.find("counted_dims") + 12;
  CHECK(refused(from_bytes(bytes.substr(0, at) + "\x80"))
            .message()
            .find("wrong value in field counted_dims") != std::string::npos);
}

TEST_CASE("the validator refuses counted dimensions that are none, and counts that are none") {
  struct Damage {
    CountedDim row;
    const char *message;
  };
  for (const Damage &damage : {Damage{{9, 0, 2}, "is none of a result"},
                               {{3, 0, 2}, "is none of a result"},
                               {{0, 2, 2}, "is none of a result"},
                               {{1, 0, 2}, "is none of a result"},
                               {{0, 1, 9}, "not one i64"},
                               {{0, 1, 1}, "not one i64"},
                               {{2, 0, 0}, "not one i64"},
                               {{2, 0, 2}, "counted itself"}}) {
    INFO(damage.message << ": " << damage.row.result << ", " << damage.row.count);
    Plan plan = counted_plan("");
    plan.functions[0].counted_dims = {damage.row};
    const Status status = validate(plan);
    REQUIRE_FALSE(status.ok());
    CHECK(status.message().find(damage.message) != std::string::npos);
  }
  Plan twice = counted_plan(kCounted);
  twice.functions[0].counted_dims.push_back({0, 0, 2});
  CHECK(validate(twice).message().find("two counted dimensions") != std::string::npos);
}
