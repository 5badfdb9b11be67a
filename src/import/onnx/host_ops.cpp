// Gather, Slice, Concat and their like over known elements; see host_ops.h.
#include "import/onnx/host_ops.h"

#include <algorithm>

namespace cugrt::onnx::host {

namespace {

constexpr int64_t kMostElements = 4096;

/// Elements of `x` in another order and shape.
Host chosen(const Host &x, Ints dims, const std::vector<size_t> &from) {
  Host out{x.dtype, std::move(dims), {}, {}};
  for (size_t i : from)
    if (is_real(x.dtype))
      out.reals.push_back(x.reals[i]);
    else
      out.ints.push_back(x.ints[i]);
  return out;
}

Ints strides_of(const Ints &dims) {
  Ints strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * dims[i];
  return strides;
}

/// The elements that begin at `begin` and are `step` apart along each axis.
std::vector<size_t> walk(const Ints &dims, int64_t begin, const Ints &steps) {
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

std::optional<Ints> numbers(Call &call, const Host &host) {
  Ints out;
  for (E e : host.ints) {
    const auto number = call.known(e);
    if (!number)
      return std::nullopt;
    out.push_back(*number);
  }
  return out;
}

Ints gathered(const Ints &dims, size_t axis, const Ints &ids) {
  Ints out(dims.begin(), dims.begin() + ptrdiff_t(axis));
  out.insert(out.end(), ids.begin(), ids.end());
  out.insert(out.end(), dims.begin() + ptrdiff_t(axis) + 1, dims.end());
  return out;
}

using Hosts = std::optional<std::vector<Host>>;

Hosts gather(Call &call, const Host &x, const Host &ids) {
  const auto positions = numbers(call, ids);
  if (!positions || x.dims.empty())
    return std::nullopt;
  const size_t axis = call.axis(call.integer("axis", 0), x.dims.size());
  const Ints strides = strides_of(x.dims);
  const int64_t outer = *element_count(Ints(x.dims.begin(), x.dims.begin() + ptrdiff_t(axis)));
  const int64_t size = x.dims[axis], inner = strides[axis];
  std::vector<size_t> from;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t p : *positions) {
      const int64_t at = p < 0 ? p + size : p;
      if (at < 0 || at >= size)
        return std::nullopt;
      for (int64_t i = 0; i < inner; ++i)
        from.push_back(size_t((o * size + at) * inner + i));
    }
  return std::vector<Host>{chosen(x, gathered(x.dims, axis, ids.dims), from)};
}

Hosts slice(Call &call, const std::vector<const Host *> &in) {
  const Host &x = *in[0];
  auto list = [&](size_t i, const char *name) -> std::optional<Ints> {
    if (i < in.size() && in[i])
      return numbers(call, *in[i]);
    return call.integers(name, {});
  };
  const auto starts = list(1, "starts"), ends = list(2, "ends"), axes = list(3, "axes"),
             steps = list(4, "steps");
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size())
    return std::nullopt;
  Ints dims = x.dims, stride = strides_of(x.dims);
  std::vector<bool> taken(dims.size(), false);
  int64_t begin = 0;
  for (size_t i = 0; i < starts->size(); ++i) {
    const size_t axis = call.axis(i < axes->size() ? (*axes)[i] : int64_t(i), x.dims.size());
    const int64_t wanted = i < steps->size() ? (*steps)[i] : 1, size = x.dims[axis];
    if (call.failed() || wanted == 0 || taken[axis])
      return std::nullopt;
    taken[axis] = true;
    const int64_t step = std::clamp(wanted, -size - 1, size + 1); // beyond it the same elements
    auto place = [&](int64_t at) {
      at = at < 0 ? (at < -size ? -1 : at + size) : at;
      return step > 0 ? std::clamp(at, int64_t(0), size) : std::clamp(at, int64_t(-1), size - 1);
    };
    const int64_t first = place((*starts)[i]), last = place((*ends)[i]);
    const int64_t length = step > 0 ? last - first : first - last, by = step > 0 ? step : -step;
    dims[axis] = length <= 0 ? 0 : (length + by - 1) / by;
    begin += std::max<int64_t>(first, 0) * stride[axis];
    stride[axis] *= step;
  }
  return std::vector<Host>{chosen(x, dims, walk(dims, begin, stride))};
}

Hosts concat(Call &call, const std::vector<const Host *> &in) {
  const size_t axis = call.axis(call.integer("axis", 0), in[0]->dims.size());
  if (call.failed() || axis != 0)
    return std::nullopt; // shapes have one axis
  Host out{in[0]->dtype, in[0]->dims, {}, {}};
  out.dims[0] = 0;
  for (const Host *part : in) {
    if (!part || part->dtype != out.dtype || part->dims.size() != out.dims.size())
      return std::nullopt;
    out.dims[0] += part->dims[0];
    out.ints.insert(out.ints.end(), part->ints.begin(), part->ints.end());
    out.reals.insert(out.reals.end(), part->reals.begin(), part->reals.end());
  }
  const auto count = element_count(out.dims);
  if (!count || size_t(*count) != out.size())
    return std::nullopt;
  return std::vector<Host>{std::move(out)};
}

/// Squeeze, Unsqueeze, Reshape, Flatten: other dimensions.
Hosts reshaped(Call &call, const std::vector<const Host *> &in) {
  const Host &x = *in[0];
  const std::string_view op = call.node.op;
  std::optional<Ints> list;
  if (in.size() > 1 && in[1])
    list = numbers(call, *in[1]);
  else if (call.attribute("axes"))
    list = call.integers("axes", {});
  Ints dims = x.dims;
  if (op == "Unsqueeze") {
    if (!list)
      return std::nullopt;
    const size_t rank = dims.size() + list->size();
    Ints axes = call.axes(*list, rank);
    std::sort(axes.begin(), axes.end());
    for (int64_t axis : axes) {
      if (size_t(axis) > dims.size())
        return std::nullopt;
      dims.insert(dims.begin() + axis, 1);
    }
  } else if (op == "Squeeze") {
    std::vector<bool> gone(dims.size(), false);
    if (list)
      for (int64_t axis : call.axes(*list, dims.size()))
        gone[size_t(axis)] = true;
    Ints kept;
    for (size_t i = 0; i < dims.size(); ++i)
      if (list ? !gone[i] : dims[i] != 1)
        kept.push_back(dims[i]);
    dims = kept;
  } else if (op == "Flatten") {
    return std::nullopt;
  } else {
    if (!list)
      return std::nullopt;
    int64_t rest = 1;
    ptrdiff_t open = -1;
    for (size_t i = 0; i < list->size(); ++i) {
      int64_t &d = (*list)[i];
      if (d == 0 && !call.integer("allowzero", 0)) {
        if (i >= dims.size())
          return std::nullopt;
        d = dims[i];
      }
      if (d == -1)
        open = ptrdiff_t(i);
      else if (__builtin_mul_overflow(rest, d, &rest))
        return std::nullopt;
    }
    if (open >= 0 && rest > 0)
      (*list)[size_t(open)] = int64_t(x.size()) / rest;
    dims = *list;
  }
  const auto count = element_count(dims);
  if (call.failed() || !count || size_t(*count) != x.size())
    return std::nullopt;
  Host out = x;
  out.dims = dims;
  return std::vector<Host>{std::move(out)};
}

Hosts expand(Call &call, const Host &x, const Host &shape) {
  const auto wanted = numbers(call, shape);
  const auto dims = wanted ? broadcast(x.dims, *wanted) : std::nullopt;
  const auto count = dims ? element_count(*dims) : std::nullopt;
  if (!count || *count > kMostElements)
    return std::nullopt;
  return std::vector<Host>{chosen(x, *dims, stretched(x.dims, *dims))};
}

Hosts transpose(Call &call, const Host &x) {
  Ints axes = call.integers("perm", {});
  if (axes.empty())
    for (size_t i = x.dims.size(); i-- > 0;)
      axes.push_back(int64_t(i));
  if (axes.size() != x.dims.size())
    return std::nullopt;
  const Ints strides = strides_of(x.dims);
  Ints dims, steps;
  std::vector<bool> taken(x.dims.size(), false);
  for (int64_t axis : axes) {
    if (axis < 0 || size_t(axis) >= x.dims.size() || taken[size_t(axis)])
      return std::nullopt;
    taken[size_t(axis)] = true;
    dims.push_back(x.dims[size_t(axis)]);
    steps.push_back(strides[size_t(axis)]);
  }
  return std::vector<Host>{chosen(x, dims, walk(dims, 0, steps))};
}

Hosts split(Call &call, const std::vector<const Host *> &in) {
  const Host &x = *in[0];
  if (x.dims.size() != 1 || call.node.outputs.empty())
    return std::nullopt;
  std::optional<Ints> sections;
  if (in.size() > 1 && in[1])
    sections = numbers(call, *in[1]);
  else if (call.attribute("split"))
    sections = call.integers("split", {});
  const auto parts = int64_t(call.node.outputs.size());
  if (!sections) {
    const int64_t each = (x.dims[0] + parts - 1) / parts;
    sections = Ints();
    for (int64_t left = x.dims[0], i = 0; i < parts; ++i, left -= sections->back())
      sections->push_back(std::min(each, left));
  }
  std::vector<Host> out;
  size_t at = 0;
  for (int64_t size : *sections) {
    if (size < 0 || at + size_t(size) > x.size())
      return std::nullopt;
    std::vector<size_t> from;
    for (int64_t i = 0; i < size; ++i)
      from.push_back(at++);
    out.push_back(chosen(x, {size}, from));
  }
  if (at != x.size())
    return std::nullopt;
  return out;
}

} // namespace

std::optional<Ints> broadcast(const Ints &a, const Ints &b) {
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

std::vector<size_t> stretched(const Ints &from, const Ints &to) {
  const Ints strides = strides_of(from);
  Ints steps(to.size(), 0);
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1)
      steps[to.size() - from.size() + i] = strides[i];
  return walk(to, 0, steps);
}

bool moves(std::string_view op) {
  static constexpr std::string_view kOps[] = {"Gather",    "Slice",   "Concat", "Squeeze",
                                              "Unsqueeze", "Reshape", "Expand", "Identity",
                                              "Transpose", "Split"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

std::optional<std::vector<Host>> moved(Call &call, const std::vector<const Host *> &in) {
  const std::string_view op = call.node.op;
  if (op == "Identity")
    return std::vector<Host>{*in[0]};
  if (op == "Slice")
    return slice(call, in);
  if (op == "Concat")
    return concat(call, in);
  if (op == "Transpose")
    return transpose(call, *in[0]);
  if (op == "Split")
    return split(call, in);
  if (op == "Gather" || op == "Expand") {
    if (in.size() < 2 || !in[1])
      return std::nullopt;
    return op == "Gather" ? gather(call, *in[0], *in[1]) : expand(call, *in[0], *in[1]);
  }
  return reshaped(call, in);
}

} // namespace cugrt::onnx::host
