#!/usr/bin/env python3
"""Writes entry_points.def: every function that cuda.h and the headers beside it declare, with the version
of its ABI.

  generate_entry_points.py INCLUDE_FOLDER [OLD_DEF] > entry_points.def

cuda.h, preprocessed with the toolkit's internal-versions macro, declares every ABI of every function under
the name that the library exports. cudaTypedefs.h names the CUDA version that introduced each of them
(PFN_cuMemAlloc_v3020). The two are joined by base name: the ABI suffixes in ascending order belong to
the versions in ascending order. The headers beside it include others that need not be there; of them
only the typedefs are read. Rows keep the kind (IMPLEMENTED, FORWARDED or MISSING) that OLD_DEF gives them;
new rows are MISSING.
"""
import re
import subprocess
import sys

HEADER = """\
// Every function that cuda.h of CUDA 13.5 declares, and those of cudaProfiler.h, cudaGL.h, cudaEGL.h
// and cudaVDPAU.h, one row for each ABI; written by generate_entry_points.py. This table makes the
// exports, cuGetProcAddress and the list in docs/emulator.md; change a row's kind by hand when a
// function gets its implementation.
//
//   IMPLEMENTED(base name, exported symbol, CUDA version that introduced this ABI, any)
//   FORWARDED(...)  answers as its newer form does, with zero for what that takes besides: the next
//                   ABI, or the function whose name ends in WithFlags, WithPriority or Ex
//   MISSING(...)    answers CUDA_ERROR_NOT_SUPPORTED
//   PTSZ(kind, ..., version of the form)   has a form for the per-thread stream, symbol_ptsz, as well
//   PTDS(kind, ..., version of the form)   the same, symbol_ptds
//
// Includers see the forms as rows of their own, with per_thread in the place of any.
#define PTSZ(kind, base, symbol, version, since) \\
  kind(base, symbol, version, any) kind(base, symbol##_ptsz, since, per_thread)
#define PTDS(kind, base, symbol, version, since) \\
  kind(base, symbol, version, any) kind(base, symbol##_ptds, since, per_thread)
"""
FOOTER = "\n#undef PTSZ\n#undef PTDS"
# Base names whose meaning moved to another function.
EXTRA = [("cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000, "any")]
BESIDE = ["cudaProfiler", "cudaGL", "cudaEGL", "cudaVDPAU"]
OTHER_SYSTEMS = {"cuWGLGetDevice"}


def declared(include):
    source = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
    text = subprocess.run(["cc", "-E", "-P", "-I", include, "-"], input=source, text=True,
                          capture_output=True, check=True).stdout
    return sorted(set(re.findall(r"\b(cu[A-Z]\w*)\s*\(", text)))


def split(symbol):
    match = re.fullmatch(r"(\w+?)(?:_v(\d+))?(_pts[z]|_ptds)?", symbol)
    return match[1], "per_thread" if match[3] else "any", int(match[2] or 1)


def typedefs(include, header):
    """(base name, variant) -> {version: the variant's suffix}"""
    found = {}
    with open(f"{include}/{header}Typedefs.h") as file:
        for base, version, suffix in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", file.read()):
            found.setdefault((base, "per_thread" if suffix else "any"), {})[int(version)] = suffix
    return found


def rows_beside(include):
    """The first ABI of a function has its name, the next ones end in _v2 and so on; only the last one has
    a form for the per-thread stream."""
    rows = []
    for header in BESIDE:
        found = typedefs(include, header)
        for (base, variant), versions in found.items():
            if base in OTHER_SYSTEMS:
                continue
            first = 1 if variant == "any" else len(found[base, "any"])
            for abi, version in enumerate(sorted(versions), first):
                symbol = base + (f"_v{abi}" if abi > 1 else "") + versions[version]
                rows.append((base, symbol, version, variant))
    return rows


def main():
    include = sys.argv[1]
    kinds = {}
    if len(sys.argv) > 2:
        with open(sys.argv[2]) as old:
            for kind, symbol in re.findall(r"^(?:PT\w+\()?(\w+)[(,] ?\w+, (\w+), \d", old.read(), re.M):
                kinds[symbol] = kind
    versions = typedefs(include, "cuda")
    groups = {}
    for symbol in declared(include):
        base, variant, abi = split(symbol)
        groups.setdefault((base, variant), []).append((abi, symbol))
    rows = EXTRA + rows_beside(include)
    for key, symbols in groups.items():
        known = sorted(versions.get(key, ()))
        if len(known) != len(symbols):
            sys.exit(f"{key}: {len(symbols)} declarations, {len(known)} versions")
        rows += [(key[0], symbol, version, key[1]) for (_, symbol), version in zip(sorted(symbols), known)]
    # The forms for the per-thread stream stand in the rows of what they are forms of.
    forms = {symbol[:-5]: (symbol[-4:].upper(), version) for _, symbol, version, variant in rows if variant != "any"}
    print(HEADER)
    for base, symbol, version, variant in sorted(rows, key=lambda r: (r[0], r[2])):
        kind = kinds.get(symbol, "MISSING")
        if symbol in forms:
            print(f"{forms[symbol][0]}({kind}, {base}, {symbol}, {version}, {forms[symbol][1]})")
        elif variant == "any":
            print(f"{kind}({base}, {symbol}, {version}, any)")
    print(FOOTER)


if __name__ == "__main__":
    main()
