"""A neutral module as our text, one binding a line.

The kernels have no code that could be compiled: nothing here is ever run.
"""
from neutral import captures

DTYPES = {"float32": "f32", "float16": "f16", "int32": "i32", "int64": "i64", "int8": "i8",
          "bool": "bool"}
ACCESS = {"i": "in any", "o": "out any", "x": "inout any", "s": "symbol i64"}


def dim(d):
    if not isinstance(d, tuple):
        return str(d)
    a, b = dim(d[1]), dim(d[2])
    return f"({a} {d[0]} {b})" if d[0] in "+-*" else f"{d[0]}({a}, {b})"


def dims(ds):
    return "[" + ", ".join(dim(d) for d in ds) + "]"


def type_text(t):
    if t.kind == "tensor":
        scope = "" if t.scope == "global" else f', scope "{t.scope}"'
        shape = "?" if t.dims is None else dims(t.dims)
        return f"tensor<{shape}, {DTYPES[t.dtype]}{scope}>"
    if t.kind == "tuple":
        return "tuple<" + ", ".join(type_text(f) for f in t.fields) + ">"
    if t.kind == "shape":
        return f"shape<{dims(t.dims)}>"
    return "int" if t.kind == "integer" else t.kind


def operand(a):
    if not isinstance(a, tuple):
        return "%" + a.name
    if a[0] == "dtype":
        return DTYPES[a[1]]
    return f'"{a[1]}"' if a[0] == "string" else dim(a[1])


class Writer:
    def __init__(self, module):
        self.module = module
        self.lines = []
        self.name_of_line = {}

    def text(self):
        self.put("cugrt 1")
        for name in self.module.kernels():
            self.kernel(name)
        for name, t in self.module.constants:
            count = 1
            for d in t.dims:
                count *= d
            self.put(f"constant @{name} : {type_text(t)} = [{', '.join(['0'] * count)}]")
        for function in self.module.functions:
            self.function(function)
        return "\n".join(self.lines) + "\n"

    def put(self, line, name=None):
        self.lines.append(line)
        if name is not None:
            self.name_of_line[len(self.lines)] = name

    def kernel(self, name):
        params = ", ".join(f"p{i}: {ACCESS[c]}" for i, c in enumerate(name.split("_")[1]))
        self.put(f'kernel @{name} {{ inline "-" entry "k" params ({params}) '
                 "launch { grid (1, 1, 1) block (32, 1, 1) } }")

    def function(self, f):
        params = ", ".join(f"%{p.name}: {'inout ' if p.name in f.written else ''}"
                           f"{type_text(p.type)}" for p in f.params)
        attributes = []
        if f.num_inputs is not None:
            attributes.append(f"num_inputs = {f.num_inputs}")
        for name, bounds in (("upper_bounds", f.upper), ("lower_bounds", f.lower)):
            if bounds:
                attributes.append(name + " = {" + ", ".join(f"{s} = {b}" for s, b in
                                                            bounds.items()) + "}")
        if f.captured:
            attributes.append(f"capture_symbols = [{', '.join(f.captured)}]")
        if f.plan_dynamic_results:
            attributes.append("plan_dynamic_results = true")
        private = "private " if f.is_private else ""
        self.put(f"{private}func @{f.name}({params}) -> ({type_text(f.body.result.type)}) "
                 f"attributes {{{', '.join(attributes)}}} {{")
        self.block(f.body, "  ")
        self.put(f"  return %{f.body.result.name}")
        self.put("}")

    def block(self, block, indent):
        for b in block.bindings:
            getattr(self, "bind_" + b.kind)(b, indent)

    def let(self, b, indent, text):
        self.put(f"{indent}%{b.name} = {text}", b.name)

    def do(self, b, indent, text):
        self.put(indent + text, b.name)

    def args(self, b):
        return "(" + ", ".join(operand(a) for a in b.args) + ")"

    def bind_alloc(self, b, indent):
        self.let(b, indent, f"alloc : {type_text(b.type)}")

    def bind_storage(self, b, indent):
        size, scope, _ = b.extra
        self.let(b, indent, f'alloc_storage "{scope}", {dim(size)}')

    def bind_tensor(self, b, indent):
        self.let(b, indent, f"alloc_tensor %{b.args[0].name}, 0 : {type_text(b.type)}")

    def bind_kernel(self, b, indent):
        callee, symbols = b.extra
        operands = [operand(a) for a in b.args] + [dim(s) for s in symbols]
        self.do(b, indent, f"launch @{callee}({', '.join(operands)})")

    bind_dyn = bind_kernel

    def call_with_types(self, b, indent, keyword):
        text = f'{keyword} "{b.extra}"{self.args(b)}'
        if b.type.kind == "tuple" and not b.type.fields:
            self.do(b, indent, text)
        else:
            self.let(b, indent, f"{text} : {type_text(b.type)}")

    def bind_extern(self, b, indent):
        self.call_with_types(b, indent, "extern")

    def bind_context(self, b, indent):
        self.call_with_types(b, indent, "host")

    def bind_call(self, b, indent):
        self.let(b, indent, f"call @{b.extra}{self.args(b)}")

    def bind_add(self, b, indent):
        self.let(b, indent, f"add{self.args(b)}")

    def bind_view(self, b, indent):
        self.let(b, indent, f"view %{b.args[0].name}, {b.extra or 0} : {type_text(b.type)}")

    bind_reshape = bind_offset = bind_view

    def bind_match(self, b, indent):
        self.let(b, indent, f"match %{b.args[0].name} : {type_text(b.type)}")

    def bind_alias(self, b, indent):
        self.let(b, indent, f"alias %{b.args[0].name}")

    def bind_tuple(self, b, indent):
        self.let(b, indent, f"tuple{self.args(b)}")

    def bind_null(self, b, indent):
        self.let(b, indent, "tuple()")

    def bind_get(self, b, indent):
        self.let(b, indent, f"get %{b.args[0].name}, {b.extra}")

    def bind_constant(self, b, indent):
        self.let(b, indent, f"constant @{b.extra}")

    def bind_shape(self, b, indent):
        self.let(b, indent, f"shape {dims(b.extra)}")

    def bind_integer(self, b, indent):
        self.let(b, indent, f"literal {dim(b.extra)}")

    def bind_string(self, b, indent):
        self.let(b, indent, f'literal "{b.extra}"')

    def bind_kill(self, b, indent):
        self.do(b, indent, f"kill %{b.args[0].name}")

    def bind_if(self, b, indent):
        using = ", ".join("%" + v.name for v in captures(b))
        self.let(b, indent, f"if %{b.args[0].name} using ({using}) -> {type_text(b.type)} {{")
        self.block(b.blocks[0], indent + "  ")
        self.put(f"{indent}  yield %{b.blocks[0].result.name}")
        self.put(indent + "} else {")
        self.block(b.blocks[1], indent + "  ")
        self.put(f"{indent}  yield %{b.blocks[1].result.name}")
        self.put(indent + "}")


def write(module):
    """(text, {line: binding name})"""
    writer = Writer(module)
    return writer.text(), writer.name_of_line
