// What the figures say, in words; see report.h.
//
// Only ratios of medians of one run: they are what a busy machine leaves standing.
#include "bench/launch/report.h"

#include <algorithm>

namespace cugrt::bench {
namespace {

std::optional<double> ratio(std::optional<double> a, std::optional<double> b) {
  return a && b && *b > 0 ? std::optional(*a / *b) : std::nullopt;
}

struct Ratios {
  std::optional<double> run_over_bare, run_beyond_bare_us; // a repeated run against cuGraphLaunch
  std::optional<double> plain_over_run;
  std::optional<double> build_over_capture; // first explicit run against first captured launch
  std::optional<double> recapture_over_patched, rebuild_over_patched;
  std::optional<double> device_over_captured;
};

Ratios ratios_of(const CaseFigures &figures) {
  auto first = [&](Mode mode) { return figures.of(mode).first.median(); };
  auto repeat = [&](Mode mode) { return figures.of(mode).repeat.median(); };
  auto device = [&](Mode mode) { return figures.of(mode).device.median(); };
  Ratios ratios;
  std::optional<double> bare = figures.of(Mode::explicit_graph).bare.median(),
                        run = repeat(Mode::explicit_graph);
  ratios.run_over_bare = ratio(run, bare);
  if (run && bare)
    ratios.run_beyond_bare_us = *run - *bare;
  ratios.plain_over_run = ratio(repeat(Mode::plain), run);
  ratios.build_over_capture = ratio(first(Mode::explicit_graph), first(Mode::captured));
  ratios.recapture_over_patched = ratio(first(Mode::recapture), first(Mode::patched));
  ratios.rebuild_over_patched = ratio(first(Mode::rebuild), first(Mode::patched));
  ratios.device_over_captured = ratio(device(Mode::explicit_graph), device(Mode::captured));
  return ratios;
}

std::string times(std::optional<double> value) { return figure_text(value) + " times"; }

std::string sentence(const LaunchCase &measured) {
  Ratios ratios = ratios_of(measured.figures);
  std::string text = "- " + measured.driver->name + ", " + measured.graph + " of " +
                     std::to_string(measured.figures.node_count) + ": ";
  // The emulated driver's launches are the cost of its queue, and its kernels take the processor.
  if (measured.driver->kind == DriverClass::real)
    text += "plain launches take " + times(ratios.plain_over_run) +
            " the host's time of a repeated run, which takes " + times(ratios.run_over_bare) +
            " that of cuGraphLaunch alone; ";
  text += "a first run takes " + times(ratios.build_over_capture) +
          " the time of capturing; to another shape, capturing again takes " +
          times(ratios.recapture_over_patched) + " and building again " +
          times(ratios.rebuild_over_patched) + " that of patching";
  if (ratios.device_over_captured)
    text += "; on the device the graph takes " + times(ratios.device_over_captured) +
            " that of the captured chain";
  return text + ".\n";
}

/// On the do-nothing driver only what is not the driver's can be told.
std::string own_share(const LaunchCase &measured) {
  const CaseFigures &figures = measured.figures;
  auto nodes = double(figures.node_count);
  auto each = [&](Mode mode) {
    std::optional<double> first = figures.of(mode).first.median();
    return first ? figure_text(*first * 1e3 / nodes) : "-";
  };
  std::optional<double> beyond = ratios_of(figures).run_beyond_bare_us;
  return "- NULL, " + measured.graph + " of " + std::to_string(figures.node_count) +
         ": the runtime's own share is " +
         figure_text(beyond ? std::optional(*beyond * 1e3) : std::nullopt) +
         " ns of a repeated run; a node costs " + each(Mode::explicit_graph) +
         " ns of a first run, " + each(Mode::rebuild) + " ns of building again and " +
         each(Mode::patched) + " ns of patching to another shape.\n";
}

/// The marks that a GPU has to meet.
std::string marks(const LaunchCase &measured) {
  Ratios ratios = ratios_of(measured.figures);
  std::string text;
  auto mark = [&](const char *what, std::optional<double> value, bool met) {
    text += "  - " + std::string(what) + ": " + figure_text(value) + ", " +
            (!value ? "not measured"
             : met  ? "met"
                    : "missed") +
            "\n";
  };
  mark("a repeated run within 1.05 times or 0.1 us of cuGraphLaunch", ratios.run_over_bare,
       ratios.run_over_bare &&
           (*ratios.run_over_bare <= 1.05 || *ratios.run_beyond_bare_us <= 0.1));
  mark("building below 0.5 of capturing", ratios.build_over_capture,
       ratios.build_over_capture && *ratios.build_over_capture < 0.5);
  mark("capturing again at least 15 times patching", ratios.recapture_over_patched,
       ratios.recapture_over_patched && *ratios.recapture_over_patched >= 15);
  return text;
}

} // namespace

std::string verdict(const std::vector<LaunchCase> &cases) {
  std::string text;
  for (const LaunchCase &measured : cases) {
    if (measured.nodes < 100)
      continue;
    if (measured.driver->kind == DriverClass::null) {
      text += own_share(measured);
      continue;
    }
    text += sentence(measured);
    if (measured.driver->kind == DriverClass::real)
      text += marks(measured);
  }
  return text;
}

} // namespace cugrt::bench
