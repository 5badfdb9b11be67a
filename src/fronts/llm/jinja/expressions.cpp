// Expressions of a rendering; see evaluator.h.
#include "fronts/llm/jinja/evaluator.h"
#include "fronts/llm/jinja/lexer.h"

namespace cugrt::llm::jinja {

Result<Value> Evaluator::evaluate(const Expression &expression) {
  machine_.work(1);
  CUGRT_TRY(machine_.enter().at(line_name(expression.line)));
  Result<Value> value = evaluate_kind(expression);
  machine_.leave();
  if (!value.ok())
    return value.take_status().at(line_name(expression.line));
  CUGRT_TRY(machine_.check().at(line_name(expression.line)));
  return value;
}

Result<Value> Evaluator::evaluate_kind(const Expression &expression) {
  const auto &operands = expression.operands;
  switch (expression.kind) {
  case ExpressionKind::constant:
    return expression.value;
  case ExpressionKind::name:
    return name(expression);
  case ExpressionKind::list:
    return list(expression, ListKind::list);
  case ExpressionKind::tuple:
    return list(expression, ListKind::tuple);
  case ExpressionKind::dict:
    return dict(expression);
  case ExpressionKind::attribute: {
    CUGRT_ASSIGN(const Value value, evaluate(*operands[0]));
    return attribute_of(machine_, value, expression.name);
  }
  case ExpressionKind::item: {
    CUGRT_ASSIGN(const Value value, evaluate(*operands[0]));
    CUGRT_ASSIGN(const Value key, evaluate(*operands[1]));
    return item_of(machine_, value, key);
  }
  case ExpressionKind::slice:
    return slice(expression);
  case ExpressionKind::call:
    return call(expression);
  case ExpressionKind::filter:
    return filter(expression, nullptr);
  case ExpressionKind::test:
    return test(expression);
  case ExpressionKind::unary:
    return unary(expression);
  case ExpressionKind::binary: {
    CUGRT_ASSIGN(const Value a, evaluate(*operands[0]));
    CUGRT_ASSIGN(const Value b, evaluate(*operands[1]));
    return binary(machine_, expression.name, a, b);
  }
  case ExpressionKind::both:
  case ExpressionKind::either: {
    CUGRT_ASSIGN(Value first, evaluate(*operands[0]));
    if (is_true(first) == (expression.kind == ExpressionKind::either))
      return first;
    return evaluate(*operands[1]);
  }
  case ExpressionKind::concatenate:
    return concatenate(expression);
  case ExpressionKind::compare:
    return compare_all(expression);
  case ExpressionKind::conditional:
    return conditional(expression);
  }
  return Value();
}

Result<Value> Evaluator::name(const Expression &expression) {
  if (const Value *value = find_variable(expression.name))
    return *value;
  for (std::string_view function :
       {"range", "dict", "namespace", "raise_exception", "strftime_now"})
    if (expression.name == function)
      return Value(std::make_shared<const Callable>(Callable{expression.name, Value()}));
  return undefined("'" + expression.name + "' is undefined");
}

Result<Value> Evaluator::list(const Expression &expression, ListKind kind) {
  std::vector<Value> values;
  for (const ExpressionPtr &operand : expression.operands) {
    CUGRT_ASSIGN(Value value, evaluate(*operand));
    values.push_back(std::move(value));
  }
  return machine_.list(kind, std::move(values));
}

Result<Value> Evaluator::dict(const Expression &expression) {
  Dict::Entries entries;
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    CUGRT_ASSIGN(Value key, evaluate(*expression.operands[i]));
    CUGRT_ASSIGN(Value value, evaluate(*expression.operands[i + 1]));
    machine_.work(weight_of(key) - 1);
    CUGRT_TRY(machine_.check());
    if (!is_hashable(key))
      return wrong(std::string("a value of type ") + type_name(key) + " is no key of a dict");
    bool is_known = false;
    for (auto &[known, old] : entries)
      if (equal(machine_, known, key)) {
        old = value;
        is_known = true;
      }
    if (!is_known)
      entries.emplace_back(std::move(key), std::move(value));
  }
  return machine_.dict(std::move(entries));
}

Result<Value> Evaluator::slice(const Expression &expression) {
  CUGRT_ASSIGN(const Value value, evaluate(*expression.operands[0]));
  Value limits[3] = {None{}, None{}, None{}};
  for (size_t i = 0; i < 3; ++i)
    if (expression.operands[i + 1]) {
      CUGRT_ASSIGN(limits[i], evaluate(*expression.operands[i + 1]));
    }
  return slice_of(machine_, value, &limits[0], &limits[1], &limits[2]);
}

Result<Value> Evaluator::unary(const Expression &expression) {
  CUGRT_ASSIGN(const Value value, evaluate(*expression.operands[0]));
  if (expression.name == "not")
    return Value(!is_true(value));
  if (!value.is_number())
    return binary(machine_, expression.name, value, int64_t(0));
  if (expression.name == "+")
    return value;
  if (const double *real = value.get<double>())
    return Value(-*real);
  return binary(machine_, "-", int64_t(0), value);
}

Result<Value> Evaluator::concatenate(const Expression &expression) {
  TextBuilder out(machine_);
  for (const ExpressionPtr &operand : expression.operands) {
    CUGRT_ASSIGN(const Value value, evaluate(*operand));
    print(out, value);
  }
  return machine_.text(out.take());
}

Result<Value> Evaluator::compare_all(const Expression &expression) {
  CUGRT_ASSIGN(Value left, evaluate(*expression.operands[0]));
  for (size_t i = 0; i < expression.names.size(); ++i) {
    CUGRT_ASSIGN(Value right, evaluate(*expression.operands[i + 1]));
    CUGRT_ASSIGN(const bool is_so, holds(machine_, expression.names[i], left, right));
    if (!is_so)
      return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Evaluator::conditional(const Expression &expression) {
  CUGRT_ASSIGN(const Value condition, evaluate(*expression.operands[1]));
  if (is_true(condition))
    return evaluate(*expression.operands[0]);
  if (expression.operands[2])
    return evaluate(*expression.operands[2]);
  return undefined("a condition without 'else' does not hold");
}

/// `input` stands for the innermost operand where there is none.
Result<Value> Evaluator::filter(const Expression &expression, const Value *input) {
  Value value;
  if (!expression.operands.empty()) {
    const Expression &operand = *expression.operands[0];
    CUGRT_ASSIGN(value, input ? filter(operand, input) : evaluate(operand));
  } else if (input) {
    value = *input;
  }
  CUGRT_ASSIGN(const Given given, arguments(expression.arguments));
  return apply_filter(machine_, expression.name, value, given);
}

Result<Value> Evaluator::test(const Expression &expression) {
  CUGRT_ASSIGN(const Value value, evaluate(*expression.operands[0]));
  CUGRT_ASSIGN(const Given given, arguments(expression.arguments));
  CUGRT_ASSIGN(const bool passes, apply_test(machine_, expression.name, value, given));
  return Value(passes);
}

} // namespace cugrt::llm::jinja
