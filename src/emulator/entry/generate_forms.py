#!/usr/bin/env python3
"""Writes forms.cpp: the older forms of entry points, and those for the per-thread default stream (_ptsz, _ptds);
and prototypes.h, from which ENTRY (driver/driver.h) takes the types of an entry point's parameters.

  generate_forms.py INCLUDE_FOLDER SOURCE_FOLDER FORMS PROTOTYPES COMPILER...

An older form, a FORWARDED row of the table, is a call of the newer one with zero for the parameters that it lacks.

A per-thread form is the same call with CU_STREAM_PER_THREAD in the place of the null stream. A synchronous one (_ptds) is the
asynchronous one on that stream; a copy then waits. Prototypes are those of cuda.h, preprocessed with the toolkit's macro
for all versions of the ABI, and of emulator/driver/cuda_newer.h. They are written for the rows of
emulator/driver/entry_points.def that are implemented.
"""
import re
import subprocess
import sys

HEAD = """\
// Written by entry/generate_forms.py.
#include "emulator/graph/stream.h"

using namespace cugrt::emulator;
using namespace cugrt::emulator::api;

namespace {

CUresult then_wait(CUresult result) {
  return result == CUDA_SUCCESS ? cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
}

} // namespace
"""


def prototypes(compiler, *folders):
    """Of each function its parameters, as (declaration, type, name)."""
    source = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include \"emulator/driver/cuda_newer.h\"\n"
    text = subprocess.run([*compiler, "-x", "c", "-E", "-P", *("-I" + one for one in folders), "-"], input=source, text=True,
                          capture_output=True, check=True).stdout
    found = {}
    for name, given in re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^()]*)\)\s*;", text):
        parameters = [" ".join(one.split()) for one in given.split(",")] if given.strip() != "void" else []
        found[name] = [(one, *re.fullmatch(r"(.*?)(\w+)", one).groups()) for one in parameters]
    return found


def asynchronous(plain, known):
    """What the form of a synchronous function is on a stream: copies have its version, settings of memory none."""
    base, version = re.fullmatch(r"(\w+?)((?:_v\d+)?)", plain).groups()
    base = base.removesuffix("Unaligned")
    return next(name for name in (base + "Async" + version, base + "Async") if name in known)


def newer(base, symbol, table):
    """The next ABI of the function, or the one with the longer name."""
    abis = [row[3] for row in table if row[2] == base]
    later = abis[abis.index(symbol) + 1:]
    return later[0] if later else next(base + end for end in ("WithFlags", "WithPriority", "Ex")
                                       if any(row[1:3] == ("IMPLEMENTED", base + end) for row in table))


def forward(to, given, taken):
    """A call of `to`, which takes those `given` among others."""
    left, arguments = list(given), []
    for _, type, _ in taken:
        arguments.append(left.pop(0)[2] if left and left[0][1] == type else "{}")
    if left:
        sys.exit(f"{to} does not take {left}")
    return f"{to}({', '.join(arguments)})"


def definition(symbol, parameters, call):
    declared = ", ".join(one for one, _, _ in parameters)
    return f"CUresult CUDAAPI {symbol}({declared}) {{ return {call}; }}\n"


def typed(symbol, parameters):
    """A macro that takes names for the parameters of the function and gives its list of parameters."""
    names = [f"p{i}" for i in range(len(parameters))]
    declared = ", ".join(type + name for (_, type, _), name in zip(parameters, names))
    return f"#define TYPED_{symbol}({', '.join(names)}) {declared or 'void'}\n"


def main():
    include, root, output, heads, *compiler = sys.argv[1:]
    known = prototypes(compiler, include, root)
    with open(heads, "w") as file:
        file.write("// Written by entry/generate_forms.py.\n#pragma once\n")
        file.writelines(typed(symbol, parameters) for symbol, parameters in known.items())
    with open(root + "/emulator/driver/entry_points.def") as file:
        # The suffix of the form for the per-thread stream, if there is one; kind, base name and symbol.
        table = re.findall(r"^(?:(PTSZ|PTDS)\()?(IMPLEMENTED|FORWARDED|MISSING)[(,] ?(\w+), (\w+), \d", file.read(), re.M)
    parts = [HEAD]
    for _, kind, base, symbol in table:
        if kind == "FORWARDED":
            to = newer(base, symbol, table)
            parts.append(definition(symbol, known[symbol], forward(to, known[symbol], known[to])))
    for suffix, kind, _, plain in table:
        if not suffix or kind == "MISSING":
            continue
        symbol = f"{plain}_{suffix.lower()}"
        parameters = known[symbol]
        arguments = [f"per_thread({name})" if type.strip() == "CUstream" else name for _, type, name in parameters]
        if symbol.endswith("_ptsz"):
            call = f"{plain}({', '.join(arguments)})"
        else:
            call = f"{asynchronous(plain, known)}({', '.join(arguments + ['CU_STREAM_PER_THREAD'])})"
            if symbol.startswith("cuMemcpy"):
                call = f"then_wait({call})"
        parts.append(definition(symbol, parameters, call))
    with open(output, "w") as file:
        file.write("\n".join(parts))


if __name__ == "__main__":
    main()
