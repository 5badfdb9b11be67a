#!/usr/bin/env python3
"""The script for machines with a GPU, rehearsed on the emulated driver: a planted difference stands
in its report with the command that shows it alone, what is done is not done again, and every bench is
run or said to be the host's.

  check_gpu_kit.py BUILD_FOLDER
"""
import contextlib
import glob
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path += [os.path.join(ROOT, "tests", "gpu"), os.path.join(ROOT, "tests", "support")]
import kit  # noqa: E402
import random_model  # noqa: E402
import stages as designs  # noqa: E402
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


DESIGN_KEYS = ("stage", "step")


@test("stages are rehearsed: rows of each step, and a line a design that says EMULATED")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "gpu", "kit.py"), "--build", rehearsal.build,
                           rehearsal.folder, "stage0", "stage1", "stage5", "stage9", "stage10"],
                          stdout=subprocess.DEVNULL, env={**os.environ, "CUGRT_DRIVER": "emulated"})
    equal(done.returncode, 0)
    report = text_of(rehearsal)
    for number in (0, 1, 5, 9, 10):
        rows = rehearsal.read(f"stage{number}.json")
        equal({tuple(row)[:2] for row in rows}, {DESIGN_KEYS})
        equal({row["step"] for row in rows}, {step.name for step in designs.STAGES[number].steps})
        for verdict in designs.STAGES[number].verdicts:
            assert f"- stage{number}, {verdict.design}: open, EMULATED" in report, report
    assert "- stage2, products of a decode step: not done yet" in report
    equal({row.get("result") for row in rehearsal.read("stage1.json")}, {"right"})
    equal(glob.glob(rehearsal.at("*.part*")), [])


@test("the table of stages: half an hour and five minutes in all, steps within a stage's minutes, cases of the benches")
def _(rehearsals):
    equal(sum(stage.minutes for stage in designs.STAGES), 35)
    rehearsal = rehearsals.begin()
    asked = {}
    for stage in designs.STAGES:
        assert sum(step.seconds for step in stage.steps) <= stage.minutes * 60, stage.about
        for step in stage.steps:
            try:
                command = step.command(rehearsal)
            except designs.Skipped:
                continue
            if "--only" in command:
                asked.setdefault(command[0], set()).update(command[command.index("--only") + 1].split(","))
    equal(set(map(os.path.basename, asked)), {"bench_device", "bench_kernels"})
    for program, cases in asked.items():
        for case in sorted(cases):  # no case runs: one that there is not is refused before
            shown = subprocess.run([program, "--only", case + ",nothing"], capture_output=True, text=True)
            assert "no case is called nothing" in shown.stderr, shown.stderr


def staged(rehearsal, *stages):
    """Runs these in the place of the table; returns what went wrong, by stage."""
    table, problems = designs.STAGES, {}
    designs.STAGES = stages
    try:
        for number in range(len(stages)):
            try:
                kit.design(number)(rehearsal)
            except kit.Failed as why:
                problems[number] = str(why)
        kit.report(rehearsal, {f"stage{number}": why for number, why in problems.items()})
    finally:
        designs.STAGES = table
    return problems


@test("a step that fails or takes too long is named, ends with all that it has started, and stops no other")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    rehearsal.build, rehearsal.driver = os.path.join(rehearsal.folder, "build"), "/a/driver"
    pid = os.path.join(rehearsal.folder, "pid")
    write_script(rehearsal.built("bench/bench_broken"), "exit 3\n")
    write_script(rehearsal.built("bench/bench_slow"), f"sleep 300 & echo $! > {pid}; wait\n")
    write_script(rehearsal.built("bench/bench_silent"), "echo nothing > $2\n")
    write_script(rehearsal.built("bench/bench_good"),
                 """echo '[{"case": "read", "us": 2.5, "driver": "a GPU"}]' > "$2"\n""")

    def step(name, seconds=20):
        return designs.Step(name, seconds, lambda kit: [kit.built("bench/bench_" + name), "--json"])
    verdict = designs.Verdict("reads", "one, in us,", lambda f: f.get(0, "good", "read", "us"), 3, 4)
    lost = designs.Verdict("loss", "one, in us,", lambda f: f.get(0, "slow", "read", "us"), 3, 4)
    one = designs.Stage(1, "first", (step("broken"), step("slow", 1), step("silent"), step("good")), (verdict, lost))
    two = designs.Stage(0, "no time", (step("good"),), ())
    three = designs.Stage(1, "third", (step("good"),), ())
    problems = staged(rehearsal, one, two, three)
    equal(problems, {0: "broken: bench_broken ended with 3; see stage0_broken.txt; slow: took longer than 1 s; see "
                        "stage0_slow.txt; silent: wrote no rows; see stage0_silent.txt",
                     1: "good: the stage's 0 minutes are over"})
    equal(rehearsal.read("stage0.json"), None)
    equal(rehearsal.read("stage2.json"), [{"stage": 2, "step": "good", "case": "read", "us": 2.5, "driver": "a GPU"}])
    report = text_of(rehearsal)
    assert "- could not run: stage0: broken: bench_broken ended with 3" in report
    assert "- stage0, slow: took longer than 1 s; see stage0_slow.txt" in report
    assert "- stage0, reads: confirmed, one, in us, is 2.5 (confirmed up to 3, ended above 4)" in report, report
    assert "- stage0, loss: open, stage0 slow: took longer than 1 s; see stage0_slow.txt" in report, report
    with open(pid, encoding="utf-8") as file:
        started = int(file.read())
    for _ in range(100):  # it is init's to bury
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{started}/stat", encoding="utf-8") as file:
            if file.read().rsplit(") ")[1][0] != "Z":
                time.sleep(0.1)
                continue
        break
    else:
        raise AssertionError("what the step had started goes on")
    # Mended, it is run again, and nothing of the failure stays.
    for name in ("broken", "slow", "silent"):
        shutil.copy(rehearsal.built("bench/bench_good"), rehearsal.built("bench/bench_" + name))
    equal(staged(rehearsal, one), {})
    equal((len(rehearsal.read("stage0.json")), rehearsal.read("stage0.partial.json")), (4, None))


@test("designs are confirmed, ended or left undecided by their bounds, upwards and downwards")
def _(_):
    def line(value, confirmed, ended, **row):
        rows = [{"stage": 0, "step": "s", "case": "c", "us": value, "driver": "a GPU", **row}]
        verdict = designs.Verdict("design", "it", lambda f: f.get(0, "s", "c", "us"), confirmed, ended)
        return verdict.line(designs.Figures(rows))
    for value, up, down in ((0.8, "confirmed", "ended"), (0.7, "undecided", "undecided"),
                            (0.6, "undecided", "undecided"), (0.5, "ended", "confirmed")):
        assert line(value, 0.8, 0.6).startswith(f"design: {up}, it is {value} (confirmed from 0.8 on, ended below 0.6)")
        assert line(value, 0.5, 0.7).startswith(f"design: {down}, it is {value} (confirmed up to 0.5, ended above 0.7)")
    equal(line(None, 1, 2, not_measured="sm_80 has no clusters"), "design: ended, sm_80 has no clusters")
    equal(line(5, 1, 2, driver="EMULATED"), "design: open, EMULATED")
    equal(line(5, 1, 2, case="d"), "design: open, stage0 has no row s c")
    equal(line(None, 1, 2), "design: open, c has no us")


@test("figures of designs are what the rows give: by hand for an H200's")
def _(_):
    def rows(stage, step, **cases):
        return [{"stage": stage, "step": step, "case": case, "driver": "a GPU", **row} for case, row in cases.items()]
    found = designs.Figures([
        *rows(0, "ceilings", read={"gb_per_s": 4000}, l2_copies={"gb_per_s": 6800}, wgmma_f16={"tera_per_s": 850},
              mma_f16={"tera_per_s": 640}, mma_s8={"tera_per_s": 1300}),
        *rows(1, "chains", chain_programmatic={"us_each": 1.2}, chain_programmatic_ring={"gb_per_s": 3600, "us": 700},
              chain_programmatic_ring_behind_wait={"us": 1000}),
        *rows(1, "exchanges", grid_words={"us_each": 0.6}),
        *rows(3, "products", ceiling_read={"us": 100.0, "bytes": 4e8}),
        *rows(3, "large", decode={"tokens": 63, "seconds": 63 * 1300e-6}),
        *rows(4, "products", ceiling_mma={"us": 10.0, "operations": 6.4e9}),
        *rows(4, "prompt_512", prefill={"tokens_per_s": 28000.0}),
        *rows(10, "large", decode={"tokens_per_s": 800.0}), *rows(10, "llama_large", decode={"tokens_per_s": 200.0}),
        *rows(9, "step", decode={"tokens": 10, "seconds": 0.013}), *rows(9, "kernels", last_step={"us": 1200.0})])

    def figure(design):
        verdict, = (v for stage in designs.STAGES for v in stage.verdicts if v.design == design)
        return round(verdict.figure(found), 4)
    equal(figure("products by wgmma without multicast"), 0.68)  # 85 x 6.8 / 850
    equal(figure("rings that are filled before the wait"), 0.9)
    equal(figure("rings before the wait and not behind it"), 0.7)
    equal(figure("one kernel for a step of small models"), 0.5)  # (0.6 + 0.4) / (1.2 + 0.8)
    # 32 layers of 218,103,808 weights at 4.5 bits and a head of 201,326,592 at 6.5625, in 1,300 us of 4 TB/s
    weights = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    head = 49152 * 4096
    equal(figure("decode at the speed of memory"), round((weights * 9 / 16 + head * 105 / 128) / 1300e-6 / 4e12, 4))
    equal(figure("prompts at the tensor cores"), round(2 * weights * 28000 / 6.4e14, 4))
    equal(figure("a step is its kernels"), round(1300 / 1200, 4))
    equal(figure("decode beside llama.cpp"), 0.25)


@test("times by Nsight Compute are those of the last step's kernels")
def _(rehearsals):
    rehearsal = rehearsals.begin()
    rehearsal.build, rehearsal.driver = os.path.join(rehearsal.folder, "build"), "/a/driver"
    tools, path, table = os.path.join(rehearsal.folder, "tools"), os.environ["PATH"], designs.model_path
    write_script(os.path.join(tools, "ncu"), """echo '==PROF== Connected'
for ns in 9,000 1,500 2,500; do echo '"0","9","cugrt","k","gpu__time_duration.sum","ns","'$ns'"'; done\n""")
    write_script(rehearsal.built("src/fronts/tools/cugrt"), """echo '[{"case": "decode", "decode_nodes": 2, "tokens": 2,
"seconds": 1e-5, "driver": "a GPU"}]'\n""")
    designs.model_path = lambda *_: "model.gguf"
    os.environ["PATH"] = tools + ":" + path
    try:
        rows = designs.run_stage(rehearsal, 9)
    finally:
        os.environ["PATH"], designs.model_path = path, table
    equal(rows[-1], {"stage": 9, "step": "kernels", "bench": "ncu", "case": "last_step", "count": 2, "us": 4.0})
    equal(designs.verdict_lines(9, rows), ["a step is its kernels: undecided, a token, over the sum of its kernels by "
                                           "Nsight Compute, is 1.25 (confirmed up to 1.1, ended above 1.3)"])


@test("a random model's file has its tensors where its header says, and no more")
def _(rehearsals):
    path = os.path.join(rehearsals.begin().folder, "model.gguf")
    size = random_model.Size(1, 256, 512, 4, 2, 300)
    random_model.write(path, size)
    # q, o of 256 x 256, k, v of 128 x 256, three of 512 x 256 and the embedding of 300 x 256 in q4_k, the head in q6_k
    blocks = 2 * 256 + 2 * 128 + 3 * 512 + 300
    expected = blocks * 144 + 300 * 210 + 3 * 256 * 4
    equal(os.path.getsize(path) - len(random_model.header(size)), expected + sum(-n % 32 for n in (300 * 210,)))
    with open(path, "rb") as file:
        data = file.read()
    equal((data[:4], struct.unpack_from("<IQ", data, 4)), (b"GGUF", (3, 1 + 1 + 2 + 8)))


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
