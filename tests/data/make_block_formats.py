#!/usr/bin/env python3
"""Writes block_formats.json: for each block format of GGUF random blocks whose scales are finite, and their elements
as PyPI's gguf 0.19.0 has them, f32 bit for bit; both as hexadecimal digits.

  pip install gguf==0.19.0; make_block_formats.py > block_formats.json
"""
import json

import numpy
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

# Where a block's halves are: scales and leasts.
HALVES = {"Q4_0": (18, 0), "Q4_1": (20, 0, 2), "Q5_0": (22, 0), "Q5_1": (24, 0, 2), "Q8_0": (34, 0), "IQ4_NL": (18, 0),
          "Q2_K": (84, 80, 82), "Q3_K": (110, 108), "Q4_K": (144, 0, 2), "Q5_K": (176, 0, 2), "Q6_K": (210, 208)}
BLOCKS = 3

draw = numpy.random.default_rng(21)
formats = {}
for name, (size, *halves) in HALVES.items():
    blocks = draw.integers(0, 256, (BLOCKS, size), dtype=numpy.uint8)
    for at in halves:
        blocks[:, at:at + 2] = draw.normal(0, 0.1, BLOCKS).astype("<f2").view(numpy.uint8).reshape(BLOCKS, 2)
    elements = dequantize(blocks.reshape(1, -1), GGMLQuantizationType[name]).astype("<f4")
    formats[name.lower()] = {"blocks": blocks.tobytes().hex(), "elements": elements.tobytes().hex()}
print(json.dumps(formats, indent=1))
