#!/usr/bin/env python3
"""Runs the package's tests with pytest in .deps/package/venv, and counts them for ./dev test.

  run.py [--relax VERSION | --torch VERSION] [PYTEST OPTIONS...]

--relax: those of Relax alone, in .deps/relax/VERSION. --torch: those of exported models, there, with .deps/torch.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(HERE, "..", "..", ".deps", "package", "venv", "bin", "python")


def main():
    python, files, options, suite = PYTHON, [HERE], sys.argv[1:], "python"
    if options[:1] == ["--relax"]:
        python = os.path.join(HERE, "..", "..", ".deps", "relax", options[1], "bin", "python")
        files, options, suite = sorted(glob.glob(os.path.join(HERE, "test_relax*.py"))), options[2:], "relax"
    elif options[:1] == ["--torch"]:
        deps = os.path.abspath(os.path.join(HERE, "..", "..", ".deps"))
        python = os.path.join(deps, "relax", options[1], "bin", "python")
        # What both folders have is taken from the environment.
        own = glob.glob(os.path.join(deps, "relax", options[1], "lib", "python*", "site-packages"))
        os.environ["PYTHONPATH"] = os.pathsep.join([*own, os.path.join(deps, "torch")])
        files, options, suite = [os.path.join(HERE, "test_exported.py")], options[2:], "torch"
    if "--seeds" in options:  # for the other script of the suite
        at = options.index("--seeds")
        options = options[:at] + options[at + 2 :]
    if not os.path.exists(python) or subprocess.run([python, "-c", "import cugrt"], capture_output=True).returncode:
        print(f"the package is not installed for {python}: ./dev test {suite} does that")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        ran = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *options, *files],
                             capture_output=True, text=True, cwd=folder)
        if not os.path.exists(report):
            print(ran.stdout + ran.stderr)
            return 1
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    failed = skipped = 0
    for case in cases:
        for bad in [*case.iter("failure"), *case.iter("error")]:
            failed += 1
            print(f"failed: {case.get('name')}")
            print("  " + re.sub(r"\n", "\n  ", (bad.text or "")[-2000:]))
            break
        skipped += case.find("skipped") is not None
    print(f"{len(cases) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 0 if ran.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
