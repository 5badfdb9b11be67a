// Which ops of ONNX fold, and how (private to the importer).
#pragma once

#include "ops/table/ops.h"

#include <string_view>
#include <vector>

namespace cugrt::onnx::fold {

/// Sets of dtypes, by bits.
enum Dtypes : uint32_t {
  kNothing = 0,
  kBool = 1,
  kShort = 2,    // i8, i16
  kUnsigned = 4, // u8, u16, u32
  kIndex = 8,    // i32, i64
  kWide = 16,    // u64, which expressions hold by its bits
  kReal = 32,
  kInteger = kShort | kUnsigned | kIndex,
  kNumber = kInteger | kReal,
  kAny = kBool | kNumber | kWide,
};

/// Nothing of a dtype whose elements have fewer than 8 bits each.
uint32_t set_of(ir::DType dtype);

/// How an op folds.
enum class Fold {
  unary,
  binary,
  clip,
  cast,
  where,
  constant_of_shape,
  one_hot,
  range,
  reduce,
  move
};

struct Name {
  std::string_view onnx;
  ir::Op op{}; // what it does with elements; of unary, binary and reduce
};

/// The least and the largest number of operands; dtypes of the first, the second, those behind.
struct Rule {
  std::vector<Name> names;
  Fold fold;
  size_t least, most;
  uint32_t first, second = kNothing, others = kNothing;
};

struct Found {
  const Rule *rule = nullptr; // null: the op does not fold
  ir::Op op{};
};
Found find_rule(std::string_view op);

} // namespace cugrt::onnx::fold
