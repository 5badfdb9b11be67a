// A walk over the instructions of a PTX function in their order; see programmatic_code.h. Up to the
// first branch, call or end every thread takes the same way, so no graph of blocks is needed: a
// wait that stands behind one is not looked for.
//
// Instructions are those of the PTX ISA 8.x; parameters are read with ld.param, which no other
// kernel can write. Addresses are followed through registers: an asynchronous copy before the wait
// must read at one that begins as a constant parameter, with nothing but numbers added.
#include "device/code/programmatic_code.h"

#include "device/code/ptx_version.h"
#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace cugrt::runtime {

namespace {

/// Instructions that neither touch memory that others see nor leave the straight way. A result of
/// the first list is an address if an operand is one; results of the second are never followed.
constexpr std::string_view kAddresses[] = {"mov", "cvta", "add", "sub", "mad", "selp"};
constexpr std::string_view kHarmless[] = {"ld.param",
                                          "cvt",
                                          "mul",
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
                                          "slct",
                                          "prefetch", // a hint, whoever writes there
                                          "cp.async.commit_group",
                                          "griddepcontrol.launch_dependents"};

/// Removes comments and quoted text.
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

/// Text of a function; empty if it is not found.
struct FunctionText {
  std::string_view parameters; // between its parentheses
  std::string_view body;       // between its braces
};

FunctionText function_text(std::string_view ptx, std::string_view entry) {
  for (size_t at = ptx.find(".entry"); at != ptx.npos; at = ptx.find(".entry", at + 1)) {
    size_t name = ptx.find_first_not_of(" \t\r\n", at + 6);
    if (name == ptx.npos || ptx.substr(name, entry.size()) != entry ||
        name + entry.size() >= ptx.size() || is_ptx_word(ptx[name + entry.size()]))
      continue;
    size_t begin = ptx.find('{', name);
    if (begin == ptx.npos)
      return {};
    const std::string_view head = ptx.substr(name, begin - name);
    const size_t open = std::min(head.find('('), head.size()), close = head.rfind(')');
    FunctionText found;
    if (close != head.npos && open < close)
      found.parameters = head.substr(open + 1, close - open - 1);
    size_t depth = 0;
    for (size_t i = begin; i < ptx.size(); ++i) {
      depth += ptx[i] == '{';
      if (ptx[i] == '}' && --depth == 0) {
        found.body = ptx.substr(begin + 1, i - begin - 1);
        return found;
      }
    }
    return {};
  }
  return {};
}

/// The words of `text` that may be names or registers.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t begin = i;
    while (i < text.size() && is_ptx_word(text[i]))
      ++i;
    if (i > begin)
      words.push_back(text.substr(begin, i - begin));
  }
  return words;
}

/// "ld" fits "ld.global", "ld.param" fits "ld.param.u64".
bool is_instruction(std::string_view text, std::string_view name) {
  return text.starts_with(name) && (text.size() == name.size() || text[name.size()] == '.');
}

/// One instruction; all members are empty for directives and labels.
struct Instruction {
  std::string_view guard; // "@p", "@!p"
  std::string_view name, operands;
};

Instruction instruction_of(std::string_view statement) {
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
    return line == statement.npos ? Instruction() : instruction_of(statement.substr(line));
  }
  Instruction found;
  const auto take_word = [&] {
    const size_t end = std::min(statement.find_first_of(" \t\r\n"), statement.size());
    const std::string_view word = statement.substr(0, end);
    statement.remove_prefix(
        std::min(statement.find_first_not_of(" \t\r\n", end), statement.size()));
    return word;
  };
  if (statement[0] == '@')
    found.guard = take_word();
  found.name = take_word();
  found.operands = statement;
  return found;
}

template <size_t kCount>
bool is_one_of(std::string_view name, const std::string_view (&names)[kCount]) {
  return std::any_of(std::begin(names), std::end(names),
                     [&](std::string_view one) { return is_instruction(name, one); });
}

/// Contents of registers, as far as they are followed.
class Registers {
public:
  Registers(std::string_view parameters, std::span<const ParameterKind> kinds) {
    size_t number = 0;
    while (!parameters.empty()) { // the name comes last, but for the length of an array
      const size_t end = std::min(parameters.find(','), parameters.size());
      std::string_view one = parameters.substr(0, end);
      parameters.remove_prefix(std::min(end + 1, parameters.size()));
      const std::vector<std::string_view> words = words_of(one.substr(0, one.find('[')));
      if (!words.empty())
        kinds_[words.back()] = number < kinds.size() ? kinds[number] : ParameterKind::memory;
      ++number;
    }
  }

  /// Returns the greatest kind of the words; a word without a kind is a number.
  ParameterKind kind_of(std::span<const std::string_view> words) const {
    ParameterKind kind = ParameterKind::number;
    for (std::string_view word : words)
      if (const auto found = kinds_.find(word); found != kinds_.end())
        kind = std::max(kind, found->second);
    return kind;
  }

  /// Follows an instruction that writes its first operand, or several in braces.
  void follow(const Instruction &instruction) {
    const std::vector<std::string_view> words = words_of(instruction.operands);
    if (words.empty())
      return;
    const bool several = instruction.operands.find('{') != instruction.operands.npos;
    ParameterKind kind = kind_of(std::span(words).subspan(several ? 0 : 1));
    const bool is_address =
        is_instruction(instruction.name, "ld.param") || is_one_of(instruction.name, kAddresses);
    if (kind != ParameterKind::number && (several || !is_address))
      kind = ParameterKind::memory;
    for (std::string_view word : std::span(words).first(several ? words.size() : 1))
      kinds_[word] = kind;
  }

private:
  std::map<std::string_view, ParameterKind> kinds_; // of parameters, too, by their names
};

/// Whether an asynchronous copy reads memory that nobody writes.
bool copies_constant(const Instruction &instruction, const Registers &registers) {
  if (!is_instruction(instruction.name, "cp.async.ca.shared.global") &&
      !is_instruction(instruction.name, "cp.async.cg.shared.global"))
    return false;
  const size_t from = instruction.operands.find('[', instruction.operands.find(']'));
  if (from == instruction.operands.npos)
    return false;
  const size_t end = std::min(instruction.operands.find(']', from), instruction.operands.size());
  const auto words = words_of(instruction.operands.substr(from + 1, end - from - 1));
  return registers.kind_of(words) == ParameterKind::constant;
}

} // namespace

ProgrammaticCode analyze_programmatic(std::string_view ptx, std::string_view entry,
                                      std::span<const ParameterKind> kinds) {
  const std::string text = without_comments(ptx);
  const FunctionText function = function_text(text, entry);
  std::string_view rest = function.body;
  Registers registers(function.parameters, kinds);
  ProgrammaticCode code;
  code.triggers = rest.find("griddepcontrol.launch_dependents") != rest.npos;
  while (!rest.empty()) {
    size_t end = std::min(rest.find(';'), rest.size());
    const Instruction instruction = instruction_of(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (instruction.name.empty() || copies_constant(instruction, registers))
      continue;
    if (!instruction.guard.empty())
      break;
    if (instruction.name == "griddepcontrol.wait") {
      code.waits_first = true;
      break;
    }
    if (!is_one_of(instruction.name, kAddresses) && !is_one_of(instruction.name, kHarmless))
      break;
    registers.follow(instruction);
  }
  return code;
}

} // namespace cugrt::runtime
