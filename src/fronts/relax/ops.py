"""Relax's ops by the ops of docs/ir.md. ``TABLE``: what makes an op, by its name without ``relax.``.

Each takes the reader of the function and the call, and gives the value: an operand, or a list of a tuple's parts.
"""

import math

from tvm import tirx

from cugrt import dtype as dtype_attribute

from .dialect import TensorType, type_of
from .dims import DTYPES, noting, refuse, shape_of

TABLE = {}
takes = noting(TABLE)


def dims_of(e):
    """The dimensions of an operand or a call, which must be known."""
    dims = shape_of(type_of(e))
    if dims is None:
        raise refuse(
            f"'{e.op.name if hasattr(e, 'op') else e}' has a shape that is not known ({type_of(e)}); R.match_cast can say it"
        )
    return dims


def constant(e, what):
    if isinstance(e, tirx.IntImm):
        return int(e.value)
    if isinstance(e, int):
        return e
    raise refuse(f"{what} is {e}, which is not a constant")


def is_float(e):
    return "float" in str(type_of(e).dtype)


def arg(f, e, like=None):
    """An operand; a number becomes a constant of the dtype of `like`."""
    if isinstance(e, (tirx.IntImm, tirx.FloatImm)):
        return f.scalar(e.value, type_of(like).dtype)
    return f.value(e)


def args(f, e):
    tensors = [a for a in e.args if isinstance(type_of(a), TensorType)]
    return [arg(f, a, tensors[0] if tensors else None) for a in e.args]


def axis_in(axis, rank):
    return int(axis) + rank if axis < 0 else int(axis)


def axes_in(axes, rank):
    return list(range(rank)) if axes is None else sorted(axis_in(a, rank) for a in axes)


def cast(f, x, dtype):
    return f.op("cast", x, dtype=dtype_attribute(DTYPES[str(dtype)]))


def simple(names, ours=None, **attributes):
    for name in names.split():
        TABLE[name] = lambda f, e, op=ours or name.removeprefix("nn."): f.op(op, *args(f, e), **attributes)


def bits(name, ours, of_bool):
    """An op that is a logical one on bool."""
    TABLE[name] = lambda f, e: f.op(of_bool if str(type_of(e).dtype) == "bool" else ours, *args(f, e))


FLOAT_UNARY = (
    "acos acosh asin asinh atan atanh cos cosh erf exp log rsqrt sigmoid sin sinh sqrt tan tanh nn.silu " "nn.gelu"
)
simple(
    "abs sign nn.relu logical_not maximum minimum floor_mod equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_xor where"
)
simple(FLOAT_UNARY)
for relaxs, our in {
    "negative": "neg",
    "isnan": "is_nan",
    "isinf": "is_inf",
    "add": "add",
    "subtract": "sub",
    "divide": "div",
    "power": "pow",
    "mod": "trunc_mod",
    "left_shift": "shift_left",
    "right_shift": "shift_right",
}.items():
    simple(relaxs, our)
bits("multiply", "mul", "logical_and")
for logic in ("not", "and", "or", "xor"):
    bits(f"bitwise_{logic}", f"bitwise_{logic}", f"logical_{logic}")
simple("nn.gelu_tanh", "gelu", approximate="tanh")
for rounding in ("floor", "ceil", "round"):
    TABLE[rounding] = lambda f, e, op=rounding: f.op(op, f.value(e.args[0])) if is_float(e) else f.value(e.args[0])
for same in ("builtin.stop_lift_params", "hint_on_device", "to_vdevice", "memory.ensure_zero_offset", "wrap_param"):
    TABLE[same] = lambda f, e: f.value(e.args[0])


@takes("square")
def square(f, e):
    x = f.value(e.args[0])
    return f.op("mul", x, x)


@takes("isfinite")
def is_finite(f, e):
    x = f.value(e.args[0])
    return f.op("logical_not", f.op("logical_or", f.op("is_nan", x), f.op("is_inf", x)))


@takes("trunc")
def trunc(f, e):
    x = f.value(e.args[0])
    if not is_float(e):
        return x
    return f.op("where", f.op("less", x, f.scalar(0, type_of(e).dtype)), f.op("ceil", x), f.op("floor", x))


@takes("floor_divide")
def floor_divide(f, e):
    a, b = args(f, e)
    if is_float(e):
        return f.op("floor", f.op("div", a, b))
    return f.op("div", f.op("sub", a, f.op("floor_mod", a, b)), b)


@takes("log_add_exp")
def log_add_exp(f, e):
    a, b = args(f, e)
    gap = f.op("neg", f.op("abs", f.op("sub", a, b)))
    return f.op("add", f.op("maximum", a, b), f.op("log1p", f.op("exp", gap)))


@takes("ewise_fma")
def fused_multiply_add(f, e):
    a, b, c = args(f, e)
    return f.op("add", f.op("mul", a, b), c)


@takes("nn.leakyrelu")
def leaky_relu(f, e):
    return f.op("leaky_relu", f.value(e.args[0]), alpha=float(e.attrs.alpha))


@takes("nn.selu")
def selu(f, e):
    x = f.op("elu", f.value(e.args[0]), alpha=1.6732632423543772)
    return f.op("mul", x, f.scalar(1.0507009873554805, type_of(e).dtype))


@takes("nn.softplus")
def softplus(f, e):
    x, beta, limit = f.value(e.args[0]), float(e.attrs.beta), float(e.attrs.threshold)
    scaled = x if beta == 1 else f.op("mul", x, f.scalar(beta, type_of(e).dtype))
    soft = f.op("softplus", scaled)
    soft = soft if beta == 1 else f.op("div", soft, f.scalar(beta, type_of(e).dtype))
    return f.op("where", f.op("greater", scaled, f.scalar(limit, type_of(e).dtype)), x, soft)


@takes("nn.prelu")
def prelu(f, e):
    rank = len(dims_of(e.args[0]))
    axis = axis_in(e.attrs.axis, rank)
    slope = f.reshape(f.value(e.args[1]), [*dims_of(e.args[1]), *[1] * (rank - axis - 1)])
    return f.op("prelu", f.value(e.args[0]), slope)


@takes("nn.dropout")
def dropout(f, e):
    x = f.value(e.args[0])
    return [x, f.broadcast(f.scalar(1, type_of(e.args[0]).dtype), dims_of(e.args[0]))]


@takes("astype")
def astype(f, e):
    f.dims.tensor([], e.attrs.dtype, f"a cast of function '{f.name}'")
    return cast(f, f.value(e.args[0]), e.attrs.dtype)


@takes("clip")
def clip(f, e):
    low, high = (float(a.value) if isinstance(a, tirx.FloatImm) else constant(a, "a bound of clip") for a in e.args[1:])
    return f.op("clip", f.value(e.args[0]), min=float(low), max=float(high))


@takes("matmul")
def matmul(f, e):
    a, b = f.value(e.args[0]), f.value(e.args[1])
    ranks = [len(dims_of(x)) for x in e.args]
    if str(type_of(e.args[0]).dtype) != str(type_of(e).dtype):  # sums in the wider dtype, of operands as they are
        a, b = (cast(f, x, type_of(e).dtype) for x in (a, b))
    if ranks[0] == 1:
        a = f.reshape(a, [1, *dims_of(e.args[0])])
    if ranks[1] == 1:
        b = f.reshape(b, [*dims_of(e.args[1]), 1])
    made = f.op("matmul", a, b)
    return f.reshape(made, dims_of(e)) if 1 in ranks else made


@takes("outer")
def outer(f, e):
    return f.op("mul", f.reshape(f.value(e.args[0]), [*dims_of(e.args[0]), 1]), f.value(e.args[1]))


for relaxs in ("sum", "prod", "max", "min", "mean"):
    TABLE[relaxs] = lambda f, e, op="reduce_" + relaxs: f.op(
        op, f.value(e.args[0]), axes=axes_in(e.attrs.axis, len(dims_of(e.args[0]))), keep_dims=bool(e.attrs.keepdims)
    )


def moments(f, x, axes):
    """Mean and variance, which keep the axes."""
    mean = f.op("reduce_mean", x, axes=axes, keep_dims=True)
    gap = f.op("sub", x, mean)
    return gap, f.op("reduce_mean", f.op("mul", gap, gap), axes=axes, keep_dims=True)


@takes("variance", "std")
def variance(f, e):
    _, made = moments(f, f.value(e.args[0]), axes_in(e.attrs.axis, len(dims_of(e.args[0]))))
    made = made if e.attrs.keepdims else f.reshape(made, dims_of(e))
    return f.op("sqrt", made) if e.op.name == "relax.std" else made


@takes("argmax", "argmin")
def arg_max(f, e):
    x, axis, name = f.value(e.args[0]), e.attrs.axis, e.op.name.removeprefix("relax.")
    if axis is not None:
        return f.op(name, x, axis=int(axis), keep_dims=bool(e.attrs.keepdims))
    return f.reshape(f.op(name, flattened(f, e.args[0], x), axis=0), dims_of(e))


def flattened(f, e, x):
    return f.reshape(x, [math.prod(dims_of(e), start=tirx.IntImm("int64", 1))])


@takes("cumsum", "cumprod")
def running(f, e):
    x, axis = f.value(e.args[0]), e.attrs.axis
    if str(type_of(e).dtype) != str(type_of(e.args[0]).dtype):
        x = cast(f, x, type_of(e).dtype)
    if axis is None:
        x = flattened(f, e.args[0], x)
    return f.op(
        e.op.name.removeprefix("relax."), x, axis=0 if axis is None else int(axis), exclusive=bool(e.attrs.exclusive)
    )


@takes("nn.softmax", "nn.log_softmax")
def softmax(f, e):
    return f.op(e.op.name.removeprefix("relax.nn."), f.value(e.args[0]), axis=int(e.attrs.axis))


@takes("nn.layer_norm", "nn.rms_norm")
def norm(f, e):
    dims, name = dims_of(e.args[0]), e.op.name.removeprefix("relax.nn.")
    given, axes = [f.value(a) for a in e.args], axes_in(e.attrs.axes, len(dims))
    if axes != list(range(len(dims) - len(axes), len(dims))):
        raise refuse(f"{name} over axes {axes} is not supported, only over the last ones")
    if len(axes) == 1:
        return f.op(name, *given, epsilon=float(e.attrs.epsilon))
    size = [math.prod(dims[axes[0] :], start=tirx.IntImm("int64", 1))]
    flat = [f.reshape(given[0], dims[: axes[0]] + size), *(f.reshape(one, size) for one in given[1:])]
    return f.reshape(f.op(name, *flat, epsilon=float(e.attrs.epsilon)), dims)


def scaled(f, x, variance, epsilon, dtype):
    return f.op("mul", x, f.op("rsqrt", f.op("add", variance, f.scalar(epsilon, dtype))))


@takes("nn.group_norm", "nn.instance_norm")
def group_norm(f, e):
    dims, dtype, given = dims_of(e.args[0]), type_of(e).dtype, [f.value(a) for a in e.args]
    channel = axis_in(e.attrs.channel_axis, len(dims))
    spread = [*dims_of(e.args[1]), *[1] * (len(dims) - channel - 1)]
    if e.op.name == "relax.nn.group_norm":
        groups = int(e.attrs.num_groups)
        parts = dims[:channel] + [groups, tirx.floordiv(dims[channel], groups)] + dims[channel + 1 :]
        axes = [channel + 1] + [a + 1 for a in axes_in(e.attrs.axes, len(dims)) if a > channel]
        gap, variance = moments(f, f.reshape(given[0], parts), axes)
        made = f.reshape(scaled(f, gap, variance, float(e.attrs.epsilon), dtype), dims)
    else:
        gap, variance = moments(f, given[0], axes_in(e.attrs.axes, len(dims)))
        made = scaled(f, gap, variance, float(e.attrs.epsilon), dtype)
    made = f.op("mul", made, f.reshape(given[1], spread)) if e.attrs.scale else made
    return f.op("add", made, f.reshape(given[2], spread)) if e.attrs.center else made


@takes("nn.batch_norm")
def batch_norm(f, e):
    if e.attrs.training:
        raise refuse("nn.batch_norm of training is not supported; training=False is")
    dims, dtype, given = dims_of(e.args[0]), type_of(e.args[0]).dtype, [f.value(a) for a in e.args]
    after = len(dims) - axis_in(e.attrs.axis, len(dims)) - 1
    gamma, beta, mean, variance = (f.reshape(one, [*dims_of(a), *[1] * after]) for one, a in zip(given[1:], e.args[1:]))
    made = scaled(f, f.op("sub", given[0], mean), variance, float(e.attrs.epsilon), dtype)
    made = f.op("mul", made, gamma) if e.attrs.scale else made
    return [f.op("add", made, beta) if e.attrs.center else made, given[3], given[4]]


def numbers(values):
    return [constant(v, "a setting") for v in values]


def convolution(rank, transposed):
    name = f"conv{rank}d" + "_transpose" * transposed

    def make(f, e):
        a = e.attrs
        x, w = (f.value(one) for one in e.args)
        if str(type_of(e).dtype) != str(type_of(e.args[0]).dtype):
            x, w = cast(f, x, type_of(e).dtype), cast(f, w, type_of(e).dtype)
        more = {"output_padding": numbers(a.output_padding)} if transposed else {}
        return f.op(
            "conv_transpose" if transposed else name,
            x,
            w,
            strides=numbers(a.strides),
            padding=numbers(a.padding),
            dilation=numbers(a.dilation),
            groups=int(a.groups),
            **more,
        )

    TABLE["nn." + name] = make


for spatial in (1, 2, 3):
    convolution(spatial, False)
    convolution(spatial, True)


def pool(f, e, name, rank, settings, count):
    """Over two dimensions; over one, of a tensor with one more of 1."""
    x, more = f.value(e.args[0]), {} if name == "max_pool2d" else {"count_include_pad": count}
    if rank == 1:
        dims = dims_of(e.args[0])
        x = f.reshape(x, [*dims[:2], 1, dims[2]])
        one = {"kernel": 1, "strides": 1, "dilation": 1, "padding": 0}
        settings = {
            key: [one[key], value[0]] + ([0, value[1]] if key == "padding" else []) if key in one else value
            for key, value in settings.items()
        }
    made = f.op(name, x, **settings, **more)
    return f.reshape(made, dims_of(e)) if rank == 1 else made


def window_of(e):
    """The op of a pool, its attributes, and whether padding counts."""
    a = e.attrs
    settings = {
        "kernel": numbers(a.pool_size),
        "strides": numbers(a.strides),
        "padding": numbers(a.padding),
        "dilation": numbers(a.dilation),
        "ceil_mode": bool(a.ceil_mode),
    }
    return "max_pool2d" if ".max_" in e.op.name else "avg_pool2d", settings, bool(a.count_include_pad)


def pools(rank):
    def make(f, e):
        name, settings, count = window_of(e)
        return pool(f, e, name, rank, settings, count)

    def adaptive(f, e):
        have, want = dims_of(e.args[0])[2:], dims_of(e)[2:]
        if all(isinstance(d, tirx.IntImm) and int(d) == 1 for d in want):
            return f.op("reduce_mean", f.value(e.args[0]), axes=list(range(2, 2 + rank)), keep_dims=True)
        have, want = (numbers(dims) for dims in (have, want))
        if any(a % b for a, b in zip(have, want)):
            raise refuse(f"nn.adaptive_avg_pool{rank}d from {have} to {want} is not supported; whole windows are")
        kernel = [a // b for a, b in zip(have, want)]
        settings = {"kernel": kernel, "strides": kernel, "padding": [0] * (2 * rank)}
        return pool(f, e, "avg_pool2d", rank, settings, True)

    TABLE[f"nn.max_pool{rank}d"] = TABLE[f"nn.avg_pool{rank}d"] = make
    TABLE[f"nn.adaptive_avg_pool{rank}d"] = adaptive


pools(1)
pools(2)


@takes("nn.attention", "nn.attention_bias")
def attention(f, e):
    q, k, v = (f.value(a) for a in e.args[:3])
    a, queries, keys = e.attrs, dims_of(e.args[0]), dims_of(e.args[1])
    causal = str(a.causal_mask) if a.causal_mask is not None else None
    same = f.dims.text(queries[1]) == f.dims.text(keys[1])
    if a.window_size is not None or causal not in (None, "BottomRight", "TopLeft") or causal == "TopLeft" and not same:
        raise refuse(f"nn.attention with causal_mask {causal} and window_size {a.window_size} is not supported")
    if dims_of(e.args[2])[3] != keys[3] and int(dims_of(e.args[2])[3]) != int(keys[3]):
        raise refuse("nn.attention of values with another head dimension than the keys' is not supported")
    mask = ["none", f.value(e.args[3])] if len(e.args) > 3 else []
    scale = None if a.scale is None else float(a.scale.value if hasattr(a.scale, "value") else a.scale)
    return f.op("attention", q, k, v, *mask, scale=scale, causal=True if causal else None)


from . import composed, shaping, layouts  # noqa: E402, F401, I001: fill the table too
