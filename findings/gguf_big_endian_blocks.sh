#!/usr/bin/env bash
# gguf 0.19.0 (PyPI gguf, of llama.cpp): a GGUFWriter for big-endian files turns the bytes of F32 and F16 tensors and of
# all metadata, but not those of BF16 and of quantised blocks, which it holds as bytes: 127 of BF16 is written fe 42, and
# the half that scales a block of Q8_0 00 3c. GGUF's text: of a big-endian file all values are, tensors included. The
# package's own gguf-convert-endian turns them, so the same tensors written big and written little and converted are two
# files. Its reader tells neither, and gguf.dequantize of what it read is wrong for F32 and F16 and, of the file that is
# as the text says, for all four. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install gguf==0.19.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import struct
import subprocess
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type, GGUFEndian as Endian

values = np.array([[127.0] + [1.0] * 31], np.float32)  # as Q8_0: 127 * 1.0 and 31 times 1 * 1.0
by_the_text = {Type.F32: struct.pack(">f", 127), Type.F16: struct.pack(">e", 127),
               Type.BF16: struct.pack(">f", 127)[:2], Type.Q8_0: struct.pack(">e", 1)}
folder, convert = sys.argv[1:]
paths = {}
for endian in (Endian.BIG, Endian.LITTLE):
    paths[endian] = f"{folder}/{endian.name}.gguf"
    writer = gguf.GGUFWriter(paths[endian], "llama", endianess=endian)
    for kind in by_the_text:
        writer.add_tensor(kind.name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
subprocess.run([convert, paths[Endian.LITTLE], "big"], input="YES\n", check=True, capture_output=True, text=True)

files = {"written": paths[Endian.BIG], "converted": paths[Endian.LITTLE]}
for name, path in files.items():
    reader = gguf.GGUFReader(path)
    for tensor, (kind, first) in zip(reader.tensors, by_the_text.items()):
        with np.errstate(all="ignore"):
            back = gguf.dequantize(tensor.data, kind)
        stored = tensor.data.tobytes()[:len(first)]
        print(name, reader.endianess.name, kind.name, stored.hex(), "by the text", first.hex(),
              "dequantized", "right" if np.array_equal(back, values) else "wrong")
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder" "$folder/venv/bin/gguf-convert-endian")
printf '%s\n' "$seen"
expected=$(cat <<'X'
written BIG F32 42fe0000 by the text 42fe0000 dequantized wrong
written BIG F16 57f0 by the text 57f0 dequantized wrong
written BIG BF16 fe42 by the text 42fe dequantized right
written BIG Q8_0 003c by the text 3c00 dequantized right
converted BIG F32 42fe0000 by the text 42fe0000 dequantized wrong
converted BIG F16 57f0 by the text 57f0 dequantized wrong
converted BIG BF16 42fe by the text 42fe dequantized wrong
converted BIG Q8_0 3c00 by the text 3c00 dequantized wrong
X
)
[ "$seen" = "$expected" ]
