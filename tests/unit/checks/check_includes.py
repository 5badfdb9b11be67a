#!/usr/bin/env python3
"""Checks that includes follow the layers: no file includes a header of a layer above or beside it.

  check_includes.py [ROOT]

The arrows below are the architecture; what a layer may include is what can be reached by them.
"""
import os
import re
import sys

# A layer and those right below it.
ARROWS = {
    "support": [],
    "ir": ["support"],
    "plan": ["ir"],
    "codegen": ["ir"],
    "passes": ["plan", "codegen"],
    # Files of others' formats to the IR: libraries of their own beside the core, which knows none.
    "import": ["ir", "cugrt"],
    "driver": ["support"],
    "jit": ["support"],
    # To the rest the emulator is a driver library: it knows nothing above support, and no layer
    # knows it.
    "emulator": ["support"],
    # What hands out the embedded kernel sources; the .cu files themselves have a rule of their own.
    "kernels": [],
    "runtime": ["passes", "plan", "codegen", "driver", "jit", "kernels", "cugrt"],
    # Language models: what an importer reads becomes IR, which runs through the public headers.
    "llm": ["import", "cugrt"],
    # The tool and the examples are users: the public headers are all they see of the library.
    "tools": ["support", "cugrt"],
    "examples": ["cugrt"],
    # The Python package: over the C ABI alone.
    "python": ["cugrt"],
    # The bench of the emulator counts inside it; the others see it as a driver. Benches use what
    # tests share.
    "bench": ["runtime", "emulator", "llm", "tests"],
    "tests": [],
    # The public headers, include/cugrt/.
    "cugrt": [],
}
# The same within a layer: a folder and those right below it.
FOLDERS = {
    "ir": {"expr": [], "type": ["expr"], "module": ["type"], "ops": ["module"], "text": ["ops"], "verify": ["text"]},
    "plan": {
        "format": [], "symbols": ["format"], "analysis": ["symbols"], "edges": ["symbols"], "packing": [],
        "rewrite": ["analysis"], "storage": ["packing", "analysis"], "published": ["analysis"],
        "lower": ["edges", "rewrite", "storage", "published"], "validate": ["edges"], "bytes": ["validate"],
    },
    # Kernels of several ops; those of one are beside it, and know none of them.
    "codegen": {"fused": []},
    "runtime": {
        "program": [], "device": ["program"], "code": ["device"], "graph": ["code"], "session": ["graph"],
        "pack": ["code"], "compile": ["pack"], "report": ["graph", "compile"], "api": ["report", "session"],
    },
    # The decoder writes what the executor runs, and so knows it.
    "emulator": {
        "ptx": [], "device": [], "exec": ["ptx", "device"], "decode": ["exec"], "driver": ["decode"],
        "graph": ["driver"], "api": ["graph"], "entry": ["graph"],
    },
    "import": {"gguf": [], "onnx": []},
    "llm": {"tokenizer": [], "architectures": [], "generation": ["architectures", "tokenizer"], "api": ["generation"]},
}
# Programs: nothing includes them from another layer, so they may name headers of their own by the
# file's name alone.
PROGRAMS = {"tools", "examples", "bench", "python"}
# Who may include a header, or a folder of headers, that is not the project's own.
FOREIGN = {
    "cuda.h": {"driver", "emulator", "runtime", "bench"},
    "nvrtc.h": {"jit"},
    "llvm/": set(ARROWS) - {"cugrt", "examples", "kernels"},
}
KERNEL_HEADERS = {"cuda_fp16.h", "cuda_bf16.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".def")


def reachable(start, arrows):
    """What a layer may include of the layers, or a folder of its layer's folders, itself among them."""
    seen, todo = set(), [start]
    while todo:
        here = todo.pop()
        if here not in seen:
            seen.add(here)
            todo += arrows[here]
    return seen


def layer_of(path):
    """The layer that a file belongs to, by its path from the root; None: no layer."""
    parts = path.split("/")
    if parts[0] in ("src", "include"):
        return parts[1] if len(parts) > 2 else None
    return parts[0]


def problem_of(layer, is_kernel, quoted, angled):
    """Why a file of this layer may not have this include, or None."""
    name = quoted or angled
    top = name.split("/")[0]
    if is_kernel:
        if name in KERNEL_HEADERS or re.fullmatch(r"\w+/\w+\.cuh", quoted or ""):
            return None
        return f"kernels include only {sorted(KERNEL_HEADERS)} and the .cuh files of kernels/FAMILY/"
    if quoted and "/" not in quoted:
        return None if layer in PROGRAMS else "own headers are named by their path: LAYER/FILE"
    if ".." in name.split("/"):
        return "own headers are named by their path from src/"
    if "/" in name and top in ARROWS:
        return None if top in reachable(layer, ARROWS) else f"{layer} may not depend on {top}"
    if quoted and top != "llvm":
        return f"there is no layer {top}"
    for foreign, layers in FOREIGN.items():
        if (name == foreign or foreign.endswith("/") and name.startswith(foreign)) \
                and layer not in layers:
            return f"only {', '.join(sorted(layers))} may include {foreign}"
    return None


def folder_problem_of(path, name):
    """Why a file may not have this include of its own layer's, or None."""
    here, there = path.split("/")[1:-1], (name or "").split("/")[:-1]
    if here[:1] != there[:1] or here[0] not in FOLDERS or len(there) < 2:
        return None
    folders = FOLDERS[here[0]]
    if len(here) < 2 or there[1] in reachable(here[1], folders):
        return None
    return f"in {here[0]}, {here[1]}/ may not depend on {there[1]}/"


def problems_in(path, text):
    layer = layer_of(path)
    if layer not in ARROWS:
        return [f"{path}: no layer is called {layer}; add it to the arrows in check_includes.py"]
    parts = path.split("/")
    if parts[0] == "src" and layer in FOLDERS and len(parts) > 3 and parts[2] not in FOLDERS[layer]:
        return [f"{path}: no folder of {layer} is called {parts[2]}; add it to the folders in check_includes.py"]
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        reason = problem_of(layer, path.endswith((".cu", ".cuh")), match[1], match[2]) if match else None
        if match and not reason and parts[0] == "src":
            reason = folder_problem_of(path, match[1])
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
    refused = [("src/ir/a.h", '#include "plan/plan.h"'), ("src/support/a.h", '#include "ir/type.h"'),
               ("src/driver/a.cpp", '#include "jit/compiler.h"'), ("src/plan/a.h", '#include "plan.h"'),
               ("src/ir/a.h", "#include <cuda.h>"), ("include/cugrt/a.h", '#include "llvm/ADT/Twine.h"'),
               ("src/runtime/a.h", '#include "emulator/exec/executor.h"'),
               ("src/runtime/a.cpp", '#include "tests/support/temporary_folder.h"'),
               ("src/tools/a.cpp", '#include "ir/text.h"'), ("kernels/a.cu", "#include <mma.h>"),
               ("kernels/a.cu", '#include "../src/a.cuh"'),
               ("kernels/a.cpp", '#include "ir/type.h"'),
               ("src/ir/a.h", '  #  include "../plan/plan.h"'), ("src/other/a.h", ""), ("src/plan/other/a.h", ""),
               ("src/plan/format/a.h", '#include "compiler/planner/lower/planner.h"'),
               ("src/runtime/graph/a.cpp", '#include "device/session/session.h"'),
               ("src/emulator/driver/a.h", '#include "emulator/graph/graph.h"'),
               ("src/emulator/exec/a.h", '#include "emulator/decode/decoder.h"'),
               ("src/runtime/a.cpp", '#include "fronts/onnx/import.h"'), ("src/import/onnx/a.h", '#include "plan/plan.h"')]
    allowed = [("src/passes/a.h", '#include "ir/type.h"'), ("src/runtime/a.h", '#include "jit/compiler.h"'),
               ("src/driver/a.h", "#include <cuda.h>"), ("src/tools/a.cpp", "#include <cugrt/cugrt.hpp>"),
               ("src/tools/a.cpp", '#include "tool.h"'),
               ("kernels/a.cu", "#include <cuda_fp16.h>"), ("kernels/a/a.cu", '#include "a/a.cuh"'),
               ("bench/a.cpp", '#include "tests/support/temporary_folder.h"'),
               ("kernels/a.h", "#include <span>"), ("src/plan/lower/a.h", '#include "plan/format/plan.h"'),
               ("src/runtime/session/a.cpp", '#include "device/program/legality.h"'), ("src/ir/a.h", '#include "llvm/ADT/Twine.h"')]
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
