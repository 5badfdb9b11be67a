// Versions of PTX and of drivers; see ptx_version.h.
//
// Source: the PTX ISA's "Release Notes". A release of CUDA 13 brings the version of PTX whose minor
// number it has; before, the rows below. A version between two rows belongs to the next one.
#include "device/code/ptx_version.h"

#include "device/driver/driver_api.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

struct Row {
  int ptx, driver;
};

constexpr Row kRows[] = {{60, 9000},  {61, 9010},  {62, 9020},  {63, 10000}, {64, 10010},
                         {65, 10020}, {70, 11000}, {71, 11010}, {72, 11020}, {73, 11030},
                         {74, 11040}, {75, 11050}, {76, 11060}, {77, 11070}, {78, 11080},
                         {80, 12000}, {81, 12010}, {82, 12020}, {83, 12030}, {84, 12040},
                         {85, 12050}, {86, 12070}, {87, 12080}, {88, 12090}};
constexpr int kFirstOfCuda13 = 90, kLastOfCuda13 = 99;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

} // namespace

int ptx_version(std::string_view ptx) {
  constexpr std::string_view kDirective = ".version";
  for (size_t line = 0; line < ptx.size();) {
    std::string_view text = ptx.substr(line, ptx.find('\n', line) - line);
    line += text.size() + 1;
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (!text.starts_with(kDirective))
      continue;
    text.remove_prefix(kDirective.size());
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.size() >= 3 && is_digit(text[0]) && text[1] == '.' && is_digit(text[2]))
      return (text[0] - '0') * 10 + (text[2] - '0');
    return 0;
  }
  return 0;
}

int driver_of_ptx(int version) {
  if (version >= kFirstOfCuda13)
    return version <= kLastOfCuda13 ? 13000 + (version - kFirstOfCuda13) * 10 : 0;
  for (const Row &row : kRows)
    if (version <= row.ptx)
      return version ? row.driver : 0;
  return 0;
}

std::string ptx_version_text(int version) {
  std::string text = "PTX " + std::to_string(version / 10) + "." + std::to_string(version % 10);
  const int driver = driver_of_ptx(version);
  return driver ? text + ", for drivers of CUDA " + driver::version_text(driver) + " and newer"
                : text;
}

} // namespace cugrt::runtime
