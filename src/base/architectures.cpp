// The table of architectures, and what runs where.
//
// Source of the rules: the CUDA C++ Programming Guide, chapters on binary and PTX compatibility.
// Code with suffix 'a' runs on its own architecture only, code with 'f' on later members of its
// family: the same major number, but 10.1, which is the 11.0 of another numbering and no sibling
// of 10.0.
#include "base/architectures.h"

#include <algorithm>
#include <charconv>

namespace cugrt::jit {

namespace {

struct Row {
  std::string_view number, suffixes;
  int value;
  bool always; // known to every NVRTC of CUDA 12 and 13
};

constexpr Row kRows[] = {
#define CUGRT_ARCHITECTURE(number, suffixes, always) {#number, suffixes, number, always},
#include "base/architectures.def"
#undef CUGRT_ARCHITECTURE
};

constexpr int kFirstThor = 101; // 10.1 by its first numbering, 11.0 by the second

bool same_family(int code, int device) {
  return code / 10 == device / 10 &&
         (code == device || (code != kFirstThor && device != kFirstThor));
}

} // namespace

std::string known_architectures() {
  std::string list;
  for (const Row &row : kRows)
    list += (list.empty() ? "sm_" : ", sm_") + std::string(row.number);
  return list;
}

bool is_known_architecture(std::string_view number) {
  for (const Row &row : kRows)
    if (number.starts_with(row.number)) {
      std::string_view suffix = number.substr(row.number.size());
      if (suffix.empty() ||
          (suffix.size() == 1 && row.suffixes.find(suffix) != std::string_view::npos))
        return true;
    }
  return false;
}

Result<Architecture> parse_architecture(std::string_view text) {
  Architecture architecture;
  architecture.real = text.starts_with("sm_");
  std::string_view number = text;
  if (architecture.real)
    number.remove_prefix(3);
  else if (text.starts_with("compute_"))
    number.remove_prefix(8);
  const char *end = number.data() + number.size();
  auto [rest, error] = std::from_chars(number.data(), end, architecture.number);
  if (number.size() == text.size() || error != std::errc() || end - rest > 1)
    return Status::error(Code::invalid_argument, "'" + std::string(text) +
                                                     "' is no architecture, expected sm_90, "
                                                     "compute_90 or the like");
  if (!is_known_architecture(number))
    return Status::error(Code::unsupported, "cugrt does not compile for '" + std::string(text) +
                                                "'; it knows " + known_architectures());
  architecture.suffix = rest == end ? '\0' : *rest;
  return architecture;
}

Result<std::string> architecture_for(int device, std::span<const int> compiler) {
  int newest = 0;
  for (const Row &row : kRows) {
    const int number = row.value;
    if (!compiler.empty() && std::find(compiler.begin(), compiler.end(), number) == compiler.end())
      continue;
    if (number == device)
      return "sm_" + std::to_string(device);
    if (number < device && number > newest && number != kFirstThor) // no sibling of those above it
      newest = number;
  }
  if (!newest)
    return Status::error(Code::unsupported, "cugrt does not compile for a device of sm_" +
                                                std::to_string(device) + "; it knows " +
                                                known_architectures());
  return "compute_" + std::to_string(newest);
}

bool must_ask_compiler(int device) {
  for (const Row &row : kRows)
    if (row.value == device)
      return !row.always;
  return true;
}

std::string architecture_text(const Architecture &architecture) {
  std::string text = (architecture.real ? "sm_" : "compute_") + std::to_string(architecture.number);
  return architecture.suffix ? text + architecture.suffix : text;
}

bool runs_on(const Architecture &code, int device) {
  if (code.real || code.suffix == 'a')
    return code.number == device;
  return code.number <= device && (code.suffix == 0 || same_family(code.number, device));
}

} // namespace cugrt::jit
