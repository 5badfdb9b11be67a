"""cugrt: a CUDA graph runtime.

    import cugrt

    model = cugrt.load("model.onnx")          # or a module's text, or a pack; a GGUF file gives a cugrt.LLM
    y = model(x=x)                            # NumPy arrays, or anything that speaks DLPack

A model runs as CUDA graphs that are planned ahead and built node by node, on a GPU or, with CUGRT_DRIVER=emulated in
the environment or driver="emulated", on the CPU. What fails is a cugrt.Error.
"""
import typing as _typing

from . import _native
from ._builder import Function, Module, Value, dtype
from ._errors import Code, Error
from ._group import Group
from ._llm import LLM, Generation
from ._model import Model, Spec, Trace, compile, link, load
from ._native import DeviceArray
from ._sources import doctor

__all__ = ["Code", "DeviceArray", "Error", "Function", "Generation", "Group", "LLM", "Model", "Module", "Spec", "Trace",
           "Value", "compile", "doctor", "dtype", "link", "load"]

__version__: str = _native.version


def __getattr__(name: str) -> _typing.Any:
    # What most programs never use is imported when it is asked for.
    import importlib
    if name in ("serve", "relax"):
        return importlib.import_module("cugrt." + name)
    if name in ("from_exported", "from_relax", "to_relax", "transform"):
        return getattr(importlib.import_module("cugrt.relax"), name)
    raise AttributeError(f"module 'cugrt' has no attribute {name!r}")
