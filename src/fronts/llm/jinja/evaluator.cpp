// Statements of a rendering; see evaluator.h.
#include "fronts/llm/jinja/evaluator.h"

#include "fronts/llm/jinja/lexer.h"
#include "fronts/llm/jinja/parser.h"

#include <algorithm>

namespace cugrt::llm::jinja {

Evaluator::~Evaluator() {
  for (const std::shared_ptr<Namespace> &space : spaces_)
    space->fields.clear();
  for (const std::shared_ptr<Scope> &scope : kept_)
    scope->names.clear();
}

Result<Text> Evaluator::render(const Body &body,
                               std::vector<std::pair<std::string, Value>> variables) {
  Text out;
  out_ = &out;
  enter_scope(nullptr);
  scope_->names = std::move(variables);
  enter_scope(scope_);
  CUGRT_ASSIGN(const Flow flow, execute(body));
  if (flow != Flow::on)
    return Status::error(Code::parse_error,
                         "the chat template has a 'break' or 'continue' outside of a loop");
  CUGRT_TRY(machine_.check());
  return out;
}

void Evaluator::write(TextView text) {
  machine_.work(text.size() / 64);
  if (!machine_.has_room(out_->size() + text.size()))
    return;
  machine_.hold(text.size() * sizeof(char32_t));
  *out_ += text;
}

Result<Evaluator::Flow> Evaluator::execute(const Body &body) {
  for (const Statement &statement : body) {
    machine_.work(1);
    CUGRT_TRY(machine_.check().at(line_name(statement.line)));
    CUGRT_TRY(machine_.enter().at(line_name(statement.line)));
    Result<Flow> flow = execute(statement);
    machine_.leave();
    if (!flow.ok())
      return flow.take_status().at(line_name(statement.line));
    if (*flow != Flow::on)
      return flow;
  }
  return Flow::on;
}

Result<Evaluator::Flow> Evaluator::execute(const Statement &statement) {
  switch (statement.kind) {
  case StatementKind::data:
    write(statement.text);
    return Flow::on;
  case StatementKind::print:
    CUGRT_TRY(print_value(statement));
    return Flow::on;
  case StatementKind::when:
    return when(statement);
  case StatementKind::loop:
    return loop(statement);
  case StatementKind::set: {
    CUGRT_ASSIGN(Value value, evaluate(*statement.value));
    CUGRT_TRY(set(statement, std::move(value)));
    return Flow::on;
  }
  case StatementKind::capture:
    CUGRT_TRY(capture(statement));
    return Flow::on;
  case StatementKind::macro: {
    const auto macro = std::make_shared<const Macro>(Macro{statement, scope_});
    if (!std::exchange(scope_->is_kept, true))
      kept_.push_back(scope_);
    assign(statement.name,
           std::make_shared<const Callable>(Callable{statement.name, Value(), macro}));
    return Flow::on;
  }
  case StatementKind::scope:
    return scope(statement);
  case StatementKind::filtered: {
    CUGRT_ASSIGN(const Value text, captured(statement.body, statement.value.get()));
    TextBuilder out(machine_);
    jinja::print(out, text);
    write(out.take());
    return Flow::on;
  }
  case StatementKind::leave:
    return Flow::leaves;
  case StatementKind::proceed:
    return Flow::proceeds;
  }
  return Flow::on;
}

Status Evaluator::print_value(const Statement &statement) {
  CUGRT_ASSIGN(const Value value, evaluate(*statement.value));
  if (const Text *text = value.text()) {
    write(*text);
    return {};
  }
  TextBuilder out(machine_);
  jinja::print(out, value);
  write(out.take());
  return {};
}

Result<Evaluator::Flow> Evaluator::when(const Statement &statement) {
  for (const Branch &branch : statement.branches) {
    bool is_taken = !branch.condition;
    if (branch.condition) {
      CUGRT_ASSIGN(const Value condition, evaluate(*branch.condition));
      is_taken = is_true(condition);
    }
    if (is_taken)
      return execute(branch.body);
  }
  return Flow::on;
}

/// Runs it with variables of its own.
Result<Evaluator::Flow> Evaluator::in_scope(const Body &body) {
  const std::shared_ptr<Scope> around = scope_;
  enter_scope(around);
  Result<Flow> flow = execute(body);
  scope_ = around;
  return flow;
}

Result<Evaluator::Flow> Evaluator::scope(const Statement &statement) {
  std::vector<Value> values;
  for (const Parameter &parameter : statement.parameters) {
    CUGRT_ASSIGN(Value value, evaluate(*parameter.preset));
    values.push_back(std::move(value));
  }
  const std::shared_ptr<Scope> around = scope_;
  enter_scope(around);
  for (size_t i = 0; i < values.size(); ++i)
    assign(statement.parameters[i].name, std::move(values[i]));
  Result<Flow> flow = execute(statement.body);
  scope_ = around;
  return flow;
}

Result<Evaluator::Flow> Evaluator::loop(const Statement &statement) {
  CUGRT_ASSIGN(const Value over, evaluate(*statement.value));
  CUGRT_ASSIGN(std::vector<Value> values, elements_of(machine_, over));
  const std::shared_ptr<Scope> around = scope_;
  if (statement.condition) {
    Result<std::vector<Value>> chosen = filtered(statement, std::move(values));
    scope_ = around;
    CUGRT_ASSIGN(values, std::move(chosen));
  }
  if (values.empty())
    return in_scope(statement.otherwise);
  Result<Flow> flow = loop_over(statement, std::move(values));
  scope_ = around;
  return flow;
}

/// Returns the values for which the loop's condition holds.
Result<std::vector<Value>> Evaluator::filtered(const Statement &statement,
                                               std::vector<Value> values) {
  const std::shared_ptr<Scope> around = scope_;
  std::vector<Value> chosen;
  for (Value &value : values) {
    enter_scope(around);
    CUGRT_TRY(bind(statement.targets, value));
    CUGRT_ASSIGN(const Value condition, evaluate(*statement.condition));
    if (is_true(condition))
      chosen.push_back(std::move(value));
  }
  return chosen;
}

Result<Evaluator::Flow> Evaluator::loop_over(const Statement &statement,
                                             std::vector<Value> values) {
  const std::shared_ptr<Scope> around = scope_;
  const Value list = machine_.list(ListKind::list, std::move(values));
  const auto shared = *list.get<std::shared_ptr<const List>>();
  CUGRT_TRY(machine_.check());
  for (size_t i = 0; i < shared->values.size(); ++i) {
    enter_scope(around);
    assign("loop", std::make_shared<const LoopState>(LoopState{shared, i}));
    CUGRT_TRY(bind(statement.targets, shared->values[i]));
    machine_.work(1);
    CUGRT_ASSIGN(const Flow flow, execute(statement.body));
    if (flow == Flow::leaves)
      break;
  }
  return Flow::on;
}

Status Evaluator::bind(const std::vector<std::string> &targets, Value value) {
  if (targets.size() == 1) {
    assign(targets[0], std::move(value));
    return {};
  }
  CUGRT_ASSIGN(std::vector<Value> values, elements_of(machine_, value));
  if (values.size() != targets.size())
    return wrong(std::to_string(values.size()) + " values cannot go to " +
                 std::to_string(targets.size()) + " variables");
  for (size_t i = 0; i < targets.size(); ++i)
    assign(targets[i], std::move(values[i]));
  return {};
}

Status Evaluator::set(const Statement &statement, Value value) {
  if (statement.field.empty())
    return bind(statement.targets, std::move(value));
  const Value *found = find_variable(statement.targets[0]);
  Namespace *space = found ? found->space() : nullptr;
  if (!space)
    return wrong("only a field of a namespace can be set, and '" + statement.targets[0] +
                 "' is none");
  for (auto &[name, known] : space->fields)
    if (name == statement.field) {
      known = std::move(value);
      return {};
    }
  machine_.work(space->fields.size());
  space->fields.emplace_back(statement.field, std::move(value));
  return {};
}

/// The text that a body writes, through the filters.
Result<Value> Evaluator::captured(const Body &body, const Expression *filters) {
  CUGRT_ASSIGN(Value value, written([&] { return in_scope(body); }));
  return filters ? filter(*filters, &value) : Result<Value>(std::move(value));
}

Status Evaluator::capture(const Statement &statement) {
  CUGRT_ASSIGN(Value value, captured(statement.body, statement.value.get()));
  return set(statement, std::move(value));
}

const Value *Evaluator::find_variable(std::string_view name) {
  for (const Scope *scope = scope_.get(); scope; scope = scope->around.get()) {
    machine_.work(scope->names.size() / 16);
    for (const auto &[known, value] : scope->names)
      if (known == name)
        return &value;
  }
  return nullptr;
}

void Evaluator::assign(const std::string &name, Value value) {
  for (auto &[known, old] : scope_->names)
    if (known == name) {
      old = std::move(value);
      return;
    }
  scope_->names.emplace_back(name, std::move(value));
}

Template::Template(std::vector<Statement> body) : body_(std::move(body)) {}
Template::Template(Template &&) noexcept = default;
Template &Template::operator=(Template &&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source) {
  CUGRT_ASSIGN(Body body, parse_template(source));
  return Template(std::move(body));
}

Result<Text> Template::render(std::vector<std::pair<std::string, Value>> variables,
                              const RenderOptions &options) const {
  return Evaluator(options).render(body_, std::move(variables));
}

} // namespace cugrt::llm::jinja
