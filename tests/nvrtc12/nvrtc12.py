#!/usr/bin/env python3
"""The library's kernels with NVRTC 12, the oldest major version that drivers in use may need.

  nvrtc12.py --cugrt PROGRAM --kernels PROGRAM [--nvrtc LIBRARY]

Every source of kernels/ that ops name is compiled for every architecture that this version knows, those
that it does not know give the error that says so, and kernels compiled by it give the results that the
reference has, on the emulated device's execution core. Each check is one test.

Needs NVRTC 12.2 in .deps/nvrtc/12.2, which `./dev test nvrtc12` installs.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NVRTC = os.path.join(ROOT, ".deps", "nvrtc", "12.2", "nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12")
MODULE = os.path.join(HERE, "kernels.cugrt")
MODULES = [MODULE, *sorted(glob.glob(os.path.join(ROOT, "tests", "ptxas", "*.cugrt")))]
DIGITS, WEIGHTS = (os.path.join(ROOT, "examples", "digits", name) for name in ("digits.cugrt", "weights.safetensors"))
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90"]
TOO_NEW = ["sm_100", "sm_110", "sm_120"]
# Sources that no op of a module names: the runtime compiles them for itself (transfer, control),
# passes make launches of them, or language models do. The suite ptxas compiles all of their forms.
NOT_NAMED = {"matmul_repacked.cu", "repack_blocks.cu", "transfer.cu", "control.cu", "resize.cu",
             "conv2d_last.cu", "conv_integer_last.cu", "decode_words.cu", "draft.cu", "prompt.cu", "sample.cu",
             "verify.cu"}
# Of the suite on kernels, what has every family of instructions: tensor cores, shuffles, shared
# memory, atomics, conversions.
CASES = "*matmul*,*softmax*,*norm*,*conv2d*,*reduc*"


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, holds, output=""):
        self.passed += bool(holds)
        self.failed += not holds
        if not holds:
            print(f"failed: {what}")
            print("  " + "\n  ".join(output.strip().splitlines()[-20:]))


def run(command, environment):
    made = subprocess.run(command, capture_output=True, text=True, env=environment)
    return made.returncode, made.stdout + made.stderr


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--cugrt", required=True)
    parser.add_argument("--kernels", required=True, help="the suite on kernels")
    parser.add_argument("--nvrtc", default=NVRTC)
    options = parser.parse_args()
    if not os.path.exists(options.nvrtc):
        print(f"there is no {options.nvrtc}: ./dev test nvrtc12 makes it")
        return 1
    environment = dict(os.environ, CUGRT_NVRTC=options.nvrtc, CUGRT_CACHE="off")
    checks = Checks()

    status, said = run([options.cugrt, "doctor"], environment)
    checks.check("doctor finds NVRTC 12", options.nvrtc in said, said)
    checks.check("doctor tells its version and newest architecture",
                 re.search(r"version +12\.2\n", said) and re.search(r"compiles up to +sm_90\n", said), said)

    named = set()
    for module in MODULES:
        status, text = run([options.cugrt, "opt", module, "--pass", "LegalizeOps"], environment)
        checks.check(f"{os.path.basename(module)} has kernels", status == 0, text)
        named |= set(re.findall(r"builtin:(\w+\.cu)\b", text))
    sources = {os.path.basename(p) for p in glob.glob(os.path.join(ROOT, "kernels", "*", "*.cu"))}
    missing = sources - named - NOT_NAMED
    checks.check("the modules name every source", not missing, f"not named: {sorted(missing)}")

    with tempfile.TemporaryDirectory() as folder:
        pack = os.path.join(folder, "kernels.pack")
        for architecture in ARCHITECTURES:
            # As the module has them, one kernel an op; and fused.
            for module in MODULES:
                status, said = run([options.cugrt, "compile", module, "--arch", architecture, "-o",
                                    pack, "--option", "fuse.ops=false"], environment)
                checks.check(f"every kernel of {os.path.basename(module)} compiles for {architecture}",
                             status == 0, said)
        for architecture in TOO_NEW:
            status, said = run([options.cugrt, "compile", MODULE, "--arch", architecture, "-o",
                                pack], environment)
            checks.check(f"{architecture} is an error that names it and the version",
                         status != 0 and architecture[3:] in said and "NVRTC 12.2" in said, said)

    for device in TOO_NEW:
        status, said = run([options.cugrt, "run", DIGITS, "--set", "n=2", "--input", "images=random", "--weights", WEIGHTS,
                            "--driver", "emulated"], dict(environment, CUGRT_EMU_DEVICE=device))
        checks.check(f"a device of {device} gets PTX of sm_90", status == 0, said)

    status, said = run([options.kernels, CASES], environment)
    checks.check("kernels give the reference's results", status == 0, said)
    print(f"{checks.passed} passed, {checks.failed} failed, 0 skipped")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
