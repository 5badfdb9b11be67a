// Names of steps, by lines; see step_operations.h.
#include "library/compile/step_operations.h"

#include "ir/module/op.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cugrt::runtime {

namespace {

using Json = nlohmann::ordered_json;

// Limits of texts: longer places keep their ends; our ops are shorter.
constexpr size_t kMostPlaceBytes = 512, kMostOpBytes = 64;

/// A byte of a character behind its first one.
bool continues(const std::string &text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

/// Text that is not UTF-8, as JSON replaces it.
std::string as_utf8(const std::string &text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Whole characters from the end of `text`, at most `most` bytes with a mark before them; "" for
/// 0.
std::string end_of(const std::string &text, size_t most) {
  if (text.size() <= most)
    return text;
  if (most == 0)
    return "";
  size_t begin = text.size() - most + 1;
  while (continues(text, begin))
    ++begin;
  return "~" + text.substr(begin);
}

/// JSON of one function's steps; rests have at most `most_bytes`.
Json steps_json(const std::vector<StepName> &steps, std::vector<std::string> &ops,
                size_t most_bytes) {
  Json json = Json::array();
  std::string before;
  for (const StepName &step : steps) {
    const std::string place = end_of(as_utf8(step.place), kMostPlaceBytes);
    size_t shared = static_cast<size_t>(
        std::mismatch(place.begin(), place.end(), before.begin(), before.end()).first -
        place.begin());
    while (continues(place, shared) || continues(before, shared))
      --shared;
    std::string rest = end_of(place.substr(shared), most_bytes);
    const auto op = std::find(ops.begin(), ops.end(), step.op);
    json.push_back(size_t(op - ops.begin()));
    if (op == ops.end())
      ops.push_back(step.op);
    json.push_back(shared);
    before = place.substr(0, shared) + rest;
    json.push_back(std::move(rest));
  }
  return json;
}

} // namespace

PlanNames name_steps(const ir::Module &module, const std::map<uint32_t, std::string> &names,
                     const plan::Plan &plan) {
  std::map<uint32_t, std::string_view> ops;                               // by line
  std::map<std::string_view, std::map<std::string_view, uint32_t>> lines; // by function and value
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const ir::Binding &binding : block.bindings) {
        if (binding.kind == ir::BindingKind::op)
          ops.try_emplace(binding.location.line, ir::op_info(ir::op_of(binding)).name);
        for (uint32_t r = 0; r < binding.result_count; ++r)
          lines[function.name].try_emplace(function.value(binding.result(r)).name,
                                           binding.location.line);
      }
  PlanNames all;
  for (const plan::Function &function : plan.functions) {
    const auto &of_values = lines[function.name];
    std::vector<StepName> &steps = all.emplace_back();
    for (const plan::Step &step : function.steps) {
      const auto value = of_values.find(
          std::string_view(step.name).substr(std::min(step.name.size(), step.name.find('%') + 1)));
      const uint32_t line = value != of_values.end() ? value->second : step.location.line;
      const auto op = ops.find(line);
      const auto place = names.find(line);
      steps.push_back(
          {op == ops.end() || step.name.starts_with("fused_") ? "" : std::string(op->second),
           place == names.end() ? "" : place->second});
    }
  }
  return all;
}

nlohmann::ordered_json names_json(std::span<const PlanNames> plans) {
  size_t steps = 0;
  for (const PlanNames &functions : plans)
    for (const std::vector<StepName> &function : functions)
      steps += function.size();
  for (size_t most_bytes = SIZE_MAX;; most_bytes = std::min<size_t>(most_bytes, 160) / 2) {
    std::vector<std::string> ops;
    Json all = Json::array();
    for (const PlanNames &functions : plans) {
      Json &plan = all.emplace_back(Json::array());
      for (const std::vector<StepName> &function : functions)
        plan.push_back(steps_json(function, ops, most_bytes));
    }
    if (most_bytes == 0 || all.dump().size() <= kMostNameBytes * steps)
      return {{"ops", ops}, {"plans", std::move(all)}};
  }
}

bool read_names(const nlohmann::ordered_json &json, std::span<const plan::Plan> plans,
                std::vector<PlanNames> &names) {
  if (!json.is_object() || !json.contains("ops") || !json.contains("plans"))
    return false;
  const Json &ops = json["ops"], &all = json["plans"];
  if (!ops.is_array() || !all.is_array() || all.size() != plans.size())
    return false;
  for (size_t p = 0; p < plans.size(); ++p) {
    PlanNames &plan = names.emplace_back();
    if (!all[p].is_array() || all[p].size() != plans[p].functions.size())
      return false;
    for (size_t f = 0; f < plans[p].functions.size(); ++f) {
      const Json &steps = all[p][f];
      std::vector<StepName> &function = plan.emplace_back();
      if (!steps.is_array() || steps.size() != 3 * plans[p].functions[f].steps.size())
        return false;
      std::string place;
      for (size_t i = 0; i < steps.size(); i += 3) {
        const Json &op = steps[i], &shared = steps[i + 1], &rest = steps[i + 2];
        if (!op.is_number_unsigned() || op.get<uint64_t>() >= ops.size() ||
            !ops[op.get<size_t>()].is_string() || !shared.is_number_unsigned() ||
            shared.get<uint64_t>() > place.size() || continues(place, shared.get<size_t>()) ||
            !rest.is_string())
          return false;
        place = place.substr(0, shared.get<size_t>()) + rest.get<std::string>();
        function.push_back({ops[op.get<size_t>()], place});
        if (place.size() > kMostPlaceBytes || function.back().op.size() > kMostOpBytes)
          return false;
      }
    }
  }
  return true;
}

} // namespace cugrt::runtime
