// The parser's state, shared by parser.cpp (module level), parse_variable.cpp (declarations and
// initialisers), parse_constant.cpp (constant expressions) and parse_body.cpp (function bodies).
// Not for use outside ptx/.
#pragma once

#include "emulator/ptx/lexer.h"
#include "emulator/ptx/parser.h"

#include <optional>
#include <unordered_map>

namespace cugrt::emulator::ptx {

inline constexpr std::string_view kWarpSize = "WARP_SZ"; // the one constant with a name
inline constexpr uint64_t kWarpSizeValue = 32;
inline constexpr int kMaxNesting = 32; // of operators in a constant, of braces in an initialiser

class Parser {
public:
  explicit Parser(Module &module) : module_(module), lexer_(module.text) {}
  Status run();

private:
  struct Symbol {
    enum class Kind : uint8_t { reg, variable, module_variable, function } kind;
    uint32_t index;
  };
  struct RegisterRange {
    Type type;
    uint64_t count;
  };
  struct Numbered { // %r3, as a range's registers are named
    std::string_view prefix;
    uint64_t number = 0;
  };
  struct Scope {
    int32_t parent = -1;
    std::unordered_map<std::string_view, Symbol> symbols;
    std::unordered_map<std::string_view, RegisterRange> ranges;
    std::unordered_map<std::string_view, uint64_t>
        least_numbered; // %r3 for %r, of those in symbols
    std::unordered_map<std::string_view, uint32_t> labels;
  };
  struct PendingLabel { // a name used before any declaration: a label further on
    bool in_elements;
    uint32_t operand;
    int32_t scope;
    uint32_t line;
  };

  // Tokens.
  Status advance();
  Result<Token> peek() const; // the one behind
  Status expect(char punct);
  Result<bool> accept(char punct);
  Result<std::string_view> expect_word(const char *what);
  Result<uint64_t> expect_integer(const char *what);
  Status error(const std::string &message) const { return error_at(token_.line, message); }
  static Status error_at(uint32_t line, const std::string &message);
  std::string shown() const;
  Status skip_braces();
  Status skip_to_semicolon();

  // Module level.
  Status header();
  Status target_directive();
  Status module_item();
  Status file_directive();
  Status function(bool is_kernel, Linkage linkage);
  Status parameters(std::vector<Parameter> &out);
  Status function_directives();
  Status dimensions(std::array<uint32_t, 3> &out, const char *what);

  // Variables.
  struct Declared {
    Type type = Type::none;
    uint32_t align = 0;
    uint32_t vector = 1;
    bool managed = false;
  };
  Status attributes(Declared &declared);
  Result<Declared> declared_type();
  Status declarator(const Declared &declared, Space space, Linkage linkage, bool in_function);
  Status finish_variable(const Declared &declared, Variable &variable);
  Status initializer(Variable &variable, int depth);
  Status scalar_initializer(Variable &variable);
  Status address_initializer(Variable &variable, uint64_t mask);
  void settle_functions();
  void append(Variable &variable, uint64_t bits, uint32_t bytes);
  Status variables(Space space, Linkage linkage, bool in_function);
  Status registers();

  // Constant expressions.
  struct Constant {
    uint64_t bits = 0;
    bool is_unsigned = false;
  };
  Result<int64_t> constant();
  Result<Constant> conditional(int depth);
  Result<Constant> binary(int depth, int precedence);
  Result<Constant> unary(int depth);
  Result<Constant> apply(std::string_view op, Constant a, Constant b) const;
  Result<bool> is_negative_real() const;

  // Bodies.
  Status body();
  Status statement(int &depth);
  Status location();
  Status label(std::string_view name);
  Status branch_targets(std::string_view name);
  Status instruction();
  Result<std::string_view> opcode();
  Status guard(Instruction &instruction);
  Status operand(Operand &out, bool in_elements, int depth);
  Status named_operand(Operand &out, bool may_be_pair);
  Result<int32_t> second_of_pair();
  Status element(Operand &out);
  Status group(Operand &out, char close, int depth);
  Status address(Operand &out);
  Status number(Operand &out);
  Status store(Operand &&operand, bool in_elements, uint32_t scope_line);
  Status resolve_labels();

  std::optional<Symbol> find_symbol(std::string_view name);
  static std::optional<Numbered> numbered(std::string_view name);
  std::optional<Symbol> find_register_in_range(Scope &scope, std::string_view name);
  Status declare(std::string_view name, Symbol symbol);
  Function &current() { return module_.functions.back(); }

  Module &module_;
  Lexer lexer_;
  Token token_, previous_;
  std::unordered_map<std::string_view, Symbol> module_symbols_;
  std::vector<Scope> scopes_; // of the current function
  int32_t scope_ = -1;        // innermost
  std::vector<PendingLabel> pending_;
  uint32_t file_ = 0, source_line_ = 0;
  std::string_view opcode_;      // of the current instruction
  uint32_t operand_total_ = 0;   // likewise
  bool has_coordinates_ = false; // likewise
};

} // namespace cugrt::emulator::ptx
