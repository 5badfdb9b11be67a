"""ToMixedPrecision against the published pass of that name.

A random graph of ops that both have is written as Relax and as our text; both are narrowed to f16.
Of each op are compared: the dtype of every operand and of every result; and which values are cast
to what. The kinds of ops are the published ones on both sides, handed to ours by its options;
where our own table differs stands in TABLE_DIFFERENCES, which is compared with both tables. bf16 must
give our f16 module with the dtype renamed.
"""
import random
import re

import numpy
import tvm
from tvm import relax
from tvm.ir import GenericConst

KINDS = {0: "allow", 1: "follow", 2: "deny", None: "deny"}

# What our op is called there.
RELAX_NAMES = {
    "relu": "nn.relu", "neg": "negative", "abs": "abs", "tanh": "tanh", "sigmoid": "sigmoid",
    "silu": "nn.silu", "gelu": "nn.gelu", "erf": "erf", "sqrt": "sqrt", "exp": "exp", "log": "log",
    "sin": "sin", "cos": "cos", "rsqrt": "rsqrt", "floor": "floor", "round": "round",
    "clip": "clip", "softplus": "nn.softplus", "leaky_relu": "nn.leakyrelu",
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide", "maximum": "maximum",
    "minimum": "minimum", "pow": "power", "less": "less", "equal": "equal", "where": "where",
    "matmul": "matmul", "conv2d": "nn.conv2d", "attention": "nn.attention",
    "max_pool2d": "nn.max_pool2d", "avg_pool2d": "nn.avg_pool2d",
    "softmax": "nn.softmax", "log_softmax": "nn.log_softmax", "layer_norm": "nn.layer_norm",
    "rms_norm": "nn.rms_norm", "reduce_sum": "sum", "reduce_mean": "mean", "reduce_max": "max",
    "cumsum": "cumsum", "reshape": "reshape", "transpose": "permute_dims", "concat": "concat",
    "split": "split", "slice": "strided_slice", "broadcast_to": "broadcast_to", "gather": "take",
    "sign": "sign", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
    "cosh": "cosh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "ceil": "ceil",
    "is_nan": "isnan", "is_inf": "isinf", "logical_not": "logical_not", "floor_mod": "floor_mod",
    "trunc_mod": "mod", "prelu": "nn.prelu", "not_equal": "not_equal",
    "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater_equal",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "conv1d": "nn.conv1d", "reduce_prod": "prod", "reduce_min": "min", "argmax": "argmax",
    "argmin": "argmin", "top_k": "topk", "gather_elements": "gather_elements",
    "one_hot": "one_hot", "pad": "nn.pad", "cast": "astype", "range": "arange",
}

# (published kind, ours): {ops}. The first is what rounding does to results, the second what moves or
# bounds values without computing more.
TABLE_DIFFERENCES = {
    ("follow", "deny"): set(
        "exp log rsqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh floor ceil round "
        "is_nan is_inf logical_not pow floor_mod trunc_mod equal not_equal less less_equal greater "
        "greater_equal logical_and logical_or logical_xor layer_norm rms_norm cast range".split()),
    ("deny", "follow"): set("clip leaky_relu prelu where pad gather gather_elements".split()),
}

# Clip is not drawn: the published pass ends with an error where its operand would be cast.
UNARY = ("relu neg abs tanh sigmoid silu gelu erf sqrt exp log sin cos rsqrt floor round "
         "softplus leaky_relu log_softmax softmax cumsum").split()
BINARY = "add sub mul div maximum minimum pow".split()
M, D, V, T, F, A = (4, 4), (8, 4), (4,), (1, 4, 4, 4), (16,), (1, 4, 2, 2)


def published_kinds():
    kinds = {}
    for ours, theirs in RELAX_NAMES.items():
        policy = tvm.ir.Op.get("relax." + theirs).get_attr("TMixedPrecisionPolicy")
        kinds[ours] = KINDS[None if policy is None else int(policy)]
    return kinds


class Node:
    """`results` are names, `shapes` theirs; the dtype is f32, or bool of comparisons."""

    def __init__(self, op, inputs, results, shapes, attributes=None, dtype="f32"):
        self.op, self.inputs, self.results, self.shapes = op, inputs, results, shapes
        self.attributes, self.dtype = attributes or {}, dtype


class Graph:
    def __init__(self, seed):
        self.rng = random.Random(f"mixed {seed}")
        self.shapes = {}  # of f32 values that ops may use
        self.nodes, self.constants, self.conditions = [], [], []
        self.params = {f"p{i}": shape for i, shape in enumerate((M, M, V, T, D, A))}
        for i in range(self.rng.randrange(3)):
            self.params[f"q{i}"] = self.rng.choice((M, T, V))
        self.shapes.update(self.params)
        self.params["kernel"] = (4, 4, 3, 3)
        for i in range(self.rng.randrange(3)):
            self.constants.append((f"c{i}", self.rng.choice((M, V, T))))
        self.shapes.update(self.constants)
        for _ in range(self.rng.choice((2, 4, 8, 12, 20))):
            self.step()
        made = [name for node in self.nodes for name in node.results if node.dtype == "f32"]
        used = {name for node in self.nodes for name in node.inputs}
        self.results = [name for name in made if name not in used and self.rng.random() < 0.9]
        self.results += self.rng.sample(made, min(len(made), self.rng.choice((0, 0, 1))))
        self.results = list(dict.fromkeys(self.results)) or made[:1]

    def pick(self, shape):
        """A value of that shape, a late one rather than an early one."""
        names = [name for name, s in self.shapes.items() if s == shape]
        at = int(len(names) * (1 - self.rng.random() ** 2))
        return names[min(at, len(names) - 1)] if names else None

    def add(self, op, inputs, shapes, attributes=None, dtype="f32"):
        if None in inputs:
            return
        number = len(self.nodes)
        results = [f"n{number}"] if len(shapes) == 1 else \
            [f"n{number}.{i}" for i in range(len(shapes))]
        self.nodes.append(Node(op, inputs, results, shapes, attributes, dtype))
        if dtype == "f32":
            self.shapes.update(zip(results, shapes))
        else:
            self.conditions.append(results[0])

    def step(self):
        rng, before = self.rng, len(self.nodes)
        while len(self.nodes) == before:
            any_shape = rng.choice((M, M, M, D, T, V, F, A))
            choice = rng.random()
            if choice < 0.25:
                self.linear()
            elif choice < 0.45:
                self.add(rng.choice(UNARY), [self.pick(any_shape)], [any_shape])
            elif choice < 0.7:
                other = rng.choice((any_shape, any_shape, V)) if any_shape in (M, D, T) \
                    else any_shape
                self.add(rng.choice(BINARY), [self.pick(any_shape), self.pick(other)], [any_shape])
            elif choice < 0.85:
                self.movement()
            else:
                self.other(any_shape)

    def linear(self):
        kind = self.rng.choice(("matmul", "matmul", "matmul", "conv2d", "attention"))
        if kind == "matmul":
            left = self.rng.choice((M, M, D))
            self.add("matmul", [self.pick(left), self.pick(M)], [left])
        elif kind == "conv2d":
            self.add("conv2d", [self.pick(T), "kernel"], [T], {"padding": [1, 1]})
        else:
            self.add("attention", [self.pick(A) for _ in range(3)], [A])

    def movement(self):
        kind = self.rng.choice(("reshape", "transpose", "concat", "split", "slice", "stretch"))
        if kind == "reshape":
            source, to = self.rng.choice(((M, F), (F, M), (F, A), (A, F)))
            self.add("reshape", [self.pick(source)], [to], {"shape": list(to)})
        elif kind == "transpose":
            self.add("transpose", [self.pick(M)], [M], {"axes": [1, 0]})
        elif kind == "concat":
            self.add("concat", [self.pick(M), self.pick(M)], [D], {"axis": 0})
        elif kind == "split":
            self.add("split", [self.pick(D)], [M, M], {"axis": 0, "sections": [4, 4]})
        elif kind == "slice":
            self.add("slice", [self.pick(D)], [M], {"axes": [0], "starts": [2], "ends": [6]})
        else:
            self.add("broadcast_to", [self.pick(V)], [M])

    def other(self, shape):
        kind = self.rng.choice(("reduce", "pool", "norm", "compare", "where", "gather"))
        if kind == "reduce":
            op = self.rng.choice(("reduce_sum", "reduce_mean", "reduce_max"))
            self.add(op, [self.pick(M)], [V], {"axes": [0]})
        elif kind == "pool":
            self.add(self.rng.choice(("max_pool2d", "avg_pool2d")), [self.pick(T)], [T],
                     {"kernel": [3, 3], "padding": [1, 1]})
        elif kind == "norm":
            self.add("layer_norm", [self.pick(M), self.pick(V), self.pick(V)], [M])
        elif kind == "compare":
            self.add(self.rng.choice(("less", "equal")), [self.pick(M), self.pick(M)], [M],
                     dtype="bool")
        elif kind == "where" and self.conditions:
            self.add("where", [self.rng.choice(self.conditions), self.pick(M), self.pick(M)], [M])
        elif kind == "gather":
            self.add("gather", [self.pick(M), "ids"], [M], {"axis": 0})


# --- Ours ----------------------------------------------------------------------------------------

def type_text(shape, dtype="f32"):
    return f"tensor<[{', '.join(map(str, shape))}], {dtype}>"


def number_of(constant):
    """What fills a constant, so that each is told from all others."""
    return int(constant[1:]) + 1


def as_text(graph):
    lines = ["cugrt 1"]
    for name, shape in graph.constants:
        values = ", ".join([f"{number_of(name)}.0"] * int(numpy.prod(shape)))
        lines.append(f"constant @{name} : {type_text(shape)} = [{values}]")
    params = ", ".join([f"%{name}: {type_text(shape)}" for name, shape in graph.params.items()] +
                       ["%ids: tensor<[4], i32>"])
    shapes = {name: shape for node in graph.nodes
              for name, shape in zip(node.results, node.shapes)}
    types = ", ".join(type_text(shapes[name]) for name in graph.results)
    lines.append(f"func @main({params}) -> ({types}) {{")
    lines += [f"  %{name} = constant @{name}" for name, _ in graph.constants]
    for node in graph.nodes:
        operands = ", ".join("%" + name for name in node.inputs)
        if node.op == "broadcast_to":
            lines.append(f"  %{node.results[0]}.shape = shape [4, 4]")
            operands += f", %{node.results[0]}.shape"
        attributes = ", ".join(f"{k} = {v}" for k, v in node.attributes.items())
        lines.append(f"  {', '.join('%' + r for r in node.results)} = {node.op}({operands})" +
                     (f" {{{attributes}}}" if attributes else ""))
    lines += [f"  return {', '.join('%' + r for r in graph.results)}", "}", ""]
    return "\n".join(lines)


def read_ours(answer):
    """From the bindings that the program lists: {"op", "callee", "operands", "results"}."""
    known = {name: [name, dtype] for name, dtype in answer["params"]}
    ops, casts = [], []
    for row in answer["bindings"]:
        operands = [known[name] for name in row["operands"] if name in known]
        if row["op"] == "constant":
            name, dtype = row["results"][0]
            known[name] = [row["callee"].removesuffix("_f16"), dtype]
        elif row["op"] == "cast":
            name, dtype = row["results"][0]
            known[name] = [operands[0][0], dtype]
            casts.append(known[name])
        elif row["op"] != "shape":
            for name, dtype in row["results"]:
                known[name] = [name, dtype]
            ops.append([row["op"], operands, [dtype for _, dtype in row["results"]]])
    return {"ops": ops, "casts": casts, "results": [known[name] for name in answer["returns"]]}


# --- Theirs --------------------------------------------------------------------------------------

def build_call(node, args):
    op, nn = relax.op, relax.op.nn
    attributes = node.attributes
    special = {
        "leaky_relu": lambda: nn.leakyrelu(args[0], 0.01),
        "softmax": lambda: nn.softmax(args[0], -1),
        "log_softmax": lambda: nn.log_softmax(args[0], -1),
        "cumsum": lambda: op.cumsum(args[0], -1),
        "conv2d": lambda: nn.conv2d(args[0], args[1], padding=1),
        "max_pool2d": lambda: nn.max_pool2d(args[0], (3, 3), padding=1),
        "avg_pool2d": lambda: nn.avg_pool2d(args[0], (3, 3), padding=1),
        "layer_norm": lambda: nn.layer_norm(*args, axes=[-1]),
        "reshape": lambda: op.reshape(args[0], attributes["shape"]),
        "transpose": lambda: op.permute_dims(args[0], [1, 0]),
        "concat": lambda: op.concat(args, 0),
        "split": lambda: op.split(args[0], 2, 0),
        "slice": lambda: op.strided_slice(args[0], [0], [2], [6]),
        "broadcast_to": lambda: op.broadcast_to(args[0], (4, 4)),
        "gather": lambda: op.take(args[0], args[1], axis=0),
        "reduce_sum": lambda: op.sum(args[0], 0),
        "reduce_mean": lambda: op.mean(args[0], 0),
        "reduce_max": lambda: op.max(args[0], 0),
    }
    if node.op in special:
        return special[node.op]()
    call = op
    for part in RELAX_NAMES[node.op].split("."):
        call = getattr(call, part)
    return call(*args)


def as_relax(graph):
    builder = relax.BlockBuilder()
    params = [relax.Var(name, relax.TensorType(shape, "float32"))
              for name, shape in graph.params.items()]
    params.append(relax.Var("ids", relax.TensorType((4,), "int32")))
    values = {param.name: param for param in params}
    for name, shape in graph.constants:
        values[name] = relax.const(numpy.full(shape, number_of(name), "float32"))
    with builder.function("main", params):
        with builder.dataflow():
            for node in graph.nodes:
                made = builder.emit(build_call(node, [values[name] for name in node.inputs]))
                if len(node.results) == 1:
                    values[node.results[0]] = made
                    continue
                for i, name in enumerate(node.results):
                    values[name] = builder.emit(relax.TupleGetItem(made, i))
            outputs = [builder.emit_output(values[name]) for name in graph.results]
        builder.emit_func_output(relax.Tuple(outputs))
    return builder.get()


DTYPES = {"float32": "f32", "float16": "f16", "bool": "bool", "int32": "i32", "int64": "i64"}


class RelaxReader:
    """The same facts of a narrowed Relax function; its bindings of ops come in the drawn order."""

    def __init__(self, graph, function):
        self.ours = {"relax." + theirs: ours for ours, theirs in RELAX_NAMES.items()}
        self.nodes = iter(graph.nodes)
        self.known = {}  # variable: [[name, dtype], ..], one for each field
        for param in function.params:
            self.known[param] = [[param.name, self.dtype(param.ty)]]
        self.ops, self.casts = [], []
        for block in function.body.blocks:
            for binding in block.bindings:
                self.known[binding.var] = self.binding(binding)
        self.results = self.value(function.body.body)

    @staticmethod
    def dtype(ty):
        return DTYPES[str(ty.dtype)]

    def value(self, expr):
        if isinstance(expr, relax.Var):
            return self.known[expr]
        if isinstance(expr, GenericConst):
            number = int(expr.value.numpy().flat[0])
            return [[f"c{number - 1}", self.dtype(expr.ty)]]
        if isinstance(expr, relax.Tuple):
            return [part for field in expr.fields for part in self.value(field)]
        return []  # shapes and numbers

    def binding(self, binding):
        value = binding.value
        if isinstance(value, relax.TupleGetItem):
            return [self.value(value.tuple_value)[value.index]]
        if not isinstance(value, relax.Call):
            return self.value(value)
        if value.op.name == "relax.astype":
            [[name, _]] = self.value(value.args[0])
            cast = [name, self.dtype(binding.var.ty)]
            if not isinstance(value.args[0], GenericConst):
                self.casts.append(cast)
            return [cast]
        node = next(self.nodes)
        assert self.ours[value.op.name] == node.op
        types = binding.var.ty.fields if len(node.results) > 1 else [binding.var.ty]
        dtypes = [self.dtype(ty) for ty in types]
        operands = [part for arg in value.args for part in self.value(arg)]
        self.ops.append([node.op, operands, dtypes])
        return [[name, dtype] for name, dtype in zip(node.results, dtypes)]


# --- Comparison ----------------------------------------------------------------------------------

def unique(casts):
    """The published pass casts a value anew at each use."""
    return sorted(map(list, {tuple(cast) for cast in casts}))


class Mixed:
    def __init__(self, plans):
        self.plans = plans
        self.kinds = published_kinds()
        self.table_failure = self.compare_tables()

    def compare_tables(self):
        ours = self.plans.request({"kinds": True})
        found = {}
        for op, kind in self.kinds.items():
            if ours[op] != kind:
                found.setdefault((kind, ours[op]), set()).add(op)
        if found != TABLE_DIFFERENCES:
            return f"the tables of ops differ by {found}, but are to by {TABLE_DIFFERENCES}"
        return None

    def narrowed(self, text, dtype):
        options = {"mixed.dtype": dtype}
        for kind in ("allow", "follow", "deny"):
            ops = [op for op, of in self.kinds.items() if of == kind]
            options["mixed." + kind] = ",".join(ops)
        answer = self.plans.request({"text": text, "options": options})
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def compare(self, seed):
        """What differs, in words, None where nothing does; the text of both modules; how many of
        the published pass' ops are narrow, of how many."""
        graph = Graph(seed)
        text = as_text(graph)
        if self.table_failure:
            return self.table_failure, text, (0, 0)
        answer = self.narrowed(text, "f16")
        ours = read_ours(answer)
        module = relax.transform.ToMixedPrecision(out_dtype="float16")(as_relax(graph))
        theirs = RelaxReader(graph, module["main"])
        found = []
        for mine, published in zip(ours["ops"], theirs.ops):
            if mine != published:
                found.append(f"published: {published}\nours:      {mine}")
        if len(ours["ops"]) != len(theirs.ops):
            found.append(f"{len(theirs.ops)} published ops, {len(ours['ops'])} of ours")
        if ours["results"] != theirs.results:
            found.append(f"published results: {theirs.results}\nours: {ours['results']}")
        if sorted(ours["casts"]) != unique(theirs.casts):
            found.append(f"published casts: {unique(theirs.casts)}\nours: {sorted(ours['casts'])}")
        renamed = re.sub(r"\bf16\b|(?<=_)f16\b", "bf16", answer["text"])
        if self.narrowed(text, "bf16")["text"] != renamed:
            found.append("bf16 gives another module than f16")
        narrow = sum(any(dtype == "f16" for _, dtype in operands) for _, operands, _ in theirs.ops)
        return "\n".join(found) or None, text + "\n" + answer["text"], (narrow, len(theirs.ops))
