#!/usr/bin/env python3
"""cugrt trace --device and cugrt bench --by on the emulated driver: every node of a graph has its op, binding and
place, by the emulated CUPTI and by events; their times add up to the graph's. Nodes in bodies are told by CUPTI.

  check_device_trace.py CUGRT
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from tensor_files import floats, write_npy  # noqa: E402

# A chain: the times of its nodes add up to the whole graph's.
CHAIN = """cugrt 1

func @main(%x: tensor<[n, 64], f32>, %w: tensor<[64, 64], f32>) -> (tensor<[n, 64], f32>)
    attributes {num_inputs = 1, lower_bounds = {n = 2}, upper_bounds = {n = 8}} {
  %h = matmul(%x, %w)
  %s = softmax(%h)
  %g = matmul(%s, %w)
  %t = softmax(%g)
  return %t
}
"""
# Of n = 2: x and w in, h out; h in, s out; and so on, floats of 4 bytes.
BYTES = [4 * (2 * 64 + 64 * 64 + 2 * 64), 4 * (2 * 64 + 2 * 64)] * 2
# Two for each product and its sum; five for each element of a softmax.
OPERATIONS = [2 * 2 * 64 * 64, 5 * 2 * 64] * 2
OPS = ["matmul", "softmax", "matmul", "softmax"]
# A loop on the device: its body runs as often as %x is below 3 after the relu, that is three times from 0.
LOOP = """cugrt 1

func @main(%x: tensor<[1], f32>, %one: tensor<[1], f32>, %three: tensor<[1], f32>) -> (tensor<[1], f32>) {
  %r = relu(%x)
  %last = while (%t = %r) using (%three, %one) {
    %less = less(%t, %three)
    yield %less
  } do {
    %next = add(%t, %one)
    yield %next
  }
  return %last
}
"""
BINDINGS = ["%h", "%s", "%g", "%t"]


def run(*command, **environment):
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "CUGRT_DRIVER": "emulated", "CUGRT_CACHE": "off", **environment},
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr}")
    return done


def trace(cugrt, folder, version, model="chain.cugrt", cupti="", arguments=()):
    """The events of three runs of the graph's nodes, and what was said."""
    path = os.path.join(folder, "trace.json")
    said = run(
        cugrt,
        "trace",
        "--device",
        os.path.join(folder, model),
        "--repeat",
        "3",
        "-o",
        path,
        *arguments,
        CUGRT_EMU_DRIVER_VERSION=version,
        CUGRT_CUPTI=cupti,
    ).stderr
    with open(path, encoding="utf-8") as file:
        written = json.load(file)
    events = written["traceEvents"]
    if ("events between them" in said) != (written["otherData"]["timed_by"] == "events between them"):
        sys.exit(f"timed by {written['otherData']['timed_by']}, and said was {said}")
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    return [event for event in events if event.get("cat") == "kernel"], lanes, said


def main():
    cugrt = sys.argv[1]
    problems = []

    def expect(what, said, right):
        if said != right:
            problems.append(f"{what}: {said!r}, not {right!r}")

    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "chain.cugrt"), "w", encoding="utf-8") as file:
            file.write(CHAIN)
        place = os.path.join(folder, "chain.cugrt") + ":"
        # CUPTI tells of the graph's own nodes from 13.4 on; before, and without ids, kernels go by their order.
        for version, ids, cupti in (
            ("13.0", False, "off"),
            ("13.1", True, "off"),
            ("12.6", False, ""),
            ("13.1", True, ""),
            ("13.4", True, ""),
        ):
            kernels, lanes, said = trace(cugrt, folder, version, cupti=cupti)
            expect("nodes", len(kernels), 3 * len(OPS))
            expect("what is said of a symbol", "n is not set: it is 2" in said, True)
            expect("what is said of the cost", "timed by events between them" in said, cupti == "off")
            for number in range(3):
                mine = [event for event in kernels if event["args"]["run"] == number]
                expect("ops", [event["args"]["op"] for event in mine], OPS)
                expect("bindings", [event["args"]["binding"] for event in mine], BINDINGS)
                expect("bytes", [event["args"]["bytes"] for event in mine], BYTES)
                expect("operations", [event["args"]["operations"] for event in mine], OPERATIONS)
                expect(
                    "places", [event["args"]["place"] for event in mine], [place + str(line) for line in range(5, 9)]
                )
                expect("lanes", [lanes[event["tid"]] for event in mine], OPS)
                expect("regions", {event["args"]["region"] for event in mine}, {"main_region0"})
                if not ids:  # by order
                    expect("numbers", [event["args"]["node"] for event in mine], ["0", "1", "2", "3"])
                elif len({event["args"]["node"] for event in mine}) != 4 or mine[0]["args"]["node"] == "0":
                    problems.append(f"ids: {[event['args']['node'] for event in mine]}")
                whole = mine[-1]["ts"] + mine[-1]["dur"] - mine[0]["ts"]
                parts = sum(event["dur"] for event in mine)
                if abs(whole - parts) > 0.01 * whole + 0.01 and cupti == "off":
                    problems.append(f"the nodes take {parts} us, the graph {whole}")
        # Instances of other sizes have the same kernels: those that a run launched are told apart.
        for version, cupti in (("12.6", ""), ("12.6", "off"), ("13.1", "")):
            sizes = ("--set", "n=2,3,8")
            kernels, lanes, said = trace(cugrt, folder, version, cupti=cupti, arguments=sizes)
            expect("ops of several sizes", [event["args"]["op"] for event in kernels], 9 * OPS)
        for cupti, by in (("off", "events between them"), ("", "CUPTI 13.0")):
            rows = json.loads(
                run(
                    cugrt,
                    "bench",
                    os.path.join(folder, "chain.cugrt"),
                    "--by",
                    "op",
                    "--runs",
                    "2",
                    "--set",
                    "n=4",
                    "--json",
                    CUGRT_CUPTI=cupti,
                ).stdout
            )
            expect(
                "rows",
                sorted((row["op"], row["nodes"], row["case"], row["bytes"]) for row in rows if row["nodes"]),
                [("matmul", 2, "n=4", 8 * (4 * 64 + 64 * 64 + 4 * 64)), ("softmax", 2, "n=4", 8 * 8 * 64)],
            )
            expect(
                "operations",
                sorted((row["op"], row["operations"]["vector"]) for row in rows if row["nodes"]),
                [("matmul", 2 * 2 * 4 * 64 * 64), ("softmax", 2 * 5 * 4 * 64)],
            )
            expect(
                "ceilings of the emulated driver",
                {(row["of_memory"], row["of_operations"], "emulated" in row["not_known"]) for row in rows},
                {(None, None, True)},
            )
            expect("what timed them", {row["timed_by"] for row in rows}, {by})
        layers = subprocess.run(
            [cugrt, "bench", os.path.join(folder, "chain.cugrt"), "--by", "layer"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CUGRT_DRIVER": "emulated"},
        )
        expect("layers", (layers.returncode, "has none" in layers.stderr), (1, True))
        # Nodes in bodies, by their ids and, each on its own, as often as they ran.
        with open(os.path.join(folder, "loop.cugrt"), "w", encoding="utf-8") as file:
            file.write(LOOP)
        inputs = []
        for name, value in (("x", 0.0), ("one", 1.0), ("three", 3.0)):
            numpy = os.path.join(folder, name + ".npy")
            write_npy(numpy, "<f4", (1,), floats([value]))
            inputs += ["--input", f"{name}={numpy}"]
        # Before 13.4 the graph's own nodes by their order; without ids, or by events, the body is the loop's one node.
        for version, cupti, body in (("13.1", "", 3), ("13.4", "", 3), ("13.4", "off", 0), ("12.6", "", 0)):
            kernels, lanes, said = trace(cugrt, folder, version, "loop.cugrt", cupti, arguments=inputs)
            mine = [event["args"]["binding"] for event in kernels if event["args"]["run"] == 0]
            expect("a loop's nodes", (mine.count("%r"), mine.count("%next")), (1, body))
            expect("what is said of them", "timed by events, not by CUPTI" in said, body == 0)
        # Deadlines, alone and beside a load: of one microsecond all are late.
        chain = os.path.join(folder, "chain.cugrt")
        beside = ["--load", chain, "--load-set", "n=4", "--runs", "5", "--json"]
        rows = json.loads(run(cugrt, "bench", chain, "--set", "n=2", "--deadline", "1", *beside).stdout)
        told = [(row["load"], row["runs"], row["missed"]) for row in rows]
        expect("runs with deadlines", told, [("", 5, 5), (chain, 5, 5)])
        expect("what a load may take", [row["longest_node_us"] is None for row in rows], [True, False])
        rows = json.loads(run(cugrt, "bench", chain, "--deadline", "3600000000", "--runs", "5", "--json").stdout)
        expect("an hour's deadline", [(row["runs"], row["missed"]) for row in rows], [(5, 0)])
        # Options of the other kind of file are refused, by what the file begins with.
        gguf = os.path.join(folder, "m.gguf")
        with open(gguf, "wb") as file:
            file.write(b"GGUF")
        for words, what in (
            ((gguf, "--runs", "3"), "--runs is not for GGUF files"),
            ((chain, "--prompt", "3"), "--prompt is only for"),
        ):
            refused = subprocess.run([cugrt, "bench", *words], capture_output=True, text=True, check=False)
            expect(what, (refused.returncode, what in refused.stderr), (1, True))
        # A pack says the same, but for ops: they became kernels, which are named instead, unless names were put in.
        pack = os.path.join(folder, "chain.pack")
        run(cugrt, "compile", os.path.join(folder, "chain.cugrt"), "--arch", "compute_75", "-o", pack)
        said = run(cugrt, "plan", pack).stdout
        expect("multiprocessors of a pack", "chosen for 64 multiprocessors" in said, True)
        kernels, lanes, said = trace(cugrt, folder, "13.0", "chain.pack")
        expect("what is said of a pack's symbol", "n is not set: it is 2" in said, True)
        first = kernels[: len(OPS)]
        kernels = [op.replace("softmax", "softmax_rows") for op in OPS]
        expect("a pack's operations", [event["args"]["operations"] for event in first], OPERATIONS)
        expect("a pack's ops", [event["args"]["op"] for event in first], kernels)
        named, graphs = (os.path.join(folder, name) for name in ("named.pack", "graphs.json"))
        run(cugrt, "compile", chain, "--arch", "compute_75", "-o", named, "--names")
        for version, by in (("12.6", "off"), ("12.6", ""), ("13.1", "off"), ("13.4", "")):
            events, lanes, said = trace(cugrt, folder, version, "named.pack", by, ["--graphs", graphs])
            expect("a named pack's ops", [event["args"]["op"] for event in events], 3 * OPS)
            with open(graphs, encoding="utf-8") as file:
                nodes = [node for graph in json.load(file) for node in graph["nodes"]]
            expect("ops of the map", [node["op"] for node in nodes], OPS)
            expect("places of the map", [node["place"] for node in nodes], [place + str(n) for n in range(5, 9)])
            expect("ids of the map", ["id" in node for node in nodes], [version != "12.6"] * len(OPS))
        expect("a pack's bindings", [event["args"]["binding"] for event in first], BINDINGS)
        expect("a pack's places", [event["args"]["place"] for event in first], [place + str(n) for n in range(5, 9)])
        rows = json.loads(run(cugrt, "bench", pack, "--runs", "2", "--set", "n=4", "--json").stdout)
        expect("a pack is timed", [row["case"] for row in rows], ["n=4"])
        refused = subprocess.run([cugrt, "bench", pack, "--policy", "seed"], capture_output=True, text=True, check=False)
        expect("planning a pack", (refused.returncode, "a pack is planned already" in refused.stderr), (1, True))
        refused = subprocess.run([cugrt, "opt", pack], capture_output=True, text=True, check=False)
        expect("a pack's module", (refused.returncode, "is a pack, whose module is" in refused.stderr), (1, True))
        table = run(
            cugrt, "bench", os.path.join(folder, "chain.cugrt"), "--by", "binding", "--runs", "1", CUGRT_CUPTI="off"
        ).stdout.splitlines()
        expect("a table", sorted(line.split()[0] for line in table[3:]), sorted(BINDINGS))
        expect("what is not known", table[1].startswith("ceilings not known: the emulated driver"), True)
    for problem in problems:
        print(problem)
    print(f"seven traces and four tables, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
