#!/usr/bin/env python3
"""Six PyTorch models as torch.export writes them, beside `relax.build` for CUDA. No device is needed.

  ./dev bench relax [--json FILE] [MODEL...]

launches: kernels that one run launches; here they are nodes of graphs. bytes: planned storage at the upper bounds of
dynamic dimensions, without weights and results. seconds: from the exported program to machine code for sm_90, of it
compile: without the import. Without a device tvm.compile ends with CUDA source: TVM's own function compiles that by
NVRTC, where cuda-bindings is installed, which is said above the table.
relax.build runs TVM's own pipeline for CUDA with CUDA graphs on. Where TVM does not build what its importer makes, it
gets the module that cugrt.to_relax makes of ours: such rows end with what TVM said.
"""
import argparse
import collections
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "python"))
ARCHITECTURE = "sm_90"
HAS_NVRTC = importlib.util.find_spec("cuda") is not None and importlib.util.find_spec("cuda.bindings") is not None


def ours(program, folder):
    """A row's half."""
    import cugrt

    begin = time.perf_counter()
    module = cugrt.from_exported(program)
    imported = time.perf_counter()
    pack = os.path.join(folder, "model.pack")
    cugrt.compile(module, pack, ARCHITECTURE, progress=False)
    end = time.perf_counter()
    tool = os.path.join(os.path.dirname(cugrt.__file__), "prefix", "bin", "cugrt")
    plan, = json.loads(subprocess.run([tool, "plan", "--json", pack], check=True, capture_output=True).stdout)["plans"]
    main, = [one for one in plan["functions"] if one["name"] == "main"]
    assert not main["bindings"], "a step is outside of graphs"
    return {"launches": sum(region["nodes"] for region in main["regions"]),
            "bytes": sum(arena["bytes"] for arena in plan["arenas"]), "seconds": end - begin,
            "compile_seconds": end - imported}


def imported_by_tvm(program):
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program

    return relax.frontend.detach_params(from_exported_program(program, keep_params_as_input=True))[0]


def calls_and_storage(planned):
    """Calls by name, and bytes of storages."""
    import tvm
    from tvm import relax

    calls, total = collections.Counter(), 0

    def visit(e):
        nonlocal total
        if not isinstance(e, relax.Call):
            return
        if isinstance(e.op, tvm.ir.GlobalVar):
            calls[e.op.name_hint] += 1
        elif getattr(e.op, "name", "") == "relax.memory.alloc_storage":
            size = e.args[0].values[0]
            assert isinstance(size, tvm.tirx.IntImm), f"a storage of {size} bytes"
            total += int(size)

    for function in planned.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return calls, total


def cuda_sources(module):
    imports, found = list(module.imports), []
    for one in imports:
        imports.extend(one.imports)
        found += [str(one.inspect_source())] if one.kind == "cuda" else []
    return found


def theirs(program, imported):
    """A row's half; `imported` gives the Relax module."""
    import tvm
    from tvm import relax
    from tvm.relax.backend.cuda import pipeline
    from tvm.support import nvcc

    bounds = {str(symbol): int(limits.upper) for symbol, limits in program.range_constraints.items()}
    target = tvm.target.Target({"kind": "cuda", "arch": ARCHITECTURE})
    begin = time.perf_counter()
    made = imported()
    made["main"] = made["main"].with_attr("tir_var_upper_bound", bounds)
    read = time.perf_counter()
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        built = tvm.compile(made, target)
        sources = cuda_sources(built.mod)
        if HAS_NVRTC:
            with target:
                for source in sources:
                    nvcc.tvm_callback_cuda_compile(source)
        end = time.perf_counter()
        passes = pipeline.library_dispatch_passes(target) + pipeline.legalize_passes(target)
        passes += [*pipeline.dataflow_lower_passes(target), relax.transform.StaticPlanBlockMemory()]
        with target:
            planned = tvm.transform.Sequential(passes)(made)
    calls, total = calls_and_storage(planned)
    kernels = collections.Counter()
    for source in sources:
        names = re.findall(r"__global__ void(?: __launch_bounds__\(\d+\))? (\w+)\(", source)
        kernels.update(re.sub(r"_kernel(_\d+)?$", "", name) for name in set(names))  # declared, then defined
    assert kernels, "there is no CUDA source"
    return {"launches": sum(count * kernels[name] for name, count in calls.items()), "bytes": total,
            "seconds": end - begin, "compile_seconds": end - read}


def exported(name):
    import exported_models
    from torch.export import export

    model, examples, dynamic = exported_models.make(name)
    return export(model, examples[0], dynamic_shapes=dynamic)


def half(name, of):
    """A row's half, in a process of its own, since an error in TVM's passes may end it; or what was said at the end."""
    done = subprocess.run([sys.executable, __file__, "--half", of, name], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    errors = [line for line in done.stderr.splitlines() if re.match(r"\w*Error: ", line)]
    return errors[-1][:100] if errors else f"the process ended with {done.returncode}"


def print_half(name, of):
    import cugrt

    program = exported(name)
    if of == "cugrt":
        with tempfile.TemporaryDirectory() as folder:
            made = ours(program, folder)
    elif of == "relax":
        made = theirs(program, lambda: imported_by_tvm(program))
    else:
        module = cugrt.from_exported(program)
        made = theirs(program, lambda: cugrt.to_relax(module))
    print(json.dumps(made))


def text(value):
    return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--json")
    parser.add_argument("--half", choices=["cugrt", "relax", "relax_of_cugrt"])
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    os.environ["CUGRT_CACHE"] = "off"
    if options.half:
        print_half(options.models[0], options.half)
        return

    import exported_models
    import torch
    import tvm

    from support.write_json import write_json

    compiler = "NVRTC" if HAS_NVRTC else "none: its seconds end with source"
    print(f"apache-tvm {tvm.__version__}, its compiler of CUDA: {compiler}; torch {torch.__version__}; {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}")
    print(f"{'':13} {'launches':>15} {'storage, bytes':>23} {'seconds':>15} {'of it compile':>15}")
    print(f"{'model':14}" + " ".join(f" {'cugrt':>{width}}  {'relax':>{width}}" for width in (6, 10, 6, 6)))
    rows = []
    for name in options.models or exported_models.NAMES:
        a, b, said = half(name, "cugrt"), half(name, "relax"), ""
        if isinstance(b, str):
            b, said = half(name, "relax_of_cugrt"), b
        if isinstance(a, str):
            sys.exit(f"{name}: {a}")
        if isinstance(b, str):
            said, b = f"{said}; of cugrt's module: {b}", dict.fromkeys(a)
        rows.append({"bench": "relax", "model": name, "cugrt": a, "relax": b, "refused": said})
        widths = {"launches": 6, "bytes": 10, "seconds": 6, "compile_seconds": 6}
        shown = [" ".join(f" {text(one[key]):>{width}}" for one in (a, b)) for key, width in widths.items()]
        print(f"{name:14}" + " ".join(shown) + (f"  {said}" if said else ""), flush=True)
    if options.json:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
