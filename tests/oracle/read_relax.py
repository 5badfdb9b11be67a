"""What the published passes did, read from the modules that they give, in canonical form.

Storages that StaticPlanBlockMemory adds are named after their first tensor: "S:v3".
"""
from tvm import relax, tirx
from tvm.ir import Call, Op, PrimType
from tvm.tirx import IntImm

from canonical import FINGERPRINTS

_alloc_storage = Op.get("relax.memory.alloc_storage")
_alloc_tensor = Op.get("relax.memory.alloc_tensor")
_builtin_alloc = Op.get("relax.builtin.alloc_tensor")
_with_context = Op.get("relax.call_builtin_with_ctx")


def value_of(expr, symbols):
    if isinstance(expr, IntImm):
        return int(expr.value)
    if isinstance(expr, tirx.Var):
        return symbols(expr.name)
    if isinstance(expr, tirx.Cast):
        return value_of(expr.value, symbols)
    a, b = value_of(expr.a, symbols), value_of(expr.b, symbols)
    if isinstance(expr, tirx.Add):
        return a + b
    if isinstance(expr, tirx.Sub):
        return a - b
    if isinstance(expr, tirx.Mul):
        return a * b
    if isinstance(expr, tirx.FloorDiv):
        return a // b
    if isinstance(expr, tirx.Max):
        return max(a, b)
    if isinstance(expr, tirx.Min):
        return min(a, b)
    raise TypeError(f"no reading of {type(expr)}")


def fingerprint(expr):
    """An integer, or an expression's values at several points."""
    if isinstance(expr, IntImm):
        return int(expr.value)
    return [value_of(expr, symbols) for symbols in FINGERPRINTS]


def functions_of(module):
    for var, function in module.functions.items():
        if isinstance(function, relax.Function):
            yield var.name_hint, function


def blocks_of(binding):
    """(suffix of the path, SeqExpr) of an `if`'s branches."""
    value = binding.value
    if isinstance(value, relax.If):
        yield "0", value.true_branch
        yield "1", value.false_branch


class Planned:
    """One function after StaticPlanBlockMemory: its skeleton, and the order of its bindings."""

    def __init__(self, function, own_storages):
        self.own_storages = own_storages  # the module was written with storages
        self.skeleton = []
        self.order = {}         # by block's path: names
        self.canonical = {}     # by name of a storage
        self.undefined = []
        self.visible = set()
        self.block(function.body, "")

    def block(self, seq, path):
        order = self.order[path] = []
        outer = set(self.visible)
        for block in seq.blocks:
            bindings = list(block.bindings)
            for i, binding in enumerate(bindings):
                following = bindings[i + 1] if i + 1 < len(bindings) else None
                order.append(self.binding(binding, following, path))
        self.visible = outer

    def binding(self, binding, following, path):
        name, value = binding.var.name, binding.value
        op = value.op if isinstance(value, Call) else None
        if op is not None and op.same_as(_alloc_storage):
            canonical = name if self.own_storages else "S:" + following.var.name
            self.canonical[name] = canonical
            self.visible.add(name)
            size, _, scope, dtype = value.args
            self.skeleton.append(["storage", canonical, fingerprint(size.values[0]), scope.value,
                                  str(dtype.value)])
            return canonical
        if op is not None and op.same_as(_alloc_tensor):
            storage = value.args[0].name
            if storage not in self.visible:
                self.undefined.append(self.canonical.get(storage, storage))
            self.skeleton.append(["tensor", name, self.canonical.get(storage, storage)])
        elif op is not None and op.same_as(_builtin_alloc):
            self.skeleton.append(["alloc", name])
        for suffix, seq in blocks_of(binding):
            self.skeleton.append(["block", name + "." + suffix])
            self.block(seq, name + "." + suffix)
            self.skeleton.append(["end", name + "." + suffix])
        return name


def planned(module, own_storages):
    return {name: Planned(function, own_storages) for name, function in functions_of(module)}


class Rewritten:
    """One function after RewriteCUDAGraph."""

    def __init__(self, function, plan, lifted):
        self.plan, self.lifted = plan, lifted
        self.sequence, self.regions, self.storages, self.undefined = {}, [], {}, []
        self.launches = {}      # variable that holds a launch's result: region, or None: the slots
        self.visible = {p.name for p in function.params}
        self.block(function.body, "")
        for region in self.regions:
            region["outputs"] = [region["outputs"].get(i, "?") for i in range(region.pop("count"))]

    def canonical(self, name):
        return self.plan.canonical.get(name, name)

    def use(self, expr):
        """Notes variables that nothing has defined."""
        if isinstance(expr, relax.Var):
            name = expr.name
            if isinstance(expr.ty, PrimType):
                return  # a symbol
            if name not in self.visible and self.canonical(name) not in self.undefined:
                self.undefined.append(self.canonical(name))
        elif isinstance(expr, relax.Tuple):
            for field in expr.fields:
                self.use(field)
        elif isinstance(expr, Call):
            for arg in expr.args:
                self.use(arg)
        elif isinstance(expr, relax.TupleGetItem):
            self.use(expr.tuple_value)
        elif isinstance(expr, relax.If):
            self.use(expr.cond)

    def block(self, seq, path):
        sequence = self.sequence[path] = []
        outer = set(self.visible)
        present = set()
        own = []
        for block in seq.blocks:
            for binding in block.bindings:
                region = self.binding(binding, sequence, present)
                if region is not None:
                    own.append(region)
        self.use(seq.body)
        self.visible = outer
        # What is neither there nor a lifted storage is in this block's regions, one after another.
        missing = [n for n in self.plan.order[path] if n not in present and not self.is_storage(n)]
        for region in own:
            count = region.pop("bindings")
            region["bindings"], missing = missing[:count], missing[count:]
        if missing:
            sequence.append("left over: " + " ".join(missing))

    def is_storage(self, name):
        return name in self.storages or name in self.plan.canonical.values()

    def binding(self, binding, sequence, present):
        """Gives the region that the binding launches, if any."""
        name, value = binding.var.name, binding.value
        if isinstance(value, relax.TupleGetItem):
            holder = value.tuple_value
            if isinstance(holder, relax.Var) and holder.name in self.launches:
                self.read(self.launches[holder.name], int(value.index), name)
                if holder.name in self.visible:
                    self.visible.add(name)
                return None
        if isinstance(value, Call) and value.op.same_as(_with_context):
            callee = value.args[0].global_symbol
            if callee == "vm.builtin.cuda_graph.get_cached_alloc":
                self.launches[name] = None
                self.visible.add(name)
                sequence.append("allocation")
                return None
            if callee == "vm.builtin.cuda_graph.run_or_capture":
                region = self.launch(value.args[1].fields)
                self.launches[name] = region
                self.visible.add(name)
                sequence.append(f"launch {region['index']}")
                return region
        self.use(value)
        present.add(self.canonical(name))
        sequence.append(self.canonical(name))
        for suffix, seq in blocks_of(binding):
            self.block(seq, name + "." + suffix)
        self.visible.add(name)
        return None

    def launch(self, fields):
        callee, args, index = fields[:3]
        symbols = [str(v.name) for v in fields[3].values] if len(fields) > 3 else []
        inputs = []
        for arg in args.fields:
            self.use(arg)
            if isinstance(arg, relax.Var):
                inputs.append(self.canonical(arg.name))
            elif [str(v.name) for v in arg.values] != symbols:
                inputs.append("a shape that is not the key")
        bindings = self.lifted[callee.name_hint]
        region = {"index": int(index.value), "function": callee.name_hint, "inputs": inputs,
                  "outputs": {}, "symbols": symbols, "bindings": bindings[0], "count": bindings[1]}
        self.regions.append(region)
        return region

    def read(self, region, index, name):
        if region is None:
            self.storages[self.canonical(name)] = index
        else:
            region["outputs"][index] = self.canonical(name)


def lifted_functions(module, known):
    """{name: (number of bindings, number of outputs)} of the functions that the pass added."""
    found = {}
    for name, function in functions_of(module):
        if name not in known:
            bindings = [b for block in function.body.blocks for b in block.bindings]
            found[name] = (len(bindings) - 1, len(bindings[-1].value.fields), function, bindings)
    return found


def rewritten(module, plans):
    lifted = lifted_functions(module, plans)
    slots = []
    # Names of storages are unique in a module. The survivor of a slot keeps its name.
    canonical = {name: own for plan in plans.values() for name, own in plan.canonical.items()}
    for name, (_, _, _, bindings) in lifted.items():
        for b in bindings[:-1]:
            if isinstance(b.value, Call) and b.value.op.same_as(_alloc_storage):
                slots.append([fingerprint(b.value.args[0].values[0]), b.value.args[2].value,
                              canonical[b.var.name]])
    result = {"slots": slots, "functions": {}}
    for name, function in functions_of(module):
        if name in plans:
            f = Rewritten(function, plans[name], lifted)
            result["functions"][name] = {
                "sequence": f.sequence, "regions": f.regions, "storages": f.storages,
                "undefined": sorted(f.undefined)}
    return result
