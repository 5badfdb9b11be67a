// One tensor-level op, legalized, run on the emulated device and compared with the reference.
#pragma once

#include "support/launch_runner.h"

#include <random>
#include <string>
#include <vector>

namespace cugrt::test {

struct OpTest {
  ir::Op op;
  ir::DType dtype = ir::DType::f32; // of operands that name none
  struct Operand {
    std::vector<int64_t> dims;
    std::optional<ir::DType> dtype{};
    bool absent = false;
    bool shape = false;           // a host list of integers, with `dims` as its elements
    std::vector<double> values{}; // its elements; none: random ones
  };
  std::vector<Operand> operands{};
  std::vector<ir::Attribute> attributes{};
  /// Every first dimension of operand 0 that equals operand 0's dims[0] is a symbol: the kernel
  /// learns it at its launch.
  bool symbolic = false;
  bool specials = false;           // a few NaN, infinities and zeros among the values
  double scale = 2;                // values are in [-scale, scale]; of integers: in [-3, 12]
  std::string matmul = "auto";     // option codegen.matmul
  std::string precision = "none";  // option mixed.dtype
  int64_t multiprocessors = 64;    // option target.multiprocessors
  int64_t compute_capability = 80; // option target.compute_capability

  std::string describe() const;
};

struct OpOutcome {
  bool ok = false;
  std::string message; // what differs, or the error
  LaunchRunner::Counters counters;
};

OpOutcome run_op_test(LaunchRunner &runner, const OpTest &test, std::mt19937 &random);

// What a rule's ops are tested with, where the file of its reference says it; else null, and a
// program of tests/differential has its cases.
#define rule(name) [[gnu::weak]] std::vector<OpTest> cases_##name();
#define same(name)
#define CUGRT_OP(name, operands, results, RULE, ...) RULE
#include "ops/table/ops.def"

} // namespace cugrt::test
