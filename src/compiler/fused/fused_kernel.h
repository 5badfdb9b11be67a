// One generated kernel, between a group of ops and its launch: what fused_group.cpp writes and
// fused_parts.cpp asks for.
#pragma once

#include "compiler/fused/element_code.h"
#include "compiler/fused/fused_group.h"
#include "ops/emit/fusion.h"

#include <string>
#include <vector>

namespace cugrt::codegen {

/// argmax, argmin: the result is a position.
bool is_search(ir::Op op);
/// Ops whose kernels have the place LOAD of kernels/shared/fusion.cuh, and take any numbers:
/// reductions and searches.
bool computes_what_it_loads(ir::Op op);
/// Products of bytes, whose results are i32.
bool multiplies_bytes(ir::Op op);
/// Ops whose kernels have the place STORE.
bool is_anchor(ir::Op op);

/// The ops of one kernel by their places.
struct Places {
  uint32_t anchor = FusedGroup::kNoValue;
  std::vector<uint32_t> before; // what the anchor's operands are computed by
  std::vector<uint32_t> after;  // the others
};
Places places_of(const FusedGroup &group, std::span<const uint32_t> ops);

/// What a part becomes, before anything is appended.
struct Generated {
  std::string name, text;         // of a kernel without an anchor
  ElementParameters elements;     // its parameters
  std::vector<uint32_t> in_place; // of these: which are read where the result is written
  uint32_t widest_bytes = 0;      // of elements that are taken in vectors; 0: none are
  Fusion fusion;                  // of one with
};
/// Code::unsupported when no kernel can be made.
Result<Generated> generate(ir::Module &module, const FusedGroup &group, const FusedPart &part);

} // namespace cugrt::codegen
