// Parameters and calls, as the decoder and the handlers see them.
#pragma once

#include "emulator/exec/warps/warp.h"

namespace cugrt::emulator {

/// The element type of a .param access, packed into Op::cache; for variables of calls, Op::imm
/// holds the offset in its lower and the bytes of one lane's variable in its upper half.
struct ParamElement {
  uint32_t bytes = 4, count = 1;
  bool is_signed = false;

  uint32_t pack() const { return bytes | count << 8 | uint32_t(is_signed) << 16; }
  static ParamElement unpack(uint32_t bits) {
    return {bits & 255, bits >> 8 & 255, (bits >> 16 & 1) != 0};
  }
  static uint32_t offset(const Op *op) { return uint32_t(op->imm); }
  static uint32_t stride(const Op *op) { return uint32_t(uint64_t(op->imm) >> 32); }
};

/// Functions that PTX only declares and the device's runtime provides.
enum class Builtin : uint32_t {
  none,
  vprintf,
  assertfail,
  set_conditional,
  malloc,
  aligned_malloc,
  free
};

inline bool uses_heap(Builtin builtin) { return builtin >= Builtin::malloc; }

Builtin find_builtin(std::string_view name);

const Op *call_builtin(const Op *op, Warp &w, const CallSite &site);

} // namespace cugrt::emulator
