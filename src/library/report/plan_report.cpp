// Text and JSON of a plan's report; drawings stand in plan_drawing.cpp.
#include "library/report/plan_report.h"

#include "ir/module/names.h"
#include "ops/emit/kernel_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cugrt::runtime {

namespace {

using Json = nlohmann::ordered_json;

std::string bytes_text(const std::optional<uint64_t> &bytes) {
  return bytes ? std::to_string(*bytes) : "unbounded";
}

std::string padded(std::string text, size_t width) {
  text.append(text.size() < width ? width - text.size() : 1, ' ');
  return text;
}

std::string place_text(SourceLocation location) {
  return location.known() ? "line " + std::to_string(location.line) : "generated";
}

std::string bounds_text(const plan::Symbol &symbol) {
  std::string upper =
      symbol.bounds.upper == INT64_MAX ? "unbounded" : std::to_string(symbol.bounds.upper);
  return symbol.name + " in [" + std::to_string(symbol.bounds.lower) + ", " + upper + "]" +
         (symbol.source == ir::SymbolSource::device ? " (device)" : "");
}

/// "n_bucket: the least of 8, 16, 32 that holds n": none where the symbol is no bucket.
std::string bucket_text(const plan::Function &function, uint32_t symbol) {
  for (const plan::Bucket &bucket : function.buckets) {
    if (bucket.symbol.index != symbol)
      continue;
    const plan::Symbol &of = function.symbols[bucket.of.index];
    return ": the least of " +
           ir::joined(bucket.sizes, [](int64_t size) { return std::to_string(size); }) +
           " that holds " + of.name +
           (of.bounds.upper > bucket.sizes.back() ? ", beyond them " + of.name + " itself" : "");
  }
  return "";
}

Json location_json(SourceLocation location) {
  return location.known() ? Json{{"line", location.line}, {"column", location.column}} : Json();
}

Json calls_json(const plan::CallChain &chain) {
  Json list = Json::array();
  for (const plan::CallNote &call : chain.calls)
    list.push_back({{"callee", call.callee}, {"location", location_json(call.location)}});
  return list;
}

/// The conditionals' bodies: each is a graph of its own.
std::vector<plan::RegionLevel> bodies_of(const plan::Function &function,
                                         const plan::Region &region) {
  if (!plan::has_conditionals(function, region))
    return {};
  auto levels = plan::find_region_levels(function, region.steps);
  return {levels->levels.begin() + 1, levels->levels.end()};
}

std::string bodies_text(const plan::Function &function, const plan::Region &region) {
  std::string text;
  for (const plan::RegionLevel &level : bodies_of(function, region))
    text += "    " + body_name(function, region, level) + ": " +
            std::to_string(level.steps.size()) + " steps from step " +
            std::to_string(level.steps.front()) + "\n";
  return text;
}

Json bodies_json(const plan::Function &function, const plan::Region &region) {
  Json bodies = Json::array();
  for (const plan::RegionLevel &level : bodies_of(function, region))
    bodies.push_back({{"conditional", level.step}, {"body", level.body}, {"steps", level.steps}});
  return bodies;
}

void add_function(std::string &text, const PlanView &view, uint32_t index) {
  const plan::Function &function = view.plan.functions[index];
  text += "function @" + function.name + (function.is_private ? " (private)" : "") + "\n";
  for (uint32_t s = 0; s < function.symbols.size(); ++s)
    text += "  symbol " + bounds_text(function.symbols[s]) + bucket_text(function, s) + "\n";
  for (const std::string &constraint : constraint_texts(view.plan, function))
    text += "  constraint " + constraint + "\n";
  for (const plan::CountedDim &counted : function.counted_dims)
    text += "  dimension " + std::to_string(counted.dim) + " of result " +
            std::to_string(counted.result) + " is counted by result " +
            std::to_string(counted.count) + "\n";
  for (const plan::Region &region : function.regions)
    text += "  region " + region.name + ": " + std::to_string(region.steps.count) + " steps, " +
            std::to_string(region.edges.size()) + " edges; key " + key_names(function, region.key) +
            "; slots " + slot_names(function, region.slots) + "\n" + bodies_text(function, region);
  for (const plan::BindingNote &note : view.report.bindings) {
    if (note.function != index)
      continue;
    std::string where = note.region == plan::kNone ? "-" : function.regions[note.region].name;
    text += "  " + padded(place_text(note.location), 10) + padded(where, 12) + note.binding + "\n" +
            std::string(24, ' ') + note.reason + "\n";
    if (!note.from.calls.empty())
      text += std::string(24, ' ') + calls_text(note.from) + "\n";
  }
  for (const plan::EdgeNote &note : view.report.edges)
    if (note.function == index)
      text += "  edge " + function.regions[note.region].name + " " +
              std::to_string(note.edge.from) + " -> " + std::to_string(note.edge.to) + ": " +
              note.reason + "\n";
}

/// When others may have a tensor's bytes.
std::string gaps_text(const plan::StorageNote &note) {
  std::string text;
  for (auto [begin, end] : note.gaps)
    text += (text.empty() ? " free in [" : ", [") + std::to_string(begin) + ", " +
            std::to_string(end) + ")";
  return text;
}

void add_storage(std::string &text, const PlanView &view) {
  text += "storage, in bytes at the largest sizes that the symbols' bounds and constraints allow\n";
  for (const plan::Arena &arena : view.plan.arenas)
    text += "  scope " + padded(arena.scope, 10) + " arena " + std::to_string(arena.bytes) +
            ", lower bound " + std::to_string(arena.lower_bound_bytes) + ", sum of tensors " +
            std::to_string(arena.tensor_bytes) + "\n";
  if (view.has_notes)
    text += "  before sharing  " + std::to_string(view.report.storage_before_bytes) + "\n";
  for (const plan::StorageNote &note : view.report.storages)
    text += "  " + padded("@" + view.plan.functions[note.function].name + " %" + note.name, 28) +
            " " + padded(note.scope, 8) + " offset " +
            padded(std::to_string(note.offset_bytes), 10) + " bytes " +
            padded(std::to_string(note.bytes), 10) + " steps [" + std::to_string(note.first_step) +
            ", " + std::to_string(note.end_step) + ")" + gaps_text(note) +
            (note.bucket.empty() ? "" : " where " + note.bucket) +
            (note.from.calls.empty() ? "" : " " + calls_text(note.from)) + "\n";
}

std::string counts_text(const KernelCounts &counts) {
  return std::to_string(counts.launches) + " launches of " + std::to_string(counts.kernels) +
         " kernels";
}

Json counts_json(const KernelCounts &counts) {
  return {{"launches", counts.launches}, {"kernels", counts.kernels}};
}

Json bytes_json(const std::optional<uint64_t> &bytes) { return bytes ? Json(*bytes) : Json(); }

/// {"vector": 8, "f16": 4096}; null where it is not known.
Json operations_json(const StepOperations &step) {
  static constexpr const char *kNames[] = {"vector", "f16", "int8", "f64"};
  static_assert(std::size(kNames) == ir::kOperationKinds);
  if (!step.known)
    return {};
  Json json = Json::object();
  for (size_t kind = 0; kind < ir::kOperationKinds; ++kind)
    if (step.counts[kind] > 0)
      json[kNames[kind]] = step.counts[kind];
  return json;
}

Json function_json(const PlanView &view, uint32_t index) {
  const plan::Function &function = view.plan.functions[index];
  Json json{{"name", function.name}, {"private", function.is_private}};
  Json symbols = Json::array(), regions = Json::array(), bindings = Json::array();
  for (const plan::Symbol &symbol : function.symbols)
    symbols.push_back(
        {{"name", symbol.name},
         {"lower", symbol.bounds.lower},
         {"upper", symbol.bounds.upper == INT64_MAX ? Json() : Json(symbol.bounds.upper)},
         {"device", symbol.source == ir::SymbolSource::device}});
  for (const plan::Bucket &bucket : function.buckets)
    symbols[bucket.symbol.index]["bucket"] = {{"of", function.symbols[bucket.of.index].name},
                                              {"sizes", bucket.sizes}};
  for (const std::string &constraint : constraint_texts(view.plan, function))
    json["constraints"].push_back(constraint);
  for (uint32_t r = 0; r < function.regions.size(); ++r) {
    const plan::Region &region = function.regions[r];
    Json row{{"name", region.name}, {"nodes", region.steps.count}};
    Json steps = Json::array(), edges = Json::array(), key = Json::array(), slots = Json::array(),
         operations = Json::array();
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s) {
      steps.push_back(function.steps[s].name);
      operations.push_back(view.operations.empty() ? Json()
                                                   : operations_json(view.operations[index][s]));
    }
    for (const plan::Edge &edge : region.edges)
      edges.push_back(Json{edge.from, edge.to});
    for (plan::SymbolId symbol : region.key)
      key.push_back(function.symbols[symbol.index].name);
    for (uint32_t slot : region.slots)
      slots.push_back(slot_names(function, {slot}));
    row["steps"] = std::move(steps);
    row["operations"] = std::move(operations);
    row["edges"] = std::move(edges);
    row["programmatic"] = region.programmatic;
    row["bodies"] = bodies_json(function, region);
    row["key"] = std::move(key);
    row["slots"] = std::move(slots);
    regions.push_back(std::move(row));
  }
  for (const plan::BindingNote &note : view.report.bindings)
    if (note.function == index)
      bindings.push_back(
          {{"binding", note.binding},
           {"location", location_json(note.location)},
           {"region",
            note.region == plan::kNone ? Json() : Json(function.regions[note.region].name)},
           {"reason", note.reason},
           {"calls", calls_json(note.from)},
           {"more_calls", note.from.more}});
  json["symbols"] = std::move(symbols);
  json["regions"] = std::move(regions);
  json["bindings"] = std::move(bindings);
  return json;
}

Json code_json(const plan::Plan &plan) {
  CodeSummary summary = summarize_code(plan);
  Json rows = Json::array();
  for (const SpecializedKernel &row : summary.specialized)
    rows.push_back({{"name", row.name},
                    {"source", row.source},
                    {"specialized", row.specialized},
                    {"general", row.general}});
  return {{"kernels", summary.kernels},
          {"codes", summary.codes},
          {"specialized", summary.specialized_count()},
          {"most_specialized", codegen::kMaxSpecializations},
          {"functions", std::move(rows)}};
}

} // namespace

std::vector<std::string> constraint_texts(const plan::Plan &plan, const plan::Function &function) {
  const std::vector<std::string> names = function.symbol_names();
  std::vector<std::string> texts;
  for (const plan::Constraint &constraint : function.constraints)
    texts.push_back(plan.exprs.to_string(constraint.expr, names) +
                    " <= " + std::to_string(constraint.most));
  return texts;
}

std::string memory_text(const MemoryRow &row) {
  std::string text = "device memory for @" + row.function;
  const bool joint = !row.constraints.empty();
  for (size_t i = 0; i < row.symbols.size(); ++i)
    text += (i       ? ", "
             : joint ? " within "
                     : " at ") +
            row.symbols[i].first + (joint ? " <= " : " = ") +
            (row.symbols[i].second ? std::to_string(*row.symbols[i].second) : "?");
  for (const std::string &constraint : row.constraints)
    text += ", " + constraint;
  text += ", in bytes\n";
  text += "  arena " + bytes_text(row.arena) + ", arguments " + bytes_text(row.arguments) +
          ", weights " + bytes_text(row.weights) + ", results " + bytes_text(row.results) +
          ", unplanned " + bytes_text(row.dynamic) + "; together " + bytes_text(row.total) + "\n";
  if (!row.longest.empty())
    text += "  longest node '" + row.longest + "', which reads and writes " +
            std::to_string(row.longest_bytes) + "\n";
  return text;
}

std::string calls_text(const plan::CallChain &chain) {
  std::string text;
  for (const plan::CallNote &call : chain.calls)
    text += (text.empty() ? "from the call of @" : ", from the call of @") + call.callee +
            (call.location.known() ? " in line " + std::to_string(call.location.line) : "");
  return text + (chain.more ? ", and " + std::to_string(chain.more) + " more" : "");
}

std::string key_names(const plan::Function &function, const std::vector<plan::SymbolId> &key) {
  const std::string text =
      ir::joined(key, [&](plan::SymbolId symbol) { return function.symbols[symbol.index].name; });
  return text.empty() ? "-" : text;
}

std::string body_name(const plan::Function &function, const plan::Region &region,
                      const plan::RegionLevel &level) {
  const plan::Step &step = function.steps[region.steps.begin + level.step];
  const bool loop = function.conditionals[step.conditional].kind == plan::ConditionalKind::while_;
  return std::string(loop ? "body" : level.body == 0 ? "then" : "else") + " of '" + step.name + "'";
}

std::string slot_names(const plan::Function &function, const std::vector<uint32_t> &slots) {
  const std::string text =
      ir::joined(slots, [&](uint32_t slot) { return function.slot_text(slot); });
  return text.empty() ? "-" : text;
}

std::string plan_text(const PlanView &view) {
  std::string text = "plan of " + view.module_name;
  if (view.has_notes)
    text += ": " + counts_text(view.kernels);
  if (view.unfused.launches != view.kernels.launches)
    text += "; without fusion " + counts_text(view.unfused);
  text += "\n";
  for (const std::string &line : view.fusion)
    text += line + "\n";
  for (uint32_t i = 0; i < view.plan.functions.size(); ++i)
    add_function(text, view, i);
  text += "code\n" + code_summary_text(summarize_code(view.plan));
  add_storage(text, view);
  for (const MemoryRow &row : view.memory)
    text += memory_text(row);
  return text;
}

std::string plan_json(const PlanView &view) {
  Json json{{"module", view.module_name},
            {"kernels", view.has_notes ? counts_json(view.kernels) : Json()},
            {"kernels_without_fusion", view.has_notes ? counts_json(view.unfused) : Json()},
            {"fusion", view.fusion}};
  Json functions = Json::array(), arenas = Json::array(), tensors = Json::array(),
       memory = Json::array(), edges = Json::array();
  for (uint32_t i = 0; i < view.plan.functions.size(); ++i)
    functions.push_back(function_json(view, i));
  for (const plan::Arena &arena : view.plan.arenas)
    arenas.push_back({{"scope", arena.scope},
                      {"bytes", arena.bytes},
                      {"lower_bound_bytes", arena.lower_bound_bytes},
                      {"tensor_bytes", arena.tensor_bytes}});
  for (const plan::StorageNote &note : view.report.storages)
    tensors.push_back({{"function", view.plan.functions[note.function].name},
                       {"name", note.name},
                       {"scope", note.scope},
                       {"bucket", note.bucket.empty() ? Json() : Json(note.bucket)},
                       {"offset_bytes", note.offset_bytes},
                       {"bytes", note.bytes},
                       {"first_step", note.first_step},
                       {"end_step", note.end_step},
                       {"gaps", note.gaps},
                       {"calls", calls_json(note.from)},
                       {"more_calls", note.from.more}});
  for (const plan::EdgeNote &note : view.report.edges)
    edges.push_back({{"function", view.plan.functions[note.function].name},
                     {"region", view.plan.functions[note.function].regions[note.region].name},
                     {"from", note.edge.from},
                     {"to", note.edge.to},
                     {"reason", note.reason}});
  for (const MemoryRow &row : view.memory) {
    Json symbols = Json::object();
    for (const auto &[name, value] : row.symbols)
      symbols[name] = value ? Json(*value) : Json();
    Json given = Json::object();
    for (const auto &[name, bytes] : row.given_weights)
      given[name] = bytes;
    Json computed = Json::object();
    for (const auto &[name, bytes, recipe] : row.computed_weights)
      computed[name] = {
          {"bytes", bytes}, {"recipe", hex(recipe.computation)}, {"sources", recipe.sources}};
    memory.push_back({{"function", row.function},
                      {"of_weights", row.of_weights},
                      {"symbols", std::move(symbols)},
                      {"constraints", row.constraints},
                      {"arena_bytes", bytes_json(row.arena)},
                      {"argument_bytes", bytes_json(row.arguments)},
                      {"weight_bytes", bytes_json(row.weights)},
                      {"given_weight_bytes", std::move(given)},
                      {"computed_weights", std::move(computed)},
                      {"result_bytes", bytes_json(row.results)},
                      {"unplanned_bytes", bytes_json(row.dynamic)},
                      {"total_bytes", bytes_json(row.total)},
                      {"longest_node", row.longest.empty() ? Json() : Json(row.longest)},
                      {"longest_node_bytes", row.longest_bytes}});
  }
  json["functions"] = std::move(functions);
  json["code"] = code_json(view.plan);
  json["arenas"] = std::move(arenas);
  json["storage_before_bytes"] = view.has_notes ? Json(view.report.storage_before_bytes) : Json();
  json["tensors"] = std::move(tensors);
  json["edges"] = std::move(edges);
  json["memory"] = std::move(memory);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace cugrt::runtime
