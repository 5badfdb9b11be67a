#!/usr/bin/env python3
"""Runs programs that know nothing of cugrt on the emulated driver, with `cugrt emulate`.

  foreign.py --tool CUGRT --linked PROGRAM

Each client is a Python program over packages from PyPI: NVIDIA's, numba, tinygrad, Taichi, Dr.Jit and Mojo,
or over NVIDIA's headers; each of its
functions that begins with `case_` is a test, whose docstring is its title. PROGRAM is linked_client.c, built. A client
prints `passed` or `failed`, a tab and the title for each. What it computes is compared with numpy inside. Whatever the
driver's checks tell on stderr fails the client: these are correct programs.

Needs the packages in .deps/foreign, which `./dev test foreign` installs.
"""
import argparse
import concurrent.futures
import glob
import os
import platform
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
VENV = os.path.join(ROOT, ".deps", "foreign")
PYTHON = os.path.join(VENV, "bin", "python")
# numba keeps memory until its process ends, which the check for leaks tells rightly.
WITHOUT_LEAKS = {"CUGRT_EMU_CHECK": "nodes,programmatic,streams,race,uninitialized"}
# (label, script, environment)
CLIENTS = (("cuda-bindings", "bindings_client.py", {}), ("cuda-core", "core_client.py", {}),
           ("numba", "numba_client.py", WITHOUT_LEAKS),
           ("tinygrad with NVRTC", "tinygrad_client.py", {"DEV": "CUDA"}),
           ("tinygrad's PTX", "tinygrad_client.py", {"DEV": "CUDA:PTX"}),
           ("cooperative groups and libcu++", "groups_client.py", {}), ("drjit", "drjit_client.py", {}),
           ("NVML", "nvml_client.py", {}), ("mojo", "mojo_client.py", {}))
if platform.machine() == "x86_64":  # there are no wheels of Taichi for other Linux machines
    CLIENTS += (("taichi", "taichi_client.py",
                 {"CUGRT_EMU_DEVICE": "sm_87", "TI_SKIP_VERSION_CHECK": "ON"}),)
TIMEOUT_S = 200


def environment_of(own, caches):
    """No setting of ours, nothing kept from earlier runs, and the NVRTC and
    headers that were installed with it."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("CUGRT_EMU")}
    nvrtc = sorted(glob.glob(os.path.join(VENV, "lib", "python*", "site-packages", "nvidia", "*", "lib",
                                          "libnvrtc.so.*")))
    environment.update(XDG_CACHE_HOME=caches, CACHELEVEL="0", **own)
    if nvrtc:
        environment["NVRTC_PATH"] = nvrtc[-1]  # where tinygrad looks
        environment["CUDA_PATH"] = os.path.dirname(os.path.dirname(nvrtc[-1]))  # and for headers
    return environment


def run_client(tool, client, command, own):
    """(titles that passed, [(title, detail)] of those that failed)"""
    with tempfile.TemporaryDirectory() as caches:
        return run_in(tool, client, command, environment_of(own, caches))


def run_in(tool, client, command, environment):
    try:
        done = subprocess.run([tool, "emulate", *command],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=TIMEOUT_S, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return [], [(f"{client} ends", f"still running after {TIMEOUT_S} s")]
    passed, failed = [], []
    for line in done.stdout.splitlines():
        outcome, _, title = line.partition("\t")
        if outcome == "passed":
            passed.append(title)
        elif outcome == "failed":
            failed.append((title, done.stderr))
    findings = [line for line in done.stderr.splitlines() if line.startswith("cugrt-emu:")]
    if findings:
        failed.append((f"{client}: nothing is reported of a correct program", "\n".join(findings)))
    if not passed or (done.returncode != 0 and not failed):
        failed.append((f"{client} ends well", f"exit status {done.returncode}\n{done.stderr}"))
    return passed, failed


def run_all(tool, linked):
    clients = [("linked C program", [linked], {})]
    clients += [(label, [PYTHON, "-W", "ignore", os.path.join(HERE, script)], own)
                for label, script, own in CLIENTS]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(lambda client: run_client(tool, *client), clients))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--linked", required=True)
    options = parser.parse_args()
    if not os.access(PYTHON, os.X_OK):
        print("failed: NVIDIA's packages are installed")
        print(f"  there is no {PYTHON}: ./dev test foreign installs it")
        print("0 passed, 1 failed, 0 skipped")
        return 1
    passed, failed = 0, []
    for good, bad in run_all(options.tool, options.linked):
        passed += len(good)
        failed += bad
    for title, detail in failed:
        print(f"failed: {title}")
        for line in detail.splitlines():
            print(f"  {line}")
    print(f"{passed} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
