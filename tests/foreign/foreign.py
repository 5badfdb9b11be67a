#!/usr/bin/env python3
"""Runs programs that know nothing of cugrt on the emulated driver, with `cugrt emulate`.

  foreign.py --tool CUGRT

Each client is a Python program over NVIDIA's packages; each of its functions that begins with
`case_` is a test, whose docstring is its title. A client prints `passed` or `failed`, a tab and the
title for each. What it computes is compared with numpy inside. Whatever the driver's checks tell on
stderr fails the client: these are correct programs.

Needs the packages in .deps/foreign, which `./dev test foreign` installs.
"""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON = os.path.join(ROOT, ".deps", "foreign", "bin", "python")
CLIENTS = ("bindings_client.py", "core_client.py")
TIMEOUT_S = 120


def run_client(tool, client):
    """(titles that passed, [(title, detail)] of those that failed)"""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("CUGRT_EMU")}
    try:
        done = subprocess.run([tool, "emulate", PYTHON, "-W", "ignore", os.path.join(HERE, client)],
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    options = parser.parse_args()
    if not os.access(PYTHON, os.X_OK):
        print("failed: NVIDIA's packages are installed")
        print(f"  there is no {PYTHON}: ./dev test foreign installs it")
        print("0 passed, 1 failed, 0 skipped")
        return 1
    passed, failed = 0, []
    for client in CLIENTS:
        good, bad = run_client(options.tool, client)
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
