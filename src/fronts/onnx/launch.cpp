// Launches of kernels that no op becomes; see importer.h.
#include "fronts/onnx/call.h"

#include "plan/format/host_builtins.h"

#include <cstdio>

namespace cugrt::onnx {

std::string float_text(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9ef", double(float(number)));
  return text;
}

std::vector<V> Importer::launch(const KernelCall &call) {
  std::vector<V> results(call.outputs.size());
  ir::Module &module = result_.module;
  std::string key = call.source + "." + call.entry;
  for (const std::string &option : call.options)
    key += " " + option;
  for (V v : call.inputs)
    key += "," + std::to_string(int(type(v).dtype));
  for (ir::TypeId t : call.outputs)
    key += ":" + std::to_string(int(module.types[t].dtype));
  auto [known, added] = kernels_.try_emplace(key, static_cast<uint32_t>(module.kernels.size()));
  if (added) {
    ir::Kernel kernel;
    kernel.name = call.entry + "_" + std::to_string(module.kernels.size());
    kernel.code = "builtin:" + call.source;
    kernel.entry = call.entry;
    kernel.options = call.options;
    kernel.options.insert(kernel.options.begin(), "-fmad=false");
    auto tensor = [&](std::string name, DType dtype, ir::Access access) {
      ir::KernelParam one;
      one.name = std::move(name), one.dtype = dtype, one.access = access;
      kernel.params.push_back(std::move(one));
    };
    for (size_t i = 0; i < call.inputs.size(); ++i)
      tensor("x" + std::to_string(i), type(call.inputs[i]).dtype, ir::Access::in);
    for (size_t i = 0; i < call.outputs.size(); ++i)
      tensor("y" + std::to_string(i), module.types[call.outputs[i]].dtype, ir::Access::out);
    for (size_t i = 0; i < call.sizes.size(); ++i) {
      ir::KernelParam one;
      one.name = "n" + std::to_string(i), one.kind = ir::KernelParamKind::symbol;
      one.dtype = DType::i64, one.symbol = {static_cast<uint32_t>(i)};
      kernel.symbols.push_back(one.name);
      kernel.params.push_back(std::move(one));
    }
    ir::KernelVariant variant;
    for (size_t i = 0; i < 3; ++i) {
      const bool none = call.grid[i] == KernelCall::kNone;
      variant.block[i] = constant(call.block[i]);
      variant.grid[i] =
          none ? constant(1)
               : exprs().ceildiv(exprs().symbol({call.grid[i]}), constant(call.each[i]));
    }
    kernel.variants.push_back(variant);
    module.kernels.push_back(std::move(kernel));
  }
  std::vector<ir::Operand> arguments;
  for (V v : call.inputs) {
    capture(v);
    arguments.push_back(ir::Operand::of(v));
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    results[i] = builder_.alloc(hint, call.outputs[i]);
    arguments.push_back(ir::Operand::of(results[i]));
  }
  for (E size : call.sizes)
    arguments.push_back(ir::Operand::of(size));
  builder_.launch(known->second, arguments);
  level_.resize(builder_.function().values.size(), blocks_.size());
  return results;
}

E Importer::count_on_host(V count, std::optional<E> most) {
  const int64_t upper = most ? range(*most).upper : kMostDimension;
  if (upper < 0 || upper > INT32_MAX)
    fail(Code::unsupported, "a size that the data decides without a bound of its own");
  ir::Type told;
  told.kind = ir::TypeKind::tensor, told.dtype = DType::u8, told.known_shape = false;
  capture(count);
  ir::Binding binding{};
  binding.kind = ir::BindingKind::host_call;
  binding.callee = builder_.callee_name(ir::kCountBuiltin);
  const ir::Operand operand = ir::Operand::of(count);
  const std::string name = hint + "_count";
  const ir::TypeId unknown = result_.module.types.intern(told);
  const V answer = builder_.bind(binding, {&operand, 1}, {}, {}, {&name, 1}, {&unknown, 1});
  ir::Symbol symbol;
  symbol.name = "counted";
  symbol.source = ir::SymbolSource::match;
  symbol.bounds = {0, upper};
  const ir::SymbolId id = builder_.symbol(std::move(symbol));
  ir::Symbol &made = builder_.function().symbols[id.index];
  if (const auto found = options_.bounds.find(made.name); found != options_.bounds.end() && !most)
    made.bounds = found->second;
  symbol_inputs_.resize(id.index + 1);
  const E counted = exprs().symbol(id);
  level_.resize(builder_.function().values.size(), blocks_.size());
  append(ir::BindingKind::match_shape, {ir::Operand::of(answer)}, {counted, constant(0)},
         {result_.module.types.tensor(DType::u8, {counted, constant(0)})});
  return counted;
}

const Host *Importer::read_sizes(Entry &entry) {
  if (!entry.device.valid())
    return nullptr;
  static const Node none{};
  Call c(*this, none);
  Host host{c.dtype(entry.device), {}, {}, {}};
  int64_t count = 1;
  for (E d : c.dims(entry.device)) {
    host.dims.push_back(known(d).value_or(int64_t(ir::kMaxRank) + 1));
    count *= std::min(host.dims.back(), int64_t(ir::kMaxRank) + 1);
  }
  if (host.dims.size() > 1 || count > int64_t(ir::kMaxRank) ||
      (host.dtype != DType::i64 && host.dtype != DType::i32))
    return nullptr;
  // Fixing given values instead costs no wait.
  learnt_.needs_sizes |= options_.given.empty() || options_.fix_given;
  if (!learnt_.reads_sizes)
    return nullptr;
  for (const EntryPtr &part : entry.joined) { // what is known of them is not read
    const Host *one = this->host(*part, Need::no);
    if (!one)
      one = read_sizes(*part);
    if (!one)
      return nullptr;
    host.ints.insert(host.ints.end(), one->ints.begin(), one->ints.end());
  }
  V all;
  if (entry.joined.empty())
    all = c.reshape(c.cast(entry.device, DType::i64), {constant(count)});
  for (int64_t i = 0; all.valid() && i < count; ++i)
    host.ints.push_back(count_on_host(c.slice(all, 0, constant(i), constant(1)), {}));
  Entry &held = blocks_.empty() ? entry : read_.emplace_back(); // a block's symbols are its own
  held.host = std::move(host);
  return &*held.host;
}

} // namespace cugrt::onnx
