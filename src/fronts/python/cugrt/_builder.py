"""Modules from Python: functions over tensors, by the op names of docs/ir.md."""
import re
import typing

from . import _native
from ._errors import Error, string, table, whole, wrong

Shape = typing.Iterable[int | str]
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
FORMULA = re.compile(r"[A-Za-z0-9_. +*(),=!<>-]+")


def named(name, what):
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Error(f"{what} is named by letters, digits, '_' and '.', not {name!a}")
    return name


def dim_text(dim):
    if not isinstance(dim, str):
        return str(whole("a dimension of shape", dim, 0))
    if not FORMULA.fullmatch(dim):
        raise Error(f"a dimension of shape is a whole number, or a name or formula of symbols, not {dim!a}")
    return dim


def tensor_text(shape, dtype):
    if isinstance(shape, (str, bytes)):
        raise wrong("shape", "a list of dimensions", shape)
    try:
        dims = list(shape)
    except TypeError:
        raise wrong("shape", "a list of dimensions", shape) from None
    return f"tensor<[{', '.join(map(dim_text, dims))}], {_native.own_dtype(string('dtype', dtype))}>"


class Dtype(str):
    """A dtype as an attribute, as of ``cast(x, dtype=cugrt.dtype("float16"))``."""


def dtype(name: str) -> Dtype:
    """The attribute for a dtype, by NumPy's name or the IR's (``"float16"``, ``"f16"``)."""
    return Dtype(_native.own_dtype(string("dtype", name)))


class Value:
    """A parameter or an op's result. ``+ - * / @`` and ``-x`` are the ops add, sub, mul, div, matmul and neg."""

    name: str

    def __init__(self, function: "Function", name: str) -> None:
        self._function, self.name = function, name

    def __repr__(self) -> str:
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

    def __init__(self, module: "Module", name: str, lower_bounds: dict[str, int], upper_bounds: dict[str, int]) -> None:
        self._module, self._name = module, name
        self._bounds = {"lower_bounds": lower_bounds, "upper_bounds": upper_bounds}
        self._inputs, self._weights, self._lines, self._outputs, self._results, self._names = [], [], [], [], [], set()

    def _free(self, name):
        if name in self._names:
            raise Error(f"function '{self._name}' has two values '{name}'")
        return name

    def _value(self, name):
        self._names.add(name)
        return Value(self, name)

    def _own(self, value):
        if value._function is not self:
            raise Error(f"'{value.name}' is a value of another function, '{value._function._name}'; "
                        f"'{self._name}' takes its own")
        return value

    def _literal(self, what, value):
        """A value, number, text, dtype or list as an attribute or operand has it."""
        if isinstance(value, Value):
            return "%" + self._own(value).name
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(whole(what, value))
        if isinstance(value, float):
            text = repr(float(value))
            return text if re.search(r"[.en]", text) else text + ".0"
        if isinstance(value, Dtype):
            return str(value)
        if isinstance(value, str):
            return '"' + string(what, value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self._literal(what, one) for one in value) + "]"
        raise wrong(what, "a value of the function, a number, a text, a dtype or a list", value)

    def _parameter(self, parameters, name, shape, dtype, access=""):
        name, tensor = self._free(named(name, "a parameter")), tensor_text(shape, dtype)
        parameters.append(f"%{name}: {access}{tensor}")
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
        import numpy
        if not hasattr(type(array), "__array__"):
            raise wrong("array", "a NumPy array", array)
        try:
            array = numpy.asarray(array)
        except Exception as error:
            raise Error(f"array cannot be read as a NumPy array: {error}") from None
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        tensor, number = tensor_text(array.shape, array.dtype.name), len(self._module._constants)
        name = self._free(f"v{len(self._lines)}")
        self._module._constants.append(f"constant @c{number}: {tensor} = x\"{array.tobytes().hex()}\"")
        self._lines.append(f"%{name} = constant @c{number}")
        return self._value(name)

    def op(self, name: str, /, *operands: typing.Any, results: int = 1, **attributes: typing.Any) -> typing.Any:
        """An op by name; with ``results`` other than 1 a tuple of values."""
        named(name, "an op")
        given = [self._literal(f"operand {number} of '{name}'", value) for number, value in enumerate(operands)]
        settings = [f"{named(key, 'an attribute')} = {self._literal(f'{key} of {name!r}', value)}"
                    for key, value in attributes.items()]
        results, first = whole("results", results, 1, 256), f"v{len(self._lines)}"
        names = [self._free(first + (f"_{number}" if results > 1 else "")) for number in range(results)]
        self._lines.append(", ".join("%" + one for one in names) + f" = {name}({', '.join(given)})" +
                           (f" {{{', '.join(settings)}}}" if settings else ""))
        values = tuple(map(self._value, names))
        return values[0] if results == 1 else values

    def __getattr__(self, name: str) -> typing.Callable[..., typing.Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *operands, **attributes: self.op(name, *operands, **attributes)

    def output(self, value: Value, shape: Shape, dtype: str) -> None:
        """The function's next result, with its type."""
        if not isinstance(value, Value):
            raise wrong("value", "a value of the function", value)
        self._own(value)
        self._results.append(tensor_text(shape, dtype))
        self._outputs.append(value)

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
        self._given, self._weights, self._linked = None, None, None
        self._results: list[str] | None = None  # names of main's results, of an importer

    @classmethod
    def from_text(cls, text: str, weights: dict[str, typing.Any] | None = None) -> "Module":
        """A module of a text, which is read when it is loaded. ``weights``: arrays that :func:`cugrt.load` takes where
        it is given none."""
        module = cls()
        module._given, module._weights = string("text", text), table("weights", weights) if weights else None
        return module

    def _is_built(self):
        if self._given is not None:
            raise Error("a module of a text takes no further functions and kernels")

    def function(self, name: str = "main", *, lower_bounds: dict[str, int] | None = None,
                 upper_bounds: dict[str, int] | None = None) -> Function:
        """A new :class:`Function`. Bounds: of symbols, as ``{"n": 32}``; a lower one is 0 unless it is given."""
        limits = [{named(symbol, f"a symbol of {what}"): whole(f"{what} of '{symbol}'", bound)
                   for symbol, bound in table(what, given).items()}
                  for what, given in (("lower_bounds", lower_bounds), ("upper_bounds", upper_bounds))]
        self._is_built()
        self._functions.append(Function(self, named(name, "a function"), *limits))
        return self._functions[-1]

    def kernel(self, text: str) -> None:
        """A kernel in the textual form, ``kernel @name { ... }``, which functions launch."""
        self._is_built()
        self._kernels.append(string("text", text))

    @property
    def text(self) -> str:
        """The module in its textual form."""
        if self._given is not None:
            return self._given
        parts = ["cugrt 1\n", *self._kernels, *(line + "\n" for line in self._constants),
                 *(function._text() for function in self._functions)]
        return "\n".join(parts)

    __cugrt_text__ = text.fget
