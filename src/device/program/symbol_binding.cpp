// Checks and binds arguments; see symbol_binding.h.
#include "device/program/symbol_binding.h"

#include "base/type/element.h"

#include <algorithm>
#include <bit>

namespace cugrt::runtime {

namespace {

constexpr int32_t kDTypeCount = 0
#define CUGRT_DTYPE(name, kind, elements, bytes) +1
#include "base/type/dtypes.def"
#undef CUGRT_DTYPE
    ;

bool known_dtype(int32_t dtype) { return dtype >= 0 && dtype < kDTypeCount; }

std::string dtype_text(int32_t dtype) {
  if (!known_dtype(dtype))
    return "dtype number " + std::to_string(dtype);
  return std::string(ir::info(static_cast<ir::DType>(dtype)).name);
}

std::string dims_text(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

const char *kind_text(const plan::Param &param) {
  if (param.kind == plan::ParamKind::shape)
    return "a shape";
  if (param.kind != plan::ParamKind::scalar)
    return "a tensor";
  switch (param.scalar) {
  case ir::ScalarKind::integer:
    return "an int";
  case ir::ScalarKind::floating:
    return "a float";
  case ir::ScalarKind::boolean:
    break;
  }
  return "a bool";
}

/// The numbers in a value that its parameter's `dims` describe.
std::span<const int64_t> dims_of(const cugrt_value &value) {
  switch (value.kind) {
  case CUGRT_VALUE_TENSOR:
    return {value.as.tensor.dims, value.as.tensor.rank};
  case CUGRT_VALUE_SHAPE:
    return {value.as.shape.dims, value.as.shape.rank};
  case CUGRT_VALUE_INT:
    return {&value.as.integer, 1};
  default:
    return {};
  }
}

/// The place of one number in the arguments; made into text for messages only.
struct Place {
  const plan::Function &function;
  uint32_t param;
  int32_t kind; // cugrt_value_kind of the value
  size_t index;
  const std::string *what = nullptr; // instead of the parameter

  std::string text() const {
    std::string begin = (what ? *what : param_text(function, param)) + ": ";
    if (kind == CUGRT_VALUE_INT)
      return begin + "its value";
    return begin + (kind == CUGRT_VALUE_SHAPE ? "element " : "dimension ") + std::to_string(index);
  }
};

/// Defines symbols, and knows which of them have their value in this binding.
class SymbolDefiner {
public:
  explicit SymbolDefiner(RunBinding &run) : run_(run) {
    run.defined.assign(run.symbols.size(), false);
  }

  /// Defines the symbol `expr`, if `expr` is a parameter's bare symbol that is not defined yet.
  Status define(ExprId expr, int64_t value, const Place &place) {
    const ir::ExprNode &node = run_.plan.exprs[expr];
    if (node.kind != ir::ExprKind::symbol)
      return {};
    auto index = static_cast<uint32_t>(node.value);
    if (run_.defined[index] || run_.function.symbols[index].source != ir::SymbolSource::parameter)
      return {};
    run_.defined[index] = true;
    CUGRT_TRY(check_bounds(index, value, place));
    run_.set_symbol(ir::SymbolId{index}, value);
    return {};
  }

  Status check_bounds(uint32_t index, int64_t value, const Place &place) const {
    const plan::Symbol &symbol = run_.function.symbols[index];
    if (value >= symbol.bounds.lower && value <= symbol.bounds.upper)
      return {};
    return Status::error(Code::out_of_range, place.text() + " gives symbol " + symbol.name +
                                                 " the value " + std::to_string(value) +
                                                 ", but its bounds are " +
                                                 bounds_text(symbol.bounds));
  }

private:
  RunBinding &run_;
};

Status check_agrees(const RunBinding &run, ExprId expr, int64_t value, const Place &place) {
  auto expected = run.evaluate(expr);
  if (!expected.ok())
    return expected.take_status().in(place.text());
  if (*expected == value)
    return {};
  std::string text = run.expr_text(expr), symbols = run.describe_symbols(expr);
  std::string wanted = std::to_string(*expected);
  if (!symbols.empty())
    wanted += text + " = " == symbols.substr(0, text.size() + 3)
                  ? " (" + symbols + ")"
                  : " (" + text + " with " + symbols + ")";
  return Status::error(Code::invalid_argument,
                       place.text() + " is " + std::to_string(value) + ", expected " + wanted);
}

/// Checks the constraints that name a symbol in `defined`, by a match; if it is empty, those that
/// parameters decide.
Status check_constraints(const RunBinding &run, std::span<const ir::SymbolId> defined) {
  std::vector<ir::SymbolId> used;
  for (const plan::Constraint &constraint : run.function.constraints) {
    used.clear();
    run.plan.exprs.collect_symbols(constraint.expr, used);
    const bool at_match = std::any_of(used.begin(), used.end(), [&](ir::SymbolId symbol) {
      return run.function.symbols[symbol.index].source == ir::SymbolSource::match;
    });
    const bool now = defined.empty() ? !at_match
                                     : std::find_first_of(used.begin(), used.end(), defined.begin(),
                                                          defined.end()) != used.end();
    if (now)
      CUGRT_TRY(check_constraint(run, constraint));
  }
  return {};
}

Status bind_scalar(RunBinding &run, const plan::Param &param, const cugrt_value &value) {
  if (param.host_value == kNone)
    return {};
  uint64_t bits = value.kind == CUGRT_VALUE_FLOAT ? std::bit_cast<uint64_t>(value.as.floating)
                                                  : static_cast<uint64_t>(value.as.integer);
  run.set_host_value(param.host_value, bits);
  return {};
}

Status bind_tensor(RunBinding &run, uint32_t index, const cugrt_tensor &tensor) {
  const plan::Param &param = run.function.params[index];
  auto bytes = tensor_bytes(tensor);
  if (!bytes.ok())
    return bytes.take_status().in(param_text(run.function, index));
  CUGRT_TRY(check_address(run.function, index, tensor.address, *bytes));
  if (param.kind == plan::ParamKind::weight)
    run.set_base(run.program.first_weight + index, tensor.address, *bytes);
  else if (param.slot != kNone)
    run.set_base(run.program.base_of_slot(param.slot), tensor.address, *bytes);
  return {};
}

} // namespace

int32_t value_kind(ir::ScalarKind scalar) {
  switch (scalar) {
  case ir::ScalarKind::integer:
    return CUGRT_VALUE_INT;
  case ir::ScalarKind::floating:
    return CUGRT_VALUE_FLOAT;
  case ir::ScalarKind::boolean:
    break;
  }
  return CUGRT_VALUE_BOOL;
}

int32_t value_kind(const plan::Param &param) {
  return param.kind == plan::ParamKind::shape    ? CUGRT_VALUE_SHAPE
         : param.kind == plan::ParamKind::scalar ? value_kind(param.scalar)
                                                 : CUGRT_VALUE_TENSOR;
}

std::string bounds_text(const ir::Interval &bounds) {
  return (bounds.lower == INT64_MIN ? "-inf" : std::to_string(bounds.lower)) + " to " +
         (bounds.upper == INT64_MAX ? "unbounded" : std::to_string(bounds.upper));
}

Status check_constraint(const RunBinding &run, const plan::Constraint &constraint) {
  const auto value = run.evaluate(constraint.expr);
  if (value.ok() && *value <= constraint.most)
    return {};
  return Status::error(Code::out_of_range,
                       "function @" + run.function.name + ": constraint " +
                           run.expr_text(constraint.expr) +
                           " <= " + std::to_string(constraint.most) + " is broken: " +
                           (value.ok() ? "it is " + std::to_string(*value)
                                       : std::string("it does not fit into 64 bits")) +
                           " with " + run.describe_symbols(constraint.expr));
}

Result<uint64_t> tensor_bytes(const cugrt_tensor &tensor) {
  if (tensor.rank > CUGRT_MAX_RANK || !known_dtype(tensor.dtype))
    return Status::error(Code::invalid_argument,
                         "a tensor has at most 8 dimensions and a known dtype");
  const std::span<const int64_t> dims(tensor.dims, tensor.rank);
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; }))
    return Status::error(Code::invalid_argument, "a dimension is negative");
  if (const auto bytes = ir::tensor_bytes(static_cast<ir::DType>(tensor.dtype), dims))
    return *bytes;
  return Status::error(Code::out_of_range, "the tensor's size overflows 64 bits");
}

std::string param_text(const plan::Function &function, uint32_t param) {
  return "function @" + function.name + ", parameter %" + function.params[param].name;
}

std::string value_text(const cugrt_value &value) {
  switch (value.kind) {
  case CUGRT_VALUE_NONE:
    return "nothing";
  case CUGRT_VALUE_TENSOR:
    if (value.as.tensor.rank > CUGRT_MAX_RANK)
      return "a tensor of rank " + std::to_string(value.as.tensor.rank);
    return "tensor<" + dims_text(dims_of(value)) + ", " + dtype_text(value.as.tensor.dtype) + ">";
  case CUGRT_VALUE_INT:
    return "int " + std::to_string(value.as.integer);
  case CUGRT_VALUE_FLOAT:
    return "float " + std::to_string(value.as.floating);
  case CUGRT_VALUE_BOOL:
    return value.as.integer ? "bool true" : "bool false";
  case CUGRT_VALUE_SHAPE:
    if (value.as.shape.rank > CUGRT_MAX_RANK)
      return "a shape of rank " + std::to_string(value.as.shape.rank);
    return "shape " + dims_text(dims_of(value));
  case CUGRT_VALUE_STRING:
    return "a string";
  default:
    return "a value of kind " + std::to_string(value.kind);
  }
}

Status check_argument(const plan::Function &function, uint32_t index, const cugrt_value &value) {
  const plan::Param &param = function.params[index];
  auto fail = [&](const std::string &expected) {
    return Status::error(Code::invalid_argument, param_text(function, index) + ": expected " +
                                                     expected + ", got " + value_text(value));
  };
  if (value.kind != value_kind(param))
    return fail(kind_text(param));
  bool tensor = value.kind == CUGRT_VALUE_TENSOR;
  if (tensor && value.as.tensor.dtype != static_cast<int32_t>(param.dtype))
    return fail("a tensor of dtype " + std::string(ir::info(param.dtype).name));
  if (!tensor && value.kind != CUGRT_VALUE_SHAPE)
    return {};
  uint32_t rank = tensor ? value.as.tensor.rank : value.as.shape.rank;
  if (rank > CUGRT_MAX_RANK)
    return fail("at most " + std::to_string(CUGRT_MAX_RANK) + " dimensions");
  if (param.known_shape && rank != param.dims.size())
    return fail(std::string(tensor ? "rank " : "a shape of length ") +
                std::to_string(param.dims.size()));
  for (int64_t dim : dims_of(value))
    if (tensor && dim < 0)
      return fail("no negative dimension");
  return {};
}

Status check_address(const plan::Function &function, uint32_t param, uint64_t address,
                     uint64_t bytes) {
  uint32_t alignment = function.params[param].alignment_bytes;
  if (bytes != 0 && address == 0)
    return Status::error(Code::invalid_argument, param_text(function, param) +
                                                     ": the address is null, but the tensor has " +
                                                     std::to_string(bytes) + " bytes");
  if (alignment > 1 && address % alignment != 0)
    return Status::error(Code::invalid_argument,
                         param_text(function, param) + ": address " + std::to_string(address) +
                             " is not a multiple of " + std::to_string(alignment) +
                             " bytes, the alignment of the parameter");
  return {};
}

Status bind_parameters(RunBinding &run, std::span<const cugrt_value> values) {
  const plan::Function &function = run.function;
  SymbolDefiner definer(run);
  for (uint32_t i = 0; i < values.size(); ++i) {
    CUGRT_TRY(check_argument(function, i, values[i]));
    const std::vector<ExprId> &dims = function.params[i].dims;
    std::span<const int64_t> given = dims_of(values[i]);
    for (size_t d = 0; d < dims.size() && d < given.size(); ++d)
      if (run.plan.exprs[dims[d]].kind == ir::ExprKind::symbol)
        CUGRT_TRY(definer.define(dims[d], given[d], Place{function, i, values[i].kind, d}));
  }
  run.set_buckets();
  CUGRT_TRY(check_constraints(run, {}));
  for (uint32_t i = 0; i < values.size(); ++i) {
    const plan::Param &param = function.params[i];
    std::span<const int64_t> given = dims_of(values[i]);
    for (size_t d = 0; d < param.dims.size() && d < given.size(); ++d)
      CUGRT_TRY(check_agrees(run, param.dims[d], given[d], Place{function, i, values[i].kind, d}));
    if (values[i].kind == CUGRT_VALUE_TENSOR)
      CUGRT_TRY(bind_tensor(run, i, values[i].as.tensor));
    else if (param.kind == plan::ParamKind::scalar)
      CUGRT_TRY(bind_scalar(run, param, values[i]));
  }
  return {};
}

Status bind_match(RunBinding &run, const plan::Item &item, std::span<const int64_t> dims,
                  const std::string &what) {
  if (dims.size() != item.dims.size())
    return Status::error(Code::invalid_argument, what + ": expected rank " +
                                                     std::to_string(item.dims.size()) +
                                                     ", got rank " + std::to_string(dims.size()));
  std::vector<bool> pending(run.symbols.size());
  for (ir::SymbolId symbol : item.defines)
    pending[symbol.index] = true;
  SymbolDefiner definer(run);
  auto place = [&](size_t d) { return Place{run.function, 0, CUGRT_VALUE_TENSOR, d, &what}; };
  for (size_t d = 0; d < dims.size(); ++d) {
    const ir::ExprNode &node = run.plan.exprs[item.dims[d]];
    if (node.kind != ir::ExprKind::symbol || !pending[node.value])
      continue;
    auto symbol = static_cast<uint32_t>(node.value);
    pending[symbol] = false;
    CUGRT_TRY(definer.check_bounds(symbol, dims[d], place(d)));
    run.set_symbol(ir::SymbolId{symbol}, dims[d]);
  }
  if (!item.defines.empty())
    CUGRT_TRY(check_constraints(run, item.defines));
  for (size_t d = 0; d < dims.size(); ++d)
    CUGRT_TRY(check_agrees(run, item.dims[d], dims[d], place(d)));
  return {};
}

} // namespace cugrt::runtime
