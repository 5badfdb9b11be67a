"""From ONNX operators to our ops: one function an operator, or a row of a table.

What decides shapes (axes, pads, repeats, ..) is taken from the values of a case's inputs and becomes
attributes; the rest stays inputs of a function.
"""
import math

from onnx_file import DTYPES, Tensor

FLOATS = ("f16", "bf16", "f32", "f64")
END = (1 << 63) - 1
BEGIN = -(1 << 63)


NO_OP = "no op of ours: "


class Unsupported(Exception):
    """Why an operator is not translated."""


class Value:
    def __init__(self, name, dims, dtype):
        self.name, self.dims, self.dtype = name, dims, dtype


def product(dims):
    return math.prod(dims)


def broadcast(*shapes):
    rank = max(map(len, shapes))
    padded = [[1] * (rank - len(shape)) + list(shape) for shape in shapes]
    return [next((d for d in column if d != 1), 1) for column in zip(*padded)]


def literal(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        text = repr(value)
        return text if "." in text or "e" in text else text + ".0"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    return str(value)


class Writer:
    """A function of ours in the making. Dimensions are static."""

    def __init__(self):
        self.params, self.inputs, self.lines = [], [], []
        self.count = 0

    def param(self, tensor):
        name = f"%x{len(self.params)}"
        dims = ", ".join(map(str, tensor.dims))
        self.params.append(f"{name}: tensor<[{dims}], {tensor.dtype}>")
        self.inputs.append(tensor)
        return Value(name, tensor.dims, tensor.dtype)

    def number(self, like, value):
        return self.param(Tensor(dims=[], dtype=like.dtype, values=[value]))

    def op(self, name, operands, dims, of=None, results=1, **attributes):
        """The op's result, or results, of dtype `of`; `dims` are for later ops, unchecked here."""
        made = [f"%v{self.count + i}" for i in range(results)]
        self.count += results
        texts = ", ".join("none" if o is None else o.name for o in operands)
        given = ", ".join(f"{key} = {value if key in ('dtype',) else quoted(value)}"
                          for key, value in attributes.items())
        self.lines.append(f"  {', '.join(made)} = {name}({texts})" + (f" {{{given}}}" if given else ""))
        of = of or operands[0].dtype
        values = [Value(one, list(dims), of) for one in made]
        return values[0] if results == 1 else values

    def binary(self, name, a, b, dtype=None):
        return self.op(name, [a, b], broadcast(a.dims, b.dims), dtype)

    def cast(self, x, dtype):
        return self.op("cast", [x], x.dims, dtype, dtype=dtype)

    def reshape(self, x, dims):
        return self.op("reshape", [x], dims, shape=list(dims))

    def shape(self, dims):
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = shape {literal(list(dims))}")
        return Value(name, [len(dims)], None)

    def text(self, results):
        types = "(" + ", ".join(f"tensor<{literal(r.dims)}, {r.dtype}>" for r in results) + ")"
        return ("cugrt 1\n\nfunc @main(" + ", ".join(self.params) + f") -> {types} {{\n" +
                "\n".join(self.lines) + "\n  return " + ", ".join(r.name for r in results) + "\n}\n")


def quoted(value):
    return '"' + value + '"' if isinstance(value, str) else literal(value)


class Call:
    """One node: its inputs as values of ours or as numbers, and its attributes."""

    def __init__(self, writer, node, env, opset):
        self.w, self.node, self.env, self.opset = writer, node, env, opset

    def attribute(self, name, default=None):
        return self.node.attributes.get(name, default)

    def has(self, i):
        return i < len(self.node.inputs) and self.node.inputs[i] != ""

    def host(self, i):
        """The numbers of input i, or None."""
        if not self.has(i):
            return None
        entry = self.env[self.node.inputs[i]]
        if not isinstance(entry, Tensor):
            raise Unsupported("a shape or axis that is computed")
        return entry.values

    def value(self, i):
        if not self.has(i):
            return None
        entry = self.env[self.node.inputs[i]]
        if isinstance(entry, Tensor):
            entry = self.env[self.node.inputs[i]] = Known(self.w.param(entry), entry)
        return entry.value if isinstance(entry, Known) else entry

    def values(self):
        return [self.value(i) for i in range(len(self.node.inputs))]

    def axis(self, rank, default):
        axis = self.attribute("axis", default)
        return axis + rank if axis < 0 else axis

    def axes(self, i, rank):
        """Of an attribute, or of input i in later opsets."""
        axes = self.attribute("axes")
        if axes is None and i is not None:
            axes = self.host(i)
        return None if axes is None else [a + rank if a < 0 else a for a in axes]


class Known(Tensor):
    """An input that is a value of ours and whose numbers are known."""

    def __init__(self, value, tensor):
        super().__init__(None, tensor.dims, tensor.dtype, tensor.values)
        self.value = value


UNARY = {name: name.lower() for name in (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Relu Round "
    "Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh").split()}
UNARY["HardSwish"] = "hard_swish"
BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "PRelu": "prelu"}
TO_BOOL = {"Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
           "GreaterOrEqual": "greater_equal", "And": "logical_and", "Or": "logical_or",
           "Xor": "logical_xor"}
HANDLERS = {}


def handles(*names):
    def register(function):
        for name in names:
            HANDLERS[name] = function
        return function
    return register


def translate(call):
    """Results of one node."""
    name, w = call.node.type, call.w
    if name in UNARY:
        x = call.value(0)
        return [w.op(UNARY[name], [x], x.dims)]
    if name in BINARY:
        return [w.binary(BINARY[name], call.value(0), call.value(1))]
    if name in TO_BOOL:
        return [w.binary(TO_BOOL[name], call.value(0), call.value(1), "bool")]
    if name not in HANDLERS:
        raise Unsupported(f"{NO_OP}{name}")
    results = HANDLERS[name](call)
    return results if isinstance(results, list) else [results]


# --- Element by element --------------------------------------------------------------------------

@handles("Not", "IsNaN")
def to_bool(call):
    x = call.value(0)
    return call.w.op({"Not": "logical_not", "IsNaN": "is_nan"}[call.node.type], [x], x.dims, "bool")


@handles("IsInf")
def is_inf(call):
    x = call.value(0)
    found = call.w.op("is_inf", [x], x.dims, "bool")
    for name, op in (("detect_negative", "greater"), ("detect_positive", "less")):
        if not call.attribute(name, 1):
            side = call.w.binary(op, x, call.w.number(x, 0), "bool")
            found = call.w.binary("logical_and", found, side)
    return found


@handles("Identity", "Dropout")
def identity(call):
    x = call.value(0)
    if len(call.node.outputs) > 1 or (call.has(2) and call.host(2)[0]):
        raise Unsupported("a mask, or training")
    return call.w.cast(x, x.dtype)


@handles("Cast", "CastLike")
def cast(call):
    x = call.value(0)
    dtype = DTYPES.get(call.attribute("to")) if call.node.type == "Cast" else call.value(1).dtype
    if dtype is None:
        raise Unsupported("strings")
    return call.w.cast(x, dtype)


@handles("Pow")
def power(call):
    a, b = call.value(0), call.value(1)
    if a.dtype in FLOATS:
        return call.w.binary("pow", a, b if b.dtype == a.dtype else call.w.cast(b, a.dtype))
    if b.dtype in FLOATS:
        return call.w.cast(call.w.binary("pow", call.w.cast(a, b.dtype), b), a.dtype)
    return call.w.binary("pow", a, b if b.dtype == a.dtype else call.w.cast(b, a.dtype))


@handles("Mod")
def modulo(call):
    name = "trunc_mod" if call.attribute("fmod", 0) else "floor_mod"
    return call.w.binary(name, call.value(0), call.value(1))


@handles("Max", "Min", "Sum", "Mean")
def variadic(call):
    name = {"Max": "maximum", "Min": "minimum"}.get(call.node.type, "add")
    values = call.values()
    result = values[0] if len(values) > 1 else call.w.cast(values[0], values[0].dtype)
    for value in values[1:]:
        result = call.w.binary(name, result, value)
    if call.node.type == "Mean":
        result = call.w.binary("div", result, call.w.number(result, len(values)))
    return result


@handles("Where")
def where(call):
    condition, a, b = call.values()
    return call.w.op("where", [condition, a, b], broadcast(condition.dims, a.dims, b.dims), a.dtype)


@handles("Clip")
def clip(call):
    x = call.value(0)
    low, high = call.host(1), call.host(2)
    given = {}
    if low is not None:
        given["min"] = float(low[0])
    if high is not None:
        given["max"] = float(high[0])
    if len(given) == 2 and given["min"] > given["max"]:
        raise Unsupported("a least value above the largest")
    return call.w.op("clip", [x], x.dims, **given)


@handles("LeakyRelu", "Elu", "HardSigmoid")
def parametrised(call):
    x = call.value(0)
    name = {"LeakyRelu": "leaky_relu", "Elu": "elu", "HardSigmoid": "hard_sigmoid"}[call.node.type]
    return call.w.op(name, [x], x.dims, **call.node.attributes)


@handles("Selu", "Celu")
def scaled_elu(call):
    x, w = call.value(0), call.w
    if call.node.type == "Selu":
        y = w.op("elu", [x], x.dims, alpha=call.attribute("alpha", 1.6732632423543772))
        return w.binary("mul", y, w.number(x, call.attribute("gamma", 1.0507009873554805)))
    alpha = w.number(x, call.attribute("alpha", 1.0))  # alpha * elu(x / alpha)
    return w.binary("mul", w.op("elu", [w.binary("div", x, alpha)], x.dims, alpha=1.0), alpha)


@handles("ThresholdedRelu")
def thresholded_relu(call):
    x, w = call.value(0), call.w
    over = w.binary("greater", x, w.number(x, call.attribute("alpha", 1.0)), "bool")
    return w.op("where", [over, x, w.number(x, 0)], x.dims, x.dtype)


# --- Along axes ----------------------------------------------------------------------------------

@handles("Softmax", "LogSoftmax")
def softmax(call):
    x = call.value(0)
    name = "softmax" if call.node.type == "Softmax" else "log_softmax"
    return call.w.op(name, [x], x.dims, axis=call.axis(len(x.dims), -1))


@handles("Hardmax")
def hardmax(call):
    x = call.value(0)
    axis = call.axis(len(x.dims), -1)
    places = call.w.op("argmax", [x], x.dims[:axis] + x.dims[axis + 1:], "i64", axis=axis)
    return call.w.op("one_hot", [places], x.dims, x.dtype, depth=x.dims[axis], axis=axis,
                     dtype=x.dtype)


def reduced_dims(dims, axes, keep):
    return [1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes]


def reduce_over(w, name, x, axes, keep):
    return w.op(name, [x], reduced_dims(x.dims, axes, keep), axes=axes, keep_dims=keep)


@handles("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
def reduction(call):
    x, w, kind = call.value(0), call.w, call.node.type[len("Reduce"):]
    axes = call.axes(1, len(x.dims))
    if not axes:
        if call.attribute("noop_with_empty_axes", 0):
            return w.cast(x, x.dtype)
        axes = list(range(len(x.dims)))
    if kind == "L1":
        x = w.op("abs", [x], x.dims)
    elif kind in ("L2", "SumSquare"):
        x = w.binary("mul", x, x)
    elif kind == "LogSumExp":
        x = w.op("exp", [x], x.dims)
    name = {"Mean": "reduce_mean", "Max": "reduce_max", "Min": "reduce_min", "Prod": "reduce_prod"}
    y = reduce_over(w, name.get(kind, "reduce_sum"), x, axes, bool(call.attribute("keepdims", 1)))
    after = {"L2": "sqrt", "LogSum": "log", "LogSumExp": "log"}.get(kind)
    return w.op(after, [y], y.dims) if after else y


@handles("ArgMax", "ArgMin")
def search(call):
    x = call.value(0)
    axis, keep = call.axis(len(x.dims), 0), bool(call.attribute("keepdims", 1))
    return call.w.op(call.node.type.lower(), [x], reduced_dims(x.dims, [axis], keep), "i64",
                     axis=axis, keep_dims=keep, last=bool(call.attribute("select_last_index", 0)))


@handles("CumSum")
def cumsum(call):
    x = call.value(0)
    return call.w.op("cumsum", [x], x.dims, axis=call.host(1)[0],
                     exclusive=bool(call.attribute("exclusive", 0)),
                     reverse=bool(call.attribute("reverse", 0)))


@handles("TopK")
def top_k(call):
    x, k = call.value(0), call.host(1)[0]
    axis = call.axis(len(x.dims), -1)
    dims = x.dims[:axis] + [k] + x.dims[axis + 1:]
    values, places = call.w.op("top_k", [x], dims, results=2, k=k, axis=axis,
                               largest=bool(call.attribute("largest", 1)))
    places.dtype = "i64"
    return [values, places]


# --- Choosing and moving -------------------------------------------------------------------------

@handles("Gather", "GatherElements")
def gather(call):
    x, ids = call.value(0), call.value(1)
    axis = call.axis(len(x.dims), 0)
    if call.node.type == "Gather":
        return call.w.op("gather", [x, ids], x.dims[:axis] + ids.dims + x.dims[axis + 1:], axis=axis)
    if any(i != axis and d != x.dims[i] for i, d in enumerate(ids.dims)):
        raise Unsupported("positions for a part of the tensor")
    return call.w.op("gather_elements", [x, ids], ids.dims, axis=axis)


@handles("OneHot")
def one_hot(call):
    ids, values = call.value(0), call.env[call.node.inputs[2]]
    if ids.dtype not in ("i32", "i64"):
        ids = call.w.cast(ids, "i64")
    axis, depth = call.axis(len(ids.dims) + 1, -1), int(call.host(1)[0])
    return call.w.op("one_hot", [ids], ids.dims[:axis] + [depth] + ids.dims[axis:], values.dtype,
                     depth=depth, axis=axis, on=float(values.values[1]), off=float(values.values[0]),
                     dtype=values.dtype)


@handles("Slice")
def slices(call):
    x = call.value(0)
    starts, ends, steps = call.host(1), call.host(2), call.host(4)
    axes = call.axes(3, len(x.dims)) or list(range(len(starts)))
    dims = list(x.dims)
    for i, axis in enumerate(axes):
        dims[axis] = len(range(*slice(starts[i], ends[i], steps[i] if steps else 1).indices(dims[axis])))
    return call.w.op("slice", [x], dims, starts=starts, ends=ends, axes=axes,
                     steps=steps or [1] * len(starts))


@handles("Pad")
def pad(call):
    x, pads = call.value(0), call.host(1)
    rank = len(x.dims)
    if min(pads) < 0:
        raise Unsupported("negative padding")
    value = call.host(2)
    return call.w.op("pad", [x], [d + pads[i] + pads[rank + i] for i, d in enumerate(x.dims)],
                     before=pads[:rank], after=pads[rank:], mode=call.attribute("mode", "constant"),
                     value=float(value[0]) if value else 0.0)


@handles("Range")
def sequence(call):
    start, limit, step = (call.host(i)[0] for i in range(3))
    length = max(0, math.ceil((limit - start) / step))
    dtype = call.env[call.node.inputs[0]].dtype
    return call.w.op("range", [], [length], dtype, length=length, start=float(start),
                     step=float(step), dtype=dtype)


@handles("Expand")
def expand(call):
    x = call.value(0)
    dims = broadcast(x.dims, call.host(1))
    return call.w.op("broadcast_to", [x, call.w.shape(dims)], dims)


@handles("Tile")
def tile(call):
    x = call.value(0)
    for axis, count in enumerate(call.host(1)):
        dims = x.dims[:axis] + [x.dims[axis] * count] + x.dims[axis + 1:]
        x = call.w.op("concat", [x] * count, dims, axis=axis)
    return x


@handles("Concat")
def concat(call):
    values = call.values()
    axis = call.axis(len(values[0].dims), 0)
    dims = list(values[0].dims)
    dims[axis] = sum(value.dims[axis] for value in values)
    return call.w.op("concat", values, dims, axis=axis)


@handles("Split")
def split(call):
    x = call.value(0)
    axis, count = call.axis(len(x.dims), 0), len(call.node.outputs)
    sections = call.attribute("split") or call.host(1) or [x.dims[axis] // count] * count
    made = call.w.op("split", [x], x.dims, results=count, axis=axis, sections=sections)
    made = [made] if count == 1 else made
    for one, size in zip(made, sections):
        one.dims[axis] = size
    return made


@handles("Transpose")
def transpose(call):
    x = call.value(0)
    axes = call.attribute("perm") or list(range(len(x.dims)))[::-1]
    return call.w.op("transpose", [x], [x.dims[a] for a in axes], axes=axes)


@handles("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(call):
    x, kind = call.value(0), call.node.type
    dims = list(x.dims)
    if kind == "Flatten":
        axis = call.axis(len(dims), 1)
        dims = [product(dims[:axis]), product(dims[axis:])]
    elif kind == "Squeeze":
        axes = call.axes(1, len(dims)) or [i for i, d in enumerate(dims) if d == 1]
        dims = [d for i, d in enumerate(dims) if i not in axes]
    elif kind == "Unsqueeze":
        given = call.attribute("axes") or call.host(1)
        rank = len(dims) + len(given)
        for axis in sorted(a + rank if a < 0 else a for a in given):
            dims.insert(axis, 1)
    else:
        wanted = call.host(1)
        if not call.attribute("allowzero", 0):
            wanted = [dims[i] if d == 0 else d for i, d in enumerate(wanted)]
        if -1 in wanted:
            rest = product(d for d in wanted if d != -1)
            wanted = [product(dims) // rest if d == -1 else d for d in wanted]
        dims = wanted
    return call.w.reshape(x, dims)


# --- Products, windows and norms -----------------------------------------------------------------

@handles("MatMul")
def matmul(call):
    a, b = call.value(0), call.value(1)
    row, column = len(a.dims) == 1, len(b.dims) == 1
    a = call.w.reshape(a, [1] + a.dims) if row else a
    b = call.w.reshape(b, b.dims + [1]) if column else b
    dims = broadcast(a.dims[:-2], b.dims[:-2])
    y = call.w.op("matmul", [a, b], dims + [a.dims[-2], b.dims[-1]])
    if not row and not column:
        return y
    return call.w.reshape(y, dims + ([] if row else [a.dims[-2]]) + ([] if column else [b.dims[-1]]))


@handles("Gemm")
def gemm(call):
    a, b, c, w = call.value(0), call.value(1), call.value(2), call.w
    if call.attribute("transA", 0):
        a = w.op("transpose", [a], a.dims[::-1])
    if call.attribute("transB", 0):
        b = w.op("transpose", [b], b.dims[::-1])
    y = w.op("matmul", [a, b], [a.dims[0], b.dims[1]])
    if call.attribute("alpha", 1.0) != 1.0:
        y = w.binary("mul", y, w.number(y, call.attribute("alpha")))
    if c is None:
        return y
    if call.attribute("beta", 1.0) != 1.0:
        c = w.binary("mul", c, w.number(c, call.attribute("beta")))
    return w.binary("add", y, c)


def window(call, x, kernel):
    """(strides, padding before and after, dilation, result's sizes) of a convolution or pool, by auto_pad or
    pads."""
    axes = len(x.dims) - 2
    strides = call.attribute("strides", [1] * axes)
    dilation = call.attribute("dilations", [1] * axes)
    pads = list(call.attribute("pads", [0] * 2 * axes))
    auto = call.attribute("auto_pad", "NOTSET")
    reach = [(kernel[i] - 1) * dilation[i] + 1 for i in range(axes)]
    if auto == "VALID":
        pads = [0] * 2 * axes
    elif auto.startswith("SAME"):
        for i in range(axes):
            size = x.dims[2 + i]
            total = max(0, (-(-size // strides[i]) - 1) * strides[i] + reach[i] - size)
            small, large = total // 2, total - total // 2
            pads[i], pads[axes + i] = (small, large) if auto == "SAME_UPPER" else (large, small)
    out = []
    for i in range(axes):
        over = x.dims[2 + i] + pads[i] + pads[axes + i] - reach[i]
        if call.attribute("ceil_mode", 0):
            out.append(min(-(-over // strides[i]) + 1, -(-(x.dims[2 + i] + pads[i]) // strides[i])))
        else:
            out.append(over // strides[i] + 1)
    return strides, pads, dilation, out


@handles("Conv")
def convolution(call):
    x, weight, bias = call.value(0), call.value(1), call.value(2)
    if len(x.dims) not in (3, 4):
        raise Unsupported("three dimensions")
    strides, pads, dilation, out = window(call, x, weight.dims[2:])
    operands = [x, weight] + ([bias] if bias else [])
    return call.w.op("conv1d" if len(x.dims) == 3 else "conv2d", operands,
                     [x.dims[0], weight.dims[0]] + out, strides=strides, padding=pads,
                     dilation=dilation, groups=call.attribute("group", 1))


@handles("MaxPool", "AveragePool")
def pool(call):
    x, w = call.value(0), call.w
    kernel = call.attribute("kernel_shape")
    if len(call.node.outputs) > 1:
        raise Unsupported("positions as a second result")
    strides, pads, dilation, out = window(call, x, kernel)
    given = {"ceil_mode": bool(call.attribute("ceil_mode", 0))}
    if call.node.type == "AveragePool":
        given["count_include_pad"] = bool(call.attribute("count_include_pad", 0))
    name = "max_pool2d" if call.node.type == "MaxPool" else "avg_pool2d"
    axes = len(kernel)

    def over(image, rows, columns, sizes):
        """A pool of images whose rows and columns are these axes; None: not pooled."""
        def both(values, otherwise):
            return [otherwise if axis is None else values[axis] for axis in (rows, columns)]
        return w.op(name, [image], image.dims[:2] + sizes, kernel=both(kernel, 1),
                    strides=both(strides, 1), dilation=both(dilation, 1),
                    padding=both(pads[:axes], 0) + both(pads[axes:], 0), **given)

    if axes == 1:
        image = w.reshape(x, x.dims[:2] + [1] + x.dims[2:])
        return w.reshape(over(image, None, 0, [1] + out), x.dims[:2] + out)
    if axes == 2:
        return over(x, 0, 1, out)
    # Of three: over the last two, then over the first one, of which all elements count alike.
    planes = x.dims[:1] + [x.dims[1] * x.dims[2]] + x.dims[3:]
    slabs = over(w.reshape(x, planes), 1, 2, out[1:])
    columns = w.reshape(slabs, x.dims[:3] + [out[1] * out[2]])
    return w.reshape(over(columns, 0, None, [out[0], out[1] * out[2]]), x.dims[:2] + out)


@handles("GlobalAveragePool", "GlobalMaxPool")
def global_pool(call):
    x = call.value(0)
    name = "reduce_mean" if call.node.type == "GlobalAveragePool" else "reduce_max"
    return reduce_over(call.w, name, x, list(range(2, len(x.dims))), True)


@handles("BatchNormalization")
def batch_norm(call):
    if call.attribute("training_mode", 0) or len(call.node.outputs) > 1:
        raise Unsupported("training")
    w = call.w
    x, scale, bias, mean, variance = call.values()
    column = [len(scale.dims) and scale.dims[0]] + [1] * (len(x.dims) - 2)
    scale, bias, mean, variance = (w.reshape(v, column) for v in (scale, bias, mean, variance))
    epsilon = w.number(x, call.attribute("epsilon", 1e-5))
    factor = w.binary("mul", scale, w.op("rsqrt", [w.binary("add", variance, epsilon)], column))
    return w.binary("add", w.binary("mul", w.binary("sub", x, mean), factor), bias)


@handles("InstanceNormalization")
def instance_norm(call):
    x, scale, bias = call.values()
    w, rows = call.w, product(x.dims[2:])
    y = w.op("layer_norm", [w.reshape(x, x.dims[:2] + [rows])], x.dims[:2] + [rows],
             epsilon=call.attribute("epsilon", 1e-5))
    scale, bias = (w.reshape(v, v.dims + [1]) for v in (scale, bias))
    return w.reshape(w.binary("add", w.binary("mul", y, scale), bias), x.dims)


@handles("LayerNormalization")
def layer_norm(call):
    x, w = call.value(0), call.w
    axis, epsilon = call.axis(len(x.dims), -1), call.attribute("epsilon", 1e-5)
    rows, columns = product(x.dims[:axis]), product(x.dims[axis:])
    flat = w.reshape(x, [rows, columns])
    operands = [flat] + [w.reshape(call.value(i), [columns]) for i in (1, 2) if call.has(i)]
    results = [w.reshape(w.op("layer_norm", operands, flat.dims, epsilon=epsilon), x.dims)]
    if len(call.node.outputs) > 1:
        kept = x.dims[:axis] + [1] * (len(x.dims) - axis)
        mean = reduce_over(w, "reduce_mean", flat, [1], True)
        off = w.binary("sub", flat, mean)
        variance = reduce_over(w, "reduce_mean", w.binary("mul", off, off), [1], True)
        inverse = w.op("rsqrt", [w.binary("add", variance, w.number(x, epsilon))], variance.dims)
        results += [w.reshape(mean, kept), w.reshape(inverse, kept)]
    return results
