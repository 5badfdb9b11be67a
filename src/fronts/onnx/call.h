// One node as its handler sees it: inputs, attributes, and short names for common ops.
//
// Handlers read straight through: the first error ends them, and the importer reports it with the
// node's name.
//
// A call remembers which attributes and inputs were read. Unread ones would have no effect on the
// results, so the importer refuses the node: the op may mean more than we know.
#pragma once

#include "fronts/onnx/importer.h"

#include <cmath>
#include <initializer_list>
#include <limits>

namespace cugrt::onnx {

inline ir::Attribute attr(std::string name, ir::AttributeValue value) {
  return {std::move(name), std::move(value)};
}
using Ints = std::vector<int64_t>;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
/// Most steps of a loop or a recurrence that is written out, one step behind the other.
constexpr int64_t kMostSteps = 64;

class Call {
public:
  Call(Importer &importer, const Node &node)
      : w(importer), node(node), read_attributes_(node.attributes.size()),
        read_inputs_(node.inputs.size()) {}

  Importer &w;
  const Node &node;

  // --- Attributes: numbers are limited to those of 32 bits ---
  const AttributeView *attribute(std::string_view name) const;
  /// An attribute of another type is the model's mistake.
  const AttributeView *attribute(std::string_view name, AttributeKind kind) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, const char *otherwise) const;
  Ints integers(std::string_view name, Ints otherwise) const;
  /// Attributes that mean nothing for this node's results, by the op's document.
  void ignore(std::initializer_list<std::string_view> names) const;
  /// An integer attribute whose other values are not supported.
  void expect(std::string_view name, int64_t only);
  /// An attribute that repeats the sizes that a tensor has along axes from `first` on.
  void expect_dims(std::string_view name, V tensor, size_t first);

  // --- Inputs ---
  size_t input_count() const { return node.inputs.size(); }
  bool has(size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  /// Null where the node has no such input.
  EntryPtr entry(size_t i);
  /// An input that means nothing for this node's results, by the op's document.
  void ignore_input(size_t i) { static_cast<void>(entry(i)); }
  /// Never null: an input that is not there is an error.
  EntryPtr required(size_t i);
  V value(size_t i);
  /// Null where the elements are not known.
  const Host *host(size_t i);
  /// Elements of an integer input, which must be known, or may be read by the host.
  std::vector<E> exprs(size_t i, bool may_read = true);
  /// The same elements as numbers.
  Ints constants(size_t i);
  std::vector<double> reals(size_t i);
  double real(size_t i, double otherwise);

  // --- Results ---
  bool wants(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }
  void result(V v, size_t i = 0);
  void result(Host host, size_t i = 0);
  void result(Fractions fractions, size_t i = 0);
  void result(EntryPtr entry, size_t i = 0);
  /// Along the axis so much of it is there as the count says, where that is valid.
  void result(V v, size_t i, size_t axis, V count);
  /// A result of a dtype that is held as another one; `none` is every other.
  void result(V v, Narrow narrow);
  [[noreturn]] void unsupported(const std::string &what) { w.fail(Code::unsupported, what); }

  // --- Types ---
  DType dtype(V v) { return v.valid() ? w.type(v).dtype : DType::f32; }
  Dims dims(V v) { return v.valid() ? w.type(v).dims : Dims(); }
  size_t rank(V v) { return v.valid() ? w.type(v).dims.size() : 0; }
  E constant(int64_t value) { return w.constant(value); }
  E product(const Dims &dims);
  std::optional<int64_t> known(E e) { return w.known(e); }
  /// A dimension that must be a number.
  int64_t number_of(E e, const char *what);
  size_t axis(int64_t axis, size_t rank);
  Ints axes(Ints axes, size_t rank);

  // --- Emitting ---
  V op(Op op, std::vector<V> operands, std::vector<ir::Attribute> attributes = {});
  /// Emits the op with this name, if the IR has one; else the node is not supported.
  V op(std::string_view name, std::vector<V> operands, std::vector<ir::Attribute> attributes = {});
  std::vector<V> ops(std::string_view name, const std::vector<V> &operands,
                     std::vector<ir::Attribute> attributes = {});
  /// Both operands' dimensions are equal or known to be 1: made equal (a run sees whether they
  /// are), then the op.
  V binary(Op op, V a, V b);
  /// An op of ONNX that broadcasts: dimensions are equal or one of them is 1, which a run may
  /// decide.
  V broadcasting(Op op, V a, V b);
  V cast(V x, DType dtype);
  V scalar(DType dtype, double value);
  /// An i64 that may depend on symbols.
  V whole(E value) { return w.materialize({DType::i64, {}, {value}, {}}); }
  V like(V x, double value) { return scalar(dtype(x), value); }
  /// start, start + 1, .. of that many, i64.
  V counting(E count, int64_t start = 0);
  /// A value of its own, where x may be a view or another's result.
  V copied(V x) { return op(Op::cast, {x}, {attr("dtype", ir::DTypeLiteral(dtype(x)))}); }
  V reshape(V x, const Dims &dims);
  V broadcast(V x, const Dims &dims);
  V transpose(V x, const Ints &axes);
  V reduce(Op op, V x, const Ints &axes, bool keep);
  V slice(V x, size_t axis, E begin, E size);
  V concat(const std::vector<V> &parts, size_t axis);
  V matmul(V a, V b);
  V gather(V x, V ids, size_t axis);
  /// Dimensions that both are broadcast to by ONNX's rule, whichever of them are 1 in a run.
  Dims broadcast_dims(const Dims &a, const Dims &b);
  /// Likewise for an operand and a shape without tensor: a wanted dimension other than 1 decides.
  Dims expanded_dims(const Dims &have, const Dims &wanted);
  /// x with each dimension that is not known to be 1 as that of `to`, aligned at the last: where a
  /// run has 1 there, its one element repeated. A run in which it is another number is refused.
  V stretch(V x, const Dims &to);
  /// Stretches all of them to their common dimensions.
  void spread(std::initializer_list<V *> operands);
  /// total / rest, where factors cancel.
  E quotient(const Dims &total, const Dims &rest);

  /// Origin of the node's results: Importer::origins_.
  uint32_t origin();
  /// The first attribute or input that nothing has read; empty: all of them were.
  std::string unread() const;

private:
  mutable std::vector<bool> read_attributes_;
  std::vector<bool> read_inputs_;
  std::optional<uint32_t> origin_;
};

/// Turns heads [batch, length, heads, size] by angles [batch or 1, length, 1, half of the turned
/// size].
V rotated(Call &c, V x, V cosines, V sines, bool interleaved);

/// The norm of each group of an image's channels [n, channels, ..], by the node's epsilon; scale
/// and bias are one a channel, or one a group.
V group_normed(Call &c, V x, V scale, V bias, int64_t groups);

/// Folds a BatchNormalization that alone reads the result of this convolution into its weights [O,
/// C / groups, ..] ([C, O / groups, ..] of a transposed one) and its bias: its factors follow from
/// weights alone. Does nothing if there is none, or a part of it is no constant.
void fold_batch_norm(Call &c, V &weights, V &bias, int64_t groups, bool transposed);

/// Element i of the result is element i - before of x where there is one, else `fill`, a scalar.
V padded(Call &c, V x, size_t axis, E before, E after, V fill);

struct PoolWindow {
  Ints kernel, strides, dilation, before;
};
/// Positions of the largest elements of x's windows, i64 of dimensions `y`.
V pool_positions(Call &c, V x, const Dims &y, const PoolWindow &window);
/// The averages of an image, by the attributes of AveragePool that the node has.
V averages(Call &c, V image);

/// An activation that a node names beside its op: of a recurrent layer, or of what com.microsoft
/// fuses.
struct Activation {
  std::string_view name;
  Op op;             // with the parameters as attributes, unless activated() says otherwise
  size_t parameters; // alpha, or alpha and beta
  std::optional<double> alpha{}, beta{}; // a node's own, else ONNX's
};
/// The activation with ONNX's parameters; null if none has that name.
const Activation *find_activation(std::string_view name);
V activated(Call &c, const Activation &activation, V x);

/// An input of positions in a tensor, as i32 or i64.
V positions(Call &c, size_t i);

/// The tensor of a value that is to be one, of the dtype that it is held as.
V wide(Call &c, Entry &entry);

/// A value that a loop carries, a sequence without tensors at first, to which the body appends one
/// in each turn, as the only thing that it does with it.
struct Appended {
  size_t place;         // among the values that are carried
  std::string_view row; // what is appended
};
std::vector<Appended> appended_in(Call &loop, const Graph &body);
/// The body that collects these rows in place of the sequences, after its own collected values.
const Graph &collecting(Call &loop, const Graph &body, const std::vector<Appended> &appended);

/// How many turns a Loop has, where the host knows it before the first; its inputs behind the
/// condition are `carried`. Then the condition may be taken for true.
std::optional<E> turns_of(Call &loop, const Graph &body, const std::vector<EntryPtr> &carried);

/// Tensors of one shape, one or more, along a new axis.
V stacked(Call &c, const std::vector<V> &parts, size_t axis);

using HandlerTable = std::unordered_map<std::string_view, Handler>;
void add_elementwise(HandlerTable &table);
void add_reductions(HandlerTable &table);
void add_shapes(HandlerTable &table);
void add_splits(HandlerTable &table);
void add_padding(HandlerTable &table);
void add_indexing(HandlerTable &table);
void add_products(HandlerTable &table);
void add_einsum(HandlerTable &table);
void add_windows(HandlerTable &table);
void add_norms(HandlerTable &table);
void add_recurrent(HandlerTable &table);
void add_control(HandlerTable &table);
void add_resizing(HandlerTable &table);
void add_attention(HandlerTable &table);
void add_signals(HandlerTable &table);
void add_states(HandlerTable &table);
void add_counted(HandlerTable &table);
void add_places(HandlerTable &table);
void add_sequences(HandlerTable &table);
/// Adds the ops of com.microsoft.
void add_microsoft(HandlerTable &table);
void add_microsoft_attention(HandlerTable &table);
void add_microsoft_integers(HandlerTable &table);
/// Null where an op is not known.
Handler find_handler(std::string_view domain, std::string_view op);

/// Gives the node's results on the host where its inputs are known and the op is one of numbers.
bool evaluate(Call &call);
/// An input of one element as such a float, or as one that is a number.
std::optional<Fractions> fraction(Call &call, size_t input);

/// The node is the op of its one input.
template <ir::Op kOp> void unary(Call &c) { c.result(c.op(kOp, {c.value(0)})); }

/// A cast to a dtype that is no float of 8 bits has nothing of its attributes about those.
void ignore_rounding(const Call &c, DType to);
/// ONNX's number of the dtype that a range computes in: only for floats of 16 bits another one.
int64_t stash_type_of_range(const Call &c, DType dtype);

/// Fails where inputs that have one dtype by the op's document have two, or indices are no
/// integers.
void check_dtypes(Call &c);
/// Fails where an input has a narrow dtype and the op is none that takes it.
void check_narrow(Call &c);
/// Gives the node's result the narrow dtype of its input, where the op only moves elements.
void keep_narrow(Call &c);

} // namespace cugrt::onnx
