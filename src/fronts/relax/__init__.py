"""cugrt.relax: TVM Relax modules in and out.

    module = cugrt.from_relax(relax_module)       # a tvm.IRModule gives a cugrt.Module
    model = cugrt.load(module)
    relax_module = cugrt.to_relax(module)

Needs the extra ``cugrt[relax]``, PyPI's apache-tvm 0.27; 0.25 and 0.26 work too. See docs/relax.md.
"""

import importlib.metadata
import typing as _typing

from .._errors import Code, Error

__all__ = ["from_exported", "from_relax", "to_relax", "transform"]

FITS = {"0.25.": ("0.1.12",), "0.26.": ("0.1.13", "0.1.14"), "0.27.": ("0.1.14",)}  # apache-tvm: apache-tvm-ffi


def _check():
    """An error where TVM is not installed, or not in versions that fit."""
    found = {}
    for package in ("apache-tvm", "apache-tvm-ffi"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise Error(f"{package} is not installed; pip install 'cugrt[relax]' brings it", Code.NOT_FOUND) from None
    tvm, ffi = found.values()
    fits = next((fits for version, fits in FITS.items() if tvm.startswith(version)), None)
    if fits is None:
        said = f"cugrt.relax works with apache-tvm 0.25, 0.26 and 0.27, and {tvm} is installed"
    elif not ffi.startswith(fits):
        said = f"apache-tvm {tvm} works with apache-tvm-ffi {' and '.join(fits)}, and {ffi} is installed"
    else:
        return
    raise Error(f"{said}; pip install 'cugrt[relax]' brings versions that fit", Code.UNSUPPORTED)


def __getattr__(name: str) -> _typing.Any:
    homes = {"from_relax": "reader", "to_relax": "writer", "from_exported": "exported"}
    if name in homes:
        _check()
        return getattr(importlib.import_module("cugrt.relax." + homes[name]), name)
    if name == "transform":
        return importlib.import_module("cugrt.relax.transform")
    raise AttributeError(f"module 'cugrt.relax' has no attribute {name!r}")
