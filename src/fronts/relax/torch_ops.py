"""Conversions of ATen's ops that TVM's importer lacks, gets wrong, or gives a weaker form; docs/relax.md has the list.

``TABLE`` has them by the importer's names (``select.int``). Each takes :class:`Node` and the op's arguments by the
names of its schema, and gives Relax's expression. ``REFUSED``: ops whose conversion there is another computation.
"""

import types

import torch
from tvm import relax, tirx

from .dims import refuse

TABLE = {}
# Ops that stay whole where PyTorch's decompositions run: each becomes one op of ours, or few.
WHOLE = (
    "scaled_dot_product_attention.default lstm.input gru.input rnn_tanh.input rnn_relu.input linear.default "
    "silu.default silu_.default hardswish.default hardswish_.default hardsigmoid.default hardsigmoid_.default "
    "softplus.default rms_norm.default layer_norm.default "
    "upsample_bilinear2d.vec upsample_nearest2d.vec upsample_bicubic2d.vec logaddexp.default"
).split()
REFUSED = {
    "randn.default": "draws at random",
    "randn_like.default": "draws at random",
    "rand.default": "draws at random",
    "bernoulli.p": "draws at random",
    "exponential.default": "draws at random",
    "_upsample_bilinear2d_aa.default": "smooths before it takes fewer",
    "cross_entropy_loss.default": "is a loss, for training",
    "_native_batch_norm_legit_functional.default": "is of training; model.eval() before the export makes it inference",
}
DTYPES = {
    torch.bool: "bool",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
}


def converts(*names):
    def note(make):
        TABLE.update(dict.fromkeys(names, make))
        return make

    return note


class Node:
    """A node of the graph and the importer that is at it."""

    def __init__(self, node, importer):
        self.node, self.importer = node, importer
        self.result = node.meta.get("val")

    def given(self):
        """The arguments by the names of the op's schema, with its defaults; nodes as Relax's expressions."""
        values, metas = {}, {}
        for i, argument in enumerate(self.node.target._schema.arguments):
            if i < len(self.node.args):
                value = self.node.args[i]
            elif argument.name in self.node.kwargs:
                value = self.node.kwargs[argument.name]
            else:
                value = argument.default_value if argument.has_default_value() else None
            values[argument.name] = self.importer._retrieve_args(value)
            metas[argument.name] = value.meta.get("val") if isinstance(value, torch.fx.Node) else value
        self.metas = metas
        return types.SimpleNamespace(**values)

    def emit(self, expr):
        return self.importer.block_builder.emit(expr)

    def dims(self, x):
        return list(self.importer.shape_of(x).values)

    def dtype(self):
        return DTYPES[self.result.dtype]

    def constant(self, value, dtype=None):
        return relax.const(value, dtype or self.dtype())

    def cast(self, x, have, want):
        """`have`, `want`: torch's dtypes."""
        return x if have == want else self.emit(relax.op.astype(x, DTYPES[want]))

    def number(self, x, meta, want):
        """An operand of arithmetic as a tensor of torch's dtype `want`: a tensor, a number or a size."""
        if isinstance(meta, torch.Tensor):
            return self.cast(x, meta.dtype, want)
        if isinstance(x, (bool, int, float)):
            x = int(x) if not want.is_floating_point and want != torch.bool else x
            return relax.const(x, DTYPES[want])
        sized = self.emit(relax.op.shape_to_tensor(relax.ShapeExpr([x])))
        return self.cast(self.emit(relax.op.squeeze(sized, [0])), torch.int64, want)

    def negative_axis(self, axis, x):
        return axis + len(self.dims(x)) if axis < 0 else axis


def size(dim):
    """A dimension as a whole number where it is one."""
    return int(dim) if isinstance(dim, (int, tirx.IntImm)) else dim


# --- Arithmetic: operands of two dtypes, numbers beside tensors, alpha ---


def arithmetic(names, make, compares=False):
    def convert(n, a):
        other, meta = (a.other, n.metas["other"]) if hasattr(a, "other") else (a.exponent, n.metas["exponent"])
        dtype = common_of(n.metas["self"], meta) if compares else n.result.dtype
        left, right = n.number(a.self, n.metas["self"], dtype), n.number(other, meta, dtype)
        if getattr(a, "alpha", 1) != 1:
            right = n.emit(relax.op.multiply(right, n.constant(a.alpha)))
        return n.emit(make(left, right))

    for name in names.split():
        TABLE[name] = convert


def common_of(a, b):
    example = [1 if isinstance(m, torch.SymInt) else m for m in (a, b)]
    return torch.result_type(*example)


arithmetic("add.Tensor add.Scalar", relax.op.add)
arithmetic("sub.Tensor sub.Scalar", relax.op.subtract)
arithmetic("mul.Tensor mul.Scalar", relax.op.multiply)
arithmetic("div.Tensor div.Scalar", relax.op.divide)  # of integers PyTorch gives a float
arithmetic("pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar", relax.op.power)
arithmetic("remainder.Tensor remainder.Scalar", relax.op.floor_mod)
arithmetic("fmod.Tensor fmod.Scalar", relax.op.mod)
arithmetic("floor_divide.default", relax.op.floor_divide)
arithmetic("maximum.default max.other", relax.op.maximum)
arithmetic("minimum.default min.other", relax.op.minimum)
arithmetic("logaddexp.default", relax.op.log_add_exp)
for relation, make in {
    "eq": relax.op.equal,
    "ne": relax.op.not_equal,
    "lt": relax.op.less,
    "le": relax.op.less_equal,
    "gt": relax.op.greater,
    "ge": relax.op.greater_equal,
}.items():
    arithmetic(f"{relation}.Tensor {relation}.Scalar", make, compares=True)


@converts("rsub.Tensor", "rsub.Scalar")
def rsub(n, a):
    dtype = n.result.dtype
    left = n.number(a.self, n.metas["self"], dtype)
    if a.alpha != 1:
        left = n.emit(relax.op.multiply(left, n.constant(a.alpha)))
    return n.emit(relax.op.subtract(n.number(a.other, n.metas["other"], dtype), left))


@converts("div.Tensor_mode", "div.Scalar_mode")
def div_rounded(n, a):
    dtype = n.result.dtype
    left, right = n.number(a.self, n.metas["self"], dtype), n.number(a.other, n.metas["other"], dtype)
    if a.rounding_mode == "floor":
        return n.emit(relax.op.floor_divide(left, right))
    made = n.emit(relax.op.divide(left, right))  # of integers it truncates
    return n.emit(relax.op.trunc(made)) if a.rounding_mode == "trunc" and dtype.is_floating_point else made


@converts("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(n, a):
    dtype = n.result.dtype
    left, right = n.number(a.self, n.metas["self"], dtype), n.number(a.other, n.metas["other"], dtype)
    return n.emit(relax.op.where(a.condition, left, right))


@converts("clamp.default", "clamp_min.default", "clamp_max.default", "clamp.Tensor", "hardtanh.default")
def clamp(n, a):
    dtype, made = n.result.dtype, n.number(a.self, n.metas["self"], n.result.dtype)
    for names, make in ((("min", "min_val"), relax.op.maximum), (("max", "max_val"), relax.op.minimum)):
        for name in names:
            if getattr(a, name, None) is not None:
                made = n.emit(make(made, n.number(getattr(a, name), n.metas[name], dtype)))
    return made


@converts("sqrt.default", "rsqrt.default", "reciprocal.default", "log2.default", "log10.default", "log1p.default")
def floating(n, a):
    x = n.number(a.self, n.metas["self"], n.result.dtype)
    name = n.node.target.__name__.partition(".")[0]
    if name == "reciprocal":
        return n.emit(relax.op.divide(n.constant(1.0), x))
    if name == "log1p":  # with the digits that 1 + x loses
        one = n.emit(relax.op.add(x, n.constant(1.0)))
        gap = n.emit(relax.op.subtract(one, n.constant(1.0)))
        ratio = n.emit(relax.op.divide(n.emit(relax.op.multiply(n.emit(relax.op.log(one)), x)), gap))
        whole = n.emit(relax.op.equal(gap, n.constant(0.0)))
        infinite = n.emit(relax.op.equal(one, n.constant(float("inf"))))
        return n.emit(relax.op.where(whole, x, n.emit(relax.op.where(infinite, one, ratio))))
    if name in ("log2", "log10"):
        scale = {"log2": 1.4426950408889634, "log10": 0.4342944819032518}[name]
        return n.emit(relax.op.multiply(n.emit(relax.op.log(x)), n.constant(scale)))
    return n.emit(getattr(relax.op, name)(x))


# --- Products: in the operands' dtype, where the importer writes float32 ---


def product(n, a, b):
    return n.emit(relax.op.matmul(a, b))


@converts("mm.default", "bmm.default", "matmul.default")
def matmul(n, a):
    return product(n, a.self, a.mat2 if hasattr(a, "mat2") else a.other)


@converts("linear.default")
def linear(n, a):
    made = product(n, a.input, n.emit(relax.op.permute_dims(a.weight)))
    return made if a.bias is None else n.emit(relax.op.add(made, a.bias))


@converts("addmm.default", "baddbmm.default")
def addmm(n, a):
    made = product(n, *((a.mat1, a.mat2) if hasattr(a, "mat1") else (a.batch1, a.batch2)))
    if a.alpha != 1:
        made = n.emit(relax.op.multiply(made, n.constant(a.alpha)))
    if a.beta == 0:
        return made
    bias = a.self if a.beta == 1 else n.emit(relax.op.multiply(a.self, n.constant(a.beta)))
    return n.emit(relax.op.add(made, bias))


@converts("convolution.default")
def convolution(n, a):
    rank = len(a.stride)
    space = "DHW"[3 - rank :]
    name = f"conv{rank}d" + ("_transpose" if a.transposed else "")
    if not hasattr(relax.op.nn, name):
        raise refuse(f"a transposed convolution over {rank} dimensions is not supported")
    more = {"output_padding": list(a.output_padding)} if a.transposed else {}
    made = n.emit(
        getattr(relax.op.nn, name)(
            a.input,
            a.weight,
            strides=list(a.stride),
            padding=list(a.padding),
            dilation=list(a.dilation),
            groups=a.groups,
            data_layout="NC" + space,
            kernel_layout=("IO" if a.transposed else "OI") + space,
            **more,
        )
    )
    if a.bias is None:
        return made
    channels = n.dims(a.bias)[0]
    return n.emit(relax.op.add(made, n.emit(relax.op.reshape(a.bias, [channels] + [1] * rank))))


# --- Norms ---


@converts("rms_norm.default")
def rms_norm(n, a):
    import numpy

    axes = list(range(-len(a.normalized_shape), 0))
    weight = a.weight
    if weight is None:
        weight = relax.const(numpy.ones([int(d) for d in a.normalized_shape]), n.dtype())
    epsilon = a.eps if a.eps is not None else torch.finfo(n.result.dtype).eps
    return n.emit(relax.op.nn.rms_norm(a.input, weight, axes, epsilon))


@converts("layer_norm.default")
def layer_norm(n, a):
    return n.importer._layer_norm_impl(a.input, a.weight, a.bias, a.eps, tuple(a.normalized_shape))


@converts("native_group_norm.default")
def group_norm(n, a):
    import numpy

    weight, bias = a.weight, a.bias
    if weight is None:
        weight = relax.const(numpy.ones(int(a.C)), DTYPES[n.metas["input"].dtype])
    if bias is None:
        bias = relax.const(numpy.zeros(int(a.C)), DTYPES[n.metas["input"].dtype])
    axes = list(range(2, len(n.dims(a.input))))
    return relax.Tuple([n.emit(relax.op.nn.group_norm(a.input, weight, bias, a.group, 1, axes, a.eps))])


@converts("var.correction", "std.correction")
def spread(n, a):
    """Relax's variance divides by how many there are, PyTorch's by `correction` fewer."""
    dims = n.dims(a.self)
    axes = [n.negative_axis(d, a.self) for d in (a.dim or range(len(dims)))]
    made = n.emit(relax.op.variance(a.self, axes, keepdims=a.keepdim))
    less = 1 if a.correction is None else a.correction
    if less:
        count = 1
        for axis in axes:
            count = count * dims[axis]
        whole = size(count)
        if isinstance(whole, int):
            factor = n.constant(whole / (whole - less) if whole > less else float("nan"))
        else:
            counted = n.number(count, None, n.result.dtype)
            factor = n.emit(relax.op.divide(counted, n.emit(relax.op.subtract(counted, n.constant(float(less))))))
        made = n.emit(relax.op.multiply(made, factor))
    return n.emit(relax.op.sqrt(made)) if n.node.target.__name__.startswith("std") else made


# --- Attention ---


@converts("scaled_dot_product_attention.default")
def attention(n, a):
    query, key, value = a.query, a.key, a.value
    rank, dims = len(n.dims(query)), n.dims(query)
    if a.dropout_p:
        raise refuse("attention with dropout is of training; model.eval() before the export makes it inference")
    if rank not in (3, 4):
        raise refuse(f"attention of {rank} dimensions is not supported, only of 3 and 4")
    dtype = n.result.dtype
    if rank == 3:
        query, key, value = (n.emit(relax.op.expand_dims(x, [1])) for x in (query, key, value))
    heads, groups = size(n.dims(query)[1]), size(n.dims(key)[1])
    if heads != groups:
        key, value = (n.emit(relax.op.repeat(x, heads // groups, 1)) for x in (key, value))
    queries, keys, width = n.dims(query)[2], n.dims(key)[2], size(n.dims(query)[3])
    scale = a.scale if a.scale is not None else width**-0.5
    mask, seen = a.attn_mask, None
    same = str(queries) == str(keys)
    if a.is_causal and not same:
        ones = n.emit(relax.op.full(relax.ShapeExpr([queries, keys]), relax.const(1, "int32"), "int32"))
        mask = n.emit(relax.op.astype(n.emit(relax.op.tril(ones)), "bool"))
        yes = True
    else:
        yes = mask is not None and n.metas["attn_mask"].dtype == torch.bool
    if mask is not None and rank == 3 and len(n.dims(mask)) == 3:
        mask = n.emit(relax.op.expand_dims(mask, [1]))
    if yes:
        lowest = relax.const(float("-inf"), DTYPES[dtype])
        # PyTorch gives zeros where a query may see no key.
        seen = n.emit(relax.op.max(n.emit(relax.op.astype(mask, "int32")), [-1], keepdims=True))
        seen = n.emit(relax.op.greater(seen, relax.const(0, "int32")))
        mask = n.emit(relax.op.where(mask, relax.const(0, DTYPES[dtype]), lowest))
    across = [0, 2, 1, 3]
    if str(size(n.dims(value)[3])) == str(width):
        given = [n.emit(relax.op.permute_dims(x, across)) for x in (query, key, value)]
        if mask is not None:
            ranks = len(n.dims(mask))
            mask = mask if ranks == 4 else n.emit(relax.op.reshape(mask, [1] * (4 - ranks) + n.dims(mask)))
            mask = n.emit(relax.op.broadcast_to(mask, [*n.dims(query)[:2], queries, keys]))
        causal = "TopLeft" if a.is_causal and same else None
        made = n.emit(relax.op.nn.attention(*given, mask, scale, causal))
        made = n.emit(relax.op.permute_dims(made, across))
    else:
        if a.is_causal and same:
            raise refuse("causal attention of values with another head dimension than the keys' is not supported")
        scores = product(n, query, n.emit(relax.op.permute_dims(key, [0, 1, 3, 2])))
        scores = n.emit(relax.op.multiply(scores, n.constant(scale)))
        scores = scores if mask is None else n.emit(relax.op.add(scores, mask))
        made = product(n, n.emit(relax.op.nn.softmax(scores, -1)), value)
    if seen is not None:
        made = n.emit(relax.op.where(seen, made, relax.const(0, DTYPES[dtype])))
    return n.emit(relax.op.squeeze(made, [1])) if rank == 3 else made


# --- Recurrent networks: one op of ours a layer ---


def recurrent(kind, gates):
    """`gates`: where in PyTorch's order each gate of ours is."""
    states = 2 if kind == "lstm" else 1

    def rows(n, x, hidden, axis):
        """Of a tensor with PyTorch's gates along the axis, ours."""
        if len(gates) == 1:
            return x
        parts = n.emit(relax.op.split(x, len(gates), axis))
        return n.emit(relax.op.concat([n.emit(relax.TupleGetItem(parts, i)) for i in gates], axis))

    def convert(n, a):
        if a.train and a.dropout:
            raise refuse(f"{kind} with dropout is of training; model.eval() before the export makes it inference")
        x, initial = a.input, list(a.hx) if states == 2 else [a.hx]
        if a.batch_first:
            x = n.emit(relax.op.permute_dims(x, [1, 0, 2]))
        directions = 2 if a.bidirectional else 1
        each = 4 if a.has_biases else 2
        if len(a.params) != each * directions * a.num_layers:
            raise refuse(f"{kind} with projections is not supported")
        hidden = size(n.dims(a.params[1])[1])
        dtype, last = n.importer.shape_of(x), [[] for _ in range(states)]
        length, batch, _ = n.dims(x)
        dtype = DTYPES[n.metas["input"].dtype]
        for layer in range(a.num_layers):
            gate_parts, weights, biases = [], [], []
            for direction in range(directions):
                at = (layer * directions + direction) * each
                to_gates, to_state, *bias = a.params[at : at + each]
                made = product(n, x, n.emit(relax.op.permute_dims(rows(n, to_gates, hidden, 0))))
                if bias:
                    first, second = (rows(n, one, hidden, 0) for one in bias)
                    if kind == "gru":  # that of the new gate is within what the reset gate scales
                        parts = n.emit(relax.op.split(second, [2 * hidden], 0))
                        biases.append(n.emit(relax.TupleGetItem(parts, 1)))
                        zeros = relax.op.zeros(relax.ShapeExpr([hidden]), dtype)
                        second = n.emit(relax.op.concat([n.emit(relax.TupleGetItem(parts, 0)), n.emit(zeros)], 0))
                    made = n.emit(relax.op.add(made, n.emit(relax.op.add(first, second))))
                elif kind == "gru":
                    biases.append(n.emit(relax.op.zeros(relax.ShapeExpr([hidden]), dtype)))
                gate_parts.append(made)
                weights.append(n.emit(relax.op.permute_dims(rows(n, to_state, hidden, 0))))
            stacked = [n.emit(relax.op.stack(gate_parts, 2)), n.emit(relax.op.stack(weights, 0))]
            for state in initial:
                here = [layer * directions], [(layer + 1) * directions]
                stacked.append(n.emit(relax.op.strided_slice(state, [0], *here)))
            if kind == "gru":
                stacked.append(n.emit(relax.op.stack(biases, 0)))
            tensor = lambda *dims: relax.TensorType(list(dims), dtype)  # noqa: E731
            types = [tensor(length, directions, batch, hidden)] + [tensor(directions, batch, hidden)] * states
            made = n.emit(relax.op.call_pure_packed(f"cugrt.{kind}", *stacked, ty_args=relax.TupleType(types)))
            y, *ends = (n.emit(relax.TupleGetItem(made, i)) for i in range(1 + states))
            for all_ends, end in zip(last, ends):
                all_ends.append(end)
            across = n.emit(relax.op.permute_dims(y, [0, 2, 1, 3]))
            x = n.emit(relax.op.reshape(across, [length, batch, directions * hidden]))
        if a.batch_first:
            x = n.emit(relax.op.permute_dims(x, [1, 0, 2]))
        ends = [one[0] if len(one) == 1 else n.emit(relax.op.concat(one, 0)) for one in last]
        return relax.Tuple([x, *ends])

    return convert


TABLE["lstm.input"] = recurrent("lstm", [0, 3, 1, 2])
TABLE["gru.input"] = recurrent("gru", [1, 0, 2])
TABLE["rnn_tanh.input"] = recurrent("rnn_tanh", [0])
TABLE["rnn_relu.input"] = recurrent("rnn_relu", [0])


# --- Places ---


@converts("select.int")
def select(n, a):
    """An index below 0 counts from the end; Relax's take does not."""
    axis, at, dims = n.negative_axis(a.dim, a.self), a.index, n.dims(a.self)
    extent = size(dims[axis])
    if isinstance(at, int) and at >= 0 and not isinstance(extent, int):
        return n.emit(relax.op.take(a.self, relax.const(at, "int64"), axis))
    at = at + extent if isinstance(at, int) and at < 0 else at
    part = n.emit(relax.op.strided_slice(a.self, [axis], [at], [at + 1]))
    if not isinstance(extent, int):  # Relax cannot show that one element is left
        one = dims[:axis] + [1] + dims[axis + 1 :]
        part = n.importer.block_builder.match_cast(part, relax.TensorType(one, n.dtype()))
    return n.emit(relax.op.reshape(part, dims[:axis] + dims[axis + 1 :]))


@converts("narrow.default")
def narrow(n, a):
    return n.emit(relax.op.strided_slice(a.self, [n.negative_axis(a.dim, a.self)], [a.start], [a.start + a.length]))


@converts("embedding.default")
def embedding(n, a):
    if len(n.dims(a.indices)) == 1:
        return n.emit(relax.op.take(a.weight, a.indices, 0))
    count = 1
    for dim in n.dims(a.indices):
        count = count * dim
    rows = n.emit(relax.op.take(a.weight, n.emit(relax.op.reshape(a.indices, [count])), 0))
    return n.emit(relax.op.reshape(rows, [*n.dims(a.indices), n.dims(a.weight)[1]]))


@converts("sym_size.int")
def sym_size(n, a):
    return size(n.dims(a.self)[n.negative_axis(a.dim, a.self)])


@converts("index.Tensor")
def index(n, a):
    """NumPy's rule: the indices stretch to one shape, which comes where they are, or first where a gap parts them."""
    indices = list(a.indices) + [None] * (len(n.dims(a.self)) - len(a.indices))
    metas = list(n.metas["indices"]) + [None] * (len(indices) - len(n.metas["indices"]))
    axes = [i for i, one in enumerate(indices) if one is not None]
    if any(metas[i].meta["val"].dtype == torch.bool for i in axes):
        raise refuse("an index of bool, whose result the data size, is not supported")
    if len(axes) == 1 and len(n.dims(indices[axes[0]])) >= 1:
        return n.emit(relax.op.take(a.self, indices[axes[0]], axes[0]))
    rest = [i for i in range(len(indices)) if i not in axes]
    front = n.emit(relax.op.permute_dims(a.self, axes + rest)) if axes + rest != sorted(axes + rest) else a.self
    made = n.emit(relax.op.index_tensor(front, [indices[i] for i in axes]))
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if not together or axes[0] == 0:
        return made
    depth, before = len(n.dims(made)) - len(rest), axes[0]
    order = [*range(depth, depth + before), *range(depth), *range(depth + before, depth + len(rest))]
    return n.emit(relax.op.permute_dims(made, order))


@converts("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(n, a):
    users = [user for user in n.node.users if user.args[1] == 1 and user.users]
    if users:
        raise refuse("the positions of a max_pool are not supported")
    rank = len(a.kernel_size)
    settings = [list(one) * (rank // len(one)) for one in (a.kernel_size, a.stride or a.kernel_size, a.padding, a.dilation)]
    impl = getattr(n.importer, f"_max_pool{rank}d_impl")
    return relax.Tuple([impl(a.self, *settings, a.ceil_mode)])


@converts("native_dropout.default")
def dropout(n, a):
    if a.train and a.p:
        raise refuse("dropout is of training; model.eval() before the export makes it inference")
    return relax.Tuple([a.input])


@converts("repeat.default")
def repeat(n, a):
    return n.emit(relax.op.tile(a.self, list(a.repeats)))


@converts("isin.Tensor_Tensor")
def is_in(n, a):
    dtype = common_of(n.metas["elements"], n.metas["test_elements"])
    one = n.number(a.elements, n.metas["elements"], dtype)
    other = n.number(a.test_elements, n.metas["test_elements"], dtype)
    if len(n.dims(other)) != 1:
        other = n.emit(relax.op.flatten(other))
    equal = n.emit(relax.op.equal(n.emit(relax.op.expand_dims(one, [-1])), other))
    found = n.emit(relax.op.max(n.emit(relax.op.astype(equal, "int32")), [-1]))
    return n.emit(relax.op.not_equal(found, relax.const(1 if a.invert else 0, "int32")))


@converts("amax.default", "amin.default")
def extreme(n, a):
    make = relax.op.max if n.node.target.__name__.startswith("amax") else relax.op.min
    return n.emit(make(a.self, list(a.dim) or None, keepdims=a.keepdim))


@converts("any.dim", "any.dims", "any.default", "all.dim", "all.dims", "all.default")
def any_or_all(n, a):
    dtype = n.metas["self"].dtype
    x = a.self
    if dtype != torch.bool:
        x = n.emit(relax.op.not_equal(x, relax.const(0, DTYPES[dtype])))
    x = n.emit(relax.op.astype(x, "int32"))
    make = relax.op.max if n.node.target.__name__.startswith("any") else relax.op.min
    axes = getattr(a, "dim", None)
    axes = [axes] if isinstance(axes, int) else list(axes) if axes is not None else None
    made = n.emit(make(x, axes, keepdims=getattr(a, "keepdim", False)))
    return n.emit(relax.op.astype(made, "bool"))


@converts("max.dim", "min.dim")
def extreme_of(n, a):
    largest = n.node.target.__name__.startswith("max")
    both = n.emit(relax.op.topk(a.self, 1, a.dim, "both", largest, "int64"))
    parts = [n.emit(relax.TupleGetItem(both, i)) for i in range(2)]
    if not a.keepdim:
        parts = [n.emit(relax.op.squeeze(part, [a.dim])) for part in parts]
    return relax.Tuple(parts)
