"""Sizes, dtypes and types of Relax as the text has them."""

import re

from tvm import relax, tirx

from cugrt import Code, Error

from .dialect import AnyType, PrimType, ShapeType, TensorType, TupleType, is_typed, name_of, type_of

DTYPES = {
    "bool": "bool",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    **{f"{kind}int{bits}": f"{kind or 'i'}{bits}" for kind in ("", "u") for bits in (4, 8, 16, 32, 64)},
}
RESERVED = (
    set(
        "floordiv ceildiv mod min max select true false none inf nan int float string dtype object tensor shape "
        "storage tuple align in out inout if else while using do".split()
    )
    | set(DTYPES.values())
    | {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"}
)
INFIX = {"Add": "+", "Sub": "-", "Mul": "*", "EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
CALLS = {"FloorDiv": "floordiv", "FloorMod": "mod", "Min": "min", "Max": "max"}
# Sizes are not negative, where rounding down and towards zero agree.
TRUNCATED = {"Div": "floordiv", "Mod": "mod"}


def noting(table):
    """A decorator that takes names: under them the table has what is decorated."""

    def takes(*names):
        return lambda make: table.update(dict.fromkeys(names, make)) or make

    return takes


def refuse(message):
    return Error(message, Code.UNSUPPORTED)


def dtype_text(dtype, of):
    """`of` is what the error calls the thing that has the dtype."""
    name = str(dtype)
    if name not in DTYPES:
        raise refuse(f"{of} has dtype {name}, which is not supported")
    return DTYPES[name]


class Names:
    """Names of one scope that the text can have, each given once."""

    def __init__(self, reserved=(), dots=True):
        self.taken, self.unfit = set(reserved), r"[^A-Za-z0-9_.]" if dots else r"[^A-Za-z0-9_]"

    def new(self, wanted):
        plain = re.sub(self.unfit, "_", wanted) or "v"
        if plain[0].isdigit() or plain[0] == ".":
            plain = "_" + plain
        name, count = plain, 0
        while name in self.taken:
            count += 1
            name = f"{plain}_{count}"
        self.taken.add(name)
        return name


class Dims:
    """Expressions of one function's symbols. ``symbols``: name in the text by Relax's variable."""

    def __init__(self, function):
        self.function, self.names, self.symbols = function, Names(RESERVED, dots=False), {}
        self.stands_for = {}  # expressions that are written in the place of symbols
        self.has_objects = False

    def symbol(self, var):
        if var in self.stands_for:
            return self.stands_for[var]
        if var not in self.symbols:
            self.symbols[var] = self.names.new(name_of(var))
        return self.symbols[var]

    def text(self, e):
        kind = type(e).__name__
        if isinstance(e, int):
            return str(e)
        if isinstance(e, tirx.IntImm):
            return str(int(e.value))
        if isinstance(e, tirx.Var):
            return self.symbol(e)
        if kind == "Cast":
            return self.text(e.value)
        if kind in INFIX:
            return f"({self.text(e.a)} {INFIX[kind]} {self.text(e.b)})"
        if kind in CALLS or kind in TRUNCATED:
            return f"{CALLS.get(kind) or TRUNCATED[kind]}({self.text(e.a)}, {self.text(e.b)})"
        if kind == "Select":
            return f"select({self.text(e.condition)}, {self.text(e.true_value)}, {self.text(e.false_value)})"
        if kind in ("And", "Or", "Not"):
            parts = [self.text(e.a)] if kind == "Not" else [self.text(e.a), self.text(e.b)]
            return {"And": "select({0}, {1}, 0)", "Or": "select({0}, 1, {1})", "Not": "({0} == 0)"}[kind].format(*parts)
        if kind == "Call":
            name, given = getattr(e.op, "name", ""), [self.text(one) for one in e.args]
            if name.endswith(".if_then_else"):
                return f"select({', '.join(given)})"
            if name.endswith(".shift_right") and given[1].isdigit():
                return f"floordiv({given[0]}, {2 ** int(given[1])})"
            if name.endswith(".shift_left") and given[1].isdigit():
                return f"({given[0]} * {2 ** int(given[1])})"
        raise refuse(f"function '{self.function}' has a size {e}, of a kind ({kind}) that is not supported")

    def list(self, dims):
        return "[" + ", ".join(map(self.text, dims)) + "]"

    def tensor(self, dims, dtype, of):
        return f"tensor<{self.list(dims)}, {dtype_text(dtype, of)}>"

    def type(self, t, of):
        """`of` names the value, for errors."""
        if isinstance(t, TensorType):
            dims = shape_of(t)
            if dims is None and self.has_objects:
                return f"tensor<?, {dtype_text(t.dtype, of)}>"
            if dims is None:
                raise refuse(f"{of} has a shape that is not known ({t}); R.match_cast can say it")
            return self.tensor(dims, t.dtype, of)
        if isinstance(t, TupleType):
            return "tuple<" + ", ".join(self.type(field, of) for field in t.fields) + ">"
        if isinstance(t, ShapeType):
            return f"shape<{'?' if t.values is None else self.list(t.values)}>"
        if isinstance(t, PrimType):
            name = str(t.dtype)
            return "bool" if name == "bool" else "float" if "float" in name else "int"
        if self.has_objects and isinstance(t, AnyType):
            return "object"
        raise refuse(f"{of} is a {type(t).__name__} ({t}), which is not supported")


def shape_of(t):
    """A tensor type's dimensions, or None where they are not known."""
    if isinstance(t.shape, relax.ShapeExpr):
        return list(t.shape.values)
    if t.shape is not None and is_typed(t.shape) and isinstance(type_of(t.shape), ShapeType):
        if type_of(t.shape).values is not None:
            return list(type_of(t.shape).values)
    return [] if t.ndim == 0 else None
