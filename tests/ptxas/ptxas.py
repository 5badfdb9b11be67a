#!/usr/bin/env python3
"""Kernels as machine code: every form (forms.py), architecture and NVRTC version is one test.

  ptxas.py --cugrt PROGRAM [--nvrtc LIBRARY]... [--arch sm_90,sm_87] [--only TEXT] [--jobs N]

Each must compile, spill nothing, and fit at the block sizes that it is launched with into what limits.csv
gives a block of its architecture. Architectures are those of src/base/architectures.def that the NVRTC knows;
NVRTCs are those of .deps/nvrtc, which `./dev test ptxas` installs, the oldest supported one first, and the one
that the build has found. --only: forms whose kernel, source or options hold TEXT.
"""
import argparse
import concurrent.futures
import csv
import ctypes
import functools
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import forms  # noqa: E402

ROOT = forms.ROOT
INSTALLED = os.path.join(ROOT, ".deps", "nvrtc")
# Codegen asks devices for this (kTensorCoresSince), and for the shared memory of a multiprocessor.
TENSOR_CORES_SINCE = 80
# Sources that no module names, since the runtime makes launches of them itself: threads of a block by entry.
LAUNCHED_BY_THE_RUNTIME = {"transfer.cu": {"transfer_copy": 256, "transfer_fill": 256},
                           "control.cu": {"control_set": 1, "control_nothing": 1}}
# Before it NVRTC does not know what sets conditions, and only the driver can link control.cu: no machine code here.
CONDITIONS_SINCE = (12, 3)
# Beside a library: in a toolkit, in the wheels of CUDA 13, in those of CUDA 12.
INCLUDES = ("../include", "../../include", "../../cuda_runtime/include")


def found_nvrtc():
    made = subprocess.run([sys.executable, os.path.join(ROOT, "src", "device", "driver", "find_cuda.py"), "--nvrtc"],
                          capture_output=True, text=True)
    return made.stdout.strip()


def installed_nvrtcs():
    """A version is one only if what brought it was installed to its end."""
    return [found for note in sorted(forms.glob.glob(os.path.join(INSTALLED, "*", "installed")))
            for found in forms.glob.glob(os.path.join(os.path.dirname(note), "nvidia", "*", "lib", "libnvrtc.so.1?"))]


@functools.lru_cache(None)
def kernel_file(name):
    with open(forms.glob.glob(os.path.join(ROOT, "kernels", "*", name))[0], encoding="utf-8") as file:
        return file.read()


@functools.lru_cache(None)
def includes():
    """Names and texts of the library's own includes, which have two names each and so guards of their own."""
    names, texts = [], []
    for path in forms.glob.glob(os.path.join(ROOT, "kernels", "*", "*.cu*")):
        name = os.path.basename(path)
        text = kernel_file(name)
        if name.endswith(".cuh"):
            guard = "INCLUDED_" + name.replace(".", "_")
            text = f"#ifndef {guard}\n#define {guard}\n" + text.replace("#pragma once", "") + "\n#endif\n"
        for given in (os.path.relpath(path, os.path.join(ROOT, "kernels")), "builtin:" + name):
            names.append(given.encode())
            texts.append(text.encode())
    many = ctypes.c_char_p * len(names)
    return len(names), many(*texts), many(*names)


class Nvrtc:
    """One version, loaded into this process."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        folder = os.path.dirname(os.path.realpath(path))
        self.include = next(os.path.join(folder, i) for i in INCLUDES
                            if os.path.exists(os.path.join(folder, i, "cuda_fp16.h")))
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.number = (major.value, minor.value)
        self.version = f"{major.value}.{minor.value}"
        self.library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self.library.nvrtcGetSupportedArchs(numbers)
        self.architectures = set(numbers)

    def compile(self, text, options):
        """Whether it compiles, and the log, in which ptxas says what each entry takes."""
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", *includes())
        given = [o.encode() for o in (*options, "--include-path=" + self.include, "--ptxas-options=--verbose")]
        status = self.library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.library.nvrtcGetProgramLog(program, log)
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return status == 0, log.value.decode(errors="replace")


loaded = None


def load(path):
    global loaded
    loaded = Nvrtc(path)


def facts(log):
    """By entry: spilled bytes, registers, static shared bytes."""
    entries = {}
    for part in log.split("Compiling entry function '")[1:]:
        name = part[:part.index("'")]
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill", part)]
        used, shared = re.search(r"Used (\d+) registers", part), re.search(r"(\d+) bytes smem", part)
        if used:
            entries[name] = (sum(spills), int(used[1]), int(shared[1]) if shared else 0)
    return entries


def problem(entry, launches, limits):
    """What an entry breaks; empty where it fits."""
    spilled, registers, shared = entry
    if spilled:
        return f"{spilled} bytes are spilled"
    if registers > limits["registers_a_thread"]:
        return f"{registers} registers a thread"
    if shared > limits["static_shared_bytes"]:
        return f"{shared} bytes of static shared memory"
    for threads, dynamic in launches:
        warps = (threads + 31) // 32
        taken = warps * 32 * ((registers + 7) // 8 * 8)  # a warp gets registers in eights a thread
        if threads > limits["threads"] or taken > limits["registers"]:
            return f"{registers} registers for each of {threads} threads"
        if shared + dynamic > limits["shared_bytes"]:
            return f"{shared} + {dynamic} bytes of shared memory"
    return ""


def check(form, architecture, limits):
    """(case, what is wrong) for every entry that is launched."""
    text = form.source or kernel_file(form.name.removeprefix("builtin:"))
    if form.name == "builtin:control.cu" and loaded.number < CONDITIONS_SINCE:
        compiles, log = loaded.compile(text, [f"--gpu-architecture=compute_{architecture}"])
        yield f"{form.kernel} compute_{architecture} NVRTC {loaded.version}", "" if compiles else log.strip()[:600]
        return
    compiles, log = loaded.compile(text, [*form.options, f"--gpu-architecture=sm_{architecture}"])
    entries = facts(log)
    for entry, launches in sorted(form.blocks.items()):
        case = f"{form.kernel} {entry} sm_{architecture} NVRTC {loaded.version}"
        if not compiles:
            yield case, "does not compile: " + log.strip()[:600]
        elif entry not in entries:
            yield case, "is not in the machine code"
        else:
            yield case, problem(entries[entry], launches, limits)


def check_some(chunk, architecture, limits):
    return [result for form in chunk for result in check(form, architecture, limits)]


def limits_by_architecture():
    with open(os.path.join(ROOT, "tests", "ptxas", "limits.csv"), newline="", encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {int(row["architecture"]): {key: int(value) for key, value in row.items()} for row in rows}


def known_architectures():
    with open(os.path.join(ROOT, "src", "base", "architectures.def"), encoding="utf-8") as file:
        return [int(number) for number in re.findall(r"^CUGRT_ARCHITECTURE\((\d+),", file.read(), re.M)]


def check_the_check():
    """Each rule refuses what it must, and no more."""
    limits = limits_by_architecture()[90]
    log = ("ptxas info    : Compiling entry function 'k' for 'sm_90'\nptxas info    : Function properties for k\n"
           "    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
           "ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem\n")
    assert facts(log) == {"k": (12, 40, 512)}
    fits, broken = [((0, 64, 49152), [(1024, 183296)])], [
        ((4, 40, 0), [(32, 0)]), ((0, 256, 0), [(32, 0)]), ((0, 65, 0), [(1024, 0)]), ((0, 40, 49153), [(32, 0)]),
        ((0, 40, 49152), [(32, 183297)]), ((0, 16, 0), [(1056, 0)])]
    assert not any(problem(*one, limits) for one in fits) and all(problem(*one, limits) for one in broken)


def main():
    check_the_check()
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--cugrt", required=True)
    parser.add_argument("--nvrtc", action="append")
    parser.add_argument("--arch")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    libraries = options.nvrtc or [*installed_nvrtcs(), found_nvrtc()]
    missing = [path for path in libraries if not os.path.exists(path)]
    if missing or not options.nvrtc and len(libraries) == 1:
        print(f"no NVRTC at {missing or INSTALLED}: ./dev test ptxas installs those there, ./dev build finds the other")
        return 1
    wanted = {int(a.removeprefix("sm_")) for a in options.arch.split(",")} if options.arch else None
    limits, known = limits_by_architecture(), known_architectures()
    chosen, modules = {}, 0  # forms by architecture
    for number in known:
        first = first_alike(number, known, limits)
        if first not in chosen:
            chosen[first], modules = forms.find_forms(options.cugrt, options.jobs, first)
        chosen[number] = chosen[first]
    found = chosen[first_alike(max(chosen), known, limits)]
    absent = {os.path.basename(p) for p in forms.glob.glob(os.path.join(ROOT, "kernels", "*", "*.cu"))} - set(LAUNCHED_BY_THE_RUNTIME) - {
        name.removeprefix("builtin:") for form in found for name in [form.name] + re.findall(r"builtin:\w+\.cu\b", form.source)}
    results = [(f"{name} in some form", "no module has it") for name in sorted(absent)]
    results += [(f"sm_{number} in limits.csv", "") if number in limits else (f"sm_{number}", "is not in limits.csv")
                for number in known]
    own = [runtime_form(name, entries) for name, entries in LAUNCHED_BY_THE_RUNTIME.items()]
    chosen = {number: [form for form in some + own if options.only in " ".join((form.kernel, form.name, *form.options))]
              for number, some in chosen.items()}
    print(f"{len(chosen[max(chosen)])} forms of {modules} modules, {len(chosen[min(chosen)])} before sm_{TENSOR_CORES_SINCE}")
    tell_failures(results)
    for library in libraries:
        with concurrent.futures.ProcessPoolExecutor(options.jobs, initializer=load, initargs=(library,)) as pool:
            able = pool.submit(own_architectures).result()
            jobs = [pool.submit(check_some, chosen[number][at:at + 8], number, limits[number]) for number in known
                    if number in able and number in limits and (not wanted or number in wanted)
                    for at in range(0, len(chosen[number]), 8)]
            for job in jobs:
                tell_failures(job.result())
                results += job.result()
    failed = sum(bool(what) for _, what in results)
    print(f"{len(results) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def first_alike(architecture, known, limits):
    """The first architecture that codegen chooses forms for as for this one."""
    def asked(number):
        return limits.get(number, {}).get("shared_bytes") if number >= TENSOR_CORES_SINCE else 0
    return next(number for number in sorted(known) if asked(number) == asked(architecture))


def runtime_form(name, entries):
    launches = "".join(f'  launch {{ entry "{entry}", block ({threads}) }}\n' for entry, threads in entries.items())
    return forms.Form(name.removesuffix(".cu"), f'  source "builtin:{name}"\n{launches}')


def tell_failures(results):
    for case, what in results:
        if what:
            print(f"failed: {case}: {what}", flush=True)


def own_architectures():
    return loaded.architectures


if __name__ == "__main__":
    sys.exit(main())
