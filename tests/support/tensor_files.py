"""The files of tensors that the tool reads and writes: .npy of version 1 and .safetensors."""
import json
import struct


def floats(values):
    """Numbers as the bytes of f32."""
    return struct.pack(f"<{len(values)}f", *values)


def write_weight(path, shape, data, dtype):
    """A .safetensors file of one tensor, "w"."""
    header = json.dumps({"w": {"dtype": dtype, "shape": list(shape),
                               "data_offsets": [0, len(data)]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def write_npy(path, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def read_npy(path):
    """The elements of a file of f32."""
    with open(path, "rb") as file:
        data = file.read()
    at = 10 + struct.unpack("<H", data[8:10])[0]
    return list(struct.unpack(f"<{(len(data) - at) // 4}f", data[at:]))
