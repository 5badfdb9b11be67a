// Splitting of opcodes, and the index over the names in opcodes.def.
#include "emulator/exec/opcodes/opcode.h"

#include <unordered_map>

namespace cugrt::emulator {

using ptx::Type;

namespace {

constexpr bool exact = true, tolerance = false;

// Rows in the order of OpId.
constexpr OpInfo kInfo[] = {
#define ROW(id, names, cls, sources, values) {names, cls, sources},
#include "emulator/exec/opcodes/opcodes.def"
};
static_assert(std::size(kInfo) == kOpCount);

using Index = std::unordered_map<std::string_view, OpId>;

const Index &index_of_names() {
  static const Index index = [] {
    Index result;
    for (size_t i = 0; i < kOpCount; ++i)
      for (std::string_view names = kInfo[i].names; !names.empty();) {
        size_t end = std::min(names.find(' '), names.size());
        result.emplace(names.substr(0, end), OpId(i));
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    return result;
  }();
  return index;
}

} // namespace

bool Opcode::split(std::string_view text) {
  count_ = 0;
  size_t dot = std::min(text.find('.'), text.size());
  mnemonic_ = text.substr(0, dot);
  while (dot < text.size()) {
    size_t next = std::min(text.find('.', dot + 1), text.size());
    if (count_ == kMaxModifiers)
      return false;
    modifiers_[count_++] = text.substr(dot + 1, next - dot - 1);
    dot = next;
  }
  return true;
}

bool Opcode::has(std::string_view modifier) const {
  for (size_t i = 0; i < count_; ++i)
    if (modifiers_[i] == modifier)
      return true;
  return false;
}

bool Opcode::take(std::string_view modifier) {
  for (size_t i = 0; i < count_; ++i)
    if (modifiers_[i] == modifier) {
      for (size_t j = i + 1; j < count_; ++j)
        modifiers_[j - 1] = modifiers_[j];
      --count_;
      return true;
    }
  return false;
}

bool Opcode::take_prefix(std::string_view prefix) {
  bool any = false;
  for (size_t i = 0; i < count_;) {
    if (modifiers_[i].substr(0, prefix.size()) == prefix)
      any |= take(modifiers_[i]);
    else
      ++i;
  }
  return any;
}

Rounding Opcode::take_rounding() {
  take("rn");
  return take("rz")   ? Rounding::zero
         : take("rm") ? Rounding::down
         : take("rp") ? Rounding::up
                      : Rounding::nearest;
}

Type Opcode::take_type() {
  for (size_t i = 0; i < count_; ++i)
    if (Type type = ptx::parse_type(modifiers_[i]); type != Type::none) {
      take(modifiers_[i]);
      return type;
    }
  return Type::none;
}

Type Opcode::last_type() const {
  for (size_t i = count_; i-- > 0;)
    if (Type type = ptx::parse_type(modifiers_[i]); type != Type::none)
      return type;
  return Type::none;
}

std::string Opcode::name() const {
  std::string name(mnemonic_);
  for (size_t i = 0; i < count_; ++i)
    (name += '.') += modifiers_[i];
  return name;
}

std::optional<OpId> find_op(std::string_view name) {
  auto it = index_of_names().find(name);
  return it == index_of_names().end() ? std::nullopt : std::optional(it->second);
}

const OpInfo &op_info(OpId id) { return kInfo[size_t(id)]; }

bool is_float(Type type) {
  return type == Type::f32 || type == Type::f64 || is_half(type) || type == Type::tf32 ||
         type == Type::e4m3x2 || type == Type::e5m2x2;
}
bool is_half(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f16x2 || type == Type::bf16x2;
}
bool is_integer_pair(Type type) { return type == Type::u16x2 || type == Type::s16x2; }
bool is_bits(Type type) {
  return type == Type::b8 || type == Type::b16 || type == Type::b32 || type == Type::b64;
}
bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
uint32_t lane_bits(Type type) { return ptx::type_bytes(type) == 8 ? 64 : 32; }

} // namespace cugrt::emulator
