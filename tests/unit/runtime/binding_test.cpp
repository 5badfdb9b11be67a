// runtime: binding of arguments and symbols, host scalars, overlap of slots.
#include "fixture.h"

#include <random>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

/// Binds (x: [n, 4], y: [n, 4], a: float) of a plan whose n is at most 64.
struct Binding {
  PlanMaker maker{64};
  FunctionProgram program;

  Binding() {
    maker.tensor_param("x");
    maker.tensor_param("y");
    maker.float_param("a");
    program = must(make_function_program(maker.plan, maker.function(), 1));
  }
  Status bind(std::vector<cugrt_value> values) {
    RunBinding run(maker.plan, maker.function(), program);
    Status status = bind_parameters(run, values);
    n = run.symbols[0];
    bases = run.bases;
    return status;
  }
  int64_t n = -1;
  std::vector<uint64_t> bases;
};

} // namespace

TEST_CASE("a symbol is bound by its first appearance and checked at the others") {
  Binding binding;
  must(binding.bind({tensor(256, {5, 4}), tensor(512, {5, 4}), floating(1)}));
  CHECK(binding.n == 5);
  CHECK(binding.bases[0] == 256);
  CHECK(binding.bases[1] == 512);

  Status status = binding.bind({tensor(256, {5, 4}), tensor(512, {6, 4}), floating(1)});
  CHECK(status.code() == Code::invalid_argument);
  CHECK(contains(status.message(), "function @main, parameter %y: dimension 0 is 6, expected 5"));
}

TEST_CASE("a dimension that is a number must be that number") {
  Status status = Binding().bind({tensor(256, {5, 3}), tensor(512, {5, 4}), floating(1)});
  CHECK(contains(status.message(), "parameter %x: dimension 1 is 3, expected 4"));
}

TEST_CASE("a symbol outside its bounds is told with its bounds") {
  Status status = Binding().bind({tensor(256, {65, 4}), tensor(512, {65, 4}), floating(1)});
  CHECK(status.code() == Code::out_of_range);
  CHECK(contains(status.message(), "gives symbol n the value 65, but its bounds are 0 to 64"));
}

TEST_CASE("kind, dtype, rank, address and alignment are checked") {
  struct Row {
    cugrt_value x;
    const char *message;
  };
  const Row rows[] = {
      {integer(5), "expected a tensor, got int 5"},
      {tensor(256, {5, 4}, CUGRT_F16), "dtype f32, got tensor<[5, 4], f16>"},
      {tensor(256, {5}), "expected rank 2, got tensor<[5], f32>"},
      {tensor(256, {-5, 4}), "no negative dimension"},
      {tensor(0, {5, 4}), "the address is null, but the tensor has 80 bytes"},
      {tensor(258, {5, 4}), "address 258 is not a multiple of 4 bytes"},
  };
  for (const Row &row : rows) {
    Status status = Binding().bind({row.x, tensor(512, {5, 4}), floating(1)});
    INFO(status.message());
    CHECK(status.code() == Code::invalid_argument);
    CHECK(contains(status.message(), "parameter %x"));
    CHECK(contains(status.message(), row.message));
  }
}

TEST_CASE("a zero-sized tensor needs no address") {
  Binding binding;
  must(binding.bind({tensor(0, {0, 4}), tensor(0, {0, 4}), floating(1)}));
  CHECK(binding.n == 0);
}

TEST_CASE("sizes that overflow are errors, not wraps") {
  cugrt_tensor huge = tensor(16, {INT64_MAX, 4}).as.tensor;
  CHECK(tensor_bytes(huge).status().code() == Code::out_of_range);
  cugrt_tensor empty = tensor(16, {INT64_MAX, 0}).as.tensor;
  CHECK(must(tensor_bytes(empty)) == 0);
  CHECK(must(tensor_bytes(tensor(16, {3, 5}, CUGRT_I4).as.tensor)) == 9); // rows of 5: 3 bytes each
  CHECK(must(tensor_bytes(tensor(16, {2, 33}, CUGRT_Q4_0).as.tensor)) == 72); // two blocks a row
}

TEST_CASE("host scalars become the bits that the same literal has, or are refused") {
  // Literals: "literals become the bits of their parameter's dtype, or are refused" (planner_test).
  Binding binding;
  RunBinding run(binding.maker.plan, binding.maker.function(), binding.program);
  must(bind_parameters(run, std::vector<cugrt_value>{tensor(256, {5, 4}), tensor(512, {5, 4}),
                                                     floating(1 + 0x1p-8 + 0x1p-30)}));
  ValueSource scalar{.kind = ValueSource::Kind::host, .dtype = ir::DType::bf16, .index = 0};
  CHECK(must(run.value(scalar)) == 0x3f81u);

  ValueSource minus_one{.kind = ValueSource::Kind::expr, .dtype = ir::DType::i8};
  minus_one.expr = binding.maker.plan.exprs.constant(-1);
  CHECK(must(run.value(minus_one)) == 0xffu);
  minus_one.dtype = ir::DType::u64;
  CHECK(run.value(minus_one).status().code() == Code::out_of_range);
}

TEST_CASE("overlaps are found exactly where a quadratic search finds one") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<BoundRange> ranges;
    for (uint32_t i = 0; i < 1 + random() % 7; ++i)
      ranges.push_back({random() % 64, random() % 9, random() % 3 == 0, i});
    bool expected = false;
    for (const BoundRange &a : ranges)
      for (const BoundRange &b : ranges)
        expected |= a.name < b.name && (a.written || b.written) && a.bytes && b.bytes &&
                    a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
    Overlap overlap{};
    bool found = find_overlap(ranges, overlap);
    REQUIRE(found == expected);
    if (!found)
      continue;
    const BoundRange &a = ranges[overlap.first], &b = ranges[overlap.second];
    REQUIRE((a.written || b.written));
    REQUIRE((a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes));
  }
}
