"""Runs one test program and reads what became of it.

Catch2's XML reporter writes a case at a time, so that a report cut short by a crash still tells
which cases had ended and which one was running. The same elements are used by versions 2 and 3.
"""
import dataclasses
import os
import re
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree

SKIPPED_EXIT = 77
OUTPUT_TAIL_LINES = 40
COUNT_LINE = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped$")


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failures: list = dataclasses.field(default_factory=list)  # (title, detail)
    skips: list = dataclasses.field(default_factory=list)  # reasons
    notes: list = dataclasses.field(default_factory=list)  # lines that a script, or a case by WARN, wants shown
    seconds: float = 0.0


def execute(command, program):
    """(exit status, output, timed out). The whole process group ends with the program."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=program.folder, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT,
                                   env={**os.environ, **program.environment},
                                   start_new_session=True)
        timed_out = False
        try:
            process.wait(program.timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace"), timed_out


def tail(text):
    return "\n".join(text.rstrip().splitlines()[-OUTPUT_TAIL_LINES:])


def ending(status, timed_out, timeout_s):
    """How a program ended, in words."""
    if timed_out:
        return f"did not end within {timeout_s:.0f} s"
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"


def text_of(element, tag):
    found = element.find(tag)
    return (found.text or "").strip() if found is not None else ""


def describe(case):
    """What failed in a <TestCase> element: a line or two for each assertion, with its place."""
    lines = []
    for element in case.iter():
        place = f"{os.path.relpath(element.get('filename', ''))}:{element.get('line')}: " \
            if element.get("filename") else ""
        if element.tag == "Expression" and element.get("success") == "false":
            lines.append(f"{place}{element.get('type')}( {text_of(element, 'Original')} )")
            lines.append(f"  with expansion: {text_of(element, 'Expanded')}")
        if element.tag in ("Failure", "Exception", "FatalErrorCondition", "Info", "Warning"):
            lines.append(f"{place}{element.tag.lower()}: {(element.text or '').strip()}")
    return "\n".join(lines)


def read_report(path):
    """(ended <TestCase> elements, title of the case that never ended or None)."""
    cases, running = [], None
    parser = ElementTree.XMLPullParser(events=("start", "end"))
    try:
        with open(path, "rb") as file:
            parser.feed(file.read())
    except (OSError, ElementTree.ParseError):
        pass  # read_events below yields what stood before the break
    try:
        for event, element in parser.read_events():
            if element.tag != "TestCase":
                continue
            running = element.get("name") if event == "start" else None
            if event == "end":
                cases.append(element)
    except ElementTree.ParseError:
        pass
    return cases, running


def run_catch(program):
    outcome = Outcome()
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = program.command + ["--reporter", "xml", "--out", report.name]
        status, output, timed_out = execute(command, program)
        cases, running = read_report(report.name)
    for case in cases:
        result = case.find("OverallResult")
        if result is not None and result.get("success") == "true":
            if int(result.get("skips", "0")) > 0:
                outcome.skips.append(f"{case.get('name')}: {text_of(case, 'Skip')}")
            else:
                outcome.passed += 1
                outcome.notes += [" ".join(told.text.split()) for told in case.iter("Warning")]
        else:
            detail = describe(case)
            outcome.failures.append((case.get("name"), detail or tail(output)))
    if status == SKIPPED_EXIT and not cases and running is None:
        outcome.skips.append((output.strip().splitlines() or ["no reason given"])[-1])
    elif running is not None or timed_out or status < 0 or (status != 0 and not outcome.failures):
        title = f"{program.label} {ending(status, timed_out, program.timeout_s)}"
        outcome.failures.append((f"{title} in: {running}" if running else title, tail(output)))
    elif not cases:
        outcome.failures.append((f"{program.label} ran no test case", tail(output)))
    return outcome


def told_failures(lines):
    """[(title, detail)] of the lines "failed: TITLE" and the indented ones after each."""
    failures = []
    for line in lines:
        if line.startswith("failed: "):
            failures.append((line[len("failed: "):], []))
        elif failures and line.startswith("  "):
            failures[-1][1].append(line[2:])
    return [(title, "\n".join(detail)) for title, detail in failures]


def last_paragraph(lines):
    return lines[len(lines) - lines[::-1].index(""):] if "" in lines else []


def run_script(program):
    outcome = Outcome()
    status, output, timed_out = execute(program.command, program)
    lines = output.rstrip().splitlines() or [""]
    counts = COUNT_LINE.match(lines[-1])
    if counts and not timed_out and status in (0, 1) and (status == 0) == (int(counts[2]) == 0):
        outcome.passed = int(counts[1])
        outcome.skips = [f"{program.label}: see its output"] * int(counts[3])
        outcome.notes = last_paragraph(lines[:-1])
        told = told_failures(lines[:-1])
        outcome.failures = told if len(told) == int(counts[2]) else [
            (f"{program.label} (its case {i + 1})", tail(output) if i == 0 else "")
            for i in range(int(counts[2]))]
    elif status == 0 and not timed_out and not counts:
        outcome.passed = 1
    elif status == SKIPPED_EXIT and not timed_out:
        outcome.skips.append(lines[-1] or "no reason given")
    else:
        how = ending(status, timed_out, program.timeout_s)
        outcome.failures.append((f"{program.label} {how}", tail(output)))
    return outcome


def findings(path, checks):
    """What the emulated driver reported of these checks, a line each."""
    try:
        with open(path, errors="replace") as file:
            lines = [line.rstrip("\n").removeprefix("cugrt-emu: ") for line in file]
    except FileNotFoundError:
        return []
    return [line for line in lines if line.split(":")[0] in checks]


def run(program):
    """Runs a suite_plan.Program; returns its Outcome. The emulated driver's checks report into a
    file; what they found of a program that passed otherwise is a failure of its own."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "findings")
        if program.checks:
            program = dataclasses.replace(program, environment={
                "CUGRT_EMU_CHECK": ",".join(program.checks), "CUGRT_EMU_REPORT": report,
                **program.environment})
        outcome = run_catch(program) if program.is_catch else run_script(program)
        found = findings(report, program.checks)
    if found:
        outcome.failures.append((f"{program.label}: findings of the emulated driver",
                                 "\n".join(found[:OUTPUT_TAIL_LINES])))
    outcome.seconds = time.monotonic() - started
    return outcome
