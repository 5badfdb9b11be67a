// The rows of requirements.def, looked up by mnemonic.
#include "emulator/decode/requirements.h"

#include "emulator/decode/forms.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace cugrt::emulator {

namespace {

struct Row {
  std::string_view mnemonics, modifiers;
  size_t operands = 0; // 0: any number
  Requirement first, second;
};

constexpr Row kRows[] = {
#define NEEDS(mnemonics, modifiers, target, version)                                               \
  {mnemonics, modifiers, 0, {target, version}, {}},
#define NEEDS_EITHER(mnemonics, modifiers, target, version, target2, version2)                     \
  {mnemonics, modifiers, 0, {target, version}, {target2, version2}},
#define NEEDS_OPERANDS(mnemonics, count, target, version)                                          \
  {mnemonics, "", count, {target, version}, {}},
#define NEEDS_REGISTER(prefix, target, version)
#include "emulator/decode/requirements.def"
};

constexpr Row kRegisters[] = {
#define NEEDS(mnemonics, modifiers, target, version)
#define NEEDS_EITHER(mnemonics, modifiers, target, version, target2, version2)
#define NEEDS_OPERANDS(mnemonics, count, target, version)
#define NEEDS_REGISTER(prefix, target, version) {prefix, "", 0, {target, version}, {}},
#include "emulator/decode/requirements.def"
};

using Index = std::unordered_map<std::string_view, std::vector<const Row *>>;

const Index &index_of_rows() {
  static const Index index = [] {
    Index result;
    for (const Row &row : kRows)
      for (std::string_view mnemonics = row.mnemonics; !mnemonics.empty();)
        result[take_front(mnemonics, ' ')].push_back(&row);
    return result;
  }();
  return index;
}

bool is_one_of(std::string_view modifier, std::string_view alternatives) {
  while (!alternatives.empty()) {
    if (stands_for(take_front(alternatives, '|'), modifier))
      return true;
  }
  return false;
}

bool applies(const Row &row, const Opcode &opcode, size_t operands) {
  if (row.operands && row.operands != operands)
    return false;
  size_t at = 0;
  for (std::string_view modifiers = row.modifiers; !modifiers.empty();) {
    std::string_view wanted = take_front(modifiers, ' ');
    while (at < opcode.size() && !is_one_of(opcode[at], wanted))
      ++at;
    if (at++ >= opcode.size())
      return false;
  }
  return true;
}

std::string number(int version) {
  return std::to_string(version / 10) + "." + std::to_string(version % 10);
}

std::string in_words(const Requirement &needed, int target, int version) {
  std::string text;
  if (needed.target > target)
    text = ".target sm_" + std::to_string(needed.target) + " or higher";
  if (needed.version > version)
    text += (text.empty() ? "" : " and ") + (".version " + number(needed.version)) + " or later";
  return "needs " + text + ", and the module is for sm_" + std::to_string(target) +
         " and of version " + number(version);
}

/// The requirement of the row that a module misses, in the way that the module is nearer to; zeros
/// if it misses none.
Requirement unmet(const Row &row, int target, int version) {
  bool has_second = row.second.target || row.second.version;
  if (row.first.is_met(target, version) || (has_second && row.second.is_met(target, version)))
    return {};
  bool second_is_nearer = has_second && target < row.first.target &&
                          (target >= row.second.target || version >= row.second.version);
  return second_is_nearer ? row.second : row.first;
}

} // namespace

std::string lacking(const Opcode &opcode, size_t operands, int target, int version) {
  auto rows = index_of_rows().find(opcode.mnemonic());
  if (rows == index_of_rows().end())
    return {};
  Requirement needed; // of all rows, so that the answer is whole
  for (const Row *row : rows->second) {
    Requirement lacks = unmet(*row, target, version);
    if (lacks.is_met(target, version) || !applies(*row, opcode, operands))
      continue;
    needed.target = std::max(needed.target, lacks.target);
    needed.version = std::max(needed.version, lacks.version);
  }
  return needed.is_met(target, version) ? std::string() : in_words(needed, target, version);
}

std::string lacking_for_register(std::string_view name, int target, int version) {
  for (const Row &row : kRegisters)
    if (name.substr(0, row.mnemonics.size()) == row.mnemonics)
      if (Requirement lacks = unmet(row, target, version); !lacks.is_met(target, version))
        return in_words(lacks, target, version);
  return {};
}

} // namespace cugrt::emulator
