#!/usr/bin/env python3
"""Makes packages of installations of cugrt, one a machine.

  package.py --root TREE --work FOLDER --wheel-work FOLDER OUT MACHINE=STAGE... --python PYTHON...

MACHINE is x86_64 or aarch64, STAGE a folder with an installation below usr/. OUT gets of each machine Debian packages
and a tarball of the installation, whose CMake and pkg-config files work wherever it lies; of aarch64 the wheels, made
of those of x86-64, which wheel.py has put into OUT for each PYTHON; and the source as git has it. --wheel-work is the
folder that wheel.py worked in: its programs are used.
"""

import argparse
import glob
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# Whoever makes packages for others sets these, as of other Debian tools.
MAINTAINER = "{} <{}>".format(
    os.environ.get("DEBFULLNAME", "cugrt developers"), os.environ.get("DEBEMAIL", "cugrt@users.noreply.github.com")
)
# The least glibc and libstdc++ that the compiler's runtime asks for: Debian 12's.
RUNTIME = "libc6 (>= 2.35), libstdc++6 (>= 12), libgcc-s1 (>= 3.4)"

# Of each Debian package: what it is, what it needs, and what of the installation it has. LIB is the folder of
# libraries.
PACKAGES = {
    "libcugrt-core0": {
        "section": "libs",
        "depends": RUNTIME,
        "text": "CUDA graph runtime, library for devices",
        "more": " Runs packs, which cugrt compile makes, as explicit CUDA graphs, without a\n"
        " compiler and without a planner.",
        "files": ["LIB/libcugrt-core.so.*"],
    },
    "cugrt": {
        "section": "science",
        "depends": "libcugrt-core0 (= VERSION), zlib1g, " + RUNTIME,
        "recommends": "nvidia-cuda-toolkit",
        "text": "CUDA graph runtime: tool, compiler and emulated driver",
        "more": " Takes models of ONNX, GGUF or its own text, plans regions and storage,\n"
        " compiles kernels with NVRTC and builds CUDA graphs node by node. Without a\n"
        " GPU an emulated driver runs them on the CPU.",
        "files": [
            "bin/*",
            "libexec/cugrt/*",
            "LIB/libcugrt.so.*",
            "LIB/libcugrt-onnx.so.*",
            "LIB/libcugrt-llm.so.*",
            "LIB/libcugrt-emu.so",
            "LIB/cugrt-emu/*",
        ],
    },
    "libcugrt-dev": {
        "section": "libdevel",
        "depends": "cugrt (= VERSION), libcugrt-core0 (= VERSION)",
        "text": "CUDA graph runtime, headers",
        "more": " The C interface, the C++ header over it, and what pkg-config and CMake find\n them by.",
        "files": [
            "include/cugrt/*",
            "LIB/libcugrt.so",
            "LIB/libcugrt-core.so",
            "LIB/libcugrt-onnx.so",
            "LIB/libcugrt-llm.so",
            "LIB/pkgconfig/*",
            "lib/cmake/cugrt/*",
        ],
    },
}
PYTHON = {
    "section": "python",
    "depends": "PYTHON, python3-numpy, zlib1g, " + RUNTIME,
    "text": "CUDA graph runtime, Python package",
    "more": " Models as functions over NumPy and DLPack arrays. It has libraries of its own,\n as the wheel has.",
}


def python_versions(wheels):
    """The versions of Debian's python3 that load a native module of the wheels; those of abi3 serve later ones, too."""
    minors = {int(os.path.basename(wheel).split("-")[2].removeprefix("cp3")) for wheel in wheels}
    least, most = min(minors), max(minors)
    parts = [f"python3 (>= 3.{least})"]
    parts += [f"python3 (<< 3.{gap}) | python3 (>= 3.{gap + 1})" for gap in range(least, most) if gap not in minors]
    if not any("-abi3-" in wheel for wheel in wheels):
        parts.append(f"python3 (<< 3.{most + 1})")
    return ", ".join(parts)


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def version_of(root):
    with open(os.path.join(root, "meson.build"), encoding="utf-8") as file:
        return re.search(r"^  version: '([\d.]+)'", file.read(), re.M).group(1)


def copy(source, to):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    if os.path.islink(source):
        os.symlink(os.readlink(source), to)
    else:
        shutil.copy2(source, to)
        os.chmod(to, 0o755 if os.access(source, os.X_OK) and ".so" not in os.path.basename(to) else 0o644)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o644)


class Maker:
    def __init__(self, root, work, out):
        self.root, self.work, self.out = root, work, out
        self.compression, self.level = "xz", 9  # of Debian packages, of tarballs
        self.version = version_of(root)
        self.date = int(run("git", "-C", root, "log", "-1", "--format=%ct").strip() or 0)
        os.environ["SOURCE_DATE_EPOCH"] = str(self.date)  # dpkg-deb's archives are the same each time

    def fresh(self, name):
        folder = os.path.join(self.work, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        return folder

    # --- Debian ---------------------------------------------------------------------------------

    def documents(self, tree, package):
        folder = os.path.join(tree, "usr", "share", "doc", package)
        write(
            os.path.join(folder, "copyright"),
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
            "Upstream-Name: cugrt\n\nFiles: *\nCopyright: 2026 the cugrt developers\nLicense: Apache-2.0\n"
            " On Debian systems the licence's text is in /usr/share/common-licenses/Apache-2.0.\n",
        )
        when = run("date", "-R", "-u", "-d", f"@{self.date}").strip()
        text = f"cugrt ({self.version}) unstable; urgency=medium\n\n"
        text += f"  * Release {self.version}.\n\n -- {MAINTAINER}  {when}\n"
        with open(os.path.join(folder, "changelog.gz"), "wb") as raw, gzip.GzipFile(
            "", "wb", 9, raw, self.date
        ) as file:
            file.write(text.encode())
        os.chmod(os.path.join(folder, "changelog.gz"), 0o644)

    def manual(self, tree):
        """Of each program: what its --help says is too long for a page, so the page says where it is."""
        for program in sorted(os.listdir(os.path.join(tree, "usr", "bin"))):
            folder = os.path.join(tree, "usr", "share", "man", "man1")
            os.makedirs(folder, exist_ok=True)
            text = (
                f".TH {program.upper()} 1\n.SH NAME\n{program} \\- runs, plans and transforms models on CUDA graphs\n"
                f".SH SYNOPSIS\n.B {program}\nCOMMAND [ARGS]\n"
                f".SH DESCRIPTION\n.B {program} \\-\\-help\nlists the commands, and\n"
                f".B {program} COMMAND \\-\\-help\nthe options of one.\n"
            )
            with open(os.path.join(folder, program + ".1.gz"), "wb") as raw, gzip.GzipFile(
                "", "wb", 9, raw, self.date
            ) as file:
                file.write(text.encode())
            os.chmod(os.path.join(folder, program + ".1.gz"), 0o644)

    def control(self, tree, package, machine, about):
        files = sorted(
            os.path.join(base, name)
            for base, _, names in os.walk(tree)
            for name in names
            if not base.startswith(os.path.join(tree, "DEBIAN"))
        )
        size = sum(os.path.getsize(file) for file in files if not os.path.islink(file)) // 1024 + 1
        lines = [
            f"Package: {package}",
            f"Version: {self.version}",
            f"Architecture: {DEBIAN[machine]}",
            f"Maintainer: {MAINTAINER}",
            f"Installed-Size: {size}",
            "Depends: " + about["depends"].replace("VERSION", self.version),
        ]
        if "recommends" in about:
            lines.append("Suggests: " + about["recommends"])
        lines += [
            f"Section: {about['section']}",
            "Priority: optional",
            f"Description: {about['text']}",
            about["more"],
        ]
        write(os.path.join(tree, "DEBIAN", "control"), "\n".join(lines) + "\n")
        sums = ""
        for file in files:
            if not os.path.islink(file):
                with open(file, "rb") as data:
                    sums += f"{hashlib.md5(data.read()).hexdigest()}  {os.path.relpath(file, tree)}\n"
        write(os.path.join(tree, "DEBIAN", "md5sums"), sums)

    def shared(self, tree, package, library):
        """What others that link the library depend on, and the loader's cache."""
        write(
            os.path.join(tree, "DEBIAN", "shlibs"),
            "".join(f"{name} 0 {package} (>= {self.version})\n" for name in library),
        )
        write(os.path.join(tree, "DEBIAN", "triggers"), "activate-noawait ldconfig\n")

    def build_deb(self, tree, package, machine):
        for base, folders, _ in os.walk(tree):
            for folder in folders:
                os.chmod(os.path.join(base, folder), 0o755)
        os.chmod(tree, 0o755)
        name = os.path.join(self.out, f"{package}_{self.version}_{DEBIAN[machine]}.deb")
        run("dpkg-deb", "--root-owner-group", f"-Z{self.compression}", "--build", tree, name)
        return name

    def debian(self, machine, stage):
        usr = os.path.join(stage, "usr")
        lib = os.path.relpath(
            os.path.dirname(glob.glob(os.path.join(usr, "lib", "**", "libcugrt-core.so"), recursive=True)[0]), usr
        )
        taken = set()
        for package, about in PACKAGES.items():
            tree = self.fresh(f"{package}-{machine}")
            for pattern in about["files"]:
                found = sorted(glob.glob(os.path.join(usr, pattern.replace("LIB", lib))))
                if not found:
                    sys.exit(f"the installation in {stage} has nothing for {package} that matches {pattern}")
                for file in found:
                    taken.add(file)
                    copy(file, os.path.join(tree, "usr", os.path.relpath(file, usr)))
            self.documents(tree, package)
            if package == "cugrt":
                self.manual(tree)
                self.shared(tree, package, ["libcugrt", "libcugrt-onnx", "libcugrt-llm"])
            if package == "libcugrt-core0":
                self.shared(tree, package, ["libcugrt-core"])
            self.overrides(tree, package)
            self.control(tree, package, machine, about)
            self.build_deb(tree, package, machine)
        left = [os.path.join(base, name) for base, _, names in os.walk(usr) for name in names]
        missed = [os.path.relpath(file, usr) for file in left if file not in taken]
        if missed:
            sys.exit("no Debian package has " + ", ".join(sorted(missed)))

    def overrides(self, tree, package):
        """What lintian finds and is meant so: the libraries are the tool's, and the emulated driver has no version."""
        if package == "cugrt":
            write(
                os.path.join(tree, "usr", "share", "lintian", "overrides", package),
                f"{package}: package-name-doesnt-match-sonames\n{package}: shared-library-lacks-version\n",
            )

    def python_debian(self, machine, wheels):
        """The wheels over each other: they differ in the native module alone, whose name says which Python loads it."""
        tree = self.fresh(f"python3-cugrt-{machine}")
        packages = os.path.join(tree, "usr", "lib", "python3", "dist-packages")
        os.makedirs(packages)
        for wheel in wheels:
            run(sys.executable, "-m", "zipfile", "-e", wheel, packages)
        (record,) = glob.glob(os.path.join(packages, "cugrt-*.dist-info", "RECORD"))
        os.remove(record)  # one wheel's; dpkg knows the package's files
        for base, _, names in os.walk(packages):
            for name in names:
                runs = os.path.basename(base) in ("bin", "libexec") or name == "cugrt-compile"
                os.chmod(os.path.join(base, name), 0o755 if runs else 0o644)
        self.documents(tree, "python3-cugrt")
        about = {**PYTHON, "depends": PYTHON["depends"].replace("PYTHON", python_versions(wheels))}
        self.control(tree, "python3-cugrt", machine, about)
        self.build_deb(tree, "python3-cugrt", machine)

    # --- Archives -------------------------------------------------------------------------------

    def tarball(self, machine, stage):
        """The installation as a folder of its own; with it, files that CMake's FetchContent and Meson's wraps read."""
        name = f"cugrt-{self.version}-linux-{machine}"
        whole = self.fresh(name)
        shutil.copytree(os.path.join(stage, "usr"), whole, symlinks=True, dirs_exist_ok=True)
        shutil.copy(os.path.join(self.root, "packaging", "CMakeLists.txt"), whole)
        (library,) = glob.glob(os.path.join(whole, "lib", "**", "libcugrt-core.so"), recursive=True)
        with open(os.path.join(self.root, "packaging", "meson.build.in"), encoding="utf-8") as file:
            build = file.read().replace("@VERSION@", self.version)
        with open(os.path.join(whole, "meson.build"), "w", encoding="utf-8") as file:
            file.write(build.replace("@LIBDIR@", os.path.relpath(os.path.dirname(library), whole)))
        shutil.copy(os.path.join(self.root, "LICENSE"), whole)
        self.compress(whole, name, os.path.join(self.out, name + ".tar.gz"))

    def compress(self, folder, name, to):
        def plain(info):
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mtime = self.date
            return info

        with open(to, "wb") as raw, gzip.GzipFile("", "wb", self.level, raw, self.date) as packed, tarfile.open(
            fileobj=packed, mode="w"
        ) as tar:
            tar.add(folder, name, filter=plain)

    def source(self):
        name = f"cugrt-{self.version}"
        run(
            "git",
            "-C",
            self.root,
            "archive",
            "--format=tar.gz",
            f"--prefix={name}/",
            "-o",
            os.path.join(self.out, name + ".tar.gz"),
            "HEAD",
        )

    # --- The wheels of aarch64 ------------------------------------------------------------------

    def aarch64_wheel(self, stage, wheel, programs):
        """That of this machine, with the other's libraries and programs, and the extension compiled for it."""
        tree = self.fresh("wheel-aarch64")
        run(os.path.join(programs, "wheel"), "unpack", "-d", tree, wheel)
        (inside,) = glob.glob(os.path.join(tree, "cugrt-*"))
        prefix = os.path.join(inside, "cugrt", "prefix")
        names = [
            os.path.relpath(os.path.join(base, name), prefix) for base, _, found in os.walk(prefix) for name in found
        ]
        shutil.rmtree(prefix)
        lib = "lib/aarch64-linux-gnu"
        usr = os.path.join(stage, "usr")
        for name in names:
            here = re.sub(r"^lib/[^/]+", lib, name)
            os.makedirs(os.path.dirname(os.path.join(prefix, here)), exist_ok=True)
            shutil.copy(os.path.join(usr, here), os.path.join(prefix, here))
        (native,) = glob.glob(os.path.join(inside, "cugrt", "_native.*.so"))
        os.remove(native)
        to = os.path.join(inside, "cugrt", os.path.basename(native).replace("x86_64", "aarch64"))
        self.compile_native(stage, programs, lib, to, ".abi3." in native)
        machine = re.search(r"(manylinux_\d+_\d+)_x86_64", wheel).group(1) + "_aarch64"
        packed = self.fresh("wheel-aarch64-packed")
        run(os.path.join(programs, "wheel"), "pack", "-d", packed, inside)
        (made,) = glob.glob(os.path.join(packed, "*.whl"))
        name = run(os.path.join(programs, "wheel"), "tags", "--platform-tag", machine, made).split()[-1]
        shutil.copy(os.path.join(packed, name), self.out)
        return os.path.join(self.out, name)

    def compile_native(self, stage, programs, lib, to, limited):
        """As src/fronts/python/meson.build does for this machine."""
        asked = "import nanobind, sysconfig as s"
        asked += "; print(nanobind.source_dir(), s.get_path('include'), s.get_config_h_filename(), sep='\\n')"
        bound, headers, config = run(os.path.join(programs, "python"), "-c", asked).splitlines()
        bound = os.path.dirname(bound)
        # Python's own, with the facts of a 64-bit little-endian Linux beside them.
        include = self.fresh("python-include")
        shutil.copytree(headers, include, dirs_exist_ok=True)
        shutil.copy(config, os.path.join(include, "pyconfig.h"))
        usr = os.path.join(stage, "usr")
        compiler = [
            "ccache",
            "aarch64-linux-gnu-g++",
            "-std=c++20",
            "-fPIC",
            "-fvisibility=hidden",
            "-ffunction-sections",
            "-fdata-sections",
            "-isystem",
            include,
            "-isystem",
            os.path.join(bound, "include"),
            "-I",
            os.path.join(usr, "include"),
        ]
        if limited:
            compiler.append("-DPy_LIMITED_API=0x030c0000")
        objects = []
        sources = sorted(glob.glob(os.path.join(self.root, "src", "fronts", "python", "native", "*.cpp")))
        for source in [os.path.join(bound, "src", "nb_combined.cpp"), *sources]:
            objects.append(os.path.join(include, os.path.basename(source) + ".o"))
            own = (
                ["-O2"]
                if source in sources
                else [
                    "-O3",
                    "-DNDEBUG",
                    "-DNB_COMPACT_ASSERTIONS",
                    "-fno-strict-aliasing",
                    "-isystem",
                    os.path.join(bound, "ext", "robin_map", "include"),
                    "-w",
                ]
            )
            run(*compiler, *own, "-c", source, "-o", objects[-1])
        libraries = [os.path.join(usr, lib, f"lib{name}.so") for name in ("cugrt", "cugrt-llm", "cugrt-onnx")]
        run(
            "aarch64-linux-gnu-g++",
            "-shared",
            *objects,
            *libraries,
            "-Wl,--gc-sections",
            "-Wl,--as-needed",
            "-Wl,-s",
            f"-Wl,-rpath,$ORIGIN/prefix/{lib}",
            f"-Wl,-rpath-link,{os.path.join(usr, lib)}",
            "-o",
            to,
        )


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--root", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--wheel-work", required=True)
    parser.add_argument("out")
    parser.add_argument("stages", nargs="+", metavar="MACHINE=STAGE")
    parser.add_argument("--python", nargs="+", required=True)
    options = parser.parse_args()
    maker = Maker(os.path.abspath(options.root), os.path.abspath(options.work), os.path.abspath(options.out))
    os.makedirs(maker.out, exist_ok=True)
    os.makedirs(maker.work, exist_ok=True)
    stages = dict(one.split("=", 1) for one in options.stages)
    programs_of = {}  # of each wheel of x86-64, those of the Python that made it
    for python in options.python:
        minor = int(run(python, "-c", "import sys; print(sys.version_info[1])"))
        tag = f"cp3{minor}-cp3{minor}" if minor < 12 else "cp312-abi3"
        wheels = sorted(glob.glob(os.path.join(maker.out, f"cugrt-{maker.version}-{tag}-*x86_64.whl")))
        if not wheels:
            sys.exit(f"{maker.out} has no wheel of x86-64 for {python}: ./dev wheel makes it")
        programs_of[wheels[-1]] = os.path.join(os.path.realpath(options.wheel_work), f"venv-3.{minor}", "bin")
    wheels_of = {"x86_64": list(programs_of)}
    if "aarch64" in stages:
        wheels_of["aarch64"] = [maker.aarch64_wheel(stages["aarch64"], *one) for one in programs_of.items()]
    for machine, stage in stages.items():
        maker.debian(machine, stage)
        maker.tarball(machine, stage)
        maker.python_debian(machine, wheels_of[machine])
    maker.source()
    for name in sorted(os.listdir(maker.out)):
        print(os.path.join(maker.out, name))


if __name__ == "__main__":
    main()
