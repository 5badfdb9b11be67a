// Text form of modules: parser and printer. The grammar stands in docs/ir.md.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <memory>
#include <string>
#include <string_view>

namespace cugrt::ir {

/// Limits on text, so that a hostile file gives an error and nothing else.
inline constexpr size_t kMaxTextBytes = size_t(512) << 20;
inline constexpr uint32_t kMaxNesting = 64; // of blocks, tuples and parentheses
inline constexpr uint32_t kMaxOperands = 4096;

/// Parses one module. Every error goes to `diagnostics`; the module is usable only when there is
/// none. Names are resolved and ops' result types inferred; rules of meaning are the verifier's.
Module parse(std::string_view text, Diagnostics &diagnostics);

/// parse(print(m)) prints the same text, and print(parse(t)) == t for printed text.
std::string print(const Module &module);
/// The same; every part of the module gets the place that parsing the text would give it.
std::string print_with_places(Module &module);
/// For modules that passes made: an error at the first place with more parameters, operands,
/// results or parts of tuples than text can hold, so that print()'s text would not parse.
Status check_text_limits(const Module &module);
std::string print_type(const Module &module, const Function *function, TypeId type);
/// One binding on one line (nested blocks elided), as plans and messages quote it.
std::string print_binding(const Module &module, const Function &function, const Binding &binding);
/// The same for many bindings of one function: what its symbols are called is looked up once.
/// Module and function outlive it, and their symbols stay as they are.
class BindingPrinter {
public:
  BindingPrinter(const Module &module, const Function &function);
  ~BindingPrinter();
  std::string print(const Binding &binding);

private:
  std::unique_ptr<class Printer> printer_;
};

/// Checks every rule of docs/ir.md beyond grammar: single assignment and dominance, captures, types
/// of operands against kernels, functions and ops, exactly one definition for every symbol, bounds.
void verify(const Module &module, Diagnostics &diagnostics);

/// Parse and verify; `file` names the text in messages.
Result<Module> parse_and_verify(std::string_view text, std::string_view file);

} // namespace cugrt::ir
