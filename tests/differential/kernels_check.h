// One op against its definition, with sizes baked in and with a symbolic first dimension.
#pragma once

#include "support/catch.h"
#include "support/op_test.h"

#include <random>

namespace cugrt::test {

using Dims = std::vector<int64_t>;
using ir::DType;
using ir::Op;

inline LaunchRunner &runner() {
  static LaunchRunner runner;
  return runner;
}

/// Runs `test` with sizes baked in and with a symbolic first dimension.
inline void check(OpTest test, uint32_t seed = 1) {
  for (bool symbolic : {false, true}) {
    test.symbolic = symbolic && !test.operands.empty() && !test.operands[0].dims.empty();
    std::mt19937 random(seed);
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(outcome.message);
    CHECK(outcome.ok);
  }
}

/// The same, with sizes baked in only: where inference must know them.
inline void check_known(const OpTest &test, uint32_t seed = 1) {
  std::mt19937 random(seed);
  const OpOutcome outcome = run_op_test(runner(), test, random);
  INFO(outcome.message);
  CHECK(outcome.ok);
}

/// The same, which launches `entry` alone.
inline void check_entry(const OpTest &test, const char *entry, uint32_t seed = 7) {
  std::mt19937 random(seed);
  const OpOutcome outcome = run_op_test(runner(), test, random);
  INFO(test.describe());
  INFO(outcome.message);
  CHECK(outcome.ok);
  CHECK(outcome.counters.entries == std::vector<std::string>{entry});
}

inline const OpTest::Operand kAbsent{{}, {}, true};
inline OpTest::Operand shape(Dims elements) { return {std::move(elements), {}, false, true}; }
inline OpTest::Operand given(Dims dims, std::vector<double> values, DType dtype) {
  return {std::move(dims), dtype, false, false, std::move(values)};
}

inline ir::Attribute ints(std::string name, Dims values) {
  return {std::move(name), std::move(values)};
}
inline ir::Attribute integer(std::string name, int64_t value) { return {std::move(name), value}; }
inline ir::Attribute flag(std::string name, bool value) { return {std::move(name), value}; }
inline ir::Attribute real(std::string name, double value) { return {std::move(name), value}; }
inline ir::Attribute word(std::string name, std::string value) {
  return {std::move(name), std::move(value)};
}
inline ir::Attribute type(DType dtype) { return {"dtype", ir::DTypeLiteral{dtype}}; }

} // namespace cugrt::test

using namespace cugrt;
using namespace cugrt::test;
