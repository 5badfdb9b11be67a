// Interpretation of straight kernel-level functions over a device's memory.
#include "support/launch_runner.h"

#include "base/check.h"
#include "base/type/state_scope.h"
#include "kernels/builtin.h"

#include <cmath>
#include <cstring>

namespace cugrt::test {

namespace {

// f16 and bf16 by way of their exact doubles.
uint16_t half_bits(double value, int mantissa, int bias) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int exponent_bits = 15 - mantissa, ones = (1 << exponent_bits) - 1;
  if (std::isnan(value))
    return uint16_t(ones << mantissa | 1 << (mantissa - 1));
  if (std::isinf(value))
    return uint16_t(sign | ones << mantissa);
  if (value == 0)
    return sign;
  int exponent;
  const double fraction = std::frexp(std::fabs(value), &exponent); // [0.5, 1)
  if (exponent + bias - 1 <= 0)                                    // subnormal
    return uint16_t(sign | int(std::ldexp(fraction, exponent + bias - 1 + mantissa)));
  return uint16_t(sign | (exponent + bias - 1) << mantissa |
                  (int(std::ldexp(fraction, mantissa + 1)) & ((1 << mantissa) - 1)));
}

double half_value(uint16_t bits, int mantissa, int bias) {
  const int exponent_bits = 15 - mantissa, ones = (1 << exponent_bits) - 1;
  const int exponent = bits >> mantissa & ones, fraction = bits & ((1 << mantissa) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == ones)
    return fraction ? NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

template <class T> void put(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

template <class T> double take(std::string_view bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return double(value);
}

void put_value(std::string &bytes, ir::DType dtype, double value) {
  if (ir::info(dtype).kind == ir::DTypeKind::block) // given as their bytes
    return put(bytes, uint8_t(value));
  switch (dtype) {
  case ir::DType::f16:
    return put(bytes, half_bits(value, 10, 15));
  case ir::DType::bf16:
    return put(bytes, half_bits(value, 7, 127));
  case ir::DType::f32:
    return put(bytes, float(value));
  case ir::DType::f64:
    return put(bytes, value);
  case ir::DType::boolean:
  case ir::DType::u8:
    return put(bytes, uint8_t(value));
  case ir::DType::i8:
    return put(bytes, int8_t(value));
  case ir::DType::i16:
    return put(bytes, int16_t(value));
  case ir::DType::u16:
    return put(bytes, uint16_t(value));
  case ir::DType::i32:
    return put(bytes, int32_t(value));
  case ir::DType::u32:
    return put(bytes, uint32_t(value));
  case ir::DType::i64:
    return put(bytes, int64_t(value));
  case ir::DType::u64:
    return put(bytes, uint64_t(value));
  default:
    CUGRT_CHECK(!"a plain dtype");
  }
}

double take_value(std::string_view bytes, ir::DType dtype, size_t i) {
  switch (dtype) {
  case ir::DType::f16:
    return half_value(uint16_t(take<uint16_t>(bytes, i)), 10, 15);
  case ir::DType::bf16:
    return half_value(uint16_t(take<uint16_t>(bytes, i)), 7, 127);
  case ir::DType::f32:
    return take<float>(bytes, i);
  case ir::DType::f64:
    return take<double>(bytes, i);
  case ir::DType::boolean:
  case ir::DType::u8:
    return take<uint8_t>(bytes, i);
  case ir::DType::i8:
    return take<int8_t>(bytes, i);
  case ir::DType::i16:
    return take<int16_t>(bytes, i);
  case ir::DType::u16:
    return take<uint16_t>(bytes, i);
  case ir::DType::i32:
    return take<int32_t>(bytes, i);
  case ir::DType::u32:
    return take<uint32_t>(bytes, i);
  case ir::DType::i64:
    return take<int64_t>(bytes, i);
  case ir::DType::u64:
    return take<uint64_t>(bytes, i);
  default:
    CUGRT_CHECK(!"a plain dtype");
    return 0;
  }
}

} // namespace

std::string encode(ir::DType dtype, const Array &array) {
  std::string bytes;
  const bool blocks = ir::info(dtype).kind == ir::DTypeKind::block;
  for (double value : array.values)
    put_value(bytes, dtype, blocks ? value : round_to(dtype, value));
  return bytes;
}

std::vector<double> decode(ir::DType dtype, std::string_view bytes) {
  if (ir::info(dtype).kind == ir::DTypeKind::block)
    dtype = ir::DType::u8;
  std::vector<double> values;
  for (size_t i = 0; i < bytes.size() / ir::info(dtype).bytes_per_block; ++i)
    values.push_back(take_value(bytes, dtype, i));
  return values;
}

// --- One run -------------------------------------------------------------------------------------

struct LaunchRunner::Run {
  LaunchRunner &runner;
  const ir::Module &module;
  const ir::Function &function;
  std::vector<int64_t> symbols;
  std::vector<uint64_t> addresses; // by value
  std::vector<uint64_t> allocations;
  std::vector<uint64_t> elements; // by symbol: where a read finds it
  uint64_t flag = 0;              // of symbols out of their bounds

  Run(LaunchRunner &runner, const ir::Module &module, const ir::Function &function)
      : runner(runner), module(module), function(function), symbols(function.symbols.size()),
        addresses(function.values.size()), elements(function.symbols.size()) {}
  ~Run() {
    for (uint64_t address : allocations)
      runner.device_->free(address);
  }

  const ir::Type &type(ir::ValueId value) const { return module.types[function.value(value).type]; }
  Result<int64_t> evaluate(ir::ExprId expr) { return module.exprs.evaluate(expr, symbols); }

  Result<uint64_t> allocate(int64_t bytes) {
    CUGRT_ASSIGN(const uint64_t address,
                 runner.device_->allocate(uint64_t(std::max(bytes, int64_t(1)))));
    allocations.push_back(address);
    return address;
  }

  Result<std::vector<int64_t>> dims(ir::ValueId value) {
    std::vector<int64_t> dims;
    for (ir::ExprId dim : type(value).dims) {
      CUGRT_ASSIGN(const int64_t size, evaluate(dim));
      dims.push_back(size);
    }
    return dims;
  }

  Result<int64_t> bytes(ir::ValueId value) {
    CUGRT_ASSIGN(const std::vector<int64_t> sizes, dims(value));
    int64_t count = 1;
    for (int64_t size : sizes)
      count *= size;
    const ir::DTypeInfo &row = ir::info(type(value).dtype);
    return (count + row.elements_per_block - 1) / row.elements_per_block * row.bytes_per_block;
  }

  Status bind(ir::ValueId param, const Array &input) {
    const ir::Type &tensor = type(param);
    for (size_t i = 0; i < tensor.dims.size(); ++i)
      if (const ir::ExprNode &node = module.exprs[tensor.dims[i]];
          node.kind == ir::ExprKind::symbol)
        symbols[size_t(node.value)] = input.dims[i];
    CUGRT_ASSIGN(const std::vector<int64_t> expected, dims(param));
    if (expected != input.dims)
      return failed("an input's dimensions are not its parameter's");
    const std::string data = encode(tensor.dtype, input);
    CUGRT_ASSIGN(addresses[param.index], allocate(int64_t(data.size())));
    return runner.device_->write(addresses[param.index], data);
  }

  /// The five fields of docs/ir.md; symbols are numbered from 1 on.
  void put_checked(std::string &bytes, size_t symbol) const {
    const ir::Interval &bounds = function.symbols[symbol].bounds;
    for (const uint64_t field :
         {elements[symbol], uint64_t(bounds.lower), uint64_t(bounds.upper), flag, symbol + 1})
      put(bytes, field);
  }

  Status step(const ir::Binding &binding);
  Status launch(const ir::Binding &binding);
  Result<std::vector<std::string>> arguments(const ir::Kernel &kernel,
                                             std::span<const ir::Operand> operands,
                                             std::span<const int64_t> kernel_symbols);
};

Status LaunchRunner::Run::step(const ir::Binding &binding) {
  const std::span<const ir::Operand> operands = function.operands_of(binding);
  switch (binding.kind) {
  case ir::BindingKind::alloc: {
    CUGRT_ASSIGN(const int64_t size, bytes(binding.result()));
    CUGRT_ASSIGN(addresses[binding.result().index], allocate(size));
    return {};
  }
  case ir::BindingKind::alloc_storage: {
    CUGRT_ASSIGN(const int64_t size, evaluate(function.exprs_of(binding)[0]));
    CUGRT_ASSIGN(addresses[binding.result().index], allocate(size));
    if (module.types.scope_name(type(binding.result()).scope) != ir::kStateScope)
      return {};
    runner.counters_.state_bytes += uint64_t(size);
    return runner.device_->write(addresses[binding.result().index],
                                 std::string(size_t(size), '\0'));
  }
  case ir::BindingKind::alloc_tensor:
  case ir::BindingKind::view: {
    CUGRT_ASSIGN(const int64_t offset, evaluate(function.exprs_of(binding)[0]));
    addresses[binding.result().index] = addresses[operands[0].index] + uint64_t(offset);
    return {};
  }
  case ir::BindingKind::constant: {
    const std::string &data = module.constants[binding.callee].bytes;
    CUGRT_ASSIGN(addresses[binding.result().index], allocate(int64_t(data.size())));
    return runner.device_->write(addresses[binding.result().index], data);
  }
  case ir::BindingKind::alias:
    addresses[binding.result().index] = addresses[operands[0].index];
    return {};
  case ir::BindingKind::kill:
  case ir::BindingKind::shape:
    return {};
  case ir::BindingKind::read_symbol: {
    const std::span<const ir::ExprId> exprs = function.exprs_of(binding);
    const uint64_t bytes = ir::info(type(operands[0].value()).dtype).bytes_per_block;
    CUGRT_ASSIGN(const int64_t element, evaluate(exprs[1]));
    elements[size_t(module.exprs[exprs[0]].value)] =
        addresses[operands[0].index] + uint64_t(element) * bytes;
    return {};
  }
  case ir::BindingKind::launch:
    return launch(binding);
  default:
    return failed("a binding that launch_runner does not run");
  }
}

Result<std::vector<std::string>>
LaunchRunner::Run::arguments(const ir::Kernel &kernel, std::span<const ir::Operand> operands,
                             std::span<const int64_t> kernel_symbols) {
  if (operands.size() != kernel.params.size())
    return failed("@" + kernel.name + " declares " + std::to_string(kernel.params.size()) +
                  " parameters");
  std::vector<std::string> all;
  for (size_t i = 0; i < operands.size(); ++i) {
    const ir::KernelParam &param = kernel.params[i];
    std::string &bytes = all.emplace_back();
    if (param.kind == ir::KernelParamKind::tensor)
      put(bytes, addresses[operands[i].index]);
    else if (param.kind == ir::KernelParamKind::symbol && param.dtype == ir::DType::i64)
      put(bytes, kernel_symbols[param.symbol.index]);
    else if (param.kind == ir::KernelParamKind::checked_symbol)
      put_checked(bytes, size_t(module.exprs[operands[i].expr()].value));
    else if (param.kind == ir::KernelParamKind::scalar)
      put_value(bytes, param.dtype, std::get<double>(module.literals[operands[i].index]));
    else
      return failed("a parameter kind that launch_runner does not pass");
  }
  return all;
}

Status LaunchRunner::Run::launch(const ir::Binding &binding) {
  const ir::Kernel &kernel = module.kernels[binding.callee];
  const std::span<const ir::Operand> operands = function.operands_of(binding);
  std::vector<int64_t> values(kernel.symbols.size());
  for (size_t i = 0; i < kernel.params.size(); ++i)
    if (kernel.params[i].kind == ir::KernelParamKind::symbol) {
      CUGRT_ASSIGN(values[kernel.params[i].symbol.index], evaluate(operands[i].expr()));
    }
  for (const ir::KernelVariant &variant : kernel.variants) {
    if (variant.predicate.valid()) {
      CUGRT_ASSIGN(const int64_t holds, module.exprs.evaluate(variant.predicate, values));
      if (!holds)
        continue;
    }
    LaunchDevice::Dim grid, block;
    for (size_t i = 0; i < 3; ++i) {
      CUGRT_ASSIGN(const int64_t blocks, module.exprs.evaluate(variant.grid[i], values));
      CUGRT_ASSIGN(const int64_t threads, module.exprs.evaluate(variant.block[i], values));
      grid[i] = uint32_t(blocks);
      block[i] = uint32_t(threads);
    }
    if (grid[0] == 0) {
      ++runner.counters_.empty_grids;
      return {};
    }
    const std::string &entry = variant.entry.empty() ? kernel.entry : variant.entry;
    CUGRT_ASSIGN(const size_t code, runner.load(kernel));
    CUGRT_ASSIGN(const std::vector<std::string> bytes, arguments(kernel, operands, values));
    ++runner.counters_.launches;
    runner.counters_.entries.push_back(entry);
    int64_t shared = 0;
    if (variant.shared_bytes.valid()) {
      CUGRT_ASSIGN(shared, module.exprs.evaluate(variant.shared_bytes, values));
    }
    Result<uint64_t> counted = runner.device_->launch(code, entry, grid, block, uint32_t(shared),
                                                      variant.cooperative, bytes);
    if (!counted.ok())
      return failed("@" + kernel.name + ": " + counted.status().message());
    runner.counters_.lane_operations += *counted;
    return {};
  }
  return failed("no launch variant of @" + kernel.name + " holds");
}

// --- The runner ----------------------------------------------------------------------------------

LaunchRunner::LaunchRunner(std::string_view profile)
    : device_(open_launch_device(profile)), compiler_(jit::CompilerConfig{}) {}

LaunchRunner::~LaunchRunner() = default;

Result<size_t> LaunchRunner::load(const ir::Kernel &kernel) {
  constexpr size_t kRefused = SIZE_MAX;
  std::string key = kernel.code;
  for (const std::string &option : kernel.options)
    key += '\n' + option;
  auto [at, is_new] = codes_.try_emplace(key, kRefused);
  if (is_new) {
    jit::CompileRequest request;
    request.name = kernel.name;
    if (kernel.code_kind == ir::CodeKind::source_text) {
      request.source = kernels::with_builtin_includes(kernel.code, kernel.name);
    } else {
      request.file = kernel.code;
      std::string_view name = kernel.code;
      name.remove_prefix(kernels::kBuiltinPrefix.size());
      std::optional<std::string_view> source = kernels::builtin_source(name);
      if (!source)
        return failed("there is no source " + kernel.code);
      request.source = *source;
    }
    request.options = kernel.options;
    request.kind = jit::OutputKind::ptx;
    request.architecture = std::string(device_->architecture());
    CUGRT_ASSIGN(const jit::CompileResult compiled, compiler_.compile(request));
    CUGRT_ASSIGN(at->second, device_->load(compiled.bytes, kernel.name));
    ++counters_.compilations;
  }
  if (at->second == kRefused)
    return failed("@" + kernel.name + " did not load before");
  return at->second;
}

Result<std::vector<Array>> LaunchRunner::run(const ir::Module &module, const ir::Function &function,
                                             std::span<const Array> inputs) {
  counters_ = {};
  Run run(*this, module, function);
  if (inputs.size() != function.params.size())
    return failed("one input a parameter");
  // Before any tensor: variables of code stay, side by side.
  for (const ir::Binding &binding : function.body().bindings)
    if (binding.kind == ir::BindingKind::launch)
      CUGRT_TRY(load(module.kernels[binding.callee]).take_status());
  for (size_t i = 0; i < inputs.size(); ++i)
    CUGRT_TRY(run.bind(function.params[i].value, inputs[i]));
  CUGRT_ASSIGN(run.flag, run.allocate(sizeof(uint32_t)));
  CUGRT_TRY(device_->write(run.flag, std::string(sizeof(uint32_t), '\0')));
  for (const ir::Binding &binding : function.body().bindings)
    CUGRT_TRY(run.step(binding));
  CUGRT_ASSIGN(const std::string flag, device_->read(run.flag, sizeof(uint32_t)));
  if (const auto number = size_t(take<uint32_t>(flag, 0)))
    counters_.out_of_bounds = function.symbols[number - 1].name;
  std::vector<Array> results;
  for (const ir::Operand &operand : function.results_of(function.body())) {
    CUGRT_ASSIGN(std::vector<int64_t> dims, run.dims(operand.value()));
    CUGRT_ASSIGN(const int64_t size, run.bytes(operand.value()));
    CUGRT_ASSIGN(const std::string bytes,
                 device_->read(run.addresses[operand.index], size_t(size)));
    results.push_back({std::move(dims), decode(run.type(operand.value()).dtype, bytes)});
  }
  return results;
}

} // namespace cugrt::test
