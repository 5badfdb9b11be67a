// Calls of a rendering: macros, methods and the functions that every template has; see evaluator.h.
#include "fronts/llm/jinja/evaluator.h"

#include "ir/module/names.h"

#include <algorithm>

namespace cugrt::llm::jinja {

constexpr int64_t kMaxRange = 100000; // as Jinja's sandbox has it

Result<Given> Evaluator::arguments(const std::vector<Argument> &arguments) {
  Given given;
  for (const Argument &argument : arguments) {
    CUGRT_ASSIGN(Value value, evaluate(*argument.value));
    if (argument.name.empty()) {
      given.plain.push_back(std::move(value));
    } else if (argument.name == "*") {
      CUGRT_ASSIGN(std::vector<Value> values, elements_of(machine_, value));
      given.plain.insert(given.plain.end(), values.begin(), values.end());
    } else if (argument.name == "**") {
      if (!value.dict())
        return wrong("'**' wants a dict");
      for (const auto &[key, one] : value.dict()->entries) {
        if (!key.text())
          return wrong("the keys of a dict behind '**' are texts");
        given.named.emplace_back(utf8_of(*key.text()), one);
      }
    } else {
      given.named.emplace_back(argument.name, std::move(value));
    }
  }
  return given;
}

Result<Value> Evaluator::call(const Expression &expression) {
  CUGRT_ASSIGN(const Value callee, evaluate(*expression.operands[0]));
  if (const Undefined *none = callee.get<Undefined>())
    return wrong(none->what ? *none->what : "what is called is undefined");
  const Callable *callable = callee.callable();
  if (!callable)
    return wrong(std::string("a value of type ") + type_name(callee) + " cannot be called");
  CUGRT_ASSIGN(const Given given, arguments(expression.arguments));
  machine_.work(1);
  if (callable->macro)
    return call_macro(*callable->macro, given);
  Result<Value> made = callable->self.is_undefined()
                           ? call_function(callable->name, given)
                           : call_method(machine_, callable->self, callable->name, given);
  if (!made.ok() && made.status().code() == Code::invalid_argument &&
      callable->name != "raise_exception")
    return made.take_status().in(callable->name + "()");
  return made;
}

Result<Value> Evaluator::call_macro(const Macro &macro, const Given &given) {
  const Statement &statement = macro.statement;
  const std::shared_ptr<Scope> outer = scope_;
  const std::string names = ir::joined(statement.parameters, &Parameter::name, " ");
  Result<Arguments> bound = Arguments::bind(given, names, 0);
  if (!bound.ok())
    return bound.take_status().in("macro '" + statement.name + "'");
  enter_scope(macro.scope);
  const auto run = [&]() -> Result<Value> {
    for (size_t i = 0; i < statement.parameters.size(); ++i) {
      const Parameter &parameter = statement.parameters[i];
      Value value = undefined("the parameter '" + parameter.name + "' was not given");
      if (bound->at(i)) {
        value = *bound->at(i);
      } else if (parameter.preset) {
        CUGRT_ASSIGN(value, evaluate(*parameter.preset));
      }
      assign(parameter.name, std::move(value));
    }
    return written([&] { return execute(statement.body); });
  };
  Result<Value> made = run();
  scope_ = outer;
  return made;
}

Result<Value> Evaluator::call_function(std::string_view name, const Given &given) {
  if (name == "range")
    return range(given);
  if (name == "dict")
    return make_dict_of(given);
  if (name == "namespace")
    return make_namespace(given);
  if (name == "strftime_now")
    return format_time(given);
  CUGRT_ASSIGN(const Arguments bound, Arguments::bind(given, "message", 1)); // raise_exception
  TextBuilder message(machine_);
  print(message, *bound.at(0));
  return wrong(utf8_of(message.take()).substr(0, 1000));
}

Result<Value> Evaluator::range(const Given &given) {
  CUGRT_ASSIGN(const Arguments bound, Arguments::bind(given, "start stop step", 1));
  CUGRT_ASSIGN(int64_t first, bound.integer(0, 0));
  CUGRT_ASSIGN(int64_t last, bound.integer(1, 0));
  CUGRT_ASSIGN(const int64_t step, bound.integer(2, 1));
  if (!bound.at(1))
    last = std::exchange(first, 0);
  if (step == 0)
    return wrong("the step is not 0");
  std::vector<Value> values;
  for (int64_t at = first; step > 0 ? at < last : at > last;) {
    if (static_cast<int64_t>(values.size()) == kMaxRange)
      return Status::error(Code::out_of_range,
                           "a range has at most " + std::to_string(kMaxRange) + " numbers");
    values.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at))
      break;
  }
  machine_.work(values.size());
  return machine_.list(ListKind::range, std::move(values));
}

/// dict(other, name=value..).
Result<Value> Evaluator::make_dict_of(const Given &given) {
  Dict::Entries entries;
  if (given.plain.size() > 1 || (given.plain.size() == 1 && !given.plain[0].dict()))
    return wrong("it takes one dict, and values with names");
  if (!given.plain.empty())
    entries = given.plain[0].dict()->entries;
  for (const auto &[name, value] : given.named) {
    const Value key = machine_.text(name);
    const auto old = std::ranges::find_if(
        entries, [&](const auto &entry) { return equal(machine_, entry.first, key); });
    if (old != entries.end())
      old->second = value;
    else
      entries.emplace_back(key, value);
  }
  return machine_.dict(std::move(entries));
}

Result<Value> Evaluator::make_namespace(const Given &given) {
  CUGRT_ASSIGN(const Value fields, make_dict_of(given));
  auto space = std::make_shared<Namespace>();
  for (const auto &[key, value] : fields.dict()->entries)
    if (key.text())
      space->fields.emplace_back(utf8_of(*key.text()), value);
  spaces_.push_back(space);
  machine_.work(16);
  return Value(std::move(space));
}

Result<Value> Evaluator::format_time(const Given &given) {
  CUGRT_ASSIGN(const Arguments bound, Arguments::bind(given, "format", 1));
  CUGRT_ASSIGN(const Text format, bound.text(0));
  const std::time_t now = now_ ? now_ : std::time(nullptr);
  std::tm parts{};
  char room[1024] = "";
  if (!localtime_r(&now, &parts) || format.size() > 200)
    return wrong("the format of a time is longer than 200 characters");
  const size_t size = std::strftime(room, sizeof room, utf8_of(format).c_str(), &parts);
  return machine_.text(std::string_view(room, size));
}

} // namespace cugrt::llm::jinja
