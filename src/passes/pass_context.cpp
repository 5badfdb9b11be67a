// Options of passes and their values.
#include "passes/pass.h"

#include "support/check.h"

#include <algorithm>

namespace cugrt::passes {

namespace {

constexpr OptionInfo kOptions[] = {
#define CUGRT_PASS_OPTION(name, type, default_value, description, choices)                         \
  {name, OptionType::type, default_value, description, choices},
#include "passes/options.def"
#undef CUGRT_PASS_OPTION
};

const OptionInfo *find_option(std::string_view name) {
  for (const OptionInfo &option : kOptions)
    if (option.name == name)
      return &option;
  return nullptr;
}

/// "a or b" of "a|b".
std::string listed(std::string_view choices) {
  std::string list;
  for (char c : choices)
    c == '|' ? list += " or " : list += c;
  return list;
}

/// Whether `value` is one of the words in `choices`, which are separated by '|'.
bool is_choice(std::string_view choices, std::string_view value) {
  for (size_t begin = 0; begin <= choices.size();) {
    const size_t end = std::min(choices.find('|', begin), choices.size());
    if (choices.substr(begin, end - begin) == value)
      return true;
    begin = end + 1;
  }
  return false;
}

} // namespace

std::span<const OptionInfo> known_options() { return kOptions; }

Status PassContext::set(std::string_view name, std::string_view value) {
  const OptionInfo *option = find_option(name);
  if (!option) {
    std::string known;
    for (const OptionInfo &row : kOptions)
      known += (known.empty() ? "" : ", ") + std::string(row.name);
    return Status::error(Code::not_found, "there is no pass option '" + std::string(name) +
                                              "'; the options are " + known);
  }
  if (!is_choice(option->choices, value))
    return Status::error(Code::invalid_argument, "pass option " + std::string(name) + " is '" +
                                                     std::string(value) + "', but must be " +
                                                     listed(option->choices));
  values_.insert_or_assign(std::string(name), std::string(value));
  return {};
}

std::string_view PassContext::value(std::string_view name, OptionType type) const {
  const OptionInfo *option = find_option(name);
  CUGRT_CHECK(option && option->type == type);
  auto set = values_.find(name);
  return set == values_.end() ? option->default_value : std::string_view(set->second);
}

bool PassContext::flag(std::string_view name) const {
  return value(name, OptionType::flag) == "true";
}

} // namespace cugrt::passes
