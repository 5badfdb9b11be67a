"""What both sides' results are compared in.

Sizes that are expressions are compared by their values where symbols have these values.
"""
import zlib


def _values(salt):
    return lambda name: 3 + zlib.crc32((salt + name).encode()) % 97


FINGERPRINTS = [_values("a"), _values("b"), _values("c")]


def floordiv(a, b):
    return a // b


def ceildiv(a, b):
    return -(-a // b)


class _Symbols(dict):
    def __init__(self, values):
        super().__init__(max=max, min=min, floordiv=floordiv, ceildiv=ceildiv)
        self.values_of = values

    def __missing__(self, name):
        return self.values_of(name)


def fingerprint(text):
    """Of an expression of our text form."""
    if text.isdecimal():
        return int(text)
    code = compile(text, "size", "eval")
    return [eval(code, {"__builtins__": {}}, _Symbols(values)) for values in FINGERPRINTS]
