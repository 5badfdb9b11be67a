"""cugrt.relax: TVM Relax modules in and out.

    module = cugrt.from_relax(relax_module)       # a tvm.IRModule gives a cugrt.Module
    model = cugrt.load(module)
    relax_module = cugrt.to_relax(module)

Needs the extra ``cugrt[relax]``, PyPI's apache-tvm 0.27. See docs/relax.md.
"""

import importlib.metadata
import typing as _typing

from .._errors import Code, Error

__all__ = ["from_relax", "to_relax", "transform"]

TVM, FFI = "0.27.", "0.1.14."


def _check():
    """An error where TVM is not installed, or not in versions that fit."""
    for package, wanted in (("apache-tvm", TVM), ("apache-tvm-ffi", FFI)):
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise Error(f"{package} is not installed; pip install 'cugrt[relax]' brings it", Code.NOT_FOUND) from None
        if not found.startswith(wanted):
            raise Error(
                f"cugrt.relax works with {package} {wanted}*, and {found} is installed; pip install 'cugrt[relax]' "
                "brings one that fits",
                Code.UNSUPPORTED,
            )


def __getattr__(name: str) -> _typing.Any:
    homes = {"from_relax": "reader", "to_relax": "writer"}
    if name in homes:
        _check()
        return getattr(importlib.import_module("cugrt.relax." + homes[name]), name)
    if name == "transform":
        return importlib.import_module("cugrt.relax.transform")
    raise AttributeError(f"module 'cugrt.relax' has no attribute {name!r}")
