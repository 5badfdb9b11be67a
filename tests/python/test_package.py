"""The package itself: what is in it, what it costs, what it leaves behind."""
import ctypes
import gc
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import cugrt
from conftest import CLASSIFY

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PREFIX = os.path.join(os.path.dirname(cugrt.__file__), "prefix")


class Heap(ctypes.Structure):
    """What mallinfo2 tells of all of malloc's arenas."""
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                                                     "fordblks", "keepcost")]


def allocated():
    """Bytes that malloc has given and that were not freed, and the blocks of Python's objects."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Heap
    heap = mallinfo2()
    return heap.uordblks + heap.hblkhd, sys.getallocatedblocks()


def test_libraries_and_programs_are_inside():
    inside = {name for _, _, names in os.walk(PREFIX) for name in names}
    assert {"cugrt", "cugrt-compile", "libcugrt.so.0", "libcugrt-onnx.so.0", "libcugrt-llm.so.0", "libcugrt-emu.so"} <= inside


def test_the_command_runs_a_module(tmp_path, w, x):
    tool = os.path.join(os.path.dirname(sys.executable), "cugrt")
    (tmp_path / "m.cugrt").write_text(CLASSIFY)
    planned = subprocess.run([tool, "plan", tmp_path / "m.cugrt", "--set", "n=8"], capture_output=True, text=True)
    assert planned.returncode == 0 and "function @main" in planned.stdout, planned.stderr
    emulated = subprocess.run([tool, "emulate", sys.executable, "-c", "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"],
                              capture_output=True, text=True)
    assert emulated.stdout == "0\n", emulated.stderr


def test_importing_is_light():
    """No NumPy, no Ray; what else there is is counted in modules."""
    code = "import sys; before = set(sys.modules); import cugrt; print(sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'numpy'" not in loaded and "'ray'" not in loaded and "'cugrt'" in loaded


def compiled(tmp_path, before, **streams):
    (tmp_path / "m.cugrt").write_text(CLASSIFY)
    code = f"import sys, cugrt; {before}; cugrt.compile(sys.argv[1] + '/m.cugrt', sys.argv[1] + '/m.pack', ['compute_75'])"
    return subprocess.run([sys.executable, "-c", code, tmp_path], check=True, **streams).stderr


def test_a_bar_is_shown_in_terminals_and_notebooks_alone(tmp_path):
    assert compiled(tmp_path, "pass", stderr=subprocess.PIPE, text=True) == ""
    notebook = compiled(tmp_path, "sys.modules['ipykernel'] = sys", stderr=subprocess.PIPE, text=True)
    assert re.search(r"\[#+\] (\d+)/\1 \w+ .* cached\s*\n", notebook)
    reader, terminal = os.openpty()
    try:
        compiled(tmp_path, "pass", stderr=terminal)
        assert "[####" in os.read(reader, 1 << 16).decode()
    finally:
        os.close(reader)
        os.close(terminal)


def test_a_checkout_that_moved_makes_what_wheels_are_made_with_anew(tmp_path, monkeypatch):
    """Programs of an environment, and Meson's folders, name the path that they were made at."""
    spec = importlib.util.spec_from_file_location("wheel", os.path.join(ROOT, "src", "fronts", "python", "wheel.py"))
    wheel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheel)
    monkeypatch.setattr(wheel, "requirements", lambda: ["pip"])  # which every environment has
    for folder in ("here", "there"):
        programs, version = wheel.prepared(sys.executable, str(tmp_path / folder))
        assert subprocess.run([os.path.join(programs, "pip"), "--version"]).returncode == 0
        build = tmp_path / folder / f"build-{version}"
        if folder == "here":
            (build / "meson-info").mkdir(parents=True)
            (build / "meson-info" / "meson-info.json").write_text(json.dumps({"directories": {"source": wheel.HERE, "build": str(build)}}))
            assert wheel.is_of(str(build))
            (tmp_path / "here").rename(tmp_path / "there")
        else:
            assert not wheel.is_of(str(build))


def test_everything_public_is_documented():
    for name in cugrt.__all__:
        thing = getattr(cugrt, name)
        assert inspect.getdoc(thing), name
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"
    for member in ("__call__", "run", "zeros", "to_device", "close"):
        assert inspect.getdoc(getattr(cugrt.Model, member)), member


def test_signatures_are_annotated():
    from cugrt.serve import LLMDeployment
    from cugrt.serve._model import ModelReplica
    assert isinstance(cugrt.__version__, str) and cugrt.__annotations__["__version__"] is str
    for name, thing in [*((name, getattr(cugrt, name)) for name in (*cugrt.__all__, "__getattr__")), ("LLMDeployment", LLMDeployment),
                        ("ModelReplica", ModelReplica)]:
        functions = {name: thing} if inspect.isfunction(thing) else {
            f"{name}.{member}": value.fget if isinstance(value, property) else value for member, value in vars(thing).items()
            if not member.startswith("_") or member in ("__init__", "__call__", "__iter__", "__next__", "__enter__", "__exit__")} if inspect.isclass(thing) else {}
        for which, function in functions.items():
            function = getattr(function, "__func__", function)
            if inspect.isfunction(function) and function.__module__.startswith("cugrt."):
                signature = inspect.signature(function)
                assert signature.return_annotation is not signature.empty, which
                bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls", "_cls")]
                assert not bare, (which, bare)


def test_stubs_name_what_there_is():
    import ast
    import cugrt._native as native
    with open(os.path.join(os.path.dirname(cugrt.__file__), "_native.pyi")) as file:
        tree = ast.parse(file.read())
    told = {node.name: {part.name for part in node.body if isinstance(part, ast.FunctionDef)} for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions == {name for name, value in vars(native).items() if not isinstance(value, type) and callable(value)}
    for name, members in told.items():
        own = {member for member in vars(getattr(native, name)) if not member.startswith("__") or member in members}
        assert members == own | (members & {"__init__"}), name


@pytest.mark.parametrize("fails", [False, True])
def test_10000_calls_leave_nothing(w, x, fails):
    model = cugrt.load(CLASSIFY.encode(), weights={"w": w})
    arrays = {"x": x if not fails else x[:, :5].copy()}

    def calls(count):
        for number in range(count):
            try:
                model.run(arrays, device=number % 2 == 0)
            except cugrt.Error:
                assert fails
    calls(1000)
    before, counters = allocated(), model.counters
    calls(10000)
    left, after = [now - then for now, then in zip(allocated(), before)], model.counters
    # What threads keep at hand counts as given; the least block a call would come to 240,000 bytes.
    assert left[0] < 20000 and left[1] < 500, f"{left} bytes and objects, of 10,000 calls"
    for name in ("arena_bytes", "instance_bytes", "result_bytes", "weight_bytes"):
        assert after[name] == counters[name]


def test_a_toolkit_that_is_not_there_hides_no_compiler(tmp_path, monkeypatch):
    """What a machine's profile still names after an upgrade."""
    from cugrt import _sources
    site = tmp_path / "site"
    library = site / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(_sources, "__file__", str(site / "cugrt" / "_sources.py"))
    monkeypatch.delenv("CUGRT_NVRTC", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda-12.2"))
    assert _sources.nvrtc() == str(library)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert _sources.nvrtc() == ""
