// Bindings of the importer: ops, constants, shapes, blocks; see importer.h.
#include "base/type/element.h"
#include "fronts/onnx/importer.h"

#include <algorithm>

namespace cugrt::onnx {

/// Smaller constants stand in the module's text, larger ones are weights.
constexpr size_t kMostTextBytes = 1024;
/// Constants of more elements are not looked into on the host.
constexpr int64_t kMostHostElements = 1 << 16;
/// Integers that one launch writes.
constexpr size_t kMostIntegers = 16;
/// Elements of an input that decides a value.
constexpr int64_t kMostInputElements = 64;
/// Bindings of a module.
constexpr size_t kMostBindings = size_t(1) << 18;
/// Limit of an integer input on the host.
constexpr int64_t kMostInputInteger = INT32_MAX - 1;

static std::string interval_text(ir::Interval range) {
  if (range.lower == range.upper)
    return std::to_string(range.lower);
  if (range.upper == INT64_MAX)
    return std::to_string(range.lower) + " or more";
  return std::to_string(range.lower) + " to " + std::to_string(range.upper);
}

void Importer::take_binding() {
  if (builder_.function().values.size() >= kMostBindings)
    refuse("written as ops of the module its nodes have more than " +
           std::to_string(kMostBindings) + " values");
}

V Importer::append(ir::BindingKind kind, std::vector<ir::Operand> operands,
                   const std::vector<E> &exprs, const std::vector<ir::TypeId> &types,
                   ir::Range blocks, uint32_t carried) {
  for (const ir::Operand &operand : operands) {
    if (operand.kind != ir::Operand::Kind::value)
      continue;
    if (!operand.value().valid())
      fail(Code::parse_error, "an input that the op needs is missing");
    capture(operand.value());
  }
  take_binding();
  ir::Binding binding{};
  binding.kind = kind;
  binding.blocks = blocks;
  binding.carried_count = carried;
  std::vector<std::string> hints(types.size(), hint);
  const V first = builder_.bind(binding, operands, exprs, {}, hints, types);
  level_.resize(builder_.function().values.size(), blocks_.size());
  return first;
}

std::vector<V> Importer::emit(Op op, const std::vector<V> &operands,
                              std::vector<ir::Attribute> attributes) {
  std::vector<ir::TypeId> types;
  std::vector<ir::Operand> given;
  for (V v : operands) {
    types.push_back(v.valid() ? builder_.function().value(v).type : ir::TypeId());
    given.push_back(v.valid() ? ir::Operand::of(v) : ir::Operand());
  }
  take_binding();
  auto results = ir::infer_op(result_.module, op, types, attributes, &builder_.function());
  if (!results.ok())
    fail(Code::unsupported, std::string(ir::op_info(op).name) + ": " + results.status().message());
  for (ir::TypeId result : *results)
    for (E d : result_.module.types[result].dims)
      if (exprs().depth(d) > kMostDepth)
        fail(Code::unsupported, "dimensions follow from one another in more than " +
                                    std::to_string(kMostDepth) + " steps");
  while (!given.empty() && given.back().kind == ir::Operand::Kind::none)
    given.pop_back();
  for (V v : operands)
    if (v.valid())
      capture(v);
  ir::Binding binding{};
  binding.kind = ir::BindingKind::op;
  binding.callee = static_cast<uint32_t>(op);
  std::vector<std::string> hints(results->size(), hint);
  const V first = builder_.bind(binding, given, {}, attributes, hints, *results);
  level_.resize(builder_.function().values.size(), blocks_.size());
  std::vector<V> all;
  for (uint32_t i = 0; i < results->size(); ++i)
    all.push_back({first.index + i});
  return all;
}

V Importer::shape(const Dims &dims) {
  const std::string node = std::exchange(hint, "dims"); // the node's name is its op's
  const V made = append(ir::BindingKind::shape, {}, dims, {result_.module.types.shape(dims)});
  hint = node;
  return made;
}

void Importer::add_factors(E e, Dims &factors) {
  constexpr uint32_t kMostParts = 256; // written out, what products share is there many times
  if (exprs()[e].kind != ir::ExprKind::mul || exprs().tree_size(e) > kMostParts)
    return factors.push_back(e);
  const E left = exprs()[e].a, right = exprs()[e].b;
  add_factors(left, factors);
  add_factors(right, factors);
}

/// Which input of the node at work a value is; else it is made of them.
std::string Importer::operand_text(V x) {
  for (size_t i = 0; node_ && i < node_->inputs.size(); ++i)
    if (!node_->inputs[i].empty() && find(node_->inputs[i])->device == x)
      return "input " + std::to_string(i);
  return "a value made of its inputs";
}

V Importer::match(V x, const Dims &dims) {
  if (!x.valid())
    return {};
  const ir::Type from = type(x);
  if (from.dims == dims)
    return x;
  if (from.dims.size() != dims.size())
    fail(Code::unsupported, operand_text(x) + " has rank " + std::to_string(from.dims.size()) +
                                ", where " + std::to_string(dims.size()) + " is wanted");
  for (size_t i = 0; i < dims.size(); ++i) {
    const ir::Interval a = range(from.dims[i]), b = range(dims[i]);
    if (a.lower > b.upper || b.lower > a.upper)
      fail(Code::unsupported, operand_text(x) + " has " + interval_text(a) + " in dimension " +
                                  std::to_string(i) + ", where " + interval_text(b) + " is wanted");
  }
  for (size_t i = 0; i < dims.size() && blocks_.empty(); ++i) // within a branch it may not be so
    if (from.dims[i] != dims[i])
      settle(from.dims[i], dims[i]);
  return append(ir::BindingKind::match_shape, {ir::Operand::of(x)}, dims,
                {result_.module.types.tensor(from.dtype, dims)});
}

V Importer::constant_tensor(const std::string &name, const HostTensor &tensor) {
  Dims dims;
  for (int64_t dim : tensor.dims)
    dims.push_back(constant(dim));
  const ir::TypeId type = result_.module.types.tensor(tensor.dtype, dims);
  if (tensor.bytes.size() > kMostTextBytes) {
    const V param = builder_.param(name.empty() ? hint : name, type);
    level_.resize(builder_.function().values.size(), blocks_.size());
    level_[param.index] = 0;
    result_.weights.push_back({builder_.function().value(param).name, tensor});
    return param;
  }
  take_binding();
  ir::Module &module = result_.module;
  const auto [known, added] =
      constants_.try_emplace({type.index, std::string(tensor.bytes)}, module.constants.size());
  const uint32_t number = known->second;
  if (added) {
    ir::Constant made;
    made.name = "c" + std::to_string(number);
    made.type = type;
    made.bytes = tensor.bytes;
    module.constants.push_back(std::move(made));
  }
  ir::Binding binding{};
  binding.kind = ir::BindingKind::constant;
  binding.callee = number;
  const std::string own = name.empty() ? "c" : name;
  const V value = builder_.bind(binding, {}, {}, {}, {&own, 1}, {&type, 1});
  level_.resize(builder_.function().values.size(), blocks_.size());
  return value;
}

/// A tensor [count] of i64 that holds expressions: a kernel that takes them as arguments writes it.
V Importer::launch_integers(const std::vector<E> &values, size_t begin, size_t count) {
  ir::Module &module = result_.module;
  const std::string name = "host_integers_" + std::to_string(count);
  auto [known, added] = kernels_.try_emplace(name, static_cast<uint32_t>(module.kernels.size()));
  if (added) {
    ir::Kernel kernel;
    kernel.name = name;
    kernel.code_kind = ir::CodeKind::source_text;
    kernel.entry = name;
    std::string params = "long long *y", body;
    ir::KernelParam y;
    y.name = "y";
    y.access = ir::Access::out;
    y.dtype = DType::i64;
    kernel.params.push_back(y);
    for (size_t i = 0; i < count; ++i) {
      ir::KernelParam a;
      a.name = "a" + std::to_string(i);
      a.kind = ir::KernelParamKind::symbol;
      a.dtype = DType::i64;
      a.symbol = {static_cast<uint32_t>(i)};
      params += ", long long " + a.name;
      body += " y[" + std::to_string(i) + "] = " + a.name + ";";
      kernel.symbols.push_back(a.name);
      kernel.params.push_back(std::move(a));
    }
    kernel.code = "extern \"C\" __global__ void " + name + "(" + params + ") {" + body + " }";
    ir::KernelVariant variant;
    variant.grid.fill(constant(1));
    variant.block.fill(constant(1));
    kernel.variants.push_back(variant);
    module.kernels.push_back(std::move(kernel));
  }
  const V y = builder_.alloc(
      hint, module.types.tensor(DType::i64, {constant(static_cast<int64_t>(count))}));
  std::vector<ir::Operand> arguments = {ir::Operand::of(y)};
  for (size_t i = 0; i < count; ++i)
    arguments.push_back(ir::Operand::of(values[begin + i]));
  builder_.launch(known->second, arguments);
  level_.resize(builder_.function().values.size(), blocks_.size());
  return y;
}

V Importer::materialize(const Host &host) {
  take_elements(host.size());
  HostTensor tensor{host.dtype, host.dims, {}, {}};
  std::string bytes;
  bool all_known = true;
  for (E e : host.ints) {
    const std::optional<int64_t> value = known(e);
    all_known = all_known && value;
    if (all_known)
      ir::append_integer(host.dtype, *value, bytes);
  }
  for (double value : host.reals)
    ir::append_float(host.dtype, value, bytes);
  if (all_known) {
    tensor.owned = std::make_shared<const std::string>(std::move(bytes));
    tensor.bytes = *tensor.owned;
    return constant_tensor("", tensor);
  }
  std::vector<V> parts;
  for (size_t at = 0; at < host.ints.size(); at += kMostIntegers)
    parts.push_back(launch_integers(host.ints, at, std::min(kMostIntegers, host.ints.size() - at)));
  V whole = parts.size() == 1 ? parts[0] : emit(Op::concat, parts, {{"axis", int64_t(0)}}).front();
  Dims dims;
  for (int64_t dim : host.dims)
    dims.push_back(constant(dim));
  if (dims.size() != 1)
    whole = emit(Op::reshape, {whole, shape(dims)}, {}).front();
  if (host.dtype != DType::i64)
    whole = emit(Op::cast, {whole}, {{"dtype", ir::DTypeLiteral(host.dtype)}}).front();
  return whole;
}

V Importer::materialize_fractions(const Fractions &fractions) {
  const ir::DTypeLiteral dtype(fractions.dtype);
  V y = emit(Op::cast, {materialize(fractions.above)}, {{"dtype", dtype}}).front();
  if (fractions.below == 1)
    return y;
  const Host below{fractions.dtype, {}, {}, {static_cast<double>(fractions.below)}};
  return emit(Op::div, {y, materialize(below)}, {}).front();
}

V Importer::device(Entry &entry) {
  if (entry.counted && !takes_counted_)
    wait_for(*entry.counted);
  if (entry.device.valid())
    return entry.device;
  if (entry.constant)
    entry.device = constant_tensor(entry.name, *entry.constant);
  else if (entry.host)
    entry.device = materialize(*entry.host);
  else if (entry.fractions)
    entry.device = materialize_fractions(*entry.fractions);
  else if (entry.sequence)
    fail(Code::unsupported, "a sequence of tensors where one tensor is wanted");
  else
    fail(Code::internal, "value '" + entry.name + "' stands for nothing");
  if (!blocks_.empty() && entry.device.valid() && level_[entry.device.index] > 0)
    blocks_.back().made.push_back(entry.shared_from_this());
  return entry.device;
}

const Host *Importer::host(Entry &entry, Need need) {
  if (entry.host)
    return &*entry.host;
  if (entry.constant) {
    const HostTensor &tensor = *entry.constant;
    if (ir::scalar_bytes(tensor.dtype) == 0)
      return nullptr;
    const size_t size = ir::info(tensor.dtype).bytes_per_block;
    const size_t count = tensor.bytes.size() / size;
    if (count > kMostHostElements || !has_room())
      return nullptr;
    take_elements(count);
    Host made{tensor.dtype, tensor.dims, {}, {}};
    for (size_t i = 0; i < count; ++i)
      if (is_real(tensor.dtype))
        made.reals.push_back(ir::float_at(tensor.dtype, tensor.bytes.data() + i * size));
      else
        made.ints.push_back(constant(ir::integer_at(tensor.dtype, tensor.bytes.data() + i * size)));
    entry.host = std::move(made);
    return &*entry.host;
  }
  if (need != Need::no) {
    size_t left = kMostSources;
    if (entry.origin != kNoOrigin)
      raise_origin(entry.origin, need, left);
    end_if_failed();
  }
  return nullptr;
}

/// Inputs that a value is computed from, in some few steps: with these on the host it is there,
/// too.
void Importer::raise_origin(uint32_t number, Need need, size_t &left) {
  if (left == 0)
    return;
  --left;
  const Origin &origin = origins_[number];
  if (origin.input)
    return raise_input(*origin.input, need);
  for (uint32_t source : origin.sources)
    raise_origin(source, need, left);
}

void Importer::raise_input(const Entry &entry, Need need) {
  const bool real = is_real(type(entry.device).dtype);
  int64_t count = 1;
  for (E d : type(entry.device).dims) {
    const auto number = known(d);
    count = number && *number <= kMostInputElements ? count * *number : kMostInputElements + 1;
    if (count > kMostInputElements)
      return; // data, not a shape
  }
  if (need == Need::condition && (real || count != 1))
    return;
  const auto given = options_.given.find(entry.name);
  // Integers that may be dimensions; a given one that is none (-1, "to the end") has a meaning of
  // its own.
  const auto dims =
      given == options_.given.end() ? std::vector<int64_t>() : integers_of(given->second);
  const bool on_host = !real && type(entry.device).dims.size() <= 1 && count >= 1 &&
                       count <= int64_t(ir::kMaxRank) &&
                       (count == 1 || type(entry.device).dtype != DType::boolean) &&
                       std::all_of(dims.begin(), dims.end(),
                                   [](int64_t d) { return d >= 0 && d <= kMostInputInteger; });
  if (on_host && !dims.empty())
    learnt_.bindable.insert(entry.name);
  raise(entry.name, on_host ? InputMode::host : InputMode::bound);
}

// --- Nested blocks

void Importer::capture(V v) {
  if (!v.valid())
    return;
  const size_t level = v.index < level_.size() ? level_[v.index] : 0;
  for (size_t i = level; i < blocks_.size(); ++i)
    if (blocks_[i].captured.insert(v.index).second)
      blocks_[i].captures.push_back(v);
}

void Importer::begin_block(const std::vector<ir::TypeId> &types, std::vector<V> &params) {
  std::vector<std::string> names(types.size(), hint);
  level_.resize(builder_.function().values.size(), blocks_.size()); // parameters are outside
  Block block;
  block.number = builder_.begin_block(types, names);
  blocks_.push_back(std::move(block));
  level_.resize(builder_.function().values.size(), blocks_.size());
  for (uint32_t i = 0; i < types.size(); ++i)
    params.push_back(builder_.block_param(blocks_.back().number, i));
}

std::vector<V> Importer::end_block(const std::vector<V> &results, uint32_t *number) {
  std::vector<ir::Operand> operands;
  for (V v : results) {
    capture(v);
    operands.push_back(v.valid() ? ir::Operand::of(v) : ir::Operand());
  }
  builder_.end_block(operands);
  Block block = std::move(blocks_.back());
  blocks_.pop_back();
  for (const EntryPtr &entry : block.made)
    entry->device = {};
  *number = block.number;
  return block.captures;
}

} // namespace cugrt::onnx
