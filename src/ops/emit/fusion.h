// Other ops in one of the library's kernels: what its launch needs besides.
#pragma once

#include "ir/module/module.h"

#include <string>
#include <utility>
#include <vector>

namespace cugrt::codegen {

/// The places where ops can stand are those of kernels/shared/fusion.cuh.
struct Fusion {
  std::string name;    // of the kernel
  std::string prelude; // what stands before the kernel's source, and defines the macros
  /// Parameters behind the kernel's own.
  std::vector<std::pair<std::string, ir::ValueId>> tensors;
  std::vector<std::pair<std::string, ir::ExprId>> sizes;
  /// Of the tensors: what the result may be written over, since whoever stores an element has read
  /// theirs at its place before, and nobody else does.
  std::vector<size_t> in_place;
  std::vector<ir::ExprId> counts; // of elements that indices of theirs are below
  /// Where LOAD computes the first operand: its type; the operand itself is absent.
  ir::TypeId loaded;
  /// The type of the kernel's own result, which STORE goes on from.
  ir::TypeId computed;
};

} // namespace cugrt::codegen
