// Sequences of tensors. They are lists of the importer: no op has one, and their length and the
// place of each tensor are known. Rows that a loop on the device appends are one tensor.
#include "fronts/onnx/call.h"

#include <algorithm>

namespace cugrt::onnx {

V stacked(Call &c, const std::vector<V> &parts, size_t axis) {
  std::vector<V> wide;
  for (V v : parts) {
    Dims d = c.dims(v);
    d.insert(d.begin() + ptrdiff_t(std::min(axis, d.size())), c.constant(1));
    wide.push_back(c.reshape(v, d));
  }
  return wide.empty() ? V() : c.concat(wide, axis);
}

namespace {

/// Each node that changes a sequence makes another list.
constexpr int64_t kMostTensors = 512;

const Sequence &sequence_of(Call &c, size_t i) {
  const EntryPtr entry = c.required(i);
  if (!entry->sequence)
    c.w.fail(Code::parse_error, "input " + std::to_string(i) + " is no sequence of tensors");
  return *entry->sequence;
}

void sequence_result(Call &c, std::vector<EntryPtr> parts) {
  if (int64_t(parts.size()) > kMostTensors)
    return c.unsupported("a sequence of more than " + std::to_string(kMostTensors) + " tensors");
  c.w.take_parts(parts.size());
  auto made = std::make_shared<Entry>();
  made->sequence = Sequence{std::move(parts), {}};
  c.result(std::move(made));
}

/// The place that input i says, from the end where it is negative; `size`: how many places there
/// are.
size_t place_of(Call &c, size_t i, size_t size) {
  const Ints given = c.constants(i);
  const int64_t all = int64_t(size), at = given.empty() ? 0 : given[0] + (given[0] < 0 ? all : 0);
  if (at < 0 || at >= all)
    c.w.fail(Code::parse_error, "place " + std::to_string(given.empty() ? 0 : given[0]) +
                                    " of a sequence that has " + std::to_string(all));
  return size_t(at);
}

/// A sequence whose tensors are changed by place, which one that a loop made is not.
std::vector<EntryPtr> list_of(Call &c) {
  const Sequence &from = sequence_of(c, 0);
  if (from.stacked.valid())
    c.unsupported("a sequence that a loop on the device made, changed behind the loop");
  return from.parts;
}

void sequence_empty(Call &c) {
  c.ignore({"dtype"}); // inserted tensors have their own
  sequence_result(c, {});
}

void sequence_construct(Call &c) {
  std::vector<EntryPtr> parts;
  for (size_t i = 0; i < c.input_count(); ++i)
    parts.push_back(c.required(i));
  sequence_result(c, std::move(parts));
}

void sequence_insert(Call &c) {
  std::vector<EntryPtr> parts = list_of(c);
  const EntryPtr part = c.required(1);
  const size_t at = c.has(2) ? place_of(c, 2, parts.size() + 1) : parts.size();
  parts.insert(parts.begin() + ptrdiff_t(at), part);
  sequence_result(c, std::move(parts));
}

void sequence_erase(Call &c) {
  std::vector<EntryPtr> parts = list_of(c);
  if (parts.empty())
    return c.w.fail(Code::parse_error, "a sequence without tensors has none to take away");
  const size_t at = c.has(1) ? place_of(c, 1, parts.size()) : parts.size() - 1;
  parts.erase(parts.begin() + ptrdiff_t(at));
  sequence_result(c, std::move(parts));
}

/// All tensors, which have one shape, along a new first axis.
V stacked_of(Call &c, const Sequence &sequence) {
  if (sequence.stacked.valid())
    return sequence.stacked;
  std::vector<V> parts;
  for (const EntryPtr &part : sequence.parts)
    parts.push_back(wide(c, *part));
  return stacked(c, parts, 0);
}

void sequence_at(Call &c) {
  const Sequence &from = sequence_of(c, 0);
  const EntryPtr place = c.required(1);
  const Host *known = c.w.host(*place, Importer::Need::no);
  const bool is_number = known && known->ints.size() == 1 && c.known(known->ints[0]);
  if (is_number && !from.stacked.valid())
    return c.result(from.parts.at(place_of(c, 1, from.parts.size())));
  V position = c.value(1);
  c.result(c.gather(stacked_of(c, from), c.rank(position) ? c.reshape(position, {}) : position, 0));
}

void sequence_length(Call &c) {
  const Sequence &from = sequence_of(c, 0);
  const E count =
      from.stacked.valid() ? c.dims(from.stacked)[0] : c.constant(int64_t(from.parts.size()));
  c.result(Host{DType::i64, {}, {count}, {}});
}

void concat_from_sequence(Call &c) {
  const Sequence &from = sequence_of(c, 0);
  if (!from.stacked.valid() && from.parts.empty())
    return c.unsupported("a sequence without tensors that are to be joined");
  const bool is_new = c.integer("new_axis", 0) != 0;
  std::vector<V> parts;
  if (from.stacked.valid())
    parts.push_back(from.stacked);
  for (const EntryPtr &part : from.parts)
    parts.push_back(wide(c, *part));
  const size_t rank = c.rank(parts[0]) - from.stacked.valid();
  const size_t axis = c.axis(c.integer("axis", 0), rank + is_new);
  if (!from.stacked.valid())
    return c.result(is_new ? stacked(c, parts, axis) : c.concat(parts, axis));
  Ints order; // the first axis goes before the one that it is joined with
  for (size_t i = 1; i <= rank; ++i)
    order.push_back(int64_t(i));
  order.insert(order.begin() + ptrdiff_t(axis), 0);
  V all = c.transpose(from.stacked, order);
  if (is_new)
    return c.result(all);
  Dims joined = c.dims(all);
  joined[axis] = c.w.exprs().mul(joined[axis], joined[axis + 1]);
  joined.erase(joined.begin() + ptrdiff_t(axis) + 1);
  c.result(c.reshape(all, joined));
}

void split_to_sequence(Call &c) {
  V x = c.value(0);
  const size_t axis = c.axis(c.integer("axis", 0), c.rank(x));
  const int64_t size = c.number_of(c.dims(x)[axis], "the size of what is split");
  const EntryPtr given = c.entry(1);
  Ints sizes = given ? c.constants(1) : Ints{1};
  const Host *list = given ? c.host(1) : nullptr;
  if (!list || list->dims.empty()) { // all of one size, but for the last
    const int64_t each = sizes.at(0);
    if (each < 1 || size / each > kMostTensors)
      return c.unsupported(std::to_string(size) + " elements in parts of " + std::to_string(each));
    sizes.assign(size_t(size / each), each);
    if (size % each)
      sizes.push_back(size % each);
  }
  const bool keeps = c.integer("keepdims", 1) || given; // which a given split ignores
  std::vector<EntryPtr> parts;
  int64_t begin = 0;
  for (int64_t one : sizes) {
    if (one < 0 || one > size - begin)
      return c.w.fail(Code::parse_error, "parts that reach beyond the " + std::to_string(size) +
                                             " elements of the axis");
    V part = c.slice(x, axis, c.constant(begin), c.constant(one));
    Dims dims = c.dims(part);
    if (!keeps)
      dims.erase(dims.begin() + ptrdiff_t(axis));
    auto entry = std::make_shared<Entry>();
    entry->device = c.reshape(part, dims);
    entry->origin = c.origin();
    parts.push_back(std::move(entry));
    begin += one;
  }
  if (begin != size)
    return c.w.fail(Code::parse_error, "parts of " + std::to_string(begin) + " of the " +
                                           std::to_string(size) + " elements of the axis");
  sequence_result(c, std::move(parts));
}

/// How often nodes and results of a graph and of its subgraphs read a value.
size_t reads_of(const Graph &graph, std::string_view name) {
  size_t count = 0;
  for (const Node &node : graph.nodes) {
    count += size_t(std::count(node.inputs.begin(), node.inputs.end(), name));
    for (const AttributeView &attribute : node.attributes)
      if (attribute.graph)
        count += reads_of(*attribute.graph, name);
  }
  for (const ValueInfo &info : graph.outputs)
    count += info.name == name;
  return count;
}

const Node *maker_of(const Graph &graph, std::string_view name) {
  for (const Node &node : graph.nodes)
    if (std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end())
      return &node;
  return nullptr;
}

} // namespace

std::vector<Appended> appended_in(Call &loop, const Graph &body) {
  std::vector<Appended> all;
  for (size_t i = 0; i + 2 < body.inputs.size() && i + 1 < body.outputs.size(); ++i) {
    const EntryPtr begins = loop.entry(i + 2);
    if (!begins || !begins->sequence || !begins->sequence->parts.empty() ||
        begins->sequence->stacked.valid())
      continue;
    loop.w.take_parts(body.nodes.size());
    const std::string_view before = body.inputs[i + 2].name, after = body.outputs[i + 1].name;
    const Node *maker = maker_of(body, after);
    if (maker && maker->domain.empty() && maker->op == "SequenceInsert" &&
        maker->inputs.size() == 2 && maker->inputs[0] == before && reads_of(body, before) == 1 &&
        reads_of(body, after) == 1)
      all.push_back({i, maker->inputs[1]});
  }
  return all;
}

const Graph &collecting(Call &loop, const Graph &body, const std::vector<Appended> &appended) {
  std::vector<size_t> places;
  for (const Appended &one : appended)
    places.push_back(one.place);
  const auto [made, added] = loop.w.collecting.try_emplace({&body, std::move(places)}, body);
  Graph &out = made->second;
  if (!added)
    return out;
  for (size_t n = appended.size(); n-- > 0;) {
    const auto place = ptrdiff_t(appended[n].place);
    const std::string_view after = out.outputs[size_t(place) + 1].name;
    std::erase_if(out.nodes, [&](const Node &node) {
      return std::find(node.outputs.begin(), node.outputs.end(), after) != node.outputs.end();
    });
    out.inputs.erase(out.inputs.begin() + place + 2);
    out.outputs.erase(out.outputs.begin() + place + 1);
  }
  for (const Appended &one : appended) {
    ValueInfo row;
    row.name = one.row;
    out.outputs.push_back(row);
  }
  return out;
}

void add_sequences(HandlerTable &table) {
  table["SequenceEmpty"] = sequence_empty;
  table["SequenceConstruct"] = sequence_construct;
  table["SequenceInsert"] = sequence_insert;
  table["SequenceErase"] = sequence_erase;
  table["SequenceAt"] = sequence_at;
  table["SequenceLength"] = sequence_length;
  table["ConcatFromSequence"] = concat_from_sequence;
  table["SplitToSequence"] = split_to_sequence;
}

} // namespace cugrt::onnx
