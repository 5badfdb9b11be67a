// The parser: recursive descent over the lexer's tokens (private to the IR layer).
//
// Two sweeps. The first reads kernels, constants and functions' signatures and steps over bodies;
// the second reads the bodies, when every name of the module is known. Every parsing function
// returns false after it has reported an error; statements, fields and items are where parsing goes
// on.
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
  bool expect_sign(std::string_view sign, const char *where);
  bool expect_word(std::string_view word, const char *where);
  bool fail(SourceLocation location, std::string message);
  bool fail_here(std::string_view wanted); // "expected WANTED, found TOKEN"
  bool bare_name(std::string &name, const char *what);
  bool string(std::string &out, const char *what);
  bool integer(int64_t &out, const char *what);
  bool magnitude(SourceLocation location, bool negative, int64_t &out);
  template <class F> bool list(std::string_view close, const char *what, const F &element);
  bool attribute_value(AttributeValue &out);
  bool attribute_list(AttributeValue &out);
  bool attributes(std::vector<Attribute> &out);
  bool number(AttributeValue &out); // integer or float, with sign
  bool version();
  void items();
  bool item();
  bool global_name(std::string_view &name, std::unordered_map<std::string_view, uint32_t> &names,
                   uint32_t number, const char *what);
  void skip_item();
  bool at_item() const;

  // --- parse_types.cpp ---
  enum class Symbols { kernel, signature, body, match };
  struct Nest;
  bool expr(ExprId &out);
  bool sum(ExprId &out);
  bool product(ExprId &out);
  bool unary(ExprId &out);
  bool primary(ExprId &out);
  bool operator_call(ExprKind kind, ExprId &out);
  bool make(ExprKind kind, ExprId a, ExprId b, ExprId c, SourceLocation location, ExprId &out);
  bool symbol(ExprId &out);
  bool dims(std::vector<ExprId> &out, size_t limit, const char *what);
  bool type(TypeId &out);
  bool tensor_type(TypeId &out);
  bool optional_argument_type(std::string_view word, TypeId &out);
  bool scope(uint32_t &out);
  bool type_list(std::vector<TypeId> &out); // one type, or several in parentheses

  // --- parse_kernel.cpp ---
  bool kernel();
  bool kernel_field(Kernel &k, uint32_t &seen);
  bool kernel_params(Kernel &k);
  struct OverName {
    size_t param;
    std::string name;
    SourceLocation location;
  };
  bool kernel_param(Kernel &k, std::vector<OverName> &over);
  bool over_names(size_t param, std::vector<OverName> &over);
  bool kernel_launch(Kernel &k);
  bool launch_field(KernelVariant &v, uint32_t &seen);
  bool launch_dims(std::array<ExprId, 3> &out);
  bool constant();
  bool constant_bytes(Constant &c);
  bool constant_elements(Constant &c, int64_t count, int64_t row);
  bool constant_element(DType dtype, std::string &bytes, int &nibbles);
  bool constant_hex(Constant &c);

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
    /// One of them, for the rules of ops in the body: known from where all its symbols are.
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
  bool function(bool is_private);
  bool signature(Pending &f);
  bool symbol_order(Pending &f);
  bool param(Pending &f);
  bool function_attributes(Pending &f);
  bool function_attribute(Pending &f);
  bool bounds(Pending &f, Bound::Kind kind);
  bool skip_body();
  void body(Pending &f);
  void apply_bounds(Pending &f, bool all);
  bool apply_bound(Pending &f, const Bound &b);
  void wait_for_symbols(Pending &f);
  void symbol_is_known(std::string_view name);
  void learn(const Saved &constraint);
  bool skip_constraints(Pending &f);
  bool constraint(Pending &f);
  bool counted_dim(Pending &f);
  bool buckets(Pending &f);
  bool bucket_symbols(Pending &f);
  void apply_buckets(Pending &f, bool all);
  enum class BlockEnd { body, nested };
  void block(BlockEnd end, std::vector<Operand> &results, SourceLocation &end_location);
  void skip_statement(size_t start);
  bool statement();

  // --- parse_binding.cpp ---
  struct Name {
    std::string_view text;
    SourceLocation location;
  };
  /// What a right-hand side fills in before it is appended.
  struct Draft {
    Binding binding{};
    std::vector<Name> names;
    std::vector<Operand> operands;
    std::vector<ExprId> exprs;
    std::vector<Attribute> attributes;
    std::vector<TypeId> types;
    bool poisoned = false; // an operand is, so types cannot be inferred
  };
  bool right_side(Draft &d);
  bool finish(Draft &d);
  void poison(const std::vector<Name> &names);
  bool expect_result_count(const Draft &d, size_t count);
  bool declare(const Name &name, ValueId id, bool poisoned);
  bool value(ValueId &out);
  bool value_operand(Draft &d);
  bool operand(Operand &out);
  bool operands(std::vector<Operand> &out);
  bool operands_or_functions(std::vector<Operand> &out);
  void note_poison(Draft &d);
  const Type *operand_value_type(const Draft &d, size_t i);
  bool global_use(const std::unordered_map<std::string_view, uint32_t> &names,
                  const std::string &what, uint32_t &number);
  // What follows a kind's word; calls, ops, if and while in parse_calls.cpp.
#define CUGRT_BINDING(name, ...) bool parse_##name(Draft &d);
#include "ir/module/bindings.def"
#undef CUGRT_BINDING

  // --- parse_calls.cpp ---
  bool host_or_extern(Draft &d);
  bool captures(Draft &d);
  bool carried(Draft &d, std::vector<Name> &names, std::vector<TypeId> &types);
  uint32_t nested_block(std::span<const TypeId> types, const std::vector<Name> &names,
                        bool poisoned);
  bool body_names(size_t count, std::vector<Name> &names);
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
template <class F> bool Parser::list(std::string_view close, const char *what, const F &element) {
  if (accept_sign(close))
    return true;
  for (uint32_t count = 1;; ++count) {
    if (count > kMaxOperands)
      return fail(token_.location,
                  std::string("more than ") + std::to_string(kMaxOperands) + " " + what);
    if (!element())
      return false;
    if (accept_sign(close))
      return true;
    if (!at_sign(","))
      return fail_here("',' or '" + std::string(close) + "'");
    advance();
  }
}

/// Counts nesting while it lives; ok() is false (and reported) beyond the limit.
struct Parser::Nest {
  explicit Nest(Parser &parser) : parser_(parser) { ++parser_.nesting_; }
  ~Nest() { --parser_.nesting_; }
  Nest(const Nest &) = delete;
  Nest &operator=(const Nest &) = delete;
  bool ok() {
    return parser_.nesting_ <= kMaxNesting ||
           parser_.fail(parser_.token_.location,
                        "nested deeper than " + std::to_string(kMaxNesting) + " levels");
  }

private:
  Parser &parser_;
};

} // namespace cugrt::ir
