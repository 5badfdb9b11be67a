// Runs a template's tree. One object is one rendering: statements in evaluator.cpp, expressions in
// expressions.cpp, calls in calls.cpp.
#pragma once

#include "fronts/llm/jinja/template.h"
#include "fronts/llm/jinja/tree.h"
#include "fronts/llm/jinja_values/methods.h"

#include <utility>

namespace cugrt::llm::jinja {

/// Variables that are seen together; others are looked for in the scope around.
struct Scope {
  std::shared_ptr<Scope> around;
  std::vector<std::pair<std::string, Value>> names{};
  bool is_kept = false; // a macro was made in it
};

struct Macro {
  const Statement &statement;
  std::shared_ptr<Scope> scope; // in which it was made
};

class Evaluator {
public:
  explicit Evaluator(const RenderOptions &options) : machine_(options.limits), now_(options.now) {}
  /// Empties objects that may hold themselves: namespaces, and scopes of macros.
  ~Evaluator();

  Result<Text> render(const Body &body, std::vector<std::pair<std::string, Value>> variables);

private:
  enum class Flow : uint8_t { on, leaves, proceeds };

  // Statements.
  Result<Flow> execute(const Body &body);
  Result<Flow> execute(const Statement &statement);
  Result<Flow> when(const Statement &statement);
  Result<Flow> loop(const Statement &statement);
  Result<Flow> loop_over(const Statement &statement, std::vector<Value> values);
  Result<std::vector<Value>> filtered(const Statement &statement, std::vector<Value> values);
  Result<Flow> in_scope(const Body &body);
  Status set(const Statement &statement, Value value);
  Status bind(const std::vector<std::string> &targets, Value value);
  Result<Flow> scope(const Statement &statement);
  Status capture(const Statement &statement);
  Result<Value> captured(const Body &body, const Expression *filters);
  /// The text that is written while `run` gives a Result<Flow>.
  template <class Run> Result<Value> written(const Run &run) {
    Text text;
    Text *const outer = std::exchange(out_, &text);
    Result<Flow> flow = run();
    out_ = outer;
    machine_.release(text.size() * sizeof(char32_t));
    CUGRT_TRY(flow.take_status());
    return machine_.text(std::move(text));
  }
  Status print_value(const Statement &statement);
  void write(TextView text);

  // Expressions.
  Result<Value> evaluate(const Expression &expression);
  Result<Value> evaluate_kind(const Expression &expression);
  Result<Value> name(const Expression &expression);
  Result<Value> list(const Expression &expression, ListKind kind);
  Result<Value> dict(const Expression &expression);
  Result<Value> slice(const Expression &expression);
  Result<Value> unary(const Expression &expression);
  Result<Value> concatenate(const Expression &expression);
  Result<Value> compare_all(const Expression &expression);
  Result<Value> conditional(const Expression &expression);
  Result<Value> filter(const Expression &expression, const Value *input);
  Result<Value> test(const Expression &expression);

  // Calls.
  Result<Value> call(const Expression &expression);
  Result<Given> arguments(const std::vector<Argument> &arguments);
  Result<Value> call_macro(const Macro &macro, const Given &given);
  Result<Value> call_function(std::string_view name, const Given &given);
  Result<Value> range(const Given &given);
  Result<Value> make_dict_of(const Given &given);
  Result<Value> make_namespace(const Given &given);
  Result<Value> format_time(const Given &given);

  const Value *find_variable(std::string_view name);
  void assign(const std::string &name, Value value);
  void enter_scope(std::shared_ptr<Scope> around) {
    scope_ = std::make_shared<Scope>(Scope{std::move(around)});
  }

  Machine machine_; // before every value: they give their memory back to it
  std::time_t now_;
  std::vector<std::shared_ptr<Scope>> kept_;
  std::vector<std::shared_ptr<Namespace>> spaces_;
  std::shared_ptr<Scope> scope_;
  Text *out_ = nullptr;
};

} // namespace cugrt::llm::jinja
