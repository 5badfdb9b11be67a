// What people call the steps of a plan: ops, and names of an ONNX or GGUF file.
#pragma once

#include "ir/module/module.h"
#include "plan/format/plan.h"

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace cugrt::runtime {

struct StepName {
  std::string op;    // "softmax"; empty where the kernel's name says it, as of a fused one
  std::string place; // the node of an ONNX file or the tensor of a GGUF file; empty: not known
  friend bool operator==(const StepName &, const StepName &) = default;
};
using PlanNames = std::vector<std::vector<StepName>>; // of each function's steps

/// `module` is what was planned, `names` what its file calls its lines. A step goes by the line of
/// the value that it is named for, where the function has it in its text, else by its own.
PlanNames name_steps(const ir::Module &module, const std::map<uint32_t, std::string> &names,
                     const plan::Plan &plan);

inline constexpr size_t kMostNameBytes = 40; // of JSON, of a step

/// {"ops": [name, ...], "plans": [[[op, shared, rest, ...], ...], ...]}: of each step of each
/// function of each plan its op's number, how many bytes of the place before its own place begins
/// with, and the rest. Where the steps of all plans have more than kMostNameBytes each, long rests
/// keep their ends alone, behind "~". The table of ops comes on top.
nlohmann::ordered_json names_json(std::span<const PlanNames> plans);
/// Trusts nothing; false: it is not of these plans.
bool read_names(const nlohmann::ordered_json &json, std::span<const plan::Plan> plans,
                std::vector<PlanNames> &names);

} // namespace cugrt::runtime
