// Random graphs of ops, fused and unfused, give the same bits: FuseOps and FuseKernels before
// LegalizeOps, or LegalizeOps alone, on the emulator's execution core. Outputs are poisoned, and
// every access is checked. CUGRT_FUSION_SEEDS sets how many graphs (60).
#include "support/catch.h"
#include "support/launch_runner.h"

#include "compiler/passes/pass.h"
#include "ir/module/builder.h"
#include "ir/text/text.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace cugrt;
using namespace cugrt::test;
using ir::DType;
using ir::Op;

namespace {

/// A function of random ops over parameters that are made as they are needed. Dimensions are small
/// and odd; where `symbolic`, all that are 7 are the symbol n, which is given `n` in the run.
class RandomGraph {
public:
  RandomGraph(uint32_t seed, bool symbolic, int64_t n)
      : random_(seed), builder_(module, "main"), symbolic_(symbolic), n_(n) {
    if (symbolic)
      symbol_ = module.exprs.symbol(builder_.symbol({"n"}));
    constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::f64,
                                DType::i32, DType::i64, DType::u8,   DType::i8};
    dtype_ = kTypes[pick(10) < 6 ? 0 : 1 + pick(7)];
    add_param({kN, 5});
    add_param({kN, 3, 4, 6});
    if (pick(2))
      add_param({2, kN, 5});
    const int ops = 4 + pick(12);
    for (int i = 0; i < ops; ++i)
      step();
    finish();
  }

  ir::Module module;
  std::vector<Array> inputs;

private:
  static constexpr int64_t kN = 7;
  using Dims = std::vector<int64_t>; // 7 stands for n
  struct Value {
    ir::ValueId id;
    Dims dims;
    DType dtype;
    bool is_param = false, used = false;
  };

  int pick(int count) { return int(random_() % uint32_t(count)); }

  ir::ValueId add_param(const Dims &dims) { return add_param(dims, dtype_); }
  ir::ValueId add_param(const Dims &dims, DType dtype) {
    std::vector<ir::ExprId> exprs;
    Array input;
    for (int64_t dim : dims) {
      exprs.push_back(dim == kN && symbolic_ ? symbol_ : module.exprs.constant(dim));
      input.dims.push_back(dim == kN && symbolic_ ? n_ : dim);
    }
    input = Array::of(input.dims);
    std::uniform_real_distribution<double> real(-2, 2);
    for (double &value : input.values)
      value = real(random_);
    inputs.push_back(std::move(input));
    const ir::ValueId id = builder_.param("x", module.types.tensor(dtype, exprs));
    values_.push_back({id, dims, dtype, true});
    return id;
  }

  /// A parameter that no op is asked to use again.
  ir::ValueId weight(const Dims &dims, DType dtype) {
    const ir::ValueId id = add_param(dims, dtype);
    values_.pop_back();
    return id;
  }

  void emit(Op op, std::vector<ir::ValueId> operands, std::vector<ir::Attribute> attributes = {}) {
    std::vector<ir::TypeId> types;
    std::vector<ir::Operand> list;
    for (ir::ValueId operand : operands) {
      types.push_back(builder_.function().value(operand).type);
      list.push_back(ir::Operand::of(operand));
    }
    Result<std::vector<ir::TypeId>> results = ir::infer_op(module, op, types, attributes);
    if (!results.ok())
      return; // dimensions that do not suit
    for (Value &value : values_)
      for (ir::ValueId operand : operands)
        value.used = value.used || value.id == operand;
    ir::Binding binding{};
    binding.kind = ir::BindingKind::op;
    binding.callee = uint32_t(op);
    const ir::ValueId id = builder_.bind(binding, list, {}, attributes, {}, *results);
    const ir::Type type = module.types[(*results)[0]];
    Dims dims;
    for (ir::ExprId dim : type.dims)
      dims.push_back(module.exprs.as_constant(dim).value_or(kN));
    values_.push_back({id, std::move(dims), type.dtype});
  }

  void step() {
    // Later values are likelier, so that chains form; copied, since parameters may be added.
    const Value x = values_[values_.size() - 1 - size_t(pick(2) ? 0 : pick(int(values_.size())))];
    if (x.dtype == DType::boolean)
      return of_bools(x);
    if (pick(3) == 0)
      return movement(x);
    switch (pick(24)) {
    case 20:
      return compare(x);
    case 21: {
      constexpr Op kOps[] = {Op::leaky_relu, Op::elu, Op::hard_sigmoid, Op::is_nan, Op::is_inf};
      return emit(kOps[pick(5)], {x.id});
    }
    case 22:
      return emit(Op::clip, {x.id}, {{"min", -0.75 + pick(2)}, {"max", 0.5 + 2 * pick(2)}});
    case 23:
      return x.dims.empty()
                 ? void()
                 : emit(pick(2) ? Op::argmax : Op::argmin, {x.id},
                        {{"axis", int64_t(pick(int(x.dims.size())))}, {"last", pick(2) == 1}});
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: {
      constexpr Op kUnary[] = {Op::relu,     Op::neg,  Op::abs,   Op::exp,        Op::sqrt,
                               Op::tanh,     Op::silu, Op::gelu,  Op::sigmoid,    Op::rsqrt,
                               Op::erf,      Op::sin,  Op::floor, Op::reciprocal, Op::softplus,
                               Op::softsign, Op::sign, Op::round, Op::hard_swish, Op::log1p};
      const Op op = kUnary[pick(int(std::size(kUnary)))];
      std::vector<ir::Attribute> attributes;
      if (op == Op::gelu && pick(2))
        attributes.push_back({"approximate", std::string("tanh")});
      return emit(op, {x.id}, std::move(attributes));
    }
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
    case 10:
      return binary(x);
    case 11:
      if (x.dims.size() < 2)
        return;
      return emit(Op::matmul, {x.id, weight({x.dims.back(), 5}, x.dtype)});
    case 12:
      if (x.dims.size() != 4 || x.dims[1] == kN)
        return;
      return emit(Op::conv2d, {x.id, weight({pick(2) ? 4 : 3, x.dims[1], 3, 3}, x.dtype)},
                  {{"padding", std::vector<int64_t>{1, 1}}});
    case 13:
      return x.dims.empty() ? void()
                            : emit(pick(3) ? Op::softmax : Op::log_softmax, {x.id},
                                   {{"axis", int64_t(pick(int(x.dims.size())))}});
    case 14:
      if (x.dims.empty())
        return;
      if (pick(2) && x.dims.back() != kN)
        return emit(Op::layer_norm,
                    {x.id, weight({x.dims.back()}, x.dtype), weight({x.dims.back()}, x.dtype)});
      return emit(Op::rms_norm, {x.id});
    case 15:
    case 16: {
      constexpr Op kReductions[] = {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min,
                                    Op::reduce_prod};
      std::vector<ir::Attribute> attributes = {{"keep_dims", pick(2) == 1}};
      if (!x.dims.empty() && pick(4))
        attributes.push_back({"axes", std::vector<int64_t>{pick(int(x.dims.size()))}});
      return emit(kReductions[pick(5)], {x.id}, std::move(attributes));
    }
    case 17:
      return emit(Op::transpose, {x.id});
    case 18:
      return reshape(x);
    default:
      return emit(Op::cast, {x.id},
                  {{"dtype", ir::DTypeLiteral{pick(3)   ? DType::f32
                                              : pick(2) ? DType::f16
                                                        : DType::i32}}});
    }
  }

  void binary(const Value &x) {
    constexpr Op kBinary[] = {Op::add, Op::mul, Op::sub,   Op::maximum,   Op::minimum,
                              Op::div, Op::pow, Op::prelu, Op::floor_mod, Op::trunc_mod};
    const Op op = kBinary[pick(pick(3) ? 2 : int(std::size(kBinary)))];
    Dims other = x.dims;
    switch (pick(5)) {
    case 0: // another value that suits
      for (size_t tries = 0; tries < 8; ++tries)
        if (const Value &y = values_[size_t(pick(int(values_.size())))]; y.dtype == x.dtype)
          return emit(op, {x.id, y.id});
      return;
    case 1: // fewer axes
      other.erase(other.begin(), other.begin() + pick(int(other.size()) + 1));
      break;
    case 2: // 1 along some
      for (int64_t &dim : other)
        dim = pick(2) ? 1 : dim;
      break;
    case 3: // the same
      break;
    case 4: // x broadcasts
      if (other.size() < 4)
        other.insert(other.begin(), 2);
      for (int64_t &dim : other)
        dim = dim == 1 ? 3 : dim;
      break;
    }
    const ir::ValueId y = weight(other, x.dtype);
    pick(2) ? emit(op, {x.id, y}) : emit(op, {y, x.id});
  }

  /// A value of that dtype that may be asked for again: one that is there, or a parameter.
  ir::ValueId another(const Dims &dims, DType dtype) {
    for (size_t tries = 0; tries < 8; ++tries)
      if (const Value &y = values_[size_t(pick(int(values_.size())))];
          y.dtype == dtype && y.dims == dims)
        return y.id;
    return weight(dims, dtype);
  }

  void compare(const Value &x) {
    constexpr Op kOps[] = {Op::equal,      Op::not_equal, Op::less,
                           Op::less_equal, Op::greater,   Op::greater_equal};
    emit(kOps[pick(6)], {x.id, another(x.dims, x.dtype)});
  }

  void of_bools(const Value &x) {
    constexpr Op kOps[] = {Op::logical_and, Op::logical_or, Op::logical_xor, Op::equal,
                           Op::not_equal};
    switch (pick(5)) {
    case 0:
      return emit(Op::logical_not, {x.id});
    case 1:
      return emit(kOps[pick(5)], {x.id, another(x.dims, DType::boolean)});
    case 2:
      return emit(Op::cast, {x.id}, {{"dtype", ir::DTypeLiteral{pick(2) ? DType::f32 : dtype_}}});
    default: {
      Dims other = x.dims;
      for (int64_t &dim : other)
        dim = pick(4) ? dim : 1;
      const DType dtype = pick(3) ? dtype_ : DType::f32;
      return emit(Op::where, {x.id, another(x.dims, dtype), another(other, dtype)});
    }
    }
  }

  /// Elements from other places.
  void movement(const Value &x) {
    if (x.dims.empty())
      return;
    const size_t axis = size_t(pick(int(x.dims.size())));
    const int64_t along = int64_t(axis);
    Dims other = x.dims;
    switch (pick(9)) {
    case 7:
      return of_index(x, false);
    case 8:
      return of_index(x, true);
    case 0:
    case 1: {
      if (x.dims[axis] != kN)
        other[axis] = 1 + pick(4);
      const ir::ValueId y = another(other, x.dtype);
      std::vector<ir::ValueId> parts = pick(2) ? std::vector{x.id, y} : std::vector{y, x.id};
      if (pick(4) == 0)
        parts.push_back(x.id);
      return emit(Op::concat, parts, {{"axis", along}});
    }
    case 2:
    case 3: {
      const int64_t step = pick(3) ? 1 : pick(2) ? 2 : -1;
      const int64_t begin = step < 0 ? -1 : pick(3), end = step < 0 ? INT64_MIN : INT64_MAX;
      return emit(Op::slice, {x.id},
                  {{"axes", std::vector<int64_t>{along}},
                   {"starts", std::vector<int64_t>{begin}},
                   {"ends", std::vector<int64_t>{end}},
                   {"steps", std::vector<int64_t>{step}}});
    }
    case 4: {
      std::vector<int64_t> before(x.dims.size()), after(x.dims.size());
      before[axis] = pick(3);
      after[axis] = pick(3);
      after[0] += pick(2);
      constexpr double kValues[] = {0, -1.5, 1e30, 0.1};
      std::vector<ir::Attribute> attributes = {
          {"before", before}, {"after", after}, {"value", kValues[pick(4)]}};
      if (pick(3) == 0)
        attributes.push_back({"mode", std::string(pick(2) ? "edge" : "reflect")});
      return emit(Op::pad, {x.id}, std::move(attributes));
    }
    case 5: {
      const DType ids = pick(2) ? DType::i32 : DType::i64;
      if (pick(3) == 0 && x.dims.size() == 2)
        return emit(Op::embedding, {x.id, another({2, 3}, ids)});
      return emit(Op::gather, {x.id, another(pick(2) ? Dims{3} : Dims{2, 2}, ids)},
                  {{"axis", along}});
    }
    default:
      if (x.dims[axis] != kN)
        other[axis] = 1 + pick(4);
      return emit(Op::gather_elements, {x.id, another(other, DType::i32)}, {{"axis", along}});
    }
  }

  /// A sequence, or rows with one element that is on, and what x makes of it.
  void of_index(const Value &x, bool hot) {
    const int64_t length = x.dims.back() == kN ? 3 : x.dims.back();
    const ir::Attribute dtype{"dtype", ir::DTypeLiteral{x.dtype}};
    const size_t made = values_.size() + (hot ? 1 : 0);
    if (hot) {
      const ir::ValueId ids = add_param({kN, 2}, pick(2) ? DType::i32 : DType::i64);
      emit(Op::one_hot, {ids},
           {{"depth", length}, {"axis", int64_t(2 - pick(2))}, {"on", 1.5}, {"off", -0.25}, dtype});
    } else {
      emit(Op::range, {}, {{"length", length}, {"start", -2.3}, {"step", 0.7}, dtype});
    }
    if (values_.size() == made + 1) {
      const Value y = values_.back();
      emit(Op::add, {y.id, x.id});
      emit(Op::mul, {y.id, y.id});
    }
  }

  void reshape(const Value &x) {
    std::vector<int64_t> shape;
    if (pick(2)) {
      shape = {-1};
    } else { // n stays in front or comes in the -1
      shape = {-1, x.dims.empty() || x.dims.back() == kN ? 1 : x.dims.back()};
      if (pick(2))
        shape.push_back(1);
    }
    emit(Op::reshape, {x.id}, {{"shape", shape}});
  }

  void finish() {
    std::vector<ir::Operand> results;
    for (const Value &value : values_)
      if (!value.is_param && (!value.used || pick(12) == 0)) {
        results.push_back(ir::Operand::of(value.id));
        builder_.function().result_types.push_back(builder_.function().value(value.id).type);
      }
    module.functions.push_back(builder_.finish(results));
  }

  std::mt19937 random_;
  ir::FunctionBuilder builder_;
  const bool symbolic_;
  const int64_t n_;
  ir::ExprId symbol_;
  DType dtype_;
  std::vector<Value> values_;
};

Result<ir::Module> run_passes(const ir::Module &module, std::vector<std::string> names) {
  std::vector<const passes::Pass *> list;
  for (const std::string &name : names)
    list.push_back(passes::find_pass(name));
  return passes::run_passes(module, list, {});
}

bool same_bits(const std::vector<double> &a, const std::vector<double> &b) {
  if (a.size() != b.size())
    return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(std::isnan(a[i]) && std::isnan(b[i])))
      return false;
  return true;
}

uint32_t seeds() {
  const char *text = std::getenv("CUGRT_FUSION_SEEDS");
  return text ? uint32_t(std::strtoul(text, nullptr, 10)) : 60;
}

} // namespace

TEST_CASE("random graphs of ops give the same bits fused and unfused") {
  LaunchRunner runner;
  uint32_t unfused_launches = 0, fused_launches = 0, with_symbols = 0;
  const uint32_t count = seeds();
  for (uint32_t seed = 0; seed < count; ++seed) {
    const bool symbolic = seed % 3 == 1;
    const int64_t kSizes[] = {7, 1, 0, 9};
    RandomGraph graph(seed, symbolic, kSizes[seed / 3 % 4]);
    const std::string text = ir::print(graph.module);
    INFO("seed " << seed << "\n" << text);
    Result<ir::Module> verified = ir::parse_and_verify(text, "graph");
    INFO((verified.ok() ? "" : verified.status().message()));
    REQUIRE(verified.ok());
    Result<ir::Module> unfused = run_passes(*verified, {"LegalizeOps", "EliminateDeadBindings"});
    if (!unfused.ok() && unfused.status().code() == Code::unsupported)
      continue; // of dtypes for which there are no kernels
    INFO((unfused.ok() ? "" : unfused.status().to_string()));
    REQUIRE(unfused.ok());
    Result<ir::Module> grouped = run_passes(*verified, {"FuseOps"});
    REQUIRE(grouped.ok());
    const std::string grouped_text = ir::print(*grouped);
    Result<ir::Module> read = ir::parse_and_verify(grouped_text, "grouped");
    INFO(grouped_text << (read.ok() ? "" : read.status().message()));
    REQUIRE(read.ok());
    Result<ir::Module> fused =
        run_passes(*read, {"FuseKernels", "LegalizeOps", "EliminateDeadBindings"});
    INFO((fused.ok() ? ir::print(*fused) : fused.status().to_string()));
    REQUIRE(fused.ok());
    REQUIRE(fused->functions.size() == 1);
    Result<std::vector<Array>> want = runner.run(*unfused, unfused->functions[0], graph.inputs);
    INFO((want.ok() ? "" : want.status().to_string()));
    REQUIRE(want.ok());
    const uint32_t launches = runner.counters().launches; // of this run
    Result<std::vector<Array>> got = runner.run(*fused, fused->functions[0], graph.inputs);
    INFO((got.ok() ? "" : got.status().to_string()));
    REQUIRE(got.ok());
    unfused_launches += launches;
    fused_launches += runner.counters().launches;
    CHECK(runner.counters().launches <= launches);
    REQUIRE(got->size() == want->size());
    for (size_t i = 0; i < want->size(); ++i) {
      INFO("result " << i);
      CHECK((*got)[i].dims == (*want)[i].dims);
      CHECK(same_bits((*got)[i].values, (*want)[i].values));
    }
    with_symbols += symbolic;
  }
  INFO(unfused_launches << " launches unfused, " << fused_launches << " fused");
  if (count >= 60) { // else the draw shows little
    CHECK(fused_launches * 10 < unfused_launches * 8);
    CHECK(with_symbols >= 15);
  }
}
