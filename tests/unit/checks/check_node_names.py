#!/usr/bin/env python3
"""Every node of a graph is named: by its id where the driver has ids, else by its order in the graph; in instances
that are built, that are patched, and with conditional nodes. Times by op add up to the graph's.

  check_node_names.py CUGRT [MODEL [ARGUMENT...]]

The models are those below, as modules and as packs, the examples', an ONNX file, a language model's pack and what
version 0.1.0 made; or the one that is given, with what `cugrt trace` takes for it. Graphs are chains here (--max-lanes
1), so that a run's time is the sum of its nodes'. All nodes are read back, too (CUGRT_VERIFY_NODES).
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", name) for name in ("support", "unit/checks", "gpu")]
from check_voice import field, number, value  # noqa: E402
from random_model import Size, write  # noqa: E402
from tensor_files import write_npy  # noqa: E402
from titled_tests import equal, run_tests, test  # noqa: E402

# More values than a topology class gets instances for: the last ones are patched to.
VALUES = ",".join(map(str, range(1, 13)))
ATTRIBUTES = "attributes {num_inputs = %d, lower_bounds = {n = 1}, upper_bounds = {n = 16}}"
MODELS = {
    "branches.cugrt": """cugrt 1

func @main(%x: tensor<[n, 8], f32>, %w: tensor<[8, 8], f32>) -> (tensor<[n, 8], f32>, tensor<[n, 16], f32>)
    ATTRIBUTES {
  %a = matmul(%x, %w)
  %b = softmax(%x)
  %c = softmax(%a)
  %d = concat(%b, %c) {axis = 1}
  return %c, %d
}
""".replace("ATTRIBUTES", ATTRIBUTES % 1),
    "condition.cugrt": """cugrt 1

func @main(%x: tensor<[n, 8], f32>, %p: tensor<[1], bool>, %w: tensor<[8, 8], f32>) -> (tensor<[n, 8], f32>)
    ATTRIBUTES {
  %r = softmax(%x)
  %a = if %p using (%r, %w) -> (tensor<[n, 8], f32>) {
    %m = matmul(%r, %w)
    %s = softmax(%m) {axis = 0}
    yield %s
  } else {
    %t = cumsum(%r)
    yield %t
  }
  %y = matmul(%a, %w)
  return %y
}
""".replace("ATTRIBUTES", ATTRIBUTES % 2),
    "loop.cugrt": """cugrt 1

func @main(%x: tensor<[n], f32>, %one: tensor<[1], f32>, %three: tensor<[1], f32>)
    -> (tensor<[1], f32>, tensor<[n], f32>)
    attributes {lower_bounds = {n = 1}, upper_bounds = {n = 16}} {
  %p = softmax(%x)
  %s = reduce_sum(%p) {axes = [0], keep_dims = true}
  %last = while (%t = %s) using (%three, %one) {
    %less = less(%t, %three)
    yield %less
  } do {
    %next = add(%t, %one)
    yield %next
  }
  return %last, %p
}
""",
}
EXAMPLES = {"digits/digits.cugrt": ["--set", "n=" + VALUES], "device/motion.cugrt": [], "robot/detect.cugrt": [],
            "camera/camera.cugrt": []}
OF_VERSION_1 = {"tests/data/0.1.0/model.cugrt": ["--set", "n=1,2,3,4,5,6,7,8"],
                "tests/data/0.1.0/model.pack": ["--set", "n=1,2,3,4,5,6,7,8"]}
# Of an ONNX file: op, operands, result, name.
ONNX_NODES = [("MatMul", ("x", "w"), "a", "/layers.0/MatMul"), ("Softmax", ("a",), "b", "/layers.0/Softmax"),
              ("MatMul", ("b", "w"), "c", "/layers.1/MatMul"), ("Softmax", ("c",), "y", "/layers.1/Softmax")]


def onnx_model():
    """x [n, 8] and w [8, 8] give y [n, 8]."""
    nodes = b""
    for op, operands, result, name in ONNX_NODES:
        nodes += field(1, b"".join(field(1, one.encode()) for one in operands) + field(2, result.encode()) +
                       field(3, name.encode()) + field(4, op.encode()))
    graph = nodes + value(11, "x", 1, ["n", 8]) + value(11, "w", 1, [8, 8]) + value(12, "y", 1, ["n", 8])
    return number(1, 8) + field(8, number(2, 17)) + field(7, graph)


WITH_IDS, WITHOUT_IDS, WITH_BODIES = ("13.1", "off"), ("12.6", "off"), ("13.4", "")
KERNELS = ("op", "binding", "place", "region", "kernel", "bytes")


LANES = ["--max-lanes", "1"]


class Traces:
    def __init__(self, tool, folder, models):
        self.tool, self.folder, self.models, self.made = tool, folder, models, {}

    def of(self, model, driver):
        """(events by run, what became of each launch, graphs at the end); made once."""
        if (model, driver) not in self.made:
            version, cupti = driver
            trace, graphs = (os.path.join(self.folder, name) for name in ("trace.json", "graphs.json"))
            # A model's file may be there several times, once for each function: a space and its name follow.
            command = [self.tool, "trace", "--device", model.split(" ")[0], "-o", trace, "--graphs", graphs,
                       *([] if model.split(" ")[0].endswith(".pack") else LANES), *self.models[model]]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env={
                **os.environ, "CUGRT_DRIVER": "emulated", "CUGRT_EMU_DRIVER_VERSION": version, "CUGRT_CUPTI": cupti,
                "CUGRT_VERIFY_NODES": "1"})
            assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
            with open(trace, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            runs = collections.defaultdict(list)
            for event in events:
                if event.get("cat") == "kernel":
                    runs[event["args"]["run"]].append(event)
            outcomes = [event["args"]["kind"] for event in events if event.get("cat") == "region"]
            with open(graphs, encoding="utf-8") as file:
                self.made[model, driver] = runs, outcomes, json.load(file)
        return self.made[model, driver]


def is_node_of(event, node):
    """Whether an event's kernel, binding and line are those of a node of the map. Of an imported file, whose nodes have
    names, the map has lines of the module that was made of it."""
    said = event["args"]
    line = re.search(r":(\d+)$", said["place"])
    return (node["name"].endswith(" " + said["binding"]) and (not line or int(line[1]) == node["line"]) and
            node.get("kernel", said["kernel"]) == said["kernel"])


@test("with ids each event's is that of a node with its binding and line, and no two events of a run have one")
def _(traces):
    for model in traces.models:
        runs, _, graphs = traces.of(model, WITH_IDS)
        nodes = {str(node["id"]): node for graph in graphs for node in graph["nodes"]}
        assert runs, model
        for events in runs.values():
            equal(len({event["args"]["node"] for event in events}), len(events))
            for event in events:
                assert is_node_of(event, nodes[event["args"]["node"]]), (model, event)
                assert all(event["args"][key] not in ("", "?", None) for key in KERNELS), (model, event)


@test("nodes of an ONNX file go by its names, and by its layers")
def _(traces):
    names = {name for _, _, _, name in ONNX_NODES}
    for model in traces.models:
        if os.path.basename(model) in ("named.onnx", "named.onnx.pack"):
            for driver in (WITH_IDS, WITHOUT_IDS):
                for events in traces.of(model, driver)[0].values():
                    equal({event["args"]["place"] for event in events}, names)
            rows = json.loads(subprocess.run(
                [traces.tool, "bench", model, "--by", "layer", "--runs", "1", "--set", "n=4", "--json"],
                capture_output=True, text=True, check=True, env={**os.environ, "CUGRT_DRIVER": "emulated"}).stdout)
            equal(sorted(row["layer"] for row in rows if row["nodes"]), ["/layers.0", "/layers.1"])


@test("nodes of a GGUF file's pack go by its tensors and layers")
def _(traces):
    for function, named in (("prefill", "blk.1.attn_q.weight"), ("decode", "output.weight")):
        for model in traces.models:
            if model.endswith("language.pack " + function):
                runs = traces.of(model, WITH_IDS)[0].values()
                places = {event["args"]["place"] for events in runs for event in events}
                assert {"token_embd", "blk.0", "blk.1", named} <= places, places


@test("names take 40 bytes a step of a pack at most, with the table of ops and all")
def _(traces):
    for named, steps, bytes_without in traces.packs:
        more = os.path.getsize(named) - bytes_without
        assert 0 < more <= 40 * steps, (named, more, steps)


@test("without ids each event's number is its node's place in the graph, and says the same")
def _(traces):
    for model in traces.models:
        runs, _, graphs = traces.of(model, WITHOUT_IDS)
        by_id, _, _ = traces.of(model, WITH_IDS)
        equal({run: [[event["args"][key] for key in KERNELS] for event in events] for run, events in runs.items()},
              {run: [[event["args"][key] for key in KERNELS] for event in events] for run, events in by_id.items()})
        for events in runs.values():
            for event in events:  # instances of other classes may have other kernels at that place
                nodes = [graph["nodes"] for graph in graphs if graph["region"] == event["args"]["region"]]
                number = int(event["args"]["node"])
                assert any(number < len(some) and is_node_of(event, some[number]) for some in nodes), (model, event)
        assert all("id" not in node for graph in graphs for node in graph["nodes"]), model


@test("nodes in bodies have their own ids, too")
def _(traces):
    in_bodies = 0
    for model in traces.models:
        runs, _, graphs = traces.of(model, WITH_BODIES)
        nodes = {str(node["id"]): node for graph in graphs for node in graph["nodes"]}
        outside = {event["args"]["binding"] for events in traces.of(model, WITH_IDS)[0].values() for event in events}
        for events in runs.values():
            for event in events:
                assert is_node_of(event, nodes[event["args"]["node"]]), (model, event)
                in_bodies += event["args"]["binding"] not in outside
    assert in_bodies or not traces.own, in_bodies


@test("each node that is enabled and in no body is an event of each run")
def _(traces):
    for model in traces.models:
        runs, _, graphs = traces.of(model, WITH_IDS)
        inner = {event["args"]["node"] for events in traces.of(model, WITH_BODIES)[0].values() for event in events}
        seen = {event["args"]["node"] for events in runs.values() for event in events}
        for graph in graphs:
            own = [node for node in graph["nodes"] if node["kind"] == "conditional" or node.get("begin_us") is not None]
            assert own and inner, model
            equal([node["name"] for node in own if str(node["id"]) not in seen and node["enabled"]], [])


@test("times by op add up to the graph's within 1 %")
def _(traces):
    for model in traces.models:
        for driver in (WITH_IDS, WITHOUT_IDS):
            for events in traces.of(model, driver)[0].values():
                for region in {event["args"]["region"] for event in events}:
                    mine = [event for event in events if event["args"]["region"] == region]
                    by_op = collections.Counter()
                    for event in mine:
                        by_op[event["args"]["op"]] += event["dur"]
                    whole = max(event["ts"] + event["dur"] for event in mine) - min(event["ts"] for event in mine)
                    parts = sum(by_op.values())
                    assert abs(whole - parts) <= 0.01 * whole + 0.01, (model, region, whole, by_op)


@test("instances were built, and patched to other values, with conditional nodes and without")
def _(traces):
    seen = set()
    for model in traces.models:
        _, became, graphs = traces.of(model, WITH_IDS)
        conditional = any(node["kind"] == "conditional" for graph in graphs for node in graph["nodes"])
        seen.update((kind, conditional) for kind in became if kind in ("built", "patched"))
    assert len(seen) == 4 or not traces.own, seen


def all_models(tool, folder):
    """What `cugrt trace` takes for each, by the model's file; of packs with names path, steps, bytes without names."""
    def pack(source, name, *more):
        subprocess.run([tool, "compile", source, "--arch", "compute_75", *LANES, "-o", os.path.join(folder, name), *more],
                       check=True, capture_output=True)
        return os.path.join(folder, name)

    def named_pack(source, name):
        """And a row of `packs`: it, its steps, the bytes of one without names."""
        without = os.path.getsize(pack(source, name))
        plan = subprocess.run([tool, "plan", pack(source, name, "--names"), "--json"], check=True, capture_output=True)
        steps = re.findall(rb'"steps": \[([^]]*)\]', plan.stdout)
        packs.append((os.path.join(folder, name), sum(row.count(b'"') // 2 for row in steps), without))
        return packs[-1][0]

    models, packs = {}, []
    for name, text in MODELS.items():
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        models[path] = models[pack(path, name + ".pack")] = ["--set", "n=" + VALUES]
    for name, arguments in EXAMPLES.items():
        models[os.path.join(ROOT, "examples", name)] = arguments
    for name, arguments in OF_VERSION_1.items():
        models[os.path.join(ROOT, name)] = arguments
    named, language = (os.path.join(folder, name) for name in ("named.onnx", "language.gguf"))
    with open(named, "wb") as file:
        file.write(onnx_model())
    models[named] = models[named_pack(named, "named.onnx.pack")] = ["--set", "n=" + VALUES]
    write(language, Size(layers=2, hidden=64, inner=128, heads=4, kv_heads=2, vocabulary=300, kind="f16"))
    decoder = named_pack(language, "language.pack")
    models[decoder + " decode"] = ["--function", "decode"]
    request = os.path.join(folder, "request.npy")  # sequence 0, from position 0 on
    write_npy(request, "<i4", (4,), bytes(16))
    models[decoder + " prefill"] = ["--function", "prefill", "--input", "request=" + request, "--set", "n=" + VALUES]
    return models, packs


def main():
    with tempfile.TemporaryDirectory() as folder:
        own = not sys.argv[2:]
        models, packs = all_models(sys.argv[1], folder) if own else ({sys.argv[2]: sys.argv[3:]}, [])
        traces = Traces(sys.argv[1], folder, models)
        traces.own, traces.packs = own, packs
        return run_tests(traces)


if __name__ == "__main__":
    sys.exit(main())
