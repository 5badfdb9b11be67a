#!/usr/bin/env python3
"""Writes entry_points.def: every function that cuda.h declares, with the version of its ABI.

  generate_entry_points.py INCLUDE_FOLDER [OLD_DEF] > entry_points.def

cuda.h, preprocessed with the toolkit's internal-versions macro, declares every ABI of every function under
the name that the library exports. cudaTypedefs.h names the CUDA version that introduced each of them
(PFN_cuMemAlloc_v3020). The two are joined by base name: the ABI suffixes in ascending order belong to
the versions in ascending order. Rows keep the kind (IMPLEMENTED or MISSING) that OLD_DEF gives them;
new rows are MISSING.
"""
import re
import subprocess
import sys

HEADER = """\
// Every function that cuda.h of CUDA 13.0 declares, one row for each ABI; written by
// generate_entry_points.py. This table makes the exports, cuGetProcAddress and the list in
// docs/emulator.md; change a row's kind by hand when a function gets its implementation.
//
//   IMPLEMENTED(base name, exported symbol, CUDA version that introduced this ABI, stream variant)
//   MISSING(...)  answers CUDA_ERROR_NOT_SUPPORTED
//
// The stream variant: any, or per_thread for the _ptsz and _ptds forms.
"""
# Declared by cudaProfiler.h, and base names whose meaning moved to another function.
EXTRA = [("cuProfilerInitialize", "cuProfilerInitialize", 4000, "any"),
         ("cuProfilerStart", "cuProfilerStart", 4000, "any"),
         ("cuProfilerStop", "cuProfilerStop", 4000, "any"),
         ("cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000, "any")]


def declared(include):
    source = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
    text = subprocess.run(["cc", "-E", "-P", "-I", include, "-"], input=source, text=True,
                          capture_output=True, check=True).stdout
    return sorted(set(re.findall(r"\b(cu[A-Z]\w*)\s*\(", text)))


def split(symbol):
    match = re.fullmatch(r"(\w+?)(?:_v(\d+))?(_pts[z]|_ptds)?", symbol)
    return match[1], "per_thread" if match[3] else "any", int(match[2] or 1)


def main():
    include = sys.argv[1]
    kinds = {}
    if len(sys.argv) > 2:
        with open(sys.argv[2]) as old:
            for kind, symbol in re.findall(r"^(\w+)\(\w+, (\w+),", old.read(), re.M):
                kinds[symbol] = kind
    with open(include + "/cudaTypedefs.h") as typedefs:
        versions = {}
        for base, version, variant in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_pts[z]|_ptds)?\)", typedefs.read()):
            versions.setdefault((base, "per_thread" if variant else "any"), set()).add(int(version))
    groups = {}
    for symbol in declared(include):
        base, variant, abi = split(symbol)
        groups.setdefault((base, variant), []).append((abi, symbol))
    rows = list(EXTRA)
    for key, symbols in groups.items():
        known = sorted(versions.get(key, ()))
        if len(known) != len(symbols):
            sys.exit(f"{key}: {len(symbols)} declarations, {len(known)} versions")
        rows += [(key[0], symbol, version, key[1]) for (_, symbol), version in zip(sorted(symbols), known)]
    print(HEADER)
    for base, symbol, version, variant in sorted(rows, key=lambda r: (r[0], r[2], r[3])):
        print(f"{kinds.get(symbol, 'MISSING')}({base}, {symbol}, {version}, {variant})")


if __name__ == "__main__":
    main()
