"""The package itself: what is in it, what it costs, what it leaves behind."""
import inspect
import os
import re
import resource
import subprocess
import sys

import numpy as np
import pytest

import cugrt
from conftest import CLASSIFY

PREFIX = os.path.join(os.path.dirname(cugrt.__file__), "prefix")


def resident_kb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


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


def test_everything_public_is_documented():
    for name in cugrt.__all__:
        thing = getattr(cugrt, name)
        assert inspect.getdoc(thing), name
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"
    for member in ("__call__", "run", "zeros", "to_device", "close"):
        assert inspect.getdoc(getattr(cugrt.Model, member)), member


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
    before, counters = resident_kb(), model.counters
    calls(10000)
    after = model.counters
    assert resident_kb() - before < 1024, "less than 0.1 byte a call"
    for name in ("arena_bytes", "instance_bytes", "result_bytes", "weight_bytes"):
        assert after[name] == counters[name]
