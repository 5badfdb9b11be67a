#!/usr/bin/env python3
"""The README's example is real: its module and its program are taken out of the README, compiled against
this build with its C++ compiler, and run on the emulated driver.

  check_readme.py BUILD_ROOT
"""
import json
import os
import re
import subprocess
import sys
import tempfile

SOURCE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def fenced(text, language):
    blocks = re.findall(rf"^```{language}\n(.*?)^```", text, re.S | re.M)
    if len(blocks) != 1:
        sys.exit(f"README.md has {len(blocks)} blocks of {language}; this check knows what to do with one")
    return blocks[0]


def target_file(build_root, name):
    """The file that Meson builds for the target called `name`."""
    with open(os.path.join(build_root, "meson-info", "intro-targets.json"), encoding="utf-8") as file:
        for target in json.load(file):
            if target["name"] == name and target["type"] == "shared library":
                return target["filename"][0]
    sys.exit(f"no shared library target is called {name}")


def main():
    build_root = sys.argv[1]
    with open(os.path.join(SOURCE_ROOT, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    library, emulator = target_file(build_root, "cugrt"), target_file(build_root, "cugrt-emu")
    with tempfile.TemporaryDirectory() as folder:
        for name, language in (("classify.cugrt", "cugrt"), ("classify.cpp", "cpp")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(fenced(readme, language))
        libraries = os.path.dirname(library)
        compiler = os.environ.get("CXX", "g++").split()
        subprocess.run([*compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "classify.cpp",
                        "-I" + os.path.join(SOURCE_ROOT, "include"), "-L" + libraries, "-lcugrt", "-o", "classify"],
                       cwd=folder, check=True)
        environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "CUGRT_DRIVER": "emulated",
                       "CUGRT_EMULATOR": emulator}
        run = subprocess.run(["./classify"], cwd=folder, env=environment, capture_output=True, text=True,
                             check=False)
    # Ten equal columns of weights give ten equal classes.
    if run.returncode != 0 or run.stdout != "0.100\n":
        print(f"the README's program exited with {run.returncode} and printed {run.stdout!r}\n{run.stderr}")
        return 1
    print("1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
