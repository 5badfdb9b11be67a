// Right sides of bindings that call, and those that hold blocks: calls, ops, if and while; part of
// the parser.
#include "ir/text/parser.h"

#include "ir/module/infer.h"

namespace cugrt::ir {

// --- Calls ---------------------------------------------------------------------------------------

bool Parser::parse_call(Draft &d) {
  if (!global_use(function_names_, "function", d.binding.callee) || !operands(d.operands) ||
      !attributes(d.attributes))
    return false;
  Pending &callee = pending_[d.binding.callee];
  note_poison(d);
  d.poisoned = d.poisoned || callee.failed;
  if (d.poisoned)
    return true;
  std::vector<TypeId> arguments;
  for (const Operand &o : d.operands)
    arguments.push_back(operand_type(module_, current_function(), o));
  std::vector<ExprId> bound = bind_callee_symbols(module_, callee.builder.function(), arguments);
  for (TypeId declared : callee.builder.function().result_types) {
    TypeId t = substitute_type(module_, declared, bound);
    if (!t.valid())
      return fail(d.binding.location,
                  "the arguments do not determine a symbol of the result type " +
                      print_type(module_, &callee.builder.function(), declared) + " of @" +
                      callee.builder.function().name);
    d.types.push_back(t);
  }
  return true;
}

bool Parser::parse_host_call(Draft &d) { return host_or_extern(d); }
bool Parser::parse_extern_call(Draft &d) { return host_or_extern(d); }

bool Parser::host_or_extern(Draft &d) {
  std::string_view key = token_.text;
  bool plain = token_.kind == TokenKind::string && key.find('\\') == std::string_view::npos;
  std::string name;
  if (!string(name, "the name of the function as a string"))
    return false;
  auto it = plain ? callee_names_.find(key) : callee_names_.end();
  if (it != callee_names_.end()) {
    d.binding.callee = it->second;
  } else {
    d.binding.callee = current_->builder.callee_name(name);
    if (plain)
      callee_names_.emplace(key, d.binding.callee);
  }
  return operands_or_functions(d.operands) && attributes(d.attributes) &&
         (!accept_sign(":") || type_list(d.types));
}

bool Parser::parse_op(Draft &d) {
  SourceLocation location = token_.location;
  std::string name(token_.text);
  auto op = op_from_name(name);
  if (name == "return" || name == "yield")
    return fail(location, "return ends a function's body, yield a nested block");
  if (!op)
    return fail(location, "unknown op '" + name + "'");
  d.binding.callee = static_cast<uint32_t>(*op);
  advance();
  if (!operands(d.operands) || !attributes(d.attributes))
    return false;
  note_poison(d);
  if (d.poisoned)
    return true;
  std::vector<TypeId> types;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    Operand::Kind kind = d.operands[i].kind;
    if (kind != Operand::Kind::value && kind != Operand::Kind::none)
      return fail(location, "operand " + std::to_string(i + 1) + " of " + name +
                                " is no value; ops take values and none");
    types.push_back(operand_type(module_, current_function(), d.operands[i]));
  }
  op = meant_op(module_, *op, types, d.attributes);
  d.binding.callee = static_cast<uint32_t>(*op);
  auto inferred = infer_op(module_, *op, types, d.attributes, &current_function());
  if (!inferred.ok())
    return fail(location, name + ": " + inferred.status().message());
  d.types = std::move(*inferred);
  return true;
}

// --- Control flow --------------------------------------------------------------------------------

bool Parser::captures(Draft &d) {
  if (!accept_word("using"))
    return true;
  return expect_sign("(", "before captures") && list(")", "captures", [&] {
           ValueId v;
           return value(v) && (d.operands.push_back(Operand::of(v)), true);
         });
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
  {
    Nest nest(*this);
    if (!nest.ok()) {
      skip_statement(lexer_.position().offset);
    } else if (expect_sign("{", "and a block")) {
      block(BlockEnd::nested, results, end);
    }
  }
  current_->builder.end_block(results, end);
  return number;
}

bool Parser::parse_if_(Draft &d) {
  Operand condition;
  if (!operand(condition))
    return false;
  d.operands.push_back(condition);
  if (!captures(d) || (accept_sign("->") && !type_list(d.types)))
    return false;
  uint32_t first = nested_block({}, {}, false);
  if (d.types.empty() && !at_word("else")) { // nothing to yield: an empty else
    current_->builder.begin_block();
    current_->builder.end_block({}, token_.location);
  } else {
    bool has_else = expect_word("else", "and the other block");
    if (!has_else) {
      current_->builder.begin_block();
      current_->builder.end_block({});
      return false;
    }
    nested_block({}, {}, false);
  }
  d.binding.blocks = {first, 2};
  return true;
}

bool Parser::carried(Draft &d, std::vector<Name> &names, std::vector<TypeId> &types) {
  return expect_sign("(", "before carried values") && list(")", "carried values", [&] {
           Name name{token_.text, token_.location};
           if (token_.kind != TokenKind::value)
             return fail_here("a carried value's name with %");
           if (current_->values.count(name.text))
             return fail(name.location, "value %" + std::string(name.text) + " is already defined");
           for (const Name &other : names)
             if (other.text == name.text)
               return fail(name.location,
                           "value %" + std::string(name.text) + " is already defined");
           advance();
           TypeId written;
           if (accept_sign(":") && !type(written))
             return false;
           Operand initial;
           if (!expect_sign("=", "and the initial value") || !operand(initial))
             return false;
           d.operands.push_back(initial);
           names.push_back(name);
           if (!written.valid())
             written = carried_type(module_, operand_type(module_, current_function(), initial));
           types.push_back(written);
           return true;
         });
}

/// (%a, %b): the carried values' names in the body; left out, they are the condition's again.
bool Parser::body_names(size_t count, std::vector<Name> &names) {
  SourceLocation location = token_.location;
  if (!accept_sign("("))
    return true;
  names.clear();
  if (!list(")", "names", [&] {
        Name name{token_.text, token_.location};
        if (token_.kind != TokenKind::value)
          return fail_here("a carried value's name with %");
        if (current_->values.count(name.text))
          return fail(name.location, "value %" + std::string(name.text) + " is already defined");
        names.push_back(name);
        advance();
        return true;
      }))
    return false;
  return names.size() == count ||
         fail(location, "the body has " + std::to_string(names.size()) + " names for " +
                            std::to_string(count) + " carried values");
}

bool Parser::parse_while_(Draft &d) {
  std::vector<Name> names;
  std::vector<TypeId> types;
  if (!carried(d, names, types))
    return false;
  d.binding.carried_count = static_cast<uint32_t>(d.operands.size());
  if (!captures(d))
    return false;
  note_poison(d);
  bool poisoned = d.poisoned;
  uint32_t first = nested_block(types, names, poisoned);
  if (!expect_word("do", "and the loop's body") || !body_names(types.size(), names)) {
    current_->builder.begin_block();
    current_->builder.end_block({});
    return false;
  }
  nested_block(types, names, poisoned);
  d.poisoned = poisoned;
  d.binding.blocks = {first, 2};
  d.types = types;
  return true;
}
} // namespace cugrt::ir
