// Forms of a pack's report; see module_report.h.
#include "library/report/module_report.h"

#include "device/code/ptx_version.h"
#include "device/pack/pack_open.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace cugrt::runtime {

namespace {

using Json = nlohmann::ordered_json;

uint64_t code_bytes(const Pack &pack, const PackTarget &target) {
  uint64_t bytes = 0;
  for (uint32_t image : images_of(target))
    bytes += pack.contents.images[image].bytes.size(); // parts of one file: no overflow
  return bytes;
}

/// The version of the newest PTX in a target's images; 0: they are machine code.
int newest_ptx(const Pack &pack, const PackTarget &target) {
  int newest = 0;
  for (uint32_t image : images_of(target))
    if (!pack.contents.images[image].cubin)
      newest = std::max(newest, ptx_version(pack.contents.images[image].bytes));
  return newest;
}

/// Options for a plan; the code of one of its targets identifies its kernels.
PlanReportOptions options_of(const Pack &pack, size_t plan, const PlanReportOptions &options) {
  PlanReportOptions own = options;
  for (const PackTarget &target : pack.contents.targets)
    if (target.plan == plan)
      own.code = [&](uint32_t kernel) {
        return Digester().field(pack.contents.images[target.kernel_images[kernel]].bytes).finish();
      };
  return own;
}

std::string weights_text(const PackWeights &weights) {
  switch (weights.kind) {
  case PackWeights::Kind::file:
    return "file " + std::string(weights.file_name) + ", " + std::to_string(weights.file_bytes) +
           " bytes";
  case PackWeights::Kind::inside:
    return "inside, " + std::to_string(weights.parts.front().size()) + " bytes";
  case PackWeights::Kind::none:
    break;
  }
  return "none";
}

/// Empty where the pack has none.
Result<PackNotes> notes_of(const Pack &pack) {
  if (pack.contents.notes.empty())
    return PackNotes{{}, std::vector<std::vector<FunctionOperations>>(pack.plans.size())};
  auto notes = read_notes(pack.contents.notes, pack.plans, pack.contents.targets.size());
  if (!notes.ok())
    return notes.take_status().in("pack " + pack.name);
  return notes;
}

Result<std::string> report_text(const Pack &pack, const PlanReportOptions &options) {
  std::string text = "pack of " + std::string(pack.contents.module_name) + "\n";
  CUGRT_ASSIGN(const PackNotes notes, notes_of(pack));
  for (size_t t = 0; t < pack.contents.targets.size(); ++t) {
    const PackTarget &target = pack.contents.targets[t];
    const int ptx = newest_ptx(pack, target);
    text += "  target " + std::string(target.architecture) + ": " +
            std::to_string(images_of(target).size()) + " images, " +
            std::to_string(code_bytes(pack, target)) + " bytes, plan " +
            std::to_string(target.plan) + (ptx ? ", " + ptx_version_text(ptx) : "");
    if (!notes.multiprocessors.empty())
      text += ", chosen for " + std::to_string(notes.multiprocessors[t]) + " multiprocessors";
    text += "\n";
  }
  text += "  weights " + weights_text(pack.contents.weights) + "\n";
  for (size_t i = 0; i < pack.plans.size(); ++i) {
    CUGRT_ASSIGN(std::string plan,
                 plan_report(pack.plans[i], std::string(pack.contents.module_name), options, {}));
    text += plan;
  }
  return text;
}

/// Adds the names of steps to each region of a plan's report: "ops", "places".
void add_names(const plan::Plan &plan, const PlanNames &names, Json &report) {
  for (size_t f = 0; f < names.size(); ++f)
    for (size_t r = 0; r < plan.functions[f].regions.size(); ++r) {
      const plan::Range steps = plan.functions[f].regions[r].steps;
      Json &row = report["functions"][f]["regions"][r];
      for (uint32_t s = steps.begin; s < steps.end(); ++s) {
        row["ops"].push_back(names[f][s].op);
        row["places"].push_back(names[f][s].place);
      }
    }
}

Result<std::string> report_json(const Pack &pack, const PlanReportOptions &options) {
  Json targets = Json::array(), plans = Json::array();
  CUGRT_ASSIGN(const PackNotes notes, notes_of(pack));
  for (const PackTarget &target : pack.contents.targets) {
    const size_t t = targets.size();
    targets.push_back({{"architecture", target.architecture},
                       {"images", images_of(target).size()},
                       {"code_bytes", code_bytes(pack, target)},
                       {"plan", target.plan}});
    if (!notes.multiprocessors.empty())
      targets.back()["multiprocessors"] = notes.multiprocessors[t];
    if (const int ptx = newest_ptx(pack, target)) {
      targets.back()["ptx_version"] = ptx;
      targets.back()["driver_version"] = driver_of_ptx(ptx);
      targets.back()["ptx"] = ptx_version_text(ptx);
    }
  }
  const PackWeights &weights = pack.contents.weights;
  Json of_weights;
  if (weights.kind == PackWeights::Kind::file)
    of_weights = {{"inside", false},
                  {"file", weights.file_name},
                  {"bytes", weights.file_bytes},
                  {"digest", hex(weights.file_digest)}};
  else if (weights.kind == PackWeights::Kind::inside)
    of_weights = {{"inside", true}, {"bytes", weights.parts.front().size()}};
  for (size_t i = 0; i < pack.plans.size(); ++i) {
    CUGRT_ASSIGN(std::string text,
                 plan_report(pack.plans[i], std::string(pack.contents.module_name),
                             options_of(pack, i, options), notes.operations[i]));
    plans.push_back(Json::parse(text)); // just written by us
    if (!notes.names.empty())
      add_names(pack.plans[i], notes.names[i], plans.back());
  }
  Json json{{"module", pack.contents.module_name}};
  json["targets"] = std::move(targets);
  json["weights"] = std::move(of_weights);
  json["plans"] = std::move(plans);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace

Result<std::string> pack_report(const Pack &pack, const PlanReportOptions &options) {
  switch (options.format) {
  case CUGRT_REPORT_TEXT:
    return report_text(pack, options);
  case CUGRT_REPORT_JSON:
    return report_json(pack, options);
  default:
    if (pack.plans.size() != 1)
      return Status::error(Code::unsupported, "pack " + pack.name + " has " +
                                                  std::to_string(pack.plans.size()) +
                                                  " plans; a drawing shows one");
    return plan_report(pack.plans[0], std::string(pack.contents.module_name), options, {});
  }
}

} // namespace cugrt::runtime
