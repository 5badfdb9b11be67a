"""Ops that are several of the table's."""

import math

import numpy
from tvm import relax, tirx

from .dialect import VERSION, TensorType, type_of
from .dims import refuse
from .ops import TABLE, axis_in, cast, constant, dims_of, flattened, numbers, takes, window_of
from .shaping import ONE, counted, listed

for same in ("grad.no_grad", "grad.start_checkpoint", "grad.end_checkpoint"):
    TABLE[same] = lambda f, e: f.value(e.args[0])


@takes("atan2")
def atan2(f, e):
    y, x = f.value(e.args[0]), f.value(e.args[1])
    dtype = type_of(e).dtype
    zero, right = f.scalar(0, dtype), f.scalar(math.pi / 2, dtype)
    below = f.op("less", y, zero)
    half = f.op("where", below, f.op("neg", right), right)
    over = f.op("atan", f.op("div", y, x))
    left = f.op("add", over, f.op("mul", half, f.scalar(2, dtype)))
    on_axis = f.op("where", f.op("equal", y, zero), f.op("mul", y, zero), half)
    beside = f.op("where", f.op("less", x, zero), left, over)
    return f.op("where", f.op("equal", x, zero), on_axis, beside)


def spread(f, e, rank, axis):
    """A scale or zero point so that it stretches along the axis."""
    x, dims = f.value(e), dims_of(e)
    if all(isinstance(d, tirx.IntImm) and int(d) == 1 for d in dims):
        return f.reshape(x, [])
    return f.reshape(x, [*dims, *[1] * (rank - axis - 1)])


LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


@takes("quantize")
def quantize(f, e):
    dims, dtype = dims_of(e.args[0]), str(type_of(e).dtype)
    if dtype not in LIMITS:
        raise refuse(f"quantize to {dtype} is not supported; {', '.join(LIMITS)} are")
    axis, kind = axis_in(e.attrs.axis, len(dims)), type_of(e.args[0]).dtype
    scale, zero = (cast(f, spread(f, a, len(dims), axis), kind) for a in e.args[1:])
    x = f.op("add", f.op("round", f.op("div", f.value(e.args[0]), scale)), zero)
    low, high = LIMITS[dtype]
    return cast(f, f.op("clip", x, min=float(low), max=float(high)), dtype)


@takes("dequantize")
def dequantize(f, e):
    dims, dtype = dims_of(e.args[0]), str(type_of(e).dtype)
    axis = axis_in(e.attrs.axis, len(dims))
    x, scale, zero = f.value(e.args[0]), *(spread(f, a, len(dims), axis) for a in e.args[1:])
    if "float" not in str(type_of(e.args[0]).dtype):
        x, zero = cast(f, x, "int32"), cast(f, zero, "int32")
    gap = f.op("sub", x, zero)
    made = f.op("mul", cast(f, gap, "float32"), cast(f, scale, "float32"))
    return made if dtype == "float32" else cast(f, f.op("clip", made, min=-65504.0, max=65504.0), dtype)


@takes("einsum")
def einsum(f, e):
    parts, types = listed(f, e.args[0])
    given, _, wanted = str(e.attrs.subscripts).replace(" ", "").partition("->")
    names = given.split(",")
    if "." in given or not wanted and "->" not in str(e.attrs.subscripts):
        raise refuse(f"einsum '{e.attrs.subscripts}' is not supported: results are named, and dots have no place")
    if any(len(set(own)) != len(own) for own in names):
        raise refuse(f"einsum '{e.attrs.subscripts}' takes a diagonal, which is not supported")
    sizes = {c: d for own, t in zip(names, types) for c, d in zip(own, t.shape.values)}

    def ordered(x, own, order):
        axes = [own.index(c) for c in order if c in own]
        x = x if axes == sorted(axes) else f.op("transpose", x, axes=axes)
        return f.reshape(x, [sizes[c] if c in own else 1 for c in order])

    def reduced(x, own, kept):
        axes = [i for i, c in enumerate(own) if c not in kept]
        if axes:
            x = f.op("reduce_sum", x, axes=axes, keep_dims=False)
        return x, "".join(c for c in own if c in kept)

    x, own = parts[0], names[0]
    for number, (y, other) in enumerate(zip(parts[1:], names[1:]), 1):
        later = set(wanted).union(*names[number + 1 :])
        x, own = reduced(x, own, later | set(other))
        y, other = reduced(y, other, later | set(own))
        batch = [c for c in own if c in other and c in later]
        summed = [c for c in own if c in other and c not in later]
        rows, columns = [c for c in own if c not in other], [c for c in other if c not in own]

        def grouped(x, own, groups):
            x = ordered(x, own, [c for group in groups for c in group])
            return f.reshape(x, [math.prod((sizes[c] for c in group), start=ONE) for group in groups])

        made = f.op("matmul", grouped(x, own, [batch, rows, summed]), grouped(y, other, [batch, summed, columns]))
        own = "".join(batch + rows + columns)
        x = f.reshape(made, [sizes[c] for c in own])
    x, own = reduced(x, own, set(wanted))
    return ordered(x, own, wanted)


@takes("hamming_window")
def hamming_window(f, e):
    size, periodic, alpha, beta = (getattr(a, "value", None) for a in e.args)
    if None in (size, alpha, beta):
        raise refuse("hamming_window of a size or coefficient that is a symbol is not supported")
    size = int(size)
    steps = size if periodic else max(size - 1, 1)
    made = float(alpha) - float(beta) * numpy.cos(2 * math.pi * numpy.arange(size) / steps)
    array = made.astype(str(type_of(e).dtype))
    return f.let(f"constant @{f.reader.constant(array)}")


@takes("image.affine_grid")
def affine_grid(f, e):
    dims, dtype = dims_of(e), type_of(e).dtype
    sizes, by_corners = numbers(dims[2:]), VERSION < (0, 26) or e.attrs.align_corners
    lines = []
    for axis in reversed(range(len(sizes))):
        size = sizes[axis]
        start, step = (-1.0, 2.0 / max(size - 1, 1)) if by_corners else (-1.0 + 1.0 / size, 2.0 / size)
        line = counted(f, dims[2 + axis], dtype, start, step)
        line = f.reshape(line, [size if i == axis else 1 for i in range(len(sizes))])
        lines.append(f.reshape(f.broadcast(line, sizes), [1, math.prod(sizes)]))
    lines.append(f.broadcast(f.scalar(1, dtype), [1, math.prod(sizes)]))
    return f.reshape(f.op("matmul", f.value(e.args[0]), f.op("concat", *lines, axis=0)), dims)


@takes("index_put")
def index_put(f, e):
    x, dims = f.value(e.args[0]), dims_of(e.args[0])
    if isinstance(type_of(e.args[1]), TensorType):
        parts, types = [f.value(e.args[1])], [type_of(e.args[1])]
    else:
        parts, types = listed(f, e.args[1])
    shapes = [list(t.shape.values) for t in types]
    rank = max(map(len, shapes))
    common = [1] * rank
    for shape in shapes:
        for i, d in enumerate(shape, rank - len(shape)):
            common[i] = d if f.dims.text(common[i]) == "1" else common[i]
    at = []
    for part, d in zip(parts, dims):
        part = f.broadcast(cast(f, part, "int64"), common)
        zero, size = f.scalar(0, "int64"), f.scalar(constant(d, "a dimension that index_put writes to"), "int64")
        at.append(f.reshape(f.op("where", f.op("less", part, zero), f.op("add", part, size), part), [*common, 1]))
    updates = f.broadcast(f.value(e.args[2]), [*common, *dims[len(parts) :]])
    reduction = "add" if e.attrs.accumulate else "none"
    return f.op("scatter_nd", x, f.op("concat", *at, axis=rank), updates, reduction=reduction)


@takes("median")
def median(f, e):
    x, axes, dims = f.value(e.args[0]), e.attrs.axis, dims_of(e.args[0])
    if not axes:
        x, axis, dims = flattened(f, e.args[0], x), 0, [math.prod(dims, start=ONE)]
    elif len(axes) > 1:
        raise refuse("median over several axes is not supported")
    else:
        axis = axis_in(axes[0], len(dims))
    middle = (constant(dims[axis], "the dimension of median") - 1) // 2
    sorted_ = f.op("top_k", x, k=middle + 1, axis=axis, largest=False, results=2)
    made = [f.op("slice", one, starts=[middle], ends=[middle + 1], axes=[axis]) for one in sorted_]
    types = [type_of(e)] if not axes else list(type_of(e).fields)
    made = [f.reshape(one, list(t.shape.values)) for one, t in zip(made, types)]
    return made if axes else made[0]


@takes("meshgrid")
def meshgrid(f, e):
    parts, types = listed(f, e.args[0])
    swapped = str(e.attrs.indexing) == "xy" and len(parts) > 1
    order = [1, 0, *range(2, len(parts))] if swapped else list(range(len(parts)))
    made = []
    for part, t, place, whole in zip(parts, types, order, type_of(e).fields):
        dims = [t.shape.values[0] if i == place else 1 for i in range(len(parts))]
        made.append(f.broadcast(f.reshape(part, dims), list(whole.shape.values)))
    return made


@takes("reverse_sequence")
def reverse_sequence(f, e):
    dims = dims_of(e)
    along, batch = axis_in(e.attrs.seq_axis, len(dims)), axis_in(e.attrs.batch_axis, len(dims))

    def lying(x, axis):
        return f.reshape(x, [dims[i] if i == axis else 1 for i in range(len(dims))])

    at = lying(counted(f, dims[along], "int64"), along)
    lengths = lying(cast(f, f.value(e.args[1]), "int64"), batch)
    back = f.op("sub", f.op("sub", lengths, f.scalar(1, "int64")), at)
    places = f.op("where", f.op("less", at, lengths), back, at)
    return f.op("gather_elements", f.value(e.args[0]), f.broadcast(places, dims), axis=along)


@takes("slice_scatter")
def slice_scatter(f, e):
    x, part, dims = f.value(e.args[0]), f.value(e.args[1]), dims_of(e.args[1])
    axis = axis_in(e.attrs.axis, len(dims))
    start, _, step = (constant(a, "a bound of slice_scatter") for a in e.args[2:5])
    if start < 0:
        start += constant(dims_of(e)[axis], "the dimension of slice_scatter")
    at = counted(f, dims[axis], "int64", start, step)
    at = f.broadcast(f.reshape(at, [dims[axis] if i == axis else 1 for i in range(len(dims))]), dims)
    return f.op("scatter_elements", x, at, part, axis=axis, reduction="none")


@takes("bucketize")
def bucketize(f, e):
    x, edges, dims = f.value(e.args[0]), f.value(e.args[1]), dims_of(e)
    if str(type_of(e.args[0]).dtype) != str(type_of(e.args[1]).dtype):
        edges = cast(f, edges, type_of(e.args[0]).dtype)
    before = f.op("less_equal" if e.attrs.right else "less", edges, f.reshape(x, [*dims, 1]))
    return f.op("reduce_sum", cast(f, before, type_of(e).dtype), axes=[len(dims)], keep_dims=False)


@takes("shape_to_tensor")
def shape_to_tensor(f, e):
    shape = f.value(e.args[0])
    if not isinstance(shape, relax.ShapeExpr):
        raise refuse("shape_to_tensor of a shape that is not written out is not supported")
    parts = [f.reshape(size_tensor(f, d), [1]) for d in shape.values]
    return f.op("concat", *parts, axis=0) if len(parts) > 1 else parts[0]


def size_tensor(f, d):
    """A dimension as a tensor of i64."""
    if isinstance(d, tirx.IntImm):
        return f.scalar(int(d), "int64")
    # As many ones.
    return f.op("reduce_sum", f.broadcast(f.scalar(1, "int64"), [d]), axes=[0], keep_dims=False)


@takes("image.resize3d")
def resize3d(f, e):
    a = e.attrs
    method, rounding = str(a.method), str(a.rounding_method)
    if method not in ("nearest_neighbor", "linear") or str(type_of(e).dtype) != str(type_of(e.args[0]).dtype):
        raise refuse(f"image.resize3d with method '{method}' is not supported")
    nearest = {"round": "round_prefer_ceil", "": "round_prefer_floor"}.get(rounding, rounding)
    return f.op(
        "resize",
        f.value(e.args[0]),
        f.let("shape " + f.dims.list(dims_of(e))),
        mode="linear" if method == "linear" else "nearest",
        axes=[2, 3, 4],
        coordinates=str(a.coordinate_transformation_mode),
        nearest=None if method == "linear" else nearest,
    )


def pool3d(f, e, kind, settings, count):
    have, want = dims_of(e.args[0]), dims_of(e)
    x = f.reshape(f.value(e.args[0]), [have[0] * have[1], *have[2:]])
    one = {"kernel": 1, "strides": 1, "dilation": 1, "padding": 0}

    def over(picked):
        """The settings of a pool over two dimensions; one that is None is not pooled over."""
        made = {}
        for key, value in settings.items():
            if key == "ceil_mode":
                made[key] = value
                continue
            sides = [value[:3], value[3:]] if key == "padding" else [value]
            made[key] = [one[key] if i is None else side[i] for side in sides for i in picked]
        return made

    more = {} if kind == "max_pool2d" else {"count_include_pad": count}
    x = f.op(kind, x, **over((1, 2)), **more)
    x = f.reshape(x, [have[0] * have[1], 1, have[2], want[3] * want[4]])
    return f.reshape(f.op(kind, x, **over((0, None)), **more), want)


@takes("nn.max_pool3d", "nn.avg_pool3d")
def windows3d(f, e):
    return pool3d(f, e, *window_of(e))


@takes("nn.adaptive_avg_pool3d")
def adaptive3d(f, e):
    have, want = numbers(dims_of(e.args[0])[2:]), numbers(dims_of(e)[2:])
    if any(a % b for a, b in zip(have, want)):
        raise refuse(f"nn.adaptive_avg_pool3d from {have} to {want} is not supported; whole windows are")
    kernel = [a // b for a, b in zip(have, want)]
    return pool3d(f, e, "avg_pool2d", {"kernel": kernel, "strides": kernel, "padding": [0] * 6}, True)


@takes("nn.cross_entropy_with_logits")
def cross_entropy(f, e):
    dims = dims_of(e.args[0])
    made = f.op("mul", f.value(e.args[0]), f.value(e.args[1]))
    made = f.op("neg", f.op("reduce_sum", made, axes=list(range(len(dims))), keep_dims=False))
    if len(dims) < 2:
        return made
    return f.op("div", made, cast(f, size_tensor(f, dims[0]), type_of(e).dtype))


@takes("nn.nll_loss")
def nll_loss(f, e):
    a, dims, dtype = e.attrs, dims_of(e.args[0]), type_of(e).dtype
    axis = 0 if len(dims) == 1 else 1
    targets = cast(f, f.value(e.args[1]), "int64")
    counts = dims_of(e.args[1])
    kept = f.op("not_equal", targets, f.scalar(int(a.ignore_index), "int64"))
    targets = f.op("where", kept, targets, f.scalar(0, "int64"))
    spread_ = f.reshape(targets, [*dims[:axis], 1, *dims[axis + 1 :]])
    picked = f.reshape(f.op("gather_elements", f.value(e.args[0]), spread_, axis=axis), counts)
    if len(e.args) > 2:
        weights = f.op("gather", f.value(e.args[2]), targets, axis=0)
    else:
        weights = f.broadcast(f.scalar(1, dtype), counts)
    weights = f.op("where", kept, weights, f.scalar(0, dtype))
    losses = f.op("neg", f.op("mul", picked, weights))
    if str(a.reduction) == "none":
        return losses
    axes = list(range(len(counts)))
    total = f.op("reduce_sum", losses, axes=axes, keep_dims=False) if axes else losses
    if str(a.reduction) == "sum":
        return total
    weight = f.op("reduce_sum", weights, axes=axes, keep_dims=False) if axes else weights
    return f.op("div", total, weight)
