"""Modules from Python: functions over tensors, by the op names of docs/ir.md."""
import re
import typing

from . import _native
from ._errors import Error

Shape = typing.Iterable[int | str]
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def named(name, what):
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Error(f"{what} is named by letters, digits, '_' and '.', not {name!r}")
    return name


def dims_text(shape):
    return "[" + ", ".join(str(dim) for dim in shape) + "]"


def literal(value):
    """A number, text, dtype or list as an attribute or operand has it."""
    if isinstance(value, Value):
        return "%" + value.name
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        return text if re.search(r"[.en]", text) else text + ".0"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    raise Error(f"{value!r} is no value of an op: it takes values of the function, numbers, texts and lists")


class Dtype(str):
    """A dtype as an attribute, as of ``cast(x, dtype=cugrt.dtype("float16"))``."""


def dtype(name: str) -> Dtype:
    """The attribute for a dtype, by NumPy's name or the IR's (``"float16"``, ``"f16"``)."""
    return Dtype(_native.own_dtype(name))


def attribute(value):
    return str(value) if isinstance(value, Dtype) else literal(value)


class Value:
    """A parameter or an op's result. ``+ - * / @`` and ``-x`` are the ops add, sub, mul, div, matmul and neg."""

    def __init__(self, function, name):
        self._function, self.name = function, name

    def __repr__(self):
        return f"<cugrt.Value %{self.name}>"

    def __add__(self, other: typing.Any) -> "Value": return self._function.op("add", self, other)
    def __sub__(self, other: typing.Any) -> "Value": return self._function.op("sub", self, other)
    def __mul__(self, other: typing.Any) -> "Value": return self._function.op("mul", self, other)
    def __truediv__(self, other: typing.Any) -> "Value": return self._function.op("div", self, other)
    def __matmul__(self, other: typing.Any) -> "Value": return self._function.op("matmul", self, other)
    def __neg__(self) -> "Value": return self._function.op("neg", self)


class Function:
    """A function of a :class:`Module`. Every op of docs/ir.md is a method: ``f.softmax(x, axis=-1)``.

    Ops take values, then attributes by name, and give a value; :meth:`op` is for those with several results. What does
    not fit together is told when the module is loaded, with the line of its text.
    """

    def __init__(self, module, name, lower_bounds, upper_bounds):
        self._module, self._name = module, name
        self._bounds = {"lower_bounds": lower_bounds, "upper_bounds": upper_bounds}
        self._inputs, self._weights, self._lines, self._outputs, self._results, self._names = [], [], [], [], [], set()

    def _value(self, name=None):
        name = name or f"v{len(self._lines)}"
        if name in self._names:
            raise Error(f"function '{self._name}' has two values '{name}'")
        self._names.add(name)
        return Value(self, name)

    def _parameter(self, parameters, name, shape, type_name, access=""):
        parameters.append(f"%{named(name, 'a parameter')}: {access}tensor<{dims_text(shape)}, {_native.own_dtype(type_name)}>")
        return self._value(name)

    def input(self, name: str, shape: Shape, dtype: str) -> Value:
        """A tensor that every run is given. ``shape``: numbers, and names or formulas of symbols (``"n"``, ``"2*n"``)."""
        return self._parameter(self._inputs, name, shape, dtype)

    def state(self, name: str, shape: Shape, dtype: str) -> Value:
        """A tensor of the caller's that runs write in place."""
        return self._parameter(self._inputs, name, shape, dtype, "inout ")

    def weight(self, name: str, shape: Shape, dtype: str) -> Value:
        """A tensor that is given once, when the model is loaded."""
        return self._parameter(self._weights, name, shape, dtype)

    def constant(self, array: typing.Any) -> Value:
        """A NumPy array that is part of the module."""
        number = len(self._module._constants)
        self._module._constants.append(f"constant @c{number}: tensor<{dims_text(array.shape)}, "
                                       f"{_native.own_dtype(array.dtype.name)}> = x\"{array.tobytes().hex()}\"")
        value = self._value()
        self._lines.append(f"%{value.name} = constant @c{number}")
        return value

    def op(self, name: str, *operands: typing.Any, results: int = 1, **attributes: typing.Any) -> typing.Any:
        """An op by name; with ``results`` other than 1 a tuple of values."""
        values = []
        for number in range(results):
            values.append(self._value(f"v{len(self._lines)}" + (f"_{number}" if results > 1 else "")))
        text = ", ".join("%" + value.name for value in values) + f" = {named(name, 'an op')}({', '.join(map(literal, operands))})"
        if attributes:
            text += " {" + ", ".join(f"{key} = {attribute(value)}" for key, value in attributes.items()) + "}"
        self._lines.append(text)
        return values[0] if results == 1 else tuple(values)

    def __getattr__(self, name: str) -> typing.Callable[..., typing.Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *operands, **attributes: self.op(name, *operands, **attributes)

    def output(self, value: Value, shape: Shape, dtype: str) -> None:
        """The function's next result, with its type."""
        self._outputs.append(value)
        self._results.append(f"tensor<{dims_text(shape)}, {_native.own_dtype(dtype)}>")

    def _text(self):
        settings = [f"num_inputs = {len(self._inputs)}"] if self._weights else []
        settings += [f"{key} = {{{', '.join(f'{symbol} = {bound}' for symbol, bound in bounds.items())}}}"
                     for key, bounds in self._bounds.items() if bounds]
        results = f" -> ({', '.join(self._results)})" if self._results else ""
        return (f"func @{self._name}({', '.join(self._inputs + self._weights)}){results}" +
                (f" attributes {{{', '.join(settings)}}}" if settings else "") + " {\n" +
                "".join(f"  {line}\n" for line in self._lines) +
                f"  return {', '.join('%' + value.name for value in self._outputs)}".rstrip() + "\n}\n")


class Module:
    """A module that is built in Python; :func:`cugrt.load` and :func:`cugrt.compile` take it.

        module = cugrt.Module()
        f = module.function("main", upper_bounds={"n": 32})
        x, w = f.input("x", ("n", 64), "float32"), f.weight("w", (64, 10), "float32")
        f.output(f.softmax(x @ w, axis=-1), ("n", 10), "float32")
        model = cugrt.load(module, weights={"w": array})

    ``text`` is its textual form, of which docs/ir.md is the language.
    """

    def __init__(self) -> None:
        self._constants, self._kernels, self._functions = [], [], []

    def function(self, name: str = "main", *, lower_bounds: dict[str, int] | None = None,
                 upper_bounds: dict[str, int] | None = None) -> Function:
        """A new :class:`Function`. Bounds: of symbols, as ``{"n": 32}``; a lower one is 0 unless it is given."""
        self._functions.append(Function(self, named(name, "a function"), lower_bounds or {}, upper_bounds or {}))
        return self._functions[-1]

    def kernel(self, text: str) -> None:
        """A kernel in the textual form, ``kernel @name { ... }``, which functions launch."""
        self._kernels.append(text)

    @property
    def text(self) -> str:
        """The module in its textual form."""
        parts = ["cugrt 1\n", *self._kernels, *(line + "\n" for line in self._constants),
                 *(function._text() for function in self._functions)]
        return "\n".join(parts)

    __cugrt_text__ = text.fget
