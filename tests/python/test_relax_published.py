"""Modules of the published suites: they come in, and our passes give what TVM's own give, or a mended defect's name."""

import re

import pytest

import cugrt
from published_modules import MENDED, REGIONS, STORAGE, symbolic
from test_relax import parsed

tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed (the extra cugrt[relax])")
import tvm_ffi  # noqa: E402
from cugrt.relax.dialect import VERSION, bare, name_of  # noqa: E402
from tvm import relax, tirx  # noqa: E402

GRAPHS = {"relax.backend.use_cuda_graph": True}


SIZES = {"m": 3, "n": 5, "k": 7}  # at which sizes are compared


def size(e):
    """An expression's value, since the passes write one in several forms."""
    text = re.sub(r"T\.int64\((\d+)\)", r"\1", str(e)).replace("T.max", "max").replace("T.min", "min")
    return eval(text, {"max": max, "min": min}, SIZES)  # of numbers, symbols and operators


def is_prim(f):
    return isinstance(f, tirx.PrimFunc)


class Plan:
    """What a function does: kernels with their operands, regions with their keys, and where tensors lie.

    Tensors have the names that the module gave them, storages those of their order; kills are left out, since ours
    drops those of storages that it lifts.
    """

    def __init__(self, module):
        self.functions = {var.name_hint: f for var, f in module.functions.items() if not is_prim(f)}
        self.lines, self.values, self.count = [], {}, 0

    def of(self, name):
        f = self.functions[name]
        self.lines, self.values, self.count = [], {p: name_of(p) for p in f.params}, 0
        result = self.body(f.body, "")
        return [*self.lines, f"return {result}"]

    def body(self, seq, indent):
        for block in seq.blocks:
            for binding in block.bindings:
                self.values[binding.var] = self.value(binding.value, name_of(binding.var), indent)
        return self.value(seq.body, "", indent)

    def value(self, e, name, indent):
        e = bare(e)
        if isinstance(e, relax.Var):
            return self.values.get(e, name_of(e))
        if isinstance(e, relax.Tuple):
            return [self.value(field, name, indent) for field in e.fields]
        if isinstance(e, relax.TupleGetItem):
            whole = self.value(e.tuple_value, name, indent)
            return whole[e.index] if isinstance(whole, list) else f"{whole}.{e.index}"
        if isinstance(e, relax.ShapeExpr):
            return str([size(d) for d in e.values])
        if isinstance(e, relax.If):
            return self.branch(e, indent)
        if isinstance(e, relax.Call):
            return self.call(e, name, indent)
        return str(e)

    def branch(self, e, indent):
        condition = self.value(e.cond, "", indent)
        results = []
        for word, branch in (("if", e.true_branch), ("else", e.false_branch)):
            self.lines.append(f"{indent}{word} {condition}")
            results.append(self.body(branch, indent + "  "))
        return f"{results[0]} or {results[1]}"

    def call(self, e, name, indent):
        is_extern = isinstance(e.op, relax.ExternFunc)
        op = str(e.op.global_symbol) if is_extern else getattr(e.op, "name_hint", None) or e.op.name
        if op == "relax.call_builtin_with_ctx":
            return self.builtin(str(e.args[0].global_symbol), list(e.args[1].fields), indent)
        if op.endswith(("kill_tensor", "kill_storage")):
            return "nothing"
        args = [self.value(a, name, indent) for a in e.args]
        if op == "relax.memory.alloc_storage":
            self.count += 1
            return f"storage {self.count - 1} of {args[0]} {args[2]}"
        if op == "relax.memory.alloc_tensor":
            self.lines.append(f"{indent}{name}: {args[2]} {args[3]} in {args[0]}")
            return name
        if op == "relax.builtin.alloc_tensor":
            self.lines.append(f"{indent}{name}: {args[0]} {args[1]}")
            return name
        if op in ("relax.reshape", "vm.builtin.reshape", "relax.memory.view"):
            return f"{args[0]} as {args[1]}"
        if op == "relax.memory.ensure_zero_offset":
            return args[0]
        if op == "relax.vm.call_tir_dyn":
            args, op = args[1], e.args[0].name_hint
        if op in self.functions:
            self.lines.append(f"{indent}call {op}{args}")
            return f"result of {op}"
        if op == "relax.null_value":
            return op
        self.lines.append(f"{indent}{op}{args}")
        return f"result of {op}"

    def builtin(self, name, fields, indent):
        callee = self.functions[fields[0].name_hint]
        if name.endswith("get_cached_alloc"):
            sizes = [b.value for block in callee.body.blocks for b in block.bindings if isinstance(b.value, relax.Call)]
            return [f"slot {i} of {[size(d) for d in e.args[0].values]} {e.args[2]}" for i, e in enumerate(sizes)]
        given = self.value(fields[1], "", indent)
        key = [self.value(one, "", indent) for one in fields[3:]]
        self.lines.append(f"{indent}region {int(bare(fields[2]))} of {fields[0].name_hint} by {key}")
        outer, self.values = self.values, dict(zip(callee.params, given))
        result = self.body(callee.body, indent + "  ")
        self.values = outer
        return result


def plans_of(module):
    plan = Plan(module)
    lifted = ("cuda_graph_alloc", "_cuda_graph_capture")
    return {name: plan.of(name) for name in plan.functions if not name.endswith(lifted)}


def both(theirs, ours, module):
    """What the published pass and ours make of a module; regions are on in both."""
    with tvm.transform.PassContext(config=GRAPHS):
        a = plans_of(theirs(module))
    with cugrt.transform.PassContext(config=GRAPHS):
        made = ours(module)
    relax.analysis.well_formed(made)
    return a, plans_of(made)


@pytest.mark.parametrize("name", REGIONS)
def test_regions(name):
    text, is_packed = REGIONS[name]
    module = parsed(text)
    a, b = both(relax.transform.RewriteCUDAGraph(), cugrt.transform.RewriteCUDAGraph(), module)
    assert a == b
    assert tvm_ffi.structural_equal(cugrt.transform.RewriteCUDAGraph()(module), module)  # off
    if not is_packed:
        with tvm.transform.PassContext(config=GRAPHS):
            after = relax.transform.RewriteCUDAGraph()(module)
        # Storage of a size that no bound gave is as large as the symbol may be.
        comes_in(module, after, bounds={"m": (0, 4)} if name == "a symbol that is captured" else None)


# What a later version of TVM mended as it is here: the first that did.
MENDED_THERE = {"a packed reshape": (0, 27)}  # it is an alias


@pytest.mark.parametrize("name", STORAGE)
def test_storage(name):
    text, is_packed = STORAGE[name]
    module = parsed(text)
    a, b = both(relax.transform.StaticPlanBlockMemory(), cugrt.transform.StaticPlanBlockMemory(), module)
    assert (a == b) == (VERSION >= MENDED_THERE.get(name, VERSION))
    if not is_packed:
        comes_in(module, relax.transform.StaticPlanBlockMemory()(module))


@pytest.mark.parametrize("flaw", MENDED)
def test_mended(flaw):
    """Where ours differs, the flaw's name is that of the oracle's switch."""
    a, b = both(relax.transform.RewriteCUDAGraph(), cugrt.transform.RewriteCUDAGraph(), parsed(MENDED[flaw]))
    assert a != b


def comes_in(*modules, bounds=None):
    for module in modules:
        assert isinstance(cugrt.from_relax(module, bounds=bounds), cugrt.Module)


@pytest.mark.parametrize("bound", ['"lots"', "4.5", "[4]"])
@pytest.mark.parametrize("which", ["upper", "lower"])
def test_a_bound_is_a_whole_number(bound, which):
    text = symbolic(f'"tir_var_{which}_bound": {{"n": {bound}}}')
    for use in (cugrt.from_relax, cugrt.transform.StaticPlanBlockMemory()):
        with pytest.raises(cugrt.Error, match=f"the {which} bound of 'n' of function 'main' is no whole number"):
            use(parsed(text))
