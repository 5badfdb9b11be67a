#!/usr/bin/env python3
"""ONNX's node models through the importer of ONNX files and the whole library, on the emulated driver or on
what CUGRT_DRIVER names.

  onnx_nodes.py RUNNER --least N

The models are Debian's libonnx-testdata; RUNNER is run_onnx_nodes, whose last line counts them. Skipped where
they are not installed.
"""
import os
import sys

MODELS = "/usr/share/libonnx-testdata/data/node"
SKIPPED = 77


def main():
    if not os.path.isdir(MODELS):
        print(f"there are no models in '{MODELS}': Debian's libonnx-testdata has them")
        return SKIPPED
    runner = sys.argv[1]
    os.environ.setdefault("CUGRT_DRIVER", "emulated")
    os.execv(runner, [runner, MODELS, *sys.argv[2:]])


if __name__ == "__main__":
    sys.exit(main())
