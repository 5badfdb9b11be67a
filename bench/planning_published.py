"""Times StaticPlanBlockMemory and RewriteCUDAGraph of the installed apache-tvm.

usage: planning_published.py REPEATS FILE...   (files as bench/planning_modules.h writes them)
Prints, for each file, the CPU seconds of both passes together, the least of REPEATS runs.
"""

import sys
import time

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module(s_tir=True)
class Empty:
    @T.prim_func(s_tir=True)
    def kernel(a: T.handle):
        T.evaluate(0)


def build(path):
    """The module in destination-passing form: one kernel for each number of operands."""
    with open(path) as file:
        first, *launches = [[int(word) for word in line.split()] for line in file]
    inputs, weights, *sizes = first
    kernels = {}
    template = Empty["kernel"]

    def tensor(elements):
        return relax.TensorType((elements,), "float32")

    tensors = [relax.Var(f"p{i}", tensor(size)) for i, size in enumerate(sizes)]
    builder = relax.BlockBuilder()
    with builder.function("main", list(tensors), {"num_input": inputs}):
        for elements, *taken in launches:
            if len(taken) not in kernels:
                params = [tvm.tirx.Var(f"a{i}", "handle") for i in range(len(taken) + 1)]
                kernels[len(taken)] = builder.add_func(
                    tvm.tirx.PrimFunc(params, template.body), f"take{len(taken)}")
            out = builder.emit(
                relax.op.builtin.alloc_tensor(relax.ShapeExpr([elements]), "float32", 0))
            tensors.append(out)
            builder.emit(relax.Call(kernels[len(taken)], [tensors[t] for t in taken] + [out],
                                    None, []))
        builder.emit_func_output(tensors[-1])
    return builder.get()


def main():
    repeats = int(sys.argv[1])
    config = {"relax.backend.use_cuda_graph": True}
    for path in sys.argv[2:]:
        module = build(path)
        best = None
        with tvm.target.Target("cuda"), tvm.transform.PassContext(config=config):
            for _ in range(repeats):
                start = time.process_time()
                planned = relax.transform.StaticPlanBlockMemory()(module)
                planned = relax.transform.RewriteCUDAGraph()(planned)
                seconds = time.process_time() - start
                best = seconds if best is None else min(best, seconds)
        regions = sum(1 for var in planned.get_global_vars() if "capture" in var.name_hint)
        if regions == 0:
            sys.exit(f"{path}: RewriteCUDAGraph has lifted no region")
        print(f"{best:.9f}", flush=True)


main()
