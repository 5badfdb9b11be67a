#!/usr/bin/env python3
"""What kernels compile to: the machine code of the one-op modules in bench/sass/, loop by loop.

  ./dev bench sass [--arch sm_90,sm_87] [--json FILE] [--check] [MODULE.cugrt...]

Every module is compiled for every architecture, the cubins of its kernels are disassembled, and of each
innermost loop (a backward branch) is told what it holds. No GPU is needed, and nothing here is a time:
`modelled` is the share of a ceiling that an in-order model of the loop allows; its assumptions are below and
in docs/measuring.md. --check compares with bench/sass/budgets.csv and fails where a budget is broken.

nvdisasm comes from PyPI, by ./dev into .deps/.
"""
import argparse
import csv
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile

from support.write_json import write_json

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
NVDISASM = os.path.join(ROOT, ".deps", "nvdisasm", "nvidia", "cu13", "bin", "nvdisasm")

# The model: one warp goes through the loop's instructions in order, one a clock, and waits where a register
# is not there yet (the clocks below). As many warps as registers allow are resident and take turns; all
# together start at most ISSUE_PER_CLOCK instructions a clock. Every load counts as one from device memory,
# of 32 lanes side by side; copies to shared memory never wait. What is read so, over the device's clocks, is
# compared with its bandwidth; of loops with mma, what is multiplied with the rate of mma.sync.
ISSUE_PER_CLOCK = 2.8  # of 4 schedulers
WAITS = (("LDGSTS", 0), ("LDGDEPBAR", 0), ("LDG", 800), ("LDSM", 33), ("LDS", 30), ("HMMA", 33), ("IMMA", 33),
         ("MUFU", 20), ("SHFL", 25), ("BAR", 30), ("I2F", 20), ("F2I", 20))
DEVICES = {                 # multiprocessors, clock in GHz, read bandwidth in GB/s, registers, warps, clocks an HMMA and quarter
    "sm_90": (132, 1.755, 3000, 65536, 64, 4), "sm_87": (16, 1.3, 190, 65536, 48, 8),
    "sm_80": (108, 1.41, 1900, 65536, 64, 8), "sm_89": (128, 2.5, 950, 65536, 48, 16),
}
BYTES = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


def cubins(path):
    """The ELF files within a pack, as they are."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while (at := data.find(b"\x7fELF", at)) >= 0:
        programs, sections = struct.unpack("<QQ", data[at + 0x20:at + 0x30])
        sizes = struct.unpack("<HHHH", data[at + 0x36:at + 0x3e])
        yield data[at:at + max(programs + sizes[0] * sizes[1], sections + sizes[2] * sizes[3])]
        at += 4


def opcode(line):
    return re.sub(r"^@!?U?P\w+\s+", "", line).split()[0]


def width(name):
    return next((BYTES[part] for part in name.split(".") if part in BYTES), 4)


def is_call(line):
    """Whether a function or a slow path is called. ptxas writes the way out of some loops for sm_8x as a call of
    the label behind them, which never returns; and joins lanes there, where they have parted, by a call."""
    return (opcode(line).startswith(("CALL", "FCHK")) and "warpsync" not in line
            and not re.search(r"`\(\.L_x_\d+\)", line))


def count(body):
    """Facts of a list of instructions."""
    names = [opcode(line) for line in body]
    loads = [n for n in names if n.startswith("LDG") and not n.startswith("LDGDEPBAR")]
    copies = [n for n in loads if n.startswith("LDGSTS")]
    starting = ("UBLKCP", "UTMALDG")
    return {
        "instructions": len(body), "loads": len(loads), "load_bytes": sum(map(width, loads)),
        "loads_16": sum(width(n) == 16 for n in loads) + sum(n.startswith(starting) for n in names),
        "loads_8": sum(width(n) == 8 for n in loads), "loads_4": sum(width(n) == 4 for n in loads),
        "loads_narrow": sum(width(n) < 4 for n in loads),
        "copies": len(copies), "copy_bytes": sum(map(width, copies)),
        "mma": sum(n.startswith(("HMMA", "HGMMA", "IMMA")) for n in names),
        "fma": sum(n.startswith("FFMA") for n in names),
        "calls": sum(map(is_call, body)),
        "divisions": sum(n.startswith("I2F") and "RP" in n for n in names),
        "barriers": sum(n.startswith("BAR") for n in names),
        "spills": sum(n.startswith(("LDL", "STL")) for n in names),
    }


def in_flight(body):
    """Bytes of the loads that are asked for before the first register of any of them is used."""
    most, pending = 0, {}
    for line in body:
        name = opcode(line)
        used = set(re.findall(r"\bR(\d+)\b", line.split(None, 1)[1] if " " in line else ""))
        if name.startswith("LDG") and not name.startswith("LDGDEPBAR"):
            if name.startswith("LDGSTS"):
                continue
            target = re.search(r"\bR(\d+)", line)
            bytes_ = width(name)
            if target:
                for r in range(int(target[1]), int(target[1]) + max(1, bytes_ // 4)):
                    pending[str(r)] = bytes_ / max(1, bytes_ // 4)
            most = max(most, sum(pending.values()))
        elif used & pending.keys():
            pending = {}
    return int(most)


def exchange(body, loops):
    """Of the smallest loop in which blocks exchange words (loads that see what others store) and meet: its other
    loads and its barriers; nothing where there is none."""
    def names(begin, end):
        return [opcode(line) for line in body[begin:end + 1]]

    def exchanges(loop):
        own = names(*loop)
        return any("STRONG" in n for n in own) and any(n.startswith("BAR") for n in own)

    begin, end = min(filter(exchanges, loops), key=lambda loop: loop[1] - loop[0], default=(0, -1))
    own = names(begin, end)
    return {"exchange_loads": sum(n.startswith("LDG") and "STRONG" not in n for n in own) if own else None,
            "exchange_barriers": sum(n.startswith("BAR") for n in own) if own else None}


def functions(cubin):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([NVDISASM, "-c", file.name], capture_output=True, text=True, check=True).stdout
    lines, labels, registers, name = {}, {}, {}, None
    for line in text.splitlines():
        if found := re.match(r"\.text\.(\S+):", line):
            name = found[1]
            lines[name], labels[name] = [], {}
        elif name and (found := re.match(r"(\.L_x_\d+):", line)):
            labels[name][found[1]] = len(lines[name])
        elif name and (found := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?);", line)):
            lines[name].append(found[1].strip())
    for name, body in lines.items():
        # What is addressed is what is kept, up to the granule in which registers are given out.
        highest = max((int(r) for line in body for r in re.findall(r"\bR(\d+)\b", line)), default=0)
        registers[name] = (highest + 1 + 7) // 8 * 8
        loops = []
        for i, line in enumerate(body):
            found = re.search(r"BRA.*`\((\.L_x_\d+)\)", line)
            if found and labels[name].get(found[1], i) < i:
                loops.append((labels[name][found[1]], i))
        # Innermost ones, and those around a rare path that is a loop, where mma stands beside it.
        def has_mma(begin, end):
            return any(opcode(line).startswith(("HMMA", "IMMA")) for line in body[begin:end + 1])

        inner = [(a, b) for a, b in loops
                 if not any((c, d) != (a, b) and c >= a and d <= b and has_mma(c, d) >= has_mma(a, b)
                            for c, d in loops)]
        yield name, body, inner, registers[name], exchange(body, loops)


def iteration_clocks(body):
    """Of one warp, by the model above, once the loop runs steadily."""
    ready, clock, begin = {}, 0, 0
    for _ in range(3):
        begin = clock
        for line in body:
            name = opcode(line)
            registers = re.findall(r"\bR(\d+)\b", line)
            clock = max([clock + 1] + [ready.get(r, 0) for r in registers])
            if registers and not name.startswith(("ST", "LDGSTS", "BRA")):
                wait = next((clocks for prefix, clocks in WAITS if name.startswith(prefix)), 5)
                for i in range(max(1, width(name) // 4)):
                    ready[str(int(registers[0]) + i)] = clock + wait
    return clock - begin


def resident_warps(registers, arch):
    most, file = DEVICES.get(arch, DEVICES["sm_90"])[4], DEVICES.get(arch, DEVICES["sm_90"])[3]
    return max(1, min(most, file // (32 * max(registers, 16))))


def modelled(body, facts, registers, arch):
    """The share of read bandwidth, or for tensor cores of their rate, that the loop allows."""
    multiprocessors, clock, bandwidth, _, _, mma_clocks = DEVICES.get(arch, DEVICES["sm_90"])
    warps = resident_warps(registers, arch)
    per_clock = min(warps / iteration_clocks(body), ISSUE_PER_CLOCK / facts["instructions"])  # iterations
    if facts["mma"] and not facts["loads_narrow"] and facts["mma"] > facts["loads"]:
        return min(1.0, per_clock * facts["mma"] * mma_clocks / 4)
    return min(1.0, per_clock * 32 * facts["load_bytes"] * clock * multiprocessors / bandwidth)


def rows_of(pack, case, arch):
    for cubin in cubins(pack):
        for name, body, loops, registers, exchanged in functions(cubin):
            whole = count(body)
            common = {"bench": "sass", "case": case, "arch": arch, "kernel": name, "registers": registers,
                      "resident_warps": resident_warps(registers, arch), "spills": whole["spills"]}
            yield {**common, "loop": "whole", **whole, **exchanged, "bytes_in_flight": in_flight(body), "modelled": None}
            for begin, end in loops:
                facts = count(body[begin:end + 1])
                yield {**common, "loop": f"{begin}..{end}", **facts,
                       "bytes_in_flight": in_flight(body[begin:end + 1]),
                       "modelled": round(modelled(body[begin:end + 1], facts, registers, arch), 3)
                       if facts["loads"] or facts["mma"] else None}


def broken_budgets(rows, budgets):
    """What of bench/sass/budgets.csv does not hold: of a case, its loops and its main one."""
    broken = []
    for budget in budgets:
        for arch in sorted({row["arch"] for row in rows}):
            own = [row for row in rows if row["case"] == budget["case"] and row["arch"] == arch]
            loops = [row for row in own if row["loop"] != "whole"]
            whole = [row for row in own if row["loop"] == "whole"]
            if not own:
                broken.append(f"{budget['case']} {arch}: no machine code")
                continue
            reading = max((r for r in loops if r["loads"]), key=lambda r: (r["load_bytes"], -r["instructions"]),
                          default=None)
            multiplying = max(loops, key=lambda r: (r["mma"], r["copies"], -r["instructions"]), default=None)

            def want(key, figure, at_least):
                limit = float(budget[key]) if budget[key] else None
                if limit is not None and (figure < limit if at_least else figure > limit):
                    broken.append(f"{budget['case']} {arch}: {key} is {figure:.3g}, the budget {limit:g}")

            want("calls_in_loops", sum(r["calls"] + r["divisions"] for r in loops), False)
            want("spills", sum(r["spills"] for r in whole), False)
            want("registers", max(r["registers"] for r in whole), False)
            want("narrow_loads", reading["loads_narrow"] if reading else 0, False)
            want("loads_of_16", sum(r["loads_16"] for r in whole), True)
            want("bytes_an_instruction",
                 reading["load_bytes"] / reading["instructions"] if reading else 0, True)
            want("bytes_in_flight", max(r["bytes_in_flight"] for r in whole), True)
            rings = multiplying if multiplying and multiplying["loads"] == multiplying["copies"] else None
            want("copied_bytes", 32 * rings["copy_bytes"] / rings["instructions"]
                 if rings and not rings["barriers"] else 0, True)
            want("mma_share", multiplying["mma"] / multiplying["instructions"] if multiplying else 0, True)
            for key in ("exchange_loads", "exchange_barriers"):
                # Small devices have no room for all blocks at once; one of those that are asked for must.
                exchanging = [r for r in rows if r["case"] == budget["case"] and r.get(key) is not None]
                figures = [r[key] for r in exchanging if r["arch"] == arch]
                want(key, max(figures, default=0 if exchanging else float("inf")), False)
            want("fma_share", max((r["fma"] / r["instructions"] for r in loops), default=0), True)
    return broken


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--cugrt", default=os.path.join(ROOT, "build", "src", "fronts", "tools", "cugrt"))
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    if not os.path.exists(NVDISASM):
        sys.exit(f"there is no {NVDISASM}: ./dev bench sass fetches it")
    modules = options.modules or sorted(glob.glob(os.path.join(HERE, "sass", "*.cugrt")))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for arch in options.arch.split(","):
            for module in modules:
                case = os.path.splitext(os.path.basename(module))[0]
                pack = os.path.join(folder, case + ".pack")
                made = subprocess.run([options.cugrt, "compile", "--arch", arch, module, "-o", pack],
                                      capture_output=True, text=True)
                if made.returncode:
                    sys.exit(f"{module} does not compile for {arch}:\n{made.stderr}")
                rows += rows_of(pack, case, arch)
    if options.json:
        write_json(options.json, rows)
    print(f"{'case':22} {'arch':6} {'kernel':22} regs {'loop':>11} instr  16  8  4 <4  bytes flying  mma calls bar modelled")
    for r in rows:
        if r["loop"] == "whole" and any(o["kernel"] == r["kernel"] and o["case"] == r["case"] and
                                        o["loop"] != "whole" for o in rows):
            continue
        share = "" if r["modelled"] is None else f"{r['modelled']:.0%}"
        print(f"{r['case']:22} {r['arch']:6} {r['kernel'][:22]:22} {r['registers']:4} {r['loop']:>11} "
              f"{r['instructions']:5} {r['loads_16']:3} {r['loads_8']:2} {r['loads_4']:2} {r['loads_narrow']:2} "
              f"{r['load_bytes']:6} {r['bytes_in_flight']:6} {r['mma']:4} {r['calls'] + r['divisions']:5} "
              f"{r['barriers']:3} {share:>8}")
    if options.check:
        with open(os.path.join(HERE, "sass", "budgets.csv"), newline="") as file:
            budgets = list(csv.DictReader(line for line in file if not line.startswith("#")))
        broken = broken_budgets(rows, budgets)
        for line in broken:
            print("broken: " + line)
        checks = len(budgets) * len(options.arch.split(","))
        kept = checks - len({" ".join(line.split()[:2]) for line in broken})
        print(f"{kept} passed, {checks - kept} failed, 0 skipped")
        return 1 if broken else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
