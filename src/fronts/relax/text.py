"""The textual form of docs/ir.md, read in Python: what `writer.py` makes Relax of."""

import re
import typing

from cugrt import Code, Error

TOKEN = re.compile(
    r'(?P<space>\s+|//[^\n]*)|(?P<string>"""(?s:.*?)"""|"(?:\\.|[^"\\\n])*")|(?P<hex>x"[0-9a-fA-F]*")|'
    r"(?P<value>%[\w.]+)|"
    r"(?P<glob>@[\w.]+)|(?P<float>\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)|(?P<int>0x[0-9a-fA-F]+|\d+)|"
    r"(?P<word>[A-Za-z_]\w*)|(?P<mark>->|[<>=!]=|[-+*(){}\[\],:=<>?])"
)
FUNCTIONS = {"floordiv", "ceildiv", "mod", "min", "max", "select"}
DTYPES = {"bool", "f16", "bf16", "f32", "f64"} | {f"{k}{b}" for k in "iu" for b in (4, 8, 16, 32, 64)}


class Type(typing.NamedTuple):
    kind: str  # tensor, storage, shape, int, float, bool, string, dtype, object, tuple
    dims: typing.Any = None  # expressions; of an int or a storage its one expression; None where not known
    dtype: str = ""  # of a storage its scope
    parts: tuple = ()
    scope: str = "global"  # of a tensor


class Statement(typing.NamedTuple):
    results: list
    kind: str  # as in the grammar; "op" for ops, whose name is `name`
    name: str = ""
    operands: list = []
    attributes: dict = {}
    types: list = []
    blocks: list = []  # pairs of statements and yielded operands
    span: tuple = ()  # file, line, column of what it was made of


class Function(typing.NamedTuple):
    name: str
    private: bool
    params: list  # (name, access, type)
    results: list
    attributes: dict
    body: list
    returned: list


class Value(str):
    """An operand that is a value, by its name."""


class Global(str):
    """An operand that is a function."""


class Text(str):
    """An operand that is a string."""


class Dtype(str):
    """An operand or attribute that is a dtype."""


SPAN = re.compile(r"// (\S.*):(\d+):(\d+)\s*")  # a comment behind a statement, as function.py writes them


class Parser:
    def __init__(self, text):
        self.tokens, at = [], 0
        self.spans = {}  # by the token before it
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise Error(f"the module's text has {text[at:at + 20]!r}, which is no word of it", Code.PARSE_ERROR)
            if match.lastgroup != "space":
                self.tokens.append((match.lastgroup, match.group()))
            elif span := SPAN.fullmatch(match.group()):
                self.spans[len(self.tokens) - 1] = (span[1], int(span[2]), int(span[3]))
            at = match.end()
        self.tokens.append(("end", ""))
        self.at = 0

    @property
    def word(self):
        return self.tokens[self.at][1]

    @property
    def kind(self):
        return self.tokens[self.at][0]

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1][1]

    def take(self, word):
        if self.word == word and self.kind != "string":
            self.at += 1
            return True
        return False

    def want(self, word):
        if not self.take(word):
            raise Error(f"the module's text has {self.word!r} where {word!r} is wanted", Code.PARSE_ERROR)

    def list(self, opening, closing, one):
        self.want(opening)
        found = []
        while not self.take(closing):
            found.append(one())
            self.take(",")
        return found

    def string(self):
        raw = self.next()
        if raw.startswith('"""'):
            return raw[3:-3]
        escapes = {"n": "\n", "r": "\r", "t": "\t"}
        return re.sub(
            r"\\(x..|.)",
            lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" and len(m[1]) == 3 else escapes.get(m[1], m[1]),
            raw[1:-1],
        )

    # --- Expressions and types ---

    def expr(self):
        left = self.sum()
        if self.word in ("==", "!=", "<", "<=", ">", ">="):
            return (self.next(), left, self.sum())
        return left

    def sum(self):
        left = self.product()
        while self.word in ("+", "-"):
            left = (self.next(), left, self.product())
        return left

    def product(self):
        left = self.unary()
        while self.take("*"):
            left = ("*", left, self.unary())
        return left

    def unary(self):
        if self.take("-"):
            inner = self.unary()
            return -inner if isinstance(inner, int) else ("-", 0, inner)
        if self.take("("):
            inner = self.expr()
            self.want(")")
            return inner
        if self.kind == "int":
            return int(self.next(), 0)
        name = self.next()
        return (name, *self.list("(", ")", self.expr)) if name in FUNCTIONS else name

    def dims(self):
        return None if self.take("?") else self.list("[", "]", self.expr)

    def type(self):
        kind = self.next()
        if kind == "tuple":
            return Type(kind, parts=tuple(self.list("<", ">", self.type)))
        if kind not in ("tensor", "storage", "shape", "int") or not self.take("<"):
            return Type(kind)
        made = Type(kind)
        if kind == "tensor":
            dims = self.dims()
            self.want(",")
            made = Type(kind, dims, self.next())
            if self.take(","):
                if not self.take("scope"):
                    raise Error("tensors with strides have no place in Relax", Code.UNSUPPORTED)
                made = made._replace(scope=self.string())
        elif kind == "storage":
            scope = self.string()
            self.want(",")
            made = Type(kind, self.sum(), scope)
        else:
            made = Type(kind, self.dims() if kind == "shape" else self.sum())
        self.want(">")
        return made

    def types(self):
        return self.list("(", ")", self.type) if self.word == "(" else [self.type()]

    # --- Operands and statements ---

    def operand(self):
        kind, word = self.kind, self.word
        if kind == "value":
            return Value(self.next()[1:])
        if kind == "glob":
            return Global(self.next()[1:])
        if kind == "string":
            return Text(self.string())
        negative = word == "-" and (
            self.tokens[self.at + 1][0] == "float" or self.tokens[self.at + 1][1] in ("inf", "nan")
        )
        if kind == "float" or word in ("inf", "nan") or negative:
            self.at += negative
            return -float(self.next()) if negative else float(self.next())
        if word in ("true", "false", "none") or word in DTYPES:
            self.at += 1
            return {"true": True, "false": False, "none": None}.get(word, Dtype(word))
        return self.expr()

    def avalue(self):
        if self.word == "[":
            return self.list("[", "]", self.avalue)
        if self.word == "{":
            return self.attributes()
        return self.operand()

    def attributes(self):
        def pair():
            name = self.next()
            self.want("=")
            return name, self.avalue()

        return dict(self.list("{", "}", pair))

    def call(self):
        operands = self.list("(", ")", self.operand)
        return operands, self.attributes() if self.word == "{" else {}

    def block(self, end):
        self.want("{")
        found = []
        while not self.take(end):
            statement = self.statement()
            found.append(statement._replace(span=self.spans.get(self.at - 1, ())))
        given = []
        while not self.take("}"):
            given.append(self.operand())
            self.take(",")
        return found, given

    def statement(self):
        results = []
        if self.kind == "value":
            while True:
                results.append(self.next()[1:])
                if not self.take(","):
                    break
            self.want("=")
        kind = self.next()
        if kind == "alloc_storage":
            scope = self.string()
            self.want(",")
            return Statement(results, kind, scope, [self.expr()])
        if kind in ("alloc_tensor", "view", "get"):
            source = self.operand()
            self.want(",")
            at = self.expr()
            types = [self.type()] if self.take(":") else []
            return Statement(results, kind, operands=[source, at], types=types)
        if kind in ("alloc", "match"):
            operands = [self.operand()] if kind == "match" else []
            self.want(":")
            return Statement(results, kind, operands=operands, types=[self.type()])
        if kind in ("kill", "alias", "literal"):
            return Statement(results, kind, operands=[self.operand()])
        if kind in ("launch", "call"):
            name = self.next()[1:]
            operands, attributes = self.call()
            return Statement(results, kind, name, operands, attributes)
        if kind in ("host", "extern"):
            name = self.string()
            operands, attributes = self.call()
            return Statement(results, kind, name, operands, attributes, self.types() if self.take(":") else [])
        if kind == "tuple":
            return Statement(results, kind, operands=self.call()[0])
        if kind == "constant":
            return Statement(results, kind, self.next()[1:])
        if kind == "shape":
            return Statement(results, kind, operands=self.dims())
        if kind == "if":
            condition = self.operand()
            if self.take("using"):
                self.list("(", ")", self.operand)
            types = self.types() if self.take("->") else []
            blocks = [self.block("yield")]
            if self.take("else"):
                blocks.append(self.block("yield"))
            return Statement(results, kind, operands=[condition], types=types, blocks=blocks)
        if kind in ("while", "read"):
            raise Error(f"'{kind}' has no place in Relax", Code.UNSUPPORTED)
        operands, attributes = self.call()
        return Statement(results, "op", kind, operands, attributes)

    # --- Items ---

    def function(self, private):
        name = self.next()[1:]
        if self.word == "<":
            self.list("<", ">", self.next)

        def param():
            name = self.next()[1:]
            self.want(":")
            access = self.next() if self.word in ("in", "out", "inout") else "in"
            made = (name, access, self.type())
            if self.take("align"):
                self.next()
            return made

        params = self.list("(", ")", param)
        results = self.types() if self.take("->") else []
        attributes = self.attributes() if self.take("attributes") else {}
        body, returned = self.block("return")
        return Function(name, private, params, results, attributes, body, returned)

    def constant(self):
        name = self.next()[1:]
        self.want(":")
        t = self.type()
        self.want("=")
        if self.word == "[":
            return name, (t, self.list("[", "]", self.operand))
        content = ""
        while self.kind == "hex":
            content += self.next()[2:-1]
        return name, (t, bytes.fromhex(content))

    def module(self):
        """Constants by name, kernels' names, functions."""
        self.want("cugrt")
        self.want("1")
        constants, kernels, functions = {}, [], []
        while self.kind != "end":
            item = self.next()
            if item == "kernel":
                kernels.append(self.next()[1:])
                depth = 0
                while True:
                    depth += {"{": 1, "}": -1}.get(self.word, 0) * (self.kind == "mark")
                    self.next()
                    if not depth:
                        break
            elif item == "constant":
                name, made = self.constant()
                constants[name] = made
            elif item in ("private", "func"):
                if item == "private":
                    self.want("func")
                functions.append(self.function(item == "private"))
            else:
                raise Error(f"the module's text has {item!r} where an item is wanted", Code.PARSE_ERROR)
        return constants, kernels, functions
