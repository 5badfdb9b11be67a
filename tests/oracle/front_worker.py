"""Runs Relax modules here and in TVM's virtual machine, one seed after the other; run by front.py.

Reads seeds on standard input, one a line, and writes one JSON object a line.
"""
import json
import sys
import traceback

import as_relax
import canonical_text
import draw
import draw_relax
import numpy
import tvm
from tvm import relax

import cugrt
from cugrt.relax.reader import Reader
from cugrt.relax.writer import Writer

SIZES = (1, 5)  # of n
NUDGES = 9  # the first is none
LEGALIZED_EVERY = 16  # seeds: their ops are PrimFuncs before they come in

STEPS = ("LegalizeOps", "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite",
         "LowerAllocTensor", "KillAfterLastUse", "LowerRuntimeBuiltin", "ComputePrimValue", "VMShapeLower",
         "AttachGlobalSymbol")


def machine_of(module):
    """TVM's virtual machine on a CPU, without planned storage: what is planned there crosses branches and crashes."""
    pipeline = tvm.transform.Sequential([getattr(relax.transform, name)() for name in STEPS])
    return relax.VirtualMachine(tvm.compile(module, "llvm", relax_pipeline=pipeline), tvm.cpu())


def flat(made):
    """The parts of what the virtual machine gives, as arrays."""
    return [made.numpy()] if hasattr(made, "numpy") else [part for one in made for part in flat(one)]


def undecided(drawn, machine, n, yes, at):
    """Which elements of a result the virtual machine itself gives otherwise for inputs that differ by a rounding."""
    rng, made = numpy.random.default_rng(n), []
    for step in range(NUDGES):
        arguments = [a for given in drawn.arguments(n, yes) for a in given.values()]
        if step:
            arguments = [a * (1 + rng.choice([-1, 1], a.shape) * 2.0**-22).astype(a.dtype)
                         if a.dtype == "float32" else a for a in arguments]
        made.append(flat(machine["main"](*map(tvm.runtime.tensor, arguments)))[at])
    first = made[0]
    if first.dtype.kind != "f":
        return numpy.any([one != first for one in made], axis=0)
    limit = 1e-3 * max(float(numpy.abs(first).max(initial=0)), 1.0)
    return numpy.any([~(numpy.abs(one - first) <= limit) for one in made], axis=0)


def unlike(ours, theirs):
    """What differs of two arrays, in words; None where nothing does."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype} {ours.shape} where {theirs.dtype} {theirs.shape} is right"
    if ours.dtype.kind != "f":
        count = int((ours != theirs).sum())
        return f"{count} of {ours.size} elements of {ours.dtype} differ" if count else None
    largest = max(float(numpy.abs(theirs).max(initial=0)), 1.0)
    gap = numpy.abs(ours - theirs) - 1e-4 * numpy.abs(theirs)
    worst = float(gap.max(initial=0)) if not numpy.isnan(gap).any() else float("nan")
    return None if worst <= 2e-5 * largest else f"off by {worst} where the largest is {largest}"


def compare_runs(drawn, module, machine):
    _, weights = drawn.arguments(SIZES[0], True)
    model = cugrt.load(module, weights=weights or None)
    names = [one.name for one in model.inputs]
    for n in SIZES:
        for yes in (True, False)[: 1 + drawn.has_condition]:
            inputs, weights = drawn.arguments(n, yes)
            order = [inputs[name] for name in inputs]
            theirs = flat(machine["main"](*map(tvm.runtime.tensor, [*order, *weights.values()])))
            ours = model(**dict(zip(names, order)))
            ours = ours if isinstance(ours, tuple) else (ours,)
            if len(ours) != len(theirs):
                return f"{len(ours)} results where {len(theirs)} are right"
            for at, (a, b) in enumerate(zip(ours, theirs)):
                found = unlike(numpy.asarray(a), b)
                if found and numpy.shape(a) == b.shape:
                    kept = ~undecided(drawn, machine, n, yes, at)
                    found = unlike(numpy.asarray(a)[kept], b[kept])
                if found:
                    return f"result {at} at n = {n}, {yes}: {found}"
    if model.counters["eager_steps"]:
        return "steps were run one by one"
    return None


def compare_texts(what, before, after):
    before, after = canonical_text.of(before), canonical_text.of(after)
    if before == after:
        return None
    return f"{what} is not the identity:\n{before}\n--- and after:\n{after}"


def compare_planned(seed):
    """A module of kernels, as the published passes take it: through the text and back, twice."""
    module = as_relax.build(draw.draw(seed))
    reader = Reader(module, {}, None, {}, opaque=True)
    text = reader.read().text
    again = Reader(Writer(text, reader).write(), {}, None, {}, opaque=True).read().text
    return compare_texts("reading what was written, of a module of kernels,", text, again)


def compare(seed):
    drawn = draw_relax.Drawn(seed)
    out = {"seed": seed, "features": sorted(drawn.features), "ops": sum(len(part.ops) for part in drawn.parts)}
    out["text"] = drawn.module.script()
    module = cugrt.from_relax(drawn.module)
    out["text"] += "\n" + module.text
    machine = machine_of(drawn.module)
    ran = module
    if seed % LEGALIZED_EVERY == 0:
        try:
            ran = cugrt.from_relax(relax.transform.LegalizeOps()(drawn.module))
            out["features"].append("call_tir")
        except cugrt.Error as error:
            if "it reduces over one element" not in str(error):
                raise
    failure = compare_runs(drawn, ran, machine)
    failure = failure or compare_texts("from_relax of to_relax", module.text, cugrt.from_relax(cugrt.to_relax(module)).text)
    failure = failure or compare_planned(seed)
    return {**out, "failure": failure} if failure else {**out, "text": ""}


def main():
    for line in sys.stdin:
        seed = int(line)
        try:
            result = compare(seed)
        except Exception:  # any failure is this seed's
            result = {"seed": seed, "features": [], "failure": traceback.format_exc()}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
