#!/usr/bin/env python3
"""ONNX's node models through the importer of ONNX files and the whole library, on the emulated driver or on
what CUGRT_DRIVER names.

  onnx_nodes.py RUNNER [--symbols] --least N

The models are Debian's libonnx-testdata; RUNNER is run_onnx_nodes, whose last line counts them. Skipped where
they are not installed. With --symbols each dimension of each input becomes a symbol of its own, so that nothing
but a run tells which of them are equal, or 1.
"""
import os
import subprocess
import sys
import tempfile

MODELS = "/usr/share/libonnx-testdata/data/node"
SKIPPED = 77
# Field numbers of onnx.proto: from the model to a dimension's name.
GRAPH, INPUT, TYPE, TENSOR, SHAPE, DIM, DIM_PARAM = 7, 11, 2, 1, 2, 1, 2


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def fields(message):
    """Of a protobuf message: (number, wire type, payload, all of its bytes) each."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        begin = at
        key = number()
        kind = key & 7
        size = number() if kind == 2 else 0
        start = at
        if kind == 0:
            number()
        else:
            at += {1: 8, 2: size, 5: 4}[kind]
        yield key >> 3, kind, message[start:at], message[begin:at]


def rewritten(message, path, make):
    """The message with what `path` leads to replaced by make() of it."""
    if not path:
        return make(message)
    out = b""
    for number, kind, payload, whole in fields(message):
        if number == path[0] and kind == 2:
            inner = rewritten(payload, path[1:], make)
            whole = varint(number << 3 | 2) + varint(len(inner)) + inner
        out += whole
    return out


def with_symbols(model):
    count = 0

    def symbol(_):
        nonlocal count
        name = f"d{count}".encode()
        count += 1
        return varint(DIM_PARAM << 3 | 2) + varint(len(name)) + name

    return rewritten(model, [GRAPH, INPUT, TYPE, TENSOR, SHAPE, DIM], symbol)


def main():
    if not os.path.isdir(MODELS):
        print(f"there are no models in '{MODELS}': Debian's libonnx-testdata has them")
        return SKIPPED
    runner, arguments = sys.argv[1], sys.argv[2:]
    os.environ.setdefault("CUGRT_DRIVER", "emulated")
    if "--symbols" not in arguments:
        os.execv(runner, [runner, MODELS, *arguments])
    arguments.remove("--symbols")
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(MODELS):
            source, target = os.path.join(MODELS, name), os.path.join(folder, name)
            if not os.path.isfile(os.path.join(source, "model.onnx")):
                continue
            os.mkdir(target)
            os.symlink(os.path.join(source, "test_data_set_0"), os.path.join(target, "test_data_set_0"))
            with open(os.path.join(source, "model.onnx"), "rb") as file:
                model = with_symbols(file.read())
            with open(os.path.join(target, "model.onnx"), "wb") as file:
                file.write(model)
        return subprocess.run([runner, folder, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
