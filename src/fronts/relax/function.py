"""One function of a Relax module as text: bindings, control flow. Ops are in ops.py, kernels in kernels.py."""

import itertools
import math
import re

import numpy
import tvm
from tvm import relax, tirx
from tvm.ir import Op

import cugrt
from cugrt import Code, Error

from . import builtins, kernels, ops
from .dialect import Constant, Number, PrimType, StringImm, TensorType, TupleType
from .dialect import bare, content, is_typed, name_of, plain, result_type, type_args, type_of
from .dims import DTYPES, Dims, Names, dtype_text, refuse, shape_of
from .lines import line_of, with_last_kills, with_span, without_unused

# What a function's symbols without an upper bound get, by how many there are: storage is planned at the bounds.
DEFAULT_BOUNDS = {0: 0, 1: 4096, 2: 1024}
MANY_SYMBOLS_BOUND = 128
# A constant of main of more bytes is a weight that the module brings along, and not in the text.
MOST_CONSTANT_BYTES = 1 << 22


def flat(value):
    """The parts of a value that is a tuple, of tuples too."""
    return [part for one in value for part in flat(one)] if isinstance(value, list) else [value]


def flat_types(t):
    return [part for field in t.fields for part in flat_types(field)] if isinstance(t, TupleType) else [t]


def may_be(declared, inferred):
    """Whether two types have equal dtypes, ranks, and sizes where both are numbers."""
    if not isinstance(declared, TensorType) or not isinstance(inferred, TensorType):
        return type(declared) is type(inferred)
    dims = shape_of(declared), shape_of(inferred)
    if str(declared.dtype) != str(inferred.dtype) or None not in dims and len(dims[0]) != len(dims[1]):
        return False
    return None in dims or not any(
        isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm) and int(a) != int(b) for a, b in zip(*dims)
    )


def shaped(t, parts):
    """Parts, an iterator, as a value of the type."""
    return [shaped(field, parts) for field in t.fields] if isinstance(t, TupleType) else next(parts)


class FunctionReader:
    """One function. Tensors are their names in the text, tuples lists of their parts, shapes lists of sizes."""

    def __init__(self, reader, var, function):
        self.reader, self.function = reader, function
        self.var, self.name = var, var.name_hint
        self.text_name = reader.names[var]
        self.dims, self.names, self.values = Dims(self.name), Names(), {}
        self.lines, self.indent, self.hint = [], "  ", "v"
        self.written, self.fresh, self.matched = set(), set(), {}
        self.dims.has_objects = reader.opaque
        self.bound = {}  # by a variable, what it is bound to
        self.storages = {}  # the types of operands that are storages

    def read(self):
        f = self.function
        attrs = dict(f.attrs.items()) if f.attrs else {}
        self.params, said = [], self.matched_params()
        for p in f.params:
            types = flat_types(said.get(p, type_of(p)))
            names = [
                self.names.new(name_of(p) + (f".{i}" if isinstance(type_of(p), TupleType) else ""))
                for i in range(len(types))
            ]
            texts = [
                self.given_storage(len(self.params) + i, "%" + name)
                or self.dims.type(t, f"parameter '{name_of(p)}' of function '{self.name}'")
                for i, (t, name) in enumerate(zip(types, names))
            ]
            if any(re.fullmatch("int|float|bool", text) and isinstance(type_of(p), PrimType) for text in texts):
                self.values[p] = "%" + names[0]
            self.params += [(name_of(p), name, text) for name, text in zip(names, texts)]
            self.values[p] = shaped(type_of(p), iter("%" + name for name in names))
        self.defined = self.defined_symbols([said.get(p, type_of(p)) for p in f.params])
        self.attributes = self.attribute_texts(attrs)
        self.add_weights()
        result = self.body(f.body)
        # Relax forgets symbols that a match defines where the function ends; the value's own type has them.
        inner = type_of(f.body.body) if isinstance(f.body, relax.SeqExpr) else type_of(f.body)
        types = [
            own if isinstance(t, TensorType) and shape_of(t) is None else t
            for t, own in zip(flat_types(result_type(f)), flat_types(inner))
        ]
        given = [self.operand(part) for part in flat(result)]
        plain = [self.result_type(t, one) for t, one in zip(types, given)]
        # Declared types have the parameters' symbols alone.
        self.dims.stands_for = self.matched
        self.results = [self.result_type(t, one) for t, one in zip(types, given)]
        given = [one if a == b else self.let(f"match {one} : {b}") for one, a, b in zip(given, plain, self.results)]
        self.lines = with_last_kills(without_unused([*self.lines, f"  return {', '.join(given)}".rstrip()]))
        self.is_private = "global_symbol" not in attrs
        for var, text in self.dims.symbols.items():
            if var not in self.defined:
                raise Error(
                    f"function '{self.name}' uses the symbol '{name_of(var)}', which no parameter and no match_cast "
                    "defines",
                    Code.VERIFY_ERROR,
                )

    def matched_params(self):
        """The types of parameters without a shape that a match_cast outside of branches gives them."""
        blocks = self.function.body.blocks if isinstance(self.function.body, relax.SeqExpr) else ()
        found = {}
        for binding in [b for block in blocks for b in block.bindings if isinstance(b, relax.MatchCast)]:
            have, t = type_of(binding.value), type_of(binding)
            if isinstance(have, TensorType) and shape_of(have) is None and isinstance(t, TensorType) and shape_of(t):
                found.setdefault(binding.value, t)
        return {p: found[p] for p in self.function.params if p in found}

    def add_weights(self):
        """Large constants as parameters behind the others."""
        inputs = len(self.params)
        self.constant_weights = {}  # operands by constants
        if self.name != "main" or self.reader.opaque or self.var in self.reader.called:
            return

        def add(e):
            held = content(e) if isinstance(e, Constant) else None
            if not isinstance(held, tvm.runtime.Tensor) or e in self.constant_weights:
                return
            dims = list(held.shape)
            if math.prod(dims) * held.dtype.itemsize > MOST_CONSTANT_BYTES and str(held.dtype) in DTYPES:
                name = self.names.new("constant")
                self.params.append((name, name, self.dims.tensor(dims, held.dtype, "a constant")))
                self.constant_weights[e], self.reader.brought[name] = "%" + name, held

        relax.analysis.post_order_visit(self.function, add)
        if self.constant_weights:
            self.attributes.setdefault("num_inputs", str(inputs))

    def given_storage(self, number, operand):
        """The type of a lifted region's parameter that is a storage: that of what it is given."""
        given = self.reader.storage_params.get(self.var, ())
        if number < len(given) and given[number]:
            self.storages[operand] = given[number]
            return given[number]
        return None

    def result_type(self, t, operand):
        return self.storages.get(operand) or self.dims.type(t, f"the result of function '{self.name}'")

    def defined_symbols(self, types):
        found = set()
        for t in types:
            for part in flat_types(t):
                dims = shape_of(part) if isinstance(part, TensorType) else getattr(part, "values", None)
                found |= {d for d in dims or () if isinstance(d, tirx.Var)}
        return found

    def given_bounds(self, attrs, which):
        found = {}
        for name, bound in dict(attrs.get(f"tir_var_{which}_bound") or {}).items():
            if not isinstance(bound, (int, tirx.IntImm)):
                what = f"the {which} bound of '{name}' of function '{self.name}'"
                raise Error(f"{what} is no whole number", Code.VERIFY_ERROR)
            found[str(name)] = int(bound)
        return found

    def attribute_texts(self, attrs):
        out, inputs = {}, attrs.get("num_input")
        if inputs is not None and not 0 <= int(inputs) <= len(self.function.params):
            raise Error(
                f"function '{self.name}' has {len(self.function.params)} parameters, and num_input is {int(inputs)}",
                Code.VERIFY_ERROR,
            )
        bound_here = [p for p in self.params if self.name == "main" and p[0] in self.reader.params]
        if bound_here:
            rest = [p for p in self.params if p not in bound_here]
            first = [
                p for p in rest if inputs is None or p[0] in {name_of(q) for q in self.function.params[: int(inputs)]}
            ]
            self.params = first + [p for p in rest if p not in first] + bound_here
            inputs = len(first)
        if inputs is not None:
            whole = len([None for p in self.function.params[: int(inputs)] for _ in flat_types(type_of(p))])
            out["num_inputs"] = str(inputs if bound_here else whole)
        upper, lower = (self.given_bounds(attrs, which) for which in ("upper", "lower"))
        mine = {name_of(var): self.dims.symbol(var) for var in self.dims.symbols}
        for name, (low, high) in self.reader.bounds.items():
            if name in mine:
                lower[name], upper[name] = int(low), int(high)
        if "global_symbol" in attrs and not self.reader.opaque:
            free = [name for name in mine if name not in upper]
            bound = DEFAULT_BOUNDS.get(len(free), MANY_SYMBOLS_BOUND)
            upper.update({name: max(bound, lower.get(name, 0)) for name in free})
        for key, limits in (("lower_bounds", lower), ("upper_bounds", upper)):
            pairs = [f"{mine[name]} = {bound}" for name, bound in limits.items() if name in mine]
            if pairs:
                out[key] = "{" + ", ".join(pairs) + "}"
        captured = [
            mine[str(n)] for n in attrs.get("relax.rewrite_cuda_graph.capture_symbolic_vars") or () if str(n) in mine
        ]
        if captured:
            out["capture_symbols"] = f"[{', '.join(captured)}]"
        if attrs.get("relax.memory_plan_dynamic_func_output"):
            out["plan_dynamic_results"] = "true"
        if attrs.get("Primitive"):
            out["primitive"] = "true"
        return out

    def text(self):
        params = ", ".join(
            f"%{name}: {'inout ' if '%' + name in self.written else ''}{text}" for _, name, text in self.params
        )
        settings = ", ".join(f"{key} = {value}" for key, value in self.attributes.items())
        # A symbol's first place in the text defines it, so the order is that of the parameters.
        return (
            f"{'private ' if self.is_private else ''}func @{self.text_name}({params})"
            + (f" -> ({', '.join(self.results)})" if self.results else "")
            + (f" attributes {{{settings}}}" if settings else "")
            + " {\n"
            + "\n".join(line + getattr(line, "span", "") for line in self.lines)
            + "\n}\n"
        )

    # --- Lines ---

    def let(self, right, results=1):
        names = [self.names.new(self.hint) for _ in range(results)]
        left = ", ".join("%" + name for name in names)
        self.lines.append(f"{self.indent}{left + ' = ' if names else ''}{right}")
        return "%" + names[0] if results == 1 else ["%" + name for name in names]

    def op(self, name, *operands, results=1, **attributes):
        settings = ", ".join(f"{key} = {attribute(value)}" for key, value in attributes.items() if value is not None)
        given = ", ".join(self.operand(one) for one in operands)
        return self.let(f"{name}({given})" + (f" {{{settings}}}" if settings else ""), results)

    def operand(self, value):
        """As an operand: what is not in the text yet gets a line."""
        if isinstance(value, relax.ShapeExpr):
            return self.let("shape " + self.dims.list(value.values))
        if isinstance(value, list) and self.reader.opaque:
            return self.let(f"tuple({', '.join(map(self.operand, value))})")
        if isinstance(value, list):
            raise refuse(f"function '{self.name}' has a tuple where a tensor is wanted")
        return value

    def reshape(self, x, dims):
        """`dims`: Relax's expressions."""
        return self.let(f"reshape({self.operand(x)}, {self.let('shape ' + self.dims.list(dims))})")

    def broadcast(self, x, dims):
        return self.let(f"broadcast_to({self.operand(x)}, {self.let('shape ' + self.dims.list(dims))})")

    def scalar(self, value, dtype):
        """A constant of rank 0."""
        name = str(dtype)
        if name == "bfloat16":
            bits = int(numpy.asarray(value, "float32").view("uint32"))
            content = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF).to_bytes(2, "little")
        else:
            dtype_text(name, f"a constant of function '{self.name}'")
            content = numpy.asarray(value).astype(name).tobytes()
        return self.let(f"constant @{self.reader.constant_name(content, (), name)}")

    # --- Expressions ---

    def value(self, e):
        """What the expression is, with lines for what it needs."""
        e = bare(e)
        if isinstance(e, relax.Var):
            if e not in self.values:
                if isinstance(type_of(e), PrimType):
                    return self.dims.text(e)
                raise Error(
                    f"function '{self.name}' uses the variable '{name_of(e)}', which nothing defines", Code.VERIFY_ERROR
                )
            return self.values[e]
        if isinstance(e, relax.Tuple):
            return [self.value(field) for field in e.fields]
        if isinstance(e, relax.TupleGetItem):
            return self.value(e.tuple_value)[e.index]
        if isinstance(e, relax.ShapeExpr):
            return e
        if isinstance(e, relax.Function):
            raise refuse("a function within a function is not supported")
        if isinstance(e, relax.SeqExpr):
            return self.body(e)
        if isinstance(e, relax.If):
            return self.branch(e)
        if isinstance(e, Constant):
            held = content(e)
            if e in self.constant_weights:
                return self.constant_weights[e]
            if isinstance(held, tvm.runtime.Tensor):
                dtype_text(type_of(e).dtype, f"a constant of function '{self.name}'")
                if str(type_of(e).dtype) == "bfloat16":
                    raw = held.numpy()
                    return self.let(f"constant @{self.reader.constant_name(raw.tobytes(), raw.shape, 'bfloat16')}")
                return self.let(f"constant @{self.reader.constant(held)}")
            return dtype_text(held, "a constant")
        if isinstance(e, relax.Call):
            return self.call(e)
        if isinstance(e, StringImm):
            return '"' + re.sub(r'(["\\])', r"\\\1", str(e.value)) + '"'
        if isinstance(e, (tirx.IntImm, tirx.FloatImm)):
            return str(e.value)
        if isinstance(e, Number):
            return self.dims.text(e)
        raise refuse(f"function '{self.name}' has a {type(e).__name__}, which is not supported")

    def body(self, seq):
        if not isinstance(seq, relax.SeqExpr):
            return self.value(seq)
        for block in seq.blocks:
            for binding in block.bindings:
                self.hint = name_of(binding.var)
                first = len(self.lines)
                try:
                    self.bind(binding)
                    if not isinstance(binding.value, relax.If):  # whose branches have theirs
                        self.lines[first:] = [with_span(line, binding) for line in self.lines[first:]]
                except Error as error:
                    line = line_of(binding)
                    if error.code != Code.UNSUPPORTED:
                        raise error if error.place or not line else Error(f"{line}: {error}", error.code, line) from None
                    place = f"'{name_of(binding.var)}' of '{self.name}'"
                    self.reader.report.add(str(error), place + (f" ({line})" if line else ""))
                    self.values[binding.var] = shaped(type_of(binding.var), iter(lambda: "%unknown", None))
        return self.value(seq.body)

    def bind(self, binding):
        if isinstance(binding, relax.MatchCast):
            t = type_of(binding)
            value = self.value(binding.value)
            if isinstance(t, TupleType) or isinstance(t, PrimType):
                self.values[binding.var] = value
                return
            self.defined |= self.defined_symbols([t])
            source = self.operand(value)
            have = shape_of(type_of(binding.value)) if isinstance(type_of(binding.value), TensorType) else None
            for d, was in zip(shape_of(t) or () if have else (), have or ()):
                if isinstance(d, tirx.Var) and d not in self.dims.symbols:
                    self.matched[d] = self.dims.text(was)
            if isinstance(t, TensorType) and shape_of(t) is None:
                self.values[binding.var] = value
                return
            self.values[binding.var] = self.let(f"match {source} : {self.dims.type(t, self.of(binding.var))}")
            return
        e = self.bound[binding.var] = binding.value
        if isinstance(e, relax.Call) and isinstance(e.op, Op) and e.op.name.removeprefix("relax.") in ops.TABLE:
            if not self.reader.opaque:
                self.check_type(type_of(binding.var), e)
        self.values[binding.var] = self.value(e)

    def of(self, var):
        return f"'{name_of(var)}' of function '{self.name}'"

    def branch(self, e):
        condition = self.operand(self.value(e.cond))
        types = [self.dims.type(t, f"an if of function '{self.name}'") for t in flat_types(type_of(e))]
        outer, indent, hint = self.lines, self.indent, self.hint
        known = (
            set(re.findall(r"%[\w.]+", " ".join(outer)))
            | {"%" + name for _, name, _ in self.params}
            | set(getattr(self, "visible", ()))
        )
        visible, self.visible = getattr(self, "visible", set()), known
        blocks, symbols = [], set(self.defined)
        for branch in (e.true_branch, e.false_branch):
            self.lines, self.indent, self.defined = [], indent + "  ", set(symbols)
            parts = flat(self.body(branch))
            parts = [self.operand(part) for part in parts]
            self.lines.append(f"{self.indent}yield {', '.join(parts)}")
            blocks.append(without_unused(self.lines))
            symbols |= self.defined
        self.defined = symbols
        used = list(
            dict.fromkeys(
                name for lines in blocks for name in re.findall(r"%[\w.]+", "\n".join(lines)) if name in known
            )
        )
        self.lines, self.indent, self.hint, self.visible = outer, indent, hint, visible
        names = [self.names.new(hint) for _ in types]
        left = ", ".join("%" + name for name in names)
        self.lines += [
            f"{indent}{left + ' = ' if names else ''}if {condition} using ({', '.join(used)}) -> "
            f"({', '.join(types)}) {{",
            *blocks[0],
            indent + "} else {",
            *blocks[1],
            indent + "}",
        ]
        return shaped(type_of(e), iter("%" + name for name in names))

    def inferred(self, e):
        """A call with the type that TVM gives it."""
        try:
            return self.reader.builder.normalize(relax.Call(e.op, e.args, e.attrs, type_args(e)))
        except Exception as error:  # what TVM throws has no common class
            said = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise Error(f"'{self.hint}' of function '{self.name}': {said}", Code.VERIFY_ERROR) from None

    def check_type(self, declared, e):
        """An error where the declared type is not what TVM gives an op; sizes that are expressions are not compared."""
        inferred = type_of(self.inferred(e))
        if not all(may_be(a, b) for a, b in itertools.zip_longest(flat_types(declared), flat_types(inferred))):
            raise Error(
                f"'{self.hint}' of function '{self.name}' is declared as {declared}, and '{e.op.name}' gives {inferred}",
                Code.VERIFY_ERROR,
            )

    def call(self, e):
        e = plain(e if is_typed(e) or e.op in self.reader.functions else self.inferred(e))
        if isinstance(e.op, tvm.ir.GlobalVar):
            if e.op in self.reader.prims:
                return kernels.call_in_place(self, e)
            callee = self.reader.functions[e.op]
            given = [self.operand(part) for arg in e.args for part in flat(self.value(arg))]
            types = flat_types(result_type(callee))
            made = self.let(f"call @{self.reader.names[e.op]}({', '.join(given)})", len(types))
            return shaped(result_type(callee), iter([made] if len(types) == 1 else made))
        if isinstance(e.op, relax.ExternFunc):
            return builtins.extern(self, e)
        if not isinstance(e.op, Op):
            raise refuse("a call of a value, as of a closure, is not supported")
        name = e.op.name.removeprefix("relax.")
        if name == "vm.call_tir_dyn":
            return kernels.call_dynamic(self, e)
        if name in ("call_tir", "call_tir_inplace", "call_tir_with_grad"):
            return kernels.call_tir(self, e, name == "call_tir_inplace")
        if name in builtins.TABLE:
            return builtins.TABLE[name](self, e)
        if name in ops.TABLE:
            return ops.TABLE[name](self, e)
        raise refuse(f"op '{e.op.name}' is not supported")


def attribute(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(attribute, value)) + "]"
    if isinstance(value, float):
        text = repr(value)
        return text if re.search(r"[.en]", text) else text + ".0"
    if isinstance(value, cugrt.dtype("f32").__class__):
        return str(value)
    return f'"{value}"' if isinstance(value, str) else str(int(value))
