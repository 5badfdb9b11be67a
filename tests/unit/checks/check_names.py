#!/usr/bin/env python3
"""Checks that the product names no CUDA runtime API, captures no stream and uses no legacy stream.

  check_names.py [ROOT]

Graphs are built explicitly, through the driver API alone. The emulated driver may name what is
forbidden elsewhere, since programs that capture run on it. What captures of other threads allow is
for one file to say. Copies and fills that return when done run on the legacy stream: the table of
driver entry points has none of them.
"""
import os
import re
import sys

FORBIDDEN = {
    "stream capture": re.compile(r"StreamBeginCapture|ThreadExchangeStreamCaptureMode"),
    "synchronous copy or fill": re.compile(r"\bMem(cpy|set)(?!\w*(Async|Node|_v\d))\w*\s*[(,]"),
    "CUDA runtime API": re.compile(
        r"\bcuda_runtime(_api)?\.h|\bcuda(Malloc|Free|Memcpy|Memset|Launch|Graph(Create|Add|"
        r"Instantiate|Launch)|Stream(Create|Begin|Synchronize)|GetDevice|SetDevice|"
        r"DeviceSynchronize|GetLastError)\w*\s*\("),
    "link to the driver or the runtime": re.compile(r"-lcuda(rt)?\b|-lnvrtc\b|dependency\('cuda'"),
}
FOLDERS = ("src", "include", "jit", "kernels")
SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".build", ".def")
# Where else a name may stand: the table of entry points, and the one file that uses it.
ALLOWED = {"ThreadExchangeStreamCaptureMode": ("src/device/driver/driver_api.def",
                                               "src/device/driver/relaxed_capture.h")}


def problems_in(path, text):
    if path.startswith("src/emulator/"):
        return []
    return [f"{path}:{number}: {what}: {line.strip()}"
            for number, line in enumerate(text.splitlines(), 1)
            for what, pattern in FORBIDDEN.items()
            for found in [pattern.search(line)]
            if found and path not in ALLOWED.get(found.group(), ())]


def check_the_check():
    refused = ["cuStreamBeginCapture_v2(stream, mode);", "#include <cuda_runtime_api.h>",
               "cudaMalloc(&p, 4);", "cudaLaunchKernelExC (c);", "link_args: '-lcuda'",
               "CUGRT_DRIVER_CALL(StreamBeginCapture, StreamBeginCapture, 10000, required)",
               "CUGRT_DRIVER_CALL(MemcpyHtoD, MemcpyHtoD, 3020, required)",
               "api.MemsetD8(address, 0, bytes);", "api.ThreadExchangeStreamCaptureMode(&mode);"]
    allowed = ["cuStreamIsCapturing(stream, &status);", "cuGraphInstantiateWithParams(&e, g, &p);",
               "#include <cuda.h>", "cudaGraphSetConditional is emitted as inline PTX",
               "CUGRT_DRIVER_CALL(MemcpyHtoDAsync, MemcpyHtoDAsync, 3020, required)",
               "CUGRT_DRIVER_CALL(GraphAddMemcpyNode, GraphAddMemcpyNode, 10000, required)"]
    for line in refused:
        assert problems_in("src/device/graph/a.cpp", line), f"not refused: {line}"
    for line in allowed:
        assert not problems_in("src/device/graph/a.cpp", line), f"refused: {line}"
    assert not problems_in("src/device/driver/relaxed_capture.h", "api_->ThreadExchangeStreamCaptureMode(&m)")


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
