"""A Relax module as a cugrt.Module. Functions are in function.py, ops in ops.py, kernels in kernels.py."""

import hashlib
import re

import numpy
import tvm
from tvm import relax, tirx

import cugrt
from cugrt import Code, Error, _native

from . import kernels
from .dialect import name_of
from .dims import Names, dtype_text
from .function import FunctionReader
from .report import Report


def from_relax(module, params=None, target=None, *, bounds=None):
    """A :class:`cugrt.Module` of a Relax module.

    ``params``: arrays for parameters of ``main`` by name, which become weights that the module brings along.
    ``target``: the architecture that PrimFuncs are scheduled for, as ``"sm_90"``, or a ``tvm.target.Target``.
    ``bounds``: of symbols, ``{"n": (1, 64)}``, beside those of the functions' attributes.

    Raises :class:`cugrt.Error` with all that is not taken, by name, count and place.
    """
    if not isinstance(module, tvm.IRModule):
        raise Error(f"from_relax takes a tvm.IRModule, not a {type(module).__name__}")
    return Reader(module, params or {}, target, bounds or {}).read()


def has_dataflow(module):
    functions = [f for f in module.functions.values() if isinstance(f, relax.Function)]
    blocks = [block for f in functions if isinstance(f.body, relax.SeqExpr) for block in f.body.blocks]
    return any(isinstance(block, relax.DataflowBlock) for block in blocks)


class Reader:
    """``opaque``: PrimFuncs and packed functions are not looked into, for passes whose result is Relax again."""

    def __init__(self, module, params, target, bounds, opaque=False):
        self.opaque, self.storage_params = opaque, {}
        self.nulls = set()  # names of values that are R.null_value()
        self.brought, self.called = {}, set()  # constants that are weights, by name; functions that others call
        self.module, self.params, self.target, self.bounds = module, params, target, bounds
        self.report, self.constants, self.constant_names = Report(), [], {}
        self.functions = {var: f for var, f in module.functions.items() if isinstance(f, relax.Function)}
        self.prims = {var: f for var, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}
        names = Names()
        self.names = {var: names.new(var.name_hint) for var in self.functions}
        self.kernel_names, self.kernels, self.names_of_kernels = names, {}, {}
        self.builder = relax.BlockBuilder()

    def read(self):
        if not self.functions:
            raise Error("the module has no Relax function")
        for var, f in self.module.functions.items():
            if var not in self.functions and var not in self.prims:
                self.report.add(f"'{var.name_hint}' is a {type(f).__name__}, which is not supported", "")
        self.check_cycles()
        self.plan_kernels()
        self.report.check()
        readers = []
        # Lifted regions are read after who runs them, since that says which storages they take.
        lifted = [var for var in self.functions if "_cuda_graph_capture" in var.name_hint]
        for var in [*(var for var in self.functions if var not in lifted), *lifted]:
            reader = FunctionReader(self, var, self.functions[var])
            try:
                reader.read()
            except Error as error:
                self.report.add(str(error), "", error.code)
            readers.append(reader)
        self.report.check()
        # A launch that writes to a parameter is found when the function is read.
        text = "\n".join(
            [
                "cugrt 1\n",
                *self.kernels.values(),
                *(line + "\n" for line in self.constants),
                *(reader.text() for reader in readers),
            ]
        )
        if not self.opaque:  # the passes verify too
            self.verify(text)
        return cugrt.Module.from_text(text, weights=self.weights())

    def verify(self, text):
        """Errors of the text, under Relax's names."""
        try:
            _native.verify(text)
        except Error as error:
            place, _, message = str(error).partition(": error: ")
            message = message.partition("\n")[0] or str(error)
            lines = text.splitlines()
            at = int(re.findall(r":(\d+)", place + ":1")[0])
            above = [re.match(r"(?:private )?func @([\w.]+)", line) for line in lines[at - 1 :: -1]]
            of = next((m[1] for m in above if m), None)
            names = {own: var.name_hint for var, own in self.names.items()}
            made = re.match(r"\s*%([\w.]+)[^=]* = ", lines[at - 1])
            what = f"'{made[1]}' of " if made else ""
            raise Error(f"{what}function '{names.get(of, of)}': {message}" if of else message, error.code) from None

    def weights(self):
        if not self.params:
            return self.brought or None
        main = next((f for var, f in self.functions.items() if var.name_hint == "main"), None)
        known = {name_of(p) for p in main.params} if main is not None else set()
        for name in self.params:
            if name not in known:
                raise Error(f"params has '{name}', which is no parameter of 'main'")
        return {**self.params, **self.brought}

    def check_cycles(self):
        calls = {}
        for var, f in self.functions.items():
            called = calls[var] = []
            relax.analysis.post_order_visit(
                f,
                lambda e: (
                    called.append(e.op) if isinstance(e, relax.Call) and isinstance(e.op, tvm.ir.GlobalVar) else None
                ),
            )
            self.called.update(called)
            for other in called:
                if other not in self.functions and other not in self.prims:
                    raise Error(f"function '{var.name_hint}' calls '{other.name_hint}', which the module does not have")
        state = {}

        def visit(var):
            state[var] = 1
            for other in calls.get(var, ()):
                if state.get(other) == 1:
                    raise Error(
                        f"function '{var.name_hint}' calls '{other.name_hint}', which calls it again: "
                        "functions do not call themselves in a circle",
                        Code.VERIFY_ERROR,
                    )
                if other not in state:
                    visit(other)
            state[var] = 2

        for var in calls:
            if var not in state:
                visit(var)

    def plan_kernels(self):
        used = {}
        for f in self.functions.values():
            relax.analysis.post_order_visit(
                f, lambda e: used.setdefault(e) if isinstance(e, tvm.ir.GlobalVar) and e in self.prims else None
            )
        if self.opaque:
            return
        self.launches = kernels.lower({var: self.prims[var] for var in used}, self.target, self.report) if used else {}

    def functions_by_text(self):
        return {name: self.functions[var] for var, name in self.names.items()}

    def opaque_kernels(self):
        """By the name of a kernel in the text the GlobalVar and the PrimFunc that it stands for."""
        named = {name: var for var, name in self.names_of_kernels.items()}
        named |= {f"unused {var.name_hint}": var for var in self.prims if var not in self.names_of_kernels}
        return {name: (var, self.prims[var]) for name, var in named.items()}

    def constant(self, expr):
        """The constant's name; equal ones are one."""
        array = numpy.asarray(expr.numpy() if hasattr(expr, "numpy") else expr)
        return self.constant_name(array.tobytes(), array.shape, array.dtype.name)

    def constant_name(self, content, shape, dtype):
        key = (hashlib.sha256(content).digest(), tuple(shape), dtype)
        if key not in self.constant_names:
            name = self.constant_names[key] = f"c{len(self.constants)}"
            of = f"constant @{name}: tensor<[{', '.join(map(str, shape))}], {dtype_text(dtype, 'a constant')}>"
            self.constants.append(f'{of} = x"{content.hex()}"')
        return self.constant_names[key]

    def kernel(self, key, wanted, text_of):
        """The name of the kernel whose text `text_of` gives for a name; one for each key."""
        if key not in self.names_of_kernels:
            name = self.names_of_kernels[key] = self.kernel_names.new(wanted)
            self.kernels[key] = text_of(name)
        return self.names_of_kernels[key]
