// Rows, tables and words of the launch bench; see report.h.
#include "bench/launch/report.h"

#include <algorithm>
#include <iterator>

namespace cugrt::bench {
namespace {

Row number(std::optional<double> value) { return value ? Row(*value) : Row(); }

std::optional<double> over(std::optional<double> value, double by) {
  return value ? std::optional(*value / by) : std::nullopt;
}

/// Every key that a row of this bench has, null. The first ones are those of the fixed form.
Row empty_row() {
  Row row{{"bench", "launch"}};
  for (const char *key : {"case",
                          "graph",
                          "nodes",
                          "mode",
                          "host_us_first",
                          "host_us_repeat",
                          "device_us",
                          "instantiate_us",
                          "bytes_per_node",
                          "driver",
                          "nodes_built",
                          "edges",
                          "rounds",
                          "host_us_first_q1",
                          "host_us_first_q3",
                          "host_us_repeat_q1",
                          "host_us_repeat_q3",
                          "bare_launch_us",
                          "add_us_per_node",
                          "upload_us",
                          "set_us_per_node",
                          "device_us_per_node",
                          "bytes_per_instance",
                          "host_bytes_per_node",
                          "runs",
                          "total_us",
                          "instances_built",
                          "regions_patched",
                          "break_even_runs"})
    row[key] = nullptr;
  for (uint32_t runs : kRunCounts)
    row["total_us_" + std::to_string(runs)] = nullptr;
  row["not_measured"] = nullptr;
  return row;
}

bool is_recorded(Mode mode) { return mode == Mode::captured || mode == Mode::recapture; }

/// Why fields of a row are null.
std::string not_measured(const BenchDriver &driver, Mode mode) {
  std::string text;
  auto say = [&](const char *what) { text += (text.empty() ? "" : "; ") + std::string(what); };
  if (driver.kind == DriverClass::emulated)
    say("device_us, device_us_per_node: there is no GPU, kernels run on the CPU");
  if (driver.kind == DriverClass::null)
    say("device_us, device_us_per_node: nothing is executed");
  if (mode == Mode::plain) {
    say("instantiate_us, add, upload, set, bytes: plain launches have no graph");
    return text;
  }
  if (driver.kind != DriverClass::real)
    say("bytes_per_node, bytes_per_instance: this driver keeps nothing on a device");
  if (driver.kind == DriverClass::emulated)
    say("host_bytes_per_node: the emulated driver shares the heap");
  if (is_recorded(mode))
    say("host_bytes_per_node: taken of the runtime's instances; set: refused, or done without the "
        "runtime's knowledge of what changed");
  if (mode == Mode::explicit_graph || mode == Mode::rebuild)
    say("set: stands with mode patched");
  if (mode == Mode::patched)
    say("instantiate_us, add, upload: nothing is built");
  return text;
}

std::string with_spread(const Samples &samples) {
  if (samples.empty())
    return "-";
  return figure_text(samples.median()) + " (" + figure_text(samples.quantile(0.25)) + " to " +
         figure_text(samples.quantile(0.75)) + ")";
}

} // namespace

void add_rows(const LaunchCase &measured, std::vector<Row> &rows) {
  const CaseFigures &figures = measured.figures;
  auto nodes = double(figures.node_count);
  for (size_t m = 0; m < kModeNames.size(); ++m) {
    const ModeFigures &of = figures.modes[m];
    Row row = empty_row();
    row["case"] = measured.graph + "_" + std::to_string(measured.nodes);
    row["graph"] = measured.graph;
    row["nodes"] = measured.nodes;
    row["mode"] = kModeNames[m];
    row["driver"] = measured.driver->name;
    row["nodes_built"] = figures.node_count;
    row["edges"] = figures.edge_count;
    row["rounds"] = figures.rounds;
    row["host_us_first"] = number(of.first.median());
    row["host_us_first_q1"] = number(of.first.quantile(0.25));
    row["host_us_first_q3"] = number(of.first.quantile(0.75));
    row["host_us_repeat"] = number(of.repeat.median());
    row["host_us_repeat_q1"] = number(of.repeat.quantile(0.25));
    row["host_us_repeat_q3"] = number(of.repeat.quantile(0.75));
    row["bare_launch_us"] = number(of.bare.median());
    row["add_us_per_node"] = number(over(of.add.median(), nodes));
    row["instantiate_us"] = number(of.instantiate.median());
    row["upload_us"] = number(of.upload.median());
    row["set_us_per_node"] = number(over(of.set.median(), nodes));
    row["device_us"] = number(of.device.median());
    row["device_us_per_node"] = number(over(of.device.median(), nodes));
    row["bytes_per_instance"] = number(of.device_bytes);
    row["bytes_per_node"] = number(over(of.device_bytes, nodes));
    row["host_bytes_per_node"] = number(over(of.host_bytes, nodes));
    row["not_measured"] = not_measured(*measured.driver, static_cast<Mode>(m));
    rows.push_back(std::move(row));
  }
}

void add_rows(const AmortisedCase &measured, const BenchDriver &driver, std::vector<Row> &rows) {
  for (const RunTotals &way : measured.ways) {
    Row row = empty_row();
    row["case"] = measured.name;
    row["graph"] = measured.graph;
    row["nodes"] = measured.nodes;
    row["mode"] = way.mode;
    row["driver"] = driver.name;
    row["nodes_built"] = measured.node_count;
    row["host_us_first"] = way.first_us;
    row["host_us_repeat"] = way.repeat_us;
    for (size_t i = 0; i < way.total_us.size(); ++i) {
      if (measured.runs.size() > 1)
        row["total_us_" + std::to_string(measured.runs[i])] = number(way.total_us[i]);
      if (way.total_us[i]) {
        row["runs"] = measured.runs[i];
        row["total_us"] = *way.total_us[i];
      }
    }
    row["instances_built"] = way.built;
    row["regions_patched"] = way.patched;
    if (way.mode == "explicit" && measured.break_even_runs)
      row["break_even_runs"] = *measured.break_even_runs;
    row["not_measured"] = measured.note.empty()
                              ? "parts of a build: stand with the modes"
                              : "parts of a build: stand with the modes; " + measured.note;
    rows.push_back(std::move(row));
  }
}

std::string launch_tables(const std::vector<LaunchCase> &cases) {
  std::vector<std::vector<std::string>> lines;
  for (const LaunchCase &measured : cases)
    for (size_t m = 0; m < kModeNames.size(); ++m) {
      const ModeFigures &of = measured.figures.modes[m];
      auto nodes = double(measured.figures.node_count);
      lines.push_back(
          {measured.driver->name, measured.graph, kModeNames[m], std::to_string(measured.nodes),
           std::to_string(measured.figures.node_count), with_spread(of.first),
           with_spread(of.repeat), figure_text(of.bare.median()),
           figure_text(over(of.add.median(), nodes)), figure_text(of.instantiate.median()),
           figure_text(of.upload.median()), figure_text(over(of.set.median(), nodes)),
           figure_text(of.device.median()), figure_text(over(of.device.median(), nodes)),
           figure_text(over(of.device_bytes, nodes)), figure_text(over(of.host_bytes, nodes)),
           std::to_string(measured.figures.rounds)});
    }
  return markdown_table({"driver", "graph", "mode", "nodes", "built", "first", "repeat", "bare",
                         "add/node", "instantiate", "upload", "set/node", "device", "device/node",
                         "bytes/node", "host bytes/node", "rounds"},
                        lines, 3);
}

std::string amortised_tables(const std::vector<AmortisedCase> &cases) {
  std::vector<std::string> header = {"graph", "mode", "nodes", "first", "repeat"};
  for (uint32_t runs : kRunCounts)
    header.push_back(std::to_string(runs) + (runs == 1 ? " run" : " runs"));
  header.push_back("worth it from");
  std::vector<std::vector<std::string>> counts, mixes;
  for (const AmortisedCase &measured : cases)
    for (const RunTotals &way : measured.ways) {
      std::string from = way.mode != "explicit" ? "-"
                         : measured.break_even_runs
                             ? std::to_string(*measured.break_even_runs) + " runs"
                             : "never";
      if (measured.runs.size() == 1) {
        mixes.push_back({measured.name, way.mode, std::to_string(measured.runs[0]),
                         figure_text(way.first_us), figure_text(way.repeat_us),
                         figure_text(way.total_us[0]), std::to_string(way.built),
                         std::to_string(way.patched), from});
        continue;
      }
      std::vector<std::string> line = {measured.graph, way.mode, std::to_string(measured.nodes),
                                       figure_text(way.first_us), figure_text(way.repeat_us)};
      for (const std::optional<double> &total : way.total_us)
        line.push_back(figure_text(total));
      line.push_back(from);
      counts.push_back(std::move(line));
    }
  std::string text =
      "Totals of so many runs, the build included; what a driver does at a launch decides when the "
      "build is earned back:\n\n" +
      markdown_table(header, counts, 2);
  if (!mixes.empty())
    text += "\nOne transformer layer in three shapes:\n\n" +
            markdown_table({"mix", "mode", "runs", "first", "repeat", "total", "built", "patched",
                            "worth it from"},
                           mixes, 2);
  return text;
}

} // namespace cugrt::bench
