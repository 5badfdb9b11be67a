"""The command `cugrt`: the tool inside of the package, run in the place of this process."""
import os
import sys

from ._sources import nvrtc as find_nvrtc


def main():
    prefix = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prefix")
    if "emulate" in sys.argv[1:2]:
        link_driver(prefix)
    if nvrtc := find_nvrtc():
        os.environ["CUGRT_NVRTC"] = nvrtc
    tool = os.path.join(prefix, "bin", "cugrt")
    os.execv(tool, [tool, *sys.argv[1:]])


def link_driver(prefix):
    """`cugrt emulate` wants the emulated driver under the name that programs open. A wheel holds no links."""
    for folder, _, files in os.walk(os.path.join(prefix, "lib")):
        if "libcugrt-emu.so" not in files or os.path.basename(folder) == "cugrt-emu":
            continue
        links = os.path.join(folder, "cugrt-emu")
        try:
            os.makedirs(links, exist_ok=True)
            for name, target in (("libcuda.so.1", "../libcugrt-emu.so"), ("libcuda.so", "libcuda.so.1"),
                                 ("libnvidia-ml.so.1", "../libcugrt-emu.so"),
                                 ("libcugrt-emu.so", "../libcugrt-emu.so")):
                if not os.path.lexists(os.path.join(links, name)):
                    os.symlink(target, os.path.join(links, name))
        except OSError:
            pass  # the tool says what is missing
