"""Passes under the names of ``relax.transform``, on a :class:`cugrt.Module`, and two of them on a Relax module too.

seq = cugrt.transform.Sequential([cugrt.transform.RewriteCUDAGraph()])
with cugrt.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
    module = seq(module)
"""

import sys
import threading
import typing

import cugrt

from .. import _native
from .._errors import Code, Error, string, table, whole

CUDA_GRAPH = "relax.backend.use_cuda_graph"
_local = threading.local()


class PassContext:
    """What passes inside of a ``with`` are set to, of this thread; the innermost one counts.

    ``config``: ``relax.backend.use_cuda_graph`` switches RewriteCUDAGraph on; others are options of docs/passes.md, as
    ``{"memory.effort": "build"}``. ``opt_level`` is taken since programs for Relax give it; no pass depends on it.
    """

    def __init__(self, opt_level: int = 2, config: dict[str, typing.Any] | None = None) -> None:
        self.opt_level, self.config = whole("opt_level", opt_level, 0, 4), dict(table("config", config))
        if not isinstance(self.config.get(CUDA_GRAPH, False), (bool, int)):
            raise Error(f"{CUDA_GRAPH} is True or False")

    def __enter__(self) -> "PassContext":
        _local.stack = [*getattr(_local, "stack", ()), self]
        return self

    def __exit__(self, kind: typing.Any, value: typing.Any, traceback: typing.Any) -> None:
        _local.stack = _local.stack[:-1]

    @staticmethod
    def current() -> "PassContext":
        """The innermost context of this thread, or one without settings."""
        stack = getattr(_local, "stack", ())
        return stack[-1] if stack else PassContext()


def run_passes(text, passes, options):
    return _native.run_passes(text, passes, [f"{name}={setting(value)}" for name, value in options.items()])


def setting(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


class Pass:
    """A pass: call it with a module, and it returns another."""

    def __init__(self, name: str, passes: list[str], options: dict[str, typing.Any] | None = None) -> None:
        self.name, self._passes, self._options = name, passes, options or {}

    def __repr__(self) -> str:
        return f"<cugrt.transform.{self.name}>"

    def _is_on(self, context):
        return True

    def __call__(self, module: typing.Any) -> typing.Any:
        context = PassContext.current()
        if not self._is_on(context):
            return module
        config = {name: value for name, value in context.config.items() if name != CUDA_GRAPH}
        if isinstance(module, cugrt.Module):
            return cugrt.Module.from_text(
                run_passes(module.text, self._passes, {**self._options, **config}), module._weights
            )
        if "tvm" in sys.modules and isinstance(module, sys.modules["tvm"].IRModule):
            return self._on_relax(module, config)
        raise Error(f"{self.name} takes a cugrt.Module or a tvm.IRModule, not a {type(module).__name__}")

    def _on_relax(self, module, config):
        raise Error(f"{self.name} takes a cugrt.Module; cugrt.from_relax makes one of a tvm.IRModule", Code.UNSUPPORTED)


class _Planning(Pass):
    """A pass that takes a Relax module too: PrimFuncs and packed functions go through it as they are."""

    def _on_relax(self, module, config):
        from . import _check

        _check()
        from .reader import Reader, has_dataflow
        from .writer import Writer

        if has_dataflow(module):  # storage is planned of calls in destination-passing form
            return module

        reader = Reader(module, {}, None, {}, opaque=True)
        # Storage is reused by the published rule there: Relax's tensors begin where their storage does.
        options = {"memory.storage_policy": "slots", **config}
        text = run_passes(reader.read().text, self._passes, {**self._options, **options})
        return Writer(text, reader).write()


class _RewriteCUDAGraph(_Planning):
    def _is_on(self, context):
        return bool(context.config.get(CUDA_GRAPH, False))


class Sequential(Pass):
    """Passes one after the other."""

    def __init__(self, passes: typing.Iterable[Pass], name: str = "Sequential") -> None:
        super().__init__(name, [])
        self.passes = list(passes)
        for one in self.passes:
            if not callable(one):
                raise Error(f"a Sequential holds passes, not a {type(one).__name__}")

    def __call__(self, module: typing.Any) -> typing.Any:
        for one in self.passes:
            module = one(module)
        return module


def RewriteCUDAGraph() -> Pass:
    """Static regions become functions that run as one graph; on where the context's config says so. On both modules."""
    return _RewriteCUDAGraph("RewriteCUDAGraph", ["RewriteCudaGraph"])


def StaticPlanBlockMemory() -> Pass:
    """Allocations get places in planned storage, of their sizes at the symbols' upper bounds. On both modules."""
    return _Planning("StaticPlanBlockMemory", ["PlanMemory"])


def LegalizeOps() -> Pass:
    """Ops become launches of kernels, or views."""
    return Pass("LegalizeOps", ["LegalizeOps"])


def FuseOps() -> Pass:
    """Ops that can be one kernel become a private function and a call of it."""
    return Pass("FuseOps", ["FuseOps"])


def FuseTIR() -> Pass:
    """Calls of fused functions become launches of generated kernels."""
    return Pass("FuseTIR", ["FuseKernels"])


def ToMixedPrecision(out_dtype: str = "float32", dtype: str = "float16") -> Pass:
    """f32 ops are computed in ``dtype``, float16 or bfloat16, where that is safe; sums stay in ``out_dtype``."""
    if string("out_dtype", out_dtype) != "float32":
        raise Error("out_dtype is float32: kernels keep their sums in it", Code.UNSUPPORTED)
    narrow = {"float16": "f16", "bfloat16": "bf16"}
    if string("dtype", dtype) not in narrow:
        raise Error("dtype is float16 or bfloat16")
    return Pass("ToMixedPrecision", ["ToMixedPrecision"], {"mixed.dtype": narrow[dtype]})
