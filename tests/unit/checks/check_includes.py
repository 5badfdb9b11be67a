#!/usr/bin/env python3
"""Checks that includes follow the layers: no file includes a header of a folder above or beside its own.

  check_includes.py [ROOT]

The arrows below are the architecture; what a folder may include is what can be reached by them.
"""
import os
import re
import sys

# A folder of src/ (with jit/, kernels/ and include/cugrt beside them), and those right below it; then the same within
# each of them. "." stands for the files that lie in a folder itself.
ARROWS = {
    "": {
        "base": [],
        # The contract between compiler and device.
        "plan": ["base"],
        "device": ["plan", "cugrt"],
        "ir": ["plan"],
        "ops": ["ir"],
        "compiler": ["ops"],
        "jit": ["base"],
        # What hands out the embedded kernel sources; the .cu files themselves have a rule of their own.
        "kernels": [],
        # libcugrt: where compiler and device meet.
        "library": ["compiler", "device", "jit", "kernels"],
        # They write modules, and run them through the public headers.
        "fronts": ["ops", "cugrt"],
        # To the rest the emulated driver is a driver library: it knows base alone, and nobody knows it.
        "emulator": ["base"],
        "cugrt": [],  # the public headers, include/cugrt/
        # The tool and the examples are users: the public headers are all they see of the library.
        "examples": ["cugrt"],
        # The bench of the emulator counts inside it; the others see it as a driver. Benches use what tests share.
        "bench": ["library", "emulator", "fronts", "tests"],
        "tests": [],
    },
    "base": {".": [], "expr": ["."], "type": ["expr"]},
    "plan": {"format": [], "symbols": ["format"], "edges": ["symbols"], "validate": ["edges"], "bytes": ["validate"]},
    "device": {
        "driver": [], "program": ["driver"], "context": ["program"], "code": ["context"], "graph": ["code"],
        "session": ["graph"], "pack": ["code"], "api": ["session", "pack"],
    },
    "ir": {"module": [], "text": ["module"], "verify": ["text"]},
    # Families of ops do not know one another.
    "ops": {
        "table": [], "emit": ["table"], "attention": ["emit"], "convolution": ["emit"], "elementwise": ["emit"],
        "index": ["emit"], "known": ["table"], "linear": ["emit"], "movement": ["emit"], "normalization": ["emit"], "recurrent": ["emit"],
        "reduction": ["emit"], "sampling": ["emit"],
    },
    # ".": names of the IR that both use unqualified.
    "compiler": {".": [], "fused": [], "planner": ["."], "passes": ["fused", "planner"]},
    "compiler/planner": {
        "symbols": [], "analysis": ["symbols"], "edges": [], "packing": [], "rewrite": ["analysis"],
        "storage": ["packing", "analysis"], "published": ["analysis"],
        "lower": ["edges", "rewrite", "storage", "published"],
    },
    "library": {"compile": [], "report": ["compile"], "api": ["report"]},
    # The Python package sees the public headers alone, the tool base as well.
    "fronts": {"gguf": [], "onnx": [], "llm": ["gguf"], "python": [], "tools": []},
    "fronts/llm": {
        "tokenizer": [], "jinja_values": ["tokenizer"], "jinja": ["jinja_values"], "chat": ["jinja"], "architectures": [],
        "adapters": [], "generation": ["architectures", "adapters", "chat"], "api": ["generation"],
    },
    # The decoder writes what the executor runs, and so knows it.
    # ".": the types of entry points, which its build writes.
    "emulator": {
        ".": [], "ptx": [], "device": [], "exec": ["ptx", "device"], "decode": ["exec"], "driver": ["decode", "."],
        "graph": ["driver"], "api": ["graph"], "entry": ["graph"], "nvml": ["driver"], "cupti": ["driver"],
    },
}
# Fronts that see less than fronts may.
NARROW = {"fronts/python": {"cugrt"}, "fronts/tools": {"base", "cugrt"}}
# Programs: nothing includes them from another layer, so they may name headers of their own by the file's name alone.
PROGRAMS = ("src/fronts/tools/", "src/fronts/python/", "examples/", "bench/")
# Who may include a header, or a folder of headers, that is not the project's own.
FOREIGN = {
    "cuda.h": {"device", "emulator", "bench"},
    "nvrtc.h": {"jit"},
    "llvm/": {"compiler"},
}
# The table of all ops is the rows of the families, which are data.
ROWS_OF_ROWS = "src/ops/table/ops.def"
KERNEL_HEADERS = {"cuda_fp16.h", "cuda_bf16.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".def")


def reachable(start, arrows):
    seen, todo = set(), [start]
    while todo:
        here = todo.pop()
        if here not in seen:
            seen.add(here)
            todo += arrows[here]
    return seen


def rooms(path):
    """The folders that a file lies in, below src/ or include/: its layer first."""
    parts = path.split("/")
    return parts[1:-1] if parts[0] in ("src", "include") else parts[:-1]


def arrow_problem(here, there):
    """Why a file in the folders `here` may not include one in the folders `there`, or None."""
    parent = ""
    for depth in range(max(len(here), len(there))):
        arrows = ARROWS.get(parent)
        mine, theirs = (part[depth] if depth < len(part) else "." for part in (here, there))
        if arrows is None or mine == theirs:
            if mine == ".":
                return None
            parent = f"{parent}/{mine}".strip("/")
            continue
        if theirs not in reachable(mine, arrows):
            return f"{mine} may not depend on {theirs}"
        narrow = NARROW.get("/".join(here[:2]))
        return f"{'/'.join(here[:2])} may not depend on {theirs}" if narrow and theirs not in narrow else None
    return None


def problem_of(path, quoted, angled):
    """Why this file may not have this include, or None."""
    name, here = quoted or angled, rooms(path)
    there = name.split("/")[:-1]
    if path.endswith((".cu", ".cuh")):
        if name in KERNEL_HEADERS or re.fullmatch(r"\w+/\w+\.cuh", quoted or ""):
            return None
        return f"kernels include only {sorted(KERNEL_HEADERS)} and kernels/FAMILY/NAME.cuh, as FAMILY/NAME.cuh"
    if quoted and not there:
        return None if path.startswith(PROGRAMS) else "own headers are named by their path from src/"
    if ".." in there:
        return "own headers are named by their path from src/"
    if path == ROWS_OF_ROWS and re.fullmatch(r"ops/(\w+)/\1\.def", name):
        return None
    if there and there[0] in ARROWS[""]:
        return arrow_problem(here, there)
    if quoted and there[0] != "llvm":
        return f"there is no layer {there[0]}"
    for foreign, layers in FOREIGN.items():
        if (name == foreign or foreign.endswith("/") and name.startswith(foreign)) and here[0] not in layers:
            return f"only {', '.join(sorted(layers))} may include {foreign}"
    return None


def problems_in(path, text):
    parent = ""
    for depth, room in enumerate(rooms(path) or ["?"]):
        arrows = ARROWS.get(parent)
        if arrows is not None and room not in arrows:
            return [f"{path}: {parent or 'the tree'} has no folder {room}; add it to the arrows in check_includes.py"]
        parent = f"{parent}/{room}".strip("/")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        reason = match and problem_of(path, match[1], match[2])
        if reason:
            found.append(f"{path}:{number}: {line.strip()}: {reason}")
    return found


def source_files(root):
    for top in ("src", "include", "jit", "kernels", "bench", "examples"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def check_the_check():
    """A check that cannot fail checks nothing: each rule refuses what it must, and no more."""
    refused = [("src/ir/module/a.h", '#include "compiler/passes/pass.h"'), ("src/base/a.h", '#include "ir/module/module.h"'),
               ("src/base/a.h", '#include "base/type/type.h"'), ("src/plan/format/a.h", '#include "ir/module/module.h"'),
               ("src/device/code/a.cpp", '#include "jit/compiler.h"'), ("src/device/code/a.cpp", '#include "ir/module/module.h"'),
               ("src/device/code/a.cpp", '#include "library/compile/compile.h"'), ("src/plan/edges/a.h", '#include "plan.h"'),
               ("src/compiler/passes/a.h", '#include "device/graph/lanes.h"'), ("src/ir/module/a.h", '#include "ops/table/ops.h"'),
               ("src/ir/module/a.h", "#include <cuda.h>"), ("include/cugrt/a.h", '#include "llvm/ADT/Twine.h"'),
               ("src/device/code/a.h", '#include "emulator/exec/executor.h"'), ("src/emulator/exec/a.h", '#include "plan/format/plan.h"'),
               ("src/device/code/a.cpp", '#include "tests/support/temporary_folder.h"'),
               ("src/fronts/tools/a.cpp", '#include "ir/text/text.h"'), ("kernels/shared/a.cu", "#include <mma.h>"),
               ("kernels/shared/a.cu", '#include "../src/a.cuh"'), ("kernels/a.cpp", '#include "ir/type.h"'),
               ("src/ir/module/a.h", '  #  include "../plan/plan.h"'), ("src/other/a.h", ""), ("src/plan/other/a.h", ""),
               ("src/compiler/planner/analysis/a.h", '#include "compiler/planner/lower/planner.h"'),
               ("src/device/graph/a.cpp", '#include "device/session/session.h"'),
               ("src/ops/linear/a.cpp", '#include "ops/movement/a.h"'), ("src/ops/table/a.h", '#include "ops/index/index.def"'),
               ("src/emulator/driver/a.h", '#include "emulator/graph/graph.h"'),
               ("src/emulator/exec/a.h", '#include "emulator/decode/decoder.h"'),
               ("src/library/compile/a.cpp", '#include "fronts/onnx/import.h"'),
               ("src/fronts/onnx/a.h", '#include "compiler/passes/pass.h"')]
    allowed = [("src/compiler/passes/a.h", '#include "base/type/type.h"'), ("src/library/compile/a.h", '#include "jit/compiler.h"'),
               ("src/device/driver/a.h", "#include <cuda.h>"), ("src/fronts/tools/a.cpp", "#include <cugrt/cugrt.hpp>"),
               ("src/fronts/tools/a.cpp", '#include "tool.h"'), ("src/base/expr/a.h", '#include "base/status.h"'),
               ("kernels/shared/a.cu", "#include <cuda_fp16.h>"), ("kernels/linear/a.cu", '#include "shared/a.cuh"'),
               ("bench/a.cpp", '#include "tests/support/temporary_folder.h"'), ("src/emulator/ptx/a.h", '#include "base/status.h"'),
               ("kernels/a.h", "#include <span>"), ("src/compiler/planner/lower/a.h", '#include "plan/format/plan.h"'),
               ("src/device/session/a.cpp", '#include "device/program/legality.h"'),
               ("src/ops/table/ops.def", '#include "ops/index/index.def"'),
               ("src/compiler/planner/packing/a.h", '#include "llvm/ADT/Twine.h"')]
    for path, line in refused:
        assert problems_in(path, line), f"not refused: {path}: {line}"
    for path, line in allowed:
        assert not problems_in(path, line), f"refused: {path}: {line}"


def main():
    check_the_check()
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    found, files = [], 0
    for path in source_files(root):
        files += 1
        with open(os.path.join(root, path), encoding="utf-8") as file:
            found += problems_in(path, file.read())
    print("\n".join(found + [f"{files} files, {len(found)} includes against the layers"]))
    return 1 if found or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
