#!/usr/bin/env python3
"""Packages of an installation as users have them: Debian's, unpacked together, and the tarball by CMake's FetchContent
and by a wrap of Meson's.

  check_packages.py BUILD_FOLDER ROOT

The wheels, and what is built for aarch64, take a build of their own: ./dev package.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, "packaging"))
import package  # noqa: E402


def run(*command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_python():
    """A native module is for one version of Python, or for 3.12 and every later one; apt is told which there are."""
    for tags, versions in {
        ("cp311-cp311",): "python3 (>= 3.11), python3 (<< 3.12)",
        ("cp311-cp311", "cp312-abi3"): "python3 (>= 3.11)",
        ("cp312-abi3", "cp310-cp310"): "python3 (>= 3.10), python3 (<< 3.11) | python3 (>= 3.12)",
    }.items():
        wheels = [f"out/cugrt-0.1.0-{tag}-manylinux_2_35_x86_64.whl" for tag in tags]
        assert package.python_versions(wheels) == versions, tags


def check_debian(out, work):
    """All packages in one folder are an installation: a program is built with it, and the tool runs."""
    names = sorted(os.path.basename(file).split("_")[0] for file in glob.glob(os.path.join(out, "*.deb")))
    assert names == ["cugrt", "libcugrt-core0", "libcugrt-dev"], names
    root = os.path.join(work, "root")
    for file in glob.glob(os.path.join(out, "*.deb")):
        fields = dict(
            line.split(": ", 1) for line in run("dpkg-deb", "-f", file).splitlines() if not line.startswith(" ")
        )
        assert fields["Architecture"] == "amd64" and fields["Version"] == package.version_of(ROOT), fields
        assert all(
            " ./usr/" in line or line.startswith("d") for line in run("dpkg-deb", "-c", file).splitlines()
        ), file
        run("dpkg-deb", "-x", file, root)
    core = glob.glob(os.path.join(out, "libcugrt-core0*.deb"))[0]
    inside = [line.split("./", 1)[1] for line in run("dpkg-deb", "-c", core).splitlines() if ".so" in line]
    assert len(inside) == 2 and all("libcugrt-core.so.0" in line for line in inside), inside
    assert "libcugrt-core0 (= " in run("dpkg-deb", "-f", glob.glob(os.path.join(out, "cugrt_*.deb"))[0], "Depends")
    (pkgconfig,) = glob.glob(os.path.join(root, "usr", "lib", "**", "pkgconfig"), recursive=True)
    flags = run("pkg-config", "--cflags", "--libs", "cugrt", PKG_CONFIG_PATH=pkgconfig).split()
    hello = os.path.join(work, "hello")
    run(
        os.environ.get("CXX", "g++"),
        "-std=c++20",
        os.path.join(ROOT, "examples", "packages", "hello.cpp"),
        *flags,
        "-o",
        hello,
    )
    library = os.path.dirname(pkgconfig)
    assert "relu" in run(hello, LD_LIBRARY_PATH=library)
    assert run(os.path.join(root, "usr", "bin", "cugrt"), "--version").startswith("cugrt " + package.version_of(ROOT))


def check_tarball(out, work):
    (tarball,) = glob.glob(os.path.join(out, "cugrt-*-linux-x86_64.tar.gz"))
    build = os.path.join(work, "cmake")
    run("cmake", "-G", "Ninja", "-S", os.path.join(ROOT, "examples", "packages", "cmake"), "-B", build,
        f"-DCUGRT_TARBALL={tarball}")
    run("cmake", "--build", build)
    assert "relu" in run(os.path.join(build, "hello"))
    # By a wrap, as a user has it: a copy of the example with the tarball in its place.
    example = os.path.join(work, "packages")
    shutil.copytree(os.path.join(ROOT, "examples", "packages"), example)
    place = os.path.join(example, "meson", "subprojects", "packagefiles")
    os.makedirs(place)
    shutil.copy(tarball, place)
    built = os.path.join(example, "meson", "build")
    run("meson", "setup", built, os.path.join(example, "meson"), "--wrap-mode=forcefallback")
    run("meson", "compile", "-C", built)
    assert "relu" in run(os.path.join(built, "hello"))


def main():
    with tempfile.TemporaryDirectory() as work:
        stage, out = os.path.join(work, "stage"), os.path.join(work, "out")
        os.makedirs(out)
        run("meson", "install", "-C", sys.argv[1], "--no-rebuild", "--quiet", "--destdir", stage)
        maker = package.Maker(ROOT, os.path.join(work, "made"), out)
        maker.compression, maker.level = "none", 1  # quick; how small they are is not asked here
        maker.debian("x86_64", stage)
        maker.tarball("x86_64", stage)
        check_python()
        check_debian(out, work)
        check_tarball(out, work)
        # Twice the same installation is twice the same bytes.
        again = os.path.join(work, "again")
        os.makedirs(again)
        maker.out = again
        maker.debian("x86_64", stage)
        for file in sorted(os.listdir(again)):
            with open(os.path.join(again, file), "rb") as one, open(os.path.join(out, file), "rb") as other:
                assert one.read() == other.read(), file
        # What no package has is not left behind in silence.
        os.makedirs(os.path.join(stage, "usr", "etc"))
        open(os.path.join(stage, "usr", "etc", "stray"), "w", encoding="utf-8").close()
        try:
            maker.debian("x86_64", stage)
        except SystemExit as refused:
            assert "etc/stray" in str(refused), refused
        else:
            raise AssertionError("a file that no package has was left behind")
    print("three Debian packages and a tarball, 0 problems")


if __name__ == "__main__":
    main()
