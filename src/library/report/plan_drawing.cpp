// Drawings of a plan: DOT of the regions, SVG of the arenas; see plan_report.h.
#include "library/report/plan_report.h"

#include "compiler/planner/analysis/liveness.h"

#include <algorithm>
#include <cstdio>

namespace cugrt::runtime {

namespace {

// The drawing's measures, in SVG units.
constexpr double kWidth = 960, kArenaHeight = 360, kMargin = 48, kGap = 40;
constexpr size_t kMaxDrawnTensors = 20000; // more are a black square

std::string xml_escaped(const std::string &text) {
  std::string out;
  for (char c : text) {
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    default:
      out += c;
    }
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

/// A colour that depends on the position in the list only.
std::string colour(size_t index) {
  return "hsl(" + std::to_string(index * 47 % 360) + ", 60%, 75%)";
}

std::string text_at(double x, double y, const std::string &text) {
  return "  <text x=\"" + number(x) + "\" y=\"" + number(y) + "\">" + xml_escaped(text) +
         "</text>\n";
}

struct StepGap {
  uint32_t begin, end;
};

std::vector<StepGap> gaps_of(const plan::StorageNote &note) {
  std::vector<StepGap> gaps;
  for (auto [begin, end] : note.gaps)
    gaps.push_back({begin, end});
  return gaps;
}

struct Rectangle {
  double x, y, width, height;
};

/// A tensor's bytes in steps [begin, end).
std::string box(const plan::StorageNote &note, size_t index, uint32_t begin, uint32_t end,
                const Rectangle &at) {
  std::string svg = "  <rect x=\"" + number(at.x) + "\" y=\"" + number(at.y) + "\" width=\"" +
                    number(at.width) + "\" height=\"" + number(at.height) + "\" fill=\"" +
                    colour(index) + "\" stroke=\"#444\" stroke-width=\"0.5\"><title>" +
                    xml_escaped("%" + note.name + ": offset " + std::to_string(note.offset_bytes) +
                                ", " + std::to_string(note.bytes) + " bytes, steps [" +
                                std::to_string(begin) + ", " + std::to_string(end) + ")" +
                                (note.from.calls.empty() ? "" : ", " + calls_text(note.from))) +
                    "</title></rect>\n";
  if (at.height > 12 && at.width > 40)
    svg += text_at(at.x + 3, at.y + 11, "%" + note.name);
  return svg;
}

std::string arena_svg(const PlanView &view, const plan::Arena &arena, uint32_t function,
                      const std::string &bucket, double top) {
  std::vector<const plan::StorageNote *> notes;
  uint32_t end_step = 1;
  for (const plan::StorageNote &note : view.report.storages)
    if (note.scope == arena.scope && note.function == function && note.bucket == bucket) {
      notes.push_back(&note);
      end_step = std::max(end_step, note.end_step);
    }
  double bytes = static_cast<double>(std::max<int64_t>(arena.bytes, 1));
  double width = kWidth - 2 * kMargin;
  std::string svg =
      text_at(kMargin, top - 8,
              "@" + view.plan.functions[function].name +
                  (bucket.empty() ? "" : " where " + bucket) + ", scope " + arena.scope + ": " +
                  std::to_string(arena.bytes) + " bytes, " + std::to_string(end_step) + " steps");
  svg += "  <rect x=\"" + number(kMargin) + "\" y=\"" + number(top) + "\" width=\"" +
         number(width) + "\" height=\"" + number(kArenaHeight) +
         "\" fill=\"none\" stroke=\"#888\"/>\n";
  for (size_t i = 0; i < notes.size() && i < kMaxDrawnTensors; ++i) {
    const plan::StorageNote &note = *notes[i];
    double h = kArenaHeight * static_cast<double>(note.bytes) / bytes;
    double y = top + kArenaHeight -
               kArenaHeight * static_cast<double>(note.offset_bytes + note.bytes) / bytes;
    // A box for each run of steps; in the gaps between them others may have the bytes.
    plan::for_each_run(note.first_step, note.end_step, std::span<const StepGap>(gaps_of(note)),
                       [&](uint32_t begin, uint32_t end) {
                         double x = kMargin + width * begin / end_step;
                         double w = width * (end - begin) / end_step;
                         svg += box(note, i, begin, end, {x, y, w, h});
                       });
  }
  return svg;
}

/// The graphs of conditionals' bodies as boxes beside the region's own.
std::string body_clusters(const plan::Function &function, const plan::Region &region,
                          const std::string &prefix) {
  std::string text;
  auto levels = plan::find_region_levels(function, region.steps);
  for (size_t l = 1; l < levels->levels.size(); ++l) {
    const plan::RegionLevel &level = levels->levels[l];
    text += "    subgraph cluster_" + prefix + "body" + std::to_string(l) +
            " { label=" + dot_quoted(body_name(function, region, level)) + ";";
    for (uint32_t step : level.steps)
      text += " " + prefix + std::to_string(step) + ";";
    text += " }\n";
  }
  return text;
}

} // namespace

std::string plan_dot(const PlanView &view) {
  std::string text = "digraph plan {\n  node [shape=box];\n";
  size_t cluster = 0;
  for (const plan::Function &function : view.plan.functions)
    for (const plan::Region &region : function.regions) {
      std::string prefix = "r" + std::to_string(cluster) + "n";
      text += "  subgraph cluster_" + std::to_string(cluster++) + " {\n    label=" +
              dot_quoted("@" + function.name + " region " + region.name + ", key " +
                         key_names(function, region.key)) +
              ";\n";
      for (uint32_t i = 0; i < region.steps.count; ++i) {
        const plan::Step &step = function.steps[region.steps.begin + i];
        text += "    " + prefix + std::to_string(i) + " [label=" + dot_quoted(step.name);
        if (step.location.known())
          text += ", tooltip=" + dot_quoted("line " + std::to_string(step.location.line));
        text += "];\n";
      }
      if (plan::has_conditionals(function, region))
        text += body_clusters(function, region, prefix);
      for (const plan::Edge &edge : region.edges)
        text += "    " + prefix + std::to_string(edge.from) + " -> " + prefix +
                std::to_string(edge.to) + ";\n";
      text += "  }\n";
    }
  return text + "}\n";
}

std::string plan_svg(const PlanView &view) {
  std::string drawings;
  double top = kMargin;
  for (uint32_t function = 0; function < view.plan.functions.size(); ++function)
    for (const plan::Arena &arena : view.plan.arenas) {
      std::vector<std::string> buckets; // in which it has tensors, in order; one that is empty: all
      for (const plan::StorageNote &note : view.report.storages)
        if (note.function == function && note.scope == arena.scope &&
            std::find(buckets.begin(), buckets.end(), note.bucket) == buckets.end())
          buckets.push_back(note.bucket);
      for (const std::string &bucket : buckets) {
        drawings += arena_svg(view, arena, function, bucket, top);
        top += kArenaHeight + kGap;
      }
    }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(kWidth) + "\" height=\"" +
         number(top + kMargin) +
         "\" font-family=\"sans-serif\" font-size=\"10\">\n"
         "  <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
         drawings + "</svg>\n";
}

} // namespace cugrt::runtime
