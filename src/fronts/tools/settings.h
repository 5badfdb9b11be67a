// Lists in options: SYMBOL=N,N,... They are cut here, since CLI11 drops what is empty between two
// commas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tool {

/// Empty pieces are pieces.
std::vector<std::string> split_at_commas(const std::string &text);

/// A whole number; else an error that says what the option takes, and which setting it is not.
int64_t parse_symbol_value(const std::string &text, const char *takes, const std::string &setting);

} // namespace tool
