"""A neutral module as Relax, built without the parser: every expression gets its type at once."""
import tvm
from tvm import relax, tirx
from tvm.ir import Call, GenericConst, GlobalVar, Op, StringImm
from tvm.relax.expr import _update_type

_ops = {name: Op.get("relax." + name) for name in (
    "builtin.alloc_tensor", "memory.alloc_storage", "memory.alloc_tensor", "memory.view",
    "memory.ensure_zero_offset", "memory.kill_tensor", "memory.kill_storage", "reshape", "add",
    "null_value", "call_builtin_with_ctx", "vm.call_tir_dyn")}
_dtypes = {}
_kernels = {}
_externs = {}
_any = relax.AnyType()
_no_result = relax.TupleType([])
_kernel_builder = relax.BlockBuilder()


def dtype_constant(name):
    if name not in _dtypes:
        _dtypes[name] = GenericConst(tvm.DataType(name), _any)
    return _dtypes[name]


def integer(value):
    return tirx.IntImm("int64", value)


_zero = integer(0)
_OPERATORS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
              "max": tirx.max, "min": tirx.min, "floordiv": tirx.floordiv}


def kernel(name):
    """(GlobalVar, PrimFunc) of a kernel that does nothing; the same ones for all modules."""
    if name not in _kernels:
        params = [tirx.Var(f"p{i}", "int64" if c == "s" else "handle")
                  for i, c in enumerate(name.split("_")[1])]
        body = tirx.PrimFunc(params, tirx.Evaluate(0)).with_attr("global_symbol", name)
        var = _kernel_builder.add_func(body, name)
        _kernels[name] = (var, _kernel_builder.get()[var])
    return _kernels[name]


class Builder:
    def __init__(self, module):
        self.module = module
        self.globals = {}
        self.results = {}
        self.constants = dict(module.constants)

    def build(self):
        functions = {}
        for name in self.module.kernels():
            var, body = kernel(name)
            self.globals[name] = var
            functions[var] = body
        for f in self.module.functions:
            self.globals[f.name] = GlobalVar(f.name)
        # Callees were drawn before their callers, and calls need their types.
        built = {f.name: self.function(f)
                 for f in sorted(self.module.functions, key=lambda f: f.name)}
        for f in self.module.functions:
            functions[self.globals[f.name]] = built[f.name]
        return tvm.IRModule(functions)

    # --- Types and dimensions ---

    def dim(self, d):
        if isinstance(d, int):
            return integer(d)
        if isinstance(d, str):
            if d not in self.symbols:
                self.symbols[d] = tirx.Var(d, "int64")
            return self.symbols[d]
        return _OPERATORS[d[0]](self.dim(d[1]), self.dim(d[2]))

    def shape(self, dims):
        return relax.ShapeExpr([self.dim(d) for d in dims])

    def type(self, t):
        if t.kind == "tensor" and t.dims is None:
            return relax.TensorType(None, t.dtype)
        if t.kind == "tensor":
            return relax.TensorType(self.shape(t.dims), t.dtype)
        if t.kind == "tuple":
            return relax.TupleType([self.type(f) for f in t.fields])
        if t.kind == "shape":
            return relax.ShapeType([self.dim(d) for d in t.dims])
        return tvm.ir.PrimType("int64") if t.kind == "integer" else _any

    # --- Functions and bindings ---

    def function(self, f):
        self.symbols, self.values = {}, {}
        params = [self.define(p.name, p.type) for p in f.params]
        result = self.type(f.body.result.type)
        attrs = {"relax.force_pure": True}
        if not f.is_private:
            attrs["global_symbol"] = f.name
        if f.num_inputs is not None:
            attrs["num_input"] = f.num_inputs
        if f.upper:
            attrs["tir_var_upper_bound"] = dict(f.upper)
        if f.lower:
            attrs["tir_var_lower_bound"] = dict(f.lower)
        if f.non_negative:
            attrs["tir_non_negative_var"] = list(f.non_negative)
        if f.captured:
            attrs["relax.rewrite_cuda_graph.capture_symbolic_vars"] = list(f.captured)
        if f.plan_dynamic_results:
            attrs["relax.memory_plan_dynamic_func_output"] = True
        body = self.block(f.body)
        function = relax.Function(params, body, result, True,
                                  tvm.ir.make_node("ir.DictAttrs", **attrs))
        _update_type(self.globals[f.name], function.ty)
        return function

    def define(self, name, t):
        var = relax.Var(name, self.type(t))
        self.values[name] = var
        return var

    def block(self, block):
        bindings = [self.binding(b) for b in block.bindings]
        result = self.values[block.result.name]
        seq = relax.SeqExpr([relax.BindingBlock(bindings)], result)
        _update_type(seq, result.ty)
        return seq

    def binding(self, b):
        if b.kind == "match":
            source = self.values[b.args[0].name]
            var = self.define(b.name, b.type)
            return relax.MatchCast(var, source, var.ty)
        value = getattr(self, "make_" + b.kind)(b)
        return relax.VarBinding(self.define(b.name, b.type), value)

    def arg(self, a):
        if not isinstance(a, tuple):
            return self.values[a.name]
        if a[0] == "dtype":
            return dtype_constant(a[1])
        return StringImm(a[1]) if a[0] == "string" else self.dim(a[1])

    def args(self, b):
        return [self.arg(a) for a in b.args]

    def call(self, op, args, t, type_args=None):
        return Call(op, args, None, type_args, None, t)

    def make_alloc(self, b):
        args = [self.shape(b.type.dims), dtype_constant(b.type.dtype), _zero,
                StringImm(b.type.scope)]
        return self.call(_ops["builtin.alloc_tensor"], args, self.type(b.type))

    def make_storage(self, b):
        size, scope, dtype = b.extra
        args = [self.shape([size]), _zero, StringImm(scope), dtype_constant(dtype)]
        return self.call(_ops["memory.alloc_storage"], args, _any)

    def make_tensor(self, b):
        args = [self.arg(b.args[0]), _zero, self.shape(b.type.dims), dtype_constant(b.type.dtype),
                _zero]
        return self.call(_ops["memory.alloc_tensor"], args, self.type(b.type))

    def make_kernel(self, b):
        callee, symbols = b.extra
        return self.call(self.globals[callee], self.args(b) + [self.dim(s) for s in symbols],
                         _no_result)

    def make_dyn(self, b):
        callee, symbols = b.extra
        args = self.tuple(self.args(b) + [self.shape(symbols)])
        return self.call(_ops["vm.call_tir_dyn"], [self.globals[callee], args], _no_result)

    def tuple(self, fields):
        value = relax.Tuple(fields)
        if value.ty is None:
            _update_type(value, relax.TupleType([f.ty for f in fields]))
        return value

    def extern(self, name):
        if name not in _externs:
            _externs[name] = relax.ExternFunc(name)
        return _externs[name]

    def make_extern(self, b):
        args = self.args(b)
        if b.extra == "vm.builtin.reshape":
            # The shape is one argument there, and as many integers here.
            args = args[:1] + [self.shape([a[1] for a in b.args[1:]])]
        t = self.type(b.type)
        return self.call(self.extern(b.extra), args, t, [t])

    def make_context(self, b):
        t = self.type(b.type)
        args = [self.extern(b.extra), self.tuple(self.args(b))]
        return self.call(_ops["call_builtin_with_ctx"], args, t, [t])

    def make_call(self, b):
        return self.call(self.globals[b.extra], self.args(b), self.type(b.type))

    def make_add(self, b):
        return self.call(_ops["add"], self.args(b), self.type(b.type))

    def make_reshape(self, b):
        return self.call(_ops["reshape"], [self.arg(b.args[0]), self.shape(b.type.dims)],
                         self.type(b.type))

    def make_view(self, b):
        args = [self.arg(b.args[0]), self.shape(b.type.dims), dtype_constant(b.type.dtype),
                integer(b.extra or 0)]
        return self.call(_ops["memory.view"], args, self.type(b.type))

    def make_offset(self, b):
        return self.call(_ops["memory.ensure_zero_offset"], self.args(b), self.type(b.type))

    def make_alias(self, b):
        return self.arg(b.args[0])

    def make_tuple(self, b):
        return self.tuple(self.args(b))

    def make_null(self, b):
        return self.call(_ops["null_value"], [], _any)

    def make_get(self, b):
        value = relax.TupleGetItem(self.arg(b.args[0]), b.extra)
        if value.ty is None:
            _update_type(value, self.type(b.type))
        return value

    def make_constant(self, b):
        import numpy
        t = self.constants[b.extra]
        return relax.const(numpy.zeros(t.dims, t.dtype), t.dtype)

    def make_shape(self, b):
        return self.shape(b.extra)

    def make_integer(self, b):
        return self.dim(b.extra)

    def make_string(self, b):
        return StringImm(b.extra)

    def make_kill(self, b):
        op = "memory.kill_storage" if b.args[0].type.kind == "storage" else "memory.kill_tensor"
        return self.call(_ops[op], self.args(b), _no_result)

    def make_if(self, b):
        value = relax.If(self.arg(b.args[0]), self.block(b.blocks[0]), self.block(b.blocks[1]))
        _update_type(value, self.type(b.type))
        return value


def build(module):
    return Builder(module).build()
