// The rows of forms.def, looked up by mnemonic.
#include "emulator/decode/forms.h"

#include <unordered_map>
#include <vector>

namespace cugrt::emulator {

namespace {

struct Group {
  std::vector<std::string_view> alternatives;
  bool is_optional = false, is_type = false, is_named = false; // the last: part of the name

  bool has(std::string_view modifier) const {
    for (std::string_view name : alternatives)
      if (stands_for(name, modifier))
        return true;
    return false;
  }
};
using Form = std::vector<Group>;
using Index = std::unordered_map<std::string_view, std::vector<Form>>;

bool is_type(std::string_view modifier) { return ptx::parse_type(modifier) != ptx::Type::none; }

Form parse(std::string_view text) {
  Form form;
  while (!text.empty()) {
    std::string_view group = take_front(text, ' ');
    Group &added = form.emplace_back();
    added.is_optional = group.back() == '?';
    if (added.is_optional)
      group.remove_suffix(1);
    added.is_named = group.front() == '^';
    if (added.is_named)
      group.remove_prefix(1);
    while (!group.empty())
      added.alternatives.push_back(take_front(group, '|'));
    added.is_type = is_type(added.alternatives.front());
  }
  return form;
}

const Index &index_of_forms() {
  static const Index index = [] {
    Index result;
    struct Row {
      std::string_view mnemonics, groups;
    };
    constexpr Row kRows[] = {
#define FORM(mnemonics, groups) {mnemonics, groups},
#define MORE_FORMS(mnemonics)
#include "emulator/decode/forms.def"
    };
    for (const Row &row : kRows)
      for (std::string_view mnemonics = row.mnemonics; !mnemonics.empty();)
        result[take_front(mnemonics, ' ')].push_back(parse(row.groups));
    return result;
  }();
  return index;
}

/// Every modifier has a group of its own, those of the name and the types have theirs in order, and
/// no group is left that must be there.
bool matches(const Form &form, const Opcode &opcode, uint32_t types) {
  uint64_t used = 0; // bit i: form[i]
  size_t next_type = 0, first = 0;
  for (size_t i = 0; i < form.size() && form[i].is_named; ++i) {
    if (first < opcode.size() && form[i].has(opcode[first])) {
      used |= uint64_t(1) << i;
      ++first;
    } else if (!form[i].is_optional) {
      return false;
    }
  }
  for (size_t i = first; i < opcode.size(); ++i) {
    const bool type = types >> i & 1;
    size_t at = type ? next_type : 0;
    while (at < form.size() && (used >> at & 1 || form[at].is_named || form[at].is_type != type ||
                                !form[at].has(opcode[i])))
      ++at;
    if (at == form.size())
      return false;
    used |= uint64_t(1) << at;
    if (type)
      next_type = at + 1;
  }
  for (size_t i = 0; i < form.size(); ++i)
    if (!form[i].is_optional && !(used >> i & 1))
      return false;
  return true;
}

constexpr std::string_view kMoreForms =
#define FORM(mnemonics, groups)
#define MORE_FORMS(mnemonics) mnemonics
#include "emulator/decode/forms.def"
    ;

} // namespace

bool has_more_forms(const Opcode &opcode) {
  if (!index_of_forms().count(opcode.mnemonic()))
    return true;
  for (std::string_view names = kMoreForms; !names.empty();)
    if (take_front(names, ' ') == opcode.mnemonic())
      return true;
  return false;
}

bool is_well_formed(const Opcode &opcode) {
  auto forms = index_of_forms().find(opcode.mnemonic());
  if (forms == index_of_forms().end())
    return true;
  uint32_t types = 0; // bit i: modifier i is one
  static_assert(Opcode::kMaxModifiers <= 32);
  for (size_t i = 0; i < opcode.size(); ++i)
    types |= uint32_t(is_type(opcode[i])) << i;
  for (const Form &form : forms->second)
    if (matches(form, opcode, types))
      return true;
  return false;
}

} // namespace cugrt::emulator
