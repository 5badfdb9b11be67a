// Gather, slice, concat and their like over known elements; see known_ops.h.
#include "ops/known/known_ops.h"

#include <algorithm>

namespace cugrt::ir {

namespace {

using Ints = std::vector<int64_t>;

Ints strides_of(std::span<const int64_t> dims) {
  Ints strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return strides;
}

/// The elements that begin at `begin` and are `steps` apart along each axis.
std::vector<size_t> walk(std::span<const int64_t> dims, int64_t begin, const Ints &steps) {
  std::vector<size_t> out;
  const auto count = element_count(dims).value_or(0);
  Ints at(dims.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    int64_t from = begin;
    for (size_t i = 0; i < dims.size(); ++i)
      from += at[i] * steps[i];
    out.push_back(static_cast<size_t>(from));
    for (size_t i = dims.size(); i-- > 0 && ++at[i] == dims[i];)
      at[i] = 0;
  }
  return out;
}

/// Elements of `x` in another order and shape.
KnownTensor chosen(const KnownTensor &x, Ints dims, const std::vector<size_t> &from) {
  KnownTensor out{x.dtype, std::move(dims), {}, {}};
  for (size_t i : from)
    if (is_real(x.dtype))
      out.reals.push_back(x.reals[i]);
    else
      out.ints.push_back(x.ints[i]);
  return out;
}

} // namespace

std::optional<Ints> known_broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  Ints out(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1,
                  y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

std::vector<size_t> known_places(std::span<const int64_t> from, std::span<const int64_t> to) {
  const Ints strides = strides_of(from);
  Ints steps(to.size(), 0);
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1)
      steps[to.size() - from.size() + i] = strides[i];
  return walk(to, 0, steps);
}

std::optional<Ints> KnownOps::numbers(const Tensor &x) const {
  if (x.dtype != DType::i32 && x.dtype != DType::i64)
    return std::nullopt;
  Ints out;
  for (ExprId e : x.ints) {
    const auto number = known(e);
    if (!number)
      return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

std::optional<KnownTensor> KnownOps::gather(const Tensor &x, const Ints &ids, const Ints &id_dims,
                                            size_t axis) {
  const auto at_axis = x.dims.begin() + static_cast<ptrdiff_t>(axis);
  const int64_t outer = *element_count(Ints(x.dims.begin(), at_axis));
  const int64_t size = *at_axis, inner = strides_of(x.dims)[axis];
  Ints dims(x.dims.begin(), at_axis);
  dims.insert(dims.end(), id_dims.begin(), id_dims.end());
  dims.insert(dims.end(), at_axis + 1, x.dims.end());
  const auto count = element_count(dims);
  if (!count || *count > kMostKnownElements)
    return std::nullopt;
  std::vector<size_t> from;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t id : ids) {
      const int64_t at = id < 0 ? id + size : id;
      if (at < 0 || at >= size)
        return std::nullopt;
      for (int64_t i = 0; i < inner; ++i)
        from.push_back(static_cast<size_t>((o * size + at) * inner + i));
    }
  return chosen(x, std::move(dims), from);
}

std::optional<KnownTensor> KnownOps::slice(const Tensor &x, std::span<const KnownSlice> slices) {
  Ints dims = x.dims, stride = strides_of(x.dims);
  std::vector<bool> taken(dims.size(), false);
  int64_t begin = 0;
  for (const KnownSlice &one : slices) {
    if (one.step == 0 || taken[one.axis])
      return std::nullopt;
    taken[one.axis] = true;
    const int64_t size = x.dims[one.axis];
    const int64_t step = std::clamp(one.step, -size - 1, size + 1); // beyond it the same elements
    auto place = [&](int64_t at) {
      at = at < 0 ? (at < -size ? -1 : at + size) : at;
      return step > 0 ? std::clamp(at, int64_t(0), size) : std::clamp(at, int64_t(-1), size - 1);
    };
    const int64_t first = place(one.start), last = place(one.end);
    const int64_t length = step > 0 ? last - first : first - last, by = step > 0 ? step : -step;
    dims[one.axis] = length <= 0 ? 0 : (length + by - 1) / by;
    begin += std::max<int64_t>(first, 0) * stride[one.axis];
    stride[one.axis] *= step;
  }
  return chosen(x, dims, walk(dims, begin, stride));
}

std::optional<KnownTensor> KnownOps::concat(std::span<const Tensor *const> parts) {
  Tensor out{parts[0]->dtype, parts[0]->dims, {}, {}};
  out.dims.at(0) = 0;
  for (const Tensor *part : parts) {
    if (part->dtype != out.dtype || part->dims.size() != out.dims.size())
      return std::nullopt;
    out.dims[0] += part->dims[0];
    if (out.size() + part->size() > static_cast<size_t>(kMostKnownElements))
      return std::nullopt;
    out.ints.insert(out.ints.end(), part->ints.begin(), part->ints.end());
    out.reals.insert(out.reals.end(), part->reals.begin(), part->reals.end());
  }
  const auto count = element_count(out.dims);
  if (!count || static_cast<size_t>(*count) != out.size())
    return std::nullopt;
  return out;
}

std::optional<KnownTensor> KnownOps::reshape(const Tensor &x, Ints dims) {
  const auto count = element_count(dims);
  if (!count || static_cast<size_t>(*count) != x.size())
    return std::nullopt;
  Tensor out = x;
  out.dims = std::move(dims);
  return out;
}

std::optional<KnownTensor> KnownOps::broadcast(const Tensor &x, const Ints &to) {
  auto dims = known_broadcast(x.dims, to);
  const auto count = dims ? element_count(*dims) : std::nullopt;
  if (!count || *count > kMostKnownElements)
    return std::nullopt;
  const std::vector<size_t> from = known_places(x.dims, *dims);
  return chosen(x, std::move(*dims), from);
}

std::optional<KnownTensor> KnownOps::tile(Tensor x, const Ints &times) {
  if (times.size() != x.dims.size())
    return std::nullopt;
  for (size_t axis = 0; axis < times.size(); ++axis) {
    const int64_t length = x.dims[axis], most = kMostKnownElements / std::max<int64_t>(length, 1);
    if (times[axis] < 0 || times[axis] > most)
      return std::nullopt;
    Ints ids;
    for (int64_t i = 0; i < times[axis] * length; ++i)
      ids.push_back(i % length);
    const auto count = int64_t(ids.size());
    auto longer = gather(x, ids, {count}, axis);
    if (!longer)
      return std::nullopt;
    x = std::move(*longer);
  }
  return x;
}

std::optional<KnownTensor> KnownOps::transpose(const Tensor &x, const Ints &axes) {
  if (axes.size() != x.dims.size())
    return std::nullopt;
  const Ints strides = strides_of(x.dims);
  Ints dims, steps;
  std::vector<bool> taken(x.dims.size(), false);
  for (int64_t axis : axes) {
    if (axis < 0 || static_cast<size_t>(axis) >= x.dims.size() || taken[static_cast<size_t>(axis)])
      return std::nullopt;
    taken[static_cast<size_t>(axis)] = true;
    dims.push_back(x.dims[static_cast<size_t>(axis)]);
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  const std::vector<size_t> from = walk(dims, 0, steps);
  return chosen(x, std::move(dims), from);
}

std::optional<std::vector<KnownTensor>> KnownOps::split(const Tensor &x, const Ints &sizes) {
  std::vector<Tensor> out;
  size_t at = 0;
  for (int64_t size : sizes) {
    if (size < 0 || at + static_cast<size_t>(size) > x.size())
      return std::nullopt;
    std::vector<size_t> from;
    for (int64_t i = 0; i < size; ++i)
      from.push_back(at++);
    out.push_back(chosen(x, {size}, from));
  }
  return at == x.size() ? std::optional(std::move(out)) : std::nullopt;
}

} // namespace cugrt::ir
