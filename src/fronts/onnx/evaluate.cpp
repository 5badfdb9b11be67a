// Nodes whose results are known before a run: their attributes and operands as ops over known
// elements (ops/known/known_ops.h). Nothing is emitted.
#include "base/type/element.h"
#include "fronts/onnx/call.h"
#include "fronts/onnx/fold_rules.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

using fold::Fold;
using ir::kMostKnownElements;
using Hosts = std::optional<std::vector<Host>>;

class Evaluation {
public:
  explicit Evaluation(Call &call)
      : c_(call), known_(call.w.exprs(), [&call](E e) { return call.w.range(e); }) {}
  bool run() { return c_.node.domain.empty() && (elements() || fractions()); }
  /// An input that is floats which depend on dimensions; numbers become them.
  std::optional<Fractions> fractions_of(size_t i);

private:
  bool elements();
  bool foldable(const fold::Rule &rule);
  template <class Known> bool give(std::optional<Known> result) {
    if (result)
      c_.result(std::move(*result));
    return result.has_value();
  }
  bool shape_of();
  /// Between bounds, each of which may be absent; `part` gives operand i.
  template <class Known, class Part> std::optional<Known> clip(const Part &part);
  std::optional<Host> cast();
  std::optional<Host> constant_of_shape();
  std::optional<Host> one_hot();
  /// All operands by the op, in order; `part` gives operand i.
  template <class Known, class Part> std::optional<Known> joined(Op op, const Part &part);
  template <class Known> std::optional<Known> reduce(Op op, const Known &x);

  // Evaluates ops that only choose elements. Operands behind the moved ones may have any dtype.
  Hosts moved(const std::vector<const Host *> &in);
  std::optional<Host> gather(const Host &x, const Host &ids);
  std::optional<Host> slice(const std::vector<const Host *> &in);
  std::optional<Host> concat(const std::vector<const Host *> &in);
  std::optional<Host> reshaped(const std::vector<const Host *> &in);
  std::optional<Ints> dims_of_reshape(const Ints &from, size_t count, std::optional<Ints> to);
  std::optional<Host> transpose(const Host &x);
  Hosts split(const std::vector<const Host *> &in);
  /// Operand i as numbers, or else the attribute that it once was.
  std::optional<Ints> list(const std::vector<const Host *> &in, size_t i, const char *name) {
    return i < in.size() && in[i] ? known_.numbers(*in[i]) : std::optional(c_.integers(name, {}));
  }

  bool fractions();
  bool cast_fractions();
  bool moved_fractions();

  Call &c_;
  ir::KnownOps known_;
  std::vector<const Host *> in_; // null: absent
};

// --- Elements

/// Whether each operand is known, small, and of a dtype that the op folds.
bool Evaluation::foldable(const fold::Rule &rule) {
  if (!c_.w.has_room() || c_.input_count() < rule.least || c_.input_count() > rule.most)
    return false;
  for (size_t i = 0; i < c_.input_count(); ++i) {
    in_.push_back(nullptr);
    const EntryPtr entry = c_.entry(i);
    if (!entry && i < rule.least)
      return false;
    if (!entry)
      continue;
    const uint32_t taken = i == 0 ? rule.first : i == 1 ? rule.second : rule.others;
    const std::optional<DType> dtype = c_.w.entry_dtype(*entry);
    if (!dtype || !(fold::set_of(*dtype) & taken))
      return false;
    in_[i] = c_.host(i);
    if (!in_[i] || in_[i]->size() > size_t(kMostKnownElements))
      return false;
  }
  return true;
}

bool Evaluation::elements() {
  if (c_.node.op == "Shape" || c_.node.op == "Size")
    return shape_of();
  const fold::Found found = fold::find_rule(c_.node.op);
  if (!found.rule || !foldable(*found.rule))
    return false;
  const Op op = found.op;
  switch (found.rule->fold) {
  case Fold::unary:
    return give(known_.unary(op, *in_[0]));
  case Fold::binary: // the remainder that has the dividend's sign is the device's
    return !(op == Op::floor_mod && c_.integer("fmod", 0)) && give(joined<Host>(op, [&](size_t i) {
      return in_[i] ? std::optional(*in_[i]) : std::nullopt;
    }));
  case Fold::clip: // a bound that is nan is none, which the device's handler knows
    return give(clip<Host>([&](size_t i) {
      return std::ranges::any_of(in_[i]->reals, [](double x) { return x != x; })
                 ? std::nullopt
                 : std::optional(*in_[i]);
    }));
  case Fold::cast:
    return give(cast());
  case Fold::where:
    return give(known_.where(*in_[0], *in_[1], *in_[2]));
  case Fold::constant_of_shape:
    return give(constant_of_shape());
  case Fold::one_hot:
    return give(one_hot());
  case Fold::range:
    return stash_type_of_range(c_, in_[0]->dtype) == 1 &&
           give(known_.range(*in_[0], *in_[1], *in_[2]));
  case Fold::reduce:
    return give(reduce(op, *in_[0]));
  case Fold::move: {
    Hosts all = moved(in_);
    for (size_t i = 0; all && i < all->size(); ++i)
      c_.result(std::move((*all)[i]), i);
    return all.has_value();
  }
  }
  return false;
}

template <class Known, class Part>
std::optional<Known> Evaluation::joined(Op op, const Part &part) {
  std::optional<Known> y = part(0);
  for (size_t i = 1; y && i < c_.input_count(); ++i) {
    const std::optional<Known> next = part(i);
    y = next ? known_.binary(op, *y, *next) : std::nullopt;
  }
  return y;
}

template <class Known, class Part> std::optional<Known> Evaluation::clip(const Part &part) {
  if (c_.attribute("min") || c_.attribute("max")) // before opset 11
    return std::nullopt;
  std::optional<Known> y = part(0);
  for (size_t i = 1; y && i < c_.input_count(); ++i)
    if (c_.has(i)) {
      const std::optional<Known> bound = part(i);
      y = bound ? known_.binary(i == 1 ? Op::maximum : Op::minimum, *y, *bound) : std::nullopt;
    }
  return y;
}

std::optional<Host> Evaluation::cast() {
  if (c_.node.op == "CastLike" && c_.entry(1)->narrow != Narrow::none)
    return std::nullopt;
  const std::optional<DType> to = c_.node.op == "CastLike"
                                      ? std::optional(in_[1]->dtype)
                                      : dtype_of(static_cast<int32_t>(c_.integer("to", 0)));
  if (!to || fold::set_of(*to) == fold::kNothing)
    return std::nullopt;
  ignore_rounding(c_, *to);
  return known_.cast(*in_[0], *to);
}

bool Evaluation::shape_of() {
  const EntryPtr x = c_.entry(0);
  if (!x)
    return false;
  Dims dims;
  if (x->device.valid())
    dims = c_.dims(x->device);
  else
    for (int64_t dim : x->host        ? x->host->dims
                       : x->constant  ? x->constant->dims
                       : x->fractions ? x->fractions->above.dims
                                      : Ints())
      dims.push_back(c_.constant(dim));
  Host out;
  if (c_.node.op == "Size") {
    out.ints = {c_.product(dims)};
  } else {
    const auto rank = static_cast<int64_t>(dims.size());
    auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t(0), rank); };
    const int64_t begin = clamp(c_.integer("start", 0)), end = clamp(c_.integer("end", rank));
    if (begin < end)
      out.ints.assign(dims.begin() + begin, dims.begin() + end);
    out.dims = {static_cast<int64_t>(out.ints.size())};
  }
  c_.result(std::move(out));
  return true;
}

std::optional<Host> Evaluation::constant_of_shape() {
  const std::optional<Ints> dims = known_.numbers(*in_[0]);
  const auto count = dims ? ir::element_count(*dims) : std::nullopt;
  if (!count || *count > kMostKnownElements)
    return std::nullopt;
  Host element{DType::f32, {}, {}, {0.0}};
  if (const AttributeView *value = c_.attribute("value"); value && value->tensor) {
    auto loaded = c_.w.load(*value->tensor);
    if (!loaded.ok() || loaded->bytes.empty() || loaded->narrow != Narrow::none)
      return std::nullopt;
    const char *bytes = loaded->bytes.data();
    element = {loaded->dtype, {}, {}, {}};
    if (is_real(loaded->dtype))
      element.reals = {ir::float_at(loaded->dtype, bytes)};
    else
      element.ints = {c_.constant(ir::integer_at(loaded->dtype, bytes))};
  }
  return known_.full(*dims, element);
}

/// Exporters write a shape with n at one place so.
std::optional<Host> Evaluation::one_hot() {
  const Host &values = *in_[2];
  const auto ids = known_.numbers(*in_[0]), depth = known_.numbers(*in_[1]);
  if (!ids || !depth || depth->size() != 1 || depth->front() < 0 || values.dims != Ints{2})
    return std::nullopt;
  Ints dims = in_[0]->dims, places;
  const auto axis = ptrdiff_t(c_.axis(c_.integer("axis", -1), dims.size() + 1));
  const int64_t n = depth->front(),
                inner = ir::element_count(std::span(dims).subspan(size_t(axis))).value_or(0);
  dims.insert(dims.begin() + axis, n);
  const auto count = ir::element_count(dims);
  if (!count || *count > kMostKnownElements)
    return std::nullopt;
  for (int64_t i = 0; i < *count; ++i) {
    const int64_t id = (*ids)[size_t(i / inner / n * inner + i % inner)];
    places.push_back((id < 0 ? id + n : id) == i / inner % n);
  }
  return known_.gather(values, places, dims, 0);
}

Host &elements_of(Host &x) { return x; }
Host &elements_of(Fractions &x) { return x.above; }

template <class Known> std::optional<Known> Evaluation::reduce(Op op, const Known &x) {
  std::optional<Known> out = x;
  Ints dims = elements_of(*out).dims;
  if (elements_of(*out).size() == 0)
    return std::nullopt;
  Ints axes = c_.attribute("axes") ? c_.integers("axes", {}) : c_.has(1) ? c_.constants(1) : Ints();
  const bool keep = c_.integer("keepdims", 1) != 0;
  if (const bool noop = c_.integer("noop_with_empty_axes", 0) != 0; noop && axes.empty())
    return x;
  axes = c_.axes(axes, dims.size());
  for (size_t axis = dims.size(); out && axis-- > 0;)
    if (axes.empty() || std::ranges::count(axes, int64_t(axis))) {
      out = known_.combined(op, *out, axis);
      keep ? void(dims[axis] = 1) : void(dims.erase(dims.begin() + ptrdiff_t(axis)));
    }
  if (out)
    elements_of(*out).dims = dims;
  return out;
}

// --- What only chooses elements

Hosts one(std::optional<Host> host) {
  return host ? Hosts(std::vector<Host>{std::move(*host)}) : std::nullopt;
}

Hosts Evaluation::moved(const std::vector<const Host *> &in) {
  const std::string_view op = c_.node.op;
  const bool has_second = in.size() > 1 && in[1];
  if (op == "Identity")
    return std::vector<Host>{*in[0]};
  if (op == "Slice")
    return one(slice(in));
  if (op == "Concat")
    return one(concat(in));
  if (op == "Transpose")
    return one(transpose(*in[0]));
  if (op == "Split")
    return split(in);
  if (op == "Gather")
    return has_second ? one(gather(*in[0], *in[1])) : std::nullopt;
  if (op == "Expand" || op == "Tile") {
    const auto to = has_second ? known_.numbers(*in[1]) : std::nullopt;
    if (!to)
      return std::nullopt;
    return one(op == "Tile" ? known_.tile(*in[0], *to) : known_.broadcast(*in[0], *to));
  }
  return one(reshaped(in));
}

std::optional<Host> Evaluation::gather(const Host &x, const Host &ids) {
  const auto positions = known_.numbers(ids);
  if (!positions || x.dims.empty())
    return std::nullopt;
  return known_.gather(x, *positions, ids.dims, c_.axis(c_.integer("axis", 0), x.dims.size()));
}

std::optional<Host> Evaluation::slice(const std::vector<const Host *> &in) {
  const auto starts = list(in, 1, "starts"), ends = list(in, 2, "ends"), axes = list(in, 3, "axes"),
             steps = list(in, 4, "steps");
  auto each = [&](const Ints &given) { return given.empty() || given.size() == starts->size(); };
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size() || !each(*axes) ||
      !each(*steps))
    return std::nullopt;
  std::vector<ir::KnownSlice> slices;
  for (size_t i = 0; i < starts->size(); ++i)
    slices.push_back({c_.axis(i < axes->size() ? (*axes)[i] : int64_t(i), in[0]->dims.size()),
                      (*starts)[i], (*ends)[i], i < steps->size() ? (*steps)[i] : 1});
  return known_.slice(*in[0], slices);
}

std::optional<Host> Evaluation::concat(const std::vector<const Host *> &in) {
  if (c_.axis(c_.integer("axis", 0), in[0]->dims.size()) != 0 ||
      std::count(in.begin(), in.end(), nullptr))
    return std::nullopt;
  return known_.concat(in);
}

/// Squeeze, Unsqueeze, Reshape: other dimensions.
std::optional<Host> Evaluation::reshaped(const std::vector<const Host *> &in) {
  std::optional<Ints> to;
  if (in.size() > 1 && in[1]) {
    to = known_.numbers(*in[1]);
    if (!to)
      return std::nullopt;
  } else if (c_.attribute("axes")) {
    to = c_.integers("axes", {});
  }
  const auto dims = dims_of_reshape(in[0]->dims, in[0]->size(), std::move(to));
  return dims ? known_.reshape(*in[0], *dims) : std::nullopt;
}

/// `to` is a list of axes, or of dimensions where the op is Reshape.
std::optional<Ints> Evaluation::dims_of_reshape(const Ints &from, size_t count,
                                                std::optional<Ints> to) {
  Ints dims = from;
  if (c_.node.op == "Squeeze") {
    std::vector<bool> gone(dims.size(), false);
    for (int64_t axis : to ? c_.axes(*to, dims.size()) : Ints())
      gone[size_t(axis)] = true;
    Ints kept;
    for (size_t i = 0; i < dims.size(); ++i)
      if (to ? !gone[i] : dims[i] != 1)
        kept.push_back(dims[i]);
    return kept;
  }
  if (!to)
    return std::nullopt;
  if (c_.node.op == "Unsqueeze") {
    Ints axes = c_.axes(*to, dims.size() + to->size());
    std::sort(axes.begin(), axes.end());
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
      return std::nullopt;
    for (int64_t axis : axes)
      dims.insert(dims.begin() + axis, 1);
    return dims;
  }
  const bool zero_copies = !c_.integer("allowzero", 0);
  int64_t rest = 1;
  ptrdiff_t open = -1;
  for (size_t i = 0; i < to->size(); ++i) {
    int64_t &d = (*to)[i];
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
    (*to)[size_t(open)] = int64_t(count) / rest;
  return to;
}

std::optional<Host> Evaluation::transpose(const Host &x) {
  Ints axes = c_.integers("perm", {});
  for (size_t i = axes.empty() ? x.dims.size() : 0; i-- > 0;)
    axes.push_back(int64_t(i));
  return known_.transpose(x, axes);
}

Hosts Evaluation::split(const std::vector<const Host *> &in) {
  const Host &x = *in[0];
  if (x.dims.size() != 1 || c_.node.outputs.empty())
    return std::nullopt;
  c_.axis(c_.integer("axis", 0), 1);
  const auto parts = int64_t(c_.node.outputs.size());
  if (c_.integer("num_outputs", parts) != parts)
    return std::nullopt;
  Ints sizes;
  if ((in.size() > 1 && in[1]) || c_.attribute("split")) {
    const auto given = list(in, 1, "split");
    if (!given || int64_t(given->size()) != parts)
      return std::nullopt;
    sizes = *given;
  } else {
    if (!c_.attribute("num_outputs") && x.dims[0] % parts)
      return std::nullopt; // the device's handler says so
    const int64_t each = (x.dims[0] + parts - 1) / parts;
    for (int64_t left = x.dims[0], i = 0; i < parts; ++i, left -= sizes.back())
      sizes.push_back(std::min(each, left));
  }
  return known_.split(x, sizes);
}

// --- Floats that depend on dimensions, as exporters compute sizes by them

std::optional<Fractions> Evaluation::fractions_of(size_t i) {
  const EntryPtr entry = c_.entry(i);
  if (!entry)
    return std::nullopt;
  if (entry->fractions)
    return entry->fractions;
  const Host *host = c_.host(i);
  return host ? known_.fractions(*host) : std::nullopt;
}

bool Evaluation::cast_fractions() {
  const auto to = dtype_of(static_cast<int32_t>(c_.integer("to", 0)));
  const EntryPtr x = c_.entry(0);
  if (!x || !to)
    return false;
  ignore_rounding(c_, *to);
  if (x->fractions)
    return is_real(*to) ? give(known_.fractions(*x->fractions, *to))
                        : give(known_.truncated(*x->fractions, *to));
  const Host *host = c_.host(0);
  return host && give(known_.fractions(*host, *to));
}

/// Ops that only choose elements do so with the numerators.
bool Evaluation::moved_fractions() {
  std::vector<Fractions> parts;
  std::vector<const Host *> in;
  const size_t of_floats = c_.node.op == "Concat" ? c_.input_count() : 1;
  for (size_t i = 0; i < of_floats; ++i) {
    auto part = fractions_of(i);
    if (!part || (i && part->dtype != parts[0].dtype))
      return false;
    parts.push_back(std::move(*part));
  }
  if (!known_.share_divisor(parts))
    return false;
  for (const Fractions &part : parts)
    in.push_back(&part.above);
  for (size_t i = of_floats; i < c_.input_count(); ++i) {
    in.push_back(c_.has(i) ? c_.host(i) : nullptr);
    if (c_.has(i) && !in.back())
      return false;
  }
  Hosts all = moved(in);
  for (size_t i = 0; all && i < all->size(); ++i)
    c_.result(Fractions{std::move((*all)[i]), parts[0].below, parts[0].dtype}, i);
  return all.has_value();
}

bool Evaluation::fractions() {
  const std::string_view op = c_.node.op;
  if (op == "Cast")
    return cast_fractions();
  bool any = false;
  for (size_t i = 0; i < c_.input_count(); ++i)
    any = any || (c_.has(i) && c_.entry(i)->fractions);
  const fold::Found found = fold::find_rule(op);
  if (!any || !found.rule)
    return false;
  if (op == "Clip")
    return give(clip<Fractions>([&](size_t i) { return fractions_of(i); }));
  if (found.rule->fold == Fold::binary) {
    auto first = ir::compares(found.op) ? fractions_of(0) : std::nullopt;
    auto second = first ? fractions_of(1) : std::nullopt;
    return second ? give(known_.compared(found.op, std::move(*first), std::move(*second)))
                  : give(joined<Fractions>(found.op, [&](size_t i) { return fractions_of(i); }));
  }
  if (found.rule->fold == Fold::reduce) {
    const auto x = fractions_of(0);
    return x && give(reduce(found.op, *x));
  }
  if (op == "Floor" || op == "Ceil") {
    auto x = fractions_of(0);
    return x && give(std::optional(known_.rounded(found.op, std::move(*x))));
  }
  return found.rule->fold == Fold::move && moved_fractions();
}

} // namespace

std::optional<Fractions> fraction(Call &call, size_t i) {
  auto f = Evaluation(call).fractions_of(i);
  return f && f->above.size() == 1 ? f : std::nullopt;
}

bool evaluate(Call &call) { return Evaluation(call).run(); }

} // namespace cugrt::onnx
