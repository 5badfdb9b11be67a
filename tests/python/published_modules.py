"""Modules of the kinds that the two published passes are tested on, remade from descriptions of those tests.

A module is a text below `class Module`, which test_relax.parsed reads. Its kernels copy elements.
"""


def kernel(name, *shapes, dtypes=None):
    """A PrimFunc that makes its last operand of its first one; a shape is a text, `"2, 4"`, of numbers and symbols."""
    dtypes = dtypes or ["float32"] * len(shapes)
    letters = "abcdefgh"[: len(shapes)]
    symbols = sorted({word for shape in shapes for word in shape.split(", ") if word.isidentifier()})
    rank = len(shapes[-1].split(", "))
    axes = [f"i{i}" for i in range(rank)]
    given = axes if len(shapes[0].split(", ")) == rank else ["0"] * len(shapes[0].split(", "))
    value = f"{letters[0].upper()}[{', '.join('v' + a if a in axes else a for a in given)}]"
    if dtypes[0] != dtypes[-1]:
        value = f'T.Cast("{dtypes[-1]}", {value})'
    lines = [
        "@T.prim_func(private=True, s_tir=True)",
        f"def {name}({', '.join(f'{a}: T.handle' for a in letters)}):",
        *(f"    {symbol} = T.int64()" for symbol in symbols),
        *(
            f'    {a.upper()} = T.match_buffer({a}, ({shape},), "{dtype}")'
            for a, shape, dtype in zip(letters, shapes, dtypes)
        ),
        f"    for {', '.join(axes)} in T.grid({shapes[-1]}):",
        f'        with T.sblock("{name}"):',
        f"            {', '.join('v' + a for a in axes)} = " f'T.axis.remap("{"S" * rank}", [{", ".join(axes)}])',
        f"            {letters[-1].upper()}[{', '.join('v' + a for a in axes)}] = {value}",
    ]
    return "".join(f"    {line}\n" for line in lines) + "\n"


def function(body, params, name="main", result="", attributes=""):
    """A function of destination-passing calls, whose body is given line by line."""
    attributes = f'"relax.force_pure": True{", " * bool(attributes)}{attributes}'
    lines = [
        "@R.function",
        f"def {name}({params}){' -> ' * bool(result)}{result}:",
        f"    R.func_attr({{{attributes}}})",
        "    cls = Module",
        *("    " + line for line in body.strip().splitlines()),
    ]
    return "".join(f"    {line}\n" for line in lines) + "\n"


def tensor(shape, dtype="float32"):
    return f'R.Tensor(({shape},), "{dtype}")'


def storage(size, scope="global"):
    return f'R.memory.alloc_storage(R.shape([{size}]), R.prim_value(0), R.str("{scope}"), R.dtype("float32"))'


def place(of, shape, dtype="float32"):
    return f'R.memory.alloc_tensor({of}, R.prim_value(0), R.shape([{shape}]), R.dtype("{dtype}"))'


def alloc(shape, dtype="float32"):
    return f'R.builtin.alloc_tensor(R.shape([{shape}]), R.dtype("{dtype}"), R.prim_value(0))'


PAIR = kernel("exp", "2, 4", "2, 4")
X = f"x: {tensor('2, 4')}"

CHAIN = PAIR + function(
    f"""
s0 = {storage(32)}
a0 = {place("s0", "2, 4")}
_0 = cls.exp(x, a0)
s1 = {storage(32)}
a1 = {place("s1", "2, 4")}
_1 = cls.exp(a0, a1)
_2 = R.memory.kill_tensor(a0)
a2 = {place("s0", "2, 4")}
_3 = cls.exp(a1, a2)
_4 = R.memory.kill_tensor(a1)
s2 = {storage(32)}
a3 = {place("s2", "2, 4")}
_5 = cls.exp(a2, a3)
_6 = R.memory.kill_tensor(a2)
out = {alloc("2, 4")}
_7 = cls.exp(a3, out)
_8 = R.memory.kill_tensor(a3)
_9 = R.memory.kill_storage(s0)
_10 = R.memory.kill_storage(s1)
_11 = R.memory.kill_storage(s2)
return out
""",
    X,
)

TUPLES = PAIR + function(
    f"""
s0 = {storage(32)}
a0 = {place("s0", "2, 4")}
_0 = cls.exp(x, a0)
s1 = {storage(32)}
a1 = {place("s1", "2, 4")}
_1 = cls.exp(a0, a1)
one = (a1,)
two = (one,)
part = two[0]
whole = part[0]
a2 = {place("s0", "2, 4")}
_2 = cls.exp(whole, a2)
_3 = R.memory.kill_tensor(a0)
_4 = R.memory.kill_tensor(a1)
out = {alloc("2, 4")}
_5 = cls.exp(a2, out)
_6 = R.memory.kill_tensor(a2)
_7 = R.memory.kill_storage(s0)
_8 = R.memory.kill_storage(s1)
return out
""",
    X,
)

BUILTIN = PAIR + function(
    f"""
s0 = {storage(32)}
a0 = {place("s0", "2, 4")}
_0 = cls.exp(x, a0)
s1 = {storage(32)}
a1 = {place("s1", "2, 4")}
_1 = cls.exp(a0, a1)
_2 = R.memory.kill_tensor(a0)
a2 = {place("s0", "2, 4")}
same = a1
_3 = R.call_packed("vm.builtin.dummy", x, same, ty_args=(R.Tuple(),))
out = {alloc("2, 4")}
_4 = cls.exp(a2, out)
_5 = R.memory.kill_storage(s0)
_6 = R.memory.kill_storage(s1)
return out
""",
    X,
)

IMAGE = "1, 16, 32, 32"
WEIGHTS = (
    kernel("conv", IMAGE, "16, 16, 3, 3", IMAGE)
    + kernel("norm", IMAGE, "16, 16, 3, 3", "16, 16, 3, 3", IMAGE)
    + function(
        f"""
w0 = params[0]
s0 = {storage(65536)}
a0 = {place("s0", IMAGE)}
_0 = cls.conv(x, w0, a0)
w1 = params[1]
s1 = {storage(65536)}
a1 = {place("s1", IMAGE)}
_1 = cls.conv(a0, w1, a1)
w2 = params[2]
w3 = params[3]
a2 = {place("s0", IMAGE)}
_2 = cls.norm(a1, w2, w3, a2)
out = {alloc(IMAGE)}
_3 = cls.conv(a2, w3, out)
return out
""",
        f"x: {tensor(IMAGE)}, params: R.Tuple({', '.join([tensor('16, 16, 3, 3')] * 4)})",
        attributes='"num_input": 1',
    )
)

NULL = function("n = R.null_value()\nt = (n, n)\nreturn t", X)

ONE_STORAGE = function(f"s0 = {storage(16)}\na0 = {place('s0', '2, 2')}\nz = R.const(0, 'int64')\nreturn z", "")

STATIC_ARGS = function(
    f"""
s0 = {storage(32)}
a0 = {place("s0", "8")}
_0 = R.call_packed("dummy_func", a0, R.dtype("float32"), R.str("string"), ty_args=(R.Tuple(),))
none = R.tuple()
return none
""",
    "",
)

LINE = kernel("add_one", "m", "m")
DYNAMIC = LINE + function(
    f"""
m = T.int64()
s0 = {storage(16)}
a0 = {place("s0", "m")}
_0 = cls.add_one(x, a0)
s1 = {storage(16)}
a1 = {place("s1", "m")}
_1 = cls.add_one(a0, a1)
out = {alloc("m")}
_2 = cls.add_one(a1, out)
return out
""",
    'x: R.Tensor(("m",), "float32")',
    attributes='"relax.rewrite_cuda_graph.capture_symbolic_vars": ["m"]',
)


def merged(name, sizes):
    """A function whose first tensor lies in a storage of its own for each of `sizes`, written one from the other."""
    lines, before = [], "x"
    for i, (size, scope) in enumerate(sizes):
        lines += [f"s{i} = {storage(size, scope)}", f"a{i} = {place(f's{i}', '8')}", f"_{i} = cls.copy({before}, a{i})"]
        before = f"a{i}"
    lines += [f"out = {alloc('8')}", f"_out = cls.copy({before}, out)", "return out"]
    return function("\n".join(lines), f"x: {tensor('8')}", name)


MERGED = (
    kernel("copy", "8", "8")
    + merged("func1", [(128, "global"), (256, "global"), (512, "ipc_memory")])
    + merged("func2", [(192, "global"), (64, "global"), (1024, "ipc_memory"), (512, "global")])
)

RESULT = kernel("add_one", "8", "8") + function(
    f"""
s1 = {storage(32)}
a1 = {place("s1", "8")}
_0 = cls.add_one(x, a1)
s2 = {storage(32)}
a2 = {place("s2", "8")}
_1 = cls.add_one(a1, a2)
s3 = {storage(32)}
a3 = {place("s3", "8")}
_2 = cls.add_one(a2, a3)
out = (a3,)
return out
""",
    f"x: {tensor('8')}",
)

WEIGHT_SYMBOL = (
    kernel("add_one", "8", "8")
    + kernel("add", "8", "m", "8")
    + function(
        f"""
m = T.int64()
s1 = {storage(32)}
a1 = {place("s1", "8")}
_0 = cls.add_one(x, a1)
s2 = {storage(32)}
a2 = {place("s2", "8")}
_1 = cls.add(a1, w, a2)
s3 = {storage(32)}
a3 = {place("s3", "8")}
_2 = cls.add_one(a2, a3)
out = (a3,)
return out
""",
        f'x: {tensor("8")}, w: R.Tensor(("m",), "float32")',
        attributes='"num_input": 1',
    )
)

# By name: the text, and whether packed functions keep it from coming in.
REGIONS = {
    "chain": (CHAIN, False),
    "tuples": (TUPLES, False),
    "a builtin": (BUILTIN, True),
    "weights in a tuple": (WEIGHTS, False),
    "no value": (NULL, True),
    "one storage": (ONE_STORAGE, False),
    "static arguments": (STATIC_ARGS, True),
    "a symbol that is captured": (DYNAMIC, False),
    "merged allocations": (MERGED, False),
    "a result in storage": (RESULT, False),
    "a weight with a symbol": (WEIGHT_SYMBOL, False),
}


ROWS = (
    kernel("exp", "2, 4", "2, 4") + kernel("pad", "8", "10") + kernel("relu", "8", "8") + kernel("add", "8", "8", "8")
)


def copies(shapes, dtypes, name):
    """Kernels, and lines of a chain of them, one for each shape after the first; the last one writes the result."""
    lines, kernels = [], []
    for i, (a, b) in enumerate(zip(shapes, shapes[1:])):
        kernels.append(kernel(f"{name}_k{i}", a, b, dtypes=dtypes[i : i + 2]))
        lines += [f"a{i} = {alloc(b, dtypes[i + 1])}", f"_{i} = cls.{name}_k{i}({f'a{i - 1}' if i else 'x'}, a{i})"]
    lines.append(f"return a{len(shapes) - 2}")
    return "".join(kernels), "\n".join(lines)


def chain(shapes, dtypes=None, name="main", attributes=""):
    dtypes = dtypes or ["float32"] * len(shapes)
    kernels, lines = copies(shapes, dtypes, name)
    x = tensor(shapes[0], dtypes[0])
    return kernels + function(lines, f"x: {x}", name, attributes=attributes)


BASIC = (
    ROWS
    + function(
        f"""
a = {alloc("2, 4")}
_0 = cls.exp(x, a)
r = R.reshape(a, R.shape([8]))
b = {alloc("8")}
_1 = cls.relu(r, b)
c = {alloc("8")}
_2 = cls.add(b, r, c)
d = {alloc("10")}
_3 = cls.pad(c, d)
out = {alloc("10")}
_4 = cls.log(d, out)
return out
""",
        X,
    )
    + kernel("log", "10", "10")
)

BRANCHES = PAIR + function(
    f"""
a = {alloc("2, 4")}
_0 = cls.exp(x, a)
if yes:
    b = {alloc("2, 4")}
    _1 = cls.exp(a, b)
    r = b
else:
    c = {alloc("2, 4")}
    _2 = cls.exp(a, c)
    r = c
return r
""",
    f'{X}, yes: R.Tensor((), "bool")',
)

CONDITION = (
    kernel("exp", "2, 4", "2, 4")
    + kernel("test", "2, 4", "1", dtypes=["float32", "bool"])
    + function(
        f"""
a = {alloc("2, 4")}
_0 = cls.exp(x, a)
c = {alloc("1", "bool")}
_1 = cls.test(a, c)
yes = R.reshape(c, R.shape([]))
if yes:
    r = a
else:
    r = x
return r
""",
        X,
    )
)

ACROSS = PAIR + function(
    f"""
a = {alloc("2, 4")}
_0 = cls.exp(x, a)
if yes:
    b = {alloc("2, 4")}
    _1 = cls.exp(a, b)
    r = b
else:
    r = x
return r
""",
    f'{X}, yes: R.Tensor((), "bool")',
)

CALLED = (
    PAIR
    + function(f"out = {alloc('2, 4')}\n_0 = cls.exp(x, out)\nreturn out", X, "inner", result=tensor("2, 4"))
    + function(
        f"""
a = {alloc("2, 4")}
_0 = cls.exp(x, a)
b: {tensor("2, 4")} = cls.inner(a)
out = {alloc("2, 4")}
_1 = cls.exp(b, out)
return out
""",
        X,
    )
)

NESTED = (
    PAIR
    + kernel("add", "2, 4", "2, 4", "2, 4")
    + function(
        f"""
a0 = {alloc("2, 4")}
_0 = cls.exp(x, a0)
a1 = {alloc("2, 4")}
_1 = cls.exp(a0, a1)
a2 = {alloc("2, 4")}
_2 = cls.exp(a1, a2)
t = (a0, a1)
n = (t, a2)
p = n[0]
y0 = p[0]
y1 = p[1]
y2 = n[1]
z0 = {alloc("2, 4")}
_3 = cls.add(y0, y1, z0)
z1 = {alloc("2, 4")}
_4 = cls.add(z0, y2, z1)
m = (z1, n)
w = m[0]
z2 = {alloc("2, 4")}
_5 = cls.exp(w, z2)
out = {alloc("2, 4")}
_6 = cls.add(z2, y1, out)
return out
""",
        X,
    )
)

PACKED = PAIR + function(
    f"""
a = {alloc("2, 4")}
_0 = cls.exp(x, a)
b = {alloc("2, 4")}
_1 = R.call_packed("extern_func", a, b, ty_args=(R.Tuple(),))
out = {alloc("2, 4")}
_2 = cls.exp(b, out)
return out
""",
    X,
)

UNUSED = PAIR + function(
    f"""
never = {alloc("2, 4")}
a = {alloc("2, 4")}
_0 = cls.exp(x, a)
out = {alloc("2, 4")}
_1 = cls.exp(a, out)
return out
""",
    X,
)

PARAMETER = kernel("add", "2, 25", "2, 25", "2, 25") + function(
    f"""
r = R.reshape(x, R.shape([2, 25]))
out = {alloc("2, 25")}
_0 = cls.add(r, y, out)
return out
""",
    f"x: {tensor('5, 10')}, y: {tensor('2, 25')}",
)


def symbolic(attributes):
    """A chain over symbols, with bounds."""
    kernels, lines = copies(["m, n"] * 4, ["float32"] * 4, "main")
    lines = "m, n = T.int64(), T.int64()\n" + lines
    return kernels + function(lines, 'x: R.Tensor(("m", "n"), "float32")', attributes=attributes)


UPPER = '"tir_var_upper_bound": {"m": 2, "n": 4}'
LOWER = '"tir_var_lower_bound": {"m": 1, "n": 2}'
DYNAMIC_RESULT = ', "relax.memory_plan_dynamic_func_output": True'
TWO = (
    PAIR
    + function(
        f"a = {alloc('2, 4')}\n_0 = cls.exp(x, a)\nout = {alloc('2, 4')}\n_1 = cls.exp(a, out)\nreturn out", X, "f"
    )
    + function(
        f"a = {alloc('2, 4')}\n_0 = cls.exp(x, a)\nout = {alloc('2, 4')}\n_1 = cls.exp(a, out)\nreturn out", X, "g"
    )
)

MAXIMUM = (
    function(
        f"""
m, n = T.int64(), T.int64()
a = {alloc("n, m, T.max(n - m, 1)")}
_0 = cls.fill(x, a)
b = {alloc("n, m, T.max(n - m, 1)")}
_1 = cls.again(a, b)
out = {alloc("n, m, T.max(n - m, 1)")}
_2 = cls.again(b, out)
return out
""",
        'x: R.Tensor(("m", "n"), "float32")',
        attributes='"tir_var_upper_bound": {"n": 20, "m": 5}, "tir_non_negative_var": ["m"]',
    )
    + kernel("fill", "m, n", "n, m, k")
    + kernel("again", "n, m, k", "n, m, k")
)

TIR_DYN = kernel("exp", "n", "n").replace("b: T.handle", "b: T.handle, n: T.int64").replace(
    "        n = T.int64()\n", ""
) + function(
    f"""
n = T.int64()
a = {alloc("n")}
_0 = R.vm.call_tir_dyn(cls.exp, (x, a, R.shape([n])))
b = {alloc("n")}
_1 = R.vm.call_tir_dyn(cls.exp, (a, b, R.shape([n])))
out = {alloc("n")}
_2 = R.vm.call_tir_dyn(cls.exp, (b, out, R.shape([n])))
return out
""",
    'x: R.Tensor(("n",), "float32")',
    attributes='"tir_var_upper_bound": {"n": 20}',
)

VIEWS = (
    kernel("copy", "256", "256")
    + function(
        f"""
a = {alloc("256")}
_0 = cls.copy(x, a)
v = R.memory.view(a, R.shape([128]), R.dtype("float32"), R.prim_value(0))
z = R.memory.ensure_zero_offset(v)
b = {alloc("128")}
_1 = cls.half(z, b)
out = {alloc("128")}
_2 = cls.half(b, out)
return out
""",
        f"x: {tensor('256')}",
    )
    + kernel("half", "128", "128")
)

BUILTIN_RESHAPE = ROWS + function(
    f"""
a = {alloc("2, 4")}
_0 = cls.exp(x, a)
r = R.call_packed("vm.builtin.reshape", a, R.shape([8]), ty_args=(R.Tensor((8,), "float32"),))
b = {alloc("8")}
_1 = cls.relu(r, b)
out = {alloc("8")}
_2 = cls.add(b, r, out)
return out
""",
    X,
)

DATAFLOW = PAIR + """
    @R.function
    def main(x: R.Tensor((2, 4), "float32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.exp, (x,), out_ty=R.Tensor((2, 4), "float32"))
            R.output(y)
        return y

"""

# Defects of the published passes, which ours do not have.
OVER_AN_IF = PAIR + function(
    f"""
s0 = {storage(32)}
a0 = {place("s0", "2, 4")}
s1 = {storage(32)}
a1 = {place("s1", "2, 4")}
_0 = cls.exp(x, a0)
_1 = cls.exp(a0, a1)
if yes:
    r = x
else:
    r = y
s2 = {storage(32)}
a2 = {place("s2", "2, 4")}
_2 = cls.exp(a1, a2)
out = {alloc("2, 4")}
_3 = cls.exp(a2, out)
_4 = cls.exp(r, out)
return out
""",
    f'{X}, y: {tensor("2, 4")}, yes: R.Tensor((), "bool")',
)

BEHIND_A_VIEW = PAIR + function(
    f"""
s0 = {storage(32)}
a0 = {place("s0", "2, 4")}
_0 = cls.exp(x, a0)
s1 = {storage(32)}
a1 = {place("s1", "2, 4")}
_1 = cls.exp(a0, a1)
r = R.reshape(a1, R.shape([8]))
return r
""",
    X,
)


def taking(name, callee=""):
    """A function with two tensors in storage, which calls another one between its kernels."""
    called = f'c: {tensor("2, 4")} = cls.{callee}(a0)\n' if callee else "c = a0\n"
    return function(
        f"""
s0 = {storage(32)}
a0 = {place("s0", "2, 4")}
_0 = cls.exp(x, a0)
{called}s1 = {storage(32)}
a1 = {place("s1", "2, 4")}
_1 = cls.exp(c, a1)
_2 = cls.exp(a0, a1)
out = {alloc("2, 4")}
_3 = cls.exp(a1, out)
return out
""",
        X,
        name,
        result=tensor("2, 4"),
    )


MENDED = {
    "control_keeps_region": OVER_AN_IF,
    "views_hide_results": BEHIND_A_VIEW,
    "merge_ignores_calls": PAIR + taking("inner") + taking("main", "inner"),
}

# By name: the text, and whether something other than plain Relax keeps it from coming in.
STORAGE = {
    "basic": (BASIC, False),
    "other dtypes": (chain(["2, 3"] * 4, ["float32", "int32", "float32", "int32"]), False),
    "bools": (chain(["2, 3"] * 3, ["bool"] * 3), False),
    "one dtype": (chain(["2, 3"] * 5), False),
    "a condition": (CONDITION, False),
    "branches": (BRANCHES, False),
    "a use in another block": (ACROSS, False),
    "a call of a function": (CALLED, False),
    "nested tuples": (NESTED, False),
    "a packed function": (PACKED, True),
    "symbols": (symbolic(""), False),
    "never used": (UNUSED, False),
    "a parameter's reshape": (PARAMETER, False),
    "two functions": (TWO, False),
    "upper bounds": (symbolic(UPPER), False),
    "lower bounds alone": (symbolic(LOWER), False),
    "both bounds": (symbolic(UPPER + ", " + LOWER), False),
    "a maximum": (MAXIMUM, False),
    "call_tir_dyn": (TIR_DYN, False),
    "a dynamic result": (symbolic(UPPER + DYNAMIC_RESULT), False),
    "a partly dynamic result": (symbolic('"tir_var_upper_bound": {"n": 20}' + DYNAMIC_RESULT), False),
    "views": (VIEWS, False),
    "a packed reshape": (BUILTIN_RESHAPE, False),
    "dataflow": (DATAFLOW, False),
    "memory that grows": (chain(["8", "8", "100", "8", "300", "8"]), False),
}
