// Opcode text to its parts, and the table of opcodes.def by name.
#pragma once

#include "emulator/exec/opcodes/handlers.h"
#include "emulator/ptx/types.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace cugrt::emulator {

/// "ld.global.nc.v2.f32": mnemonic and modifiers, which the lowering takes one by one.
class Opcode {
public:
  static constexpr size_t kMaxModifiers = 24;

  /// False when there are too many modifiers.
  bool split(std::string_view text);

  std::string_view mnemonic() const { return mnemonic_; }
  size_t size() const { return count_; }
  std::string_view operator[](size_t i) const { return i < count_ ? modifiers_[i] : ""; }
  bool has(std::string_view modifier) const;
  /// Removes the modifier; true when it was there.
  bool take(std::string_view modifier);
  /// Removes all that begin with `prefix`; true when there were any.
  bool take_prefix(std::string_view prefix);
  /// Removes .rn, .rz, .rm or .rp.
  Rounding take_rounding();
  /// Removes and returns the first type, or Type::none.
  ptx::Type take_type();
  /// The last type among the modifiers.
  ptx::Type last_type() const;
  /// Mnemonic and what modifiers are left.
  std::string name() const;

private:
  std::string_view mnemonic_;
  std::array<std::string_view, kMaxModifiers> modifiers_;
  size_t count_ = 0;
};

/// The row of a name as opcodes.def writes it.
std::optional<OpId> find_op(std::string_view name);
/// The first name of a row, and whether its class is exact: for messages, coverage and tests.
struct OpInfo {
  std::string_view names;
  bool is_exact = true;
  int sources = -1; // of the forms whose operands are a destination and so many values
};
const OpInfo &op_info(OpId id);

bool is_float(ptx::Type type);
bool is_half(ptx::Type type);         // f16, bf16 and their pairs
bool is_integer_pair(ptx::Type type); // u16x2, s16x2
bool is_bits(ptx::Type type);         // b8 to b64
bool is_signed(ptx::Type type);
/// Bits of the lane that holds a value of the type: 32 or 64.
uint32_t lane_bits(ptx::Type type);

} // namespace cugrt::emulator
