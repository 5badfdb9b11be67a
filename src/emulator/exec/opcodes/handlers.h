// Rows of opcodes.def as numbers, and the handlers of each row.
#pragma once

#include "emulator/exec/opcodes/op.h"

#include <array>
#include <cstddef>

namespace cugrt::emulator {

enum class OpId : uint16_t {
#define UNARY(id, ...) id,
#define BINARY(id, ...) id,
#define TERNARY(id, ...) id,
#define QUATERNARY(id, ...) id,
#define F32_1(id, ...) id,
#define F32_2(id, ...) id,
#define F32_3(id, ...) id,
#define ROUNDED_1(id, ...) id,
#define ROUNDED_2(id, ...) id,
#define ROUNDED_3(id, ...) id,
#define COMPARE(id, ...) id,
#define COMPARE_F32(id, ...) id,
#define COMPARE_HALF(id, ...) id,
#define HALF_1(id, ...) id,
#define HALF_2(id, ...) id,
#define HALF_3(id, ...) id,
#define CONVERT(id, ...) id,
#define CONVERT_DIRECTED(id, ...) id,
#define CONVERT_PACKED(id, ...) id,
#define LOAD(id, ...) id,
#define STORE(id, ...) id,
#define ATOM(id, ...) id,
#define LANEWISE(id, ...) id,
#define WARP(id, ...) id,
#define CONTROL(id, ...) id,
#define MATRIX(id, ...) id,
#define TILE(id, ...) id,
#define ASYNC_COPY(id, ...) id,
#define CLUSTER(id, ...) id,
#define BARRIER(id, ...) id,
#include "emulator/exec/opcodes/opcodes.def"
  count
};

inline constexpr size_t kOpCount = size_t(OpId::count);
using HandlerTable = std::array<HandlerPair, kOpCount>;

/// Handlers for this machine's instruction set, chosen once.
const HandlerTable &handlers();
/// Of comparisons that also branch on their result (decode/passes/compare_branch.cpp); null for
/// other rows.
const HandlerTable &branch_handlers();
/// "v2", "v3", "v4" or "baseline".
const char *handler_isa();

} // namespace cugrt::emulator
