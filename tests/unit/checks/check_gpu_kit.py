#!/usr/bin/env python3
"""The script for machines with a GPU, rehearsed on the emulated driver: a planted difference stands
in its report with the command that shows it alone, what is done is not done again, and every bench is
run or said to be the host's.

  check_gpu_kit.py BUILD_FOLDER
"""
import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path += [os.path.join(ROOT, "tests", "gpu"), os.path.join(ROOT, "tests", "support")]
import kit  # noqa: E402
from titled_tests import equal, run_tests, test  # noqa: E402

CASES = "bfe.u32"
FAILING = "120:CUDA_ERROR_UNKNOWN"


class Rehearsals:
    """A folder of results and one of recordings, anew for each test."""

    def __init__(self, build, folder):
        self.build, self.folder, self.made = os.path.abspath(build), folder, 0

    def begin(self):
        self.made += 1
        golden = os.path.join(self.folder, f"golden{self.made}")
        results = os.path.join(self.folder, f"results{self.made}")
        for folder in (golden, results):
            os.makedirs(folder)
        return kit.Kit(results, self.build, golden, "emulated")


def text_of(rehearsal):
    with open(rehearsal.at("report.md"), encoding="utf-8") as file:
        return file.read()


@test("a report says EMULATED, and what is not done")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    kit.report(rehearsal, {})
    assert "EMULATED" in text_of(rehearsal)
    assert "## conformance\n\nNot done yet." in text_of(rehearsal)


@test("without recordings all agrees")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    kit.conformance(rehearsal, CASES)
    equal({row["result"] for row in rehearsal.read("conformance.json")}, {"agrees"})
    equal(kit.differing(rehearsal), (0, 0, 0))


@test("a planted difference is told, with the command that shows it")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    recording = os.path.join(rehearsal.golden, "device.tsv")
    subprocess.run([rehearsal.built("tests/emulator/conformance/cugrt-conformance"), "--only", CASES, "--record", recording],
                   stdout=subprocess.DEVNULL, check=True)
    with open(recording, encoding="utf-8") as file:
        lines = file.read().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("case\t"))
    planted = lines[at].split("\t")[1]
    lines[at] = lines[at].replace("bits=", "bits=0", 1)
    with open(recording, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")

    kit.conformance(rehearsal, CASES)
    kit.report(rehearsal, {})
    rows = rehearsal.read("conformance.json")
    equal([row["case"] for row in rows if row["result"] == "differs"], [planted])
    command = next(line for line in text_of(rehearsal).splitlines() if "--only" in line)
    shown = subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    equal(shown.returncode, 1)
    assert f"failed: {planted}" in shown.stdout, shown.stdout


@test("a case of a suite that fails is told, with the command that shows it, and what the others told")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    os.environ["CUGRT_EMU_FAIL_CALL"] = FAILING  # a call of the first case
    try:
        kit.suites(rehearsal, "gpu_driver")
        kit.report(rehearsal, {})
        row, = rehearsal.read("suites.json")
        equal((row["suite"], row["test"], row["skipped"], len(row["failed"])), ("gpu", "gpu_driver", 0, 1))
        assert row["passed"] >= 12, row
        assert any("setters in bodies" in told for told in row["told"]), row["told"]
        report = text_of(rehearsal)
        assert all(f"- gpu_driver: {told}" in report for told in row["told"])
        assert f"**gpu_driver: {row['failed'][0]['title']}**" in report
        command = next(line for line in report.splitlines() if "tests/gpu/gpu_driver" in line)
        shown = subprocess.run(command, shell=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        equal(shown.returncode, 1)
        assert "1 failed" in shown.stdout, shown.stdout
    finally:
        del os.environ["CUGRT_EMU_FAIL_CALL"]
    equal(kit.differing(rehearsal), (1, 0, 0))


@test("commands name a case as Catch2 reads names, the one that was running, or none")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    program = next(program for _, program in kit.programs(rehearsal) if program.label == "gpu_driver")
    title = "setters of nodes in bodies work or are refused, and a disabled body does not hang"
    for told, cases in ((title, "1 test case)"), (f"gpu_driver ended by SIGSEGV in: {title}", "1 test case)"),
                        ("gpu_driver: exit status 3", "test cases)")):
        shown = subprocess.run(kit.command_of(rehearsal, program, told), shell=True, cwd=ROOT, stdout=subprocess.PIPE,
                               text=True).stdout
        assert shown.rstrip().endswith(cases), shown


def write_script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


@test("rows of a bench stand in the report; one that fails is named and done again the next time")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    rehearsal.build = os.path.join(rehearsal.folder, "build")
    program = rehearsal.built("bench/bench_load")
    write_script(program, "echo no device; exit 3\n")
    try:
        kit.STAGES["load"](rehearsal)
        assert False, "the stage must fail"
    except kit.Failed as error:
        equal(str(error), "bench load ended with 3; see load.txt")
    equal(rehearsal.read("load.json"), None)
    write_script(program, """echo '[{"case": "warm", "ms": 7.25}]' > "$2"\n""")
    kit.STAGES["load"](rehearsal)
    kit.report(rehearsal, {})
    assert "| case | ms |\n| --- | --- |\n| warm | 7.25 |" in text_of(rehearsal)


@test("programs that compute-sanitizer finds fault with are counted, with its log")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    rehearsal.driver = rehearsal.built("src/emulator/libcugrt-emu.so")  # it is not for rehearsals
    tools, path = os.path.join(rehearsal.folder, "tools"), os.environ["PATH"]
    write_script(os.path.join(tools, "compute-sanitizer"), 'case "$*" in *gpu_driver*) echo invalid; exit 99;; esac\n')
    os.environ["PATH"] = tools + ":" + path
    try:
        kit.sanitizer(rehearsal)
    finally:
        os.environ["PATH"] = path
    equal({row["test"]: row["status"] for row in rehearsal.read("sanitizer.json")}, {"gpu_driver": 99, "differential_runtime": 0})
    equal(kit.differing(rehearsal), (0, 0, 1))
    with open(rehearsal.at("sanitizer_gpu_driver.log"), encoding="utf-8") as file:
        equal(file.read(), "invalid\n")


@test("every bench is run, or said to be the host's")
def _(_):
    paths = [path for folder in ("", "emulator/") for path in glob.glob(os.path.join(ROOT, "bench", folder + "bench_*"))]
    benches = {os.path.basename(path)[len("bench_"):].split(".")[0] for path in paths}
    equal(benches, {*kit.BENCHES, *kit.HOST_BENCHES, "precision"})


@test("what is done is not done again")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    kept = [{"case": "kept", "result": "agrees", "detail": ""}]
    rehearsal.write("conformance.json", kept)
    subprocess.run([sys.executable, os.path.join(ROOT, "tests", "gpu", "kit.py"), "--build", rehearsal.build,
                    rehearsal.folder, "doctor", "conformance"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env={**os.environ, "CUGRT_DRIVER": "emulated"})
    equal(rehearsal.read("conformance.json"), kept)
    assert rehearsal.read("doctor.json")["driver"]["emulated"]
    equal(rehearsal.read("suites.json"), None)


def main():
    with tempfile.TemporaryDirectory() as folder:
        return run_tests(Rehearsals(sys.argv[1], folder))


if __name__ == "__main__":
    sys.exit(main())
