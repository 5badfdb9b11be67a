#!/usr/bin/env python3
"""Checks an installation as a user meets it: programs outside the tree find, link and start it.

  check_install.py BUILD_FOLDER

Installs below a fresh folder, moves that folder, and builds a C99 and a C++20 program with
pkg-config alone, then both with CMake. Likewise for the library for devices: a program that finds out
what its table lacks, and examples/device/ with a pack that the installed tool makes. CC and CXX name
other compilers than gcc and g++.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

USERS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "installed")
DEVICE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(USERS))), "examples", "device")
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
EXPECTED_FILES = ["include/cugrt/cugrt.h", "include/cugrt/cugrt.hpp", "bin/cugrt", "libexec/cugrt/cugrt-compile",
                  "**/libcugrt.so", "**/libcugrt-core.so", "**/cugrt-core.pc",
                  "**/libcugrt-llm.so", "**/cugrt-llm.pc",
                  "**/libcugrt-onnx.so", "**/cugrt-onnx.pc", "include/cugrt/onnx.h",
                  "**/libcugrt-emu.so", "**/cugrt.pc", "**/cugrt-config.cmake",
                  "**/cugrt-config-version.cmake",
                  "**/cugrt-emu/libcuda.so.1", "**/cugrt-emu/libnvidia-ml.so.1",
                  "**/cugrt-emu/libcupti.so.13", "**/cugrt-emu/libcugrt-emu.so"]


class Failure(Exception):
    pass


def run(*command, **environment):
    """Standard output; a failure shows what the command said."""
    done = subprocess.run(command, env={**os.environ, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def find(prefix, pattern):
    found = glob.glob(os.path.join(prefix, pattern), recursive=True)
    if not found:
        raise Failure(f"nothing installed matches {pattern}")
    return found[0]


def expect_message(program, library_folder):
    """Both programs print the library's own error for a text that is no module."""
    message = run(program, LD_LIBRARY_PATH=library_folder)
    if len(message.strip()) < 10:
        raise Failure(f"{program} printed no message: {message!r}")


def expect_import(program, library_folder, out):
    """The program finds the importer of ONNX files beside the library."""
    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    def of_four_floats(name):
        shape = field(2, field(1, b"\x08\x04"))
        return field(1, name) + field(2, field(1, b"\x08\x01" + shape))
    graph = (field(1, field(1, b"x") + field(2, b"y") + field(4, b"Relu")) + field(11, of_four_floats(b"x"))
             + field(12, of_four_floats(b"y")))
    model = os.path.join(out, "relu.onnx")
    with open(model, "wb") as file:
        file.write(b"\x08\x08" + field(8, b"\x10\x11") + field(7, graph))
    said = run(program, model, LD_LIBRARY_PATH=library_folder)
    if "relu(%x)" not in said:
        raise Failure(f"{program} loaded no ONNX model: {said!r}")


def flags_of(package, prefix, sysroot):
    search = {"PKG_CONFIG_PATH": os.path.dirname(find(prefix, f"**/{package}.pc"))}
    if sysroot:
        search["PKG_CONFIG_SYSROOT_DIR"] = sysroot
    return run("pkg-config", "--cflags", "--libs", package, **search).split()


def compiler_of(variable, usual):
    return os.environ.get(variable, usual).split()


def check_pkg_config(prefix, out, sysroot):
    library_folder = os.path.dirname(find(prefix, "**/libcugrt.so"))
    flags = flags_of("cugrt", prefix, sysroot)
    for compiler, name in (([*compiler_of("CC", "gcc"), "-std=c99"], "user.c"),
                           ([*compiler_of("CXX", "g++"), "-std=c++20"], "user.cpp")):
        program = os.path.join(out, name.replace(".", "_"))
        run(*compiler, *STRICT, os.path.join(USERS, name), "-o", program, *flags)
        expect_message(program, library_folder)
    expect_import(program, library_folder, out)


def check_device(prefix, out, sysroot):
    """A device's program: linked with libcugrt-core.so, started where there is nothing but that and a driver."""
    flags = flags_of("cugrt-core", prefix, sysroot)
    alone = os.path.join(out, "alone")
    os.makedirs(alone, exist_ok=True)
    for library in [*glob.glob(os.path.join(prefix, "**/libcugrt-core.so*"), recursive=True),
                    find(prefix, "**/libcugrt-emu.so")]:
        shutil.copy(library, alone)
    programs = {}
    for name, source in (("core", os.path.join(USERS, "core.c")), ("motion", os.path.join(DEVICE, "motion.c"))):
        programs[name] = os.path.join(out, name)
        run(*compiler_of("CC", "gcc"), "-std=c99", *STRICT, source, "-o", programs[name], *flags)
    here = {"LD_LIBRARY_PATH": alone, "CUGRT_DRIVER": "emulated"}
    run(programs["core"], **here)
    pack = os.path.join(out, "motion.pack")
    run(os.path.join(prefix, "bin", "cugrt"), "compile", "--arch", "compute_75",
        os.path.join(DEVICE, "motion.cugrt"), "-o", pack, CUGRT_DRIVER="emulated")
    said = run(programs["motion"], pack, **here)
    # Frames before the 40th show one picture, those from it on a square that wanders.
    if "frame 40: something moves" not in said or "60 frames, graphs built 1, reused 59" not in said:
        raise Failure(f"motion saw something else: {said!r}")
    broken = subprocess.run([programs["motion"], programs["motion"]], env={**os.environ, **here}, text=True,
                            capture_output=True)
    if broken.returncode != 1 or "does not begin as a pack" not in broken.stderr:
        raise Failure(f"motion shows no error of a broken pack: {broken.stderr!r}")


def machine_of(path):
    """The field of an ELF file that names the processor it is for."""
    with open(os.path.realpath(path), "rb") as file:
        return file.read(20)[18:]


def check_emulate(prefix):
    """A program of another's finds the emulated driver under the real one's name. The program is Python, which
    loads no library for another machine."""
    if machine_of(os.path.join(prefix, "bin", "cugrt")) != machine_of(sys.executable):
        return
    program = ("import ctypes; d = ctypes.CDLL('libcuda.so.1'); name = ctypes.create_string_buffer(99);"
               "assert d.cuInit(0) == 0 and d.cuDeviceGetName(name, 99, 0) == 0; print(name.value)")
    output = run(os.path.join(prefix, "bin", "cugrt"), "emulate", sys.executable, "-c", program)
    if "EMULATED" not in output:
        raise Failure(f"cugrt emulate gave the program another driver: {output!r}")


def check_cmake(prefix, out):
    run("cmake", "-G", "Ninja", "-S", USERS, "-B", out, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", out)
    library_folder = os.path.dirname(find(prefix, "**/libcugrt.so"))
    for name in ("user_c", "user_cpp"):
        expect_message(os.path.join(out, name), library_folder)
    run(os.path.join(out, "core"), LD_LIBRARY_PATH=library_folder)


def main():
    build = sys.argv[1]
    with tempfile.TemporaryDirectory() as work:
        staged, moved = os.path.join(work, "staged"), os.path.join(work, "moved", "elsewhere")
        run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", staged)
        try:
            for pattern in EXPECTED_FILES:
                find(os.path.join(staged, "usr"), pattern)
            check_pkg_config(os.path.join(staged, "usr"), work, sysroot=staged)
            check_device(os.path.join(staged, "usr"), work, sysroot=staged)
            os.mkdir(os.path.dirname(moved))
            os.rename(os.path.join(staged, "usr"), moved)
            check_pkg_config(moved, work, sysroot=None)
            check_emulate(moved)
            check_cmake(moved, os.path.join(work, "cmake"))
        except Failure as failure:
            print(failure)
            return 1
    print("C99 and C++20 programs link and start, installed and moved")
    return 0


if __name__ == "__main__":
    sys.exit(main())
