"""Where models and the compiler are found."""
import glob
import os

from . import _native
from ._errors import Code, Error, path_of

KIND = "a path, bytes or a cugrt.Module"


def nvrtc():
    """The NVRTC of the extra [compile], beside this package; "" where the environment names another or there is none.

    A CUDA_HOME or CUDA_PATH that is no folder names nothing.
    """
    if os.environ.get("CUGRT_NVRTC") or any(os.path.isdir(os.environ.get(name, "")) for name in ("CUDA_HOME", "CUDA_PATH")):
        return ""
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = sorted(glob.glob(os.path.join(site, "nvidia", "cu[0-9]*", "lib", "libnvrtc.so.[0-9]*")))
    return found[-1] if found else ""


class Memory:
    """Bytes as a file with a path, for readers that map files, as long as this lives."""

    def __init__(self, content):
        self._file = os.memfd_create("model")
        with os.fdopen(os.dup(self._file), "wb") as writer:
            writer.write(content.tobytes() if isinstance(content, memoryview) else content)

    def __fspath__(self):
        return f"/proc/self/fd/{self._file}"

    def __del__(self):
        os.close(self._file)


def read(source):
    """(kind, name, folder, path, content) of a path, bytes, or a cugrt.Module.

    ONNX and GGUF files stay on the disk, to be mapped: their content is None.
    """
    if getattr(source, "_linked", None) is not None:
        return "linked", "module", os.getcwd(), "", source._linked
    if hasattr(type(source), "__cugrt_text__"):
        return "text", "module", os.getcwd(), "", source.__cugrt_text__().encode()
    if isinstance(source, (bytes, bytearray, memoryview)):
        content = bytes(source)
        kind = _native.kind_of(content, "what was given")
        return kind, "bytes", os.getcwd(), "" if kind in ("text", "pack") else Memory(content), content
    path = path_of("a model", source, KIND)
    try:
        with open(path, "rb") as file:
            kind = _native.kind_of(file.read(1 << 16), f"'{path}'")
            content = None
            if kind in ("text", "pack"):
                file.seek(0)
                content = file.read()
    except OSError as error:
        code = Code.NOT_FOUND if isinstance(error, FileNotFoundError) else Code.IO_ERROR
        raise Error(f"cannot read '{path}': {error.strerror}", code, path) from None
    return kind, path, os.path.dirname(os.path.abspath(path)), path, content


def doctor() -> str:
    """What driver, device, compiler and cache are found, what is missing and what to do: a text."""
    return _native.doctor(nvrtc())[0]
