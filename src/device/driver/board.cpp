// Files of L4T: /etc/nv_tegra_release, nvpmodel's, the device tree's model; see board.h.
#include "device/driver/board.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>

namespace cugrt::driver {

constexpr size_t kMostBytes = 64 << 10;

/// Reads a file up to the bound; empty if there is no such file.
static std::string read(const std::string &path) {
  std::string text;
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"),
                                                              &std::fclose);
  char piece[4096];
  while (file && text.size() < kMostBytes) {
    const size_t got = std::fread(piece, 1, sizeof piece, file.get());
    if (got == 0)
      break;
    text.append(piece, got);
  }
  return text;
}

/// Returns the number after the first `before`.
static std::optional<int> number_behind(std::string_view text, std::string_view before) {
  const size_t at = text.find(before);
  if (at == std::string_view::npos)
    return std::nullopt;
  int value = 0;
  const char *begin = text.data() + at + before.size(), *end = text.data() + text.size();
  return std::from_chars(begin, end, value).ec == std::errc() ? std::optional(value) : std::nullopt;
}

/// Reads the name from "< POWER_MODEL ID=2 NAME=15W >".
static std::string name_of_mode(std::string_view configuration, int mode) {
  const std::string model = "POWER_MODEL ID=" + std::to_string(mode) + " NAME=";
  const size_t at = configuration.find(model);
  if (at == std::string_view::npos)
    return "";
  const std::string_view rest = configuration.substr(at + model.size());
  return std::string(rest.substr(0, rest.find_first_of(" >\n")));
}

std::string Board::jetpack() const {
  switch (l4t) {
  case 32:
    return "JetPack 4";
  case 34:
  case 35:
    return "JetPack 5";
  case 36:
    return "JetPack 6";
  case 38:
    return "JetPack 7";
  default:
    return "";
  }
}

std::optional<Board> read_board(const std::string &root) {
  const std::string release = read(root + "/etc/nv_tegra_release");
  const std::optional<int> l4t = number_behind(release, "# R");
  if (!l4t)
    return std::nullopt;
  Board board;
  board.l4t = *l4t;
  board.l4t_version = std::to_string(*l4t);
  if (const size_t at = release.find("REVISION: "); at != std::string::npos) {
    const std::string rest = release.substr(at + 10);
    board.l4t_version += "." + rest.substr(0, rest.find_first_not_of("0123456789."));
  }
  board.model = read(root + "/proc/device-tree/model");
  board.model = board.model.substr(0, board.model.find_first_of(std::string_view("\0\n", 2)));
  // "pmode:0002 fmode:quiet"
  board.power_mode = number_behind(read(root + "/var/lib/nvpmodel/status"), "pmode:").value_or(-1);
  board.power_name = name_of_mode(read(root + "/etc/nvpmodel.conf"), board.power_mode);
  return board;
}

} // namespace cugrt::driver
