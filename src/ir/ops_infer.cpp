// Result types of the tensor-level ops. Symbolic dimensions are equal when they are the same
// expression (ir/expr.h says which are); what cannot be shown equal is an error here, never an
// assumption.
#include "ir/ops.h"
#include "ir/text.h"

#include "support/check.h"

#include <algorithm>

namespace cugrt::ir {

namespace {

using Types = Result<std::vector<TypeId>>;
using Dims = std::vector<ExprId>;

Status wrong(std::string message) { return Status::error(Code::verify_error, std::move(message)); }

struct Inference {
  Module &m;
  Op op;
  std::span<const TypeId> operands;
  std::span<const Attribute> attributes;
  const Function *function;

  bool has(size_t i) const { return i < operands.size() && operands[i].valid(); }
  const Type &type(size_t i) const { return m.types[operands[i]]; }
  const Dims &dims(size_t i) const { return type(i).dims; }
  size_t rank(size_t i) const { return dims(i).size(); }
  std::string number(size_t i) const { return "operand " + std::to_string(i + 1); }
  ExprId constant(int64_t v) const { return m.exprs.constant(v); }
  std::optional<int64_t> known(ExprId e) const { return m.exprs.as_constant(e); }
  std::string text(ExprId e) const {
    return "'" +
           m.exprs.to_string(e, function ? function->symbol_names() : std::vector<std::string>()) +
           "'";
  }

  Types one(DType dtype, Dims dims) const {
    if (dims.size() > kMaxRank)
      return wrong("the result has rank " + std::to_string(dims.size()) + ", at most " +
                   std::to_string(kMaxRank) + " is supported");
    return std::vector<TypeId>{m.types.tensor(dtype, std::move(dims))};
  }

  // --- Checks that many ops share ---

  Status check_rank(size_t i, size_t rank_wanted) const {
    if (rank(i) == rank_wanted)
      return {};
    return wrong(number(i) + " has rank " + std::to_string(rank(i)) + ", " +
                 std::to_string(rank_wanted) + " is needed");
  }

  Status check_float(size_t i) const {
    if (info(type(i).dtype).kind == DTypeKind::floating)
      return {};
    return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
                 ", a float dtype is needed");
  }

  Status check_same_dtype(size_t i) const {
    if (type(i).dtype == type(0).dtype)
      return {};
    return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
                 " and operand 1 has " + std::string(info(type(0).dtype).name) + "; insert a cast");
  }

  Status check_equal(ExprId a, ExprId b, const std::string &what) const {
    if (a == b)
      return {};
    bool constants = known(a) && known(b);
    return wrong(what + (constants ? " differ: " : " cannot be shown to be equal: ") + text(a) +
                 " and " + text(b) + (constants ? "" : "; use match to require it"));
  }

  /// A list of two integers, each at least `least`.
  Result<std::array<int64_t, 2>> pair(std::string_view name, int64_t least) const {
    std::vector<int64_t> list = op_integers(op, attributes, name);
    if (list.size() != 2 || list[0] < least || list[1] < least || list[0] > kMaxWindow ||
        list[1] > kMaxWindow)
      return wrong("attribute '" + std::string(name) + "' needs two integers from " +
                   std::to_string(least) + " to " + std::to_string(kMaxWindow));
    return std::array<int64_t, 2>{list[0], list[1]};
  }
  static constexpr int64_t kMaxWindow = 1 << 20;

  Result<size_t> axis_of(int64_t axis, size_t i) const {
    if (auto a = normalize_axis(axis, rank(i)))
      return *a;
    return wrong("axis " + std::to_string(axis) + " is outside of rank " + std::to_string(rank(i)));
  }

  Result<ExprId> broadcast_dim(ExprId a, ExprId b) const {
    if (a == b || known(b) == 1)
      return a;
    if (known(a) == 1)
      return b;
    CUGRT_TRY(check_equal(a, b, "dimensions to broadcast"));
    return a;
  }

  /// NumPy's rule: aligned at the last dimension; 1 stretches; missing ones are 1.
  Result<Dims> broadcast(std::span<const ExprId> a, std::span<const ExprId> b) const {
    Dims out(std::max(a.size(), b.size()));
    for (size_t i = 0; i < out.size(); ++i) { // i counts from the last dimension
      ExprId &slot = out[out.size() - 1 - i];
      if (i >= a.size())
        slot = b[b.size() - 1 - i];
      else if (i >= b.size())
        slot = a[a.size() - 1 - i];
      else {
        CUGRT_ASSIGN(slot, broadcast_dim(a[a.size() - 1 - i], b[b.size() - 1 - i]));
      }
    }
    return out;
  }

  /// Operand i, where present, is a vector as long as `length`, of operand 1's dtype.
  Status check_vector(size_t i, ExprId length) const {
    if (!has(i))
      return {};
    CUGRT_TRY(check_same_dtype(i));
    CUGRT_TRY(check_rank(i, 1));
    return check_equal(dims(i)[0], length,
                       "the length of " + number(i) + " and the dimension it goes with");
  }

  // --- Rules ---

  Types unary() const {
    CUGRT_TRY(check_float(0));
    if (op == Op::gelu) {
      std::string kind = op_string(op, attributes, "approximate");
      if (kind != "none" && kind != "tanh")
        return wrong("attribute 'approximate' is \"none\" or \"tanh\"");
    }
    return one(type(0).dtype, dims(0));
  }

  Types binary() const {
    CUGRT_TRY(check_float(0));
    CUGRT_TRY(check_same_dtype(1));
    CUGRT_ASSIGN(Dims out, broadcast(dims(0), dims(1)));
    return one(type(0).dtype, std::move(out));
  }

  Types cast() const {
    DType to = op_dtype(op, attributes, "dtype");
    if (info(to).elements_per_block != 1 || info(type(0).dtype).elements_per_block != 1)
      return wrong("cast is between dtypes of whole bytes; packed and block dtypes cannot be cast");
    return one(to, dims(0));
  }

  Types matmul() const {
    CUGRT_TRY(check_float(0));
    CUGRT_TRY(check_same_dtype(1));
    if (rank(0) < 2 || rank(1) < 2)
      return wrong("matmul needs operands of rank 2 or more");
    const Dims &a = dims(0), &b = dims(1);
    CUGRT_TRY(check_equal(a[a.size() - 1], b[b.size() - 2], "inner dimensions of matmul"));
    CUGRT_ASSIGN(Dims out,
                 broadcast(std::span(a).first(a.size() - 2), std::span(b).first(b.size() - 2)));
    CUGRT_TRY(check_vector(2, b.back()));
    out.push_back(a[a.size() - 2]);
    out.push_back(b.back());
    return one(type(0).dtype, std::move(out));
  }

  /// floor((size + 2 padding - dilation (window - 1) - 1) / stride) + 1.
  Result<ExprId> windowed(ExprId size, ExprId window, int64_t stride, int64_t padding,
                          int64_t dilation) const {
    ExprPool &e = m.exprs;
    ExprId reach = e.add(e.mul(e.sub(window, constant(1)), constant(dilation)), constant(1));
    ExprId steps = e.sub(e.add(size, constant(2 * padding)), reach);
    if (auto last = known(steps); last && *last < 0)
      return wrong("the window is larger than the padded input by " + std::to_string(-*last));
    return e.add(e.floordiv(steps, constant(stride)), constant(1));
  }

  Types conv2d() const {
    CUGRT_TRY(check_float(0));
    CUGRT_TRY(check_same_dtype(1));
    CUGRT_TRY(check_rank(0, 4));
    CUGRT_TRY(check_rank(1, 4));
    CUGRT_ASSIGN(auto strides, pair("strides", 1));
    CUGRT_ASSIGN(auto padding, pair("padding", 0));
    CUGRT_ASSIGN(auto dilation, pair("dilation", 1));
    int64_t groups = op_integer(op, attributes, "groups");
    const Dims x = dims(0), w = dims(1);
    if (groups < 1 || groups > kMaxWindow)
      return wrong("attribute 'groups' is at least 1");
    if (auto out = known(w[0]); out && *out % groups != 0)
      return wrong("the weight's " + std::to_string(*out) + " output channels do not divide into " +
                   std::to_string(groups) + " groups");
    CUGRT_TRY(check_equal(x[1], m.exprs.mul(w[1], constant(groups)),
                          "the input's channels and the weight's times groups"));
    CUGRT_TRY(check_vector(2, w[0]));
    CUGRT_ASSIGN(ExprId h, windowed(x[2], w[2], strides[0], padding[0], dilation[0]));
    CUGRT_ASSIGN(ExprId v, windowed(x[3], w[3], strides[1], padding[1], dilation[1]));
    return one(type(0).dtype, {x[0], w[0], h, v});
  }

  Types pool2d() const {
    CUGRT_TRY(check_float(0));
    CUGRT_TRY(check_rank(0, 4));
    CUGRT_ASSIGN(auto kernel, pair("kernel", 1));
    CUGRT_ASSIGN(auto strides, pair("strides", 1));
    CUGRT_ASSIGN(auto padding, pair("padding", 0));
    if (padding[0] >= kernel[0] || padding[1] >= kernel[1])
      return wrong("padding of a pool is smaller than its kernel");
    const Dims x = dims(0);
    CUGRT_ASSIGN(ExprId h, windowed(x[2], constant(kernel[0]), strides[0], padding[0], 1));
    CUGRT_ASSIGN(ExprId v, windowed(x[3], constant(kernel[1]), strides[1], padding[1], 1));
    return one(type(0).dtype, {x[0], x[1], h, v});
  }

  Types softmax() const {
    CUGRT_TRY(check_float(0));
    CUGRT_TRY(axis_of(op_integer(op, attributes, "axis"), 0).take_status());
    return one(type(0).dtype, dims(0));
  }

  Types norm() const {
    CUGRT_TRY(check_float(0));
    if (rank(0) == 0)
      return wrong("a norm needs at least rank 1");
    double epsilon = op_float(op, attributes, "epsilon");
    if (!(epsilon >= 0 && epsilon <= 1))
      return wrong("attribute 'epsilon' is from 0 to 1");
    CUGRT_TRY(check_vector(1, dims(0).back()));
    CUGRT_TRY(check_vector(2, dims(0).back()));
    return one(type(0).dtype, dims(0));
  }

  Types reduce(DType result, std::vector<int64_t> axes) const {
    bool keep = op_bool(op, attributes, "keep_dims");
    std::vector<bool> reduced(rank(0), axes.empty());
    for (int64_t axis : axes) {
      CUGRT_ASSIGN(size_t a, axis_of(axis, 0));
      if (reduced[a])
        return wrong("axis " + std::to_string(axis) + " is given twice");
      reduced[a] = true;
    }
    Dims out;
    for (size_t i = 0; i < rank(0); ++i)
      if (!reduced[i])
        out.push_back(dims(0)[i]);
      else if (keep)
        out.push_back(constant(1));
    return one(result, std::move(out));
  }

  Types reduction() const {
    CUGRT_TRY(check_float(0));
    return reduce(type(0).dtype, op_integers(op, attributes, "axes"));
  }

  Types argmax() const {
    CUGRT_TRY(check_float(0));
    return reduce(DType::i64, {op_integer(op, attributes, "axis")});
  }

  ExprId product(const Dims &dims) const {
    ExprId total = constant(1);
    for (ExprId d : dims)
      total = m.exprs.mul(total, d);
    return total;
  }

  /// The attribute's dimensions; a single -1 becomes what is left over.
  Result<Dims> attribute_shape(ExprId total) const {
    Dims out;
    size_t open = SIZE_MAX;
    for (int64_t d : op_integers(op, attributes, "shape")) {
      if (d < -1 || (d == -1 && open != SIZE_MAX))
        return wrong("attribute 'shape' has dimensions of at least 0 and at most one -1");
      if (d == -1)
        open = out.size();
      out.push_back(constant(d == -1 ? 1 : d));
    }
    if (open != SIZE_MAX) {
      ExprId rest = product(out);
      if (known(rest) == 0)
        return wrong("the -1 of attribute 'shape' is undetermined beside a dimension 0");
      out[open] = m.exprs.floordiv(total, rest);
    }
    return out;
  }

  Types reshape() const {
    if (info(type(0).dtype).elements_per_block != 1)
      return wrong("packed and block dtypes cannot be reshaped");
    ExprId total = product(dims(0));
    bool given = std::any_of(attributes.begin(), attributes.end(),
                             [](const Attribute &a) { return a.name == "shape"; });
    if (given == has(1))
      return wrong("takes either a shape operand or attribute 'shape'");
    Dims out;
    if (has(1)) {
      if (type(1).kind != TypeKind::shape || !type(1).known_shape)
        return wrong("operand 2 of reshape is a shape of known dimensions");
      out = dims(1);
    } else {
      CUGRT_ASSIGN(out, attribute_shape(total));
    }
    CUGRT_TRY(check_equal(total, product(out), "numbers of elements before and after reshape"));
    return one(type(0).dtype, std::move(out));
  }

  Types transpose() const {
    std::vector<int64_t> axes = op_integers(op, attributes, "axes");
    if (info(type(0).dtype).elements_per_block != 1)
      return wrong("packed and block dtypes cannot be transposed");
    Dims out;
    if (axes.empty()) {
      out.assign(dims(0).rbegin(), dims(0).rend());
      return one(type(0).dtype, std::move(out));
    }
    std::vector<bool> used(rank(0), false);
    for (int64_t axis : axes) {
      CUGRT_ASSIGN(size_t a, axis_of(axis, 0));
      if (used[a])
        return wrong("axis " + std::to_string(axis) + " is given twice");
      used[a] = true;
      out.push_back(dims(0)[a]);
    }
    if (out.size() != rank(0))
      return wrong("attribute 'axes' lists every axis once");
    return one(type(0).dtype, std::move(out));
  }

  Types concat() const {
    CUGRT_ASSIGN(size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
    Dims out = dims(0);
    for (size_t i = 1; i < operands.size(); ++i) {
      CUGRT_TRY(check_same_dtype(i));
      CUGRT_TRY(check_rank(i, rank(0)));
      for (size_t d = 0; d < out.size(); ++d)
        if (d != axis)
          CUGRT_TRY(check_equal(out[d], dims(i)[d], "dimensions beside the axis of concat"));
      out[axis] = m.exprs.add(out[axis], dims(i)[axis]);
    }
    return one(type(0).dtype, std::move(out));
  }

  Types split() const {
    CUGRT_ASSIGN(size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
    std::vector<int64_t> sections = op_integers(op, attributes, "sections");
    if (sections.empty() || sections.size() > op_info(op).most_results)
      return wrong("attribute 'sections' has 1 to " + std::to_string(op_info(op).most_results) +
                   " sizes");
    ExprId total = constant(0);
    for (int64_t s : sections) {
      if (s < 0)
        return wrong("sections are not negative");
      total = m.exprs.add(total, constant(s));
    }
    Dims out = dims(0);
    CUGRT_TRY(check_equal(out[axis], total, "the split dimension and the sum of the sections"));
    std::vector<TypeId> types;
    for (int64_t s : sections) {
      out[axis] = constant(s);
      types.push_back(m.types.tensor(m.types[operands[0]].dtype, out));
    }
    return types;
  }

  Types embedding() const {
    CUGRT_TRY(check_float(0));
    CUGRT_TRY(check_rank(0, 2));
    if (type(1).dtype != DType::i32 && type(1).dtype != DType::i64)
      return wrong("operand 2 of embedding has dtype i32 or i64");
    Dims out = dims(1);
    out.push_back(dims(0)[1]);
    return one(type(0).dtype, std::move(out));
  }

  // --- Common part ---

  Status check_operands() const {
    const OpInfo &row = op_info(op);
    if (operands.size() < row.least_operands || operands.size() > row.most_operands) {
      std::string wanted = std::to_string(row.least_operands);
      if (row.most_operands != row.least_operands)
        wanted += " to " + std::to_string(row.most_operands);
      return wrong("takes " + wanted + " operands, not " + std::to_string(operands.size()));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].valid()) {
        if (i < row.least_operands || op == Op::concat)
          return wrong(number(i) + " may not be absent");
        continue;
      }
      if (op == Op::reshape && i == 1)
        continue; // a shape
      if (type(i).kind != TypeKind::tensor)
        return wrong(number(i) + " is not a tensor");
      if (!type(i).known_shape)
        return wrong("the shape of " + number(i) + " is unknown; give it one with match");
    }
    return {};
  }

  static bool fits(const AttributeValue &value, AttributeKind kind) {
    switch (kind) {
    case AttributeKind::boolean:
      return std::holds_alternative<bool>(value);
    case AttributeKind::integer:
      return std::holds_alternative<int64_t>(value);
    case AttributeKind::floating:
      return std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
    case AttributeKind::string:
      return std::holds_alternative<std::string>(value);
    case AttributeKind::dtype:
      return std::holds_alternative<DTypeLiteral>(value);
    case AttributeKind::integers:
      return std::holds_alternative<std::vector<int64_t>>(value);
    }
    return false;
  }

  static const char *kind_name(AttributeKind kind) {
    static constexpr const char *kNames[] = {"true or false", "an integer", "a float",
                                             "a string",      "a dtype",    "a list of integers"};
    return kNames[static_cast<size_t>(kind)];
  }

  std::string known_names() const {
    std::string names;
    for (const OpAttribute &a : op_attributes(op))
      (names += names.empty() ? "" : ", ") += a.name;
    return names.empty() ? "it has none" : "it has " + names;
  }

  Status check_attributes() const {
    std::span<const OpAttribute> table = op_attributes(op);
    uint32_t seen = 0; // by row of the table
    for (const Attribute &a : attributes) {
      auto row = std::find_if(table.begin(), table.end(),
                              [&](const OpAttribute &t) { return t.name == a.name; });
      if (row == table.end())
        return wrong("has no attribute '" + a.name + "'; " + known_names());
      if (!fits(a.value, row->kind))
        return wrong("attribute '" + a.name + "' is " + kind_name(row->kind));
      uint32_t bit = 1u << (row - table.begin());
      if (seen & bit)
        return wrong("attribute '" + a.name + "' is given twice");
      seen |= bit;
    }
    for (size_t i = 0; i < table.size(); ++i)
      if (table[i].required && !(seen >> i & 1))
        return wrong("needs attribute '" + std::string(table[i].name) + "'");
    return {};
  }
};

using Rule = Types (Inference::*)() const;

Rule rule_of(Op op) {
  switch (op) {
  case Op::relu:
  case Op::neg:
  case Op::abs:
  case Op::exp:
  case Op::log:
  case Op::sqrt:
  case Op::rsqrt:
  case Op::tanh:
  case Op::sigmoid:
  case Op::silu:
  case Op::gelu:
    return &Inference::unary;
  case Op::add:
  case Op::sub:
  case Op::mul:
  case Op::div:
  case Op::maximum:
  case Op::minimum:
    return &Inference::binary;
  case Op::cast:
    return &Inference::cast;
  case Op::matmul:
    return &Inference::matmul;
  case Op::conv2d:
    return &Inference::conv2d;
  case Op::max_pool2d:
  case Op::avg_pool2d:
    return &Inference::pool2d;
  case Op::softmax:
    return &Inference::softmax;
  case Op::layer_norm:
  case Op::rms_norm:
    return &Inference::norm;
  case Op::reduce_sum:
  case Op::reduce_mean:
  case Op::reduce_max:
    return &Inference::reduction;
  case Op::argmax:
    return &Inference::argmax;
  case Op::reshape:
    return &Inference::reshape;
  case Op::transpose:
    return &Inference::transpose;
  case Op::concat:
    return &Inference::concat;
  case Op::split:
    return &Inference::split;
  case Op::embedding:
    return &Inference::embedding;
  }
  return nullptr;
}

} // namespace

Result<std::vector<TypeId>> infer_op(Module &module, Op op, std::span<const TypeId> operands,
                                     std::span<const Attribute> attributes,
                                     const Function *function) {
  CUGRT_CHECK(static_cast<size_t>(op) < op_count());
  Inference inference{module, op, operands, attributes, function};
  CUGRT_TRY(inference.check_operands());
  CUGRT_TRY(inference.check_attributes());
  return (inference.*rule_of(op))();
}

} // namespace cugrt::ir
