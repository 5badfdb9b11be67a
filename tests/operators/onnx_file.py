"""Reads ONNX models and tensors: just enough of the wire format for one-operator models.

A message becomes {field number: [values]}; integers and floats of packed fields are unpacked by who
knows their type.
"""
import math
import struct

DTYPES = {1: "f32", 2: "u8", 3: "i8", 4: "u16", 5: "i16", 6: "i32", 7: "i64", 9: "bool", 10: "f16",
          11: "f64", 12: "u32", 13: "u64", 16: "bf16"}
RAW = {"f32": "f", "u8": "B", "i8": "b", "u16": "H", "i16": "h", "i32": "i", "i64": "q", "bool": "?",
       "f16": "e", "f64": "d", "u32": "I", "u64": "Q"}


class Unreadable(Exception):
    """What this reader does not take; the text says what."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def message(data):
    fields = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at:at + size], at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def integers(values):
    """Of a repeated field, packed or not."""
    result = []
    for value in values:
        if isinstance(value, int):
            result.append(signed(value))
            continue
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            result.append(signed(number))
    return result


def packed(values, code):
    data = b"".join(values)
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


class Tensor:
    """dims, dtype and values (row by row) of a TensorProto."""

    def __init__(self, data=None, dims=(), dtype="f32", values=()):
        self.name = ""
        self.dims, self.dtype, self.values = list(dims), dtype, list(values)
        if data is None:
            return
        fields = message(data)
        self.name = fields.get(8, [b""])[0].decode()
        self.dims = integers(fields.get(1, []))
        kind = fields.get(2, [0])[0]
        if kind not in DTYPES:
            raise Unreadable("strings" if kind == 8 else "sequences and optional values")
        self.dtype = DTYPES[kind]
        if 9 in fields:
            self.values = self.from_raw(fields[9][0])
        elif 4 in fields:
            self.values = packed(fields[4], "f")
        elif 10 in fields:
            self.values = packed(fields[10], "d")
        else:
            self.values = integers(fields.get(5, []) + fields.get(7, []) + fields.get(11, []))
            if self.dtype in ("f16", "bf16"):
                self.values = self.from_raw(struct.pack(f"<{len(self.values)}H", *self.values))

        if len(self.values) != math.prod(self.dims):
            raise Unreadable("sequences and optional values")

    def as_bf16(self):
        """The same, where the file gives the bits of bf16 as integers."""
        if self.dtype == "u16":
            self.dtype = "bf16"
            self.values = self.from_raw(struct.pack(f"<{len(self.values)}H", *self.values))
        return self

    def from_raw(self, raw):
        if self.dtype == "bf16":
            halves = struct.unpack(f"<{len(raw) // 2}H", raw)
            return [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
        code = RAW[self.dtype]
        return list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw))


class Node:
    def __init__(self, data):
        fields = message(data)
        self.inputs = [name.decode() for name in fields.get(1, [])]
        self.outputs = [name.decode() for name in fields.get(2, [])]
        self.type = fields[4][0].decode()
        self.attributes = dict(attribute(one) for one in fields.get(5, []))


def attribute(data):
    fields = message(data)
    name = fields[1][0].decode()
    kind = fields.get(20, [0])[0]
    if kind == 1:
        return name, packed(fields[2], "f")[0]
    if kind == 2:
        return name, signed(fields.get(3, [0])[0])
    if kind == 3:
        return name, fields.get(4, [b""])[0].decode()
    if kind == 4:
        return name, Tensor(fields[5][0])
    if kind == 6:
        return name, packed(fields.get(7, []), "f")
    if kind == 7:
        return name, integers(fields.get(8, []))
    return name, None


def element_type(info):
    """Of a ValueInfoProto of a tensor, its number; else 0."""
    kind = message(message(info).get(2, [b""])[0]).get(1)
    return message(kind[0]).get(1, [0])[0] if kind else 0


class Model:
    """nodes, names of inputs and outputs, and initial values of the graph."""

    def __init__(self, data):
        fields = message(data)
        graph = message(fields[7][0])
        self.nodes = [Node(one) for one in graph.get(1, [])]
        self.inputs = [message(one)[1][0].decode() for one in graph.get(11, [])]
        self.outputs = [message(one)[1][0].decode() for one in graph.get(12, [])]
        self.input_types = [DTYPES.get(element_type(one)) for one in graph.get(11, [])]
        self.output_types = [DTYPES.get(element_type(one)) for one in graph.get(12, [])]
        self.constants = {tensor.name: tensor for tensor in map(Tensor, graph.get(5, []))}
        opsets = [message(one) for one in fields.get(8, [])]
        self.opset = max([one[2][0] for one in opsets if not one.get(1, [b""])[0]], default=1)
