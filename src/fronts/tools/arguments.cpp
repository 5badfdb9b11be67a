// Reading, drawing and placing of arguments; see arguments.h.
#include "arguments.h"

#include "base/type/element.h"
#include "npy.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>

namespace tool {

template <class Number>
[[noreturn]] static void fail_range(const Argument &argument, const std::string &text,
                                    const char *dtype) {
  std::ostringstream range;
  range.precision(std::numeric_limits<Number>::max_digits10);
  range << std::numeric_limits<Number>::lowest() << " to " << std::numeric_limits<Number>::max();
  throw UserError("--input " + std::string(argument.info.name) + ": " + text +
                  " does not fit its type, " + dtype + ": from " + range.str());
}

/// The whole number that `at` begins with, and where it ends.
static int64_t parse_integer(const Argument &argument, const char *at, char *&end) {
  errno = 0;
  const long long number = std::strtoll(at, &end, 10);
  if (errno == ERANGE)
    fail_range<int64_t>(argument, {at, static_cast<const char *>(end)}, "i64");
  return number;
}

static cugrt::Value parse_scalar(const Argument &argument, const std::string &text) {
  char *end = nullptr;
  switch (argument.info.kind) {
  case CUGRT_VALUE_INT: {
    const int64_t number = parse_integer(argument, text.c_str(), end);
    if (!*end)
      return cugrt::Value(number);
    break;
  }
  case CUGRT_VALUE_FLOAT: {
    errno = 0;
    double number = std::strtod(text.c_str(), &end);
    if (errno == ERANGE && std::isinf(number))
      fail_range<double>(argument, text, "f64");
    if (!*end)
      return cugrt::Value(number);
    break;
  }
  case CUGRT_VALUE_BOOL:
    if (text == "true" || text == "false")
      return cugrt::Value(text == "true");
    break;
  case CUGRT_VALUE_SHAPE: {
    std::vector<int64_t> dims;
    for (const char *at = text.c_str(); dims.size() < CUGRT_MAX_RANK; at = end + 1) {
      dims.push_back(parse_integer(argument, at, end));
      if (end == at || *end != ',')
        break;
    }
    if (!*end)
      return cugrt::Value::shape(dims);
    break;
  }
  default:
    throw UserError("parameter '" + std::string(argument.info.name) +
                    "' cannot be given on the command line");
  }
  throw UserError("--input " + std::string(argument.info.name) + ": '" + text +
                  "' is not a value of its type");
}

Array random_array(int32_t dtype, const std::vector<int64_t> &dims, std::mt19937 &engine) {
  const cugrt::ir::DType type = own_dtype(dtype);
  const cugrt::ir::DTypeInfo &known = info(type);
  if (known.elements_per_block != 1)
    throw UserError(std::string("random input of dtype ") + dtype_name(dtype) + " is not defined");
  Array array{dtype, dims, std::vector<std::byte>(tensor_bytes(dtype, dims))};
  std::string element;
  for (size_t at = 0; at < array.bytes.size(); at += known.bytes_per_block) {
    element.clear();
    if (known.kind == cugrt::ir::DTypeKind::floating)
      append_float(type, static_cast<float>(engine() >> 8) / 8388608.0f - 1.0f, element);
    else
      append_integer(type, engine() & (known.kind == cugrt::ir::DTypeKind::boolean ? 1 : 7),
                     element);
    std::memcpy(array.bytes.data() + at, element.data(), element.size());
  }
  return array;
}

namespace {

// NumPy has no block formats: takes an array of bytes, whose last dimension counts those of a row,
// for an input of one. The runtime's own check reports numbers that are no whole blocks.
void take_blocks(int32_t dtype, Array &array) {
  if (array.dtype != CUGRT_U8 || array.dims.empty())
    return;
  if (int64_t elements = block_elements(dtype, array.dims.back())) {
    array.dtype = dtype;
    array.dims.back() = elements;
  }
}

bool is_name(const char *text) {
  return std::isalpha(static_cast<unsigned char>(*text)) || *text == '_';
}

std::vector<int64_t> integers_of(const cugrt::Value &value) {
  if (value.kind == CUGRT_VALUE_SHAPE)
    return {value.as.shape.dims, value.as.shape.dims + value.as.shape.rank};
  return {value.as.integer};
}

// A symbol that stands alone as a dimension of a given array or shape, or as a
// given integer, takes its value. The first `set_count` of `symbols` were set:
// another given value contradicts that, since a run would have other values than it
// says. The runtime's own check reports disagreement between inputs, with both
// places.
void learn_symbols(const cugrt::Function &function, const Argument &argument,
                   const std::vector<int64_t> &dims, size_t set_count, Symbols &symbols) {
  for (uint32_t i = 0; i < argument.info.rank && i < dims.size(); ++i)
    for (size_t s = 0; s < function.symbol_count(); ++s) {
      std::string name = function.symbol_name(s);
      if (!is_name(argument.info.dim_names[i]) || name != argument.info.dim_names[i])
        continue;
      auto known = std::find_if(symbols.begin(), symbols.end(),
                                [&](auto &symbol) { return symbol.first == name; });
      if (known == symbols.end())
        symbols.emplace_back(name, dims[i]);
      else if (known - symbols.begin() < static_cast<std::ptrdiff_t>(set_count) &&
               known->second != dims[i])
        throw UserError("--set " + name + "=" + std::to_string(known->second) + " and --input " +
                        argument.info.name + ", which gives " + name + " the value " +
                        std::to_string(dims[i]) + ", contradict each other");
    }
}

void require_symbol(const cugrt::Function &function, const std::string &name) {
  for (size_t s = 0; s < function.symbol_count(); ++s)
    if (function.symbol_name(s) == name)
      return;
  throw UserError("--set: function '" + function.name() + "' has no symbol '" + name + "'");
}

// Whether symbols say what an integer (int<n>, int<2*n>) or a shape is: then it need not be given.
bool follows_symbols(const Argument &argument) {
  return (argument.info.kind == CUGRT_VALUE_INT && argument.info.rank == 1) ||
         argument.info.kind == CUGRT_VALUE_SHAPE;
}

std::string dims_text(const Argument &argument) {
  std::string list;
  for (uint32_t i = 0; i < argument.info.rank; ++i)
    list += (i ? ", " : "") + std::string(argument.info.dim_names[i]);
  return list;
}

std::vector<int64_t> dims_by_symbols(const cugrt::Function &function, const Argument &argument,
                                     const std::vector<cugrt_symbol_value> &symbols) {
  try {
    return function.dims(argument.param, symbols);
  } catch (const cugrt::Error &error) {
    throw UserError(
        "the dimensions of '" + std::string(argument.info.name) + "' are [" + dims_text(argument) +
        "]: give an input that has them, or symbols by --set SYMBOL=NUMBER (" + error.what() + ")");
  }
}

// Integers that are not given, and such that are, against the symbols' values.
void settle_integers(const cugrt::Function &function, Argument &argument,
                     const std::vector<cugrt_symbol_value> &symbols) {
  const std::string name = argument.info.name;
  const bool given = argument.value.kind != CUGRT_VALUE_NONE;
  const bool one = argument.info.kind == CUGRT_VALUE_INT;
  const std::string type =
      one ? "int<" + dims_text(argument) + ">" : "shape<[" + dims_text(argument) + "]>";
  std::vector<int64_t> dims;
  try {
    dims = function.dims(argument.param, symbols);
  } catch (const cugrt::Error &error) {
    if (given) // the run checks it when all symbols are known
      return;
    throw UserError("give a value for parameter '" + name + "', which is " + type + ": --input " +
                    name + (one ? "=NUMBER" : "=NUMBER,NUMBER,...") +
                    ", or its symbols by --set (" + error.what() + ")");
  }
  const cugrt::Value follows = one ? cugrt::Value(dims.at(0)) : cugrt::Value::shape(dims);
  if (given && integers_text(argument.value) != integers_text(follows))
    throw UserError("--input " + name + "=" + integers_text(argument.value) +
                    " contradicts the symbols: the parameter is " + type + ", which is " +
                    integers_text(follows));
  argument.value = follows;
}

} // namespace

std::vector<Argument> make_arguments(const Model &model, Symbols symbols) {
  cugrt::Runtime &runtime = model.runtime();
  const cugrt::Function function = model.function();
  const size_t set_count = symbols.size();
  for (const auto &symbol : symbols)
    require_symbol(function, symbol.first);
  std::vector<Argument> arguments;
  for (size_t i = 0; i < function.param_count(); ++i)
    if (cugrt_param_info info = function.param(i); !info.weight)
      arguments.push_back({i, info, {}, {}, {}, {}});
  for (const auto &[name, source] : model.inputs()) {
    auto found = std::find_if(arguments.begin(), arguments.end(),
                              [&name = name](auto &a) { return name == a.info.name; });
    if (found == arguments.end())
      throw UserError("function '" + function.name() + "' has no input named '" + name + "'");
    if (found->info.kind != CUGRT_VALUE_TENSOR) {
      found->value = parse_scalar(*found, source);
      if (follows_symbols(*found))
        learn_symbols(function, *found, integers_of(found->value), set_count, symbols);
    } else if (source != "random") {
      found->host = read_npy(source);
      take_blocks(found->info.dtype, *found->host);
      learn_symbols(function, *found, found->host->dims, set_count, symbols);
    }
  }
  const std::vector<cugrt_symbol_value> values = symbol_values(symbols);

  // If memory is one, an input stays in the pinned buffer that it is written to, and is read
  // there.
  const cugrt_memory_kind kind =
      runtime.info().integrated ? CUGRT_MEMORY_PINNED : CUGRT_MEMORY_DEVICE;
  std::mt19937 engine(1);
  for (Argument &argument : arguments) {
    const std::string name = argument.info.name;
    if (argument.info.kind != CUGRT_VALUE_TENSOR) {
      if (follows_symbols(argument))
        settle_integers(function, argument, values);
      if (argument.value.kind == CUGRT_VALUE_NONE)
        throw UserError("give a value for parameter '" + name + "': --input " + name + "=NUMBER");
      continue;
    }
    if (argument.info.access != CUGRT_OUT && !model.is_measured() && !model.inputs().count(name))
      throw UserError("no value for input '" + name + "': --input " + name + "=FILE.npy, or " +
                      name + "=random");
    argument.dims =
        argument.host ? argument.host->dims : dims_by_symbols(function, argument, values);
    int32_t dtype = argument.host ? argument.host->dtype : argument.info.dtype;
    if (!argument.host && argument.info.access != CUGRT_OUT)
      argument.host = random_array(dtype, argument.dims, engine);
    argument.buffer =
        cugrt::Buffer(runtime, std::max<uint64_t>(1, tensor_bytes(dtype, argument.dims)), kind);
    argument.value = argument.buffer.tensor(static_cast<cugrt_dtype>(dtype), argument.dims);
    if (!argument.host)
      continue;
    if (void *here = argument.buffer.host_pointer())
      std::copy(argument.host->bytes.begin(), argument.host->bytes.end(),
                static_cast<std::byte *>(here));
    else
      cugrt::copy_to_device(runtime, argument.buffer.address(), argument.host->bytes);
  }
  return arguments;
}

std::vector<cugrt::Value> values_of(const std::vector<Argument> &arguments) {
  std::vector<cugrt::Value> values;
  for (const Argument &argument : arguments)
    values.push_back(argument.value);
  return values;
}

std::string integers_text(const cugrt::Value &value) {
  std::string text;
  for (int64_t one : integers_of(value))
    text += (text.empty() ? "" : ",") + std::to_string(one);
  return text;
}

Array fetch(cugrt::Runtime &runtime, const cugrt_tensor &tensor) {
  Array array{tensor.dtype, {tensor.dims, tensor.dims + tensor.rank}, {}};
  array.bytes.resize(tensor_bytes(array.dtype, array.dims));
  if (!array.bytes.empty())
    cugrt::copy_to_host(runtime, array.bytes, tensor.address);
  return array;
}

double element(const Array &array, size_t index) {
  const cugrt::ir::DType type = own_dtype(array.dtype);
  const cugrt::ir::DTypeInfo &known = info(type);
  if (known.elements_per_block != 1)
    return std::nan("");
  const auto *at =
      reinterpret_cast<const char *>(array.bytes.data()) + index * known.bytes_per_block;
  if (known.kind == cugrt::ir::DTypeKind::floating)
    return float_at(type, at);
  const int64_t whole = integer_at(type, at);
  return known.kind == cugrt::ir::DTypeKind::unsigned_integer
             ? static_cast<double>(static_cast<uint64_t>(whole))
             : static_cast<double>(whole);
}

} // namespace tool
