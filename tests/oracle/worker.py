"""Compares one seed after the other; run by oracle.py, under the Python that has apache-tvm.

Reads seeds on standard input, one a line, and writes one JSON object a line. The published passes
may end the process; oracle.py then starts another one and counts the seed as one that died.
"""
import json
import subprocess
import sys
import traceback

import as_relax
import as_text
import draw
import mixed
import read_plans
import read_relax

import tvm
from tvm import relax

FLAWS = ("pool_outlives_branch", "repeated_part_breaks", "control_keeps_region",
         "match_keeps_region", "results_are_no_uses", "conditions_are_no_uses",
         "matches_are_no_uses", "views_hide_results", "merge_ignores_calls",
         "unused_storage_breaks_merge", "allocation_at_first_storage", "aliases_hide_symbols",
         "results_hide_symbols", "equal_in_any_bounds")


class Plans:
    """Our side: a program that answers requests."""

    def __init__(self, path):
        self.path = path
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, text, slots, flaws):
        return self.request({"text": text, "slots": slots, "flaws": sorted(flaws)})

    def request(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer:
            return json.loads(answer)
        status = self.process.wait()
        self.start()
        raise RuntimeError(f"{self.path} ended with status {status}")


def published(module):
    """What both passes give: {"skeletons", "well_formed", "seed"} as far as they get."""
    relax_module = as_relax.build(module)
    out = {}
    if module.mode == "chain":
        try:
            relax_module = relax.transform.StaticPlanBlockMemory()(relax_module)
        except Exception as error:  # what the pass throws has no common class
            return {"exception": "token" if "token2block_" in str(error) else str(error)}
    plans = read_relax.planned(relax_module, module.mode == "lowered")
    if module.mode == "chain":
        out["skeletons"] = {name: plan.skeleton for name, plan in plans.items()}
        out["well_formed"] = not any(plan.undefined for plan in plans.values())
        if not out["well_formed"]:
            return out
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        try:
            result = relax.transform.RewriteCUDAGraph()(relax_module)
        except Exception as error:
            out["seed"] = {"exception": "merge" if is_failed_lookup(error) else str(error)}
            return out
    out["seed"] = read_relax.rewritten(result, plans)
    return out


def is_failed_lookup(error):
    """std::unordered_map::at, as the merge of allocations throws it."""
    return isinstance(error, IndexError) or "map::at" in str(error) or "_Map_base::at" in str(error)


def ours(plans, module, text, lines, flaws):
    answer = plans.ask(text, module.mode == "chain", flaws)
    if "error" in answer:
        return answer
    if answer.get("exception"):
        return {"exception": answer["exception"]}
    out = {}
    if module.mode == "chain":
        out["skeletons"] = read_plans.skeletons(answer)
        out["well_formed"] = answer["well_formed"]
        if not out["well_formed"]:
            return out
    out["seed"] = read_plans.rewritten(answer, lines, module.mode == "chain")
    return out


def differences(a, b, path=""):
    """[(path, theirs, ours)] where two results are not the same."""
    if isinstance(a, dict) and isinstance(b, dict):
        found = []
        for key in list(a) + [k for k in b if k not in a]:
            found += differences(a.get(key), b.get(key), f"{path}/{key}")
        return found
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        found = []
        for i, (x, y) in enumerate(zip(a, b)):
            found += differences(x, y, f"{path}[{i}]")
        return found
    return [] if a == b else [(path, a, b)]


def features(module):
    found = set()

    def visit(block):
        for b in block.bindings:
            if b.kind in ("if", "extern"):
                found.add(b.kind)
            for nested in b.blocks:
                visit(nested)
    for function in module.functions:
        visit(function.body)
    if len(module.functions) > 1:
        found.add("functions")
    return sorted(found)


def needed(same):
    """Switches none of which can be left out; None where even all of them do not help."""
    chosen = set(FLAWS)
    if not same(chosen):
        return None
    for flaw in FLAWS:
        if same(chosen - {flaw}):
            chosen.discard(flaw)
    return sorted(chosen)


def compare(plans, seed):
    module = draw.draw(seed)
    text, lines = as_text.write(module)
    theirs = published(module)
    mine = ours(plans, module, text, lines, ())
    out = {"seed": seed, "features": features(module), "mode": module.mode}
    if mine == theirs:
        return {**out, "flaws": []}
    flaws = needed(lambda chosen: ours(plans, module, text, lines, chosen) == theirs)
    if flaws is not None:
        return {**out, "flaws": flaws}
    with_all = ours(plans, module, text, lines, FLAWS)
    nearest = min((mine, with_all), key=lambda m: len(differences(theirs, m)))
    return {**out, "text": text, "flaws_on": nearest is with_all, "differences": [
        {"at": at, "published": a, "ours": b} for at, a, b in differences(theirs, nearest)]}


def compare_both(plans, mixed_precision, seed):
    """One test: storage and regions, then precision."""
    result = compare(plans, seed)
    if "flaws" in result:
        failure, text, result["narrow"] = mixed_precision.compare(seed)
        if failure:
            del result["flaws"]
            result["failure"], result["text"] = "mixed precision\n" + failure, text
    return result


def main():
    plans = Plans(sys.argv[1])
    mixed_precision = mixed.Mixed(plans)
    for line in sys.stdin:
        seed = int(line)
        try:
            result = compare_both(plans, mixed_precision, seed)
        except Exception:
            result = {"seed": seed, "failure": traceback.format_exc(), "features": [],
                      "text": as_text.write(draw.draw(seed))[0]}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
