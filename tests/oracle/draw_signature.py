"""What a random function takes: parameters, symbols with bounds and hints, dimensions and sizes."""
import math

from neutral import Type, Value, byte_count, evaluate, is_static, symbols_of, tensor

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


class SignatureDrawer:
    """The base of FunctionDrawer: what does not add bindings."""

    def __init__(self, drawer, function):
        self.drawer, self.rng = drawer, drawer.rng
        self.f = function
        self.block, self.scope, self.depth = function.body, Scope(), 0
        self.aliased = set()  # names of tensors that other names stand for
        self.upper = {}
        self.condition = None

    def chance(self, p):
        return self.rng.random() < p

    def name(self):
        return self.drawer.name()

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

    # --- Sizes ---

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
