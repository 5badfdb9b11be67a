#!/usr/bin/env python3
"""Checks an installation as a user meets it: programs outside the tree find, link and start it.

  check_install.py BUILD_FOLDER

Installs below a fresh folder, moves that folder, and builds a C99 and a C++20 program with
pkg-config alone, then both with CMake. CC and CXX name other compilers than gcc and g++.
"""
import glob
import os
import subprocess
import sys
import tempfile

USERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "installed")
EXPECTED_FILES = ["include/cugrt/cugrt.h", "include/cugrt/cugrt.hpp", "bin/cugrt", "libexec/cugrt/cugrt-compile",
                  "**/libcugrt.so",
                  "**/libcugrt-emu.so", "**/cugrt.pc", "**/cugrt-config.cmake",
                  "**/cugrt-config-version.cmake",
                  "**/cugrt-emu/libcuda.so.1", "**/cugrt-emu/libcugrt-emu.so"]


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


def check_pkg_config(prefix, out, sysroot):
    library_folder = os.path.dirname(find(prefix, "**/libcugrt.so"))
    search = {"PKG_CONFIG_PATH": os.path.dirname(find(prefix, "**/cugrt.pc"))}
    if sysroot:
        search["PKG_CONFIG_SYSROOT_DIR"] = sysroot
    flags = run("pkg-config", "--cflags", "--libs", "cugrt", **search).split()
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    c, cpp = (os.environ.get(variable, usual).split() for variable, usual in (("CC", "gcc"), ("CXX", "g++")))
    for compiler, name in (([*c, "-std=c99"], "user.c"), ([*cpp, "-std=c++20"], "user.cpp")):
        program = os.path.join(out, name.replace(".", "_"))
        run(*compiler, *strict, os.path.join(USERS, name), "-o", program, *flags)
        expect_message(program, library_folder)


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
    for name in ("user_c", "user_cpp"):
        expect_message(os.path.join(out, name), os.path.dirname(find(prefix, "**/libcugrt.so")))


def main():
    build = sys.argv[1]
    with tempfile.TemporaryDirectory() as work:
        staged, moved = os.path.join(work, "staged"), os.path.join(work, "moved", "elsewhere")
        run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", staged)
        try:
            for pattern in EXPECTED_FILES:
                find(os.path.join(staged, "usr"), pattern)
            check_pkg_config(os.path.join(staged, "usr"), work, sysroot=staged)
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
