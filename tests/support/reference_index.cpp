// Reference arithmetic: ops that choose elements by position, by a slice, by a shape to fill.
#include "support/reference_call.h"

#include <algorithm>

namespace cugrt::test {

namespace {

// A position along a dimension of `size`: negative ones count from the end, others outside are the
// nearest.
int64_t nearest(double given, int64_t size) {
  const int64_t at = int64_t(given) < 0 ? int64_t(given) + size : int64_t(given);
  return std::min(std::max(at, int64_t(0)), size - 1);
}

} // namespace

std::vector<Array> reference_gather(const Call &call) {
  const Array &x = call.operand(0), &positions = call.operand(1);
  const size_t axis = call.axis(), rank = positions.dims.size();
  Dims dims = x.dims;
  dims.erase(dims.begin() + int64_t(axis));
  dims.insert(dims.begin() + int64_t(axis), positions.dims.begin(), positions.dims.end());
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size() && x.dims[axis] > 0; ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    const auto begin = at.begin() + int64_t(axis), end = begin + int64_t(rank);
    Dims from(at.begin(), begin);
    const size_t which = size_t(index_of(Dims(begin, end), positions.dims));
    from.push_back(nearest(positions.values[which], x.dims[axis]));
    from.insert(from.end(), end, at.end());
    y.values[i] = x.values[size_t(index_of(from, x.dims))];
  }
  return {y};
}

std::vector<Array> reference_gather_elements(const Call &call) {
  const Array &x = call.operand(0), &positions = call.operand(1);
  Array y = Array::of(positions.dims);
  for (size_t i = 0; i < y.values.size() && x.dims[call.axis()] > 0; ++i) {
    Dims at = coordinates(int64_t(i), positions.dims);
    at[call.axis()] = nearest(positions.values[i], x.dims[call.axis()]);
    y.values[i] = x.values[size_t(index_of(at, x.dims))];
  }
  return {y};
}

std::vector<Array> reference_gather_nd(const Call &call) {
  const Array &x = call.operand(0), &indices = call.operand(1);
  const int64_t places = indices.dims.back(), batch = call.integer("batch_dims");
  Dims dims(indices.dims.begin(), indices.dims.end() - 1);
  dims.insert(dims.end(), x.dims.begin() + batch + places, x.dims.end());
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    const auto tail = at.begin() + int64_t(indices.dims.size()) - 1;
    const int64_t row =
        index_of(Dims(at.begin(), tail), Dims(indices.dims.begin(), indices.dims.end() - 1));
    Dims from(at.begin(), at.begin() + batch);
    bool empty = false;
    for (int64_t p = 0; p < places; ++p) {
      const int64_t size = x.dims[size_t(batch + p)];
      empty = empty || size == 0;
      from.push_back(nearest(indices.values[size_t(row * places + p)], size));
    }
    from.insert(from.end(), tail, at.end());
    y.values[i] = empty ? 0 : x.values[size_t(index_of(from, x.dims))];
  }
  return {y};
}

// --- Scattering ----------------------------------------------------------------------------------

namespace {

// An update of the element at `at`, of which some may lie nowhere: negative ones count from the
// end.
void update(const Call &call, Array &y, Dims at, double value) {
  for (size_t d = 0; d < at.size(); ++d) {
    at[d] += at[d] < 0 ? y.dims[d] : 0;
    if (at[d] < 0 || at[d] >= y.dims[d])
      return;
  }
  double &element = y.values[size_t(index_of(at, y.dims))];
  const std::string reduction = call.text("reduction");
  const Op op = reduction == "add"   ? Op::add
                : reduction == "mul" ? Op::mul
                : reduction == "max" ? Op::maximum
                                     : Op::minimum;
  element = reduction == "none" ? value : call.stored(binary(op, element, value));
}

} // namespace

std::vector<Array> reference_scatter_elements(const Call &call) {
  Array y = call.operand(0);
  const Array &indices = call.operand(1), &updates = call.operand(2);
  for (size_t i = 0; i < updates.values.size(); ++i) {
    Dims at = coordinates(int64_t(i), updates.dims);
    at[call.axis()] = int64_t(indices.values[i]);
    update(call, y, at, updates.values[i]);
  }
  return {y};
}

std::vector<Array> reference_scatter_nd(const Call &call) {
  Array y = call.operand(0);
  const Array &indices = call.operand(1), &updates = call.operand(2);
  const int64_t places = indices.dims.back();
  for (size_t i = 0; i < updates.values.size(); ++i) {
    const Dims from = coordinates(int64_t(i), updates.dims);
    const auto tail = from.begin() + int64_t(indices.dims.size()) - 1;
    const int64_t row =
        index_of(Dims(from.begin(), tail), Dims(indices.dims.begin(), indices.dims.end() - 1));
    Dims at;
    for (int64_t p = 0; p < places; ++p)
      at.push_back(int64_t(indices.values[size_t(row * places + p)]));
    at.insert(at.end(), tail, from.end());
    update(call, y, at, updates.values[i]);
  }
  return {y};
}

std::vector<Array> reference_one_hot(const Call &call) {
  const Array &ids = call.operand(0);
  const int64_t depth = call.integer("depth"), given = call.integer("axis");
  const auto rank = int64_t(ids.dims.size()) + 1;
  const int64_t axis = given < 0 ? given + rank : given;
  const ir::DType dtype = ir::op_dtype(call.op, call.attributes, "dtype");
  Dims dims = ids.dims;
  dims.insert(dims.begin() + axis, depth);
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    Dims at = coordinates(int64_t(i), dims);
    const int64_t place = at[size_t(axis)];
    at.erase(at.begin() + axis);
    const double id = ids.values[size_t(index_of(at, ids.dims))];
    const bool on = id == double(place) || id + double(depth) == double(place);
    y.values[i] = round_to(dtype, call.number(on && id < double(depth) ? "on" : "off"));
  }
  return {y};
}

std::vector<Array> reference_slice(const Call &call) {
  const Array &x = call.operand(0);
  std::vector<Dims> chosen; // along each dimension, the positions
  for (int64_t size : x.dims) {
    chosen.emplace_back();
    for (int64_t i = 0; i < size; ++i)
      chosen.back().push_back(i);
  }
  if (const Array *begin = call.optional(1)) {
    for (size_t d = 0; d < x.dims.size(); ++d) {
      const auto from = chosen[d].begin() + int64_t(begin->values[d]);
      chosen[d] = Dims(from, from + int64_t(call.operand(2).values[d]));
    }
  }
  const Dims starts = call.integers("starts"), ends = call.integers("ends");
  const Dims axes = call.integers("axes"), steps = call.integers("steps");
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t given = axes.empty() ? int64_t(i) : axes[i];
    const auto axis = size_t(given < 0 ? given + int64_t(x.dims.size()) : given);
    const int64_t size = x.dims[axis], step = steps.empty() ? 1 : steps[i];
    auto clamped = [&](int64_t bound) {
      const int64_t at = bound < 0 && bound > INT64_MIN / 2 ? bound + size : bound;
      return step > 0 ? std::min(std::max(at, int64_t(0)), size)
                      : std::min(std::max(at, int64_t(-1)), size - 1);
    };
    chosen[axis].clear();
    for (int64_t at = clamped(starts[i]), end = clamped(ends[i]); step > 0 ? at < end : at > end;
         at += step)
      chosen[axis].push_back(at);
  }
  Dims dims;
  for (const Dims &positions : chosen)
    dims.push_back(int64_t(positions.size()));
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    Dims at = coordinates(int64_t(i), dims);
    for (size_t d = 0; d < at.size(); ++d)
      at[d] = chosen[d][size_t(at[d])];
    y.values[i] = x.values[size_t(index_of(at, x.dims))];
  }
  return {y};
}

std::vector<Array> reference_pad(const Call &call) {
  const Array &x = call.operand(0);
  const Dims before = call.integers("before"), after = call.integers("after");
  const std::string mode = call.text("mode");
  Dims dims = x.dims;
  for (size_t d = 0; d < dims.size(); ++d)
    dims[d] += before[d] + after[d];
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    Dims at = coordinates(int64_t(i), dims);
    bool inside = true;
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t last = x.dims[d] - 1;
      at[d] -= before[d];
      if (mode == "edge")
        at[d] = std::min(std::max(at[d], int64_t(0)), last);
      else if (mode == "reflect")
        at[d] = at[d] < 0 ? -at[d] : at[d] > last ? 2 * last - at[d] : at[d];
      inside = inside && at[d] >= 0 && at[d] <= last;
    }
    y.values[i] = inside ? x.values[size_t(index_of(at, x.dims))]
                         : round_to(call.dtype, call.number("value"));
  }
  return {y};
}

std::vector<Array> reference_broadcast_to(const Call &call) {
  Array y = Array::of(Dims(call.operand(1).values.begin(), call.operand(1).values.end()));
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = broadcast_at(call.operand(0), coordinates(int64_t(i), y.dims));
  return {y};
}

std::vector<Array> reference_range(const Call &call) {
  const Array *shape = call.optional(0);
  const ir::DType dtype = ir::op_dtype(call.op, call.attributes, "dtype");
  Array y = Array::of({shape ? int64_t(shape->values[0]) : call.integer("length")});
  for (size_t i = 0; i < y.values.size(); ++i)
    y.values[i] = wrap_to(dtype, call.number("start") + double(i) * call.number("step"));
  return {y};
}

} // namespace cugrt::test
