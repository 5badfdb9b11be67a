// Ops that say anew how elements lie, or repeat them: reshapes, slices, tiles.
#include "fronts/onnx/call.h"
#include "fronts/onnx/ops/integers.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

/// Whether a dimension of this expression is never negative.
bool never_negative(Call &c, E e) { return c.w.never_negative(e); }

void may_be_negative(Call &c, E e) {
  const std::string text = c.w.exprs().to_string(e, c.w.builder().function().symbol_names());
  c.unsupported("a shape with '" + text + "' as an element, which may be negative");
}

void reshape(Call &c) {
  V x = c.value(0);
  const std::vector<E> wanted = c.has(1) ? c.exprs(1) : [&] {
    std::vector<E> list;
    for (int64_t d : c.integers("shape", {}))
      list.push_back(c.constant(d));
    return list;
  }();
  const Dims have = c.dims(x);
  const bool zero_copies = !c.integer("allowzero", 0);
  Dims dims, rest;
  ptrdiff_t open = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto number = c.known(wanted[i]);
    E d = wanted[i];
    if (zero_copies)
      c.w.need_constant_or_positive(d);
    if (number == 0 && zero_copies) {
      if (i >= have.size())
        return c.w.fail(Code::parse_error, "the shape's 0 stands for no dimension of the input");
      d = have[i];
    }
    if (number == -1) {
      if (open >= 0)
        return c.w.fail(Code::parse_error, "the shape has two -1");
      open = static_cast<ptrdiff_t>(i);
    } else {
      if (!never_negative(c, d)) {
        c.w.need_constant(d);
        return may_be_negative(c, d);
      }
      rest.push_back(d);
    }
    dims.push_back(d);
  }
  if (open >= 0) {
    if (std::any_of(rest.begin(), rest.end(), [&](E d) { return c.known(d) == 0; }))
      return c.w.fail(Code::parse_error, "the shape's -1 is undetermined beside a 0");
    dims[size_t(open)] = c.quotient(have, rest);
  }
  if (dims == have)
    return c.result(c.entry(0));
  c.w.require_at_most(dims, c.w.range(c.product(have)).upper);
  c.result(c.reshape(x, dims));
}

void flatten(Call &c) {
  V x = c.value(0);
  const Dims dims = c.dims(x);
  const int64_t given = c.integer("axis", 1);
  const size_t axis = given == int64_t(dims.size()) ? dims.size() : c.axis(given, dims.size());
  c.result(c.reshape(x, {c.product(dims.first(axis)), c.product(dims.from(axis))}));
}

void squeeze(Call &c) {
  V x = c.value(0);
  const Dims dims = c.dims(x);
  std::vector<bool> gone(dims.size(), false);
  if (c.attribute("axes") || c.has(1)) {
    for (int64_t axis :
         c.axes(c.attribute("axes") ? c.integers("axes", {}) : c.constants(1), dims.size()))
      if (!gone.empty())
        gone[size_t(axis)] = true;
  } else {
    for (size_t i = 0; i < dims.size(); ++i) {
      gone[i] = c.known(dims[i]) == 1;
      const ir::Interval range = c.w.range(dims[i]);
      if (!gone[i] && range.lower <= 1 && range.upper >= 1)
        return c.unsupported(
            "without axes, and dimension " + std::to_string(i) +
            " is 1 or not; fix it with --dim NAME=NUMBER, or say --bounds NAME=2..N");
    }
  }
  Dims kept;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!gone[i])
      kept.push_back(dims[i]);
  c.result(c.reshape(x, kept));
}

void unsqueeze(Call &c) {
  V x = c.value(0);
  Ints axes = c.attribute("axes") ? c.integers("axes", {}) : c.constants(1);
  Dims dims = c.dims(x);
  if (dims.size() + axes.size() > ir::kMaxRank)
    return c.unsupported("more than " + std::to_string(ir::kMaxRank) + " dimensions");
  axes = c.axes(axes, dims.size() + axes.size());
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return c.w.fail(Code::parse_error, "an axis is given twice");
  for (int64_t axis : axes) {
    dims.insert_at(size_t(axis), c.constant(1));
  }
  c.result(c.reshape(x, dims));
}

void transpose(Call &c) {
  V x = c.value(0);
  Ints axes = c.integers("perm", {});
  if (axes.empty())
    for (size_t i = c.rank(x); i-- > 0;)
      axes.push_back(int64_t(i));
  V y = is_blocks(c, x) ? x : c.transpose(x, axes); // blocks_for_product
  if (y == x)
    return c.result(c.entry(0));
  c.result(y);
}

void concat(Call &c) {
  std::vector<V> parts;
  for (size_t i = 0; i < c.input_count(); ++i)
    parts.push_back(c.value(i));
  if (parts.empty())
    return;
  const size_t axis = c.axis(c.integer("axis", 1), c.rank(parts[0]));
  Dims wanted = c.dims(parts[0]);
  for (V part : parts) // numbers are what symbols beside them must be
    for (size_t i = 0; i < wanted.size() && i < c.rank(part); ++i)
      if (!c.known(wanted[i]))
        wanted[i] = c.dims(part)[i];
  for (V &part : parts) {
    Dims own = wanted;
    if (c.rank(part) != own.size())
      break;
    own[axis] = c.dims(part)[axis];
    part = c.w.match(part, own);
  }
  c.result(c.concat(parts, axis));
  std::vector<EntryPtr> joined;
  for (size_t i = 0; wanted.size() == 1 && i < c.input_count(); ++i) {
    const EntryPtr one = c.entry(i);
    one->joined.empty() ? joined.push_back(one)
                        : void(joined.insert(joined.end(), one->joined.begin(), one->joined.end()));
    if (joined.size() > ir::kMaxRank)
      return;
  }
  if (!joined.empty())
    c.w.find(c.node.outputs[0])->joined = std::move(joined);
}

void slice(Call &c) {
  V x = c.value(0);
  std::vector<E> starts, ends;
  Ints axes, steps;
  if (c.has(1)) {
    starts = c.exprs(1), ends = c.exprs(2);
    axes = c.has(3) ? c.constants(3) : Ints();
    steps = c.has(4) ? c.constants(4) : Ints();
  } else {
    for (int64_t v : c.integers("starts", {}))
      starts.push_back(c.constant(v));
    for (int64_t v : c.integers("ends", {}))
      ends.push_back(c.constant(v));
    axes = c.integers("axes", {});
  }
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); ++i)
      axes.push_back(int64_t(i));
  if (steps.empty())
    steps.resize(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return c.w.fail(Code::parse_error, "starts, ends, axes and steps have different lengths");
  axes = c.axes(axes, c.rank(x));
  // Numbers become attributes of one op; symbols become a place and a size, by Python's rules.
  Ints begin, end, of, by;
  for (size_t i = 0; i < starts.size(); ++i) {
    auto from = c.known(starts[i]);
    const auto to = c.known(ends[i]);
    if (from && *from < 0 && steps[i] < 0) { // backwards from before the first one: from that one
      const ir::Interval size = c.w.range(c.dims(x)[size_t(axes[i])]);
      if (size.upper < INT64_MAX && size.upper <= -std::max(*from, -INT64_MAX))
        from = 0;
      else if (size.lower < -std::max(*from, -INT64_MAX))
        return c.unsupported("a slice backwards from a place that may lie before the first one");
    }
    if (from && to) {
      // 32-bit ends stand for "to the end", too
      auto wide = [](int64_t v) {
        return v >= INT32_MAX ? INT64_MAX : v <= -INT32_MAX ? INT64_MIN : v;
      };
      begin.push_back(wide(*from)), end.push_back(wide(*to));
      of.push_back(axes[i]), by.push_back(steps[i]);
      continue;
    }
    if (steps[i] != 1)
      return c.unsupported("a slice with steps between places that are symbols");
    ir::ExprPool &exprs = c.w.exprs();
    const E d = c.dims(x)[size_t(axes[i])];
    auto place = [&](E e) {
      if (const auto number = c.known(e); number && *number >= INT32_MAX)
        return d;
      const ir::Interval range = c.w.range(e);
      const E zero = c.constant(0);
      if (range.upper < 0)
        return exprs.max(exprs.add(d, e), zero);
      if (range.lower < 0)
        e = exprs.make(ir::ExprKind::select, exprs.make(ir::ExprKind::lt, e, zero),
                       exprs.max(exprs.add(d, e), zero), e);
      return never_negative(c, exprs.sub(d, e)) ? e : exprs.min(e, d);
    };
    const E first = place(starts[i]), last = place(ends[i]);
    E size = exprs.sub(last, first);
    if (!never_negative(c, size))
      size = exprs.max(size, c.constant(0));
    try {
      x = c.slice(x, size_t(axes[i]), first, size);
    } catch (const Importer::Failed &) {
      c.w.need_constant(starts[i]);
      c.w.need_constant(ends[i]);
      throw;
    }
  }
  if (!begin.empty())
    x = c.op(Op::slice, {x},
             {attr("starts", begin), attr("ends", end), attr("axes", of), attr("steps", by)});
  Dims dims = c.dims(x); // min(n, 1) is 1 where n is at least that: no broadcast asks for it
  for (size_t i = 0; i < dims.size(); ++i)
    if (const ir::Interval range = c.w.range(dims[i]);
        range.lower == range.upper && c.w.exprs()[dims[i]].kind != ir::ExprKind::symbol)
      dims[i] = c.constant(range.lower);
  c.result(c.w.match(x, dims));
}

void expand(Call &c) {
  V x = c.value(0);
  const std::vector<E> wanted = c.exprs(1);
  for (E e : wanted)
    if (!never_negative(c, e)) {
      c.w.need_constant(e);
      return may_be_negative(c, e);
    }
  const Dims all = c.expanded_dims(c.dims(x), wanted);
  c.result(c.broadcast(c.stretch(x, all), all));
}

void tile(Call &c) {
  V x = c.value(0);
  const std::vector<E> repeats = c.exprs(1);
  if (repeats.size() != c.rank(x))
    return c.w.fail(Code::parse_error, "repeats are not one for each axis");
  const Dims dims = c.dims(x);
  Dims one, all, out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (c.known(repeats[i]) != 1) {
      one.push_back(c.constant(1));
      all.push_back(repeats[i]);
    }
    one.push_back(dims[i]);
    all.push_back(dims[i]);
    out.push_back(c.w.exprs().mul(repeats[i], dims[i]));
  }
  if (all.size() <= ir::kMaxRank)
    return c.result(c.reshape(c.broadcast(c.reshape(x, one), all), out));
  Dims now = dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    const E before = c.product(now.first(i)), from_here = c.product(now.from(i));
    now[i] = out[i];
    if (c.known(repeats[i]) != 1)
      x = c.reshape(c.broadcast(c.reshape(x, {before, c.constant(1), from_here}),
                                {before, repeats[i], from_here}),
                    now);
  }
  c.result(x);
}

void constant_of_shape(Call &c) {
  const std::vector<E> dims = c.exprs(0);
  Narrow narrow = Narrow::none;
  V value;
  if (const AttributeView *given = c.attribute("value"); given && given->tensor) {
    auto loaded = c.w.load(*given->tensor);
    if (!loaded.ok())
      return c.w.fail(loaded.status().code(), loaded.status().message());
    if (std::ranges::any_of(loaded->dims, [](int64_t d) { return d != 1; }))
      return c.w.fail(Code::parse_error, "attribute 'value' has not one element");
    loaded->dims = {};
    narrow = loaded->narrow;
    value = c.w.constant_tensor("", *loaded);
  } else {
    value = c.scalar(DType::f32, 0);
  }
  c.result(c.broadcast(value, dims), narrow);
}

/// From and to are floats, one of which depends on dimensions.
void range_of_floats(Call &c, Fractions from, const Fractions &to) {
  const auto start = c.known(from.above.ints[0]);
  const double by = c.real(2, 1);
  if (!start || !(std::fabs(by) >= 1 && std::fabs(by) < 1e6 && by == std::floor(by)))
    return c.unsupported("a range of floats that does not begin at a number, or whose step is none "
                         "of whole numbers");
  ir::ExprPool &exprs = c.w.exprs();
  auto scaled = [&](E e, double with) { return exprs.mul(e, c.constant(int64_t(with))); };
  const double sign = by > 0 ? 1 : -1;
  const E distance = exprs.sub(scaled(to.above.ints[0], sign * double(from.below)),
                               scaled(from.above.ints[0], sign * double(to.below)));
  E count = exprs.ceildiv(distance, scaled(c.constant(from.below * to.below), std::fabs(by)));
  if (!never_negative(c, count))
    count = exprs.max(count, c.constant(0));
  c.result(c.op(Op::range, {c.w.shape({count})},
                {attr("start", double(*start) / double(from.below)), attr("step", by),
                 attr("dtype", ir::DTypeLiteral(from.dtype))}));
}

/// A range from a number, by one, up to a float that the device computes.
void range_to_computed(Call &c, double from) {
  const double by = c.real(2, 1);
  V to = c.reshape(c.value(1), {});
  const V distance = c.binary(Op::sub, to, c.like(to, from));
  V steps = c.op(Op::ceil, {c.binary(Op::div, distance, c.like(to, by))});
  Entry count;
  count.device = c.cast(c.binary(Op::maximum, steps, c.like(to, 0)), DType::i64);
  const Host *read = c.w.read_sizes(count);
  if (!read || by == 0)
    return c.unsupported("a range that is computed on the device");
  c.result(
      c.op(Op::range, {c.w.shape({read->ints[0]})},
           {attr("start", from), attr("step", by), attr("dtype", ir::DTypeLiteral(c.dtype(to)))}));
}

void range(Call &c) {
  if (const EntryPtr start = c.entry(0);
      start && stash_type_of_range(c, c.w.entry_dtype(*start).value_or(DType::f32)) != 1)
    return c.unsupported("a range whose sums are rounded to 16 bits");
  const auto from_float = fraction(c, 0), to_float = fraction(c, 1);
  if (from_float && to_float && (c.entry(0)->fractions || c.entry(1)->fractions))
    return range_of_floats(c, *from_float, *to_float);
  const EntryPtr first = c.entry(0);
  const Host *start = first ? c.w.host(*first, Importer::Need::value) : nullptr;
  if (start && is_real(start->dtype)) {
    const double from = c.real(0, 0);
    if (const EntryPtr limit = c.entry(1); limit && !c.w.host(*limit, Importer::Need::value))
      return range_to_computed(c, from);
    const double to = c.real(1, 0), by = c.real(2, 1);
    const double count = std::max(0.0, std::ceil((to - from) / by));
    if (!(count < 1e9))
      return c.unsupported("a range that is computed on the device");
    return c.result(c.op(Op::range, {},
                         {attr("length", static_cast<int64_t>(count)), attr("start", from),
                          attr("step", by), attr("dtype", ir::DTypeLiteral(start->dtype))}));
  }
  const std::vector<E> from = c.exprs(0), to = c.exprs(1);
  const Ints by = c.constants(2);
  if (!by.empty() && std::abs(by[0]) == INT32_MAX)
    return c.unsupported("a range of so large a step");
  if (from.size() != 1 || to.size() != 1 || by.size() != 1 || by[0] == 0)
    return c.unsupported("a range that is computed on the device");
  ir::ExprPool &exprs = c.w.exprs();
  const E distance = by[0] > 0 ? exprs.sub(to[0], from[0]) : exprs.sub(from[0], to[0]);
  E count = exprs.ceildiv(distance, c.constant(std::abs(by[0])));
  if (!never_negative(c, count))
    count = exprs.max(count, c.constant(0));
  const auto number = c.known(from[0]);
  V y = c.op(Op::range, {c.w.shape({count})},
             {attr("start", static_cast<double>(number.value_or(0))),
              attr("step", static_cast<double>(by[0])),
              attr("dtype", ir::DTypeLiteral(*c.w.entry_dtype(*first)))});
  if (!number)
    y = c.binary(Op::add, y, c.value(0));
  c.result(y);
}

/// Depth and space: [n, c, h, w] by way of six axes.
void depth_to_space(Call &c) {
  V x = c.value(0);
  const int64_t block = c.integer("blocksize", 1);
  if (c.rank(x) != 4 || block < 1)
    return c.unsupported("images that are not two-dimensional");
  const Dims d = c.dims(x);
  const E b = c.constant(block);
  ir::ExprPool &exprs = c.w.exprs();
  if (c.node.op == "DepthToSpace") {
    const E depth = exprs.floordiv(d[1], c.constant(block * block));
    const bool crd = c.text("mode", "DCR") == "CRD";
    V y = c.reshape(x, crd ? Dims{d[0], depth, b, b, d[2], d[3]}
                           : Dims{d[0], b, b, depth, d[2], d[3]});
    y = c.transpose(y, crd ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 3, 4, 1, 5, 2});
    return c.result(c.reshape(y, {d[0], depth, exprs.mul(d[2], b), exprs.mul(d[3], b)}));
  }
  const E h = exprs.floordiv(d[2], b), width = exprs.floordiv(d[3], b);
  const bool channel_first = c.text("mode", "DCR") == "CRD";
  V y = c.transpose(c.reshape(x, {d[0], d[1], h, b, width, b}),
                    channel_first ? Ints{0, 1, 3, 5, 2, 4} : Ints{0, 3, 5, 1, 2, 4});
  c.result(c.reshape(y, {d[0], exprs.mul(d[1], c.constant(block * block)), h, width}));
}

void eye_like(Call &c) {
  const EntryPtr x = c.entry(0);
  V v = c.value(0);
  if (c.rank(v) != 2)
    return;
  const std::optional<DType> to =
      c.attribute("dtype") ? dtype_of(static_cast<int32_t>(c.integer("dtype", 1))) : c.dtype(v);
  if (!to)
    return c.unsupported("a matrix of dtype " +
                         dtype_name(static_cast<int32_t>(c.integer("dtype", 1))));
  const Dims d = c.dims(v);
  V row = c.reshape(c.counting(d[0], c.integer("k", 0)), {d[0], c.constant(1)});
  c.result(c.cast(c.binary(Op::equal, row, c.counting(d[1])), *to));
}

void triangle(Call &c) {
  V x = c.value(0);
  const std::vector<E> k = c.has(1) ? c.exprs(1) : std::vector<E>{c.constant(0)};
  if (c.rank(x) < 2 || k.size() != 1)
    return;
  const Dims d = c.dims(x);
  const bool upper = c.integer("upper", 1) != 0;
  // Element (i, j) stays where j - i is at least k, or at most k.
  V row = c.counting(d[d.size() - 2]);
  if (c.known(k[0]) != 0)
    row = c.binary(Op::add, row, c.whole(k[0]));
  row = c.reshape(row, {d[d.size() - 2], c.constant(1)});
  V keep = c.binary(upper ? Op::less_equal : Op::greater_equal, row, c.counting(d.back()));
  c.result(c.op(Op::where, {keep, x, c.like(x, 0)}));
}

void shape(Call &c) { c.unsupported("the shape of a value that is no tensor"); }

} // namespace

int64_t stash_type_of_range(const Call &c, DType dtype) {
  const int64_t given = c.integer("stash_type", 1);
  return is_real(dtype) && ir::info(dtype).bytes_per_block == 2 ? given : 1;
}

void add_shapes(HandlerTable &table) {
  const std::pair<std::string_view, Handler> rows[] = {{"Reshape", reshape},
                                                       {"Flatten", flatten},
                                                       {"Squeeze", squeeze},
                                                       {"Unsqueeze", unsqueeze},
                                                       {"Transpose", transpose},
                                                       {"Concat", concat},
                                                       {"Slice", slice},
                                                       {"Expand", expand},
                                                       {"Tile", tile},
                                                       {"ConstantOfShape", constant_of_shape},
                                                       {"Range", range},
                                                       {"DepthToSpace", depth_to_space},
                                                       {"SpaceToDepth", depth_to_space},
                                                       {"EyeLike", eye_like},
                                                       {"Trilu", triangle},
                                                       {"Shape", shape},
                                                       {"Size", shape}};
  for (const auto &[name, handler] : rows)
    table[name] = handler;
}

} // namespace cugrt::onnx
