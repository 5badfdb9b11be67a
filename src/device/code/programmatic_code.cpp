// A walk over the instructions of a PTX function in their order; see programmatic_code.h. Up to the
// first branch, call or end every thread takes the same way, so no graph of blocks is needed: a
// wait that stands behind one is not looked for.
//
// Instructions are those of the PTX ISA 8.x; parameters are read with ld.param, which no other
// kernel can write.
#include "device/code/programmatic_code.h"

#include "device/code/ptx_text.h"
#include <algorithm>
#include <cctype>
#include <string>

namespace cugrt::runtime {

namespace {

/// Neither touch memory that others see nor leave the straight way.
constexpr std::string_view kHarmless[] = {"ld.param",
                                          "mov",
                                          "cvt",
                                          "cvta",
                                          "add",
                                          "sub",
                                          "mul",
                                          "mad",
                                          "fma",
                                          "div",
                                          "rem",
                                          "neg",
                                          "abs",
                                          "min",
                                          "max",
                                          "and",
                                          "or",
                                          "xor",
                                          "not",
                                          "shl",
                                          "shr",
                                          "shf",
                                          "bfe",
                                          "bfi",
                                          "lop3",
                                          "prmt",
                                          "setp",
                                          "set",
                                          "selp",
                                          "slct",
                                          "prefetch", // a hint, whoever writes there
                                          "griddepcontrol.launch_dependents"};

/// Without comments; what stands between quotes is left out, too.
std::string without_comments(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
      out += '\n';
    } else if (text.substr(i, 2) == "/*") {
      size_t end = text.find("*/", i + 2);
      i = end == text.npos ? text.size() : end + 1;
    } else if (text[i] == '"') {
      i = std::min(text.find('"', i + 1), text.size());
    } else {
      out += text[i];
    }
  }
  return out;
}

/// What stands between the braces of the function; empty where it is not found.
std::string_view body_of(std::string_view ptx, std::string_view entry) {
  for (size_t at = ptx.find(".entry"); at != ptx.npos; at = ptx.find(".entry", at + 1)) {
    size_t name = ptx.find_first_not_of(" \t\r\n", at + 6);
    if (name == ptx.npos || ptx.substr(name, entry.size()) != entry ||
        name + entry.size() >= ptx.size() || is_ptx_word(ptx[name + entry.size()]))
      continue;
    size_t begin = ptx.find('{', name);
    if (begin == ptx.npos)
      return {};
    size_t depth = 0;
    for (size_t i = begin; i < ptx.size(); ++i) {
      depth += ptx[i] == '{';
      if (ptx[i] == '}' && --depth == 0)
        return ptx.substr(begin + 1, i - begin - 1);
    }
    return {};
  }
  return {};
}

/// "ld" fits "ld.global", "ld.param" fits "ld.param.u64".
bool is_instruction(std::string_view text, std::string_view name) {
  return text.starts_with(name) && (text.size() == name.size() || text[name.size()] == '.');
}

/// The instruction's name; empty for directives and labels.
std::string_view opcode_of(std::string_view statement) {
  while (true) {
    size_t begin = statement.find_first_not_of(" \t\r\n{}");
    if (begin == statement.npos)
      return {};
    statement.remove_prefix(begin);
    size_t end = 0;
    while (end < statement.size() && is_ptx_word(statement[end]))
      ++end;
    if (end == 0 || end == statement.size() || statement[end] != ':')
      break;
    statement.remove_prefix(end + 1); // a label
  }
  if (statement[0] == '.') { // directives of a line end without a semicolon
    size_t line = statement.starts_with(".loc") ? statement.find('\n') : statement.npos;
    return line == statement.npos ? std::string_view() : opcode_of(statement.substr(line));
  }
  return statement.substr(0, statement.find_first_of(" \t\r\n"));
}

} // namespace

ProgrammaticCode analyze_programmatic(std::string_view ptx, std::string_view entry) {
  const std::string text = without_comments(ptx);
  std::string_view rest = body_of(text, entry);
  ProgrammaticCode code;
  code.triggers = rest.find("griddepcontrol.launch_dependents") != rest.npos;
  while (!rest.empty()) {
    size_t end = std::min(rest.find(';'), rest.size());
    std::string_view opcode = opcode_of(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (opcode == "griddepcontrol.wait") {
      code.waits_first = true;
      break;
    }
    if (!opcode.empty() &&
        std::none_of(std::begin(kHarmless), std::end(kHarmless),
                     [&](std::string_view name) { return is_instruction(opcode, name); }))
      break;
  }
  return code;
}

} // namespace cugrt::runtime
