// Right sides of bindings that call, and those that hold blocks: calls, ops, if and while; part of
// the parser.
#include "ir/text/parser.h"

#include "ir/module/infer.h"

#include <algorithm>

namespace cugrt::ir {

// --- Calls ---------------------------------------------------------------------------------------

void Parser::parse_call(Draft &d) {
  d.binding.callee = global_use(function_names_, "function");
  d.operands = operands();
  d.attributes = attributes();
  Pending &callee = pending_[d.binding.callee];
  note_poison(d);
  d.poisoned = d.poisoned || callee.failed;
  if (d.poisoned)
    return;
  std::vector<TypeId> arguments;
  for (const Operand &o : d.operands)
    arguments.push_back(operand_type(module_, current_function(), o));
  std::vector<ExprId> bound = bind_callee_symbols(module_, callee.builder.function(), arguments);
  for (TypeId declared : callee.builder.function().result_types) {
    TypeId t = substitute_type(module_, declared, bound);
    if (!t.valid())
      fail(d.binding.location, "the arguments do not determine a symbol of the result type " +
                                   print_type(module_, &callee.builder.function(), declared) +
                                   " of @" + callee.builder.function().name);
    d.types.push_back(t);
  }
}

void Parser::parse_host_call(Draft &d) { host_or_extern(d); }
void Parser::parse_extern_call(Draft &d) { host_or_extern(d); }

void Parser::host_or_extern(Draft &d) {
  std::string_view key = token_.text;
  bool plain = token_.kind == TokenKind::string && key.find('\\') == std::string_view::npos;
  const std::string name = string("the name of the function as a string");
  auto it = plain ? callee_names_.find(key) : callee_names_.end();
  if (it != callee_names_.end()) {
    d.binding.callee = it->second;
  } else {
    d.binding.callee = current_->builder.callee_name(name);
    if (plain)
      callee_names_.emplace(key, d.binding.callee);
  }
  d.operands = operands_or_functions();
  d.attributes = attributes();
  if (accept_sign(":"))
    d.types = type_list();
}

void Parser::parse_op(Draft &d) {
  SourceLocation location = token_.location;
  std::string name(token_.text);
  auto op = op_from_name(name);
  if (name == "return" || name == "yield")
    fail(location, "return ends a function's body, yield a nested block");
  if (!op)
    fail(location, "unknown op '" + name + "'");
  d.binding.callee = static_cast<uint32_t>(*op);
  advance();
  d.operands = operands();
  d.attributes = attributes();
  note_poison(d);
  if (d.poisoned)
    return;
  std::vector<TypeId> types;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    Operand::Kind kind = d.operands[i].kind;
    if (kind != Operand::Kind::value && kind != Operand::Kind::none)
      fail(location, "operand " + std::to_string(i + 1) + " of " + name +
                         " is no value; ops take values and none");
    types.push_back(operand_type(module_, current_function(), d.operands[i]));
  }
  op = meant_op(module_, *op, types, d.attributes);
  d.binding.callee = static_cast<uint32_t>(*op);
  auto inferred = infer_op(module_, *op, types, d.attributes, &current_function());
  if (!inferred.ok())
    fail(location, name + ": " + inferred.status().message());
  d.types = std::move(*inferred);
}

// --- Control flow --------------------------------------------------------------------------------

void Parser::captures(Draft &d) {
  if (!accept_word("using"))
    return;
  expect_sign("(", "before captures");
  list(")", "captures", [&] { d.operands.push_back(Operand::of(value())); });
}

/// A block with its parameters declared; "{" has not been taken.
uint32_t Parser::nested_block(std::span<const TypeId> types, const std::vector<Name> &names,
                              bool poisoned) {
  std::vector<std::string> hints;
  for (const Name &name : names)
    hints.emplace_back(name.text);
  uint32_t number = current_->builder.begin_block(types, hints);
  current_->poisoned.resize(current_function().values.size(), false);
  for (uint32_t i = 0; i < names.size(); ++i) {
    current_->poisoned[current_->builder.block_param(number, i).index] = poisoned;
    ValueId id = current_->builder.block_param(number, i);
    current_function().values[id.index].location = names[i].location;
    current_->values[names[i].text] = id;
  }
  std::vector<Operand> results;
  SourceLocation end;
  const bool too_deep = nesting_ == kMaxNesting;
  try {
    Nest nest(*this);
    expect_sign("{", "and a block");
    block(BlockEnd::nested, results, end);
  } catch (const Failed &) { // the rest of the text around it is read
    if (too_deep)
      skip_statement(lexer_.position().offset);
  }
  current_->builder.end_block(results, end);
  return number;
}

void Parser::parse_if_(Draft &d) {
  d.operands.push_back(operand());
  captures(d);
  if (accept_sign("->"))
    d.types = type_list();
  uint32_t first = nested_block({}, {}, false);
  if (accept_word("else")) {
    nested_block({}, {}, false);
  } else { // where there is nothing to yield it may be left out
    current_->builder.begin_block();
    current_->builder.end_block({}, token_.location);
    if (!d.types.empty())
      fail_here("'else' and the other block");
  }
  d.binding.blocks = {first, 2};
}

Parser::Name Parser::new_value(const std::vector<Name> &others) {
  Name name{token_.text, token_.location};
  if (token_.kind != TokenKind::value)
    fail_here("a carried value's name with %");
  if (current_->values.count(name.text) ||
      std::ranges::any_of(others, [&](const Name &other) { return other.text == name.text; }))
    fail(name.location, "value %" + std::string(name.text) + " is already defined");
  advance();
  return name;
}

void Parser::carried(Draft &d, std::vector<Name> &names, std::vector<TypeId> &types) {
  expect_sign("(", "before carried values");
  list(")", "carried values", [&] {
    const Name name = new_value(names);
    TypeId written = accept_sign(":") ? type() : TypeId();
    expect_sign("=", "and the initial value");
    const Operand initial = operand();
    d.operands.push_back(initial);
    names.push_back(name);
    if (!written.valid())
      written = carried_type(module_, operand_type(module_, current_function(), initial));
    types.push_back(written);
  });
}

/// (%a, %b): the carried values' names in the body; left out, they are the condition's again.
void Parser::body_names(size_t count, std::vector<Name> &names) {
  SourceLocation location = token_.location;
  if (!accept_sign("("))
    return;
  names.clear();
  list(")", "names", [&] { names.push_back(new_value({})); });
  if (names.size() != count)
    fail(location, "the body has " + std::to_string(names.size()) + " names for " +
                       std::to_string(count) + " carried values");
}

void Parser::parse_while_(Draft &d) {
  std::vector<Name> names;
  std::vector<TypeId> types;
  carried(d, names, types);
  d.binding.carried_count = static_cast<uint32_t>(d.operands.size());
  captures(d);
  note_poison(d);
  bool poisoned = d.poisoned;
  uint32_t first = nested_block(types, names, poisoned);
  try {
    expect_word("do", "and the loop's body");
    body_names(types.size(), names);
  } catch (const Failed &) { // the builder's blocks are pairs
    current_->builder.begin_block();
    current_->builder.end_block({});
    throw;
  }
  nested_block(types, names, poisoned);
  d.poisoned = poisoned;
  d.binding.blocks = {first, 2};
  d.types = types;
}
} // namespace cugrt::ir
