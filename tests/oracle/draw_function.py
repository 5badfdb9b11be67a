"""What a random function does: bindings, nested blocks, and the end."""
import math

from draw_signature import DTYPES, SIZES, Scope, SignatureDrawer
from neutral import (EMPTY, OBJECT, Binding, Block, Type, Value, byte_count, is_static, symbols_of,
                     tensor)


class FunctionDrawer(SignatureDrawer):
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
        return value

    # --- Allocations ---

    def allocate(self, type):
        """A fresh tensor: planned later, or in a storage where the module is written with those."""
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
        return (all(s in self.f.symbols for s in symbols)
                and all(map(self.of_signature, type.fields)))

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
