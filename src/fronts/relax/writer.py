"""A cugrt.Module as a Relax module, which TVM's virtual machine runs on a CPU. Ops are in outward.py."""

import typing

import numpy
import tvm
from tvm import relax, tirx

import cugrt
from cugrt import Code, Error

from . import outward
from .dialect import AnyType, PrimType, ShapeType, StringImm, TensorType, TupleType
from .dialect import call, dtype_constant, is_typed, name_of, number, result_type, set_type, type_of, with_span
from .dims import DTYPES
from .text import Dtype, Function, Global, Parser, Text, Value

RELAX_DTYPES = {ours: theirs for theirs, ours in DTYPES.items()}
LIFTED = {
    "cuda_graph.get_cached_alloc": "vm.builtin.cuda_graph.get_cached_alloc",
    "cuda_graph.run_or_capture": "vm.builtin.cuda_graph.run_or_capture",
}


def to_relax(module):
    """A ``tvm.IRModule`` of a :class:`cugrt.Module`, whose functions give the same results in TVM's virtual machine.

    Raises :class:`cugrt.Error` for what Relax has no place for: loops, kernels, strides.
    """
    if not isinstance(module, cugrt.Module):
        raise Error(f"to_relax takes a cugrt.Module, not a {type(module).__name__}")
    return Writer(module.text).write()


def unsupported(message):
    return Error(message, Code.UNSUPPORTED)


class Signature(typing.NamedTuple):
    """How a function of Relax takes its parameters and gives its results, which in the text are parts of tuples."""

    params: list  # (name, nest)
    result: typing.Any  # a nest: None of what is no tuple, else a list of the fields' nests
    attributes: dict  # those that the function had


def nest_of(t):
    return [nest_of(field) for field in t.fields] if isinstance(t, TupleType) else None


def packed(nest, parts, make):
    """Parts, an iterator, as `make` makes tuples of lists."""
    return next(parts) if nest is None else make([packed(one, parts, make) for one in nest])


class Writer:
    """``read``: the reader that saw PrimFuncs and packed functions as they are, where passes of a Relax module ran."""

    def __init__(self, text, read=None):
        self.opaque, self.read = read is not None, read
        self.constants, _, self.functions = Parser(text).module()
        self.prims = read.opaque_kernels() if read else {}
        self.globals = {f.name: tvm.ir.GlobalVar(f.name) for f in self.functions}
        self.declared = {f.name: f for f in self.functions}
        self.signatures = {name: self.signature(f) for name, f in read.functions_by_text().items()} if read else {}
        statements = [s for f in self.functions for s in f.body]
        for f in {s.operands[0] for s in statements if s.kind == "host" and s.name == "cuda_graph.get_cached_alloc"}:
            self.signatures[f] = Signature([], [None] * len(self.declared[f].results), {})
        self.made = {}

    def signature(self, f):
        params = [(name_of(p), nest_of(type_of(p))) for p in f.params]
        return Signature(params, nest_of(result_type(f)), dict(f.attrs.items()) if f.attrs else {})

    def write(self):
        for f in self.functions:
            self.function(f.name)
        out = {self.globals[f.name]: self.made[f.name] for f in self.functions}
        out.update({var: f for var, f in self.prims.values()})
        return tvm.IRModule(out, attrs=self.read.module.attrs if self.read else None)

    def function(self, name):
        if name not in self.made:
            self.made[name] = None  # no function calls itself
            self.made[name] = FunctionWriter(self, self.declared[name]).write()
            set_type(self.globals[name], type_of(self.made[name]))
        return self.made[name]


class FunctionWriter:
    def __init__(self, writer, function: Function):
        self.writer, self.f = writer, function
        self.symbols, self.values, self.types = {}, {}, {}
        self.builder = relax.BlockBuilder()
        self.pure = True
        self.span = ()  # of the statement that is being made
        self.taken_apart = []  # parameters that are tuples: the variable, its nest and its parts' names

    # --- Sizes and types ---

    def dim(self, e):
        if isinstance(e, int):
            return tirx.IntImm("int64", e)
        if isinstance(e, str):
            if e not in self.symbols:
                self.symbols[e] = tirx.Var(e, "int64")
            return self.symbols[e]
        a = [self.dim(one) for one in e[1:]]
        make = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "floordiv": tirx.floordiv,
            "mod": tirx.floormod,
            "min": tirx.min,
            "max": tirx.max,
            "select": tirx.Select,
            "ceildiv": lambda a, b: tirx.floordiv(a + b - 1, b),
        }
        if e[0] == "select":
            return tirx.Select(self.condition(e[1]), a[1], a[2])
        if e[0] in make:
            return make[e[0]](*a)
        return tirx.Select(self.condition(e), tirx.IntImm("int64", 1), tirx.IntImm("int64", 0))

    def condition(self, e):
        kinds = {"==": tirx.EQ, "!=": tirx.NE, "<": tirx.LT, "<=": tirx.LE, ">": tirx.GT, ">=": tirx.GE}
        if isinstance(e, tuple) and e[0] in kinds:
            return kinds[e[0]](self.dim(e[1]), self.dim(e[2]))
        return tirx.NE(self.dim(e), tirx.IntImm("int64", 0))

    def shape(self, dims):
        return relax.ShapeExpr([self.dim(d) for d in dims])

    def type(self, t):
        if t.kind == "tensor":
            if t.scope != "global" and not self.writer.opaque:
                raise unsupported(
                    f"function '{self.f.name}' has a tensor of scope '{t.scope}', which Relax does not have"
                )
            if t.dtype not in RELAX_DTYPES:
                raise unsupported(f"function '{self.f.name}' has a tensor of {t.dtype}, which Relax does not have")
            return TensorType(None if t.dims is None else self.shape(t.dims), RELAX_DTYPES[t.dtype])
        if t.kind == "shape":
            return ShapeType([self.dim(d) for d in t.dims])
        if t.kind == "tuple":
            return TupleType([self.type(one) for one in t.parts])
        if t.kind in ("int", "float", "bool"):
            return PrimType({"int": "int64", "float": "float64", "bool": "bool"}[t.kind])
        return AnyType()

    # --- Functions ---

    def write(self):
        f = self.f
        own = self.writer.signatures.get(f.name)
        names = iter(f.params)
        params = [self.parameter(name, nest, names) for name, nest in own.params] if own else []
        params += [self.parameter(one[0], None, iter([one])) for one in names]
        attrs = self.attributes()
        nest = own.result if own else None if len(f.results) == 1 else [None] * len(f.results)
        self.pure = not any(self.impure(s) for s in f.body)
        if not self.pure or self.writer.opaque:
            attrs["relax.force_pure"] = True
        self.builder.begin_scope(params)  # else the symbols of the parameters are forgotten where an `if` ends
        body = self.sequence(f.body, f.returned, nest)
        self.builder.end_scope()
        result = packed(nest, (self.type(t) for t in f.results), TupleType)
        made = relax.Function(params, body, result, True, tvm.ir.make_node("ir.DictAttrs", **attrs))
        return made

    def parameter(self, name, nest, flat):
        """A parameter, whose parts the body takes out of it first."""
        if nest is None:
            name, _, t = next(flat)
            made = self.values[name] = relax.Var(name, self.type(t))
            return made
        parts = []

        def part():
            parts.append(next(flat))
            return self.type(parts[-1][2])

        made = relax.Var(name, packed(nest, iter(part, None), TupleType))
        self.taken_apart.append((made, nest, [part[0] for part in parts]))
        return made

    def parts(self, value, nest):
        """What a tuple has, of tuples too."""
        if nest is None:
            return [value]
        return [
            part
            for i, one in enumerate(nest)
            for part in self.parts(self.emit(relax.TupleGetItem(value, i), "part"), one)
        ]

    def impure(self, s):
        return s.kind in ("launch", "alloc", "alloc_tensor", "alloc_storage", "kill", "host") or any(
            self.impure(one) for block in s.blocks for one in block[0]
        )

    def attributes(self):
        given, out = self.f.attributes, {}
        if self.f.name in self.writer.signatures and self.writer.signatures[self.f.name].attributes:
            return dict(self.writer.signatures[self.f.name].attributes)
        if not self.f.private:
            out["global_symbol"] = self.f.name
        names = {
            "num_inputs": "num_input",
            "upper_bounds": "tir_var_upper_bound",
            "lower_bounds": "tir_var_lower_bound",
            "capture_symbols": "relax.rewrite_cuda_graph.capture_symbolic_vars",
            "primitive": "Primitive",
            "plan_dynamic_results": "relax.memory_plan_dynamic_func_output",
        }
        for key, value in given.items():
            if key in ("constraints", "buckets", "bucket_symbols", "counted_dims"):
                raise unsupported(f"function '{self.f.name}' has {key}, which Relax has no place for")
            if key in names:
                out[names[key]] = value
        return out

    def sequence(self, statements, returned, nest):
        """Statements and what comes of them, as a SeqExpr."""
        self.builder._begin_binding_block()
        try:
            result = self.bound(statements, returned, nest)
        finally:  # else the builder prints a warning
            block = self.builder._end_block()
        made = relax.SeqExpr([block], result)
        with_type(made, type_of(result) if is_typed(result) else TupleType([type_of(v) for v in result.fields]))
        return made

    def bound(self, statements, returned, nest):
        for value, shape, names in self.taken_apart:
            self.values.update(zip(names, self.parts(value, shape)))
        self.taken_apart = []
        for s in statements:
            self.bind(s)
        self.span = ()
        result = packed(nest, map(self.operand, returned), relax.Tuple)
        return self.builder.emit(result, "result") if not isinstance(result, relax.Var) and returned else result

    # --- Bindings ---

    def operand(self, value):
        if isinstance(value, Value):
            return self.values[value]
        if isinstance(value, Global):
            self.writer.function(value)
            return self.writer.globals[value]
        if isinstance(value, Text):
            return StringImm(str(value))
        if isinstance(value, Dtype):
            return dtype_constant(RELAX_DTYPES[value])
        if isinstance(value, (bool, float)):
            return relax.const(value, "bool" if isinstance(value, bool) else "float64")
        return number(self.dim(value))

    def emit(self, value, name):
        return self.builder.emit(with_span(value, self.span) if self.span else value, name)

    def call(self, op, args, t, type_args=None):
        return call(tvm.ir.Op.get("relax." + op) if isinstance(op, str) else op, args, t, type_args)

    def bind(self, s):
        self.span = s.span
        made = getattr(self, "make_" + s.kind)(s)
        self.span = s.span  # blocks inside have had theirs
        if isinstance(made, list) and len(s.results) == 1:
            made = made[0]
        if len(s.results) > 1:
            whole = made if isinstance(made, list) else None
            if whole is None:
                tuple_ = self.emit(made, s.results[0] + "_all")
                whole = [relax.TupleGetItem(tuple_, i) for i in range(len(s.results))]
            for name, part in zip(s.results, whole):
                self.values[name] = self.emit(part, name)
        elif s.results:
            name = s.results[0]
            t = s.types[0] if s.types else None
            if s.kind == "match":
                self.values[name] = self.builder.match_cast(made, self.type(t), name)
            elif isinstance(made, (relax.ShapeExpr, relax.Var)):
                self.values[name] = made
            else:
                self.values[name] = self.emit(made, name)
        elif made is not None:
            self.emit(made, "_")

    def make_match(self, s):
        return self.operand(s.operands[0])

    def make_alias(self, s):
        return self.operand(s.operands[0])

    make_literal = make_alias

    def make_shape(self, s):
        return self.shape(s.operands)

    def make_tuple(self, s):
        if self.writer.opaque and s.results and s.results[0] in self.writer.read.nulls:
            return relax.op.null_value()
        return relax.Tuple([self.operand(one) for one in s.operands])

    def make_get(self, s):
        return relax.TupleGetItem(self.operand(s.operands[0]), s.operands[1])

    def make_constant(self, s):
        t, content = self.writer.constants[s.name]
        dtype = RELAX_DTYPES[t.dtype]
        if dtype == "bfloat16":
            raw = numpy.frombuffer(content, "uint16").astype("uint32") << 16
            return relax.op.astype(relax.const(raw.view("float32").reshape(t.dims), "float32"), "bfloat16")
        array = numpy.frombuffer(content, dtype) if isinstance(content, bytes) else numpy.array(content, dtype)
        return relax.const(array.reshape(t.dims), dtype)

    def make_alloc(self, s):
        t = s.types[0]
        args = [self.shape(t.dims), dtype_constant(RELAX_DTYPES[t.dtype]), number(self.dim(0)), StringImm(t.scope)]
        return self.call("builtin.alloc_tensor", args, self.type(t))

    def make_alloc_storage(self, s):
        args = [self.shape(s.operands), number(self.dim(0)), StringImm(s.name), dtype_constant("uint8")]
        return self.call("memory.alloc_storage", args, AnyType())

    def make_alloc_tensor(self, s):
        t = s.types[0]
        args = [
            self.operand(s.operands[0]),
            number(self.dim(s.operands[1])),
            self.shape(t.dims),
            dtype_constant(RELAX_DTYPES[t.dtype]),
            number(self.dim(0)),
        ]
        return self.call("memory.alloc_tensor", args, self.type(t))

    def make_view(self, s):
        t = s.types[0]
        source = self.operand(s.operands[0])
        whole = s.operands[1] == 0 and str(type_of(source).dtype) == RELAX_DTYPES[t.dtype]
        if self.writer.opaque and whole and 0 not in t.dims:  # TVM reads a size 0 as that of the operand
            try:  # of all of it
                return self.builder.normalize(relax.op.reshape(source, self.shape(t.dims)))
            except Exception:  # what TVM throws has no common class
                pass
        args = [
            source,
            self.shape(t.dims),
            dtype_constant(RELAX_DTYPES[t.dtype]),
            number(self.dim(s.operands[1])),
        ]
        return self.call("memory.view", args, self.type(t))

    def make_kill(self, s):
        value = self.operand(s.operands[0])
        storage = not isinstance(type_of(value), TensorType)
        return self.call("memory.kill_storage" if storage else "memory.kill_tensor", [value], TupleType([]))

    def make_launch(self, s):
        if s.name not in self.writer.prims:
            raise unsupported(f"function '{self.f.name}' launches the kernel '{s.name}', which Relax has no place for")
        of, given = self.writer.prims[s.name][0], [self.operand(one) for one in s.operands]
        sizes = [one for one in s.operands if not isinstance(one, Value)]
        if not sizes or s.operands[-len(sizes) :] != sizes:
            return self.call(of, given, TupleType([]))
        fields = [*given[: -len(sizes)], self.shape(sizes)]
        args = relax.Tuple(fields)
        with_type(args, TupleType([type_of(one) for one in fields]))
        return self.call("vm.call_tir_dyn", [of, args], TupleType([]))

    def make_call(self, s):
        self.writer.function(s.name)
        own, given = self.writer.signatures.get(s.name), map(self.operand, s.operands)
        args = [packed(nest, given, relax.Tuple) for _, nest in own.params] if own else []
        made = relax.Call(self.writer.globals[s.name], [*args, *given])
        return self.parts(self.emit(made, s.results[0]), own.result) if own and own.result is not None else made

    def make_host(self, s):
        if s.name not in LIFTED and not self.writer.opaque:
            raise unsupported(f"function '{self.f.name}' calls the host's '{s.name}', which Relax has no place for")
        types = [self.type(t) for t in s.types]
        t = TupleType(types) if s.name.endswith("get_cached_alloc") or len(types) != 1 else types[0]
        fields = [self.operand(one) for one in s.operands]
        args = relax.Tuple(fields)
        with_type(args, TupleType([type_of(one) for one in fields]))
        made = self.call("call_builtin_with_ctx", [relax.ExternFunc(LIFTED.get(s.name, s.name)), args], t, [t])
        if isinstance(t, TupleType) and len(s.results) == 1:
            return relax.TupleGetItem(self.emit(made, s.results[0] + "_all"), 0)
        return made

    def make_extern(self, s):
        if self.writer.opaque:
            types = [self.type(t) for t in s.types]
            t = types[0] if len(types) == 1 else TupleType(types)
            return self.call(relax.ExternFunc(s.name), [self.operand(one) for one in s.operands], t, [t])
        raise unsupported(f"function '{self.f.name}' calls '{s.name}', which Relax has no place for")

    def make_if(self, s):
        if len(s.blocks) != 2 or not isinstance(s.operands[0], Value):
            raise unsupported(f"function '{self.f.name}' has an if that Relax has no place for")
        before = dict(self.values)
        branches = []
        for statements, given in s.blocks:
            branches.append(self.sequence(statements, given, None if len(given) == 1 else [None] * len(given)))
            self.values = dict(before)
        return relax.If(self.operand(s.operands[0]), *branches)

    def make_op(self, s):
        if s.name not in outward.TABLE:
            raise unsupported(f"op '{s.name}' of function '{self.f.name}' has no counterpart in Relax")
        given = [None if one is None else self.operand(one) for one in s.operands]
        return outward.TABLE[s.name](outward.Making(self), *given, **s.attributes)


def with_type(expr, t):
    """Gives an expression its type where it has none."""
    if not is_typed(expr):
        set_type(expr, t)
