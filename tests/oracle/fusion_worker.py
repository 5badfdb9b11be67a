"""Compares groups of ops, one seed after the other; run by fusion.py, under the Python that has apache-tvm.

Reads seeds on standard input, one a line, and writes one JSON object a line. A seed is a random graph
of ops: each op is written in Relax and in our text, FuseOps of both sides forms groups, and each op's
group must be the same set of ops.
"""
import json
import random
import re
import subprocess
import sys
import traceback

from tvm import relax, tirx
from tvm.ir import Op

UNARY = {"relu": relax.op.nn.relu, "exp": relax.op.exp, "tanh": relax.op.tanh,
         "sqrt": relax.op.sqrt, "silu": relax.op.nn.silu, "sigmoid": relax.op.sigmoid,
         "neg": relax.op.negative, "gelu": relax.op.nn.gelu, "abs": relax.op.abs}
NUMBERS = {"clip": (relax.op.clip, " {min = -1.5, max = 2.0}", {"min": -1.5, "max": 2.0}),
           "leaky_relu": (relax.op.nn.leakyrelu, " {alpha = 0.1}", {"alpha": 0.1}),
           "is_nan": (relax.op.isnan, "", {}), "is_inf": (relax.op.isinf, "", {})}
TESTS = {"is_nan", "is_inf"}  # results are bool
COMPARE = {"equal": relax.op.equal, "not_equal": relax.op.not_equal, "less": relax.op.less,
           "less_equal": relax.op.less_equal, "greater": relax.op.greater,
           "greater_equal": relax.op.greater_equal}
LOGICAL = {"logical_and": relax.op.logical_and, "logical_or": relax.op.logical_or,
           "logical_xor": relax.op.logical_xor}
INTEGER = {"add", "sub", "mul", "maximum", "minimum"}  # drawn of integers too
SEARCH = {"argmax": relax.op.argmax, "argmin": relax.op.argmin}
RELAX_DTYPES = {"f32": "float32", "f16": "float16", "i32": "int32", "i64": "int64", "bool": "bool"}
BINARY = {"add": relax.op.add, "sub": relax.op.subtract, "mul": relax.op.multiply,
          "div": relax.op.divide, "maximum": relax.op.maximum, "minimum": relax.op.minimum}
REDUCE = {"reduce_sum": relax.op.sum, "reduce_max": relax.op.max, "reduce_mean": relax.op.mean}
ELEMENTWISE, BROADCAST, INJECTIVE, OPAQUE = 0, 1, 2, 8  # as the published analysis numbers them
CALL_TIR = Op.get("relax.call_tir")
N = 7  # a dimension of this size is the symbol n, where there is one


class Graph:
    """Values by number: parameters, with no op, and ops' results."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.symbolic = self.random.random() < 0.4
        # ops: (name, operands, attributes in our text, in Relax)
        self.shapes, self.dtypes, self.ops = [], [], []
        for shape in ((N, 8), (N, 4, 6, 6), (2, N, 8))[:self.random.randint(1, 3)]:
            self.param(shape)
        wanted = self.random.randint(3, 25)
        while sum(op is not None for op in self.ops) < wanted:
            self.step()
        used = {i for op in self.ops if op for i in op[1]}
        self.results = [i for i, op in enumerate(self.ops)
                        if op and (i not in used or self.random.random() < 0.08)]

    def param(self, shape, dtype="f32"):
        self.shapes.append(tuple(shape))
        self.dtypes.append(dtype)
        self.ops.append(None)
        return len(self.ops) - 1

    def op(self, name, operands, shape, text="", keywords=None, dtype=None):
        self.shapes.append(tuple(shape))
        self.dtypes.append(dtype or self.dtypes[operands[0]])
        self.ops.append((name, operands, text, keywords or {}))

    def another(self, x, dtype):
        """A value of that dtype and of the shape of x: one that is there, or a parameter."""
        same = [i for i, s in enumerate(self.shapes)
                if s == self.shapes[x] and self.dtypes[i] == dtype and i != x]
        return self.random.choice(same) if same and self.random.random() < 0.7 else \
            self.param(self.shapes[x], dtype)

    def step(self):
        r = self.random
        # Later values are likelier, so that chains form.
        x = len(self.ops) - 1 if r.random() < 0.6 else r.randrange(len(self.ops))
        shape = self.shapes[x]
        dtype = self.dtypes[x]
        moves = (["concat", "slice", "pad", "gather", "gather_elements", "transpose", "reshape"],
                 [2, 2, 1.5, 1.5, 1, 1.5, 1.5])
        if dtype == "f32":
            kinds, weights = (["unary", "binary", "numbers", "compare", "matmul", "conv2d", "pool",
                               "softmax", "norm", "reduce", "search", "cast"],
                              [8, 9, 2, 2, 2, 2, 1, 1, 1.5, 3, 1, 1])
        elif dtype == "bool":
            kinds, weights = ["logical", "where", "cast", "logical_not"], [2, 4, 1, 1]
        else:
            kinds, weights = ["integers", "compare", "cast"], [4, 2, 1]
        getattr(self, r.choices(kinds + moves[0], weights + moves[1])[0])(x, shape)

    def numbers(self, x, shape):
        name = self.random.choice(sorted(NUMBERS))
        self.op(name, [x], shape, NUMBERS[name][1], NUMBERS[name][2],
                "bool" if name in TESTS else None)

    def compare(self, x, shape):
        self.op(self.random.choice(sorted(COMPARE)), [x, self.another(x, self.dtypes[x])], shape,
                dtype="bool")

    def logical(self, x, shape):
        self.op(self.random.choice(sorted(LOGICAL)), [x, self.another(x, "bool")], shape)

    def logical_not(self, x, shape):
        self.op("logical_not", [x], shape)

    def where(self, x, shape):
        r = self.random
        dtype = r.choice(["f32", "f32", "i32"])
        a = self.another(x, dtype)
        b = self.param([1 if r.random() < 0.3 else d for d in shape][r.randint(0, len(shape)):],
                       dtype) if r.random() < 0.4 else self.another(x, dtype)
        self.op("where", [x, a, b] if r.random() < 0.6 else [x, b, a], shape, dtype=dtype)

    def integers(self, x, shape):
        self.op(self.random.choice(sorted(INTEGER)), [x, self.another(x, self.dtypes[x])], shape)

    def cast(self, x, shape):
        to = self.random.choice([d for d in ("f32", "i32") if d != self.dtypes[x]])
        self.op("cast", [x], shape, f" {{dtype = {to}}}", {"dtype": RELAX_DTYPES[to]}, to)

    def search(self, x, shape):
        if shape:
            axis, keep = self.random.randrange(len(shape)), self.random.random() < 0.5
            self.op(self.random.choice(sorted(SEARCH)), [x],
                    shape[:axis] + ((1,) if keep else ()) + shape[axis + 1:],
                    f" {{axis = {axis}, keep_dims = {'true' if keep else 'false'}}}",
                    {"axis": axis, "keepdims": keep}, "i64")

    def axis_of(self, shape):
        """One that is no symbol; None where there is none."""
        axes = [i for i, d in enumerate(shape) if d != N]
        return self.random.choice(axes) if axes else None

    def concat(self, x, shape):
        axis = self.axis_of(shape)
        if axis is None:
            return
        other = shape[:axis] + (self.random.randint(1, 4),) + shape[axis + 1:]
        y = self.another(x, self.dtypes[x]) if self.random.random() < 0.5 else \
            self.param(other, self.dtypes[x])
        out = shape[:axis] + (shape[axis] + self.shapes[y][axis],) + shape[axis + 1:]
        if out[axis] != N:
            self.op("concat", [x, y], out, f" {{axis = {axis}}}", {"axis": axis})

    def slice(self, x, shape):
        axis = self.axis_of(shape)
        if axis is None or shape[axis] < 2:
            return
        begin = self.random.randint(0, 1)
        step = self.random.choice([1, 1, 2])
        size = (shape[axis] - begin + step - 1) // step
        if size == N:
            return
        self.op("slice", [x], shape[:axis] + (size,) + shape[axis + 1:],
                f" {{axes = [{axis}], starts = [{begin}], ends = [{shape[axis]}], "
                f"steps = [{step}]}}",
                {"axes": [axis], "begin": [begin], "end": [shape[axis]], "strides": [step]})

    def pad(self, x, shape):
        axis = self.axis_of(shape)
        if axis is None or self.dtypes[x] == "bool":
            return
        before, after = ([self.random.randint(0, 2) if i == axis else 0
                          for i in range(len(shape))] for _ in range(2))
        out = tuple(d + p + q for d, p, q in zip(shape, before, after))
        if before[axis] + after[axis] and out[axis] != N:
            self.op("pad", [x], out, f" {{before = {before}, after = {after}}}",
                    {"pad_width": [w for pair in zip(before, after) for w in pair]})

    def gather(self, x, shape):
        axis = self.axis_of(shape)
        if axis is None:
            return
        ids = self.param((3,), "i32")
        self.op("gather", [x, ids], shape[:axis] + (3,) + shape[axis + 1:],
                f" {{axis = {axis}}}", {"axis": axis})

    def gather_elements(self, x, shape):
        axis = self.axis_of(shape)
        if axis is not None:
            self.op("gather_elements", [x, self.another(x, "i32")], shape,
                    f" {{axis = {axis}}}", {"axis": axis})

    def unary(self, x, shape):
        self.op(self.random.choice(sorted(UNARY)), [x], shape)

    def binary(self, x, shape):
        r = self.random
        name = r.choice(sorted(BINARY))
        same = [i for i, s in enumerate(self.shapes)
                if s == shape and self.dtypes[i] == "f32" and i != x]
        if same and r.random() < 0.6:
            y, out = r.choice(same), shape
        else:
            other = [1 if r.random() < 0.3 else d for d in shape][r.randint(0, len(shape)):]
            if r.random() < 0.15:  # both are spread
                other = [2] + [5 if d == 1 else d for d in shape] if len(shape) < 4 else other
            y = self.param(other)
            out = broadcast(shape, other)
        self.op(name, [x, y] if r.random() < 0.6 else [y, x], out)

    def matmul(self, x, shape):
        if len(shape) >= 2 and shape[-1] != N:
            self.op("matmul", [x, self.param((shape[-1], 8))], shape[:-1] + (8,))

    def conv2d(self, x, shape):
        if len(shape) == 4 and shape[1] != N:
            self.op("conv2d", [x, self.param((4, shape[1], 3, 3))], (shape[0], 4) + shape[2:],
                    " {padding = [1, 1]}", {"padding": 1})

    def pool(self, x, shape):
        if len(shape) == 4 and N not in shape[2:]:
            name = self.random.choice(["max_pool2d", "avg_pool2d"])
            self.op(name, [x], shape[:2] + tuple(d for d in shape[2:]),
                    " {kernel = [3, 3], padding = [1, 1]}",
                    {"pool_size": (3, 3), "padding": (1, 1)})

    def softmax(self, x, shape):
        if shape:
            axis = self.random.randrange(len(shape))
            self.op("softmax", [x], shape, f" {{axis = {axis}}}", {"axis": axis})

    def norm(self, x, shape):
        if len(shape) < 2 or shape[-1] == N:  # of rank 1, rms_norm has no kernel there
            return
        name = self.random.choice(["layer_norm", "rms_norm"])
        weights = [self.param(shape[-1:]) for _ in range(2 if name == "layer_norm" else 1)]
        self.op(name, [x] + weights, shape, "", {"axes": [-1]})

    def reduce(self, x, shape):
        if not shape:
            return
        axis, keep = self.random.randrange(len(shape)), self.random.random() < 0.5
        out = shape[:axis] + ((1,) if keep else ()) + shape[axis + 1:]
        self.op(self.random.choice(sorted(REDUCE)), [x], out,
                f" {{axes = [{axis}], keep_dims = {'true' if keep else 'false'}}}",
                {"axis": axis, "keepdims": keep})

    def reshape(self, x, shape):
        if len(shape) >= 2 and shape[-2] != N and shape[-1] != N:
            out = shape[:-2] + (shape[-2] * shape[-1],)
            text = ", ".join("-1" if d == N else str(d) for d in out)
            if out.count(N) < 2:
                self.op("reshape", [x], out, f" {{shape = [{text}]}}", {"shape": out})

    def transpose(self, x, shape):
        if len(shape) >= 2:
            axes = self.random.sample(range(len(shape)), len(shape))
            self.op("transpose", [x], [shape[a] for a in axes], f" {{axes = {axes}}}",
                    {"axes": axes})

    # --- In both forms ---

    def dims(self, shape, symbol):
        return [symbol if d == N and self.symbolic else d for d in shape]

    def text(self):
        def tensor(i):
            dims = ", ".join(map(str, self.dims(self.shapes[i], "n")))
            return f"tensor<[{dims}], {self.dtypes[i]}>"
        params = ", ".join(f"%v{i}: {tensor(i)}" for i, op in enumerate(self.ops) if not op)
        results = ", ".join(map(tensor, self.results))
        lines = [f"  %v{i} = {op[0]}({', '.join(f'%v{o}' for o in op[1])}){op[2]}"
                 for i, op in enumerate(self.ops) if op]
        returned = ", ".join(f"%v{i}" for i in self.results)
        return "\n".join(["cugrt 1", "", f"func @main({params}) -> ({results}) {{", *lines,
                          f"  return {returned}", "}", ""])

    def relax(self):
        builder, n = relax.BlockBuilder(), tirx.Var("n", "int64")
        values = [None if op else relax.Var(f"v{i}", relax.TensorType(self.dims(s, n), RELAX_DTYPES[t]))
                  for i, (op, s, t) in enumerate(zip(self.ops, self.shapes, self.dtypes))]
        with builder.function("main", [v for v in values if v is not None]):
            with builder.dataflow():
                for i, op in enumerate(self.ops):
                    if op:
                        values[i] = builder.emit(self.relax_op(op, values, n), name_hint=f"v{i}")
                results = [builder.emit_output(values[i]) for i in self.results]
            builder.emit_func_output(relax.Tuple(results))
        return builder.get()

    def relax_op(self, op, values, n):
        name, operands, _, keywords = op
        operands = [values[i] for i in operands]
        if name == "reshape":
            return relax.op.reshape(operands[0], self.dims(keywords["shape"], n))
        if name == "transpose":
            return relax.op.permute_dims(operands[0], **keywords)
        if name == "concat":
            return relax.op.concat(operands, **keywords)
        if name == "slice":
            return relax.op.strided_slice(operands[0], **keywords)
        if name == "gather":
            return relax.op.take(*operands, mode="clip", **keywords)
        if name == "pad":
            return relax.op.nn.pad(operands[0], **keywords)
        if name == "cast":
            return relax.op.astype(operands[0], **keywords)
        if name == "clip":
            return relax.op.clip(operands[0], keywords["min"], keywords["max"])
        if name in NUMBERS:
            return NUMBERS[name][0](operands[0], **keywords)
        function = (COMPARE.get(name) or LOGICAL.get(name) or SEARCH.get(name) or
                    UNARY.get(name) or BINARY.get(name) or REDUCE.get(name) or
                    getattr(relax.op.nn, name, None) or getattr(relax.op, name))
        return function(*operands, **keywords)


def broadcast(a, b):
    a, b = (1,) * (len(b) - len(a)) + tuple(a), (1,) * (len(a) - len(b)) + tuple(b)
    return tuple(max(p, q) for p, q in zip(a, b))


# --- Groups, from either form ---------------------------------------------------------------------


class Function:
    """Bindings by name: (callee, or None for an op; operands)."""

    def __init__(self, params, bindings, results):
        self.params, self.bindings, self.results = params, bindings, results


def groups_of(graph, functions):
    """The group of each op, as a sorted list of numbers: ops are known by what they are operands of."""
    groups = {}

    def match(function, inputs, name, number, group):
        """`name` in `function` is value `number` of the graph, in that group if any."""
        if name in inputs:
            inputs[name](number)
            return
        callee, operands = function.bindings[name]
        if callee is None and number in groups:
            if group is not None and groups[number] is not group:
                raise ValueError(f"op v{number} is computed twice")
        elif callee is None:
            groups[number] = {number} if group is None else group
            groups[number].add(number)
            for operand, at in zip(operands, graph.ops[number][1]):
                match(function, inputs, operand, at, group)
        elif number not in groups:
            inner = functions[callee]
            given = {param: lambda at, operand=operand: match(function, inputs, operand, at, None)
                     for param, operand in zip(inner.params, operands)}
            match(inner, given, inner.results[0], number, set())

    main = functions["main"]
    params = {param: lambda at: None for param in main.params}
    for name, number in zip(main.results, graph.results):
        match(main, params, name, number, None)
    return {number: sorted(group) for number, group in groups.items()}


def read_relax(module):
    functions = {}
    for var, function in module.functions.items():
        if not isinstance(function, relax.Function):
            continue
        bindings, same = {}, {}

        def name_of(expr):
            return same.get(expr.name, expr.name)
        for block in function.body.blocks:
            for binding in block.bindings:
                name, value = binding.var.name, binding.value
                if isinstance(value, relax.Var):
                    same[name] = name_of(value)
                elif value.op == CALL_TIR:
                    bindings[name] = (None, [name_of(a) for a in value.args[1]])
                else:
                    bindings[name] = (value.op.name_hint, [name_of(a) for a in value.args])
        body = function.body.body
        fields = body.fields if isinstance(body, relax.Tuple) else [body]
        functions[var.name_hint] = Function([p.name for p in function.params], bindings,
                                            [name_of(f) for f in fields])
    return functions


def read_text(text):
    functions, current = {}, None
    for line in text.splitlines():
        if match := re.match(r"(?:private )?func @(\w+)\((.*)\)", line):
            params = re.findall(r"%(\w+): ", match[2].split(" -> ")[0])
            current = functions[match[1]] = Function(params, {}, [])
        elif match := re.match(r"  return (.*)", line):
            current.results = re.findall(r"%(\w+)", match[1])
        elif match := re.match(r"  %(\w+) = (?:(call) @)?(\w+)\(([^)]*)\)", line):
            operands = re.findall(r"%(\w+)", match[4])
            current.bindings[match[1]] = (match[3] if match[2] else None, operands)
    return functions


# Kernels whose pattern is another one there, by name, and which ones these are: the published analysis
# looks at indices alone. It finds no pattern for a reshape whose dimensions have a symbol, nor for what
# reads at a position that it has read; and it takes what keeps its index for elementwise, though there
# are fewer or more elements. Here all of them are injective.
DIFFERING = {"reshape": {OPAQUE}, "take": {OPAQUE, BROADCAST}, "gather": {OPAQUE},
             "strided_slice": {ELEMENTWISE}, "pad": {ELEMENTWISE}}


def same_shapes(function):
    """Of operand and result: a slice that leaves out nothing is elementwise on both sides."""
    first, last = ([str(dim) for dim in function.params[i].shape] for i in (0, -1))
    return first == last


def with_our_patterns(module):
    """The module with the patterns that differ here, and the names of the kernels that have them."""
    changed = []
    for var, function in module.functions.items():
        name = re.sub(r"\d*$", "", var.name_hint)
        keeps_all = name == "strided_slice" and same_shapes(function)
        if int(function.attrs.get("op_pattern", INJECTIVE)) in DIFFERING.get(name, ()) and \
                not keeps_all:
            module.update_func(var, function.with_attr("op_pattern", INJECTIVE))
            changed.append(name)
    return module, changed


def compare(tool, seed):
    graph = Graph(seed)
    text = graph.text()
    result = {"seed": seed, "ops": sum(op is not None for op in graph.ops), "text": text}
    made = subprocess.run([tool, "opt", "-", "--pass", "FuseOps", "--option",
                           "fuse.rules=published"], input=text, capture_output=True,
                          text=True)
    if made.returncode:
        result["failure"] = made.stderr
        return result
    ours = groups_of(graph, read_text(made.stdout))
    module = relax.transform.LegalizeOps()(graph.relax())
    module = relax.transform.AnnotateTIROpPattern()(module)
    module, result["patterns"] = with_our_patterns(module)
    if "reshape" in result["patterns"] and not graph.symbolic:
        result["failure"] = "a reshape of constant dimensions is opaque"
        return result
    published = groups_of(graph, read_relax(relax.transform.FuseOps()(module)))
    if set(ours) != {i for i, op in enumerate(graph.ops) if op} or set(ours) != set(published):
        result["failure"] = "not all ops were found"
        return result
    result["fused"] = sum(len(group) > 1 for group in ours.values())
    differing = [i for i in sorted(ours) if ours[i] != published[i]]
    result["differences"] = [f"v{i}: published {published[i]}, ours {ours[i]}" for i in differing]
    return result


def main():
    for line in sys.stdin:
        seed = int(line)
        try:
            result = compare(sys.argv[1], seed)
        except Exception:
            result = {"seed": seed, "failure": traceback.format_exc()}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
