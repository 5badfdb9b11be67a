"""Modules in a neutral form: what both Relax and our text can say.

A function is a list of bindings with nested blocks. Every binding has a name of its own, unique in
the module, that both sides keep, so that results can be compared name by name.

Dimensions are integers, symbol names, or trees: ("+", a, b), ("-", a, b), ("*", a, b),
("max", a, b), ("min", a, b), ("floordiv", a, b).

How Relax and our text say a binding of each kind:

  kind      Relax                                     our text
  alloc     builtin.alloc_tensor                      alloc
  storage   memory.alloc_storage                      alloc_storage
  tensor    memory.alloc_tensor                       alloc_tensor
  kernel    call of a PrimFunc                        launch
  dyn       vm.call_tir_dyn of a PrimFunc             launch, with symbols
  extern    call_packed                               extern
  context   call_builtin_with_ctx                     host
  call      call of a Relax function                  call
  add       relax.add                                 add (a tensor-level op)
  reshape   relax.reshape                             view
  view      memory.view                               view
  offset    memory.ensure_zero_offset                 view of the same type
  match     match_cast                                match
  alias, tuple, get, constant                         the same
  shape, integer, string: a literal bound to a name   shape, literal
  null      null_value                                tuple(), since it too has no operands
  kill      memory.kill_tensor or kill_storage        kill
  if        If                                        if, with captures
"""
import math


class Type:
    """kind: tensor (`dims` None: not known), tuple, storage, shape, object, integer, string."""
    __slots__ = ("kind", "dims", "dtype", "fields", "scope")

    def __init__(self, kind, dims=None, dtype="float32", fields=(), scope="global"):
        self.kind, self.dims, self.dtype, self.fields = kind, dims, dtype, tuple(fields)
        self.scope = scope

    def same(self, other):
        return (self.kind == other.kind and self.dims == other.dims and self.dtype == other.dtype
                and self.scope == other.scope and len(self.fields) == len(other.fields)
                and all(a.same(b) for a, b in zip(self.fields, other.fields)))


def tensor(dims, dtype="float32", scope="global"):
    return Type("tensor", tuple(dims), dtype, (), scope)


EMPTY = Type("tuple")
OBJECT = Type("object")


class Value:
    """`access`: read (inputs, weights, constants, results of externs) or write (allocated)."""
    __slots__ = ("name", "type", "access", "plain")

    def __init__(self, name, type, access="read", plain=True):
        self.name, self.type, self.access, self.plain = name, type, access, plain


class Binding:
    """`args`: values, or for externs also ("dtype", d), ("string", s), ("integer", dim).

    `extra` by kind: kernel, dyn: (callee, dimensions); extern, context, call: callee; get: index;
    view: byte offset; storage: (bytes, scope, dtype); shape, integer, string: the literal.
    """
    __slots__ = ("kind", "name", "type", "args", "extra", "blocks", "value")

    def __init__(self, kind, name, type, args=(), extra=None, blocks=()):
        self.kind, self.name, self.type = kind, name, type
        self.args, self.extra, self.blocks = list(args), extra, list(blocks)

    def operands(self):
        return [a for a in self.args if isinstance(a, Value)]


class Block:
    __slots__ = ("bindings", "result")

    def __init__(self):
        self.bindings, self.result = [], None


class Function:
    def __init__(self, name):
        self.name = name
        self.params = []         # Values
        self.written = set()     # names of parameters that kernels write: the caller's state
        self.num_inputs = None
        self.upper, self.lower, self.captured = {}, {}, []
        self.non_negative = []
        self.plan_dynamic_results = False
        self.is_private = False
        self.body = Block()
        self.symbols = []        # of the signature


class Module:
    def __init__(self, seed, mode):
        self.seed = seed
        self.mode = mode         # "chain": both passes; "lowered": has storages, second pass only
        self.functions = []
        self.constants = []      # (name, Type)
        self.features = set()

    def kernels(self):
        """Callee names of kernels, in order of first use; the name says the access of operands."""
        found = {}

        def visit(block):
            for b in block.bindings:
                if b.kind in ("kernel", "dyn"):
                    found.setdefault(b.extra[0], None)
                for inner in b.blocks:
                    visit(inner)
        for function in self.functions:
            visit(function.body)
        return list(found)


def symbols_of(dim, into):
    if isinstance(dim, str):
        into.setdefault(dim, None)
    elif isinstance(dim, tuple):
        for part in dim[1:]:
            symbols_of(part, into)
    return into


OPERATORS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
             "max": max, "min": min, "floordiv": lambda a, b: a // b}


def evaluate(dim, values):
    if isinstance(dim, int):
        return dim
    if isinstance(dim, str):
        return values[dim]
    return OPERATORS[dim[0]](evaluate(dim[1], values), evaluate(dim[2], values))


def is_static(dims):
    return all(isinstance(dim, int) for dim in dims)


ITEM_BYTES = {"float32": 4, "float16": 2, "int32": 4, "int64": 8, "int8": 1, "bool": 1}


def byte_count(type):
    """Bytes of a tensor with constant dimensions."""
    return math.prod(type.dims) * ITEM_BYTES[type.dtype]


def captures(binding):
    """Values of outer blocks that the nested blocks of a binding use, in order of first use."""
    inner, found = set(), {}

    def use(value):
        if value.name not in inner:
            found.setdefault(value.name, value)

    def visit(block):
        for b in block.bindings:
            for value in b.operands():
                use(value)
            for nested in b.blocks:
                visit(nested)
            inner.add(b.name)
        use(block.result)
    for block in binding.blocks:
        visit(block)
    return list(found.values())
