"""Layers of PyTorch: attention, recurrent layers, pooling, sampling."""

import torch
from tvm import relax

from .dialect import TensorType, TupleType, packed
from .dims import refuse
from .torch_ops import DTYPES, TABLE, converts, product, size


@converts("scaled_dot_product_attention.default")
def attention(n, a):
    query, key, value = a.query, a.key, a.value
    rank = len(n.dims(query))
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
        last = [[] for _ in range(states)]
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
            tensor = lambda *dims: TensorType(list(dims), dtype)  # noqa: E731
            types = [tensor(length, directions, batch, hidden)] + [tensor(directions, batch, hidden)] * states
            made = n.emit(packed(f"cugrt.{kind}", stacked, TupleType(types)))
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


# --- Pooling and sampling ---


@converts("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(n, a):
    users = [user for user in n.node.users if user.args[1] == 1 and user.users]
    if users:
        raise refuse("the positions of a max_pool are not supported")
    rank = len(a.kernel_size)
    given = (a.kernel_size, a.stride or a.kernel_size, a.padding, a.dilation)
    settings = [list(one) * (rank // len(one)) for one in given]
    impl = getattr(n.importer, f"_max_pool{rank}d_impl")
    return relax.Tuple([impl(a.self, *settings, a.ceil_mode)])


@converts("native_dropout.default")
def dropout(n, a):
    if a.train and a.p:
        raise refuse("dropout is of training; model.eval() before the export makes it inference")
    return relax.Tuple([a.input])


@converts("avg_pool2d.default")
def avg_pool(n, a):
    if a.divisor_override is not None:
        raise refuse("avg_pool2d with a divisor of its own is not supported")
    pair = lambda one: list(one) * (2 // len(one))  # noqa: E731
    strides = pair(a.stride) if a.stride else pair(a.kernel_size)
    x = a.self if len(n.dims(a.self)) == 4 else n.emit(relax.op.expand_dims(a.self, [0]))
    made = n.emit(
        relax.op.nn.avg_pool2d(
            x,
            pair(a.kernel_size),
            strides,
            pair(a.padding),
            ceil_mode=a.ceil_mode,
            count_include_pad=a.count_include_pad,
        )
    )
    return made if len(n.dims(a.self)) == 4 else n.emit(relax.op.squeeze(made, [0]))


@converts("grid_sampler_2d.default")
def grid_sampler(n, a):
    """PyTorch's grid is [N, H, W, 2], Relax's [N, 2, H, W]."""
    grid = n.emit(relax.op.permute_dims(a.grid, [0, 3, 1, 2]))
    method = ["bilinear", "nearest", "bicubic"][a.interpolation_mode]
    padding = ["zeros", "border", "reflection"][a.padding_mode]
    return n.emit(relax.op.image.grid_sample(a.input, grid, method, "NCHW", padding, a.align_corners))
