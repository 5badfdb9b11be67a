// Tests of values; see methods.h.
#include "fronts/llm/jinja_values/methods.h"

#include <algorithm>

namespace cugrt::llm::jinja {

namespace {

enum class TestKind : uint8_t {
  defined,
  undefined,
  none,
  boolean,
  yes,
  no,
  integer,
  real,
  number,
  string,
  mapping,
  sequence,
  iterable,
  callable,
  odd,
  even,
  divisible,
  lower,
  upper,
  same,
  filter,
  test,
  compares,
};

struct TestRow {
  std::string_view name;
  TestKind kind;
  std::string_view sign = {}; // of a comparison
};

constexpr TestRow kTests[] = {
    {"defined", TestKind::defined},
    {"undefined", TestKind::undefined},
    {"none", TestKind::none},
    {"boolean", TestKind::boolean},
    {"true", TestKind::yes},
    {"false", TestKind::no},
    {"integer", TestKind::integer},
    {"float", TestKind::real},
    {"number", TestKind::number},
    {"string", TestKind::string},
    {"mapping", TestKind::mapping},
    {"sequence", TestKind::sequence},
    {"iterable", TestKind::iterable},
    {"callable", TestKind::callable},
    {"odd", TestKind::odd},
    {"even", TestKind::even},
    {"divisibleby", TestKind::divisible},
    {"lower", TestKind::lower},
    {"upper", TestKind::upper},
    {"sameas", TestKind::same},
    {"filter", TestKind::filter},
    {"test", TestKind::test},
    {"in", TestKind::compares, "in"},
    {"==", TestKind::compares, "=="},
    {"eq", TestKind::compares, "=="},
    {"equalto", TestKind::compares, "=="},
    {"!=", TestKind::compares, "!="},
    {"ne", TestKind::compares, "!="},
    {"<", TestKind::compares, "<"},
    {"lt", TestKind::compares, "<"},
    {"lessthan", TestKind::compares, "<"},
    {"<=", TestKind::compares, "<="},
    {"le", TestKind::compares, "<="},
    {">", TestKind::compares, ">"},
    {"gt", TestKind::compares, ">"},
    {"greaterthan", TestKind::compares, ">"},
    {">=", TestKind::compares, ">="},
    {"ge", TestKind::compares, ">="},
};

bool is_filter(const Value &name) {
  constexpr std::string_view kOthers[] = {"map",        "select",     "reject",
                                          "selectattr", "rejectattr", "format"};
  const std::string known = name.text() ? utf8_of(*name.text()) : "";
  return std::ranges::count(kOthers, known) > 0 ||
         std::ranges::count(value_filters(), known, &Filter::name) > 0 ||
         std::ranges::count(list_filters(), known, &Filter::name) > 0;
}

bool is_test(const Value &name) {
  return name.text() && std::ranges::count(kTests, utf8_of(*name.text()), &TestRow::name) > 0;
}

Result<bool> is_divisible(Machine &machine, const Value &of, int64_t by, int64_t rest) {
  CUGRT_ASSIGN(const Value left, binary(machine, "%", of, by));
  return is_equal(left, rest);
}

bool is_same(Machine &machine, const Value &a, const Value &b) {
  return a.held().index() == b.held().index() && equal(machine, a, b);
}

Result<bool> has_case(Machine &machine, const Value &of, std::string_view method) {
  CUGRT_ASSIGN(const Value found, call_method(machine, to_text(machine, of), method, {}));
  return is_true(found);
}

Result<bool> passes(Machine &machine, const TestRow &test, const Value &of, const Value *with) {
  const List *list = of.list();
  const bool *boolean = of.get<bool>();
  switch (test.kind) {
  case TestKind::defined:
    return !of.is_undefined();
  case TestKind::undefined:
    return of.is_undefined();
  case TestKind::none:
    return of.is_none();
  case TestKind::boolean:
    return boolean != nullptr;
  case TestKind::yes:
    return boolean && *boolean;
  case TestKind::no:
    return boolean && !*boolean;
  case TestKind::integer:
    return of.get<int64_t>() != nullptr;
  case TestKind::real:
    return of.get<double>() != nullptr;
  case TestKind::number:
    return of.is_number();
  case TestKind::string:
    return of.text() != nullptr;
  case TestKind::mapping:
    return of.dict() != nullptr;
  case TestKind::sequence:
    return of.text() || of.dict() || of.is_undefined() || (list && list->kind <= ListKind::range);
  case TestKind::iterable:
    return of.text() || of.dict() || of.is_undefined() || list;
  case TestKind::callable:
    return of.callable() != nullptr;
  case TestKind::odd:
    return is_divisible(machine, of, 2, 1);
  case TestKind::even:
    return is_divisible(machine, of, 2, 0);
  case TestKind::divisible: {
    CUGRT_ASSIGN(const Value rest, binary(machine, "%", of, *with));
    return is_equal(rest, int64_t(0));
  }
  case TestKind::lower:
    return has_case(machine, of, "islower");
  case TestKind::upper:
    return has_case(machine, of, "isupper");
  case TestKind::same:
    return is_same(machine, of, *with);
  case TestKind::filter:
    return is_filter(of);
  case TestKind::test:
    return is_test(of);
  case TestKind::compares:
    return holds(machine, test.sign, of, *with);
  }
  return false;
}

} // namespace

Result<bool> apply_test(Machine &machine, std::string_view name, const Value &of,
                        const Given &given) {
  machine.work(1);
  const auto *test = std::ranges::find(kTests, name, &TestRow::name);
  if (test == std::end(kTests))
    return Status::error(Code::unsupported, "the test '" + std::string(name) + "' is not known");
  const bool wants_value = test->kind == TestKind::divisible || test->kind == TestKind::same ||
                           test->kind == TestKind::compares;
  if (given.plain.size() + given.named.size() != wants_value)
    return wrong("the test '" + std::string(name) + "' takes " +
                 (wants_value ? "one argument" : "no argument"));
  const Value *with = !wants_value          ? nullptr
                      : given.plain.empty() ? &given.named[0].second
                                            : &given.plain[0];
  return passes(machine, *test, of, with);
}

} // namespace cugrt::llm::jinja
