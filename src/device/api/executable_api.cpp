// Executables and functions of the C ABI.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"
#include "device/code/computed_weights.h"
#include "device/program/symbol_binding.h"

namespace cugrt::runtime::api {

constexpr size_t kParamInfoBytes = CUGRT_SIZE_THROUGH(cugrt_param_info, dim_names);

/// "n * 2" for each dimension, as infos show them.
static std::vector<std::string> dim_texts(const plan::Plan &plan, const plan::Function &function,
                                          const std::vector<ExprId> &dims) {
  const std::vector<std::string> names = function.symbol_names();
  std::vector<std::string> texts;
  for (ExprId dim : dims)
    texts.push_back(plan.exprs.to_string(dim, names));
  return texts;
}

static const std::vector<ExprId> &result_dims(const plan::Function &function, size_t index) {
  static const std::vector<ExprId> none;
  uint32_t buffer = function.results[index].buffer;
  return buffer == kNone ? none : function.buffers[buffer].dims;
}

std::shared_ptr<const cugrt_executable_data>
make_executable_data(std::shared_ptr<const Executable> executable) {
  auto data = std::make_shared<cugrt_executable_data>();
  const plan::Plan &plan = executable->plan();
  const std::vector<bool> computes_weights = functions_of_weights(plan);
  for (uint32_t f = 0; f < plan.functions.size(); ++f) {
    const plan::Function &function = plan.functions[f];
    cugrt_function handle{executable.get(), f, 0, {}, {}};
    handle.param_count = function.params.size();
    while (handle.param_count > 0 && // computed weights come last
           computed_weight(plan, function.params[handle.param_count - 1]))
      --handle.param_count;
    for (const plan::Param &param : function.params)
      handle.dim_names.push_back(dim_texts(plan, function, param.dims));
    for (size_t i = 0; i < function.results.size(); ++i) {
      handle.dim_names.push_back(dim_texts(plan, function, result_dims(function, i)));
      handle.result_names.push_back("result" + std::to_string(i));
    }
    data->functions.push_back(std::move(handle));
    if (!function.is_private && !computes_weights[f])
      data->visible.push_back(f);
  }
  data->executable = std::move(executable);
  return data;
}

namespace {

void executable_free(cugrt_executable *executable) { delete executable; }

size_t executable_function_count(const cugrt_executable *executable) {
  return executable ? executable->data->visible.size() : 0;
}

const cugrt_function *executable_function_at(const cugrt_executable *executable, size_t index) {
  if (!executable || index >= executable->data->visible.size())
    return nullptr;
  return &executable->data->functions[executable->data->visible[index]];
}

Status executable_find_function(const cugrt_executable *executable, const char *name,
                                const cugrt_function **function) {
  CUGRT_REQUIRE(executable, name, function);
  std::string known;
  for (uint32_t index : executable->data->visible) {
    const cugrt_function &candidate = executable->data->functions[index];
    if (candidate.plan().name == name) {
      *function = &candidate;
      return {};
    }
    known += (known.empty() ? "@" : ", @") + candidate.plan().name;
  }
  return Status::error(Code::not_found, std::string("there is no function @") + name +
                                            "; the module has " + (known.empty() ? "none" : known));
}

const char *function_name(const cugrt_function *function) {
  return function ? function->plan().name.c_str() : "";
}
size_t function_param_count(const cugrt_function *function) {
  return function ? function->param_count : 0;
}
size_t function_result_count(const cugrt_function *function) {
  return function ? function->plan().results.size() : 0;
}

Status no_such(const cugrt_function *function, const char *what, size_t count, size_t index) {
  return Status::error(Code::out_of_range, "function @" + function->plan().name + " has " +
                                               std::to_string(count) + " " + what +
                                               ", none with index " + std::to_string(index));
}

void fill_dims(const cugrt_function *function, const std::vector<ExprId> &dims,
               const std::vector<std::string> &names, cugrt_param_info &info) {
  const ir::ExprPool &exprs = function->executable->plan().exprs;
  const ir::SymbolDomain domain = plan::symbol_domain(exprs, function->plan());
  info.rank = static_cast<uint32_t>(std::min<size_t>(dims.size(), CUGRT_MAX_RANK));
  for (uint32_t i = 0; i < info.rank; ++i) {
    int64_t upper = exprs.range(dims[i], domain).upper;
    info.dims[i] = upper == INT64_MAX ? -1 : upper;
    info.dim_names[i] = names[i].c_str();
  }
}

Status function_param(const cugrt_function *function, size_t index, cugrt_param_info *info) {
  CUGRT_REQUIRE(function);
  const plan::Function &plan = function->plan();
  if (index >= function->param_count)
    return no_such(function, "parameters", function->param_count, index);
  const plan::Param &param = plan.params[index];
  cugrt_param_info filled{};
  filled.name = param.name.c_str();
  filled.dtype = static_cast<int32_t>(param.dtype);
  filled.access = static_cast<int32_t>(param.access);
  filled.weight = param.kind == plan::ParamKind::weight;
  filled.kind = value_kind(param);
  fill_dims(function, param.dims, function->dim_names[index], filled);
  return write_struct(filled, info, "info", kParamInfoBytes);
}

Status function_result(const cugrt_function *function, size_t index, cugrt_param_info *info) {
  CUGRT_REQUIRE(function);
  const plan::Function &plan = function->plan();
  if (index >= plan.results.size())
    return no_such(function, "results", plan.results.size(), index);
  const plan::FunctionResult &result = plan.results[index];
  cugrt_param_info filled{};
  filled.name = function->result_names[index].c_str();
  filled.access = CUGRT_OUT;
  if (result.buffer != kNone) {
    filled.kind = CUGRT_VALUE_TENSOR;
    filled.dtype = static_cast<int32_t>(plan.buffers[result.buffer].dtype);
    fill_dims(function, result_dims(plan, index), function->dim_names[plan.params.size() + index],
              filled);
  } else if (result.host_value != kNone) {
    filled.kind = value_kind(plan.host_values[result.host_value].scalar);
  }
  for (const plan::CountedDim &c : plan.counted_dims) {
    if (c.result == index)
      filled.counted = 1, filled.counted_dim = c.dim, filled.counted_by = c.count;
    filled.is_count |= c.count == index;
  }
  return write_struct(filled, info, "info", kParamInfoBytes);
}

/// Values of all symbols of the function; `given` tells which ones are set.
Status read_symbols(const plan::Function &function, std::span<const cugrt_symbol_value> symbols,
                    std::vector<int64_t> &values, std::vector<bool> &given) {
  values.resize(function.symbols.size());
  given.resize(function.symbols.size());
  for (const cugrt_symbol_value &symbol : symbols) {
    if (!symbol.name)
      return null_argument("symbols[].name");
    auto found = std::find_if(function.symbols.begin(), function.symbols.end(),
                              [&](const plan::Symbol &s) { return s.name == symbol.name; });
    if (found == function.symbols.end())
      return Status::error(Code::not_found,
                           "function @" + function.name + " has no symbol '" + symbol.name + "'");
    if (symbol.value < found->bounds.lower || symbol.value > found->bounds.upper)
      return Status::error(Code::out_of_range,
                           "function @" + function.name + ": symbol " + symbol.name + " = " +
                               std::to_string(symbol.value) + " is outside of its bounds");
    auto index = static_cast<size_t>(found - function.symbols.begin());
    values[index] = symbol.value;
    given[index] = true;
  }
  return {};
}

Status function_dims(const cugrt_function *function, int32_t is_result, size_t index,
                     const cugrt_symbol_value *symbols, size_t symbol_count, int64_t *dims) {
  CUGRT_REQUIRE(function, dims, symbols || !symbol_count);
  const plan::Function &plan = function->plan();
  size_t count = is_result ? plan.results.size() : function->param_count;
  if (index >= count)
    return no_such(function, is_result ? "results" : "parameters", count, index);
  std::vector<int64_t> values;
  std::vector<bool> given;
  CUGRT_TRY(read_symbols(plan, {symbols, symbol_count}, values, given));
  const std::vector<ExprId> &exprs = is_result ? result_dims(plan, index) : plan.params[index].dims;
  std::array<int64_t, CUGRT_MAX_RANK> evaluated{};
  for (size_t i = 0; i < exprs.size() && i < evaluated.size(); ++i) {
    std::vector<ir::SymbolId> used;
    function->executable->plan().exprs.collect_symbols(exprs[i], used);
    for (ir::SymbolId symbol : used)
      if (!given[symbol.index])
        return Status::error(Code::invalid_argument,
                             "function @" + plan.name + ", " +
                                 (is_result ? "result " : "parameter ") + std::to_string(index) +
                                 " needs a value for symbol " + plan.symbols[symbol.index].name);
    CUGRT_ASSIGN(evaluated[i], function->executable->plan().exprs.evaluate(exprs[i], values));
  }
  std::copy(evaluated.begin(), evaluated.end(), dims);
  return {};
}

size_t function_symbol_count(const cugrt_function *function) {
  return function ? function->plan().symbols.size() : 0;
}

const char *function_symbol_name(const cugrt_function *function, size_t index) {
  if (!function || index >= function->plan().symbols.size())
    return nullptr;
  return function->plan().symbols[index].name.c_str();
}

} // namespace

void add_executable_entries(cugrt_api &table) {
  table.executable_free = executable_free;
  table.executable_function_count = executable_function_count;
  table.executable_function_at = executable_function_at;
  set_entry<executable_find_function>(table.executable_find_function);
  table.function_name = function_name;
  table.function_param_count = function_param_count;
  set_entry<function_param>(table.function_param);
  table.function_result_count = function_result_count;
  set_entry<function_result>(table.function_result);
  set_entry<function_dims>(table.function_dims);
  table.function_symbol_count = function_symbol_count;
  table.function_symbol_name = function_symbol_name;
}

} // namespace cugrt::runtime::api
