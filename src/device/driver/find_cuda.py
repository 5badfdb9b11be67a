#!/usr/bin/env python3
"""Finds the CUDA headers and NVRTC: CUDA_HOME, then /usr/local/cuda, then the PyPI wheels.

  find_cuda.py --include   prints the folder that holds cuda.h and the other headers that kernels are compiled with
  find_cuda.py --driver    prints the folder that holds cuda.h, the same where it can be: no more is needed of a driver
  find_cuda.py --nvrtc     prints the path of libnvrtc.so.*
  find_cuda.py --both      prints both, a line each; fails where no one toolkit holds both

Headers and library should be of one version, so a toolkit that has both goes before those that
have one. The wheels are looked for in .deps/python beside the source tree, then on Python's path.
Exits with 1 and says on stderr what to install when nothing is found.
"""
import glob
import os
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
# cuda_fp16.h is what kernels include; it includes crt/host_defines.h, which is in a wheel of its own.
HEADERS = ("cuda.h", "nvrtc.h", "cuda_fp16.h", os.path.join("crt", "host_defines.h"))


def candidates():
    """Yields (include folder, list of library folders), best first."""
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home:
            yield os.path.join(home, "include"), [os.path.join(home, d) for d in ("lib64", "lib")]
    for site in [os.path.join(ROOT, ".deps", "python"), *sys.path]:
        for toolkit in sorted(glob.glob(os.path.join(site, "nvidia", "cu[0-9]*")), reverse=True):
            yield os.path.join(toolkit, "include"), [os.path.join(toolkit, "lib")]


def headers_in(include):
    return all(os.path.isfile(os.path.join(include, header)) for header in HEADERS)


def driver_header_in(include):
    return os.path.isfile(os.path.join(include, "cuda.h"))


def nvrtc_in(libs):
    """The first libnvrtc.so.N of these folders, links resolved, or None."""
    for lib in libs:
        found = sorted(glob.glob(os.path.join(lib, "libnvrtc.so.[0-9]*")))
        if found:
            return os.path.realpath(found[0])
    return None


def main():
    found = [(include if headers_in(include) else None, nvrtc_in(libs))
             for include, libs in candidates()]
    both = [pair for pair in found if all(pair)]
    include = next((i for i, _ in both + found if i), None)
    nvrtc = next((n for _, n in both + found if n), None)
    driver = include or next((i for i, _ in candidates() if driver_header_in(i)), None)
    answers = {"--include": [include], "--driver": [driver], "--nvrtc": [nvrtc], "--both": both[0] if both else [None]}
    if len(sys.argv) != 2 or sys.argv[1] not in answers:
        print(__doc__, file=sys.stderr)
        return 2
    answer = answers[sys.argv[1]]
    if None in answer:
        print("no CUDA headers or NVRTC found: set CUDA_HOME, or install the wheels "
              "nvidia-cuda-nvrtc, nvidia-cuda-runtime and nvidia-cuda-crt", file=sys.stderr)
        return 1
    print("\n".join(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
