"""The ops of the table that move, choose or make elements."""

import math

from tvm import relax, tirx

from cugrt import dtype as dtype_attribute

from .builtins import whole_view
from .dialect import Constant, TensorType, bare, content, type_of
from .dims import DTYPES, refuse
from .ops import axis_in, cast, constant, dims_of, flattened, numbers, takes

ONE = tirx.IntImm("int64", 1)


@takes("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten")
def reshape(f, e):
    if f.reader.opaque:
        return whole_view(f, e)
    return f.reshape(f.value(e.args[0]), dims_of(e))


@takes("permute_dims")
def permute_dims(f, e):
    rank = len(dims_of(e.args[0]))
    axes = e.attrs.axes
    return f.op("transpose", f.value(e.args[0]), axes=[axis_in(a, rank) for a in axes] if axes is not None else None)


@takes("broadcast_to")
def broadcast_to(f, e):
    return f.broadcast(f.value(e.args[0]), dims_of(e))


def listed(f, e):
    """The parts of a tuple operand, and their types."""
    return f.value(e), list(type_of(e).fields)


@takes("concat")
def concat(f, e):
    return f.op("concat", *listed(f, e.args[0])[0], axis=0 if e.attrs.axis is None else int(e.attrs.axis))


@takes("stack")
def stack(f, e):
    parts, types = listed(f, e.args[0])
    axis = axis_in(e.attrs.axis or 0, len(dims_of(e)))
    dims = list(types[0].shape.values)
    return f.op("concat", *(f.reshape(x, [*dims[:axis], 1, *dims[axis:]]) for x in parts), axis=axis)


@takes("split")
def split(f, e):
    axis = int(e.attrs.axis)
    at = axis_in(axis, len(dims_of(e.args[0])))
    types = list(type_of(e).fields)
    sizes = [t.shape.values[at] for t in types]
    if len(types) == 1:
        return [f.value(e.args[0])]
    if all(isinstance(size, tirx.IntImm) for size in sizes):
        return f.op("split", f.value(e.args[0]), axis=axis, sections=numbers(sizes), results=len(types))
    x, begin, parts, dims = f.value(e.args[0]), tirx.IntImm("int64", 0), [], dims_of(e.args[0])
    for t in types:
        starts = [0] * at + [begin] + [0] * (len(dims) - at - 1)
        parts.append(part(f, x, starts, list(t.shape.values)))
        begin = begin + t.shape.values[at]
    return parts


def part(f, x, begin, size):
    """What of x begins there and is so large."""
    return f.op("slice", x, f.let("shape " + f.dims.list(begin)), f.let("shape " + f.dims.list(size)))


@takes("strided_slice")
def strided_slice(f, e):
    x, lists = f.value(e.args[0]), [
        (
            [bare(field) for field in a.fields]
            if isinstance(a, relax.Tuple)
            else list(a.values) if isinstance(a, relax.ShapeExpr) else None
        )
        for a in e.args[1:]
    ]
    axes, begin, end = lists[:3]
    if None in (axes, begin, end):
        raise refuse("strided_slice whose bounds are not written out is not supported")
    axes = numbers(axes)
    steps = lists[3] if len(lists) > 3 and lists[3] is not None else [1] * len(axes)
    steps = numbers(steps)
    if all(isinstance(b, (int, tirx.IntImm)) for b in begin + end):
        return f.op("slice", x, starts=numbers(begin), ends=numbers(end), axes=axes, steps=steps)
    if any(step != 1 for step in steps):
        raise refuse("strided_slice with symbolic bounds and a stride is not supported")
    dims = dims_of(e.args[0])
    begins = [0] * len(dims)
    for axis, at in zip(axes, begin):
        axis = axis_in(axis, len(dims))
        negative = isinstance(at, tirx.IntImm) and int(at) < 0
        begins[axis] = tirx.min(at + dims[axis] if negative else at, dims[axis])
        if f.dims.text(at) == "0":
            begins[axis] = 0
    return part(f, x, begins, dims_of(e))


@takes("flip")
def flip(f, e):
    axis = axis_in(e.attrs.axis, len(dims_of(e)))
    return f.op("slice", f.value(e.args[0]), starts=[-1], ends=[-(2**63)], axes=[axis], steps=[-1])


@takes("repeat")
def repeat(f, e):
    x, times, axis, dims = f.value(e.args[0]), int(e.attrs.repeats), e.attrs.axis, dims_of(e.args[0])
    if axis is None:
        x, axis, dims = flattened(f, e.args[0], x), 0, [math.prod(dims, start=ONE)]
    axis = axis_in(axis, len(dims))
    spread = f.broadcast(
        f.reshape(x, [*dims[: axis + 1], 1, *dims[axis + 1 :]]), [*dims[: axis + 1], times, *dims[axis + 1 :]]
    )
    return f.reshape(spread, dims_of(e))


@takes("tile")
def tile(f, e):
    x, times, dims = f.value(e.args[0]), numbers(e.attrs.repeats), dims_of(e.args[0])
    rank = max(len(times), len(dims))
    times, dims = [1] * (rank - len(times)) + times, [1] * (rank - len(dims)) + dims
    x = f.reshape(x, [d for dim in dims for d in (1, dim)])
    return f.reshape(f.broadcast(x, [d for pair in zip(times, dims) for d in pair]), dims_of(e))


def from_the_end(f, ids):
    """What to_relax makes of the table's index: those below 0 count from the end. The index, or None of another."""

    def made_by(var, name):
        e = f.bound.get(var) if isinstance(var, relax.Var) else None
        return e if isinstance(e, relax.Call) and getattr(e.op, "name", "") == "relax." + name else None

    chosen = made_by(ids, "where")
    below, above = (
        (made_by(a, name) for a, name in zip(chosen.args, ("less", "add"))) if chosen is not None else (None, None)
    )
    if below is None or above is None:
        return None
    at = chosen.args[2]
    zero = below.args[1]
    is_zero = isinstance(zero, Constant) and not content(zero).numpy().any()
    return at if is_zero and at.same_as(below.args[0]) and at.same_as(above.args[0]) else None


@takes("take")
def take(f, e):
    x, ids = f.value(e.args[0]), e.args[1]
    axis, mode = e.attrs.axis, str(e.attrs.mode)
    dims = dims_of(e.args[0])
    if axis is None:
        x, axis, dims = flattened(f, e.args[0], x), 0, [math.prod(dims, start=ONE)]
    axis = axis_in(axis, len(dims))
    if isinstance(ids, (relax.expr.ShapeExpr, tirx.IntImm)) or not isinstance(type_of(ids), TensorType):
        at, dtype = constant(ids, "an index of take"), "int64"
        at += int(dims[axis]) if at < 0 else 0
        return f.op("gather", x, f.scalar(at, dtype), axis=axis)
    if mode == "clip" and (signed := from_the_end(f, ids)) is not None:
        return f.op("gather", x, f.value(signed), axis=axis)
    at, dtype = f.value(ids), str(type_of(ids).dtype)
    if dtype not in ("int32", "int64"):
        at, dtype = cast(f, at, "int64"), "int64"
    if mode == "clip":
        at = f.op("maximum", at, f.scalar(0, dtype))
    elif mode == "wrap":
        at = f.op("floor_mod", at, f.scalar(constant(dims[axis], "the dimension of a take that wraps"), dtype))
    elif mode != "fast":
        raise refuse(f"take with mode '{mode}' is not supported")
    return f.op("gather", x, at, axis=axis)


@takes("gather_elements")
def gather_elements(f, e):
    return f.op("gather_elements", *map(f.value, e.args), axis=int(e.attrs.axis))


@takes("gather_nd")
def gather_nd(f, e):
    return f.op("gather_nd", *map(f.value, e.args), batch_dims=int(e.attrs.batch_dims))


REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@takes("scatter_elements", "scatter_nd")
def scatter(f, e):
    kind, name = str(e.attrs.reduction), e.op.name.removeprefix("relax.")
    if kind not in REDUCTIONS:
        raise refuse(f"{name} with reduction '{kind}' is not supported")
    more = {"axis": int(e.attrs.axis)} if name == "scatter_elements" else {}
    return f.op(name, *map(f.value, e.args), **more, reduction=REDUCTIONS[kind])


@takes("index_tensor")
def index_tensor(f, e):
    parts, types = listed(f, e.args[1])
    if len(parts) == 1:
        return f.op("gather", f.value(e.args[0]), parts[0], axis=0)
    rank = len(dims_of(e)) - len(dims_of(e.args[0])) + len(parts)
    dims = dims_of(e)[:rank]
    spread = [f.reshape(f.broadcast(cast(f, x, "int64"), dims), [*dims, 1]) for x in parts]
    return f.op("gather_nd", f.value(e.args[0]), f.op("concat", *spread, axis=rank))


@takes("nn.pad")
def pad(f, e):
    width, mode = numbers(e.attrs.pad_width), str(e.attrs.pad_mode)
    if mode not in ("constant", "edge", "reflect"):
        raise refuse(f"nn.pad with mode '{mode}' is not supported")
    value = float(e.attrs.pad_value) if mode == "constant" else None
    return f.op("pad", f.value(e.args[0]), before=width[0::2], after=width[1::2], mode=mode, value=value)


@takes("one_hot")
def one_hot(f, e):
    on, off = (float(a.value) for a in e.args[1:3])
    ids = f.value(e.args[0])
    return f.op(
        "one_hot",
        ids,
        depth=int(e.attrs.depth),
        axis=int(e.attrs.axis),
        on=on,
        off=off,
        dtype=dtype_attribute(DTYPES[str(type_of(e).dtype)]),
    )


@takes("full", "full_like")
def full(f, e):
    value = f.value(e.args[1])
    if str(type_of(e.args[1]).dtype) != str(type_of(e).dtype):
        value = cast(f, value, type_of(e).dtype)
    return f.broadcast(value, dims_of(e))


@takes("zeros", "ones", "zeros_like", "ones_like")
def filled(f, e):
    return f.broadcast(f.scalar(int(".ones" in e.op.name), type_of(e).dtype), dims_of(e))


def counted(f, size, dtype, start=0, step=1):
    """start + i step, as many."""
    return f.op(
        "range",
        f.let("shape " + f.dims.list([size])),
        start=start,
        step=step,
        dtype=dtype_attribute(DTYPES[str(dtype)]),
    )


@takes("arange")
def arange(f, e):
    start, _, step = e.args
    if not all(isinstance(a, (tirx.IntImm, tirx.FloatImm)) for a in (start, step)):
        raise refuse("arange that begins or steps by a symbol is not supported")
    return counted(f, dims_of(e)[0], type_of(e).dtype, start.value, step.value)


@takes("triu", "tril")
def triangle(f, e):
    x, dims, shift = (
        f.value(e.args[0]),
        dims_of(e),
        constant(e.args[1] if len(e.args) > 1 else e.attrs.k, "the diagonal"),
    )
    rows, columns = f.reshape(counted(f, dims[-2], "int64", shift), [dims[-2], 1]), counted(f, dims[-1], "int64")
    keep = f.op("less_equal" if e.op.name.endswith("triu") else "greater_equal", rows, columns)
    return f.op("where", keep, x, f.scalar(0, type_of(e).dtype))


@takes("eye", "eye_like")
def eye(f, e):
    dims, shift = dims_of(e), constant(e.args[-1], "the diagonal")
    rows = f.reshape(counted(f, dims[0], "int64", shift), [dims[0], 1])
    return cast(f, f.op("equal", rows, counted(f, dims[1], "int64")), type_of(e).dtype)


@takes("topk", "sort", "argsort")
def top_k(f, e):
    a, dims = e.attrs, dims_of(e.args[0])
    axis, name = axis_in(a.axis, len(dims)), e.op.name.removeprefix("relax.")
    k = int(a.k) if name == "topk" and int(a.k) > 0 else constant(dims[axis], f"the dimension of {name}")
    largest = bool(a.largest if name == "topk" else a.descending)
    values, places = f.op("top_k", f.value(e.args[0]), k=k, axis=axis, largest=largest, results=2)
    wanted = str(a.dtype) if name != "sort" else "int64"
    kind = {"topk": str(getattr(a, "ret_type", "")), "sort": "values", "argsort": "indices"}[name]
    if kind != "values" and wanted != "int64":
        places = cast(f, places, wanted)
    return {"both": [values, places], "values": values, "indices": places}[kind]


@takes("collapse_sum_to", "collapse_sum_like")
def collapse_sum(f, e):
    have, want = dims_of(e.args[0]), dims_of(e)
    want = [1] * (len(have) - len(want)) + want
    axes = [i for i, (a, b) in enumerate(zip(have, want)) if f.dims.text(a) != f.dims.text(b)]
    x = f.value(e.args[0])
    return f.reshape(f.op("reduce_sum", x, axes=axes, keep_dims=True) if axes else x, dims_of(e))


@takes("nn.pixel_shuffle")
def pixel_shuffle(f, e):
    r, dims = int(e.attrs.upscale_factor), dims_of(e.args[0])
    *outer, c, h, w = dims
    n = len(outer)
    x = f.reshape(f.value(e.args[0]), [*outer, tirx.floordiv(c, r * r), r, r, h, w])
    return f.reshape(f.op("transpose", x, axes=[*range(n), n, n + 3, n + 1, n + 4, n + 2]), dims_of(e))


@takes("image.resize2d")
def resize(f, e):
    a = e.attrs
    method, rounding = str(a.method), str(a.rounding_method)
    if method not in ("nearest_neighbor", "linear", "cubic") or str(type_of(e).dtype) != str(type_of(e.args[0]).dtype):
        raise refuse(f"image.resize2d with method '{method}' is not supported")
    nearest = {"round": "round_prefer_ceil", "": "round_prefer_floor"}.get(rounding, rounding)
    mode = {"nearest_neighbor": "nearest"}.get(method, method)
    more = {"cubic_coeff": float(a.cubic_alpha), "exclude_outside": bool(a.cubic_exclude)} if mode == "cubic" else {}
    return f.op(
        "resize",
        f.value(e.args[0]),
        f.let("shape " + f.dims.list(dims_of(e))),
        mode=mode,
        axes=[2, 3],
        coordinates=str(a.coordinate_transformation_mode),
        nearest=nearest if mode == "nearest" else None,
        **more,
    )


@takes("image.grid_sample")
def grid_sample(f, e):
    a = e.attrs
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(str(a.method), str(a.method))
    # Relax's grid is [N, 2, H, W].
    grid = f.op("transpose", f.value(e.args[1]), axes=[0, 2, 3, 1])
    return f.op(
        "grid_sample",
        f.value(e.args[0]),
        grid,
        mode=mode,
        padding=str(a.padding_mode),
        align_corners=bool(a.align_corners),
    )
