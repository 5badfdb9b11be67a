#!/usr/bin/env python3
"""Finds the CUDA headers and NVRTC: CUDA_HOME, then /usr/local/cuda, then the PyPI wheels.

  find_cuda.py --include   prints the folder that holds cuda.h
  find_cuda.py --nvrtc     prints the path of libnvrtc.so.*

The wheels are looked for in .deps/python beside the source tree, then on Python's path. Exits
with 1 and says on stderr what to install when nothing is found.
"""
import glob
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def candidates():
    """Yields (include folder, list of library folders), best first."""
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home:
            yield os.path.join(home, "include"), [os.path.join(home, d) for d in ("lib64", "lib")]
    for site in [os.path.join(ROOT, ".deps", "python"), *sys.path]:
        for toolkit in sorted(glob.glob(os.path.join(site, "nvidia", "cu[0-9]*")), reverse=True):
            yield os.path.join(toolkit, "include"), [os.path.join(toolkit, "lib")]


def main():
    for include, libs in candidates():
        if "--include" in sys.argv and os.path.isfile(os.path.join(include, "cuda.h")):
            print(include)
            return 0
        if "--nvrtc" in sys.argv:
            found = [f for lib in libs for f in sorted(glob.glob(os.path.join(lib, "libnvrtc.so.[0-9]*")))]
            if found:
                print(os.path.realpath(found[0]))
                return 0
    print("no CUDA headers or NVRTC found: set CUDA_HOME, or install the wheels nvidia-cuda-nvrtc, "
          "nvidia-cuda-runtime and nvidia-cuda-crt", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
