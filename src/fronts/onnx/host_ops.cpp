// Gather, Slice, Concat and their like over known elements; see host_ops.h.
#include "fronts/onnx/host_ops.h"
#include "base/type/element.h"

#include <algorithm>

namespace cugrt::onnx::host {

namespace {

// --- Dtypes that fold

/// Sets of dtypes, by bits.
enum Dtypes : uint32_t {
  kNothing = 0,
  kBool = 1,
  kShort = 2,    // i8, i16
  kUnsigned = 4, // u8, u16, u32
  kIndex = 8,    // i32, i64
  kWide = 16,    // u64, which expressions hold by its bits
  kReal = 32,
  kInteger = kShort | kUnsigned | kIndex,
  kNumber = kInteger | kReal,
  kAny = kBool | kNumber | kWide,
};

uint32_t set_of(DType dtype) {
  if (ir::scalar_bytes(dtype) == 0)
    return kNothing;
  switch (ir::info(dtype).kind) {
  case ir::DTypeKind::boolean:
    return kBool;
  case ir::DTypeKind::signed_integer:
    return dtype == DType::i32 || dtype == DType::i64 ? kIndex : kShort;
  case ir::DTypeKind::unsigned_integer:
    return dtype == DType::u64 ? kWide : kUnsigned;
  case ir::DTypeKind::floating:
    return kReal;
  case ir::DTypeKind::block:
    break;
  }
  return kNothing;
}

/// The least and the largest number of operands; dtypes of the first, the second, those behind.
struct Rule {
  std::vector<std::string_view> ops;
  Fold fold;
  size_t least, most;
  uint32_t first, second = kNothing, others = kNothing;
};

const std::unordered_map<std::string_view, Rule> &rules() {
  constexpr uint32_t kAll = kNumber | kWide, kEqual = kBool | kNumber;
  static const auto made = [] {
    std::unordered_map<std::string_view, Rule> table;
    for (const Rule &rule : std::initializer_list<Rule>{
             {{"Ceil", "Exp", "Floor", "Log", "Reciprocal", "Round", "Sqrt"},
              Fold::unary,
              1,
              1,
              kReal},
             {{"Abs"}, Fold::unary, 1, 1, kNumber},
             {{"Neg"}, Fold::unary, 1, 1, kShort | kIndex | kReal},
             {{"Not"}, Fold::unary, 1, 1, kBool},
             {{"Add", "Mul", "Sub"}, Fold::binary, 2, 2, kAll, kAll},
             {{"Div", "Max", "Min", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"},
              Fold::binary,
              2,
              2,
              kNumber,
              kNumber},
             {{"Equal"}, Fold::binary, 2, 2, kEqual, kEqual},
             {{"Mod"}, Fold::binary, 2, 2, kInteger, kInteger},
             {{"Pow"}, Fold::binary, 2, 2, kReal, kReal},
             {{"And", "Or", "Xor"}, Fold::binary, 2, 2, kBool, kBool},
             {{"Cast"}, Fold::cast, 1, 1, kAny},
             {{"CastLike"}, Fold::cast, 2, 2, kAny, kAny},
             {{"Where"}, Fold::where, 3, 3, kBool, kAny, kAny},
             {{"ConstantOfShape"}, Fold::constant_of_shape, 1, 1, kIndex},
             {{"Range"}, Fold::range, 3, 3, kNumber, kNumber, kNumber},
             {{"ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"},
              Fold::reduce,
              1,
              2,
              kInteger,
              kIndex},
             {{"Identity", "Transpose"}, Fold::move, 1, 1, kAny},
             {{"Expand", "Gather", "Reshape"}, Fold::move, 2, 2, kAny, kIndex},
             {{"Split", "Squeeze", "Unsqueeze"}, Fold::move, 1, 2, kAny, kIndex},
             {{"Slice"}, Fold::move, 1, 5, kAny, kIndex, kIndex},
             {{"Concat"}, Fold::move, 1, SIZE_MAX, kAny, kAny, kAny},
         })
      for (std::string_view op : rule.ops)
        table.emplace(op, rule);
    return table;
  }();
  return made;
}

// --- Ops that choose elements

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

/// Of integers that are known: none where the elements are of another kind.
std::optional<Ints> numbers(Call &call, const Host &host) {
  Ints out;
  if (!(set_of(host.dtype) & kIndex))
    return std::nullopt;
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
  const auto count = element_count(gathered(x.dims, axis, ids.dims));
  if (!count || *count > kMostElements)
    return std::nullopt;
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
  auto each = [&](const Ints &given) { return given.empty() || given.size() == starts->size(); };
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size() || !each(*axes) ||
      !each(*steps))
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
    if (out.size() + part->size() > size_t(kMostElements))
      return std::nullopt;
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
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
      return std::nullopt;
    for (int64_t axis : axes) {
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
    const bool zero_copies = !call.integer("allowzero", 0);
    int64_t rest = 1;
    ptrdiff_t open = -1;
    for (size_t i = 0; i < list->size(); ++i) {
      int64_t &d = (*list)[i];
      if (d == 0 && zero_copies) {
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
  call.axis(call.integer("axis", 0), 1);
  std::optional<Ints> sections;
  if (in.size() > 1 && in[1])
    sections = numbers(call, *in[1]);
  else if (call.attribute("split"))
    sections = call.integers("split", {});
  const auto parts = int64_t(call.node.outputs.size());
  if (call.integer("num_outputs", parts) != parts)
    return std::nullopt;
  if (!sections) {
    if (in.size() > 1 && in[1])
      return std::nullopt;
    if (!call.attribute("num_outputs") && x.dims[0] % parts)
      return std::nullopt; // the device's handler says so
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
  if (at != x.size() || int64_t(out.size()) != parts || call.integer("num_outputs", parts) != parts)
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
  const auto rule = rules().find(op);
  return rule != rules().end() && rule->second.fold == Fold::move;
}

bool has_elements(DType dtype) { return set_of(dtype) != kNothing; }

std::optional<Fold> foldable(Call &call, std::vector<const Host *> &in) {
  const auto found = rules().find(call.node.op);
  if (found == rules().end())
    return std::nullopt;
  const Rule &rule = found->second;
  if (!call.w.has_room())
    return std::nullopt;
  if (call.input_count() < rule.least || call.input_count() > rule.most)
    return std::nullopt;
  for (size_t i = 0; i < call.input_count(); ++i) {
    in.push_back(nullptr);
    const EntryPtr entry = call.entry(i);
    if (!entry && i < rule.least)
      return std::nullopt;
    if (!entry)
      continue;
    const uint32_t taken = i == 0 ? rule.first : i == 1 ? rule.second : rule.others;
    const std::optional<DType> dtype = call.w.entry_dtype(*entry);
    if (!dtype || !(set_of(*dtype) & taken))
      return std::nullopt;
    in[i] = call.host(i);
    if (!in[i] || in[i]->size() > size_t(kMostElements))
      return std::nullopt;
  }
  return rule.fold;
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
