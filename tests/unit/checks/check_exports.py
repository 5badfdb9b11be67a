#!/usr/bin/env python3
"""Checks what the shared libraries export and what they are linked with.

  check_exports.py BUILD_FOLDER

libcugrt.so and libcugrt-core.so export names that begin with cugrt, libcugrt-llm.so one name, libcugrt-emu.so the driver's,
cu[A-Z]..., nvml[A-Z]... and cupti[A-Z]..., and no more: hosts link an LLVM and a C++ library of their own. The driver, NVRTC and cudart
are opened at run time, LLVM is inside, so none of them may be needed. libcugrt-core.so, the library for
devices, is held to more: what it needs, what it must not hold, its size; and on aarch64 the versions of
symbols that JetPack 6 has.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

EXPORTS = {
    "cugrt": (re.compile(r"cugrt\w*$"), "cugrt_get_api"),
    "cugrt-core": (re.compile(r"cugrt_get_api$"), "cugrt_get_api"),
    "cugrt-llm": (re.compile(r"cugrt_llm_get_api$"), "cugrt_llm_get_api"),
    "cugrt-onnx": (re.compile(r"cugrt_onnx_\w+$"), "cugrt_onnx_import"),
    "cugrt-emu": (re.compile(r"(cu|nvml|cupti)[A-Z]\w*$"), "cuGraphInstantiate_v2"),
}
LINKER_NAMES = {"_init", "_fini"}
NOT_NEEDED = re.compile(r"cuda|nvrtc|LLVM|protobuf|libz3|libxml2|libicu", re.IGNORECASE)


CORE_NEEDS = re.compile(r"(lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)|ld-linux.*)\.so\.\d+$")
CORE_LACKS = (b"4llvm", b"nvrtcCompile", b"8nlohmann", b"3CLI", b"libLLVM")
CORE_BYTES = 1_140_000
SANITIZED = re.compile(r"__(asan|tsan|ubsan|sanitizer)_")
JETPACK_6 = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30)}


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported_names(nm_output):
    """Names of `nm -D --defined-only`, without symbol versions and version nodes (type A)."""
    rows = (line.split() for line in nm_output.splitlines())
    return {row[-1].split("@")[0] for row in rows if len(row) >= 2 and row[-2] != "A"}


def needed_libraries(readelf_output):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", readelf_output)


def problems_in(library, names, needed):
    pattern, required = EXPORTS[library]
    foreign = sorted(name for name in names - LINKER_NAMES if not pattern.match(name))
    found = [f"lib{library}.so exports {len(foreign)} foreign names: {' '.join(foreign[:5])}"] \
        if foreign else []
    if required not in names:
        found.append(f"lib{library}.so does not export {required}")
    found += [f"lib{library}.so needs {name}" for name in needed if NOT_NEEDED.search(name)]
    return found


def versions_beyond(newest, symbols):
    """Symbol versions, of `readelf --dyn-syms`, above what `newest` allows of each kind."""
    beyond = set()
    for kind, version in re.findall(r"@@?(\w+?)_([\d.]+)", symbols):
        if kind in newest and tuple(map(int, version.split("."))) > newest[kind]:
            beyond.add(f"{kind}_{version}")
    return sorted(beyond)


def core_problems(needed, symbols, header, content):
    """`content`: the stripped file's bytes."""
    if SANITIZED.search(symbols):
        return []
    found = [f"libcugrt-core.so needs {name}" for name in needed if not CORE_NEEDS.match(name)]
    found += [f"libcugrt-core.so holds '{name.decode()}'" for name in CORE_LACKS if name in content]
    if len(content) > CORE_BYTES:
        found.append(f"libcugrt-core.so has {len(content)} bytes, at most {CORE_BYTES} are allowed")
    if "AArch64" in header:
        found += [f"libcugrt-core.so wants {version}, which JetPack 6 does not have"
                  for version in versions_beyond(JETPACK_6, symbols)]
    return found


def check_core(path):
    with tempfile.NamedTemporaryFile() as stripped:
        subprocess.run([*os.environ.get("STRIP", "strip").split(), "-o", stripped.name, path], check=True)
        return core_problems(needed_libraries(output_of("readelf", "-d", path)),
                             output_of("readelf", "--dyn-syms", "-W", path),
                             output_of("readelf", "-h", path), stripped.read())


def check_the_check():
    names = exported_names("0000 T cugrt_get_api@@CUGRT_1\n0000 A CUGRT_1\n0 W _ZN4llvm5TwineE\n")
    assert names == {"cugrt_get_api", "_ZN4llvm5TwineE"}, names
    needed = needed_libraries(" 0x1 (NEEDED)  Shared library: [libcuda.so.1]\n 0x0 (SONAME) [x]\n")
    assert needed == ["libcuda.so.1"], needed
    assert len(problems_in("cugrt", names, needed)) == 2
    assert not problems_in("cugrt-emu", {"cuInit", "cuGraphInstantiate_v2"}, ["libc.so.6"])
    symbols = "1: 0 FUNC GLOBAL UND a@GLIBC_2.36 (2)\n 2: 0 FUNC GLOBAL UND b@GLIBCXX_3.4.9 (3)\n"
    assert versions_beyond(JETPACK_6, symbols) == ["GLIBC_2.36"]
    libraries = ["libc.so.6", "libstdc++.so.6", "ld-linux-aarch64.so.1"]
    assert not core_problems(libraries, symbols, "Machine: X86-64", b"")
    assert len(core_problems(libraries, symbols, "Machine: AArch64", b"")) == 1
    assert len(core_problems([*libraries, "libz.so.1"], "", "", b"_ZN4llvm5TwineE" + bytes(CORE_BYTES))) == 3


def shared_libraries(build):
    """The product's shared libraries by name; those of tests and benches are not held to the rules."""
    with open(os.path.join(build, "meson-info", "intro-targets.json")) as file:
        return {target["name"]: target["filename"][0] for target in json.load(file)
                if target["type"] == "shared library"
                and not re.search("/(tests|bench)/", target["defined_in"])}


def main():
    check_the_check()
    libraries = shared_libraries(sys.argv[1])
    found = [f"lib{name}.so: a shared library that check_exports.py has no rule for"
             for name in sorted(set(libraries) - set(EXPORTS))]
    for name in EXPORTS:
        if name in libraries:
            found += problems_in(name, exported_names(output_of("nm", "-D", "--defined-only", libraries[name])),
                                 needed_libraries(output_of("readelf", "-d", libraries[name])))
    if "cugrt-core" in libraries:
        found += check_core(libraries["cugrt-core"])
    found += [f"no target declares lib{name}.so" for name in EXPORTS if name not in libraries]
    if found:
        print("\n".join(found))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
