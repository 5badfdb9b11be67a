"""Draws a random module from a seed.

Most of what is drawn is what compilers emit: an allocation, a kernel that writes it, an alias. The
rest is everything that the published rules mention. What is known to need a switch (control flow
and matches in the middle of regions, results behind views, ..) is drawn seldom enough that most
modules need none.
"""
import random

from draw_function import FunctionDrawer
from neutral import Function, Module


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
            weights["extern"] = rng.choice((3, 12))
        if rng.random() < 0.3:
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
