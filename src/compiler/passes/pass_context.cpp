// Options of passes and their values.
#include "compiler/passes/pass.h"

#include "base/check.h"
#include "base/whole_number.h"
#include "ir/module/names.h"

#include <algorithm>

namespace cugrt::passes {

constexpr OptionInfo kOptions[] = {
#define CUGRT_PASS_OPTION(name, type, default_value, description, choices)                         \
  {name, OptionType::type, default_value, description, choices},
#include "compiler/passes/options.def"
#undef CUGRT_PASS_OPTION
};

static const OptionInfo *find_option(std::string_view name) {
  for (const OptionInfo &option : kOptions)
    if (option.name == name)
      return &option;
  return nullptr;
}

/// The parts of `list` between `separator`s; one, empty, of an empty list.
static std::vector<std::string_view> split(std::string_view list, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(separator, begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// "a or b" of "a|b".
static std::string listed(std::string_view choices) {
  std::string list;
  for (char c : choices)
    c == '|' ? list += " or " : list += c;
  return list;
}

static Status check_value(const OptionInfo &option, std::string_view value) {
  const std::string named = "pass option " + std::string(option.name);
  if (option.type == OptionType::ops) {
    if (!value.empty())
      for (std::string_view op : split(value, ','))
        if (!ir::op_from_name(op))
          return Status::error(Code::not_found, named + " names '" + std::string(op) +
                                                    "', which is no op; it takes names of ops "
                                                    "separated by commas, as in matmul,add");
    return {};
  }
  const std::vector<std::string_view> choices = split(option.choices, '|');
  if (option.type == OptionType::number) {
    const std::optional<int64_t> number = whole_number<int64_t>(value);
    if (!number || *number < *whole_number<int64_t>(choices[0]) ||
        *number > *whole_number<int64_t>(choices[1]))
      return Status::error(Code::invalid_argument, named + " is '" + std::string(value) +
                                                       "', but must be a whole number from " +
                                                       std::string(choices[0]) + " to " +
                                                       std::string(choices[1]));
    return {};
  }
  if (std::find(choices.begin(), choices.end(), value) == choices.end())
    return Status::error(Code::invalid_argument, named + " is '" + std::string(value) +
                                                     "', but must be " + listed(option.choices));
  return {};
}

std::span<const OptionInfo> known_options() { return kOptions; }

Status PassContext::set(std::string_view name, std::string_view value) {
  const OptionInfo *option = find_option(name);
  if (!option)
    return Status::error(Code::not_found, "there is no pass option '" + std::string(name) +
                                              "'; the options are " +
                                              ir::joined(kOptions, &OptionInfo::name));
  CUGRT_TRY(check_value(*option, value));
  values_.insert_or_assign(std::string(name), std::string(value));
  return {};
}

Status PassContext::set_from_text(std::string_view setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos)
    return Status::error(Code::invalid_argument, "pass option '" + std::string(setting) +
                                                     "' is not of the form name=value");
  return set(setting.substr(0, equals), setting.substr(equals + 1));
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

std::vector<ir::Op> PassContext::ops(std::string_view name) const {
  const std::string_view names = value(name, OptionType::ops);
  std::vector<ir::Op> ops;
  if (!names.empty())
    for (std::string_view op : split(names, ','))
      ops.push_back(*ir::op_from_name(op));
  return ops;
}

int64_t PassContext::number(std::string_view name) const {
  return *whole_number<int64_t>(value(name, OptionType::number));
}

} // namespace cugrt::passes
