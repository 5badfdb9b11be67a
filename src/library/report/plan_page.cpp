// The data of the page; see plan_report.h. Columns of numbers, and every text once, so that a plan
// of ten thousand steps is a page of some megabytes.
#include "library/report/plan_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_map>

namespace cugrt::runtime {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBindingBytes = 2'000'000, kMostReasonBytes = 600'000; // of all together
constexpr size_t kLeastCut = 60, kMostCut = 2000;                           // of one text

/// Texts by number, each once.
class Strings {
public:
  int64_t number(const std::string &text) {
    const auto [found, added] = numbers_.try_emplace(text, texts_.size());
    if (added)
      texts_.push_back(text);
    return static_cast<int64_t>(found->second);
  }
  /// -1 for the empty text.
  int64_t number_or_none(const std::string &text) { return text.empty() ? -1 : number(text); }
  /// At most `most` bytes of it.
  int64_t number_of_cut(const std::string &text, size_t most) {
    if (text.size() <= most)
      return number(text);
    size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
      --end; // not within a character
    return number(text.substr(0, end) + "\u2026");
  }
  const std::vector<std::string> &texts() const { return texts_; }

private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<std::string> texts_;
};

size_t cut_of(size_t texts, size_t most_bytes) {
  return std::clamp(most_bytes / std::max<size_t>(texts, 1), kLeastCut, kMostCut);
}

class PageData {
public:
  explicit PageData(const PlanView &view)
      : view_(view), binding_cut_(cut_of(view.report.bindings.size(), kMostBindingBytes)),
        reason_cut_(cut_of(view.report.edges.size(), kMostReasonBytes)) {}

  Json make() {
    const KernelCounts &counts = view_.kernels;
    std::string fusion;
    for (const std::string &line : view_.fusion)
      fusion += line + "\n";
    Json memory = Json::array(), arenas = Json::array(), functions = Json::array();
    for (const MemoryRow &row : view_.memory)
      memory.push_back(memory_text(row));
    for (const plan::Arena &arena : view_.plan.arenas)
      arenas.push_back(
          {{"text", "scope " + arena.scope + ": " + std::to_string(arena.bytes) +
                        " bytes, lower bound " + std::to_string(arena.lower_bound_bytes) +
                        ", all tensors " + std::to_string(arena.tensor_bytes)}});
    for (uint32_t i = 0; i < view_.plan.functions.size(); ++i)
      functions.push_back(function(i));
    Json json{{"module", view_.module_name},
              {"kernels", view_.has_notes ? std::to_string(counts.launches) + " launches of " +
                                                std::to_string(counts.kernels) + " kernels"
                                          : std::string("a pack")},
              {"fusion", std::move(fusion)},
              {"code", code_summary_text(summarize_code(view_.plan))},
              {"memory", std::move(memory)},
              {"arenas", std::move(arenas)},
              {"functions", std::move(functions)},
              {"tensors", tensors()}};
    json["strings"] = strings_.texts();
    return json;
  }

private:
  Json function(uint32_t index) {
    const plan::Function &function = view_.plan.functions[index];
    Json kernels = Json::array(), values = Json::array(), lines = Json::array();
    std::vector<uint32_t> kinds;
    for (const plan::Step &step : function.steps) {
      const size_t percent = step.name.find(" %"); // "kernel %value"
      const int64_t kernel = strings_.number(step.name.substr(0, percent));
      kinds.push_back(static_cast<uint32_t>(kernel));
      kernels.push_back(kernel);
      values.push_back(
          percent == std::string::npos ? -1 : strings_.number(step.name.substr(percent + 2)));
      lines.push_back(step.location.line);
    }
    Json regions = Json::array();
    for (uint32_t r = 0; r < function.regions.size(); ++r)
      regions.push_back(region(index, r, kinds));
    return {{"name", function.name},
            {"steps", {{"kernel", kernels}, {"value", values}, {"line", lines}}},
            {"regions", std::move(regions)},
            {"notes", notes(index)}};
  }

  Json region(uint32_t index, uint32_t number, const std::vector<uint32_t> &kinds) {
    const plan::Function &function = view_.plan.functions[index];
    const plan::Region &region = function.regions[number];
    Json edges = Json::array(), reasons = Json::array(), layers = Json::array();
    std::unordered_map<uint64_t, std::string> why;
    for (const plan::EdgeNote &note : view_.report.edges)
      if (note.function == index && note.region == number)
        why.try_emplace(uint64_t(note.edge.from) << 32 | note.edge.to, note.reason);
    for (const plan::Edge &edge : region.edges) {
      edges.push_back(edge.from);
      edges.push_back(edge.to);
      if (const auto found = why.find(uint64_t(edge.from) << 32 | edge.to); found != why.end())
        reasons.push_back(strings_.number_of_cut(found->second, reason_cut_));
      else if (view_.has_notes)
        reasons.push_back(strings_.number("joined by another step"));
    }
    const std::span<const uint32_t> own =
        std::span(kinds).subspan(region.steps.begin, region.steps.count);
    for (const StepLayer &layer : find_layers(own))
      layers.push_back({layer.first, layer.count, layer.number, layer.of});
    return {{"name", region.name},
            {"first", region.steps.begin},
            {"count", region.steps.count},
            {"key", key_names(function, region.key)},
            {"slots", slot_names(function, region.slots)},
            {"edges", std::move(edges)},
            {"reasons", std::move(reasons)},
            {"programmatic", region.programmatic},
            {"layers", std::move(layers)}};
  }

  Json notes(uint32_t function) {
    Json texts = Json::array(), lines = Json::array(), regions = Json::array(),
         reasons = Json::array(), calls = Json::array();
    for (const plan::BindingNote &note : view_.report.bindings) {
      if (note.function != function)
        continue;
      texts.push_back(strings_.number_of_cut(note.binding, binding_cut_));
      lines.push_back(note.location.line);
      regions.push_back(note.region == plan::kNone ? -1 : int64_t(note.region));
      reasons.push_back(strings_.number(note.reason));
      calls.push_back(
          strings_.number_or_none(note.from.calls.empty() ? "" : calls_text(note.from)));
    }
    return {{"text", texts},
            {"line", lines},
            {"region", regions},
            {"reason", reasons},
            {"calls", calls}};
  }

  Json tensors() {
    Json functions = Json::array(), names = Json::array(), scopes = Json::array(),
         buckets = Json::array(), offsets = Json::array(), bytes = Json::array(),
         first = Json::array(), end = Json::array(), gaps = Json::array();
    for (const plan::StorageNote &note : view_.report.storages) {
      functions.push_back(note.function);
      names.push_back(strings_.number(note.name));
      scopes.push_back(strings_.number(note.scope));
      buckets.push_back(strings_.number_or_none(note.bucket));
      offsets.push_back(note.offset_bytes);
      bytes.push_back(note.bytes);
      first.push_back(note.first_step);
      end.push_back(note.end_step);
      gaps.push_back(note.gaps.empty() ? Json(0) : Json(note.gaps));
    }
    return {{"function", functions}, {"name", names},     {"scope", scopes},
            {"bucket", buckets},     {"offset", offsets}, {"bytes", bytes},
            {"first", first},        {"end", end},        {"gaps", gaps}};
  }

  const PlanView &view_;
  const size_t binding_cut_, reason_cut_;
  Strings strings_;
};

} // namespace

std::string plan_page(const PlanView &view) {
  // A '<' in a text would be one of the page's own.
  std::string data;
  for (const char c : PageData(view).make().dump(-1, ' ', false, Json::error_handler_t::replace))
    data += c == '<' ? std::string("\\u003c") : std::string(1, c);
  constexpr std::string_view kPlace = "@PLAN@";
  const size_t at = kPlanPage.find(kPlace);
  return std::string(kPlanPage.substr(0, at)) + data +
         std::string(kPlanPage.substr(at + kPlace.size()));
}

} // namespace cugrt::runtime
