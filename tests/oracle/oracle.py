#!/usr/bin/env python3
"""The published passes as an oracle for storage policy `slots`, region policy `seed` and the pass
ToMixedPrecision.

  oracle.py --plans PROGRAM [--seeds A..B] [--jobs N]

Each seed of [A, B) is one test: a random module (draw.py) is written as Relax and as our text, both
sides plan it, and the results must be equal. Where they are not, switches that turn published flaws
back on must explain all of the difference; those that cannot be left out are counted. Then a random
graph of ops (mixed.py) is narrowed by both, and the results must be equal. Prints
differences and the module of every seed that fails, then the shares, then the counts.

Needs apache-tvm in .deps/oracle, which `./dev test oracle` installs.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON = os.path.join(ROOT, ".deps", "oracle", "bin", "python")
DEFAULT_SEEDS = "0..400"
SEED_TIMEOUT_S = 120
MOST_DEATHS = 5  # in a row; the seeds after that are not tried
# What the draw must give, in percent, or the suite would show little.
LEAST_EQUAL, LEAST_FEATURED, LEAST_NARROW = 80, 30, 30
SHARES_FROM = 200  # shares of fewer seeds say nothing


class Worker:
    """A process that compares seeds; another one takes its place when it dies."""

    def __init__(self, python, script, program):
        self.command = [python, os.path.join(HERE, script), program]
        self.deaths = 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)

    def compare(self, seed):
        if self.deaths == MOST_DEATHS:
            return {"seed": seed, "features": [],
                    "failure": f"not tried, since {MOST_DEATHS} seeds in a row ended the process"}
        watchdog = threading.Timer(SEED_TIMEOUT_S, self.process.kill)
        watchdog.start()
        try:
            self.process.stdin.write(f"{seed}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if line:
            self.deaths = 0
            return json.loads(line)
        status = self.process.wait()
        self.deaths += 1
        self.start()
        return {"seed": seed, "features": [], "failure": f"the process ended with status {status}"}

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare_all(seeds, python, script, program, jobs):
    """Results in the order of seeds: `script` runs under `python` and asks `program`."""
    results, lock = {}, threading.Lock()
    waiting = iter(seeds)

    def work():
        worker = Worker(python, script, program)
        while True:
            with lock:
                seed = next(waiting, None)
            if seed is None:
                break
            result = worker.compare(seed)
            with lock:
                results[seed] = result
        worker.end()

    threads = [threading.Thread(target=work) for _ in range(min(jobs, len(seeds)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[seed] for seed in seeds]


def print_failure(result):
    print(f"failed: seed {result['seed']}")
    for line in result.get("failure", "").splitlines():
        print(f"  {line}")
    for difference in result.get("differences", ()):
        print(f"  {difference['at']}{', with all switches on' if result['flaws_on'] else ''}:")
        print(f"    published: {json.dumps(difference['published'])}")
        print(f"    ours:      {json.dumps(difference['ours'])}")
    for line in result.get("text", "").splitlines():
        print(f"  | {line}")


def percent(part, whole):
    return 100 * part / whole


def print_shares(results):
    """Gives what is wrong with the draw, if anything."""
    good = [r for r in results if "flaws" in r]
    total = len(results)
    equal = sum(not r["flaws"] for r in good)
    featured = sum(bool(r["features"]) for r in results)
    narrow = sum(r["narrow"][0] for r in good)
    ops = sum(r["narrow"][1] for r in good)
    switches = collections.Counter(flaw for r in good for flaw in r["flaws"])
    print()
    print(f"{percent(equal, total):.1f} % of {total} modules are planned alike with no switch on")
    print(f"{percent(featured, total):.1f} % have an if, several functions or an extern call")
    for flaw, count in switches.most_common():
        print(f"{percent(count, total):.2f} % need {flaw}")
    print(f"{percent(narrow, max(ops, 1)):.1f} % of {ops} ops are narrow")
    problems = []
    if total >= SHARES_FROM:
        if percent(equal, total) < LEAST_EQUAL:
            problems.append(f"fewer than {LEAST_EQUAL} % of the modules are planned alike")
        if percent(featured, total) < LEAST_FEATURED:
            problems.append(f"fewer than {LEAST_FEATURED} % of the modules have features")
        if percent(narrow, max(ops, 1)) < LEAST_NARROW:
            problems.append(f"fewer than {LEAST_NARROW} % of the ops are narrow")
    return problems


def conclude(results, failed, problems):
    """Prints what is wrong with the results as a whole, then the counts. The exit status."""
    for problem in problems:
        print(f"failed: {problem}")
    print(f"{len(results) - len(failed)} passed, {len(failed) + len(problems)} failed, 0 skipped")
    return 1 if failed or problems else 0


def seed_range(text):
    match = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is not A..B with A < B")
    return range(int(match[1]), int(match[2]))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--plans", required=True)
    parser.add_argument("--seeds", type=seed_range, default=seed_range(DEFAULT_SEEDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--python", default=PYTHON, help="a Python that has apache-tvm")
    options = parser.parse_args()
    if not os.path.exists(options.python):
        print(f"there is no {options.python}: ./dev test oracle installs apache-tvm there")
        return 1
    if not os.path.exists(options.plans):
        print(f"there is no {options.plans}: ./dev test oracle builds it")
        return 1
    plans = os.path.abspath(options.plans)
    results = compare_all(options.seeds, options.python, "worker.py", plans, options.jobs)
    failed = [r for r in results if "flaws" not in r]
    for result in failed:
        print_failure(result)
    problems = print_shares(results)
    return conclude(results, failed, problems)


if __name__ == "__main__":
    sys.exit(main())
