"""The ops of docs/ir.md by Relax's: the other direction of ops.py. ``TABLE``: what makes an op, by its name."""

import tvm
from tvm import relax, tirx

from cugrt import Code, Error

from .dialect import number, type_of
from .dims import DTYPES, noting

R = relax.op
TABLE = {}
takes = noting(TABLE)
HIGHEST, LOWEST = 2**63 - 1, -(2**63)


class Making:
    """What the makers use of the function's writer: types of what they make on the way."""

    def __init__(self, writer):
        self.writer = writer

    def __call__(self, expr):
        return self.writer.emit(expr, "v")

    def numbers(self, x, value):
        return relax.const(value, str(type_of(x).dtype))


def same(names, home=R):
    for ours in names.split():
        ours, _, theirs = ours.partition(":")
        TABLE[ours] = lambda m, *args, op=getattr(home, theirs or ours): op(*args)


same(
    "exp log sqrt rsqrt erf sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh floor ceil round sigmoid abs "
    "sign neg:negative is_nan:isnan is_inf:isinf logical_not bitwise_not add sub:subtract mul:multiply maximum minimum "
    "pow:power floor_mod trunc_mod:mod equal not_equal less less_equal greater greater_equal logical_and logical_or "
    "logical_xor bitwise_and bitwise_or bitwise_xor shift_left:left_shift shift_right:right_shift where broadcast_to "
    "div:divide"
)
same("relu silu", R.nn)
TABLE["softplus"] = lambda m, x: R.log_add_exp(x, m.numbers(x, 0))
TABLE["log1p"] = lambda m, x: R.log(R.add(x, m.numbers(x, 1)))
TABLE["reciprocal"] = lambda m, x: R.divide(m.numbers(x, 1), x)
TABLE["gelu"] = lambda m, x, approximate="none": (R.nn.gelu_tanh if approximate == "tanh" else R.nn.gelu)(x)
TABLE["leaky_relu"] = lambda m, x, alpha=0.01: R.nn.leakyrelu(x, alpha)
TABLE["prelu"] = lambda m, x, slope: R.where(R.less(x, m.numbers(x, 0)), R.multiply(x, slope), x)
TABLE["softmax"] = lambda m, x, axis=-1: R.nn.softmax(x, axis)
TABLE["log_softmax"] = lambda m, x, axis=-1: R.nn.log_softmax(x, axis)
TABLE["cast"] = lambda m, x, dtype: R.astype(x, dtype_of(dtype))
TABLE["transpose"] = lambda m, x, axes=None: R.permute_dims(x, axes)
TABLE["concat"] = lambda m, *parts, axis=0: R.concat(parts, axis)
TABLE["gather_elements"] = lambda m, x, at, axis=0: R.gather_elements(x, at, axis)
TABLE["gather_nd"] = lambda m, x, at, batch_dims=0: R.gather_nd(x, at, batch_dims)
TABLE["scatter_nd"] = lambda m, x, at, u, reduction="none": R.scatter_nd(
    x, at, u, {"none": "update"}.get(reduction, reduction)
)
TABLE["scatter_elements"] = lambda m, x, at, u, axis=0, reduction="none": R.scatter_elements(
    x, at, u, axis, {"none": "update"}.get(reduction, reduction)
)
TABLE["argmax"] = lambda m, x, axis=-1, keep_dims=False, last=False: arg_extreme(R.argmax, x, axis, keep_dims, last)
TABLE["argmin"] = lambda m, x, axis=-1, keep_dims=False, last=False: arg_extreme(R.argmin, x, axis, keep_dims, last)


@takes("reshape")
def reshape(m, x, shape):
    """Without elements there is nothing to take over, and TVM reads a size 0 as that of the operand."""
    sizes = list(shape.values) if isinstance(shape, relax.ShapeExpr) else shape
    if any(isinstance(size, (int, tirx.IntImm)) and int(size) == 0 for size in sizes):
        return R.zeros(sizes, str(type_of(x).dtype))
    return R.reshape(x, shape)


def dtype_of(dtype):
    return {ours: theirs for theirs, ours in DTYPES.items()}[str(dtype)]


def unsupported(what):
    return Error(f"{what} has no counterpart in Relax", Code.UNSUPPORTED)


def arg_extreme(op, x, axis, keep_dims, last):
    if last:
        raise unsupported("the last one of equal elements")
    return op(x, axis, keep_dims)


@takes("elu")
def elu(m, x, alpha=1.0):
    return R.where(
        R.greater(x, m.numbers(x, 0)), x, R.multiply(m.numbers(x, alpha), R.subtract(R.exp(x), m.numbers(x, 1)))
    )


@takes("clip")
def clip(m, x, min=float("-inf"), max=float("inf")):
    whole = "int" in str(type_of(x).dtype)
    if not whole:
        return R.clip(x, min, max)
    if min != float("-inf"):
        x = m(R.maximum(x, m.numbers(x, int(min) if whole else min)))
    return x if max == float("inf") else R.minimum(x, m.numbers(x, int(max) if whole else max))


@takes("matmul")
def matmul(m, a, b, bias=None, transpose_b=False):
    if transpose_b:
        rank = type_of(b).ndim
        b = m(R.permute_dims(b, [*range(rank - 2), rank - 1, rank - 2]))
    made = R.matmul(a, b)
    return made if bias is None else R.add(m(made), bias)


@takes("layer_norm")
def layer_norm(m, x, scale, bias, epsilon=1e-5):
    return R.nn.layer_norm(x, scale, bias, axes=[-1], epsilon=epsilon)


@takes("rms_norm")
def rms_norm(m, x, scale, epsilon=1e-5):
    return R.nn.rms_norm(x, scale, axes=[-1], epsilon=epsilon)


for reduction in ("sum", "prod", "max", "min", "mean"):
    TABLE["reduce_" + reduction] = lambda m, x, axes=None, keep_dims=False, op=getattr(R, reduction): op(
        x, axes, keep_dims
    )


for running in ("cumsum", "cumprod"):

    @takes(running)
    def from_the_front(m, x, axis=-1, exclusive=False, reverse=False, op=getattr(R, running), name=running):
        if reverse:
            raise unsupported(f"a {name} from the end")
        return op(x, axis, exclusive=exclusive)


@takes("top_k")
def top_k(m, x, k, axis=-1, largest=True):
    return R.topk(x, k, axis, "both", largest, "int64")


@takes("split")
def split(m, x, sections, axis=0):
    at, total = [], 0
    for size in sections[:-1]:
        total += size
        at.append(total)
    return R.split(x, at, axis)


@takes("slice")
def slice_(m, x, begin=None, size=None, starts=None, ends=None, axes=None, steps=None):
    if begin is not None:
        ends = [a + b for a, b in zip(begin.values, size.values)]
        return R.strided_slice(x, list(range(len(ends))), list(begin.values), ends, assume_inbound=True)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(axes) if steps is None else steps
    return R.strided_slice(x, axes, starts, ends, steps)


@takes("gather")
def gather(m, x, at, axis=0):
    dims, dtype = type_of(x).shape.values, str(type_of(at).dtype)
    size = dims[axis]
    if isinstance(size, tirx.IntImm):
        end = relax.const(int(size), dtype)
    else:  # as many as there are, read of a tensor of that many ones
        ones = R.ones(relax.ShapeExpr([size]), dtype)
        end = m(R.sum(m(ones)))
    zero = relax.const(0, dtype)
    at = m(R.where(m(R.less(at, zero)), m(R.add(at, end)), at))
    return R.take(x, at, axis, "clip")


@takes("pad")
def pad(m, x, before, after, mode="constant", value=0.0):
    return R.nn.pad(x, [n for pair in zip(before, after) for n in pair], pad_value=value, pad_mode=mode)


@takes("one_hot")
def one_hot(m, ids, depth, axis=-1, on=1.0, off=0.0, dtype="f32"):
    kind = dtype_of(dtype)
    on, off = (number(tirx.FloatImm(kind, v) if "float" in kind else tirx.IntImm(kind, int(v))) for v in (on, off))
    return R.one_hot(ids, on, off, depth, axis)


@takes("range")
def range_(m, shape=None, length=None, start=0, step=1, dtype="f32"):
    kind = dtype_of(dtype)
    size = shape.values[0] if shape is not None else tirx.IntImm("int64", length)
    counted = m(R.arange(tirx.IntImm("int64", 0), size, tirx.IntImm("int64", 1), "int64"))
    counted = m(R.astype(counted, kind))
    whole = "int" in kind
    made = m(R.multiply(counted, relax.const(int(step) if whole else step, kind)))
    return R.add(made, relax.const(int(start) if whole else start, kind))


def convolution(rank):
    def make(m, x, w, bias=None, strides=None, padding=None, dilation=None, groups=1):
        made = getattr(R.nn, f"conv{rank}d")(
            x, w, strides or [1] * rank, padding or [0] * rank, dilation or [1] * rank, groups
        )
        return made if bias is None else R.add(m(made), m(R.reshape(bias, [1, -1] + [1] * rank)))

    TABLE[f"conv{rank}d"] = make


for spatial in (1, 2, 3):
    convolution(spatial)


@takes("conv_transpose")
def conv_transpose(m, x, w, bias=None, strides=None, padding=None, dilation=None, groups=1, output_padding=None):
    rank = type_of(x).ndim - 2
    one, zero = [1] * rank, [0] * rank
    made = getattr(R.nn, f"conv{rank}d_transpose")(
        x, w, strides or one, padding or zero, output_padding or zero, dilation or one, groups
    )
    return made if bias is None else R.add(m(made), m(R.reshape(bias, [1, -1] + one)))


@takes("max_pool2d")
def max_pool(m, x, kernel, strides=(1, 1), padding=(0, 0), dilation=(1, 1), ceil_mode=False):
    return R.nn.max_pool2d(x, kernel, strides, padding, dilation, ceil_mode)


@takes("avg_pool2d")
def avg_pool(m, x, kernel, strides=(1, 1), padding=(0, 0), dilation=(1, 1), ceil_mode=False, count_include_pad=True):
    return R.nn.avg_pool2d(x, kernel, strides, padding, dilation, ceil_mode, count_include_pad)


COORDINATES = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"}


@takes("resize")
def resize(
    m,
    x,
    size,
    *more,
    mode="nearest",
    coordinates="half_pixel",
    nearest="round_prefer_floor",
    axes=None,
    cubic_coeff=-0.75,
    exclude_outside=False,
    extrapolation=0.0,
):
    rank = type_of(x).ndim
    axes = list(range(rank)) if axes is None else axes
    if more or axes not in ([2, 3], [2, 3, 4]) or rank != axes[-1] + 1 or coordinates not in COORDINATES:
        raise unsupported(f"a resize over the axes {axes} with the coordinates '{coordinates}'")
    method, layout = {"nearest": "nearest_neighbor"}.get(mode, mode), "NCDHW" if rank == 5 else "NCHW"
    settings = (method, coordinates, nearest if mode == "nearest" else "", cubic_coeff, int(exclude_outside))
    make = R.image.resize3d if rank == 5 else R.image.resize2d
    return make(x, relax.ShapeExpr(list(size.values)[2:]), None, layout, *settings)


@takes("grid_sample")
def grid_sample(m, x, grid, mode="linear", padding="zeros", align_corners=False):
    if type_of(x).ndim != 4:
        raise unsupported("sampling of three dimensions")
    grid = m(R.permute_dims(grid, [0, 3, 1, 2]))
    method = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return R.image.grid_sample(x, grid, method, "NCHW", padding, align_corners)


@takes("attention")
def attention(m, q, k, v, lengths=None, mask=None, places=None, scale=None, causal=False, window=0):
    if lengths is not None or places is not None or window:
        raise unsupported("attention over a cache")
    return R.nn.attention(q, k, v, mask, scale, "BottomRight" if causal else None)


__all__ = ["Making", "TABLE", "tvm"]
