// Options of passes and their values.
#include "passes/pass.h"

#include "support/check.h"

namespace cugrt::passes {

namespace {

constexpr OptionInfo kOptions[] = {
#define CUGRT_PASS_OPTION(name, type, default_value, description)                                  \
  {name, OptionType::type, default_value, description},
#include "passes/options.def"
#undef CUGRT_PASS_OPTION
};

const OptionInfo *find_option(std::string_view name) {
  for (const OptionInfo &option : kOptions)
    if (option.name == name)
      return &option;
  return nullptr;
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
  if (value != "true" && value != "false")
    return Status::error(Code::invalid_argument, "pass option " + std::string(name) + " is '" +
                                                     std::string(value) +
                                                     "', but must be true or false");
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
