// Evaluates the inputs of steps; see run_binding.h.
#include "device/program/run_binding.h"

#include "base/check.h"
#include "base/type/element.h"

#include <bit>

namespace cugrt::runtime {

RunBinding::RunBinding(const plan::Plan &plan, const plan::Function &function,
                       const FunctionProgram &program)
    : plan(plan), function(function), program(program), symbols(function.symbols.size()),
      bases(program.base_count), base_bytes(program.base_count),
      host_values(function.host_values.size()) {
  moves.resize(program.slot_count);
  for (size_t i = 0; i < host_values.size(); ++i)
    if (function.host_values[i].kind == plan::HostValueKind::literal)
      host_values[i] = function.host_values[i].bits;
}

Result<uint64_t> RunBinding::host_value(uint32_t index) const {
  const plan::HostValue &value = function.host_values[index];
  if (value.kind != plan::HostValueKind::expr)
    return host_values[index];
  CUGRT_ASSIGN(int64_t number, evaluate(ExprId{value.index}));
  return static_cast<uint64_t>(number);
}

Result<uint64_t> RunBinding::value(RunInput input) const {
  switch (input.kind) {
  case RunInput::Kind::base:
    return bases[input.index];
  case RunInput::Kind::symbol:
    return static_cast<uint64_t>(symbols[input.index]);
  case RunInput::Kind::host:
    return host_value(input.index);
  }
  CUGRT_CHECK(false);
}

Result<uint64_t> RunBinding::value(const ValueSource &source) const {
  switch (source.kind) {
  case ValueSource::Kind::bits:
    return source.bits;
  case ValueSource::Kind::address: {
    uint64_t address = bases[source.index] + source.bits;
    if (!source.expr.valid())
      return address;
    CUGRT_ASSIGN(int64_t offset, evaluate(source.expr));
    return address + static_cast<uint64_t>(offset);
  }
  case ValueSource::Kind::expr: {
    CUGRT_ASSIGN(int64_t number, evaluate(source.expr));
    return ir::scalar_bits(source.dtype, number);
  }
  case ValueSource::Kind::handle:
    return uint64_t(0); // in no graph yet
  case ValueSource::Kind::host:
    break;
  }
  CUGRT_ASSIGN(uint64_t bits, host_value(source.index));
  if (function.host_values[source.index].scalar == ir::ScalarKind::floating)
    return ir::scalar_bits(source.dtype, std::bit_cast<double>(bits));
  return ir::scalar_bits(source.dtype, static_cast<int64_t>(bits));
}

Result<uint64_t> RunBinding::address(const plan::Buffer &buffer) const {
  uint64_t base = bases[program.base_of(buffer)];
  if (!buffer.offset_bytes.valid())
    return base;
  CUGRT_ASSIGN(int64_t offset, evaluate(buffer.offset_bytes));
  return base + static_cast<uint64_t>(offset);
}

Result<uint64_t> RunBinding::bytes(const plan::Buffer &buffer) const {
  if (!buffer.bytes.valid())
    return base_bytes[program.base_of(buffer)];
  CUGRT_ASSIGN(int64_t bytes, evaluate(buffer.bytes));
  if (bytes < 0)
    return Status::error(Code::out_of_range, "tensor %" + buffer.name + " would have " +
                                                 std::to_string(bytes) + " bytes (" +
                                                 expr_text(buffer.bytes) + ")");
  return static_cast<uint64_t>(bytes);
}

Status RunBinding::cannot_evaluate(ExprId expr) const {
  const std::string symbols = describe_symbols(expr);
  return Status::error(Code::out_of_range, "'" + expr_text(expr) +
                                               "' divides by zero or does not fit into 64 bits" +
                                               (symbols.empty() ? "" : " with " + symbols));
}

std::string RunBinding::expr_text(ExprId expr) const {
  return plan.exprs.to_string(expr, function.symbol_names());
}

std::string RunBinding::describe_symbols(ExprId expr) const {
  std::vector<ir::SymbolId> used;
  plan.exprs.collect_symbols(expr, used);
  std::string text;
  for (ir::SymbolId symbol : used)
    text += (text.empty() ? "" : ", ") + function.symbols[symbol.index].name + " = " +
            std::to_string(symbols[symbol.index]);
  return text;
}

} // namespace cugrt::runtime
