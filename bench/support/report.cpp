// Rows to text, see report.h.
#include "bench/support/report.h"

#include "base/file.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace cugrt::bench {
namespace {

std::string cell(const Row &value) {
  if (value.is_null())
    return "-";
  if (value.is_string())
    return value.get<std::string>();
  if (value.is_number_float()) {
    char text[64];
    snprintf(text, sizeof text, "%.3f", value.get<double>());
    return text;
  }
  return value.dump();
}

} // namespace

std::string table(const std::vector<Row> &rows) {
  if (rows.empty())
    return {};
  struct Column {
    std::string name;
    bool left;
    size_t width;
  };
  std::vector<Column> columns;
  for (const auto &[name, value] : rows[0].items())
    if (name != "bench")
      columns.push_back({name, value.is_string(), name.size()});
  for (const Row &row : rows)
    for (Column &column : columns)
      column.width = std::max(column.width, cell(row.at(column.name)).size());
  std::string text;
  auto line = [&](auto &&content) {
    for (const Column &column : columns) {
      std::string value = content(column);
      std::string space(column.width - value.size(), ' ');
      text += (text.empty() || text.back() == '\n') ? "" : "  ";
      text += column.left ? value + space : space + value;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  };
  line([](const Column &column) { return column.name; });
  for (const Row &row : rows)
    line([&](const Column &column) { return cell(row.at(column.name)); });
  return text;
}

std::string markdown_table(const std::vector<std::string> &header,
                           const std::vector<std::vector<std::string>> &lines, size_t left) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < header.size(); ++i) {
    widths.push_back(std::max<size_t>(header[i].size(), 3));
    for (const auto &line : lines)
      widths[i] = std::max(widths[i], line.at(i).size());
  }
  std::string text;
  auto add = [&](const std::vector<std::string> &cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string space(widths[i] - cells[i].size(), ' ');
      text += "| " + (i < left ? cells[i] + space : space + cells[i]) + " ";
    }
    text += "|\n";
  };
  add(header);
  for (size_t i = 0; i < header.size(); ++i)
    text += i < left ? "|" + std::string(widths[i] + 2, '-')
                     : "|" + std::string(widths[i] + 1, '-') + ":";
  text += "|\n";
  for (const auto &line : lines)
    add(line);
  return text;
}

std::string figure_text(std::optional<double> value) {
  if (!value)
    return "-";
  double size = std::abs(*value);
  char text[64];
  snprintf(text, sizeof text, "%.*f",
           size >= 99.95    ? 0
           : size >= 9.995  ? 1
           : size >= 0.9995 ? 2
                            : 3,
           *value);
  return text;
}

Status write_json(const std::string &path, const std::vector<Row> &rows) {
  return write_file(path, Row(rows).dump(1) + "\n");
}

double thread_cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

} // namespace cugrt::bench
