#!/usr/bin/env python3
"""Checks the committed data of the digits example: forms, sizes, and the accuracy it promises.

  check_digits_data.py [ROOT]

Reads the files with the standard library alone, so that a mistake in our own readers cannot hide.
"""
import ast
import json
import math
import os
import struct
import sys

IMAGES = 400
LARGEST_WEIGHTS_BYTES = 200_000
LOWEST_ACCURACY = 0.98
SHAPES = {
    "conv1.weight": [16, 1, 3, 3], "conv1.bias": [16],
    "conv2.weight": [16, 16, 3, 3], "conv2.bias": [16],
    "conv3.weight": [32, 16, 3, 3], "conv3.bias": [32], "skip.weight": [32, 16, 1, 1],
    "dense1.weight": [512, 32], "dense1.bias": [32],
    "dense2.weight": [32, 10], "dense2.bias": [10],
}


def read_npy(path):
    """(dtype text, shape, flat values) of a version 1 file in C order, <f4 or <i4."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", f"{path}: not a version 1 .npy file"
    size = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:10 + size].decode("latin1"))
    assert not header["fortran_order"], path
    code = {"<f4": "f", "<i4": "i"}[header["descr"]]
    count = math.prod(header["shape"])
    assert len(data) == 10 + size + 4 * count, f"{path}: {len(data)} bytes"
    return header["descr"], header["shape"], struct.unpack_from(f"<{count}{code}", data, 10 + size)


def check_heldout(folder):
    kind, shape, pixels = read_npy(os.path.join(folder, "heldout_images.npy"))
    assert (kind, shape) == ("<f4", (IMAGES, 1, 8, 8)), (kind, shape)
    # Sixteenths, as the data set has them.
    assert all(0 <= pixel <= 1 and (pixel * 16).is_integer() for pixel in pixels)
    kind, shape, labels = read_npy(os.path.join(folder, "heldout_labels.npy"))
    assert (kind, shape) == ("<i4", (IMAGES,)), (kind, shape)
    for digit in range(10):
        assert abs(labels.count(digit) - IMAGES / 10) <= 3, f"not stratified: {digit}"
    kind, shape, logits = read_npy(os.path.join(folder, "heldout_logits.npy"))
    assert (kind, shape) == ("<f4", (IMAGES, 10)), (kind, shape)
    rows = [logits[10 * i:10 * i + 10] for i in range(IMAGES)]
    accuracy = sum(row.index(max(row)) == label for row, label in zip(rows, labels)) / IMAGES
    assert accuracy >= LOWEST_ACCURACY, accuracy
    return accuracy


def check_weights(path):
    assert os.path.getsize(path) <= LARGEST_WEIGHTS_BYTES, path
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    assert {name: entry["shape"] for name, entry in header.items()} == SHAPES
    end = 0
    for name, entry in header.items():
        begin, next_end = entry["data_offsets"]
        assert entry["dtype"] == "F32" and begin == end, name
        end = next_end
        assert end - begin == 4 * math.prod(entry["shape"]), name
    assert len(data) == 8 + size + end, path
    values = struct.unpack_from(f"<{end // 4}f", data, 8 + size)
    assert all(math.isfinite(value) for value in values)


def main():
    folder = os.path.join(sys.argv[1] if len(sys.argv) > 1 else ".", "examples", "digits")
    check_weights(os.path.join(folder, "weights.safetensors"))
    print(f"held-out accuracy of the stored logits {check_heldout(folder):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
