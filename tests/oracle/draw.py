"""Draws a random module from a seed.

Most of what is drawn is what compilers emit: an allocation, a kernel that writes it, an alias. The
rest is everything that the published rules mention. What is known to need a switch (control flow
and matches in the middle of regions, results behind views, ..) is drawn seldom enough that most
modules need none.
"""
import math
import random

from neutral import (EMPTY, OBJECT, Binding, Block, Function, Module, Type, Value, byte_count,
                     evaluate, is_static, symbols_of, tensor)

DTYPES = ("float32",) * 9 + ("float16", "int32", "int64", "int8", "bool")
SIZES = (1, 2, 3, 4, 5, 8, 16, 32, 100) * 4 + (0,)


class Scope:
    """The values that a block sees, and the symbols."""

    def __init__(self, outer=None):
        self.tensors = list(outer.tensors) if outer else []
        self.tuples = list(outer.tuples) if outer else []
        self.objects = list(outer.objects) if outer else []
        self.storages = list(outer.storages) if outer else []
        self.symbols = list(outer.symbols) if outer else []


class FunctionDrawer:
    def __init__(self, drawer, function):
        self.drawer, self.rng = drawer, drawer.rng
        self.f = function
        self.block, self.scope, self.depth = function.body, Scope(), 0
        self.own = set()      # names of values that this function allocates or gets from externs
        self.aliased = set()  # names of tensors that other names stand for
        self.upper = {}
        self.condition = None

    def chance(self, p):
        return self.rng.random() < p

    def name(self):
        return self.drawer.name()

    # --- Adding bindings ---

    def add(self, kind, type, args=(), extra=None, blocks=()):
        name = self.name()
        binding = Binding(kind, name, type, args, extra, blocks)
        self.block.bindings.append(binding)
        for value in binding.operands():
            if kind not in ("kernel", "dyn", "kill"):
                self.aliased.add(value.name)
        return name

    def bind_tensor(self, kind, type, args=(), extra=None, access="read", blocks=()):
        value = Value(self.add(kind, type, args, extra, blocks), type, access)
        self.scope.tensors.append(value)
        self.own.add(value.name)
        return value

    # --- Signature ---

    def signature(self, is_callee):
        f, rng = self.f, self.rng
        if is_callee:
            for _ in range(rng.randint(1, 3)):
                self.param(tensor(self.static_dims(), "float32"))
            f.num_inputs = None
        else:
            self.inputs_and_weights()
        if self.chance(0.3):
            self.condition = self.param(tensor((), "bool"), hidden=True)
            if f.num_inputs is not None:
                # A condition is given in each call: it stands before the weights.
                f.params.insert(0, f.params.pop())
                f.num_inputs += 1

    def inputs_and_weights(self):
        f, rng = self.f, self.rng
        if self.chance(0.45):
            f.symbols = ["n", "m"][:rng.randint(1, 2)]
        for symbol in f.symbols:
            if self.chance(0.7):
                self.upper[symbol] = f.upper[symbol] = rng.choice((1, 4, 5, 7, 20, 64))
                if self.chance(0.3):
                    f.lower[symbol] = rng.randint(0, f.upper[symbol])
            elif self.chance(0.3):
                f.lower[symbol] = rng.randint(0, 3)
            if self.chance(0.5):
                f.captured.append(symbol)
        if f.symbols and self.chance(0.5):
            f.non_negative = list(f.symbols)
        if f.symbols and self.chance(0.2):
            f.plan_dynamic_results = True
        of_weight = "m" if len(f.symbols) == 2 and self.chance(0.4) else None
        self.scope.symbols = [s for s in f.symbols if s != of_weight]
        if self.scope.symbols and self.chance(0.3):
            self.param(Type("shape", tuple(self.scope.symbols)), hidden=True)
        else:
            for symbol in self.scope.symbols:
                dims = [symbol] + [rng.choice(SIZES)] * rng.randint(0, 1)
                self.param(tensor(dims, rng.choice(DTYPES)))
        for _ in range(rng.randint(1, 2)):
            written = self.chance(0.1)
            value = self.param(tensor(self.dims(), rng.choice(DTYPES)))
            if written:
                f.written.add(value.name)
                value.access = "write"
        if self.chance(0.35) or of_weight:
            f.num_inputs = len(f.params)
            for _ in range(rng.randint(1, 3)):
                dims = (of_weight, rng.choice(SIZES)) if of_weight else self.static_dims()
                self.param(tensor(dims, "float32"))
        self.scope.symbols = list(f.symbols)

    def param(self, type, hidden=False):
        value = Value(self.name(), type)
        self.f.params.append(value)
        if not hidden:
            self.scope.tensors.append(value)
        return value

    # --- Dimensions ---

    def static_dims(self):
        return tuple(self.rng.choice(SIZES) for _ in range(self.rng.choice((1, 1, 2, 2, 3))))

    def dims(self):
        rng = self.rng
        if not self.scope.symbols or self.chance(0.45):
            return self.static_dims()
        dims = [self.symbolic()] + [rng.choice(SIZES) for _ in range(rng.choice((0, 1)))]
        if len(self.scope.symbols) == 2 and self.chance(0.25):
            dims.append(rng.choice(self.scope.symbols))
        rng.shuffle(dims)
        return tuple(dims)

    def symbolic(self):
        rng = self.rng
        s = rng.choice(self.scope.symbols)
        form = rng.randrange(13)
        if form < 5:
            return s
        if form == 5:
            return ("*", rng.choice((2, 3, 4)), s)
        if form == 6:
            return ("+", ("*", 2, s), rng.choice((1, 2, 6)))
        if form == 7:
            return ("floordiv", ("+", s, 3), 4)
        if form == 8:
            return ("min", s, 8)
        if s != "n" or "m" not in self.scope.symbols:
            return s
        # Symbols in the order of the signature, as our text's normal form has them: keys list
        # symbols in the order in which expressions name them.
        other = "m"
        if form == 9:
            return ("+", s, other)
        if form == 10 and s in self.upper and other in self.upper:
            return ("max", ("-", s, other), 1)
        # A product of a bounded and an unbounded symbol has a maximum where the latter is known not
        # to be negative, as symbols of our text always are.
        if form == 11 and ((s in self.upper) == (other in self.upper) or self.f.non_negative):
            return ("*", s, other)
        return s

    # --- Allocations ---

    def allocate(self, type):
        """A fresh tensor: planned later, or in a storage where the module is written with those."""
        self.own_type = type
        if self.drawer.mode == "chain" or self.chance(0.15):
            return self.bind_tensor("alloc", type, access="write")
        return self.place(type)

    def place(self, type):
        rng = self.rng
        size = self.size_of(type)
        fitting = [s for s in self.scope.storages if self.holds(s, size, type)]
        if fitting and self.chance(0.55):
            storage = rng.choice(fitting)
        else:
            bytes = size
            if isinstance(size, int) and self.chance(0.2):
                bytes = size * rng.choice((1, 2, 3))
            t = Type("storage", (bytes,), type.dtype, (), type.scope)
            storage = Value(self.add("storage", t, (), (bytes, type.scope, type.dtype)), t)
            self.scope.storages.append(storage)
        return self.bind_tensor("tensor", type, (storage,), access="write")

    def size_of(self, type):
        """Bytes: constant where bounds allow, else an expression."""
        if is_static(type.dims):
            return byte_count(type)
        symbols = {}
        for dim in type.dims:
            symbols_of(dim, symbols)
        item = byte_count(tensor((), type.dtype))
        if all(s in self.upper for s in symbols) and self.chance(0.85):
            # max(n - m, 1) and the like: every dimension at its own maximum.
            return item * math.prod(self.largest(d) for d in type.dims)
        size = item
        for dim in type.dims:
            size = ("*", size, dim)
        return size

    def largest(self, dim):
        if isinstance(dim, tuple) and dim[0] == "max":
            return max(self.upper[dim[1][1]], 1)
        return evaluate(dim, self.upper)

    def holds(self, storage, size, type):
        have = storage.type.dims[0]
        if storage.type.scope != type.scope:
            return False
        if isinstance(have, int) and isinstance(size, int):
            return have >= size
        return have == size

    # --- What a block does ---

    def steps(self, count):
        for _ in range(count):
            self.step()

    def step(self):
        kind = self.rng.choices(self.drawer.kinds, self.drawer.weights)[0]
        getattr(self, "draw_" + kind)()

    def some_tensor(self, recent=True):
        tensors = self.scope.tensors
        if not tensors:
            return None
        if recent and self.chance(0.7):
            return self.rng.choice(tensors[-4:])
        return self.rng.choice(tensors)

    def draw_kernel(self):
        rng = self.rng
        reads = [v for v in (self.some_tensor() for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))))
                 if v]
        scope = "global" if self.chance(0.92) else "ipc"
        writable = [v for v in self.scope.tensors[-6:] if v.access == "write"]
        written = []
        for _ in range(2 if self.chance(0.08) else 1):
            if writable and self.chance(0.12):
                written.append(rng.choice(writable))
            else:
                dtype = rng.choice(DTYPES)
                dims = (reads[0].type.dims if reads and self.chance(0.5)
                        and self.visible_dims(reads[0].type.dims) else self.dims())
                written.append(self.allocate(tensor(dims, dtype, scope)))
        access = "i" * len(reads) + "o" * len(written)
        self.launch(access, reads + written)
        if self.chance(0.4):
            target = written[-1]
            self.bind_tensor("alias", target.type, (target,), access=target.access)

    def visible_dims(self, dims):
        symbols = {}
        for dim in dims:
            symbols_of(dim, symbols)
        return all(s in self.scope.symbols for s in symbols)

    def launch(self, access, args):
        symbols, kind = (), "kernel"
        if self.scope.symbols and self.chance(0.15):
            symbols = tuple(self.symbolic() for _ in range(self.rng.randint(1, 2)))
            # call_tir_dyn's arguments are one tuple: with a tensor of an outer block twice in it,
            # repeated_part_breaks; our launch cannot tell.
            kind = "dyn" if self.chance(0.5) and self.depth == 0 else "kernel"
        name = f"k_{access}{'s' * len(symbols)}_{self.rng.choice('ab')}"
        self.add(kind, EMPTY, args, (name, symbols))

    def draw_alias(self):
        v = self.some_tensor()
        if v:
            self.bind_tensor("alias", v.type, (v,), access=v.access)

    def draw_tuple(self):
        pool = self.scope.tensors[-5:] + self.scope.tuples[-2:]
        if pool:
            fields = [self.rng.choice(pool) for _ in range(self.rng.randint(1, 3))]
            t = Type("tuple", None, "float32", [v.type for v in fields])
            self.scope.tuples.append(Value(self.add("tuple", t, fields), t))

    def draw_get(self):
        if not self.scope.tuples:
            self.draw_tuple()
        tuples = [t for t in self.scope.tuples if t.type.fields]
        if tuples:
            v = self.rng.choice(tuples)
            index = self.rng.randrange(len(v.type.fields))
            t = v.type.fields[index]
            if t.kind == "tensor":
                self.bind_tensor("get", t, (v,), index)
            else:
                self.scope.tuples.append(Value(self.add("get", t, (v,), index), t))

    def draw_reshape(self):
        v = self.some_tensor()
        if not v:
            return
        dims = list(v.type.dims)
        if is_static(dims) and self.chance(0.6):
            dims = [math.prod(dims)]
        else:
            self.rng.shuffle(dims)
            dims.insert(0, 1)
        if len(dims) <= 8:
            t = tensor(dims, v.type.dtype, v.type.scope)
            self.bind_tensor("reshape", t, (v,), access=v.access)

    def draw_view(self):
        static = [v for v in self.scope.tensors[-6:] if is_static(v.type.dims)]
        static = [v for v in static if math.prod(v.type.dims)]
        if not static or self.chance(0.3):
            v = self.some_tensor()
            if v:
                self.bind_tensor("offset", v.type, (v,), access=v.access)
            return
        v = self.rng.choice(static)
        count = math.prod(v.type.dims)
        length = self.rng.randint(1, count)
        item = byte_count(tensor((), v.type.dtype))
        offset = self.rng.choice((0, 0, item * self.rng.randint(0, count - length)))
        self.bind_tensor("view", tensor((length,), v.type.dtype, v.type.scope), (v,), offset,
                         access=v.access)

    def draw_match(self):
        v = self.some_tensor()
        if not v or not v.type.dims:
            return
        dims = list(v.type.dims)
        if self.chance(0.5):
            symbol = f"q{self.drawer.count}"
            at = self.rng.randrange(len(dims))
            replaced, dims[at] = dims[at], symbol
            self.scope.symbols.append(symbol)
            if self.depth == 0:
                # Neither a bound nor a hint counts: it is not in the signature.
                if self.chance(0.3) and replaced in SIZES:
                    self.f.upper[symbol] = max(SIZES)
                if self.chance(0.3):
                    self.f.captured.append(symbol)
        self.bind_tensor("match", tensor(dims, v.type.dtype, v.type.scope), (v,), access=v.access)

    def draw_constant(self):
        t = tensor((self.rng.choice((1, 2, 4)),), "float32")
        name = f"c{len(self.drawer.module.constants)}"
        self.drawer.module.constants.append((name, t))
        self.bind_tensor("constant", t, (), name)

    def draw_literal(self):
        kind = self.rng.choice(("shape", "integer", "string", "null"))
        if kind == "shape":
            dims = tuple(self.rng.choice(SIZES) for _ in range(2))
            self.bind_object(kind, Type("shape", dims), (), dims)
        elif kind == "integer":
            self.bind_object(kind, Type("integer"), (), self.rng.choice(SIZES))
        elif kind == "string":
            self.bind_object(kind, Type("string"), (), "word")
        else:
            self.bind_object(kind, OBJECT)

    def bind_object(self, kind, type, args=(), extra=None):
        self.scope.objects.append(Value(self.add(kind, type, args, extra), type))

    def call_args(self):
        rng = self.rng
        args = [v for v in (self.some_tensor() for _ in range(rng.randint(0, 3))) if v]
        if self.scope.tuples and self.chance(0.15):
            args.append(rng.choice(self.scope.tuples))
        if self.scope.objects and self.chance(0.2):
            args.append(rng.choice(self.scope.objects))
        if self.chance(0.2):
            args.append(rng.choice((("dtype", "float32"), ("string", "word"), ("integer", 3))))
        if self.scope.symbols and self.chance(0.15):
            args.append(("integer", self.symbolic()))
        return args

    def draw_extern(self):
        rng = self.rng
        if self.chance(0.12):
            return self.draw_reshape_extern()
        name = rng.choice(("extern.a", "extern.a", "extern.b", "vm.builtin.c"))
        args = self.call_args()
        if self.chance(0.6):
            t = tensor(self.dims(), rng.choice(DTYPES), "global")
            args.append(self.allocate(t))
        self.with_result("extern", args, name)

    def draw_reshape_extern(self):
        v = self.some_tensor()
        if v and v.type.scope == "global":
            dims = tuple(v.type.dims)
            args = [v] + [("integer", d) for d in dims]
            self.bind_tensor("extern", v.type, args, "vm.builtin.reshape")

    def with_result(self, kind, args, callee):
        if self.chance(0.6):
            self.add(kind, EMPTY, args, callee)
        elif self.chance(0.6):
            self.bind_tensor(kind, tensor(self.dims(), "float32"), args, callee)
        else:
            type = OBJECT if self.chance(0.5) else Type("tensor", None)
            self.bind_object(kind, type, args, callee)

    def draw_context(self):
        self.with_result("context", self.call_args(), "vm.builtin.d")

    def draw_add(self):
        candidates = [v for v in self.scope.tensors[-6:]
                      if v.type.dtype == "float32" and v.type.scope == "global"]
        if candidates:
            v = self.rng.choice(candidates)
            self.bind_tensor("add", v.type, (v, v))

    def draw_call(self):
        callees = self.drawer.callees
        if not callees:
            return
        callee = self.rng.choice(callees)
        args = []
        for p in callee.params:
            same = [v for v in self.scope.tensors if v.type.same(p.type)]
            if same and self.chance(0.8):
                args.append(self.rng.choice(same))
            else:
                args.append(self.bind_tensor("alloc", p.type, access="write"))
        t = callee.body.result.type
        value = Value(self.add("call", t, args, callee.name), t)
        (self.scope.tensors if t.kind == "tensor" else self.scope.tuples).append(value)

    def draw_unused(self):
        self.allocate(tensor(self.dims(), self.rng.choice(DTYPES)))
        self.scope.tensors.pop()

    def draw_storage(self):
        """One that nothing may ever use."""
        if self.drawer.mode == "lowered":
            size = self.rng.choice(SIZES)
            t = Type("storage", (size,), "float32", (), "global")
            self.scope.storages.append(
                Value(self.add("storage", t, (), (size, "global", "float32")), t))

    def draw_layers(self):
        """The same few kernels again and again, between calls that end regions: equal regions."""
        type = tensor(self.static_dims(), "float32")
        second = self.chance(0.5)
        for _ in range(self.rng.randint(2, 3)):
            a = self.allocate(type)
            self.add("kernel", EMPTY, (a,), ("k_o_a", ()))
            if second:
                b = self.allocate(type)
                self.add("kernel", EMPTY, (a, b), ("k_io_a", ()))
            self.add("context", EMPTY, (), "vm.builtin.d")

    def draw_if(self):
        if self.depth >= 2:
            return
        condition = self.condition
        if condition is None or self.chance(0.3):
            condition = self.allocate(tensor((), "bool"))
            self.scope.tensors.pop()
            inputs = [v for v in (self.some_tensor(),) if v]
            self.launch("i" * len(inputs) + "o", inputs + [condition])
        through = [v for v in self.scope.tensors if self.visible_dims(v.type.dims)]
        if not through:
            return
        result = self.rng.choice(through[-5:])
        blocks = [self.branch(result) for _ in range(2)]
        self.bind_tensor("if", result.type, (condition,), None, "read", blocks)

    def branch(self, like):
        outer_block, outer_scope = self.block, self.scope
        self.block, self.scope = Block(), Scope(outer_scope)
        # What outer blocks own may be read in branches; writing it is left to what is local.
        self.depth += 1
        self.steps(self.rng.randint(0, 4))
        how = self.rng.randrange(3)
        if how == 0:
            result = self.allocate(like.type)
            self.launch("io", [like, result])
        elif how == 1:
            result = self.bind_tensor("alias", like.type, (like,))
        else:
            result = like
        self.block.result = result
        self.aliased.add(result.name)
        self.depth -= 1
        block = self.block
        self.block, self.scope = outer_block, outer_scope
        return block

    # --- The end ---

    def finish(self):
        rng = self.rng
        tensors = self.scope.tensors
        how = rng.random()
        fresh = [v for v in tensors[-4:] if v.access == "write"]
        if how < 0.12 and self.scope.tuples:
            self.f.body.result = rng.choice(self.scope.tuples)
        elif how < 0.2 or not fresh:
            self.f.body.result = rng.choice(tensors)
        elif how < 0.55:
            # The usual end: the last kernel writes the result, which nothing planned.
            result = self.allocate_result()
            self.launch("io", [rng.choice(tensors[-3:]), result])
            self.f.body.result = (self.bind_tensor("alias", result.type, (result,))
                                  if self.chance(0.4) else result)
        else:
            self.f.body.result = rng.choice(fresh)
        if not self.of_signature(self.f.body.result.type):
            self.f.body.result = next(p for p in self.f.params if p.type.kind == "tensor")
        self.aliased.add(self.f.body.result.name)
        if self.chance(0.4 if self.drawer.mode == "lowered" else 0.04):
            self.add_kills(self.f.body)

    def of_signature(self, type):
        """Whether callers know the symbols of a type."""
        symbols = {}
        for dim in type.dims or ():
            symbols_of(dim, symbols)
        return all(s in self.f.symbols for s in symbols) and all(map(self.of_signature, type.fields))

    def allocate_result(self):
        t = tensor(self.dims(), "float32")
        if self.drawer.mode == "chain" or self.chance(0.7):
            return self.bind_tensor("alloc", t, access="write")
        return self.place(t)

    def add_kills(self, block):
        """Kills tensors of this block after their last use, where nothing else names them."""
        last, made = {}, {}
        for i, b in enumerate(block.bindings):
            self.note_uses(b, i, last)
            if b.kind in ("alloc", "tensor"):
                made[b.name] = b
        kills = {}
        for name, b in made.items():
            if name in last and name not in self.aliased and self.chance(0.6):
                value = next(v for v in block.bindings[last[name]].operands() if v.name == name) \
                    if block.bindings[last[name]].kind != "if" else None
                if value:
                    kills.setdefault(last[name], []).append(value)
        killed = {v.name: at for at, values in kills.items() for v in values}
        for b in block.bindings:
            if b.kind == "storage":
                users = [t.name for t in made.values() if t.args and t.args[0].name == b.name]
                if users and b.name in last and all(u in killed for u in users) \
                        and self.drawer.only_used_in(b.name, block) and self.chance(0.7):
                    at = max(killed[u] for u in users)
                    t = Type("storage", (b.extra[0],), b.extra[2], (), b.extra[1])
                    kills[at].append(Value(b.name, t))
        bindings = []
        for i, b in enumerate(block.bindings):
            bindings.append(b)
            for value in kills.get(i, ()):
                bindings.append(Binding("kill", self.name(), EMPTY, (value,)))
        block.bindings = bindings

    def note_uses(self, b, at, last):
        for v in b.operands():
            last[v.name] = at
        for nested in b.blocks:
            for inner in nested.bindings:
                self.note_uses(inner, at, last)
            last[nested.result.name] = at


class ModuleDrawer:
    # Weights of what is drawn: usual modules, and those with control flow, calls or externs.
    USUAL = {"kernel": 60, "alias": 4, "tuple": 3, "get": 3, "reshape": 5, "view": 3, "match": 0.4,
             "constant": 2, "literal": 2, "add": 0.7, "unused": 0.7, "extern": 0, "context": 1,
             "call": 0, "if": 0, "storage": 0.1, "layers": 0.7}

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.count = 0
        self.mode = "chain" if self.rng.random() < 0.6 else "lowered"
        self.module = Module(seed, self.mode)
        self.callees = []

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def draw(self):
        rng = self.rng
        weights = dict(self.USUAL)
        if rng.random() < 0.4:
            weights["extern"] = rng.choice((2, 8))
        if rng.random() < 0.2:
            weights["if"] = rng.choice((2, 4))
        if rng.random() < 0.25:
            weights["match"] = 3
        functions = rng.choice((1, 1, 1, 2, 2, 3))
        with_calls = functions > 1 and rng.random() < 0.25
        if with_calls:
            weights["call"] = 5
        self.kinds, self.weights = list(weights), list(weights.values())
        for i in range(functions):
            is_callee = with_calls and i < functions - 1
            self.function(f"f{i}", is_callee)
        if rng.random() < 0.5:
            rng.shuffle(self.module.functions)
        return self.module

    def function(self, name, is_callee):
        f = Function(name)
        f.is_private = is_callee and self.rng.random() < 0.5
        drawer = FunctionDrawer(self, f)
        drawer.signature(is_callee)
        drawer.steps(self.rng.choice((2, 4, 6, 8, 10, 14, 20)))
        drawer.finish()
        self.module.functions.append(f)
        if is_callee and all(p.type.kind == "tensor" for p in f.params):
            self.callees.append(f)

    def only_used_in(self, name, block):
        """Whether no nested block of `block` uses the value."""
        def used(b):
            return any(v.name == name for v in b.operands()) or \
                any(used(inner) for nested in b.blocks for inner in nested.bindings)
        return not any(used(inner) for b in block.bindings for nested in b.blocks
                       for inner in nested.bindings)


def draw(seed):
    return ModuleDrawer(seed).draw()
