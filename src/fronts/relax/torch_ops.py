"""Conversions of ATen's ops that TVM's importer lacks, gets wrong, or gives a weaker form; docs/relax.md has the list.

``TABLE`` has them by the importer's names (``select.int``). Each takes :class:`Node` and the op's arguments by the
names of its schema, and gives Relax's expression. ``REFUSED``: ops whose conversion there is another computation.
"""

import math
import types

import torch
from tvm import relax, tirx

from .dims import noting, refuse

TABLE = {}
converts = noting(TABLE)
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


@converts("var_mean.correction")
def spread_and_mean(n, a):
    axes = [n.negative_axis(d, a.self) for d in (a.dim or range(len(n.dims(a.self))))]
    return relax.Tuple([spread(n, a), n.emit(relax.op.mean(a.self, axes, keepdims=a.keepdim))])


@converts("var.correction", "std.correction")
def spread(n, a):
    """Relax's variance divides by how many there are, PyTorch's by `correction` fewer."""
    dims, dtype = n.dims(a.self), n.metas["self"].dtype
    axes = [n.negative_axis(d, a.self) for d in (a.dim or range(len(dims)))]
    made = n.emit(relax.op.variance(a.self, axes, keepdims=a.keepdim))
    less = 1 if a.correction is None else a.correction
    if less:
        count = size(math.prod((dims[axis] for axis in axes), start=tirx.IntImm("int64", 1)))
        if isinstance(count, int):
            factor = n.constant(count / (count - less) if count > less else float("nan"), DTYPES[dtype])
        else:
            counted = n.number(count, None, dtype)
            fewer = n.emit(relax.op.subtract(counted, n.constant(float(less), DTYPES[dtype])))
            factor = n.emit(relax.op.divide(counted, fewer))
        made = n.emit(relax.op.multiply(made, factor))
    return n.emit(relax.op.sqrt(made)) if n.node.target.__name__.startswith("std") else made


@converts("exp2.default")
def exp2(n, a):
    x = n.number(a.self, n.metas["self"], n.result.dtype)
    return n.emit(relax.op.exp(n.emit(relax.op.multiply(x, n.constant(math.log(2))))))


@converts("erfc.default")
def erfc(n, a):
    x = n.number(a.self, n.metas["self"], n.result.dtype)
    return n.emit(relax.op.subtract(n.constant(1.0), n.emit(relax.op.erf(x))))


@converts("elu.default")
def elu(n, a):
    """`scale` (alpha (exp(input_scale x) - 1)) below 0, `scale` x above; SELU and CELU come as this."""
    x = a.self
    below = x if a.input_scale == 1 else n.emit(relax.op.multiply(x, n.constant(a.input_scale)))
    below = n.emit(relax.op.subtract(n.emit(relax.op.exp(below)), n.constant(1.0)))
    below = n.emit(relax.op.multiply(below, n.constant(float(a.alpha * a.scale))))
    above = x if a.scale == 1 else n.emit(relax.op.multiply(x, n.constant(a.scale)))
    return n.emit(relax.op.where(n.emit(relax.op.greater(x, n.constant(0.0))), above, below))


from . import torch_layers, torch_places  # noqa: E402, F401: fill the table too
