#!/usr/bin/env python3
"""The graphs of `bench launch` through PyTorch: eager, and captured by torch.cuda.CUDAGraph.

  launch_torch.py [--json FILE] [--graph NAME] [--nodes N] [--rounds N]

Kernels of chain, fork_join and layered are compiled by PyTorch from the same arithmetic, one launch
each; the transformer's layers are PyTorch's own operators, so their number of kernels is PyTorch's.
`first` of `captured` counts capture, instantiation and the first replay, not the run on a side
stream that PyTorch asks for before it, which stands as warm_up_us. `recapture` is the same at
another shape while the old graph is dropped.

Rows are those of `bench launch`, with `bench` "launch_torch". Where torch or a GPU is missing there
is nothing to compare with: that is said, FILE gets no rows, and the exit status is 0.
"""
import argparse
import statistics
import sys
import time

from support.write_json import write_json

GRAPHS = ("chain", "fork_join", "layered", "transformer")
SIZES = (1, 10, 100, 1000, 10000)
COLUMNS, FORKS, LAYER_WIDTH = 32, 8, 16
WIDTH, HEADS, HIDDEN, LAYER_LAUNCHES = 32, 2, 64, 18


def launches(graph, nodes):
    """What each launch takes, by number: 0 is the input, i what launch i wrote."""
    taken = []

    def launch(*inputs):
        if len(taken) < nodes:
            taken.append(inputs)
        return len(taken)

    row = [0] * LAYER_WIDTH
    while len(taken) < nodes:
        if graph == "chain":
            launch(len(taken))
        elif graph == "fork_join":
            start = len(taken)
            launch(launch(*[launch(start) for _ in range(FORKS)]))
        else:
            row = [launch(row[i], row[(i * 5 + 3) % LAYER_WIDTH]) for i in range(LAYER_WIDTH)]
    return taken


def mean_kernels(torch, counts):
    kernels = {}
    for count in counts:
        names = [f"x{i}" for i in range(count)]
        code = (f"template <typename T> T mean{count}({', '.join('T ' + n for n in names)}) "
                f"{{ return ({' + '.join(names)}) / T({count}); }}")
        kernels[count] = torch.cuda.jiterator._create_jit_fn(code)
    return kernels


def made_up_model(torch, graph, nodes):
    taken = launches(graph, nodes)
    kernels = mean_kernels(torch, {len(inputs) for inputs in taken})
    last_use = {}
    for i, inputs in enumerate(taken):
        for tensor in inputs:
            last_use[tensor] = i

    def run(x):
        values = {0: x}
        for i, inputs in enumerate(taken):
            values[i + 1] = kernels[len(inputs)](*[values[tensor] for tensor in inputs])
            for tensor in set(inputs):
                if last_use[tensor] == i:  # its memory goes back, as in a plan
                    del values[tensor]
        return values[len(taken)]

    return run, [torch.ones(rows, COLUMNS, device="cuda") for rows in (1, 2)]


def transformer_model(torch, nodes):
    functional = torch.nn.functional
    layers = -(-nodes // LAYER_LAUNCHES)

    def zeros(*dims):
        return torch.zeros(*dims, device="cuda")

    scale, shift = zeros(WIDTH), zeros(WIDTH)
    q, k, v, o = (zeros(WIDTH, WIDTH) for _ in range(4))
    up, down, up_bias = zeros(HIDDEN, WIDTH), zeros(WIDTH, HIDDEN), zeros(HIDDEN)

    def heads(x):
        return x.view(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

    def run(x):
        for _ in range(layers):
            n = functional.layer_norm(x, (WIDTH,), scale, shift)
            scores = heads(functional.linear(n, q, shift)) @ heads(
                functional.linear(n, k, shift)).transpose(2, 3)
            mixed = torch.softmax(scores, -1) @ heads(functional.linear(n, v, shift))
            x = x + functional.linear(mixed.transpose(1, 2).reshape(x.shape), o, shift)
            n = functional.layer_norm(x, (WIDTH,), scale, shift)
            x = x + functional.linear(functional.gelu(functional.linear(n, up, up_bias)), down, shift)
        return x

    return run, [torch.ones(1, length, WIDTH, device="cuda") for length in (3, 4)]


class Case:
    def __init__(self, torch, graph, nodes):
        self.torch = torch
        self.run, self.inputs = (transformer_model(torch, nodes) if graph == "transformer"
                                 else made_up_model(torch, graph, nodes))

    def timed(self, call):
        """Host microseconds of a call that begins with the device idle."""
        self.torch.cuda.synchronize()
        start = time.perf_counter_ns()
        call()
        spent = (time.perf_counter_ns() - start) / 1e3
        self.torch.cuda.synchronize()
        return spent

    def on_device(self, call):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3

    def warm_up(self, x):
        stream = self.torch.cuda.Stream()
        with self.torch.cuda.stream(stream):
            self.run(x)
        stream.synchronize()

    def capture(self, x):
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            self.run(x)
        return graph

    def measure(self, rounds):
        torch, figures = self.torch, {m: {"first": [], "repeat": [], "device": [], "warm": []}
                                      for m in ("plain", "captured", "recapture")}
        with torch.no_grad():
            for number in range(rounds):
                x = self.inputs[number % 2]
                plain = figures["plain"]
                plain["first"].append(self.timed(lambda: self.run(x)))
                plain["repeat"].append(self.timed(lambda: self.run(x)))
                plain["device"].append(self.on_device(lambda: self.run(x)))
                graph = None
                for mode, of in (("captured", x), ("recapture", self.inputs[1 - number % 2])):
                    to = figures[mode]
                    to["warm"].append(self.timed(lambda: self.warm_up(of)))

                    def first():
                        nonlocal graph
                        graph = None
                        graph = self.capture(of)
                        graph.replay()

                    to["first"].append(self.timed(first))
                    to["repeat"] += [self.timed(graph.replay) for _ in range(5)]
                    to["device"].append(self.on_device(graph.replay))
            before = torch.cuda.mem_get_info()[0]
            kept = [self.capture(self.inputs[0]) for _ in range(4)]
            torch.cuda.synchronize()
            bytes_each = (before - torch.cuda.mem_get_info()[0]) / len(kept)
        return figures, bytes_each


def rows_of(torch, graph, nodes, rounds):
    figures, bytes_each = Case(torch, graph, nodes).measure(rounds)
    for mode, of in figures.items():
        yield {
            "bench": "launch_torch", "case": f"{graph}_{nodes}", "graph": graph, "nodes": nodes, "mode": mode,
            "host_us_first": statistics.median(of["first"]), "host_us_repeat": statistics.median(of["repeat"]),
            "device_us": statistics.median(of["device"]), "instantiate_us": None,
            "bytes_per_node": None if mode == "plain" else bytes_each / nodes,
            "driver": torch.cuda.get_device_name(), "rounds": rounds,
            "warm_up_us": statistics.median(of["warm"]) if of["warm"] else None,
            "not_measured": "instantiate_us: PyTorch instantiates where capture ends",
        }


def markdown(rows):
    names = ("graph", "mode", "nodes", "host_us_first", "host_us_repeat", "device_us", "warm_up_us")
    lines = ["| " + " | ".join(names) + " |", "|---|---|" + "---:|" * (len(names) - 2)]
    for row in rows:
        cells = [f"{row[name]:.2f}" if isinstance(row[name], float) else str(row[name] or "-") for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="the graphs of bench launch through PyTorch")
    parser.add_argument("--json")
    parser.add_argument("--graph", choices=GRAPHS)
    parser.add_argument("--nodes", type=int, choices=SIZES)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    missing = None
    try:
        import torch
        if not torch.cuda.is_available():
            missing = "this PyTorch finds no GPU"
    except ImportError:
        missing = "torch is not installed (pip install torch)"
    rows = []
    if missing:
        print(f"launch_torch: nothing to compare with: {missing}")
    else:
        for graph in [arguments.graph] if arguments.graph else GRAPHS:
            for nodes in [arguments.nodes] if arguments.nodes else SIZES:
                rounds = 3 if nodes == 10000 else max(arguments.rounds, 1)
                rows += rows_of(torch, graph, nodes, rounds)
        print(f"# bench launch_torch\n\nPyTorch {torch.__version__}, {torch.cuda.get_device_name()}; "
              f"medians, microseconds.\n\n{markdown(rows)}")
    if arguments.json:
        write_json(arguments.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
