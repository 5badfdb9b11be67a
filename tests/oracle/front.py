#!/usr/bin/env python3
"""Relax modules in and out, beside TVM's virtual machine.

  front.py [--seeds A..B] [--jobs N] [--python PYTHON]

Each seed of [A, B) is one test. A random Relax module of ops, branches, calls, tuples and symbolic dimensions
(draw_relax.py) comes in by cugrt.from_relax, runs on the emulated driver at two sizes, and must give what TVM's virtual
machine gives on the CPU; of some seeds the ops come in as PrimFuncs. Then what cugrt.to_relax makes of it must come in
as the same module, up to names. So must the module of kernels that the published passes are compared on (draw.py).
Elements that the virtual machine itself gives otherwise for inputs that differ by a rounding are not compared. Prints
the failure and the module of every seed that fails, then the counts.

Needs the Python package in .deps/relax, which `./dev test relax` makes.
"""
import argparse
import collections
import os
import sys

from oracle import ROOT, SHARES_FROM, compare_all, conclude, seed_range

DEFAULT_SEEDS = "0..100"
PYTHON = os.path.join(ROOT, ".deps", "relax", "0.27", "bin", "python")
FEATURES = {"dataflow", "plain", "call", "if", "twice", "cut", "flat", "match", "call_tir"}
LEAST_SHARE, LEAST_OPS = 5, 8  # of modules with each feature, in percent; ops of a module on average


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seeds", type=seed_range, default=seed_range(DEFAULT_SEEDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--python", default=PYTHON, help="a Python that has cugrt and apache-tvm")
    options = parser.parse_args()
    if not os.path.exists(options.python):
        print(f"there is no {options.python}: ./dev test relax makes it")
        return 1
    os.environ["CUGRT_DRIVER"] = "emulated"
    results = compare_all(options.seeds, options.python, "front_worker.py", "", options.jobs)
    failed = [r for r in results if r.get("failure")]
    for result in failed:
        print(f"failed: seed {result['seed']}")
        for line in result["failure"].splitlines():
            print(f"  {line}")
        for line in result.get("text", "").splitlines():
            print(f"  | {line}")
    features = collections.Counter(name for r in results for name in r["features"])
    ops = sum(r.get("ops", 0) for r in results) / len(results)
    print()
    print(f"{len(results)} modules with {ops:.1f} ops each; of them with " +
          ", ".join(f"{name} {count}" for name, count in sorted(features.items())))
    problems = []
    if len(results) >= SHARES_FROM:
        rare = sorted(name for name in FEATURES if features[name] * 100 < LEAST_SHARE * len(results))
        if rare or ops < LEAST_OPS:
            problems.append(f"too few modules have {', '.join(rare)}" if rare else "the modules have too few ops")
    return conclude(results, failed, problems)


if __name__ == "__main__":
    sys.exit(main())
