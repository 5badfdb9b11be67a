// The parser: recursive descent over the lexer's tokens (private to the IR layer).
//
// Two sweeps. The first reads kernels, constants and functions' signatures and steps over bodies;
// the second reads the bodies, when every name of the module is known. An error is reported and
// thrown; statements and items are where parsing goes on.
//
// parser.cpp: tokens, items, recovery · parse_types.cpp: expressions and types · parse_kernel.cpp:
// kernels and constants · parse_function.cpp: signatures, blocks · parse_binding.cpp: right-hand
// sides · parse_calls.cpp: those that call or hold blocks.
#pragma once

#include "ir/module/builder.h"
#include "ir/module/op.h"
#include "ir/text/lexer.h"
#include "ir/text/text.h"

#include <deque>
#include <unordered_map>

namespace cugrt::ir {

class Parser {
public:
  Parser(std::string_view text, Diagnostics &diagnostics);
  Module run();

private:
  // --- parser.cpp ---
  void advance() { token_ = lexer_.next(); }
  bool at_sign(std::string_view sign) const {
    return token_.kind == TokenKind::sign && token_.text == sign;
  }
  bool at_word(std::string_view word) const {
    return token_.kind == TokenKind::word && token_.text == word;
  }
  bool accept_sign(std::string_view sign);
  bool accept_word(std::string_view word);
  void expect_sign(std::string_view sign, const char *where);
  void expect_word(std::string_view word, const char *where);
  struct Failed {}; // thrown when an error has been reported
  void report(SourceLocation location, std::string message);
  void report_here(std::string_view wanted); // "expected WANTED, found TOKEN"
  [[noreturn]] void fail(SourceLocation location, std::string message);
  [[noreturn]] void fail_here(std::string_view wanted);
  /// The text of a token of that kind, which is taken.
  std::string_view take(TokenKind kind, const char *what);
  std::string string(const char *what);
  int64_t integer(const char *what);
  int64_t magnitude(SourceLocation location, bool negative);
  template <class F> void list(std::string_view close, const char *what, const F &element);
  bool at_string() const {
    return token_.kind == TokenKind::string || token_.kind == TokenKind::raw;
  }
  AttributeValue attribute_value();
  AttributeValue attribute_list();
  std::vector<Attribute> attributes();
  AttributeValue number(); // integer or float, with sign
  void version();
  void items();
  void item();
  std::string_view global_name(std::unordered_map<std::string_view, uint32_t> &names,
                               uint32_t number, const char *what);
  void skip_item();
  bool at_item() const;

  // --- parse_types.cpp ---
  enum class Symbols { kernel, signature, body, match };
  struct Nest;
  ExprId expr();
  ExprId sum();
  ExprId product();
  ExprId unary();
  ExprId primary();
  ExprId operator_call(ExprKind kind);
  ExprId make(ExprKind kind, ExprId a, ExprId b, ExprId c, SourceLocation location);
  ExprId symbol();
  std::vector<ExprId> dims(size_t limit, const char *what);
  DType dtype();
  TypeId type();
  TypeId tensor_type();
  TypeId optional_argument_type(std::string_view word);
  uint32_t scope();
  std::vector<TypeId> type_list(); // one type, or several in parentheses

  // --- parse_kernel.cpp ---
  void kernel();
  void kernel_field(Kernel &k, uint32_t &seen);
  void kernel_params(Kernel &k);
  struct OverName {
    size_t param;
    std::string name;
    SourceLocation location;
  };
  void kernel_param(Kernel &k, std::vector<OverName> &over);
  void over_names(size_t param, std::vector<OverName> &over);
  void kernel_launch(Kernel &k);
  void launch_field(KernelVariant &v, uint32_t &seen);
  std::array<ExprId, 3> launch_dims();
  void constant();
  void constant_bytes(Constant &c);
  void constant_elements(Constant &c, int64_t count, int64_t row);
  void constant_element(DType dtype, std::string &bytes, int &nibbles);
  void constant_hex(Constant &c);

  // --- parse_function.cpp ---
  struct Bound {
    std::string_view symbol;
    SourceLocation location;
    enum class Kind { lower, upper, capture } kind;
    int64_t value;
  };
  /// "n = [8, 16]" of `buckets`, or "n_bucket = n" of `bucket_symbols`.
  struct BucketAttribute {
    std::string_view symbol, of;
    SourceLocation location;
    std::vector<int64_t> values;
  };
  /// A place in the text to come back to.
  struct Saved {
    Lexer::Position position;
    Token token;
  };
  /// A function between the two sweeps, and while its body is read.
  struct Pending {
    explicit Pending(FunctionBuilder b) : builder(std::move(b)) {}
    FunctionBuilder builder;
    Lexer::Position body;
    std::unordered_map<std::string_view, uint32_t> symbols;
    std::vector<bool> symbol_defined;
    std::unordered_map<std::string_view, ValueId> values;
    std::vector<bool> poisoned; // by value: its type is not known, because of an error
    std::vector<Bound> bounds;
    std::vector<BucketAttribute> buckets;
    std::vector<Saved> constraints; // behind "[": they are read after the body
    /// A constraint, for the rules of ops in the body: known once all its symbols are.
    struct Known {
      Saved at;
      std::vector<std::string_view> words;
      size_t undefined = 0; // words that are no symbols yet
    };
    std::vector<Known> known;
    std::unordered_map<std::string_view, std::vector<size_t>> bounds_of, known_by; // by symbol
    std::vector<Operand> results;
    SourceLocation end_location;
    bool failed = false; // the signature is broken: the body is not read
  };
  void function(bool is_private);
  void signature(Pending &f);
  void symbol_order(Pending &f);
  void param(Pending &f);
  void function_attribute(Pending &f);
  void bounds(Pending &f, Bound::Kind kind);
  void skip_body();
  void body(Pending &f);
  void apply_bounds(Pending &f, bool all);
  bool apply_bound(Pending &f, const Bound &b);
  void wait_for_symbols(Pending &f);
  void symbol_is_known(std::string_view name);
  void learn(const Saved &constraint);
  void skip_constraints(Pending &f);
  void constraint(Pending &f);
  void counted_dim(Pending &f);
  void buckets(Pending &f);
  void bucket_symbols(Pending &f);
  void apply_buckets(Pending &f, bool all);
  enum class BlockEnd { body, nested };
  void block(BlockEnd end, std::vector<Operand> &results, SourceLocation &end_location);
  void block_results(std::vector<Operand> &results);
  void skip_statement(size_t start);
  void statement();

  // --- parse_binding.cpp ---
  struct Name {
    std::string_view text;
    SourceLocation location;
  };
  /// Parts of a right-hand side before it is appended.
  struct Draft {
    Binding binding{};
    std::vector<Name> names;
    std::vector<Operand> operands;
    std::vector<ExprId> exprs;
    std::vector<Attribute> attributes;
    std::vector<TypeId> types;
    bool poisoned = false; // an operand is, so types cannot be inferred
  };
  void right_side(Draft &d);
  void finish(Draft &d);
  void poison(const std::vector<Name> &names);
  void declare(const Name &name, ValueId id, bool poisoned);
  ValueId value();
  void value_operand(Draft &d);
  Operand operand();
  std::vector<Operand> operands();
  std::vector<Operand> operands_or_functions();
  void note_poison(Draft &d);
  const Type *operand_value_type(const Draft &d, size_t i);
  uint32_t global_use(const std::unordered_map<std::string_view, uint32_t> &names,
                      const std::string &what);
  // Read the text after a kind's word; parse_calls.cpp has calls, ops, if and while.
#define CUGRT_BINDING(name, ...) void parse_##name(Draft &d);
#include "ir/module/bindings.def"
#undef CUGRT_BINDING

  // --- parse_calls.cpp ---
  void host_or_extern(Draft &d);
  void captures(Draft &d);
  void carried(Draft &d, std::vector<Name> &names, std::vector<TypeId> &types);
  Name new_value(const std::vector<Name> &others);
  uint32_t nested_block(std::span<const TypeId> types, const std::vector<Name> &names,
                        bool poisoned);
  void body_names(size_t count, std::vector<Name> &names);
  Function &current_function() { return current_->builder.function(); }

  Module module_;
  std::string_view text_;
  Diagnostics &diagnostics_;
  Lexer lexer_;
  Token token_;
  uint32_t nesting_ = 0;
  Symbols symbols_ = Symbols::kernel;
  bool reports_ = true; // off: what fails is read again
  std::unordered_map<std::string_view, uint32_t> kernel_names_, constant_names_, function_names_,
      callee_names_, kernel_symbols_;
  std::deque<Pending> pending_;
  Pending *current_ = nullptr;
};

/// Elements up to `close`, separated by commas; the opening sign has been taken.
template <class F> void Parser::list(std::string_view close, const char *what, const F &element) {
  for (uint32_t count = 1; !accept_sign(close); ++count) {
    if (count > 1 && !accept_sign(","))
      fail_here("',' or '" + std::string(close) + "'");
    if (count > kMaxOperands)
      fail(token_.location, std::string("more than ") + std::to_string(kMaxOperands) + " " + what);
    element();
  }
}

/// Counts nesting while it lives; beyond the limit is an error.
struct Parser::Nest {
  explicit Nest(Parser &parser) : parser_(parser) {
    if (parser_.nesting_ == kMaxNesting)
      parser_.fail(parser_.token_.location,
                   "nested deeper than " + std::to_string(kMaxNesting) + " levels");
    ++parser_.nesting_;
  }
  ~Nest() { --parser_.nesting_; }
  Nest(const Nest &) = delete;
  Nest &operator=(const Nest &) = delete;

private:
  Parser &parser_;
};

} // namespace cugrt::ir
