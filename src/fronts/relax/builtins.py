"""Storage, views, host builtins and lifted regions."""

from tvm import relax, tirx

from .dialect import StringImm, TupleType, type_of
from .dims import noting, refuse

TABLE = {}
takes = noting(TABLE)
# What from_exported writes for PyTorch's recurrent layers, which Relax has no ops for: op, results and attributes.
RECURRENT = {
    "cugrt.lstm": ("lstm", 3, {}),
    "cugrt.gru": ("gru", 2, {}),
    "cugrt.rnn_tanh": ("rnn", 2, {"activation": "tanh"}),
    "cugrt.rnn_relu": ("rnn", 2, {"activation": "relu"}),
}


def text_of(e):
    return str(e.value) if hasattr(e, "value") else str(e)


@takes("memory.alloc_storage", "vm.alloc_storage")
def alloc_storage(f, e):
    text = storage_text(f, e)
    made = f.let("alloc_storage " + text.removeprefix("storage<").removesuffix(">"))
    f.storages[made] = text
    return made


@takes("memory.alloc_tensor", "vm.alloc_tensor")
def alloc_tensor(f, e):
    made = f.let(f"alloc_tensor {f.value(e.args[0])}, {f.dims.text(e.args[1])} : {f.dims.type(type_of(e), 'a tensor')}")
    f.fresh.add(made)
    return made


@takes("builtin.alloc_tensor")
def builtin_alloc_tensor(f, e):
    t, scope = f.dims.type(type_of(e), "a tensor"), [a.value for a in e.args if isinstance(a, StringImm)]
    made = f.let(f"alloc : {t}" if scope in ([], ["global"]) else f'alloc : {t[:-1]}, scope "{scope[0]}">')
    f.fresh.add(made)
    return made


@takes("memory.kill_tensor", "memory.kill_storage", "vm.kill_object")
def kill(f, e):
    for value in (f.value(a) for a in e.args):
        if isinstance(value, str):
            f.lines.append(f"{f.indent}kill {value}")
    return []


@takes("memory.view")
def view(f, e):
    offset = f.dims.text(e.args[3]) if len(e.args) > 3 and isinstance(e.args[3], tirx.IntImm) else "0"
    return f.let(f"view {f.operand(f.value(e.args[0]))}, {offset} : {f.dims.type(type_of(e), 'a view')}")


@takes("null_value")
def null_value(f, e):
    if not f.reader.opaque:
        return []
    made = f.let("tuple()")
    f.reader.nulls.add(made[1:])
    return made


@takes("shape_of")
def shape_of_tensor(f, e):
    if type_of(e.args[0]).shape is None:
        raise refuse("shape_of a tensor whose shape is not known is not supported")
    return relax.ShapeExpr(list(type_of(e.args[0]).shape.values))


@takes("size")
def size(f, e):
    dims = list(type_of(e.args[0]).shape.values)
    if not all(isinstance(d, tirx.IntImm) for d in dims):
        raise refuse("size of a tensor with symbolic dimensions is not supported")
    total = 1
    for d in dims:
        total *= int(d)
    return f.scalar(total, "int64")


@takes("call_builtin_with_ctx")
def with_context(f, e):
    name, fields = named(e.args[0]), list(e.args[1].fields)
    if name == "vm.builtin.cuda_graph.get_cached_alloc":
        callee = f.reader.functions[fields[0]]
        types = [
            storage_text(f, b.value) for block in callee.body.blocks for b in block.bindings if is_storage(b.value)
        ]
        call = f'host "cuda_graph.get_cached_alloc"(@{f.reader.names[fields[0]]}, {int(fields[1].value)})'
        made = f.let(f"{call} : ({', '.join(types)})", len(types))
        made = [made] if len(types) == 1 else made
        f.storages.update(zip(made, types))
        return made
    if name == "vm.builtin.cuda_graph.run_or_capture":
        given = [f.operand(part) for part in flatten(f.value(fields[1]))]
        f.reader.storage_params[fields[0]] = [f.storages.get(one) for one in given]
        key = [f.operand(f.value(one)) for one in fields[3:]]
        types = list(type_of(e).fields) if isinstance(type_of(e), TupleType) else [type_of(e)]
        texts = [f.dims.type(t, "a result of a region") for t in types]
        operands = [
            f"@{f.reader.names[fields[0]]}",
            f.let(f"tuple({', '.join(given)})"),
            str(int(fields[2].value)),
            *key,
        ]
        made = f.let(f'host "cuda_graph.run_or_capture"({", ".join(operands)}) : ({", ".join(texts)})', len(types))
        return [made] if len(types) == 1 and isinstance(type_of(e), TupleType) else made
    if f.reader.opaque:
        return opaque(f, e, "host", name, fields)
    raise refuse(f"builtin '{name}' is not supported")


def flatten(value):
    return [part for one in value for part in flatten(one)] if isinstance(value, list) else [value]


def is_storage(e):
    return getattr(getattr(e, "op", None), "name", "") in ("relax.memory.alloc_storage", "relax.vm.alloc_storage")


def storage_text(f, e):
    """The type of the storage that a call allocates."""
    strings = [str(a.value) for a in e.args if type(a).__name__ == "StringImm"]
    size = e.args[0].values[0] if isinstance(e.args[0], relax.ShapeExpr) else e.args[0]
    scope = strings[0] if strings else "global"
    if not f.reader.opaque:
        if scope not in ("global", "ipc_memory"):
            raise refuse(f"a storage of scope '{scope}' is not supported")
        scope = "global"  # which other devices may see, is the device's own too
    return f'storage<"{scope}", {f.dims.text(size)}>'


@takes(
    "call_pure_packed",
    "call_inplace_packed",
    "call_dps_packed",
    "call_py_func",
    "invoke_closure",
    "invoke_pure_closure",
)
def packed(f, e):
    if named(e.args[0]) in RECURRENT:
        op, results, more = RECURRENT[named(e.args[0])]
        return f.op(op, *map(f.value, e.args[1:]), results=results, **more)
    raise refuse(f"'{e.op.name.removeprefix('relax.')}' of the packed function '{named(e.args[0])}' is not supported")


def extern(f, e):
    name = named(e.op)
    if name == "vm.builtin.reshape":
        if f.reader.opaque:
            return whole_view(f, e)
        return f.reshape(f.value(e.args[0]), list(type_of(e).shape.values))
    if name in ("vm.builtin.copy",):
        return f.value(e.args[0])
    if f.reader.opaque:
        return opaque(f, e, "extern", name, e.args)
    raise refuse(f"a call of the packed function '{name}' is not supported")


def whole_view(f, e):
    """A reshape of what passes plan: an alias, which they follow."""
    return f.let(f"view {f.operand(f.value(e.args[0]))}, 0 : {f.dims.type(type_of(e), 'a view')}")


def opaque(f, e, kind, name, args):
    """A call of the host's that passes do not look into."""
    t = type_of(e)
    types = list(t.fields) if isinstance(t, TupleType) else [t]
    given = ", ".join(f.operand(f.value(a)) for a in args)
    said = f" : ({', '.join(f.dims.type(one, name) for one in types)})" if types else ""
    made = f.let(f'{kind} "{name}"({given}){said}', len(types))
    return [made] if isinstance(t, TupleType) and len(types) == 1 else made


def named(e):
    return str(getattr(e, "global_symbol", None) or text_of(e))
