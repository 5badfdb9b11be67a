"""What chooses, moves or replaces elements."""

import torch
from tvm import relax

from .dialect import TensorType
from .dims import refuse
from .torch_ops import DTYPES, common_of, converts, size


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
        part = n.importer.block_builder.match_cast(part, TensorType(one, n.dtype()))
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


# --- Writes ---


def spread_indices(n, indices, metas, dtype="int64"):
    """Indices of several axes as one tensor, [I.., k], of the shape that they stretch to, and that shape."""
    dims = [n.dims(one) for one in indices]
    rank = max(map(len, dims))
    shape = []
    for place in range(rank):
        found = [d[place - rank + len(d)] for d in dims if place - rank + len(d) >= 0]
        shape.append(next((d for d in found if size(d) != 1), found[0]))
    parts = []
    for one, meta in zip(indices, metas):
        one = one if meta.dtype == torch.int64 else n.emit(relax.op.astype(one, dtype))
        one = n.emit(relax.op.broadcast_to(one, shape)) if shape else one
        parts.append(n.emit(relax.op.reshape(one, [*shape, 1])))
    return (parts[0] if len(parts) == 1 else n.emit(relax.op.concat(parts, rank))), shape


@converts("index_put.default", "_unsafe_index_put.default")
def index_put(n, a):
    """Of several values for one place any one stands, as with PyTorch."""
    rank, metas = len(n.dims(a.self)), [m.meta["val"] if m is not None else None for m in n.metas["indices"]]
    axes = [i for i, one in enumerate(a.indices) if one is not None]
    if any(metas[i].dtype == torch.bool for i in axes):
        raise refuse("an index of bool, whose extent the data size, is not supported")
    rest = [i for i in range(rank) if i not in axes]
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    at, shape = spread_indices(n, [a.indices[i] for i in axes], [metas[i] for i in axes])
    dims, before = n.dims(a.self), axes[0] if together else 0
    # Values lie as what reading gives: the indices' shape where they are, or first where a gap parts them.
    full = [dims[i] for i in rest[:before]] + shape + [dims[i] for i in rest[before:]]
    values = n.emit(relax.op.broadcast_to(a.values, full))
    if before:
        order = [*range(before, before + len(shape)), *range(before), *range(before + len(shape), len(full))]
        values = n.emit(relax.op.permute_dims(values, order))
    moved = axes + rest != list(range(rank))
    x = n.emit(relax.op.permute_dims(a.self, axes + rest)) if moved else a.self
    made = n.emit(relax.op.scatter_nd(x, at, values, "add" if a.accumulate else "update"))
    back = [(axes + rest).index(i) for i in range(rank)]
    return n.emit(relax.op.permute_dims(made, back)) if moved else made


def part(n, x, axis, begin, end):
    """Elements of the axis from begin to before end; None where there are none."""
    if str(size(begin)) == str(size(end)):
        return None
    made = n.emit(relax.op.strided_slice(x, [axis], [begin], [end]))
    dims = n.dims(x)
    wanted = dims[:axis] + [end - begin] + dims[axis + 1 :]
    if all(isinstance(size(one), int) for one in (begin, end, dims[axis])):
        return made
    dtype = DTYPES[n.metas["self"].dtype]
    return n.importer.block_builder.match_cast(made, TensorType(wanted, dtype))


@converts("slice_scatter.default")
def slice_scatter(n, a):
    if a.step != 1:
        raise refuse("a write to a slice with a stride is not supported")
    axis, source = n.negative_axis(a.dim, a.self), n.importer.shape_of(a.src)
    extent, length = size(n.dims(a.self)[axis]), size(source[axis])
    begin = 0 if a.start is None else a.start
    if isinstance(begin, int):
        begin = min(begin, extent) if isinstance(extent, int) else begin
        begin = begin + extent if isinstance(begin, int) and begin < 0 else begin
    end = begin + length
    parts = [part(n, a.self, axis, 0, begin), a.src, part(n, a.self, axis, end, extent)]
    parts = [one for one in parts if one is not None]
    return parts[0] if len(parts) == 1 else n.emit(relax.op.concat(parts, axis))


@converts("select_scatter.default")
def select_scatter(n, a):
    axis = n.negative_axis(a.dim, a.self)
    a.dim, a.step, a.start = axis, 1, a.index
    a.src = n.emit(relax.op.expand_dims(a.src, [axis]))
    return slice_scatter(n, a)


@converts("scatter.src")
def scatter(n, a):
    return n.emit(relax.op.scatter_elements(a.self, a.index, a.src, n.negative_axis(a.dim, a.self), "update"))


@converts("scatter_add.default", "scatter_reduce.two", "scatter.reduce")
def scatter_reduce(n, a):
    kinds = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}
    kind = kinds.get(getattr(a, "reduce", "sum"))
    if kind is None or not getattr(a, "include_self", True):
        raise refuse(f"scatter_reduce with reduce '{a.reduce}' and include_self {a.include_self} is not supported")
    return n.emit(relax.op.scatter_elements(a.self, a.index, a.src, n.negative_axis(a.dim, a.self), kind))
