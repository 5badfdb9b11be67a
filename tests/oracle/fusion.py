#!/usr/bin/env python3
"""The published pass FuseOps as an oracle for ours.

  fusion.py --cugrt PROGRAM [--seeds A..B] [--jobs N]

Each seed of [A, B) is one test: a random graph of ops (fusion_worker.py) is written as Relax and as
our text, both sides group its ops, and the groups must be equal. Ours runs with
fuse.rules=published: what follows a reduction joins it here and not there. Patterns that differ by
rule are in fusion_worker.py. Prints differences
and the graph of every seed that fails, then the counts.

Needs apache-tvm in .deps/oracle, which `./dev test oracle` installs.
"""
import argparse
import collections
import os
import sys

from oracle import DEFAULT_SEEDS, PYTHON, SHARES_FROM, compare_all, seed_range

# What the draw must give, or the suite would show little.
LEAST_GROUPS, LEAST_OPS_IN_ALL = 2, 8  # a graph, on average


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--cugrt", required=True)
    parser.add_argument("--seeds", type=seed_range, default=seed_range(DEFAULT_SEEDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--python", default=PYTHON, help="a Python that has apache-tvm")
    options = parser.parse_args()
    for path in (options.python, options.cugrt):
        if not os.path.exists(path):
            print(f"there is no {path}: ./dev test oracle makes it")
            return 1
    results = compare_all(options.seeds, options.python, "fusion_worker.py",
                          os.path.abspath(options.cugrt), options.jobs)
    failed = [r for r in results if r.get("failure") or r["differences"]]
    for result in failed:
        print(f"failed: seed {result['seed']}")
        for line in result.get("failure", "").splitlines() or result["differences"]:
            print(f"  {line}")
        for line in result.get("text", "").splitlines():
            print(f"  | {line}")
    rules = collections.Counter(name for r in results for name in set(r.get("patterns", ())))
    groups, ops = (sum(r.get(key, 0) for r in results) / len(results) for key in ("fused", "ops"))
    print()
    print(f"{len(results) - len(failed)} of {len(results)} graphs are grouped alike, "
          f"with {ops:.1f} ops and {groups:.1f} groups of several each; kernels with another pattern "
          "there, by graphs: " + ", ".join(f"{name} {n}" for name, n in sorted(rules.items())))
    failures = len(failed)
    if len(results) >= SHARES_FROM and (groups < LEAST_GROUPS or ops < LEAST_OPS_IN_ALL):
        print("failed: the graphs have too few ops or groups")
        failures += 1
    print(f"{len(results) - len(failed)} passed, {failures} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
