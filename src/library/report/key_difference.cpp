// Comparison of two keys; see module_report.h.
#include "library/report/module_report.h"

#include "device/graph/step_launch.h"
#include "device/graph/topology_class.h"
#include "device/program/symbol_binding.h"
#include "ir/module/names.h"
#include "library/report/plan_report.h"

#include <nlohmann/json.hpp>

namespace cugrt::runtime {

namespace {

using Json = nlohmann::ordered_json;

struct FieldDifference {
  std::string field, from, to;
};

struct NodeDifference {
  uint32_t node = 0;
  const std::string *name = nullptr;
  std::vector<FieldDifference> fields;
};

struct RegionDifference {
  const plan::Region *region = nullptr;
  size_t node_count = 0;
  bool same_class = true; // otherwise no instance of one key can be patched to the other
  std::vector<NodeDifference> nodes;
};

/// The device's limits are not known here; a run checks them.
DeviceLimits no_limits() {
  DeviceLimits limits;
  limits.grid = limits.block = {INT32_MAX, INT32_MAX, INT32_MAX};
  limits.threads_per_block = limits.shared_bytes_per_block = UINT32_MAX;
  return limits;
}

std::string launch_name(const RunBinding &run, const StepVariant &variant) {
  if (variant.kind != VariantKind::kernel)
    return run.function.steps[variant.step].name;
  return run.plan.kernels[variant.kernel].entries[variant.variant];
}

Status compare_dims(const RunBinding &from, const RunBinding &to, const StepVariant &a,
                    const StepVariant &b, std::vector<FieldDifference> &fields) {
  CUGRT_ASSIGN(LaunchDims before, launch_dims(from, a, no_limits()));
  CUGRT_ASSIGN(LaunchDims after, launch_dims(to, b, no_limits()));
  if (before.enabled != after.enabled) {
    auto text = [](bool enabled) { return std::string(enabled ? "yes" : "no"); };
    fields.push_back({"enabled", text(before.enabled), text(after.enabled)});
  }
  if (!before.enabled || !after.enabled)
    return {};
  if (!(before.grid == after.grid))
    fields.push_back({"grid", dim3_text(before.grid), dim3_text(after.grid)});
  if (!(before.block == after.block))
    fields.push_back({"block", dim3_text(before.block), dim3_text(after.block)});
  if (before.shared_bytes != after.shared_bytes)
    fields.push_back(
        {"shared_bytes", std::to_string(before.shared_bytes), std::to_string(after.shared_bytes)});
  return {};
}

Result<uint64_t> value_of(const RunBinding &run, const ValueSource &source) {
  auto value = run.value(source);
  if (!value.ok())
    return value.take_status().in("argument " + source_text(run, source));
  return value;
}

Status compare_node(const RunBinding &from, const RunBinding &to, uint32_t a_index,
                    uint32_t b_index, std::vector<FieldDifference> &fields) {
  const StepVariant &a = from.program.variants[a_index], &b = to.program.variants[b_index];
  const bool left_out = a.kind == VariantKind::left_out || b.kind == VariantKind::left_out;
  if (left_out) {
    auto text = [](const StepVariant &variant) {
      return std::string(variant.kind == VariantKind::left_out ? "no" : "yes");
    };
    if (a_index != b_index)
      fields.push_back({"runs", text(a), text(b)});
    return {};
  }
  if (a_index != b_index)
    fields.push_back({"kernel", launch_name(from, a), launch_name(to, b)});
  CUGRT_TRY(compare_dims(from, to, a, b, fields));
  uint32_t argument = 0;
  for (uint32_t i = 0; i < std::min(a.sources.count, b.sources.count); ++i) {
    if (from.program.sources[a.sources.begin + i].joined)
      continue; // the same in every run
    CUGRT_ASSIGN(uint64_t before, value_of(from, from.program.sources[a.sources.begin + i]));
    CUGRT_ASSIGN(uint64_t after, value_of(to, to.program.sources[b.sources.begin + i]));
    const uint32_t number = argument++;
    if (before != after)
      fields.push_back({"argument " + std::to_string(number),
                        std::to_string(static_cast<int64_t>(before)),
                        std::to_string(static_cast<int64_t>(after))});
  }
  return {};
}

Result<RegionDifference> compare_region(const Executable &executable, const RunBinding &from,
                                        const RunBinding &to, uint32_t index) {
  RegionDifference difference;
  difference.region = &from.function.regions[index];
  CUGRT_ASSIGN(std::vector<uint32_t> before, choose_variants(from, executable, nullptr, index));
  CUGRT_ASSIGN(std::vector<uint32_t> after, choose_variants(to, executable, nullptr, index));
  difference.node_count = before.size();
  difference.same_class = before == after;
  for (uint32_t node = 0; node < before.size(); ++node) {
    const plan::Step &step = from.function.steps[difference.region->steps.begin + node];
    NodeDifference row{node, &step.name, {}};
    if (Status status = compare_node(from, to, before[node], after[node], row.fields); !status.ok())
      return std::move(status)
          .in("step '" + step.name + "' of region " + difference.region->name + " of function @" +
              from.function.name)
          .at(executable.location(step.location));
    if (!row.fields.empty())
      difference.nodes.push_back(std::move(row));
  }
  return difference;
}

std::string key_text(const RunBinding &run, const plan::Region &region) {
  const std::string text = ir::joined(region.key, [&](ir::SymbolId symbol) {
    return run.function.symbols[symbol.index].name + " = " +
           std::to_string(run.symbols[symbol.index]);
  });
  return text.empty() ? "-" : text;
}

std::string to_text(const RunBinding &from, const RunBinding &to,
                    const std::vector<RegionDifference> &regions) {
  std::string text;
  for (const RegionDifference &region : regions) {
    text += "@" + from.function.name + " region " + region.region->name + ", key " +
            key_text(from, *region.region) + " -> " + key_text(to, *region.region) + ": " +
            std::to_string(region.nodes.size()) + " of " + std::to_string(region.node_count) +
            " nodes differ" + (region.same_class ? "" : ", of another topology class") + "\n";
    for (const NodeDifference &node : region.nodes) {
      text += "  " + std::to_string(node.node) + " " + *node.name + ":";
      for (size_t i = 0; i < node.fields.size(); ++i)
        text += (i ? ", " : " ") + node.fields[i].field + " " + node.fields[i].from + " -> " +
                node.fields[i].to;
      text += "\n";
    }
  }
  return text;
}

std::string to_json(const RunBinding &from, const RunBinding &to,
                    const std::vector<RegionDifference> &regions) {
  Json json = Json::array();
  auto key = [](const RunBinding &run, const plan::Region &region) {
    Json values = Json::object();
    for (ir::SymbolId symbol : region.key)
      values[run.function.symbols[symbol.index].name] = run.symbols[symbol.index];
    return values;
  };
  for (const RegionDifference &region : regions) {
    Json nodes = Json::array();
    for (const NodeDifference &node : region.nodes) {
      Json fields = Json::array();
      for (const FieldDifference &field : node.fields)
        fields.push_back({{"field", field.field}, {"from", field.from}, {"to", field.to}});
      nodes.push_back({{"node", node.node}, {"name", *node.name}, {"fields", std::move(fields)}});
    }
    json.push_back({{"function", from.function.name},
                    {"region", region.region->name},
                    {"from", key(from, *region.region)},
                    {"to", key(to, *region.region)},
                    {"same_class", region.same_class},
                    {"node_count", region.node_count},
                    {"nodes", std::move(nodes)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace

Result<std::string> key_difference(const Executable &executable, uint32_t index,
                                   std::span<const cugrt_symbol_value> from_values,
                                   std::span<const cugrt_symbol_value> to_values,
                                   cugrt_report_format format) {
  const plan::Plan &plan = executable.plan();
  const plan::Function &function = plan.functions[index];
  RunBinding from(plan, function, executable.program(index)),
      to(plan, function, executable.program(index));
  CUGRT_ASSIGN(GivenSymbols from_given, set_named_symbols(from, from_values));
  CUGRT_ASSIGN(GivenSymbols to_given, set_named_symbols(to, to_values));
  std::vector<RegionDifference> regions;
  for (uint32_t r = 0; r < function.regions.size(); ++r) {
    for (const GivenSymbols *given : {&from_given, &to_given})
      if (const plan::Symbol *missing = missing_symbol(from, function.regions[r], *given))
        return Status::error(Code::invalid_argument, "function @" + function.name +
                                                         ": give a value for symbol " +
                                                         missing->name + " on both sides");
    CUGRT_ASSIGN(RegionDifference region, compare_region(executable, from, to, r));
    regions.push_back(std::move(region));
  }
  if (format == CUGRT_REPORT_TEXT)
    return to_text(from, to, regions);
  if (format == CUGRT_REPORT_JSON)
    return to_json(from, to, regions);
  return Status::error(Code::unsupported, "differences of keys are reported as text or JSON");
}

} // namespace cugrt::runtime
