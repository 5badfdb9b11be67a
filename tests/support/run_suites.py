#!/usr/bin/env python3
"""Runs test suites that are already built, and counts their cases.

  run_suites.py [--jobs N] [--timeout SECONDS] [--build FOLDER] [--without TEST|TAG|[TAG]]...
                [--begin-before TIME] [--part K/N] [SUITE [OPTIONS...]]...
  run_suites.py --folders [SUITE...]    prints the build folders that these suites need
  run_suites.py --names [SUITE...]      prints their names
  run_suites.py --targets FOLDER [SUITE] prints what is built in a sanitized folder, which is configured,
                                        or for a suite

A suite is what Meson knows as one: `test(NAME, ..., suite: SUITE)`. A test is a Catch2 executable,
of which every test case counts, or a Python script, which counts as one case, or as many as its
last line says in the form `N passed, N failed, N skipped`; its failures are then the lines
`failed: TITLE` with the indented ones after them, and what stands between its last empty line and
the counts is shown. Either is skipped when it exits with 77
before any case has run; the last line that it printed is the reason. An executable that crashes or
exceeds its time is a failure by its own name, and the cases it finished still count.

--build names the folder, in the source tree, in which the plain suites are built: not build.
--without leaves out a test, by the name that test() gives it, all tests with a tag, which is one more
name of `suite:`, or Catch2 cases with a tag: TEST[TAG] of one test, [TAG] of all.

The suites asan and tsan run fast suites in sanitized builds; fuzz gives each libFuzzer target a
stretch of time on its corpus. OPTIONS after a suite's name go to that suite's scripts (oracle
--seeds 0..100) and to the fuzz suite here (fuzz --seconds 60).

The last line printed is the count over all suites. Exits with 0 when something passed or was
skipped and nothing failed, 2 for an unknown suite, 1 otherwise.
"""
import argparse
import concurrent.futures
import os
import sys
import time

import catch_report
import suite_plan

GREEN, RED, YELLOW = "32", "31", "33"


def coloured(text, code):
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return f"\033[{code}m{text}\033[0m"
    return text


def print_outcome(done, total, program, outcome):
    """One line for a program, then what failed in it, indented."""
    parts = [f"{outcome.passed} passed"] if outcome.passed else []
    if outcome.failures:
        parts.append(coloured(f"{len(outcome.failures)} failed", RED))
    if outcome.skips:
        parts.append(coloured(f"{len(outcome.skips)} skipped", YELLOW))
    print(f"[{done}/{total}] {program.label}: {', '.join(parts)} ({outcome.seconds:.1f} s)")
    for title, detail in outcome.failures:
        print(f"  {coloured('failed', RED)}: {title}")
        for line in detail.splitlines():
            print(f"    {line}")
    for reason in outcome.skips:
        print(f"  skipped: {reason}")
    for note in outcome.notes:
        print(f"  {note}")
    sys.stdout.flush()


def run_before(program, begin_before):
    if time.time() >= begin_before:
        return catch_report.Outcome(skips=["no time was left to begin it"])
    return catch_report.run(program)


def run_all(programs, jobs, begin_before=float("inf")):
    """Runs the programs, at most `jobs` at once; returns (program, outcome) as they end."""
    results = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(run_before, program, begin_before): program for program in programs}
        for future in concurrent.futures.as_completed(futures):
            program, outcome = futures[future], future.result()
            results.append((program, outcome))
            print_outcome(len(results), len(programs), program, outcome)
    return results


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--folders", action="store_true")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--targets", metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=900.0)
    parser.add_argument("--build", default=suite_plan.PLAIN_FOLDER)
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--begin-before", type=float, default=float("inf"))
    own, rest = parser.parse_known_args(arguments)
    suite_plan.plain_folder = own.build
    asked = suite_plan.requests(rest)
    suite_plan.fuzz_seconds(dict(asked).get("fuzz"))
    return own, asked


def main():
    try:
        own, requests = parse_arguments(sys.argv[1:])
    except suite_plan.UnknownSuite as error:
        print(error, file=sys.stderr)
        return 2
    if own.targets:
        named = requests[0][0] if requests[0][1] is not None else None
        print("\n".join(suite_plan.targets(own.targets, named)))
        return 0
    if own.names:
        print("\n".join(name for name, _ in requests))
        return 0
    if own.folders:
        print("\n".join(suite_plan.folders(requests)))
        return 0

    started = time.monotonic()
    programs, problems = suite_plan.programs(requests, own.timeout, own.without, own.part)
    results = run_all(programs, max(1, own.jobs), own.begin_before)
    for problem in problems:
        print(f"{coloured('failed', RED)}: {problem}")
    failures = [f"{program.label}: {title}" for program, outcome in results
                for title, _ in outcome.failures]
    if failures and len(programs) > 1:
        print(f"\n{len(failures)} failed:")
        for failure in sorted(failures):
            print(f"  {failure}")
    passed = sum(outcome.passed for _, outcome in results)
    skipped = sum(len(outcome.skips) for _, outcome in results)
    failed = len(failures) + len(problems)
    if passed + failed + skipped == 0:
        print("no test was found", file=sys.stderr)
    print(f"({time.monotonic() - started:.1f} s)")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed + skipped > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
