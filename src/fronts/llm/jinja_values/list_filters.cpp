// Filters of lists and dicts; see methods.h.
#include "fronts/llm/jinja_values/methods.h"

#include <algorithm>

namespace cugrt::llm::jinja {

namespace {

/// The key that sorts and compares a value: an attribute of it, in lower case unless cases differ.
Result<Value> key_of(Machine &machine, const Value &value, const Value *attribute, bool has_cases) {
  Value key = value;
  if (attribute && !attribute->is_none()) {
    CUGRT_ASSIGN(key, attribute_at(machine, value, *attribute));
  }
  return key.text() && !has_cases ? change_case(machine, *key.text(), Case::lower) : key;
}

Result<std::vector<Value>> keys_of(Machine &machine, const std::vector<Value> &values,
                                   const Value *attribute, bool has_cases) {
  std::vector<Value> keys;
  for (const Value &value : values) {
    CUGRT_ASSIGN(Value key, key_of(machine, value, attribute, has_cases));
    keys.push_back(std::move(key));
    CUGRT_TRY(machine.check());
  }
  return keys;
}

/// The values in the order of their keys, of which each two have one.
Result<std::vector<Value>> sorted(Machine &machine, const std::vector<Value> &values,
                                  const std::vector<Value> &keys, bool is_reverse) {
  for (size_t i = 1; i < keys.size(); ++i)
    if (machine.may_compare(keys[0], keys[i]))
      CUGRT_TRY(compare(keys[0], keys[i]).take_status());
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  Status status;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    machine.work(1);
    if (!machine.may_compare(keys[a], keys[b]))
      return false;
    const auto compared = is_reverse ? compare(keys[b], keys[a]) : compare(keys[a], keys[b]);
    if (!compared.ok() && status.ok())
      status = compared.status().clone();
    return compared.ok() && *compared < 0;
  });
  CUGRT_TRY(std::move(status));
  std::vector<Value> made;
  for (size_t i : order)
    made.push_back(values[i]);
  return made;
}

Result<Value> sort_filter(Machine &machine, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  CUGRT_ASSIGN(const std::vector<Value> keys,
               keys_of(machine, values, given.at(2), given.truth(1, false)));
  CUGRT_ASSIGN(std::vector<Value> made, sorted(machine, values, keys, given.truth(0, false)));
  return machine.list(ListKind::list, std::move(made));
}

Result<Value> dictsort_filter(Machine &machine, const Value &of, const Arguments &given) {
  const Dict *dict = of.dict();
  CUGRT_ASSIGN(const Text by, given.text(1, U"key"));
  if (!dict || (by != U"key" && by != U"value"))
    return wrong(dict ? "a dict is sorted by key or value" : "it wants a dict");
  std::vector<Value> pairs;
  for (const auto &[key, value] : dict->entries)
    pairs.push_back(machine.list(ListKind::tuple, {key, value}));
  const Value at(int64_t(by == U"value"));
  CUGRT_ASSIGN(const std::vector<Value> keys, keys_of(machine, pairs, &at, given.truth(0, false)));
  CUGRT_ASSIGN(std::vector<Value> made, sorted(machine, pairs, keys, given.truth(2, false)));
  return machine.list(ListKind::list, std::move(made));
}

template <bool is_max>
Result<Value> extreme_filter(Machine &machine, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  CUGRT_ASSIGN(const std::vector<Value> keys,
               keys_of(machine, values, given.at(1), given.truth(0, false)));
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (!machine.may_compare(keys[i], keys[best]))
      return machine.check();
    CUGRT_ASSIGN(const int order, compare(keys[i], keys[best]));
    best = (is_max ? order > 0 : order < 0) ? i : best;
  }
  return values.empty() ? undefined("the list is empty") : values[best];
}

Result<Value> unique_filter(Machine &machine, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  CUGRT_ASSIGN(const std::vector<Value> keys,
               keys_of(machine, values, given.at(1), given.truth(0, false)));
  std::vector<Value> made, seen;
  for (size_t i = 0; i < values.size(); ++i) {
    machine.work(seen.size() / 8);
    CUGRT_TRY(machine.check());
    if (std::ranges::any_of(seen, [&](const Value &one) { return equal(machine, one, keys[i]); }))
      continue;
    seen.push_back(keys[i]);
    made.push_back(values[i]);
  }
  return machine.list(ListKind::generator, std::move(made));
}

Result<Value> first_filter(Machine &machine, const Value &of, const Arguments &) {
  if (const List *list = of.list();
      list && list->kind == ListKind::generator && list->given < list->values.size())
    return list->values[list->given++]; // the others stay in it
  if (const Text *text = of.text(); text && !text->empty())
    return machine.text(TextView(*text).substr(0, 1));
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  return values.empty() ? undefined("the list is empty") : values.front();
}

Result<Value> last_filter(Machine &machine, const Value &of, const Arguments &) {
  if (const Text *text = of.text(); text && !text->empty())
    return machine.text(TextView(*text).substr(text->size() - 1));
  if (const List *list = of.list();
      of.is_undefined() || (list && list->kind == ListKind::generator))
    return wrong(std::string("a value of type ") + type_name(of) + " has no last element");
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  return values.empty() ? undefined("the list is empty") : values.back();
}

Result<Value> list_filter(Machine &machine, const Value &of, const Arguments &) {
  CUGRT_ASSIGN(std::vector<Value> values, elements_of(machine, of));
  return machine.list(ListKind::list, std::move(values));
}

Result<Value> reverse_filter(Machine &machine, const Value &of, const Arguments &) {
  if (const Text *text = of.text())
    return machine.text(Text(text->rbegin(), text->rend()));
  CUGRT_ASSIGN(std::vector<Value> values, elements_of(machine, of));
  std::ranges::reverse(values);
  return machine.list(ListKind::generator, std::move(values));
}

Result<Value> items_filter(Machine &machine, const Value &of, const Arguments &) {
  std::vector<Value> pairs;
  if (!of.dict() && !of.is_undefined())
    return wrong(std::string("it wants a dict where a value of type ") + type_name(of) + " stands");
  if (const Dict *dict = of.dict())
    for (const auto &[key, value] : dict->entries)
      pairs.push_back(machine.list(ListKind::tuple, {key, value}));
  return machine.list(ListKind::generator, std::move(pairs));
}

Result<Value> join_filter(Machine &machine, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  TextBuilder out(machine);
  for (size_t i = 0; i < values.size() && !machine.is_over(); ++i) {
    Value value = values[i];
    if (given.has(1)) {
      CUGRT_ASSIGN(value, attribute_at(machine, value, *given.at(1)));
    }
    if (i > 0 && given.at(0))
      print(out, *given.at(0));
    print(out, value);
  }
  return machine.text(out.take());
}

Result<Value> sum_filter(Machine &machine, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  Value sum = given.at(1) ? *given.at(1) : Value(int64_t(0));
  for (const Value &value : values) {
    Value one = value;
    if (given.has(0)) {
      CUGRT_ASSIGN(one, attribute_at(machine, value, *given.at(0)));
    }
    if (sum.text())
      return wrong("texts have no sum");
    CUGRT_ASSIGN(sum, binary(machine, "+", sum, one));
    CUGRT_TRY(machine.check());
  }
  return sum;
}

Result<Value> batch_filter(Machine &machine, const Value &of, const Arguments &given) {
  CUGRT_ASSIGN(const std::vector<Value> values, elements_of(machine, of));
  CUGRT_ASSIGN(const int64_t size, given.integer(0, 1));
  if (size < 1 || size > 1000000)
    return wrong("a batch has from 1 to 1000000 elements");
  const auto count = static_cast<size_t>(size);
  std::vector<Value> batches;
  for (size_t at = 0; at < values.size() && !machine.is_over(); at += count) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(at);
    std::vector<Value> batch(begin,
                             begin + static_cast<ptrdiff_t>(std::min(count, values.size() - at)));
    if (given.has(1))
      batch.resize(count, *given.at(1));
    batches.push_back(machine.list(ListKind::list, std::move(batch)));
  }
  return machine.list(ListKind::generator, std::move(batches));
}

constexpr Filter kListFilters[] = {
    {"batch", "linecount fill_with", 1, batch_filter},
    {"dictsort", "case_sensitive by reverse", 0, dictsort_filter},
    {"first", "", 0, first_filter},
    {"items", "", 0, items_filter},
    {"join", "d attribute", 0, join_filter},
    {"last", "", 0, last_filter},
    {"list", "", 0, list_filter},
    {"max", "case_sensitive attribute", 0, extreme_filter<true>},
    {"min", "case_sensitive attribute", 0, extreme_filter<false>},
    {"reverse", "", 0, reverse_filter},
    {"sort", "reverse case_sensitive attribute", 0, sort_filter},
    {"sum", "attribute start", 0, sum_filter},
    {"unique", "case_sensitive attribute", 0, unique_filter},
};

} // namespace

std::span<const Filter> list_filters() { return kListFilters; }

} // namespace cugrt::llm::jinja
