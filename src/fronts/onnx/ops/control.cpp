// If, Loop and Scan.
//
// A condition that is known takes its branch alone; one of symbols is an `if` whose choice is part
// of the key, one on the device a conditional. Loops of few turns whose number is known are written
// out, others are a `while` on the device:
//
//   while (i = 0, go_on, values.., collected..) { yield i < turns and go_on }
//   do { the body; yield i + 1, its condition, its values.., collected with row i.. }
#include "fronts/onnx/call.h"

#include <algorithm>
#include <functional>

namespace cugrt::onnx {

V wide(Call &c, Entry &entry) {
  if (entry.narrow != Narrow::none)
    c.unsupported("values of dtype " + dtype_name(entry.narrow) +
                  " that a branch or loop of the device has, or a sequence joins");
  if (entry.sequence)
    c.unsupported("a sequence of tensors that a branch or loop of the device has");
  return c.w.device(entry);
}

namespace {

const Graph *graph_of(Call &c, std::string_view name) {
  const AttributeView *one = c.attribute(name);
  if (one && one->graph)
    return one->graph.get();
  c.w.fail(Code::parse_error, "there is no subgraph '" + std::string(name) + "'");
}

struct Branch {
  uint32_t block = 0;
  std::vector<V> results, captures;
};

Branch branch(Call &c, const Graph &graph) {
  Branch out;
  std::vector<V> none;
  c.w.begin_block({}, none);
  for (const EntryPtr &entry : c.w.inlined(graph, {})) {
    const V v = wide(c, *entry);
    out.results.push_back(v.valid() ? c.copied(v) : v);
  }
  out.captures = c.w.end_block(out.results, &out.block);
  return out;
}

/// yes where the condition, an expression, is not 0, else no: both are there, one behind the other,
/// and the elements of one are gathered.
V chosen(Call &c, E condition, V yes, V no) {
  if (c.dtype(yes) != c.dtype(no) || c.rank(yes) != c.rank(no))
    c.unsupported("branches whose results have different ranks or dtypes");
  auto select = [&](E a, E b) {
    return a == b ? a : c.w.exprs().make(ir::ExprKind::select, condition, a, b);
  };
  const Dims a = c.dims(yes), b = c.dims(no);
  Dims dims;
  for (size_t i = 0; i < a.size(); ++i)
    dims.push_back(select(a[i], b[i]));
  const E first = c.product(a);
  V both = c.concat({c.reshape(yes, {first}), c.reshape(no, {c.product(b)})}, 0);
  V at = c.counting(c.product(dims));
  at = c.binary(Op::add, at, c.whole(select(c.constant(0), first)));
  return c.reshape(c.gather(both, at, 0), dims);
}

void if_(Call &c) {
  const Graph *yes = graph_of(c, "then_branch"), *no = graph_of(c, "else_branch");
  const EntryPtr condition = c.required(0);
  const Host *host = c.w.host(*condition, Importer::Need::condition);
  if (host && host->ints.size() == 1)
    if (const auto known = c.known(host->ints[0])) {
      const std::vector<EntryPtr> results = c.w.inlined(*known ? *yes : *no, {});
      for (size_t i = 0; i < results.size(); ++i)
        c.result(results[i], i);
      return;
    }
  ir::Operand operand;
  if (host && host->ints.size() == 1) {
    operand = ir::Operand::of(host->ints[0]);
  } else {
    V v = c.value(0);
    operand = ir::Operand::of(c.rank(v) ? c.reshape(v, {}) : v);
  }
  if (c.w.takes_both(*yes)) {
    const E which =
        operand.kind == ir::Operand::Kind::expr
            ? operand.expr()
            : c.w.count_on_host(c.reshape(c.cast(c.value(0), DType::i64), {c.constant(1)}),
                                c.constant(1));
    const auto first = c.w.inlined(*yes, {}), second = c.w.inlined(*no, {});
    for (size_t i = 0; i < first.size() && i < second.size(); ++i)
      c.result(chosen(c, which, wide(c, *first[i]), wide(c, *second[i])), i);
    return;
  }
  const Branch first = branch(c, *yes), second = branch(c, *no);
  std::vector<ir::TypeId> types;
  bool alike = first.results.size() == second.results.size();
  for (size_t i = 0; alike && i < first.results.size(); ++i) {
    types.push_back(c.w.builder().function().value(first.results[i]).type);
    alike = types.back() == c.w.builder().function().value(second.results[i]).type;
  }
  if (!alike) {
    if (operand.kind == ir::Operand::Kind::expr)
      c.w.need_constant(operand.expr());
    c.w.take_both(*yes);
  }
  std::vector<ir::Operand> operands = {operand};
  std::set<V> captured;
  for (const Branch *one : {&first, &second})
    for (V v : one->captures)
      if (captured.insert(v).second)
        operands.push_back(ir::Operand::of(v));
  const V result = c.w.append(ir::BindingKind::if_, operands, {}, types, {first.block, 2});
  for (uint32_t i = 0; i < types.size(); ++i)
    c.result(V{result.index + i}, i);
}

EntryPtr entry_of(V v) {
  auto entry = std::make_shared<Entry>();
  entry->device = v;
  return entry;
}

EntryPtr entry_of(Host host) {
  auto entry = std::make_shared<Entry>();
  entry->host = std::move(host);
  return entry;
}

/// The condition that a turn of a loop is given: there is no turn where it is not true.
EntryPtr goes_on(Call &c) { return entry_of(Host{DType::boolean, {}, {c.constant(1)}, {}}); }

EntryPtr number_of_turn(Call &c, int64_t turn) {
  return entry_of(Host{DType::i64, {}, {c.constant(turn)}, {}});
}

/// A loop on the device.
struct DeviceLoop {
  E count{};                     // of turns, where the host knows it; what is collected needs it
  V limit{}, go_on{};            // one element each: turns at most, i64; whether the first one runs
  std::vector<V> initial{};      // values that are carried
  bool has_condition = true;     // the body's first result
  bool goes_on = false;          // whatever the condition is
  std::vector<bool> backwards{}; // of what is collected: row 0 is that of the last turn
  /// The body's inputs in a turn: its number (a scalar), the values.
  std::function<std::vector<EntryPtr>(V, const std::vector<V> &)> inputs{};
};

/// The values at the end, and the collected rows, along the first axis.
std::vector<V> on_device(Call &c, const Graph &body, const DeviceLoop &loop) {
  const size_t values = loop.initial.size(), before = loop.has_condition;
  const Dims one = {c.constant(1)};
  auto own = [&](V v) { return v.valid() ? c.copied(v) : v; };
  std::vector<V> begin = {c.broadcast(c.scalar(DType::i64, 0), one),
                          loop.go_on.valid() ? loop.go_on
                                             : c.broadcast(c.scalar(DType::boolean, 1), one)};
  begin.insert(begin.end(), loop.initial.begin(), loop.initial.end());
  if (!loop.backwards.empty()) { // a turn beforehand tells the types of rows
    const auto results = c.w.inlined(body, loop.inputs(c.reshape(begin[0], {}), loop.initial));
    for (size_t i = 0; i < loop.backwards.size(); ++i) {
      V row = wide(c, *results.at(before + values + i));
      Dims d = c.dims(row);
      d.insert(d.begin(), loop.count);
      begin.push_back(c.broadcast(c.like(row, 0), d));
    }
  }
  std::vector<ir::TypeId> types;
  for (V &v : begin) {
    v = own(v);
    types.push_back(c.w.builder().function().value(v).type);
  }
  std::vector<V> params;
  uint32_t first = 0, second = 0;
  c.w.begin_block(types, params);
  V runs = params[1];
  if (loop.limit.valid())
    runs = c.binary(Op::logical_and, c.binary(Op::less, params[0], loop.limit), runs);
  std::vector<V> captured = c.w.end_block({runs}, &first);
  params.clear();
  c.w.begin_block(types, params);
  const std::vector<V> now(params.begin() + 2, params.begin() + 2 + ptrdiff_t(values));
  V number = c.reshape(params[0], {});
  std::vector<V> next = {c.binary(Op::add, params[0], c.like(params[0], 1)), params[1]};
  const std::vector<EntryPtr> results = c.w.inlined(body, loop.inputs(number, now));
  if (results.size() < before + values + loop.backwards.size())
    c.w.fail(Code::parse_error, "its subgraph has too few results");
  if (loop.has_condition && !loop.goes_on)
    next[1] = c.reshape(c.cast(wide(c, *results[0]), DType::boolean), one);
  for (size_t i = 0; i < values; ++i) {
    V v = wide(c, *results[before + i]);
    if (c.rank(v) != c.rank(now[i]) || c.dtype(v) != c.dtype(now[i]))
      c.unsupported("a loop whose values change their rank or dtype");
    next.push_back(c.w.match(v, c.dims(now[i])));
  }
  for (size_t i = 0; i < loop.backwards.size(); ++i) {
    V row = wide(c, *results[before + values + i]), all = params[2 + values + i];
    Dims column(c.rank(all), c.constant(1));
    column[0] = loop.count;
    V place = params[0];
    if (loop.backwards[i]) {
      Host last{DType::i64, {1}, {c.w.exprs().sub(loop.count, c.constant(1))}, {}};
      place = c.binary(Op::sub, c.w.materialize(last), place);
    }
    V at = c.counting(loop.count);
    next.push_back(c.op(Op::where, {c.reshape(c.binary(Op::equal, at, place), column), row, all}));
  }
  for (V &v : next)
    v = own(v);
  std::set<V> known(captured.begin(), captured.end());
  for (V v : c.w.end_block(next, &second))
    if (known.insert(v).second)
      captured.push_back(v);
  std::vector<ir::Operand> operands;
  for (const auto *list : {&begin, &captured})
    for (V v : *list)
      operands.push_back(ir::Operand::of(v));
  const V made = c.w.append(ir::BindingKind::while_, operands, {}, types, {first, 2},
                            static_cast<uint32_t>(types.size()));
  std::vector<V> out;
  for (uint32_t i = 2; i < types.size(); ++i)
    out.push_back({made.index + i});
  return out;
}

/// A loop of many turns, or with a condition on the device: at most `most` turns, or as many.
void loop_on_device(Call &c, const Graph &given, std::optional<E> most, bool all) {
  const Dims one = {c.constant(1)};
  const std::vector<Appended> appended = appended_in(c, given);
  const Graph &body = appended.empty() ? given : collecting(c, given, appended);
  std::vector<size_t> places; // of the loop's results, in order of what on_device gives
  DeviceLoop loop;
  if (most) {
    loop.count = *most;
    if (c.w.range(loop.count).lower < 0)
      loop.count = c.w.exprs().max(loop.count, c.constant(0));
    loop.limit = c.w.materialize({DType::i64, {1}, {loop.count}, {}});
  } else if (c.has(0)) {
    loop.limit = c.reshape(c.cast(c.value(0), DType::i64), one);
  }
  loop.goes_on = all || (!c.has(1) && c.has(0));
  if (c.has(1) && !all)
    loop.go_on = c.reshape(c.cast(c.value(1), DType::boolean), one);
  for (size_t i = 0; i + 2 < c.input_count(); ++i)
    if (std::none_of(appended.begin(), appended.end(),
                     [i](const Appended &sequence) { return sequence.place == i; })) {
      loop.initial.push_back(wide(c, *c.required(i + 2)));
      places.push_back(i);
    }
  const size_t values = loop.initial.size();
  if (body.outputs.size() > values + 1)
    loop.backwards.assign(body.outputs.size() - 1 - values, false);
  if (!loop.backwards.empty() && !all)
    return c.unsupported("a loop that collects results, as many as the device decides");
  loop.inputs = [&c](V number, const std::vector<V> &now) {
    std::vector<EntryPtr> inputs = {entry_of(number), goes_on(c)};
    for (V v : now)
      inputs.push_back(entry_of(v));
    return inputs;
  };
  const std::vector<V> made = on_device(c, body, loop);
  for (size_t i = places.size() + appended.size(); i < c.node.outputs.size(); ++i)
    places.push_back(i);
  for (size_t i = 0; i < places.size() && i < made.size(); ++i)
    c.result(made[i], places[i]);
  for (size_t i = 0; i < appended.size(); ++i) {
    auto sequence = std::make_shared<Entry>();
    sequence->sequence = Sequence{{}, made.at(made.size() - appended.size() + i)};
    c.result(std::move(sequence), appended[i].place);
  }
}

/// The rows that a loop without turns collects: none, of the shape that the body would give.
V no_rows(Call &c, const Graph &body, const std::vector<EntryPtr> &carried, size_t which) {
  std::vector<EntryPtr> inputs = {number_of_turn(c, 0), goes_on(c)};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  const std::vector<EntryPtr> results = c.w.inlined(body, inputs);
  V row = wide(c, *results.at(1 + carried.size() + which));
  Dims dims = c.dims(row);
  dims.insert(dims.begin(), c.constant(0));
  return c.broadcast(c.like(row, 0), dims);
}

void loop(Call &c) {
  const Graph *body = graph_of(c, "body");
  EntryPtr condition = c.entry(1);
  std::vector<EntryPtr> carried;
  for (size_t i = 2; i < c.input_count(); ++i)
    carried.push_back(c.required(i));
  const EntryPtr given = c.entry(0);
  const Host *most = given ? c.w.host(*given, Importer::Need::condition) : nullptr;
  const std::optional<E> all = turns_of(c, *body, carried);
  const std::optional<E> limit = all ? all : most ? std::optional(most->ints.at(0)) : std::nullopt;
  const auto known = limit ? c.known(*limit) : std::nullopt;
  if (all ? !known || *known > kMostSteps : given && !known)
    return loop_on_device(c, *body, limit, all.has_value());
  const int64_t turns = known.value_or(kMostSteps + 1);
  std::vector<std::vector<V>> scans(
      body->outputs.size() > carried.size() + 1 ? body->outputs.size() - 1 - carried.size() : 0);
  for (int64_t turn = 0; turn < turns; ++turn) {
    if (condition) {
      const Host *runs = c.w.host(*condition, Importer::Need::condition);
      if (!runs || runs->ints.size() != 1 || !c.known(runs->ints[0]))
        return loop_on_device(c, *body, limit, false); // no turn that is written out is used
      if (!*c.known(runs->ints[0]))
        break;
    }
    if (turn == kMostSteps)
      return loop_on_device(c, *body, limit, false);
    std::vector<EntryPtr> inputs = {number_of_turn(c, turn), goes_on(c)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const std::vector<EntryPtr> results = c.w.inlined(*body, inputs);
    if (results.size() < carried.size() + 1)
      return;
    condition = c.has(1) || !c.has(0) ? results[0] : nullptr;
    carried.assign(results.begin() + 1, results.begin() + 1 + ptrdiff_t(carried.size()));
    for (size_t i = 0; i < scans.size(); ++i)
      scans[i].push_back(wide(c, *results[1 + carried.size() + i]));
  }
  for (size_t i = 0; i < carried.size(); ++i)
    c.result(carried[i], i);
  for (size_t i = 0; i < scans.size(); ++i)
    if (c.wants(carried.size() + i)) {
      c.result(scans[i].empty() ? no_rows(c, *body, carried, i) : stacked(c, scans[i], 0),
               carried.size() + i);
    }
}

void scan(Call &c) {
  const Graph *body = graph_of(c, "body");
  if (c.w.opset() < 9)
    return c.unsupported("Scan before opset 9");
  const auto count =
      static_cast<size_t>(std::clamp<int64_t>(c.integer("num_scan_inputs", 0), 0, 1 << 16));
  if (count > c.input_count() || count == 0)
    return c.w.fail(Code::parse_error, "num_scan_inputs is not a number of inputs");
  const size_t states = c.input_count() - count;
  const Ints in_axes = c.integers("scan_input_axes", Ints(count, 0)),
             backwards = c.integers("scan_input_directions", Ints(count, 0));
  const size_t outs = body->outputs.size() > states ? body->outputs.size() - states : 0;
  const Ints out_axes = c.integers("scan_output_axes", Ints(outs, 0)),
             out_backwards = c.integers("scan_output_directions", Ints(outs, 0));
  std::vector<EntryPtr> carried;
  for (size_t i = 0; i < states; ++i)
    carried.push_back(c.required(i));
  std::vector<V> sources;
  E length{};
  for (size_t i = 0; i < count; ++i) {
    sources.push_back(c.value(states + i));
    if (in_axes.size() != count || backwards.size() != count || out_axes.size() != outs ||
        out_backwards.size() != outs)
      return c.w.fail(Code::parse_error, "axes or directions are not one for each scanned value");
    const E have = c.dims(sources[i])[c.axis(in_axes[i], c.rank(sources[i]))];
    length = length.valid() && c.known(length) ? length : have;
  }
  const int64_t turns = c.known(length).value_or(0);
  if (turns > kMostSteps || turns < 1) {
    DeviceLoop loop;
    loop.count = length;
    loop.limit = c.w.materialize({DType::i64, {1}, {length}, {}});
    loop.has_condition = false;
    for (const EntryPtr &entry : carried)
      loop.initial.push_back(wide(c, *entry));
    for (int64_t one : out_backwards)
      loop.backwards.push_back(one != 0);
    loop.inputs = [&](V number, const std::vector<V> &now) {
      std::vector<EntryPtr> inputs;
      for (V v : now)
        inputs.push_back(entry_of(v));
      for (size_t i = 0; i < count; ++i) {
        V place = number;
        if (backwards[i])
          place = c.binary(Op::sub, c.whole(c.w.exprs().sub(length, c.constant(1))), place);
        inputs.push_back(
            entry_of(c.gather(sources[i], place, c.axis(in_axes[i], c.rank(sources[i])))));
      }
      return inputs;
    };
    const std::vector<V> made = on_device(c, *body, loop);
    for (size_t i = 0; i < made.size(); ++i) {
      V v = made[i];
      if (i >= states) { // what was collected goes to its axis
        Ints order;
        const size_t to = c.axis(out_axes[i - states], c.rank(v));
        for (size_t d = 1; d < c.rank(v); ++d)
          order.push_back(int64_t(d));
        order.insert(order.begin() + ptrdiff_t(to), 0);
        v = c.transpose(v, order);
      }
      c.result(v, i);
    }
    return;
  }
  std::vector<std::vector<V>> scans(outs);
  for (int64_t turn = 0; turn < turns; ++turn) {
    std::vector<EntryPtr> inputs = carried;
    for (size_t i = 0; i < count; ++i) {
      const size_t axis = c.axis(in_axes[i], c.rank(sources[i]));
      Dims d = c.dims(sources[i]);
      V one = c.slice(sources[i], axis, c.constant(backwards[i] ? turns - 1 - turn : turn),
                      c.constant(1));
      d.erase(d.begin() + ptrdiff_t(axis));
      inputs.push_back(entry_of(c.reshape(one, d)));
    }
    const std::vector<EntryPtr> results = c.w.inlined(*body, inputs);
    if (results.size() < states + outs)
      return;
    carried.assign(results.begin(), results.begin() + ptrdiff_t(states));
    for (size_t i = 0; i < outs; ++i)
      scans[i].push_back(wide(c, *results[states + i]));
  }
  for (size_t i = 0; i < states; ++i)
    c.result(carried[i], i);
  for (size_t i = 0; i < outs; ++i) {
    if (out_backwards[i])
      std::reverse(scans[i].begin(), scans[i].end());
    c.result(stacked(c, scans[i], c.axis(out_axes[i], c.rank(scans[i][0]) + 1)), states + i);
  }
}

} // namespace

void add_control(HandlerTable &table) {
  table["If"] = if_;
  table["Loop"] = loop;
  table["Scan"] = scan;
}

} // namespace cugrt::onnx
