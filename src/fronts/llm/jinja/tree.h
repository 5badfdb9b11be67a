// A template as a tree: statements, and the expressions in them.
#pragma once

#include "fronts/llm/jinja_values/value.h"

namespace cugrt::llm::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

enum class ExpressionKind : uint8_t {
  constant,    // value
  name,        // name
  list,        // operands
  tuple,       // operands
  dict,        // operands: key, value, key, value..
  attribute,   // operands[0].name
  item,        // operands[0][operands[1]]
  slice,       // operands[0][operands[1]:operands[2]:operands[3]], where one may be null
  call,        // operands[0](arguments)
  filter,      // operands[0] | name(arguments); without an operand in {% filter %}
  test,        // operands[0] is name(arguments)
  unary,       // name: "-", "+" or "not"
  binary,      // name: "+", "-", "*", "/", "//", "%" or "**"
  both,        // operands[0] and operands[1]
  either,      // operands[0] or operands[1]
  concatenate, // operands[0] ~ operands[1] ~ ..
  compare,     // operands[0] names[0] operands[1] names[1] ..
  conditional, // operands[0] if operands[1] else operands[2], which may be null
};

struct Argument {
  std::string name; // empty; of one given by name; "*" and "**" of a list and a dict of them
  ExpressionPtr value;
};

struct Expression {
  ExpressionKind kind;
  uint32_t line;
  std::string name{};
  Value value{};
  std::vector<ExpressionPtr> operands{};
  std::vector<Argument> arguments{};
  std::vector<std::string> names{};
  uint32_t depth = 1; // of the tree below it
};

struct Statement;
using Body = std::vector<Statement>;

enum class StatementKind : uint8_t {
  data,     // text
  print,    // value
  when,     // branches
  loop,     // targets in value if condition: body, or `otherwise` of nothing
  set,      // targets = value, or name.field = value
  capture,  // targets[0] = body through the filter `value`, which may be null
  macro,    // name(parameters): body
  scope,    // body in a scope of its own, with parameters ({% with %})
  filtered, // body through the filter `value`
  leave,    // break
  proceed,  // continue
};

struct Branch {
  ExpressionPtr condition; // null of else
  Body body;
};

struct Parameter {
  std::string name;
  ExpressionPtr preset; // may be null
};

struct Statement {
  StatementKind kind;
  uint32_t line;
  Text text{};
  std::string name{}, field{};
  std::vector<std::string> targets{};
  ExpressionPtr value{}, condition{};
  Body body{}, otherwise{};
  std::vector<Branch> branches{};
  std::vector<Parameter> parameters{};
};

} // namespace cugrt::llm::jinja
