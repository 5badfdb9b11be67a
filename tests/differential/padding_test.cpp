// PadToBuckets over drawn modules: what the pass accepts gives, at the bucket's size with zeros
// behind what callers bring, the same elements as at their own size, by the reference arithmetic
// (support/reference_ops.h). A module grows op by op; an op that is refused must be refused with
// the name of its symbol, and is left out. CUGRT_DIFFERENTIAL_SEEDS sets how many modules (200).
#include "padding_forms.h"
#include "support/catch.h"
#include "support/reference_ops.h"

#include "base/type/element.h"
#include "compiler/passes/pass.h"
#include "ir/module/builder.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

using namespace cugrt;
using namespace cugrt::test;
using ir::Op;

namespace {

struct Step {
  Op op;
  std::vector<int> operands; // values of the module; -1: absent
  std::vector<ir::Attribute> attributes;
  std::vector<std::vector<int64_t>> shapes; // shape operands, in order; kN is the symbol
};

/// A value at the size that callers bring, and at the bucket's.
struct Both {
  Array small, large;
  bool hides = false;    // has infinities, which hide elements
  bool of_range = false; // follows from positions
};

class Drawn {
public:
  Drawn(uint32_t seed) : random_(seed) {
    n_ = 1 + int64_t(random_() % 16);
    bucket_ = n_ <= 8 ? 8 : 16;
    for (const Given &given : kParams)
      values_.push_back(param(given));
    for (double constant : kConstants) {
      Both both{{{}, {constant}}, {{}, {constant}}};
      both.hides = std::isinf(constant);
      values_.push_back(both);
    }
  }

  /// Adds an op, if one of some draws is legal, accepted, and made of plain numbers.
  void grow(int &refused, int &different);

  std::string text() const {
    std::string all = "n = " + std::to_string(n_) + " in " + std::to_string(bucket_) + "\n";
    for (size_t s = 0; s < steps_.size(); ++s) {
      all += std::string(ir::op_info(steps_[s].op).name) + "(";
      for (int operand : steps_[s].operands)
        all += name_of(operand) + " ";
      all += ")";
      for (const ir::Attribute &attribute : steps_[s].attributes)
        all += " " + attribute.name;
      all += " -> " + std::to_string(first_result_[s]) + "\n";
    }
    return all;
  }
  size_t size() const { return steps_.size(); }

private:
  size_t below(size_t count) { return random_() % count; }
  std::string name_of(int value) const {
    if (value < 0)
      return "-";
    if (size_t(value) < kParamCount)
      return kParams[value].name;
    return size_t(value) < kParamCount + std::size(kConstants)
               ? "constant" + std::to_string(size_t(value) - kParamCount)
               : std::to_string(value);
  }
  Both param(const Given &given);
  Step draw();
  ir::Attribute draw_attribute(Op op, const ir::OpAttribute &row, size_t rank);
  Result<ir::Module> build(const Step &last);
  std::vector<Array> evaluate(const Step &step, bool large) const;

  std::mt19937 random_;
  int64_t n_, bucket_;
  std::vector<Both> values_;
  std::vector<Step> steps_;
  std::vector<size_t> first_result_;
  std::vector<ir::DType> dtypes_; // by value, of the module that was built last
  std::vector<ir::Type> types_;   // likewise
  ir::SymbolId symbol_;
};

Both Drawn::param(const Given &given) {
  Both both;
  for (bool large : {false, true}) {
    Array &array = large ? both.large : both.small;
    std::vector<int64_t> dims = given.dims;
    for (int64_t &dim : dims)
      dim = dim == kN ? (large ? bucket_ : n_) : dim;
    array = Array::of(dims);
  }
  for (double &value : both.small.values)
    value = given.dtype == ir::DType::boolean ? double(below(3) > 0)
            : given.dtype == ir::DType::i64   ? double(below(24)) - 12
            : given.dtype == ir::DType::i8    ? double(below(7)) - 3
                                              : (double(below(9)) - 4) / 2;
  // Zeros behind, along each dimension.
  for (size_t i = 0; i < both.small.values.size(); ++i) {
    size_t at = 0, rest = i, stride = 1;
    for (size_t d = both.small.dims.size(); d-- > 0;) {
      at += rest % size_t(both.small.dims[d]) * stride;
      rest /= size_t(both.small.dims[d]);
      stride *= size_t(both.large.dims[d]);
    }
    both.large.values[at] = both.small.values[i];
  }
  return both;
}

ir::Attribute Drawn::draw_attribute(Op op, const ir::OpAttribute &row, size_t rank) {
  auto integers = [&](size_t count, int64_t least, size_t span) {
    std::vector<int64_t> list;
    for (size_t i = 0; i < count; ++i)
      list.push_back(least + int64_t(below(span)));
    return list;
  };
  const std::string name(row.name);
  const size_t window = rank > 2 ? rank - 2 : 1;
  switch (row.kind) {
  case ir::AttributeKind::boolean:
    return {name, below(2) == 1};
  case ir::AttributeKind::integer:
    return {name, name == "axis" || name == "k" || name == "depth" || name == "length"
                      ? int64_t(below(2 * rank + 1)) - int64_t(name == "axis" ? rank : 0)
                      : int64_t(below(8) == 0) + int64_t(name == "groups")};
  case ir::AttributeKind::floating: {
    constexpr double kNumbers[] = {0, 0, 1, -1, 0.5, 1e-5};
    return {name, kNumbers[below(std::size(kNumbers))]};
  }
  case ir::AttributeKind::string: {
    const std::vector<std::string> all = words(op, name);
    if (all.empty())
      return {name, std::get<std::string>(row.default_value)};
    return {name, all[below(all.size())]};
  }
  case ir::AttributeKind::dtype:
    return {name, ir::DTypeLiteral(below(2) ? ir::DType::f32 : ir::DType::i64)};
  case ir::AttributeKind::integers:
    break;
  }
  if (name == "axes" && op == Op::transpose) {
    std::vector<int64_t> axes(rank);
    for (size_t i = 0; i < rank; ++i)
      axes[i] = int64_t(i);
    std::shuffle(axes.begin(), axes.end(), random_);
    return {name, axes};
  }
  if (name == "axes")
    return {name, integers(1 + below(2), 0, std::max<size_t>(rank, 1))};
  if (name == "kernel" || name == "strides" || name == "dilation")
    return {name, integers(window, 1, 2 + (name == "kernel"))};
  if (name == "padding" || name == "output_padding")
    return {name, integers(window, 0, 2)};
  if (name == "before" || name == "after")
    return {name, integers(rank, 0, 2)};
  if (name == "starts" || name == "ends")
    return {name,
            below(3) ? integers(1, -2, 6) : std::vector<int64_t>{name == "ends" ? INT64_MAX : 0}};
  if (name == "steps")
    return {name, std::vector<int64_t>{below(5) ? 1 + int64_t(below(2)) : -1}};
  if (name == "sections")
    return {name, integers(2, 0, 4)};
  if (name == "shape") { // a permutation of likely sizes
    std::vector<int64_t> dims = {-1, 4, 2, 3};
    dims.resize(1 + below(3));
    std::shuffle(dims.begin(), dims.end(), random_);
    return {name, dims};
  }
  return {name, std::vector<int64_t>{}};
}

Step Drawn::draw() {
  Step step;
  auto named = [&](const std::string &name) {
    for (size_t v = 0; v < kParamCount + std::size(kConstants); ++v)
      if (name_of(int(v)) == name)
        return int(v);
    return -1;
  };
  if (below(3) == 0) {
    const auto &[op, operands] = kForms[below(std::size(kForms))];
    step.op = op;
    for (const std::string &name : operands) {
      int operand = named(name);
      if (name == "hiding") // an additive mask along n, if one was made
        for (size_t v = 0; v < values_.size(); ++v)
          if (values_[v].hides && v >= kParamCount + std::size(kConstants) &&
              values_[v].small.dims == std::vector<int64_t>{n_})
            operand = int(v);
      step.operands.push_back(operand);
    }
    while (!step.operands.empty() && step.operands.back() < 0)
      step.operands.pop_back();
  } else {
    do
      step.op = Op(below(ir::op_count()));
    while (step.op == Op::attention);
    const ir::OpInfo &row = ir::op_info(step.op);
    size_t count =
        row.least_operands + below(1 + std::min<size_t>(row.most_operands - row.least_operands, 2));
    for (size_t i = 0; i < count; ++i) {
      if (ir::is_shape_operand(step.op, i)) {
        std::vector<int64_t> shape;
        const int64_t kSizes[] = {kN, kN, 1, 2, 3, 4};
        for (size_t d = step.op == Op::range ? 1 : 1 + below(3); d > 0; --d)
          shape.push_back(kSizes[below(std::size(kSizes))]);
        step.operands.push_back(-2);
        step.shapes.push_back(shape);
        continue;
      }
      // Newer values are likelier.
      const size_t all = values_.size(), recent = std::min<size_t>(all, 6);
      step.operands.push_back(int(below(3) == 0 ? all - 1 - below(recent) : below(all)));
      if (i > 0 && step.operands[i - 1] >= 0 && below(3) == 0)
        step.operands[i] = step.operands[i - 1];
    }
  }
  const size_t rank = step.operands.empty() || step.operands[0] < 0
                          ? 1
                          : values_[size_t(step.operands[0])].small.dims.size();
  for (const ir::OpAttribute &row : ir::op_attributes(step.op))
    if (row.required || below(2))
      step.attributes.push_back(draw_attribute(step.op, row, rank));
  return step;
}

Result<ir::Module> Drawn::build(const Step &last) {
  ir::Module module;
  ir::FunctionBuilder builder(module, "main");
  ir::Symbol symbol{"n"};
  symbol.bounds = {1, 16};
  symbol.buckets = {8, 16};
  symbol_ = builder.symbol(symbol);
  auto sizes = [&](const std::vector<int64_t> &dims) {
    std::vector<ir::ExprId> list;
    for (int64_t dim : dims)
      list.push_back(dim == kN ? module.exprs.symbol(symbol_) : module.exprs.constant(dim));
    return list;
  };
  std::vector<ir::ValueId> values;
  for (const Given &given : kParams)
    values.push_back(
        builder.param(given.name, module.types.tensor(given.dtype, sizes(given.dims))));
  builder.function().num_inputs = uint32_t(kParamCount);
  for (double number : kConstants) {
    ir::Constant constant{
        "c" + std::to_string(module.constants.size()), module.types.tensor(ir::DType::f32, {}), {}};
    ir::append_float(ir::DType::f32, number, constant.bytes);
    ir::Binding binding{};
    binding.kind = ir::BindingKind::constant;
    binding.callee = uint32_t(module.constants.size());
    const ir::TypeId type = constant.type;
    module.constants.push_back(std::move(constant));
    const std::string hint = "k";
    values.push_back(builder.bind(binding, {}, {}, {}, {&hint, 1}, {&type, 1}));
  }
  std::vector<Step> all = steps_;
  all.push_back(last);
  for (const Step &step : all) {
    std::vector<ir::Operand> operands;
    std::vector<ir::TypeId> types;
    size_t shape = 0;
    for (int operand : step.operands) {
      if (operand == -1) {
        operands.push_back({});
        types.push_back({});
      } else if (operand == -2) {
        const std::vector<ir::ExprId> dims = sizes(step.shapes[shape++]);
        const ir::TypeId type = module.types.shape(dims);
        ir::Binding binding{};
        binding.kind = ir::BindingKind::shape;
        const std::string hint = "s";
        operands.push_back(
            ir::Operand::of(builder.bind(binding, {}, dims, {}, {&hint, 1}, {&type, 1})));
        types.push_back(type);
      } else {
        operands.push_back(ir::Operand::of(values[size_t(operand)]));
        types.push_back(builder.function().value(values[size_t(operand)]).type);
      }
    }
    CUGRT_ASSIGN(const std::vector<ir::TypeId> results,
                 ir::infer_op(module, step.op, types, step.attributes, &builder.function()));
    ir::Binding binding{};
    binding.kind = ir::BindingKind::op;
    binding.callee = uint32_t(step.op);
    const ir::ValueId first = builder.bind(binding, operands, {}, step.attributes, {}, results);
    for (uint32_t i = 0; i < results.size(); ++i)
      values.push_back({first.index + i});
  }
  types_.clear();
  for (ir::ValueId value : values)
    types_.push_back(module.types[builder.function().value(value).type]);
  module.functions.push_back(builder.finish({}));
  return module;
}

std::vector<Array> Drawn::evaluate(const Step &step, bool large) const {
  std::vector<Array> shapes;
  shapes.reserve(step.shapes.size());
  std::vector<const Array *> operands;
  for (int operand : step.operands) {
    if (operand == -1) {
      operands.push_back(nullptr);
    } else if (operand == -2) {
      Array shape = Array::of({int64_t(step.shapes[shapes.size()].size())});
      for (size_t i = 0; i < shape.values.size(); ++i) {
        const int64_t dim = step.shapes[shapes.size()][i];
        shape.values[i] = double(dim == kN ? (large ? bucket_ : n_) : dim);
      }
      shapes.push_back(std::move(shape));
      operands.push_back(&shapes.back());
    } else {
      operands.push_back(large ? &values_[size_t(operand)].large : &values_[size_t(operand)].small);
    }
  }
  const ir::DType dtype = step.operands.empty() || step.operands[0] < 0
                              ? ir::DType::f32
                              : types_[size_t(step.operands[0])].dtype;
  return evaluate_op(step.op, operands, step.attributes, dtype);
}

/// Whether `large` has the elements of `small` in front along each dimension.
bool is_in_front(const Array &small, const Array &large) {
  for (size_t d = 0; d < small.dims.size(); ++d)
    if (small.dims[d] > large.dims[d])
      return false;
  for (size_t i = 0; i < small.values.size(); ++i) {
    size_t at = 0, rest = i, stride = 1;
    for (size_t d = small.dims.size(); d-- > 0;) {
      at += rest % size_t(small.dims[d]) * stride;
      rest /= size_t(small.dims[d]);
      stride *= size_t(large.dims[d]);
    }
    const double a = small.values[i], b = large.values[at];
    if (a != b && !(std::isnan(a) && std::isnan(b)))
      return false;
  }
  return true;
}

/// What takes elements that others hide.
bool takes_hidden(Op op) {
  return op == Op::softmax || op == Op::log_softmax || op == Op::reduce_max ||
         op == Op::reduce_min || op == Op::argmax || op == Op::argmin || op == Op::top_k ||
         op == Op::max_pool2d || op == Op::add || op == Op::where || op == Op::attention ||
         op == Op::reduce_sum || op == Op::reduce_mean || op == Op::concat || op == Op::cumsum;
}

void Drawn::grow(int &refused, int &different) {
  for (int tries = 0; tries < 400; ++tries) {
    Step step = draw();
    bool usable = true, of_range = step.op == Op::range;
    for (size_t i = 0; i < step.operands.size(); ++i)
      if (step.operands[i] >= 0) {
        const Both &both = values_[size_t(step.operands[i])];
        of_range = of_range || both.of_range;
        usable = usable && (!both.hides || takes_hidden(step.op)) &&
                 !(step.op == Op::where && i == 0 && both.of_range);
      }
    if (!usable)
      continue;
    Result<ir::Module> module = build(step);
    if (!module.ok())
      continue;
    const Status status = passes::find_pass("PadToBuckets")->run(*module, {}).take_status();
    if (!status.ok()) {
      INFO(text() << "+ " << ir::op_info(step.op).name);
      INFO(status.to_string());
      REQUIRE(status.code() == Code::unsupported);
      REQUIRE(status.message().find("symbol n") != std::string::npos);
      REQUIRE(status.message().find(std::string(ir::op_info(step.op).name)) != std::string::npos);
      ++refused;
      return;
    }
    bool plain = true;
    for (size_t v = values_.size(); v < types_.size(); ++v)
      for (ir::ExprId dim : types_[v].dims) // a window may be larger than what n gives
        plain = plain && *(*module).exprs.evaluate(dim, std::span(&n_, 1)) >= 0;
    if (!plain)
      continue;
    const std::vector<Array> small = evaluate(step, false), large = evaluate(step, true);
    std::vector<Both> made;
    for (size_t r = 0; r < small.size(); ++r) {
      const ir::Type &type = types_[values_.size() + r];
      Both both{small[r], large[r]};
      const bool padded = small[r].dims != large[r].dims;
      for (double value : small[r].values) {
        both.hides = both.hides || std::isinf(value);
        plain = plain && !std::isnan(value) && (std::isinf(value) || std::abs(value) < 1e5);
      }
      plain = plain && (!both.hides || padded);
      both.of_range = of_range;
      made.push_back(both);
      bool alone = true; // as a result may have it
      for (ir::ExprId dim : type.dims)
        alone = alone && ((*module).exprs.as_constant(dim) ||
                          (*module).exprs[dim].kind == ir::ExprKind::symbol);
      if (alone && plain && !is_in_front(both.small, both.large)) {
        ++different;
        UNSCOPED_INFO(text() << "+ " << ir::op_info(step.op).name);
        for (int operand : step.operands)
          UNSCOPED_INFO("  of " << name_of(operand));
        for (const ir::Attribute &a : step.attributes)
          UNSCOPED_INFO("  with " << a.name);
        CHECK(is_in_front(both.small, both.large));
        return;
      }
    }
    if (!plain)
      continue;
    first_result_.push_back(values_.size());
    steps_.push_back(std::move(step));
    values_.insert(values_.end(), made.begin(), made.end());
    return;
  }
}

uint32_t seeds() {
  const char *text = std::getenv("CUGRT_DIFFERENTIAL_SEEDS");
  return text ? uint32_t(std::strtoul(text, nullptr, 10)) : 200;
}

} // namespace

TEST_CASE("drawn modules give the same elements in a bucket, or an op is refused by name") {
  int ops = 0, refused = 0, different = 0;
  for (uint32_t seed = 1; seed <= seeds(); ++seed) {
    INFO("seed " << seed);
    Drawn drawn(seed);
    for (int i = 0; i < 12; ++i)
      drawn.grow(refused, different);
    ops += int(drawn.size());
    if (different)
      break;
  }
  CHECK(different == 0);
  CHECK(ops > int(seeds())); // most modules are of several ops
  CHECK(refused > int(seeds()) / 4);
  if (std::getenv("CUGRT_DIFFERENTIAL_SEEDS"))
    WARN(seeds() << " modules of " << ops << " ops, " << refused << " ops refused, " << different
                 << " differences");
}
