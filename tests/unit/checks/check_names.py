#!/usr/bin/env python3
"""Checks that the product names no CUDA runtime API, and captures no stream.

  check_names.py [ROOT]

Graphs are built explicitly, through the driver API alone. Two places may name what is forbidden
elsewhere: the emulated driver, since programs that capture run on it, and the .def tables of driver
entry points.
"""
import os
import re
import sys

FORBIDDEN = {
    "stream capture": re.compile(r"\bcuStreamBeginCapture\w*|\bcuThreadExchangeStreamCaptureMode"),
    "CUDA runtime API": re.compile(
        r"\bcuda_runtime(_api)?\.h|\bcuda(Malloc|Free|Memcpy|Memset|Launch|Graph(Create|Add|"
        r"Instantiate|Launch)|Stream(Create|Begin|Synchronize)|GetDevice|SetDevice|"
        r"DeviceSynchronize|GetLastError)\w*\s*\("),
    "link to the driver or the runtime": re.compile(r"-lcuda(rt)?\b|-lnvrtc\b|dependency\('cuda'"),
}
FOLDERS = ("src", "include", "jit", "kernels")
SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".build")


def problems_in(path, text):
    if path.startswith("src/emulator/"):
        return []
    return [f"{path}:{number}: {what}: {line.strip()}"
            for number, line in enumerate(text.splitlines(), 1)
            for what, pattern in FORBIDDEN.items() if pattern.search(line)]


def check_the_check():
    refused = ["cuStreamBeginCapture_v2(stream, mode);", "#include <cuda_runtime_api.h>",
               "cudaMalloc(&p, 4);", "cudaLaunchKernelExC (c);", "link_args: '-lcuda'"]
    allowed = ["cuStreamIsCapturing(stream, &status);", "cuGraphInstantiateWithParams(&e, g, &p);",
               "#include <cuda.h>", "cudaGraphSetConditional is emitted as inline PTX"]
    for line in refused:
        assert problems_in("src/runtime/a.cpp", line), f"not refused: {line}"
    for line in allowed:
        assert not problems_in("src/runtime/a.cpp", line), f"refused: {line}"


def main():
    check_the_check()
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    found, files = [], 0
    for top in FOLDERS:
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(name for name in names if name.endswith(SUFFIXES)):
                path = os.path.relpath(os.path.join(folder, name), root)
                files += 1
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    found += problems_in(path, file.read())
    print("\n".join(found + [f"{files} files, {len(found)} forbidden names"]))
    return 1 if found or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
