// Values of which the device decides how much is there; see ops/counted.cpp for what makes them.
//
// Such a value may stay at its upper bound, and no run waits, while nothing but ops that move it
// along read it, up to results of the model. These then have their elements close together, and the
// count is one more result. Where anything else reads it, the import starts anew, and the host
// waits for the count.
//
//   NonZero ── Transpose ── result     [n, 2] of which `count` rows are there
//      └────── Mul                     the host must know: the node is among Learnt::waits
#include "fronts/onnx/call.h"

#include <algorithm>

namespace cugrt::onnx {

/// Place of an axis of x after an op that removes `axes`.
static std::optional<size_t> squeezed(const Ints &axes, size_t axis) {
  const std::set<int64_t> gone(axes.begin(), axes.end());
  if (gone.count(int64_t(axis)))
    return std::nullopt;
  return axis - size_t(std::distance(gone.begin(), gone.lower_bound(int64_t(axis))));
}

static std::optional<size_t> unsqueezed(Ints axes, size_t axis) {
  std::sort(axes.begin(), axes.end());
  for (int64_t added : axes)
    axis += added <= int64_t(axis);
  return axis;
}

/// Axis of the result that `axis` of an input becomes, where the op computes each row along it from
/// that row alone, whatever it holds.
static std::optional<size_t> axis_behind(Call &c, size_t input, size_t axis) {
  const std::string_view op = c.node.op;
  if (op == "Identity" || op == "Cast")
    return axis;
  const size_t rank = c.rank(c.value(0));
  if (op == "Transpose") {
    const Ints axes = c.integers("perm", {});
    const auto found = std::find(axes.begin(), axes.end(), int64_t(axis));
    return axes.empty() ? rank - 1 - axis : size_t(found - axes.begin());
  }
  if (op == "Gather") {
    const size_t along = c.axis(c.integer("axis", 0), rank);
    if (input == 1)
      return along + axis;
    if (along == axis)
      return std::nullopt;
    return along < axis ? axis - 1 + c.rank(c.value(1)) : axis;
  }
  if (op == "GatherND") {
    const bool is_row = input == 1 && axis + 1 < c.rank(c.value(1));
    return is_row && c.integer("batch_dims", 0) == 0 ? std::optional(axis) : std::nullopt;
  }
  const bool has_axes = c.attribute("axes") || c.has(1);
  if (input == 0 && has_axes && (op == "Squeeze" || op == "Unsqueeze")) {
    const Ints axes = c.attribute("axes") ? c.integers("axes", {}) : c.constants(1);
    return op == "Squeeze" ? squeezed(c.axes(axes, rank), axis)
                           : unsqueezed(c.axes(axes, rank + axes.size()), axis);
  }
  return std::nullopt;
}

bool Importer::may_stay_counted(const Node &node) const {
  const std::vector<Node> &own = model_.graph.nodes;
  return std::any_of(own.begin(), own.end(), [&](const Node &one) { return &one == &node; }) &&
         !learnt_.waits.count(&node);
}

void Importer::set_counted(std::string_view name, const Counted &counted) {
  const EntryPtr entry = find(name);
  if (counted.axis >= type(entry->device).dims.size())
    return fail(Code::parse_error, "an axis is outside of the value's rank");
  entry->counted = counted;
}

void Importer::wait_for(const Counted &counted) {
  learnt_.waits.insert(counted.node);
  restart_ = true;
  fail(Code::busy, "node '" + std::string(counted.node->name) + "' is to be counted on the host");
}

/// Whether an input is counted; then the node is done, or the import starts anew.
bool Importer::node_with_counted(const Node &node, Handler handler) {
  Call call(*this, node);
  std::optional<size_t> input;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (const EntryPtr entry = call.entry(i); entry && entry->counted) {
      if (input)
        wait_for(*call.entry(*input)->counted);
      input = i;
    }
  if (!input)
    return false;
  const Counted counted = *call.entry(*input)->counted;
  struct Taken { // also where an axis is refused
    bool &flag;
    ~Taken() { flag = false; }
  } taken{takes_counted_ = true};
  const std::optional<size_t> axis = axis_behind(call, *input, counted.axis);
  if (!axis)
    wait_for(counted);
  handle(node, handler);
  if (call.wants(0) && find(node.outputs[0])->device.valid())
    set_counted(node.outputs[0], {counted.count, *axis, counted.node});
  return true;
}

/// The elements that are there one after another, at the beginning.
V Importer::dense(V x, const Counted &counted) {
  static const Node none{};
  Call c(*this, none);
  const Dims dims = c.dims(x);
  const E one = constant(1);
  const E outer = c.product(dims.first(counted.axis));
  const E inner = c.product(dims.from(counted.axis + 1));
  if (outer == one)
    return x;
  const E all = c.product(dims);
  auto whole = [&](E value) { return materialize({DType::i64, {1}, {value}, {}}); };
  V row = c.binary(Op::mul, c.binary(Op::maximum, counted.count, whole(one)), whole(inner));
  V at = c.counting(all);
  V from = c.binary(
      Op::add,
      c.binary(Op::mul, c.binary(Op::div, at, row), whole(exprs().mul(dims[counted.axis], inner))),
      c.binary(Op::trunc_mod, at, row));
  return c.reshape(c.gather(c.reshape(x, {all}), from, 0), dims);
}

/// Adds each count once, behind all other results.
void Importer::count_results() {
  std::vector<std::pair<V, uint32_t>> counts;
  for (const auto &[result, counted] : counted_results_) {
    const V count = counted.count;
    auto found = std::find_if(counts.begin(), counts.end(),
                              [count](const auto &one) { return one.first == count; });
    if (found == counts.end()) {
      found = counts.emplace(found, count, uint32_t(result_operands_.size()));
      result_operands_.push_back(ir::Operand::of(count));
      builder_.function().result_types.push_back(builder_.function().value(count).type);
    }
    builder_.function().counted_dims.push_back({result, uint32_t(counted.axis), found->second});
  }
}

} // namespace cugrt::onnx
