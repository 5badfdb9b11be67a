// Our side of the oracle suite: reads modules, writes what storage policy `slots` and region policy
// `seed` make of them.
//
// One request a line on standard input, one answer a line on standard output, both JSON:
//
//   {"text": "cugrt 1 ..", "slots": true, "flaws": ["control_keeps_region", ..]}
//
// With "slots", storage is planned first and the regions are those of the result. Flaws are the
// published behaviours that are mended by default; an unknown one is an error. A module that is
// refused gives {"error": message}.
//
//   {"text": "cugrt 1 ..", "options": {"mixed.dtype": "f16", ..}}
//
// gives the module that the pass ToMixedPrecision makes of it with the published choices, as text
// and as a list of bindings, and {"kinds": true} gives the kind that the pass takes each op for.
#include "compiler/passes/mixed_precision.h"
#include "compiler/passes/pass.h"
#include "ir/text/text.h"
#include "support/chunk_flaws.h"
#include "support/published_flaws.h"

#include <nlohmann/json.hpp>

#include <iostream>

using namespace cugrt;
using nlohmann::json;

namespace {

struct Flaws {
  test::ChunkFlaws slots;
  test::PublishedFlaws seed;
};

struct FlawName {
  std::string_view name;
  bool &(*of)(Flaws &);
};

// clang-format off
constexpr FlawName kFlaws[] = {
#define FLAW(name, of) {#name, [](Flaws &flaws) -> bool & { return flaws.of.name; }},
    FLAW(pool_outlives_branch, slots)
    FLAW(repeated_part_breaks, slots)
    FLAW(control_keeps_region, seed)
    FLAW(match_keeps_region, seed)
    FLAW(results_are_no_uses, seed)
    FLAW(conditions_are_no_uses, seed)
    FLAW(matches_are_no_uses, seed)
    FLAW(views_hide_results, seed)
    FLAW(merge_ignores_calls, seed)
    FLAW(unused_storage_breaks_merge, seed)
    FLAW(allocation_at_first_storage, seed)
    FLAW(aliases_hide_symbols, seed)
    FLAW(results_hide_symbols, seed)
    FLAW(equal_in_any_bounds, seed)
#undef FLAW
};
// clang-format on

Flaws flaws_of(const json &names) {
  Flaws flaws;
  for (const std::string name : names) {
    const auto *found = std::find_if(std::begin(kFlaws), std::end(kFlaws),
                                     [&](const FlawName &flaw) { return flaw.name == name; });
    if (found == std::end(kFlaws))
      throw std::runtime_error("no flaw is called " + name);
    found->of(flaws) = true;
  }
  return flaws;
}

std::string name_of(const ir::Function &function, ir::ValueId value) {
  return function.value(value).name;
}

json names_of(const ir::Function &function, std::span<const ir::ValueId> values) {
  json names = json::array();
  for (ir::ValueId value : values)
    names.push_back(name_of(function, value));
  return names;
}

// --- Storage policy slots ------------------------------------------------------------------------

/// In program order: storages, tensors in them, unplanned allocations, and where blocks begin and
/// end.
class Skeleton {
public:
  Skeleton(const ir::Module &module, const ir::Function &function, const plan::ChunkPlan &plan)
      : module_(module), function_(function), plan_(plan) {
    block(0);
  }
  json out = json::array();

private:
  void add(const std::vector<std::string> &row) { out.push_back(row); }

  void block(uint32_t number) {
    for (const ir::Binding &b : function_.blocks[number].bindings) {
      if (b.kind == ir::BindingKind::alloc)
        alloc(b.result());
      for (uint32_t i = 0; i < b.blocks.count; ++i) {
        const std::string path = name_of(function_, b.result()) + "." + std::to_string(i);
        add({"block", path});
        block(b.blocks.begin + i);
        add({"end", path});
      }
    }
  }

  void alloc(ir::ValueId value) {
    const plan::ChunkTensor &tensor = *plan_.find(value);
    const std::string name = name_of(function_, value);
    if (tensor.chunk == plan::kNoChunk) {
      add({"alloc", name});
      return;
    }
    const plan::StorageChunk &chunk = plan_.chunks[tensor.chunk];
    const std::string storage = "S:" + name_of(function_, chunk.first_tensor);
    if (chunk.first_tensor == value)
      add({"storage", storage, module_.exprs.to_string(chunk.bytes, function_.symbol_names()),
           module_.types.scope_name(chunk.scope), std::string(ir::info(chunk.dtype).name)});
    add({"tensor", name, storage});
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const plan::ChunkPlan &plan_;
};

/// A chunk that is used in a block which its allocation does not dominate: `seed` has no module to
/// work on.
bool is_well_formed(const ir::Function &function, const plan::ChunkPlan &plan) {
  std::vector<uint32_t> parent(function.blocks.size(), UINT32_MAX);
  std::vector<uint32_t> block_of(function.values.size());
  for (uint32_t number = 0; number < function.blocks.size(); ++number)
    for (const ir::Binding &b : function.blocks[number].bindings) {
      for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
        parent[nested] = number;
      if (b.kind == ir::BindingKind::alloc)
        block_of[b.result().index] = number;
    }
  for (const plan::ChunkTensor &tensor : plan.tensors) {
    if (tensor.chunk == plan::kNoChunk)
      continue;
    uint32_t block = block_of[tensor.tensor.index];
    while (block != UINT32_MAX && block != plan.chunks[tensor.chunk].block)
      block = parent[block];
    if (block == UINT32_MAX)
      return false;
  }
  return true;
}

// --- Region policy seed --------------------------------------------------------------------------

/// Every binding in the analysis' order: {"line", "block", "blocks", "storage"}.
void list_bindings(const ir::Function &function, uint32_t block, json &out) {
  for (const ir::Binding &b : function.blocks[block].bindings) {
    json row = {{"line", b.location.line}, {"block", block}};
    if (b.kind == ir::BindingKind::alloc_storage)
      row["storage"] = name_of(function, b.result());
    if (b.blocks.count > 0)
      row["blocks"] = {b.blocks.begin, b.blocks.begin + 1};
    out.push_back(std::move(row));
    for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
      list_bindings(function, nested, out);
  }
}

json region_json(const ir::Function &function, const plan::PublishedAnalysis &analysis,
                 const plan::PublishedRegion &region) {
  json symbols = json::array();
  for (ir::SymbolId symbol : region.symbols)
    symbols.push_back(function.symbols[symbol.index].name);
  return {{"block", region.block},
          {"bindings", region.bindings},
          {"inputs", names_of(function, region.inputs)},
          {"outputs", names_of(function, region.outputs)},
          {"symbols", symbols},
          {"index", region.capture_index},
          {"function", analysis.lifted[region.lifted].name}};
}

json published_function_json(const ir::Function &function, const plan::PublishedAnalysis &analysis,
                             const plan::PublishedFunction &seed) {
  json out = {{"name", function.name}, {"bindings", json::array()}};
  list_bindings(function, 0, out["bindings"]);
  out["regions"] = json::array();
  for (const plan::PublishedRegion &region : seed.regions)
    out["regions"].push_back(region_json(function, analysis, region));
  out["storages"] = json::array();
  for (const plan::PublishedStorage &storage : seed.storages)
    out["storages"].push_back(
        {{"name", name_of(function, storage.value)},
         {"lifted", storage.lifted()},
         {"slot", storage.merged == UINT32_MAX ? json() : json(storage.merged)}});
  out["allocation"] = seed.allocates ? json(seed.allocation) : json();
  out["undefined"] = names_of(function, test::find_undefined(function, seed));
  return out;
}

json published_json(const ir::Module &module, const test::PublishedFlaws &flaws) {
  const plan::PublishedAnalysis analysis = test::analyze_published(module, flaws);
  json out = {{"functions", json::array()}, {"slots", json::array()}};
  for (size_t i = 0; i < module.functions.size(); ++i)
    out["functions"].push_back(
        published_function_json(module.functions[i], analysis, analysis.functions[i]));
  for (const plan::MergedStorage &merged : analysis.merged)
    out["slots"].push_back(
        json::array({merged.bytes, module.types.scope_name(merged.scope), merged.function,
                     name_of(module.functions[merged.function],
                             analysis.functions[merged.function].storages[merged.storage].value)}));
  out["merge_fails"] = test::merge_fails_on(analysis, flaws) != UINT32_MAX;
  return out;
}

// --- Requests ------------------------------------------------------------------------------------

json error(Status status) { return {{"error", status.to_string()}}; }

json kinds_json() {
  constexpr const char *kNames[] = {"allow", "follow", "deny"};
  const Result<passes::PrecisionTable> table = passes::PrecisionTable::make({});
  json out = json::object();
  for (uint32_t op = 0; op < ir::op_count(); ++op)
    out[std::string(ir::op_info(ir::Op(op)).name)] = kNames[size_t((*table)[ir::Op(op)])];
  return out;
}

/// [name, dtype] of a tensor, [name, ""] of anything else.
json typed_name(const ir::Module &module, const ir::Function &function, ir::ValueId value) {
  const ir::Type &type = module.types[function.value(value).type];
  const bool is_tensor = type.kind == ir::TypeKind::tensor;
  return {name_of(function, value), is_tensor ? std::string(ir::info(type.dtype).name) : ""};
}

json bindings_json(const ir::Module &module, const ir::Function &function) {
  json rows = json::array();
  for (const ir::Binding &b : function.body().bindings) {
    json row = {{"operands", json::array()}, {"results", json::array()}};
    row["op"] = b.kind == ir::BindingKind::op         ? ir::op_info(ir::op_of(b)).name
                : b.kind == ir::BindingKind::constant ? "constant"
                                                      : "shape";
    if (b.kind == ir::BindingKind::constant)
      row["callee"] = module.constants[b.callee].name;
    for (const ir::Operand &operand : function.operands_of(b))
      if (operand.kind == ir::Operand::Kind::value)
        row["operands"].push_back(name_of(function, operand.value()));
    for (uint32_t i = 0; i < b.result_count; ++i)
      row["results"].push_back(typed_name(module, function, b.result(i)));
    rows.push_back(std::move(row));
  }
  return rows;
}

json narrowed_json(const ir::Module &module, const json &options) {
  passes::PassContext context;
  for (const auto &[name, value] : options.items())
    if (Status status = context.set(name, value.get<std::string>()); !status.ok())
      return error(std::move(status));
  Result<ir::Module> narrowed = passes::to_published_mixed_precision(module, context);
  if (!narrowed.ok())
    return error(narrowed.take_status());
  const std::string text = ir::print(*narrowed);
  if (Result<ir::Module> again = ir::parse_and_verify(text, "narrowed"); !again.ok())
    return error(again.take_status());
  const ir::Function &function = narrowed->functions.front();
  json out = {{"text", text},
              {"bindings", bindings_json(*narrowed, function)},
              {"params", json::array()},
              {"returns", json::array()}};
  for (const ir::Parameter &param : function.params)
    out["params"].push_back(typed_name(*narrowed, function, param.value));
  for (const ir::Operand &result : function.results_of(function.body()))
    out["returns"].push_back(name_of(function, result.value()));
  return out;
}

json answer(const json &request) {
  if (request.contains("kinds"))
    return kinds_json();
  Result<ir::Module> module = ir::parse_and_verify(request.at("text").get<std::string>(), "module");
  if (!module.ok())
    return error(module.take_status());
  if (request.contains("options"))
    return narrowed_json(*module, request.at("options"));
  const Flaws flaws = flaws_of(request.at("flaws"));
  json out = json::object();
  if (request.at("slots").get<bool>()) {
    bool well_formed = true;
    out["skeletons"] = json::object();
    ir::Module pools = *module;
    for (const ir::Function &function : module->functions) {
      Result<std::optional<plan::ChunkPlan>> plan = test::plan_chunks(pools, function, flaws.slots);
      if (!plan.ok())
        return error(plan.take_status());
      if (!plan->has_value())
        return {{"exception", "token"}};
      out["skeletons"][function.name] = Skeleton(pools, function, **plan).out;
      well_formed = well_formed && is_well_formed(function, **plan);
    }
    out["well_formed"] = well_formed;
    if (!well_formed)
      return out;
    passes::PassContext context;
    if (!context.set("memory.storage_policy", "slots").ok())
      throw std::runtime_error("there is no storage policy slots");
    const passes::Pass *pipeline[] = {passes::find_pass("PlanMemory")};
    module = passes::run_passes(std::move(*module), pipeline, context);
    if (!module.ok())
      return error(module.take_status());
  }
  out["seed"] = published_json(*module, flaws.seed);
  return out;
}

} // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    json out;
    try {
      out = answer(json::parse(line));
    } catch (const std::exception &failure) {
      out = {{"error", failure.what()}};
    }
    std::cout << out.dump() << std::endl;
  }
}
