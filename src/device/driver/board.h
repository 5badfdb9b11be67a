// Reads from a Jetson's files the facts that its driver does not tell.
#pragma once

#include <optional>
#include <string>

namespace cugrt::driver {

struct Board {
  std::string model;           // "NVIDIA Jetson Orin Nano Developer Kit"; may be empty
  int l4t = 0;                 // 36, of L4T 36.4.3
  std::string l4t_version;     // "36.4.3"
  int power_mode = -1;         // by nvpmodel's number; -1: not known
  std::string power_name;      // "15W", as nvpmodel's configuration calls it; may be empty
  std::string jetpack() const; // "JetPack 6"; "" of releases that are not known
};

/// Nothing if the machine is no Jetson. `root` stands for "/", for tests. Reads some kilobytes at
/// most of each file.
std::optional<Board> read_board(const std::string &root = "");

} // namespace cugrt::driver
