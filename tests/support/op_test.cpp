// Builds a function of one op, legalizes it, runs it, and compares within bounds that follow from
// the op's definition.
#include "support/op_test.h"

#include "base/check.h"
#include "compiler/passes/pass.h"
#include "ir/module/builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cugrt::test {

namespace {

using ir::Op;

std::string text_of(const ir::AttributeValue &value) {
  if (const auto *integer = std::get_if<int64_t>(&value))
    return std::to_string(*integer);
  if (const auto *flag = std::get_if<bool>(&value))
    return *flag ? "true" : "false";
  if (const auto *text = std::get_if<std::string>(&value))
    return *text;
  if (const auto *dtype = std::get_if<ir::DTypeLiteral>(&value))
    return std::string(ir::info(dtype->dtype).name);
  std::string list;
  if (const auto *integers = std::get_if<std::vector<int64_t>>(&value))
    for (int64_t i : *integers)
      list += (list.empty() ? "" : ", ") + std::to_string(i);
  return "[" + list + "]";
}

// --- The module ----------------------------------------------------------------------------------

// The name of the op's rule: all ops of one rule have one form.
std::string_view rule_of(Op op) {
  switch (op) {
#define rule(name) #name
#define CUGRT_OP(name, operands, results, RULE, ...)                                               \
  case Op::name:                                                                                   \
    return RULE;
#include "ops/table/ops.def"
  }
  return "";
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool broadcasts(Op op) {
  return is_one_of(rule_of(op), {"binary", "binary_float", "bitwise", "compare", "logical", "where",
                                 "matmul", "broadcast_to"});
}

bool has_batch(const OpTest &test) {
  return ir::op_integer(test.op, test.attributes, "batch_dims") > 0;
}

// Whether the first dimension of operand i is the symbol: of the first operand, unless it is a 1
// that may broadcast, and of others that must agree with it.
bool is_symbolic(const OpTest &test, size_t i) {
  const std::vector<int64_t> &first = test.operands[0].dims, &own = test.operands[i].dims;
  if (!test.symbolic || first.empty() || (first[0] == 1 && broadcasts(test.op)) ||
      test.op == Op::top_k || (test.op == Op::cache_write && test.operands[2].absent) ||
      (test.op == Op::matmul_blocks && first.size() == 1))
    return false;
  if (i == 0)
    return true;
  if (test.op == Op::matmul_integer) // batches, or the rows that have zero points
    return i == 0 || ((i == 1 ? own.size() > 2 : i == 2 && first.size() == 2 && own.size() == 1) &&
                      own[0] == first[0] && own[0] != 1);
  const bool may_agree = test.op == Op::matmul
                             ? own.size() > 2
                             : broadcasts(test.op) || test.op == Op::concat ||
                                   test.op == Op::attention || test.op == Op::rotary ||
                                   test.op == Op::gather_elements ||
                                   test.op == Op::scatter_elements || test.op == Op::grid_sample ||
                                   (test.op == Op::gather_nd && has_batch(test));
  // Lengths, positions and indices of these have fewer dimensions.
  const bool same_rank = own.size() == first.size() ||
                         is_one_of(rule_of(test.op), {"attention", "rotary", "gather_nd"});
  return may_agree && same_rank && !own.empty() && own[0] == first[0];
}

Result<ir::Module> build(const OpTest &test) {
  ir::Module module;
  ir::FunctionBuilder builder(module, "main");
  const ir::SymbolId symbol = builder.symbol({"n"});
  std::vector<ir::Operand> operands;
  std::vector<ir::TypeId> types;
  for (size_t i = 0; i < test.operands.size(); ++i) {
    const OpTest::Operand &operand = test.operands[i];
    if (operand.absent) {
      operands.push_back({});
      types.push_back({});
      continue;
    }
    std::vector<ir::ExprId> dims;
    if (operand.shape) {
      for (size_t d = 0; d < operand.dims.size(); ++d) {
        const bool of_symbol = d == 0 && i > 0 && is_symbolic(test, 0) &&
                               (i + 1 == test.operands.size() || !test.operands[i + 1].shape) &&
                               operand.dims[0] == test.operands[0].dims[0];
        dims.push_back(of_symbol ? module.exprs.symbol(symbol)
                                 : module.exprs.constant(operand.dims[d]));
      }
      types.push_back(module.types.shape(dims));
      ir::Binding binding{};
      binding.kind = ir::BindingKind::shape;
      const std::string hint = "s";
      operands.push_back(
          ir::Operand::of(builder.bind(binding, {}, dims, {}, {&hint, 1}, {&types.back(), 1})));
      continue;
    }
    for (int64_t size : operand.dims)
      dims.push_back(dims.empty() && is_symbolic(test, i) ? module.exprs.symbol(symbol)
                                                          : module.exprs.constant(size));
    types.push_back(module.types.tensor(operand.dtype.value_or(test.dtype), dims));
    const bool is_written = i == 0 && ir::writes_operand(test.op);
    operands.push_back(ir::Operand::of(builder.param(
        "x" + std::to_string(i), types.back(), is_written ? ir::Access::inout : ir::Access::in)));
  }
  CUGRT_ASSIGN(const std::vector<ir::TypeId> results,
               ir::infer_op(module, test.op, types, test.attributes));
  ir::Binding binding{};
  binding.kind = ir::BindingKind::op;
  binding.callee = uint32_t(test.op);
  const ir::ValueId first = builder.bind(binding, operands, {}, test.attributes, {}, results);
  std::vector<ir::Operand> returned;
  for (size_t i = 0; i < results.size(); ++i)
    returned.push_back(ir::Operand::of(ir::ValueId{first.index + uint32_t(i)}));
  builder.function().result_types = results;
  module.functions.push_back(builder.finish(returned));
  return module;
}

// Blocks of random elements, as bytes: their scales (and least values) are halves from -1/8 to 1/8.
Array random_blocks(const OpTest::Operand &operand, std::mt19937 &random) {
  const ir::DTypeInfo &row = ir::info(*operand.dtype);
  const size_t halves = *operand.dtype == ir::DType::q4_1 ? 2 : 1;
  std::uniform_real_distribution<double> real(-0.125, 0.125);
  std::uniform_int_distribution<int> byte(0, 255);
  Array array{operand.dims, {}};
  for (int64_t b = Array::of(operand.dims).count() / 32; b > 0; --b) {
    Array heads = Array::of({int64_t(halves)});
    for (double &value : heads.values)
      value = real(random);
    for (char c : encode(ir::DType::f16, heads))
      array.values.push_back(uint8_t(c));
    for (size_t i = 2 * halves; i < row.bytes_per_block; ++i)
      array.values.push_back(byte(random));
  }
  return array;
}

Array random_array(const OpTest &test, const OpTest::Operand &operand, std::mt19937 &random) {
  const ir::DType dtype = operand.dtype.value_or(test.dtype);
  if (!operand.values.empty())
    return {operand.dims, operand.values};
  if (ir::info(dtype).kind == ir::DTypeKind::block)
    return random_blocks(operand, random);
  Array array = Array::of(operand.dims);
  const bool floating = ir::info(dtype).kind == ir::DTypeKind::floating;
  std::uniform_real_distribution<double> real(-test.scale, test.scale);
  std::uniform_int_distribution<int> integer(-3, 12), lot(0, 15), special(0, 4);
  constexpr double kSpecials[] = {NAN, INFINITY, -INFINITY, 0, -0.0};
  for (double &value : array.values) {
    value = floating                      ? real(random)
            : dtype == ir::DType::boolean ? integer(random) % 2
                                          : integer(random);
    if (floating && test.specials && lot(random) == 0)
      value = kSpecials[special(random)];
    value = round_to(dtype, value);
  }
  return array;
}

// --- Bounds --------------------------------------------------------------------------------------

double epsilon_of(ir::DType dtype) { // half a unit in the last place, relative
  switch (dtype) {
  case ir::DType::f16:
    return 0x1p-11;
  case ir::DType::bf16:
    return 0x1p-8;
  case ir::DType::f64:
    return 0x1p-53;
  default:
    return 0x1p-24;
  }
}

bool is_exact(const OpTest &test) {
  const Op op = test.op;
  auto word = [&](const char *name) { return ir::op_string(op, test.attributes, name); };
  switch (op) {
  case Op::resize:
    return word("mode") == "nearest";
  case Op::scatter_elements:
  case Op::scatter_nd:
    return word("reduction") != "add" && word("reduction") != "mul";
  case Op::floor:
  case Op::ceil:
  case Op::round:
  case Op::maximum:
  case Op::minimum:
  case Op::trunc_mod:
  case Op::max_pool2d:
  case Op::reduce_max:
  case Op::reduce_min:
    return true;
  default:
    return is_one_of(rule_of(op),
                     {"unary_number",    "test",       "logical_not", "compare",   "logical",
                      "where",           "cast",       "argmax",      "top_k",     "reshape",
                      "transpose",       "concat",     "split",       "embedding", "gather",
                      "gather_elements", "one_hot",    "slice",       "pad",       "broadcast_to",
                      "gather_nd",       "cache_write"});
  }
}

bool is_sum(Op op) {
  return op == Op::matmul || op == Op::conv1d || op == Op::conv2d || op == Op::conv3d ||
         op == Op::conv_transpose || op == Op::avg_pool2d || op == Op::reduce_sum ||
         op == Op::reduce_mean || op == Op::cumsum;
}

// How many numbers one element of a sum, softmax or norm depends on.
double term_count(const OpTest &test) {
  const std::vector<int64_t> &x = test.operands[0].dims;
  double count = 1;
  switch (test.op) {
  case Op::matmul:
  case Op::matmul_blocks:
    return double(x.back());
  case Op::conv1d:
  case Op::conv2d:
  case Op::conv3d:
    for (size_t i = 1; i < test.operands[1].dims.size(); ++i)
      count *= double(test.operands[1].dims[i]);
    return count;
  case Op::conv_transpose:
    for (int64_t size : test.operands[1].dims)
      count *= double(size);
    return count;
  default:
    for (int64_t size : x)
      count *= double(size);
    return count;
  }
}

// The bound on each element's error: what the order of summation and the functions' stated errors
// (at most 2 units in the last place each, CUDA's mathematical functions) can make of it.
std::vector<double> bounds(const OpTest &test, ir::DType dtype, const Array &want,
                           const std::vector<Array> &inputs) {
  const double arithmetic = dtype == ir::DType::f64 ? 0x1p-53 : 0x1p-24;
  const double stored = 2 * epsilon_of(dtype), least = dtype == ir::DType::f16 ? 0x1p-24 : 1e-37;
  std::vector<double> bound(want.values.size(), 0);
  if (is_exact(test) || ir::info(dtype).kind != ir::DTypeKind::floating)
    return bound;
  Array magnitude = want;
  double factor = 16;
  if (is_sum(test.op)) { // the sum of the terms' magnitudes
    std::vector<Array> positive = inputs;
    std::vector<const Array *> operands;
    for (Array &array : positive) {
      for (double &value : array.values)
        value = std::isfinite(value) ? std::fabs(value) : 0;
      operands.push_back(&array);
    }
    std::vector<const Array *> present;
    size_t next = 0;
    for (const OpTest::Operand &operand : test.operands)
      present.push_back(operand.absent ? nullptr : operands[next++]);
    magnitude = evaluate_op(test.op, present, test.attributes)[0];
    if (test.op == Op::cumsum) // any place of a line
      magnitude.values.assign(
          magnitude.values.size(),
          std::accumulate(positive[0].values.begin(), positive[0].values.end(), 0.0));
    factor = term_count(test) + 4;
    if (test.precision == "tf32") // either factor is off by 2^-11 of it
      for (size_t i = 0; i < bound.size(); ++i)
        bound[i] += 0x1.01p-10 * magnitude.values[i];
    if (test.op == Op::conv2d && test.operands[0].dtype.value_or(test.dtype) != test.dtype)
      for (size_t i = 0; i < bound.size(); ++i) // x is rounded to w's dtype
        bound[i] += epsilon_of(test.dtype) * magnitude.values[i];
  } else if (rule_of(test.op) == "softmax" || test.op == Op::layer_norm ||
             test.op == Op::rms_norm || test.op == Op::group_norm) {
    factor = 2 * term_count(test) + 64;
    double largest = 1;
    for (double value : want.values)
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
    magnitude.values.assign(magnitude.values.size(), largest);
  } else if (test.op == Op::matmul_blocks) { // elements of w are at most 16 and a bit
    factor = term_count(test) + 8;
    magnitude.values.assign(magnitude.values.size(),
                            (double(test.operands[0].dims.back()) * 17 + 1) * test.scale);
  } else if (test.op == Op::attention) {
    // Scores of WIDTH terms, at most scale^2 each, move a weight by their error; values are at most
    // scale.
    const double width = double(test.operands[0].dims[3]);
    factor = (width + 8) * (2 * std::sqrt(width) * test.scale * test.scale + 4) +
             2 * double(test.operands[1].dims[1]) + 64;
    magnitude.values.assign(magnitude.values.size(), test.scale);
    // Tensor cores take weights, at most 1 in sum, as they are rounded to the short floats.
    const bool is_short = dtype == ir::DType::f16 || dtype == ir::DType::bf16;
    const bool are_shared = test.operands[0].dims[2] > test.operands[1].dims[2];
    if (is_short && (are_shared || test.operands[0].dims[1] >= 16))
      bound.assign(bound.size(), epsilon_of(dtype) * test.scale);
  } else if (test.op == Op::rotary) { // angles of at most 12, off by the power's error
    factor = 256;
    magnitude.values.assign(magnitude.values.size(), 2 * test.scale);
  } else if (rule_of(test.op) == "recurrent") {
    // Errors of a step go on into the next ones; whoever tests keeps weights small.
    // A level of a quantised state that is rounded the other way is 1/255 of it.
    factor = test.op == Op::lstm_integer ? 0x1p17 : 4096;
    double largest = 1;
    for (double value : want.values)
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
    magnitude.values.assign(magnitude.values.size(), largest);
  } else if (test.op == Op::resize) { // weights of at most 9/4 along an axis
    factor = 512;
    magnitude.values.assign(magnitude.values.size(), test.scale);
  } else if (test.op == Op::grid_sample) { // places are off by what their size is
    factor = 512 * double(*std::max_element(test.operands[0].dims.begin() + 2,
                                            test.operands[0].dims.end()) +
                          1);
    magnitude.values.assign(magnitude.values.size(), test.scale);
  } else if (rule_of(test.op) == "scatter_elements" || rule_of(test.op) == "scatter_nd") {
    factor = term_count(test) + 8; // in any order
    double largest = 1;
    for (double value : want.values)
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
    magnitude.values.assign(magnitude.values.size(), largest + 16 * test.scale);
  } else if (test.op == Op::reduce_prod || test.op == Op::cumprod) {
    factor = term_count(test) + 16;
  } else if (is_one_of(ir::op_info(test.op).name,
                       {"gelu", "silu", "hard_swish", "hard_sigmoid", "floor_mod"})) {
    // Sums that cancel: 1 + erf for negative x, x + 3, alpha * x + beta, the remainder + b.
    for (size_t i = 0; i < magnitude.values.size(); ++i)
      magnitude.values[i] = std::fabs(magnitude.values[i]) +
                            (broadcasts(test.op) ? test.scale : std::fabs(inputs[0].values[i]) + 1);
  }
  for (size_t i = 0; i < bound.size(); ++i)
    bound[i] += factor * arithmetic * std::fabs(magnitude.values[i]) +
                stored * std::fabs(want.values[i]) + least;
  return bound;
}

std::string compare(const Array &got, const Array &want, const std::vector<double> &bound) {
  if (got.dims != want.dims)
    return "dimensions differ";
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double p = got.values[i], q = want.values[i];
    if (std::isnan(q) ? std::isnan(p) : std::isinf(q) ? p == q : std::fabs(p - q) <= bound[i])
      continue;
    return "element " + std::to_string(i) + " of " + std::to_string(want.values.size()) + " is " +
           std::to_string(p) + ", not " + std::to_string(q) + " within " + std::to_string(bound[i]);
  }
  return {};
}

} // namespace

std::string OpTest::describe() const {
  std::string text = std::string(ir::op_info(op).name) + "(";
  for (size_t i = 0; i < operands.size(); ++i) {
    text += i ? ", " : "";
    text += operands[i].absent  ? "none"
            : operands[i].shape ? "shape"
                                : std::string(ir::info(operands[i].dtype.value_or(dtype)).name);
    if (!operands[i].absent)
      text += text_of(operands[i].dims);
  }
  text += ")";
  for (const ir::Attribute &attribute : attributes)
    text += " " + attribute.name + "=" + text_of(attribute.value);
  return text + (symbolic ? " symbolic" : "") + (specials ? " specials" : "");
}

OpOutcome run_op_test(LaunchRunner &runner, const OpTest &test, std::mt19937 &random) {
  auto fail = [&](std::string message) {
    return OpOutcome{false, test.describe() + ": " + message, runner.counters()};
  };
  Result<ir::Module> module = build(test);
  if (!module.ok())
    return fail(module.status().to_string());
  passes::PassContext context;
  if (const Status status = context.set("codegen.matmul", test.matmul); !status.ok())
    return fail(status.to_string());
  if (const Status status = context.set("mixed.dtype", test.precision); !status.ok())
    return fail(status.to_string());
  const std::pair<const char *, int64_t> target[] = {
      {"target.multiprocessors", test.multiprocessors},
      {"target.compute_capability", test.compute_capability}};
  for (const auto &[option, value] : target)
    if (const Status status = context.set(option, std::to_string(value)); !status.ok())
      return fail(status.to_string());
  Result<ir::Module> legal = passes::find_pass("LegalizeOps")->run(*module, context);
  if (!legal.ok())
    return fail(legal.status().to_string());

  std::vector<Array> inputs;
  for (const OpTest::Operand &operand : test.operands)
    if (!operand.absent && !operand.shape)
      inputs.push_back(random_array(test, operand, random));
  std::vector<Array> shapes;
  for (const OpTest::Operand &operand : test.operands)
    if (operand.shape)
      shapes.push_back(
          {{int64_t(operand.dims.size())}, {operand.dims.begin(), operand.dims.end()}});
  std::vector<const Array *> operands;
  size_t next = 0, next_shape = 0;
  for (const OpTest::Operand &operand : test.operands)
    operands.push_back(operand.absent  ? nullptr
                       : operand.shape ? &shapes[next_shape++]
                                       : &inputs[next++]);
  const std::vector<Array> want = evaluate_op(test.op, operands, test.attributes, test.dtype);

  const ir::Function &function = legal->functions[0];
  Result<std::vector<Array>> got = runner.run(*legal, function, inputs);
  if (!got.ok())
    return fail(got.status().to_string());
  if (got->size() != want.size())
    return fail("another number of results");
  for (size_t i = 0; i < want.size(); ++i) {
    const ir::DType dtype = legal->types[function.result_types[i]].dtype;
    Array expected = want[i];
    if (is_exact(test))
      for (double &value : expected.values)
        value = round_to(dtype, value);
    const std::string difference =
        compare((*got)[i], expected, bounds(test, dtype, expected, inputs));
    if (!difference.empty())
      return fail("result " + std::to_string(i) + ": " + difference);
  }
  return {true, {}, runner.counters()};
}

} // namespace cugrt::test
