// If, Loop and Scan.
//
// A condition that is known takes its branch alone; one of symbols is an `if` whose choice is part
// of the key, one on the device a conditional. Loops whose number of turns is known are written
// out.
#include "import/onnx/call.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

constexpr int64_t kMostTurns = 64;

const Graph *graph_of(Call &c, std::string_view name) {
  const AttributeView *one = c.attribute(name);
  if (one && one->graph)
    return one->graph.get();
  c.w.fail(Code::parse_error, "there is no subgraph '" + std::string(name) + "'");
  return nullptr;
}

/// The body's results, with these inputs.
std::vector<EntryPtr> inlined(Call &c, const Graph &graph, const std::vector<EntryPtr> &inputs) {
  std::vector<EntryPtr> results;
  c.w.push_scope();
  for (size_t i = 0; i < graph.inputs.size() && i < inputs.size(); ++i)
    c.w.define(graph.inputs[i].name, inputs[i]);
  c.w.graph_body(graph);
  for (const ValueInfo &info : graph.outputs) {
    results.push_back(c.failed() ? std::make_shared<Entry>() : c.w.find(info.name));
    if (results.back()->missing)
      c.w.fail(Code::unsupported, "its subgraph has nodes that cannot be imported");
  }
  c.w.pop_scope();
  return results;
}

struct Branch {
  uint32_t block = 0;
  std::vector<V> results, captures;
};

Branch branch(Call &c, const Graph &graph) {
  Branch out;
  std::vector<V> none;
  c.w.begin_block({}, none);
  for (const EntryPtr &entry : inlined(c, graph, {})) {
    V v = c.failed() ? V() : c.w.device(*entry);
    if (v.valid() && !c.failed()) // a value of its own
      v = c.op(Op::cast, {v}, {attr("dtype", ir::DTypeLiteral(c.dtype(v)))});
    out.results.push_back(v);
  }
  out.captures = c.w.end_block(out.results, &out.block);
  return out;
}

void if_(Call &c) {
  const Graph *yes = graph_of(c, "then_branch"), *no = graph_of(c, "else_branch");
  const EntryPtr condition = c.required(0);
  if (c.failed() || !yes || !no)
    return;
  const Host *host = c.w.host(*condition, Importer::Need::condition);
  if (c.failed())
    return;
  if (host && host->ints.size() == 1)
    if (const auto known = c.known(host->ints[0])) {
      const std::vector<EntryPtr> results = inlined(c, *known ? *yes : *no, {});
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
  const Branch first = branch(c, *yes), second = branch(c, *no);
  std::vector<ir::TypeId> types;
  bool alike = first.results.size() == second.results.size();
  for (size_t i = 0; alike && i < first.results.size() && !c.failed(); ++i) {
    types.push_back(c.w.builder().function().value(first.results[i]).type);
    alike = types.back() == c.w.builder().function().value(second.results[i]).type;
  }
  if (!c.failed() && !alike) {
    if (operand.kind == ir::Operand::Kind::expr)
      c.w.need_constant(operand.expr());
    c.unsupported("branches whose results have different shapes");
  }
  if (c.failed())
    return;
  std::vector<ir::Operand> operands = {operand};
  std::vector<V> captured;
  for (const Branch *one : {&first, &second})
    for (V v : one->captures)
      if (std::find(captured.begin(), captured.end(), v) == captured.end())
        captured.push_back(v);
  for (V v : captured)
    operands.push_back(ir::Operand::of(v));
  const V result = c.w.append(ir::BindingKind::if_, operands, {}, types, {first.block, 2});
  for (uint32_t i = 0; i < types.size(); ++i)
    c.result(V{result.index + i}, i);
}

V stacked(Call &c, const std::vector<V> &parts, size_t axis) {
  std::vector<V> wide;
  for (V v : parts) {
    Dims d = c.dims(v);
    d.insert(d.begin() + ptrdiff_t(std::min(axis, d.size())), c.constant(1));
    wide.push_back(c.reshape(v, d));
  }
  return c.failed() || wide.empty() ? V() : c.concat(wide, axis);
}

void loop(Call &c) {
  const Graph *body = graph_of(c, "body");
  if (!body)
    return;
  int64_t turns = kMostTurns + 1;
  if (c.has(0)) {
    const Ints most = c.constants(0);
    turns = most.empty() ? 0 : most[0];
  }
  EntryPtr condition = c.entry(1);
  std::vector<EntryPtr> carried;
  for (size_t i = 2; i < c.input_count(); ++i)
    carried.push_back(c.required(i));
  std::vector<std::vector<V>> scans(
      body->outputs.size() > carried.size() + 1 ? body->outputs.size() - 1 - carried.size() : 0);
  for (int64_t turn = 0; turn < turns && !c.failed(); ++turn) {
    if (condition) {
      const Host *runs = c.w.host(*condition, Importer::Need::condition);
      if (!runs || runs->ints.size() != 1 || !c.known(runs->ints[0]))
        return c.unsupported("a loop whose condition is computed on the device");
      if (!*c.known(runs->ints[0]))
        break;
    }
    if (turn == kMostTurns)
      return c.unsupported("a loop of more than " + std::to_string(kMostTurns) + " turns");
    auto number = std::make_shared<Entry>();
    number->host = Host{DType::i64, {}, {c.constant(turn)}, {}};
    auto goes_on = std::make_shared<Entry>();
    goes_on->host = Host{DType::boolean, {}, {c.constant(1)}, {}};
    std::vector<EntryPtr> inputs = {number, goes_on};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const std::vector<EntryPtr> results = inlined(c, *body, inputs);
    if (c.failed() || results.size() < carried.size() + 1)
      return;
    condition = c.has(1) || !c.has(0) ? results[0] : nullptr;
    carried.assign(results.begin() + 1, results.begin() + 1 + ptrdiff_t(carried.size()));
    for (size_t i = 0; i < scans.size(); ++i)
      scans[i].push_back(c.w.device(*results[1 + carried.size() + i]));
  }
  for (size_t i = 0; i < carried.size(); ++i)
    c.result(carried[i], i);
  for (size_t i = 0; i < scans.size() && !c.failed(); ++i)
    if (c.wants(carried.size() + i)) {
      if (scans[i].empty())
        return c.unsupported("a loop without turns whose results are collected");
      c.result(stacked(c, scans[i], 0), carried.size() + i);
    }
}

void scan(Call &c) {
  const Graph *body = graph_of(c, "body");
  if (!body || c.w.opset() < 9)
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
  int64_t turns = 0;
  for (size_t i = 0; i < count; ++i) {
    sources.push_back(c.value(states + i));
    if (c.failed() || in_axes.size() != count || backwards.size() != count ||
        out_axes.size() != outs || out_backwards.size() != outs)
      return c.w.fail(Code::parse_error, "axes or directions are not one for each scanned value");
    turns = c.number_of(c.dims(sources[i])[c.axis(in_axes[i], c.rank(sources[i]))],
                        "the number of turns");
  }
  if (turns > kMostTurns || turns == 0)
    return c.unsupported("a scan of no turn, or more than " + std::to_string(kMostTurns));
  std::vector<std::vector<V>> scans(outs);
  for (int64_t turn = 0; turn < turns && !c.failed(); ++turn) {
    std::vector<EntryPtr> inputs = carried;
    for (size_t i = 0; i < count; ++i) {
      const size_t axis = c.axis(in_axes[i], c.rank(sources[i]));
      Dims d = c.dims(sources[i]);
      V one = c.slice(sources[i], axis, c.constant(backwards[i] ? turns - 1 - turn : turn),
                      c.constant(1));
      d.erase(d.begin() + ptrdiff_t(axis));
      auto entry = std::make_shared<Entry>();
      entry->device = c.reshape(one, d);
      inputs.push_back(std::move(entry));
    }
    const std::vector<EntryPtr> results = inlined(c, *body, inputs);
    if (c.failed() || results.size() < states + outs)
      return;
    carried.assign(results.begin(), results.begin() + ptrdiff_t(states));
    for (size_t i = 0; i < outs; ++i)
      scans[i].push_back(c.w.device(*results[states + i]));
  }
  for (size_t i = 0; i < states; ++i)
    c.result(carried[i], i);
  for (size_t i = 0; i < outs && !c.failed(); ++i) {
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
