"""Random Relax modules that run: the graphs of fusion_worker.py in functions, branches, tuples and blocks.

Dimensions of N are the symbol n of each function. Values stay where two float implementations agree: no NaN, no
infinities, indices in range or clamped by the op itself.
"""
import random

import fusion_worker
import numpy
from fusion_worker import N, RELAX_DTYPES
from tvm import relax, tirx
from cugrt.relax.dialect import TensorType, type_of

# What leaves the range in which results can be compared, or has other results for NaN.
UNLIKE = {"exp", "sqrt", "div"}
UPPER = 9  # of n
SCALE = 3.7  # before rounding, so that what modules say exactly, as -1.5, lies off the halves


class Graph(fusion_worker.Graph):
    """With indices that lie in their tensors: `index_of` has the size of the dimension that a parameter indexes."""

    def __init__(self, seed):
        self.index_of = {}
        super().__init__(seed)
        self.symbolic = True

    def unary(self, x, shape):
        self.op(self.random.choice(sorted(set(fusion_worker.UNARY) - UNLIKE)), [x], shape)

    def op(self, name, operands, shape, text="", keywords=None, dtype=None):
        super().op({"div": "sub"}.get(name, name), operands, shape, text, keywords, dtype)

    def gather(self, x, shape):
        before = len(self.ops)
        super().gather(x, shape)
        if len(self.ops) > before:
            self.index_of[before] = shape[self.ops[-1][3]["axis"]]

    def gather_elements(self, x, shape):
        axis = self.axis_of(shape)
        if axis is not None:
            ids = self.param(shape, "i32")
            self.index_of[ids] = shape[axis]
            self.op("gather_elements", [x, ids], shape, f" {{axis = {axis}}}", {"axis": axis})


    def relax_op(self, op, values, n):
        """What decides between elements, or cuts them off, does so of rounded ones: roundings before it change nothing."""
        name, operands, text, keywords = op
        kinds = {**fusion_worker.COMPARE, **fusion_worker.SEARCH, "cast": None}
        if name in kinds and self.dtypes[operands[0]] == "f32":
            values = {i: relax.op.round(relax.op.multiply(values[i], relax.const(SCALE, "float32"))) for i in operands}
        return super().relax_op((name, operands, text, keywords), values, n)


class Part:
    """Ops that stand together: `ops` and what of them is used after them."""

    def __init__(self, kind, ops):
        self.kind, self.ops, self.given, self.results = kind, ops, [], []


class Drawn:
    """A module, and values for its parameters at a size of n."""

    def __init__(self, seed):
        self.rng = random.Random(f"front {seed}")
        self.seed, self.graph = seed, Graph(seed)
        self.cut()
        self.choose_params()
        self.features = {part.kind for part in self.parts}
        self.module = self.build()

    def cut(self):
        """The graph's ops as parts."""
        rng, ops = self.rng, [i for i, op in enumerate(self.graph.ops) if op]
        self.parts = []
        while ops:
            count = rng.randint(1, 6)
            kind = rng.choices(("dataflow", "plain", "call", "if"), (4, 3, 2, 1.5))[0]
            self.parts.append(Part(kind, ops[:count]))
            ops = ops[count:]
        for at, part in enumerate(self.parts):
            own = set(part.ops)
            later = {o for p in self.parts[at + 1 :] for i in p.ops for o in self.graph.ops[i][1]}
            used = dict.fromkeys(o for i in part.ops for o in self.graph.ops[i][1] if o not in own)
            part.given = list(used)
            part.results = [i for i in part.ops if i in later or i in self.graph.results]

    def choose_params(self):
        rng = self.rng
        params = [i for i, op in enumerate(self.graph.ops) if not op]
        whole = [i for i in params if N not in self.graph.shapes[i] and i not in self.graph.index_of]
        self.constants = [i for i in whole if rng.random() < 0.2]
        self.weights = [i for i in whole if i not in self.constants and rng.random() < 0.4]
        self.inputs = [i for i in params if i not in self.constants and i not in self.weights]
        self.has_condition = any(part.kind == "if" for part in self.parts)

    # --- Values ---

    def array(self, i, n):
        rng = numpy.random.default_rng([self.seed, i, n])
        dims = [n if d == N else d for d in self.graph.shapes[i]]
        dtype = RELAX_DTYPES[self.graph.dtypes[i]]
        if i in self.graph.index_of:
            size = n if self.graph.index_of[i] == N else self.graph.index_of[i]
            return rng.integers(0, size, dims).astype(dtype)
        if dtype == "bool":
            return rng.random(dims) < 0.5
        if dtype.startswith("int"):
            return rng.integers(-5, 6, dims).astype(dtype)
        return rng.standard_normal(dims).astype(dtype)

    def arguments(self, n, yes):
        given = {f"v{i}": self.array(i, n) for i in self.inputs}
        if self.has_condition:
            given["yes"] = numpy.array(yes)
        return given, {f"v{i}": self.array(i, N) for i in self.weights}

    # --- Relax ---

    def type(self, i, n):
        return TensorType(self.graph.dims(self.graph.shapes[i], n), RELAX_DTYPES[self.graph.dtypes[i]])

    def build(self):
        builder = relax.BlockBuilder()
        for number, part in enumerate(self.parts):
            if part.kind == "call":
                part.callee = self.callee(builder, part, f"part{number}")
        n = tirx.Var("n", "int64")
        values = {i: relax.Var(f"v{i}", self.type(i, n)) for i in self.inputs + self.weights}
        params = [values[i] for i in self.inputs]
        condition = relax.Var("yes", TensorType([], "bool"))
        params += [condition] * self.has_condition + [values[i] for i in self.weights]
        attrs = {"tir_var_upper_bound": {"n": UPPER}, "tir_var_lower_bound": {"n": 1}}
        if self.weights:
            attrs["num_input"] = len(self.inputs) + self.has_condition
        with builder.function("main", params, attrs=attrs):
            for i in self.constants:
                values[i] = builder.emit(relax.const(self.array(i, N), RELAX_DTYPES[self.graph.dtypes[i]]), name_hint=f"v{i}")
            for part in self.parts:
                self.emit(builder, part, values, n, condition)
            builder.emit_func_output(self.returned(builder, values, n))
        return builder.get()

    def ops(self, builder, part, values, n):
        for i in part.ops:
            values[i] = builder.emit(self.graph.relax_op(self.graph.ops[i], values, n), name_hint=f"v{i}")

    def emit(self, builder, part, values, n, condition):
        if part.kind == "dataflow":
            with builder.dataflow():
                self.ops(builder, part, values, n)
                for i in part.results:
                    values[i] = builder.emit_output(values[i], name_hint=f"v{i}")
        elif part.kind == "plain":
            self.ops(builder, part, values, n)
        elif part.kind == "call":
            made = builder.emit(relax.Call(part.callee, [values[i] for i in part.given]))
            self.take_apart(builder, part, values, made)
        else:
            made = builder.emit(relax.If(condition, *(self.branch(builder, part, values, n, way) for way in (0, 1))))
            self.take_apart(builder, part, values, made)

    def take_apart(self, builder, part, values, made):
        for at, i in enumerate(part.results):
            field = made if len(part.results) == 1 else relax.TupleGetItem(made, at)
            values[i] = builder.emit(field, name_hint=f"v{i}")

    def results(self, part, values):
        made = [values[i] for i in part.results]
        return made[0] if len(made) == 1 else relax.Tuple(made)

    def branch(self, builder, part, values, n, way):
        """The part's ops; the second branch's results are twice as large."""
        inner = dict(values)
        builder._begin_binding_block()
        self.ops(builder, part, inner, n)
        for i in part.results:
            if way and self.graph.dtypes[i] == "f32":
                inner[i] = builder.emit(relax.op.add(inner[i], inner[i]))
        result = builder.emit(self.results(part, inner))
        made = relax.SeqExpr([builder._end_block()], result)
        return builder.normalize(made)

    def callee(self, builder, part, name):
        n = tirx.Var("n", "int64")
        values = {i: relax.Var(f"v{i}", self.type(i, n)) for i in part.given}
        params = [values[i] for i in part.given]
        with builder.function(name, params, private=True):
            self.ops(builder, part, values, n)
            var = builder.emit_func_output(self.results(part, values))
        return var

    def returned(self, builder, values, n):
        """The results, some of them in tuples, some with sizes that are expressions or matched."""
        rng, made = self.rng, []
        for i in self.graph.results:
            x, dims = values[i], self.graph.dims(self.graph.shapes[i], n)
            if N in self.graph.shapes[i] and rng.random() < 0.5:
                axis = self.graph.shapes[i].index(N)
                x = self.resized(builder, x, dims, axis, n, rng.choice(("twice", "cut", "flat", "match")))
            made.append(x)
        if len(made) > 2 and rng.random() < 0.5:
            made = [made[0], relax.Tuple(made[1:])]
        return made[0] if len(made) == 1 else relax.Tuple(made)

    def resized(self, builder, x, dims, axis, n, how):
        self.features.add(how)
        if how == "twice":
            return builder.emit(relax.op.concat([x, x], axis))
        if how == "cut":
            return builder.emit(relax.op.strided_slice(x, [axis], [0], [tirx.min(n, tirx.IntImm("int64", 3))]))
        if how == "flat":
            return builder.emit(relax.op.reshape(x, [-1]))
        k = tirx.Var("k", "int64")
        return builder.match_cast(x, TensorType([k if i == axis else d for i, d in enumerate(dims)], str(type_of(x).dtype)))

