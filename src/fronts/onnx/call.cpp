// Functions that handlers share; see call.h.
#include "fronts/onnx/call.h"

#include <algorithm>
#include <numeric>

namespace cugrt::onnx {

/// The largest number that a handler uses: products of two and sums of those do not overflow.
/// Numbers farther from 0 mean "all" or "to the end", and so does this one.
constexpr int64_t kMostNumber = INT32_MAX;
static int64_t bounded(int64_t number) { return std::clamp(number, -kMostNumber, kMostNumber); }

// --- Attributes

const AttributeView *Call::attribute(std::string_view name) const {
  for (size_t i = 0; i < node.attributes.size(); ++i)
    if (node.attributes[i].name == name) {
      read_attributes_[i] = true;
      return &node.attributes[i];
    }
  return nullptr;
}

void Call::ignore(std::initializer_list<std::string_view> names) const {
  for (std::string_view name : names)
    attribute(name);
}

void Call::expect(std::string_view name, int64_t only) {
  if (const int64_t given = integer(name, only); given != only)
    unsupported("attribute '" + std::string(name) + "' is " + std::to_string(given) +
                ", and only " + std::to_string(only) + " is taken");
}

void Call::expect_dims(std::string_view name, V tensor, size_t first) {
  const AttributeView *one = attribute(name);
  if (!one)
    return;
  const Ints given =
      one->type == int32_t(AttributeKind::integer) ? Ints{one->integer} : one->integers;
  const Dims all = dims(tensor);
  const bool list = one->type != int32_t(AttributeKind::integer);
  bool same = list ? first + given.size() == all.size() : first < all.size();
  for (size_t i = 0; same && i < given.size(); ++i)
    same = known(all[first + i]).value_or(given[i]) == given[i];
  if (!same)
    w.fail(Code::parse_error, "attribute '" + std::string(name) + "' is not what the weights have");
}

std::string Call::unread() const {
  for (size_t i = 0; i < node.attributes.size(); ++i)
    if (!read_attributes_[i])
      return "attribute '" + std::string(node.attributes[i].name) + "'";
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (!read_inputs_[i] && !node.inputs[i].empty())
      return "input " + std::to_string(i) + " ('" + std::string(node.inputs[i]) + "')";
  return "";
}

const AttributeView *Call::attribute(std::string_view name, AttributeKind kind) const {
  const AttributeView *one = attribute(name);
  if (!one || one->type == 0 || one->type == int32_t(kind))
    return one;
  w.fail(Code::parse_error, "attribute '" + std::string(name) + "' is of another type");
}

int64_t Call::integer(std::string_view name, int64_t otherwise) const {
  const AttributeView *one = attribute(name, AttributeKind::integer);
  return one ? bounded(one->integer) : otherwise;
}

double Call::number(std::string_view name, double otherwise) const {
  const AttributeView *one = attribute(name, AttributeKind::number);
  return one ? static_cast<double>(one->number)
             : static_cast<double>(static_cast<float>(otherwise));
}

std::string Call::text(std::string_view name, const char *otherwise) const {
  const AttributeView *one = attribute(name, AttributeKind::text);
  return one ? std::string(one->text) : otherwise;
}

Ints Call::integers(std::string_view name, Ints otherwise) const {
  const AttributeView *one = attribute(name, AttributeKind::integers);
  if (!one)
    return otherwise;
  Ints list = one->integers;
  for (int64_t &number : list)
    number = bounded(number);
  return list;
}

// --- Inputs and results

EntryPtr Call::entry(size_t i) {
  if (!has(i))
    return nullptr;
  read_inputs_[i] = true;
  return w.find(node.inputs[i]);
}

EntryPtr Call::required(size_t i) {
  EntryPtr one = entry(i);
  if (one)
    return one;
  w.fail(Code::parse_error, "input " + std::to_string(i) + " is missing");
}

V Call::value(size_t i) {
  const EntryPtr one = entry(i);
  return one ? w.device(*one) : V();
}

const Host *Call::host(size_t i) {
  const EntryPtr one = entry(i);
  return one ? w.host(*one, Importer::Need::no) : nullptr;
}

std::vector<E> Call::exprs(size_t i, bool may_read) {
  const EntryPtr one = entry(i);
  const Host *known = one ? w.host(*one, Importer::Need::value) : nullptr;
  if (!known && one && may_read)
    known = w.read_sizes(*one);
  if (!known)
    w.fail(Code::unsupported, "input " + std::to_string(i) +
                                  " is only known on the device, and decides sizes or axes");
  if (is_real(known->dtype))
    w.fail(Code::parse_error, "input " + std::to_string(i) + " has dtype " +
                                  std::string(ir::info(known->dtype).name) +
                                  ", integers are wanted");
  return known->ints;
}

Ints Call::constants(size_t i) {
  Ints out;
  for (E e : exprs(i, false)) {
    const std::optional<int64_t> number = known(e);
    if (!number) {
      w.need_constant(e);
      w.fail(Code::unsupported, "input " + std::to_string(i) +
                                    " must be a constant and depends on a dimension; fix it with "
                                    "--dim NAME=NUMBER");
    }
    out.push_back(bounded(*number));
  }
  return out;
}

std::vector<double> Call::reals(size_t i) {
  const EntryPtr one = entry(i);
  const Host *known = one ? w.host(*one, Importer::Need::value) : nullptr;
  if (!known)
    w.fail(Code::unsupported,
           "input " + std::to_string(i) + " must be a constant and is computed on the device");
  if (!is_real(known->dtype)) {
    std::vector<double> out;
    for (int64_t number : constants(i))
      out.push_back(static_cast<double>(number));
    return out;
  }
  return known->reals;
}

double Call::real(size_t i, double otherwise) {
  if (!has(i))
    return otherwise;
  const std::vector<double> all = reals(i);
  return all.empty() ? otherwise : all[0];
}

uint32_t Call::origin() {
  if (!origin_)
    origin_ = w.origin_of(node);
  return *origin_;
}

void Call::result(V v, size_t i) {
  if (!wants(i))
    return;
  auto made = std::make_shared<Entry>();
  made->name = node.outputs[i];
  made->device = v;
  made->origin = origin();
  w.define(node.outputs[i], std::move(made));
}

void Call::result(Host host, size_t i) {
  if (!wants(i))
    return;
  if (host.dims.size() > ir::kMaxRank)
    return unsupported("more than " + std::to_string(ir::kMaxRank) + " dimensions");
  for (E e : host.ints)
    if (w.exprs().depth(e) > kMostDepth)
      return unsupported("arithmetic over dimensions that is nested more than " +
                         std::to_string(kMostDepth) + " deep");
  auto made = std::make_shared<Entry>();
  made->name = node.outputs[i];
  w.take_elements(host.size());
  made->host = std::move(host);
  w.define(node.outputs[i], std::move(made));
}

void Call::result(Fractions fractions, size_t i) {
  result(fractions.above, i); // is what it must be
  if (!wants(i))
    return;
  Entry &made = *w.find(node.outputs[i]);
  made.host.reset();
  made.fractions = std::move(fractions);
  made.origin = origin();
}

void Call::result(EntryPtr entry, size_t i) {
  if (!entry)
    w.fail(Code::parse_error, "input 0 is missing");
  if (wants(i))
    w.define(node.outputs[i], std::move(entry));
}

void Call::result(V v, size_t i, size_t axis, V count) {
  result(v, i);
  if (wants(i) && count.valid())
    w.set_counted(node.outputs[i], {count, axis, &node});
}

void Call::result(V v, Narrow narrow) {
  result(v);
  if (wants(0))
    w.find(node.outputs[0])->narrow = narrow;
}

// --- Types

E Call::product(const Dims &dims) {
  E all = constant(1);
  for (E d : dims)
    all = w.exprs().mul(all, d);
  return all;
}

int64_t Call::number_of(E e, const char *what) {
  const auto number = known(e);
  if (number && *number <= kMostNumber / 2)
    return *number;
  if (number)
    w.fail(Code::unsupported, std::string(what) + " is " + std::to_string(*number));
  if (e.valid())
    w.need_constant(e);
  w.fail(Code::unsupported,
         std::string(what) + " must be a number; fix its dimension with --dim NAME=NUMBER");
}

size_t Call::axis(int64_t axis, size_t rank) {
  if (auto one = ir::normalize_axis(axis, rank))
    return *one;
  w.fail(Code::parse_error,
         "axis " + std::to_string(axis) + " is outside of rank " + std::to_string(rank));
}

Ints Call::axes(Ints axes, size_t rank) {
  for (int64_t &one : axes)
    one = static_cast<int64_t>(axis(one, rank));
  return axes;
}

// --- Emitting

V Call::op(Op op, std::vector<V> operands, std::vector<ir::Attribute> attributes) {
  return w.emit(op, operands, std::move(attributes)).front();
}

std::vector<V> Call::ops(std::string_view name, const std::vector<V> &operands,
                         std::vector<ir::Attribute> attributes) {
  if (const std::optional<Op> found = ir::op_from_name(name))
    return w.emit(*found, operands, std::move(attributes));
  w.fail(Code::unsupported, "there is no op " + std::string(name) + " here");
}

V Call::op(std::string_view name, std::vector<V> operands, std::vector<ir::Attribute> attributes) {
  return ops(name, operands, std::move(attributes)).front();
}

/// If one of two dimensions is a number, it is the result; a symbol that is 1 in a run is an error.
static Dims equal_dims(Importer &w, const Dims &a, const Dims &b) {
  Dims out = a.size() < b.size() ? b : a;
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const E x = a[a.size() - i], y = b[b.size() - i];
    out[out.size() - i] = w.known(x) == 1 ? y : w.known(y) == 1 || !w.known(y) ? x : y;
  }
  return out;
}

/// The dimensions that an operand must have for those of a result.
static Dims wanted_dims(Importer &w, const Dims &have, const Dims &all) {
  Dims out = have;
  for (size_t i = 0; i < have.size(); ++i)
    if (w.known(have[i]) != 1)
      out[i] = all[all.size() - have.size() + i];
  return out;
}

V Call::binary(Op which, V a, V b) {
  if (dtype(a) != dtype(b))
    b = cast(b, dtype(a));
  const Dims all = equal_dims(w, dims(a), dims(b));
  a = w.match(a, wanted_dims(w, dims(a), all));
  b = w.match(b, wanted_dims(w, dims(b), all));
  return op(which, {a, b});
}

V Call::cast(V x, DType to) {
  return dtype(x) == to ? x : op(Op::cast, {x}, {attr("dtype", ir::DTypeLiteral(to))});
}

V Call::scalar(DType dtype, double value) {
  Host host{dtype, {}, {}, {}};
  if (is_real(dtype))
    host.reals = {value};
  else
    host.ints = {constant(static_cast<int64_t>(std::fabs(value) < 9e18 ? value : 0))};
  return w.materialize(host);
}

V Call::counting(E count, int64_t start) {
  std::vector<ir::Attribute> attributes = {attr("dtype", ir::DTypeLiteral(DType::i64))};
  if (start)
    attributes.push_back(attr("start", double(start)));
  return op(Op::range, {w.shape({count})}, std::move(attributes));
}

V Call::reshape(V x, const Dims &to) {
  if (dims(x) == to)
    return x;
  const E have = product(dims(x)), want = product(to);
  if (have != want) { // the run sees whether they are equal
    V flat = dims(x).size() == 1 ? x : op(Op::reshape, {x, w.shape({have})});
    x = w.match(flat, {want});
    if (to.size() == 1)
      return x;
  }
  return op(Op::reshape, {x, w.shape(to)});
}

V Call::broadcast(V x, const Dims &to) {
  if (dims(x) == to)
    return x;
  x = w.match(x, wanted_dims(w, dims(x), to));
  return dims(x) == to ? x : op(Op::broadcast_to, {x, w.shape(to)});
}

V Call::transpose(V x, const Ints &axes) {
  bool as_it_is = axes.size() == rank(x);
  for (size_t i = 0; i < axes.size(); ++i)
    as_it_is = as_it_is && axes[i] == int64_t(i);
  if (as_it_is)
    return x;
  return op(Op::transpose, {x}, {attr("axes", axes)});
}

V Call::reduce(Op which, V x, const Ints &axes, bool keep) {
  if (axes.empty())
    return x;
  return op(which, {x}, {attr("axes", axes), attr("keep_dims", keep)});
}

V Call::slice(V x, size_t axis, E begin, E size) {
  const Dims all = dims(x);
  if (size == all[axis] && known(begin) == 0)
    return x;
  Dims begins(all.size(), constant(0)), sizes = all;
  begins[axis] = begin;
  sizes[axis] = size;
  return op(Op::slice, {x, w.shape(begins), w.shape(sizes)});
}

V Call::concat(const std::vector<V> &parts, size_t axis) {
  return parts.size() == 1 ? parts[0]
                           : op(Op::concat, parts, {attr("axis", static_cast<int64_t>(axis))});
}

V Call::gather(V x, V ids, size_t axis) {
  if (dtype(ids) != DType::i32)
    ids = cast(ids, DType::i64);
  return op(Op::gather, {x, ids}, {attr("axis", static_cast<int64_t>(axis))});
}

V Call::matmul(V a, V b) {
  if (ir::info(dtype(b)).kind == ir::DTypeKind::block)
    return op(Op::matmul_blocks, {a, b});
  if (rank(a) == 0 || rank(b) == 0)
    w.fail(Code::parse_error, "a product of a scalar");
  const bool row = rank(a) == 1, column = rank(b) == 1;
  if (row)
    a = reshape(a, {constant(1), dims(a)[0]});
  if (column)
    b = reshape(b, {dims(b)[0], constant(1)});
  Dims left = dims(a), right = dims(b);
  const E rows = left[left.size() - 2], columns = right.back();
  const E inner = known(right[right.size() - 2]) ? right[right.size() - 2] : left.back();
  left.back() = right[right.size() - 2] = inner;
  a = w.match(a, left), b = w.match(b, right);
  const Dims outer = broadcast_dims(left.first(left.size() - 2), right.first(right.size() - 2));
  auto behind_outer = [&](E first, E second) {
    Dims all = outer;
    all.push_back(first), all.push_back(second);
    return all;
  };
  a = stretch(a, behind_outer(rows, inner)), b = stretch(b, behind_outer(inner, columns));
  V y = op(Op::matmul, {a, b});
  if (!row && !column)
    return y;
  Dims out = outer;
  if (!row)
    out.push_back(rows);
  if (!column)
    out.push_back(columns);
  return reshape(y, out);
}

E Call::quotient(const Dims &total, const Dims &rest) {
  Dims above, divisors, below;
  for (E e : total)
    w.add_factors(e, above);
  for (E e : rest)
    w.add_factors(e, divisors);
  int64_t up = 1, down = 1;
  auto numbers = [&](Dims &list, int64_t &product) {
    std::erase_if(list, [&](E e) {
      const auto number = known(e);
      if (number && __builtin_mul_overflow(product, *number, &product))
        product = 0;
      return number.has_value();
    });
  };
  for (E e : divisors)
    if (auto same = std::find(above.begin(), above.end(), e); same != above.end() && !known(e))
      above.erase(same);
    else
      below.push_back(e);
  numbers(above, up);
  numbers(below, down);
  if (const int64_t common = std::gcd(up, down))
    up /= common, down /= common;
  E result = w.exprs().mul(product(above), constant(up));
  for (E e : below)
    result = w.exprs().make(ir::ExprKind::floordiv, result, e);
  return down == 1 ? result : w.exprs().floordiv(result, constant(down));
}

} // namespace cugrt::onnx
