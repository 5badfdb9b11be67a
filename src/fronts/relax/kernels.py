"""PrimFuncs as kernels: TVM's default schedules and CUDA code generator give the source, the host half the launches.

A PrimFunc becomes one launch or several, and allocations in between. Of its symbols, what a size or launch needs is an
expression of the sizes of the call's tensors.
"""

import re

import tvm
from tvm import relax, tirx

from cugrt import Error

from .dialect import TensorType, TupleType, buffer_of, buffer_type, declared_over, is_pointer, kernel_call
from .dialect import name_of, pointer, scalar_dtype, substitute, type_args, type_of, walk
from .dims import Dims, Names, RESERVED, dtype_text, refuse, shape_of

PREAMBLE = """typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
"""
NUMBERS = """#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ll)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000ll)
"""
HALF = """#include <cuda_fp16.h>
static __device__ half max(half a, half b) { return __hgt(a, b) ? a : b; }
static __device__ half min(half a, half b) { return __hlt(a, b) ? a : b; }
static __device__ half herf(half x) { return __float2half(erff(__half2float(x))); }
static __device__ half htan(half x) { return __float2half(tanf(__half2float(x))); }
static __device__ half hatan(half x) { return __float2half(atanf(__half2float(x))); }
static __device__ half hpow(half x, half y) { return __float2half(powf(__half2float(x), __half2float(y))); }
static __device__ unsigned __pack_half2(half x, half y) {
  return unsigned(__half_as_ushort(y)) << 16 | __half_as_ushort(x);
}
struct __align__(8) half4 {
  half x, y, z, w;
  __device__ half4() {}
  __device__ half4(half x, half y, half z, half w) : x(x), y(y), z(z), w(w) {}
};
static __device__ half4 make_half4(half x, half y, half z, half w) { return half4(x, y, z, w); }
"""
BFLOAT = "#include <cuda_bf16.h>\ntypedef __nv_bfloat16 nv_bfloat16;\n"
HEAD = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(')


class Lowered:
    """A PrimFunc: its parameters, and its steps in order, ("launch", ...) or ("alloc", buffer)."""

    def __init__(self, params, steps):
        self.params, self.steps = params, steps


class Launch:
    def __init__(self, entry, pointers, scalars, extents, shared, source, loads, stores):
        self.entry, self.pointers, self.scalars, self.extents, self.shared = entry, pointers, scalars, extents, shared
        self.source, self.loads, self.stores = source, loads, stores


def target_of(wanted):
    if isinstance(wanted, tvm.target.Target):
        return wanted
    return tvm.target.Target(
        {
            "kind": "cuda",
            "arch": wanted or "sm_80",
            "max_threads_per_block": 1024,
            "thread_warp_size": 32,
            "max_shared_memory_per_block": 49152,
        }
    )


def lower(prims, wanted, report):
    """`Lowered` by GlobalVar; what cannot be lowered goes to the report."""
    import tvm.s_tir  # noqa: F401: registers what Dlight needs

    names, named = {}, {}
    for number, (var, f) in enumerate(prims.items()):
        names[var] = re.sub(r"\W", "_", var.name_hint)
        named[tvm.ir.GlobalVar(names[var])] = f.with_attr("global_symbol", names[var])
    kept, target = {}, target_of(wanted)

    @tvm.ir.instrument.pass_instrument
    class Keep:
        def run_after_pass(self, module, info):
            if info.name == "tirx.SplitHostDevice":
                kept["module"] = module

    scheduled = {}
    for var, f in named.items():
        try:
            scheduled[var] = schedule(var, f, target)
        except Exception as error:  # what TVM throws has no common class
            report.add(f"TVM does not schedule the PrimFunc '{var.name_hint}': {last_line(error)}", "")
    try:
        with tvm.transform.PassContext(instruments=[Keep()]):
            built = tvm.compile(tvm.IRModule(scheduled), target=tvm.target.Target(target, host="llvm"))
        sources = split("\n".join(one.inspect_source() for one in built.mod.imports))
    except Exception as error:
        report.add(f"TVM does not lower the PrimFuncs {', '.join(names.values())}: {last_line(error)}", "")
        return {}
    functions, made = {var.name_hint: f for var, f in kept["module"].functions.items()}, {}
    for var, name in names.items():
        if name not in functions:  # not scheduled
            continue
        try:
            made[var] = read_host(functions[name], functions, sources)
        except Error as error:
            report.add(f"PrimFunc '{var.name_hint}': {error}", "")
    return made


def schedule(var, f, target):
    """A PrimFunc by the first of TVM's rules that takes it; a rule may fail with what it should refuse."""
    from tvm.s_tir.dlight import ApplyDefaultSchedule, gpu

    check_reductions(f)
    rules = [gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()]
    with target:
        try:
            return ApplyDefaultSchedule(*rules)(tvm.IRModule({var: f}))[var]
        except Exception:  # what TVM throws has no common class
            return ApplyDefaultSchedule(rules[-1])(tvm.IRModule({var: f}))[var]


def check_reductions(f):
    """Refuses sums of one element that other blocks read: TVM puts them in the places of reads, before they are made."""
    blocks, sums = [], []

    def visit(node):
        if type(node).__name__ == "SBlock" and node.iter_vars:
            blocks.append(node)
            of_one = [v for v in node.iter_vars if int(v.iter_type) == tirx.IterVar.CommReduce]
            sums.extend(v for v in of_one if isinstance(v.dom.extent, tirx.IntImm) and int(v.dom.extent) == 1)

    walk(f.body, visit)
    if sums and len(blocks) > 1:
        raise refuse("it reduces over one element, of which TVM's schedules make a wrong kernel")


def last_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def split(source):
    """The text of each kernel, by name."""
    found = {}
    starts = [m for m in HEAD.finditer(source)]
    for at, match in enumerate(starts):
        text = source[match.start() : starts[at + 1].start() if at + 1 < len(starts) else len(source)]
        if "{" in text:
            found[match.group(1)] = text.rstrip() + "\n"
    return found


def complete(entry, text):
    if include := re.search(r"#\s*include.*|\b(nvcuda|cutlass|cuda::std)\b.*", text):
        raise refuse(f"its source needs {include.group(0).strip()!r}, which is not supported")
    return (
        PREAMBLE
        + (NUMBERS if "CUDART_" in text else "")
        + (HALF if re.search(r"\bhalf|hexp\b", text) else "")
        + (BFLOAT if "nv_bfloat16" in text else "")
        + text
    )


def read_host(f, functions, sources):
    lets, steps, buffers = {}, [], {}

    def inline(e):
        return substitute(e, lets)

    def statement(s):
        kind = type(s).__name__
        if kind == "SeqStmt":
            for one in s.seq:
                statement(one)
        elif kind == "Bind":
            lets[s.var] = inline(s.value)
        elif kind == "DeclBuffer":
            buffers[pointer(s.buffer)] = pointed(declared_over(s))
        elif kind in ("AttrStmt", "AssertStmt") and hasattr(s, "body"):
            statement(s.body)
        elif kind in ("AllocBuffer", "Allocate"):
            t = buffer_type(s.buffer)
            steps.append(("alloc", pointer(s.buffer), [inline(d) for d in t.shape], str(t.dtype)))
            if hasattr(s, "body") and s.body is not None:
                statement(s.body)
        elif kind == "Evaluate" and kernel_call(s, functions):
            steps.append(("launch", launch(*kernel_call(s, functions))))
        elif kind != "AssertStmt":
            raise refuse(f"after scheduling it has work for the host ({kind}), since it has no thread binding")

    def launch(entry, given, axes):
        values, extents = given[: len(given) - len(axes)], given[len(given) - len(axes) :]
        pointers = [root_of(buffers, pointed(v)) for v in values if is_pointer(v)]
        scalars = [inline(v) for v in values if not is_pointer(v)]
        sizes = dict(zip(axes, (inline(e) for e in extents)))
        device = functions[entry]
        loads, stores = accesses(device)
        shared = sizes.pop("tirx.use_dyn_shared_memory", None)
        return Launch(
            entry,
            list(zip(pointers, device.params)),
            list(zip(scalars, device.params[len(pointers) :])),
            sizes,
            shared,
            complete(entry, sources[entry]),
            loads,
            stores,
        )

    statement(f.body)
    if not any(step[0] == "launch" for step in steps):
        raise refuse("after scheduling it has no kernel")
    return Lowered([(p, buffer_of(f, p)) for p in f.params], steps)


def root_of(above, pointer):
    """What a pointer was made of, over any number of declarations; one of 0.25 is declared as itself."""
    while pointer in above and not above[pointer].same_as(pointer):
        pointer = above[pointer]
    return pointer


def pointed(e):
    return e.args[0] if type(e).__name__ == "Call" else e


def accesses(device):
    """The parameters that a kernel loads, and that it stores."""
    roots, loads, stores = {}, set(), set()

    def visit(node):
        kind = type(node).__name__
        if kind == "DeclBuffer":
            roots[pointer(node.buffer)] = pointed(declared_over(node))
        elif kind == "BufferLoad":
            loads.add(pointer(node.buffer))
        elif kind == "BufferStore":
            stores.add(pointer(node.buffer))
        elif kind == "Call" and getattr(node.op, "name", "") in ("tirx.address_of", "tirx.tvm_access_ptr"):
            for a in node.args:
                stores.add(getattr(a, "buffer", a))

    walk(device.body, visit)

    def of(buffers):
        found = set()
        for one in buffers:
            found.add(root_of(roots, one))
        return found

    return of(loads), of(stores)


class Sizes(Dims):
    """A PrimFunc's sizes, of which each symbol is an expression of the caller's."""

    def __init__(self, name, given):
        super().__init__(name)
        self.given = given

    def symbol(self, var):
        if var not in self.given:
            raise refuse(f"PrimFunc '{self.function}' has the symbol '{name_of(var)}', which no argument gives")
        return self.given[var]


def call_tir(f, e, in_place):
    var, fields = e.args[0], list(e.args[1].fields) if isinstance(e.args[1], relax.Tuple) else [e.args[1]]
    given = operands_of(f, fields)
    symbols = e.args[2].values if len(e.args) > 2 and isinstance(e.args[2], relax.ShapeExpr) else []
    types = [part for out in type_args(e) for part in (out.fields if isinstance(out, TupleType) else [out])]
    places = [int(i) for i in e.attrs.inplace_indices] if in_place else [-1] * len(types)
    outputs, fresh = [], []
    for t, place in zip(types, places):
        if place >= 0:
            outputs.append(given[place][0])
            continue
        outputs.append(f.let(f"alloc : {f.dims.type(t, f'a result of {var.name_hint}')}"))
        f.fresh.add(outputs[-1])
        fresh.append((outputs[-1], shape_of(t)))
    launches(f, var, given + fresh + [(f.dims.text(d), None) for d in symbols])
    return outputs if isinstance(type_of(e), TupleType) else outputs[0]


def operands_of(f, args):
    """Operands and the dimensions of those that are tensors."""
    found = []
    for a in args:
        value = f.value(a)
        parts = value if isinstance(value, list) else [value]
        types = list(type_of(a).fields) if isinstance(type_of(a), TupleType) else [type_of(a)]
        found += [
            (f.operand(part), shape_of(t) if isinstance(t, TensorType) else None) for part, t in zip(parts, types)
        ]
    return found


def call_in_place(f, e):
    """A call in destination-passing form."""
    launches(f, e.op, operands_of(f, e.args))
    return []


def opaque(f, var, operands):
    """A launch of a kernel that stands for a PrimFunc, by its name."""
    prim = f.reader.prims[var]
    loads, stores = accesses(prim)
    buffers = [buffer_of(prim, p) for p in prim.params]
    pointers = [buffer if buffer is None else pointer(buffer) for buffer in buffers]

    def text_of(name):
        params = []
        for i, p in enumerate(pointers):
            access = "in" if p not in stores else "inout" if p in loads else "out"
            params.append(f"p{i}: " + ("symbol i64" if p is None else f"{access} any"))
        return (
            f'kernel @{name} {{\n  inline "-"\n  entry "k"\n  params ({", ".join(params)})\n'
            "  launch { grid (1, 1, 1) block (32, 1, 1) }\n}\n"
        )

    f.written.update(operand for p, (operand, _) in zip(pointers, operands) if p in stores)
    name = f.reader.kernel(var, var.name_hint, text_of)
    f.lines.append(f"{f.indent}launch @{name}({', '.join(operand for operand, _ in operands)})")


def launches(f, var, operands):
    if f.reader.opaque:
        return opaque(f, var, operands)
    lowered, given, tensors = f.reader.launches[var], {}, {}
    for (param, buffer), (operand, dims) in zip(lowered.params, operands):
        if dims is None:
            given[param] = operand
            continue
        tensors[pointer(buffer)] = operand
        for d, actual in zip(buffer_type(buffer).shape, dims):
            if isinstance(d, tirx.Var):
                given.setdefault(d, f.dims.text(actual))
    sizes = Sizes(var.name_hint, given)
    for step in lowered.steps:
        if step[0] == "alloc":
            dims = ", ".join(map(sizes.text, step[2]))
            tensors[step[1]] = f.let(f"alloc : tensor<[{dims}], {dtype_text(step[3], 'a buffer')}>")
            f.fresh.add(tensors[step[1]])
            continue
        launch(f, step[1], tensors, sizes)


def launch(f, one, tensors, sizes):
    params, operands, names, access, unique = [], [], {}, [], Names(RESERVED, dots=False)
    for host, device in one.pointers:
        operand = tensors[host]
        if device in one.stores:
            whole = device not in one.loads and operand in f.fresh
            access.append("out" if whole else "inout")
            f.written.add(operand)
        else:
            access.append("in")
        f.fresh.discard(operand)
        operands.append(operand)
        params.append(f"{unique.new(name_of(device))}: {access[-1]} any")
    for host, device in one.scalars:
        kind = {"int64": "symbol i64", "int32": "symbol i32"}.get(scalar_dtype(device))
        if kind is None:
            kind = f"scalar {dtype_text(scalar_dtype(device), 'a scalar')}"
        own = unique.new(name_of(device))
        if isinstance(host, tirx.Var) and kind.startswith("symbol"):
            names.setdefault(host, own)
        operands.append(sizes.text(host))
        params.append(f"{own}: {kind}")
    # A symbol that only the launch needs is one more parameter, which the kernel does not read.
    rule, source = Rule(names), one.source
    texts = {axis: rule.text(size) for axis, size in one.extents.items()}
    shared = rule.text(one.shared) if one.shared is not None else None
    for var in rule.missing:
        operands.append(sizes.text(var))
        params.append(f"{rule.names[var]}: symbol i64")
        source = re.sub(r"(\b" + one.entry + r"\([^)]*)\)", rf"\1, int64_t {rule.names[var]})", source, count=1)
    grid, block = (", ".join(texts.get(f"{kind}.{axis}", "1") for axis in "xyz") for kind in ("blockIdx", "threadIdx"))

    def text_of(name):
        return (
            f'kernel @{name} {{\n  inline """\n{source}"""\n  entry "{one.entry}"\n  params ({", ".join(params)})\n'
            f"  launch {{ grid ({grid}) block ({block}){f' shared {shared}' if shared else ''} }}\n}}\n"
        )

    name = f.reader.kernel((one.entry, tuple(access), source), one.entry.removesuffix("_kernel"), text_of)
    f.lines.append(f"{f.indent}launch @{name}({', '.join(operands)})")


class Rule(Dims):
    """A launch's sizes in the names of the kernel's parameters."""

    def __init__(self, names):
        super().__init__("a launch")
        self.names_taken, self.missing = set(names.values()), []
        self.names = dict(names)

    def symbol(self, var):
        if var not in self.names:
            self.names[var] = f"launch_{len(self.missing)}"
            self.missing.append(var)
        return self.names[var]


def call_dynamic(f, e):
    """A call in destination-passing form whose symbols are given by a shape at the end."""
    fields = list(e.args[1].fields)
    symbols = [(f.dims.text(d), None) for d in fields[-1].values] if isinstance(fields[-1], relax.ShapeExpr) else []
    launches(f, e.args[0], operands_of(f, fields[: len(fields) - bool(symbols)]) + symbols)
    return []
