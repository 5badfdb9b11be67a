#!/usr/bin/env python3
"""Runs the conformance program on a driver, and checks the suite itself.

  conformance.py PROGRAM [--golden FOLDER] [--driver emulated|system|FILE] [--record FILE]
                 [--only TEXT]

On the emulated driver the cases for newer devices run once more on the newest profile, every row of
the opcode table must be executed, every PTX must be accepted by ptxas where it is installed, every
citation of cuda.h must be found in the header, and the scripts must pass on older drivers too. On a
real driver the program runs
once, and --record writes what the device answered.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SKIPPED = 77
COUNTS = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped$")
NEWEST_PROFILE = "sm_100"
NEWEST_DRIVER = "13.5"
OLDER_DRIVERS = ("12.2", "12.4", "12.6", "12.8", "13.0", "13.2")


class Tally:
    """What passed and failed so far, and the lines to print about it."""

    def __init__(self):
        self.passed, self.failed, self.skipped, self.notes = 0, 0, 0, []

    def check(self, title, problems):
        if problems:
            self.failed += 1
            print(f"failed: {title}")
            for line in problems:
                print(f"  {line}")
        else:
            self.passed += 1

    def skip(self, reason):
        self.skipped += 1
        self.notes.append(reason)


def run_program(arguments, environment, tally, label=""):
    """Runs the program and takes in its report. Returns False when there is no such driver."""
    result = subprocess.run(arguments, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                            text=True)
    lines = result.stdout.rstrip().splitlines() or [""]
    if result.returncode == SKIPPED:
        print(lines[-1])
        return False
    counts = COUNTS.match(lines[-1])
    if not counts:
        tally.check(f"the program {label}", [f"exit status {result.returncode}"] + lines[-20:])
        return True
    split = len(lines) - lines[::-1].index("")
    for line in lines[:split - 1]:
        print(line.replace("failed: ", f"failed: {label}", 1) if label else line)
    tally.passed += int(counts[1])
    tally.failed += int(counts[2])
    tally.notes += [label + line for line in lines[split:-1]]
    return True


def check_coverage(file, tally):
    executed = {}
    with open(file, encoding="ascii") as lines:
        for line in lines:
            names = line[2:].strip()
            executed[names] = executed.get(names, False) or line[0] == "+"
    missing = [names for names, done in executed.items() if not done]
    tally.check("every row of the opcode table is executed",
                [f"not executed: {names}" for names in missing] or
                ([] if executed else ["no row was reported"]))
    tally.notes.append(f"{sum(executed.values())} of {len(executed)} rows of the opcode table are "
                       f"executed")


FAULTING = ("fault", "halt", "stop")  # kernels of scripts that do nothing else: they are launched, and end at once


def check_counts(file, tally):
    with open(file, encoding="utf-8") as lines:
        rows = [line.split() for line in lines]
    tally.check("what each kernel executes is counted",
                [f"not counted: {row}" for row in rows
                 if len(row) != 4 or not all(count.isdigit() for count in row[:3]) or int(row[2]) == 0 or
                 (0 in (int(row[0]), int(row[1])) and row[3] not in FAULTING)]
                or ([] if rows else ["no kernel was reported"]))


def find_ptxas():
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    return shutil.which("ptxas") or shutil.which(os.path.join(home, "bin", "ptxas"))


def check_ptx(program, tally):
    ptxas = find_ptxas()
    if not ptxas:
        tally.skip("ptxas is not installed: the PTX was not assembled")
        return

    def assemble(path):
        target = path.split(".")[-2]
        done = subprocess.run([ptxas, f"-arch={target}", "-O0", "-o", os.devnull, path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return [] if done.returncode == 0 else done.stdout.strip().splitlines()[:5]

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--ptx", folder], check=True)
        files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            problems = [line for lines in pool.map(assemble, files) for line in lines]
        tally.check("every PTX is accepted by ptxas", problems or ([] if files else ["no PTX"]))


def plain(text):
    """A comment of cuda.h as words: no markup, no line breaks."""
    text = re.sub(r"\n\s*\*+ ?", " ", text)
    text = re.sub(r"\\(p|ref|brief|note|c|e) ", "", text.replace("::", ""))
    return re.sub(r"\s+", " ", text)


def comments_of(header):
    """{name: its comment} of functions and of enumerators, whose comments stand behind or before."""
    found = {}
    for match in re.finditer(r"CUresult CUDAAPI (\w+)\(", header):
        start = header.rfind("/**", 0, match.start())
        found.setdefault(match[1], plain(header[start:match.start()]))
    for match in re.finditer(r"\b(CU\w+)\s*=[^,/\n]*,?\s*/\*\*<(.*?)\*/", header, re.S):
        found.setdefault(match[1], plain(match[2]))
    for match in re.finditer(r"/\*\*((?:(?!\*/).)*)\*/\s*\b(CUDA_ERROR_\w+)\s*=", header, re.S):
        found.setdefault(match[2], plain(match[1]))
    return found


def check_citations(program, tally):
    found = subprocess.run([sys.executable, os.path.join(ROOT, "src", "device", "driver", "find_cuda.py"), "--driver"],
                           stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with open(os.path.join(found, "cuda.h"), encoding="utf-8") as file:
        header = file.read()
    comments, version = comments_of(header), int(re.search(r"#define CUDA_VERSION (\d+)", header)[1])
    cited = subprocess.run([program, "--citations"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.splitlines()
    problems, later = [], 0
    for line in cited:
        script, needed, name, words = line.split("\t")
        if int(needed) > version:
            later += 1
        elif plain(words) not in comments.get(name, ""):
            problems.append(f"{script}: {name} does not say: {words}")
    tally.check("every citation is in cuda.h", problems or ([] if cited else ["no citation"]))
    tally.notes.append(f"{len(cited)} citations of cuda.h, {later} of them of one newer than {version}")


def check_recording(program, tally):
    """A recording is compared with: the same run passes, one changed answer fails it."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "run.tsv")
        command = [program, "--scripts", "--only", "the driver's version"]
        outputs = [subprocess.run(command + more, stdout=subprocess.PIPE, text=True).stdout
                   for more in (["--record", file], ["--golden", folder])]
        with open(file, encoding="utf-8") as recording:
            text = recording.read()
        with open(file, "w", encoding="utf-8") as recording:
            recording.write(text.replace("=CUDA_SUCCESS", "=CUDA_ERROR_UNKNOWN", 1))
        changed = subprocess.run(command + ["--golden", folder], stdout=subprocess.PIPE, text=True)
    problems = []
    if "1 passed, 0 failed" not in outputs[1] or "1 confirmed on " not in outputs[1]:
        problems.append("a run differs from its own recording")
    if changed.returncode != 1 or "answered CUDA_ERROR_UNKNOWN" not in changed.stdout:
        problems.append("a changed answer is not told")
    tally.check("runs are compared with recordings", problems)


def check_older_drivers(program, tally):
    """The scripts as older drivers have them: what came later is left out, the rest passes."""
    for version in OLDER_DRIVERS:
        done = subprocess.run([program, "--scripts"], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "CUGRT_EMU_DRIVER_VERSION": version})
        lines = done.stdout.rstrip().splitlines() or [""]
        counts = COUNTS.match(lines[-1])
        good = done.returncode == 0 and counts and int(counts[1]) > 0
        tally.check(f"the scripts pass on driver {version}",
                    [] if good else [f"exit status {done.returncode}"] + lines[-20:])


def parse_arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--golden")
    parser.add_argument("--driver", default="emulated")
    parser.add_argument("--record")
    parser.add_argument("--only")
    return parser.parse_args()


def main():
    options = parse_arguments()
    emulated = options.driver == "emulated"
    command = [options.program, "--driver", options.driver]
    for name in ("golden", "record", "only"):
        if getattr(options, name):
            command += [f"--{name}", getattr(options, name)]
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        coverage, counts = os.path.join(folder, "coverage"), os.path.join(folder, "counts")
        environment = {}
        if emulated:
            environment = {"CUGRT_EMU_COVERAGE": coverage, "CUGRT_EMU_COUNTS": counts,
                           "CUGRT_EMU_DRIVER_VERSION": NEWEST_DRIVER}
        if not run_program(command, environment, tally):
            return SKIPPED
        if emulated and not options.only and not options.record:
            check_counts(counts, tally)
            newest = [options.program, "--driver", "emulated", "--opcodes", "--above", "90"]
            run_program(newest, {**environment, "CUGRT_EMU_DEVICE": NEWEST_PROFILE}, tally,
                        f"{NEWEST_PROFILE}: ")
            check_coverage(coverage, tally)
            check_ptx(options.program, tally)
            check_citations(options.program, tally)
            check_recording(options.program, tally)
            check_older_drivers(options.program, tally)
    print()
    print("\n".join(tally.notes))
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
