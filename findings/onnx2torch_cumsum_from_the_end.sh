#!/usr/bin/env bash
# onnx2torch 1.5.15 (PyPI onnx2torch, with PyTorch 2.15.0): five ops that it converts to something else, with no
# warning. A CumSum that does not name reverse sums from the end; ONNX's default is from the start. IsInf's
# detect_negative and detect_positive are read past. NonZero has a row for each element found where ONNX's text has a
# row for each axis. A PRelu's slope of as many numbers as there are channels is taken for the channels'; ONNX's text
# aligns it at the last axis. A ReduceMax (or ReduceMin, ReduceProd) without keepdims over the first axis and -1 reduces
# the last two instead of the first and the last. ONNX Runtime 1.32.0 and NumPy agree with the text. Seen on 29 November
# 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT # 6 GB, most of it what PyTorch brings along
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx2torch==1.5.15 torch==2.15.0 torchvision==0.29.2 onnx==1.23.2 \
  onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper, TensorProto as T
from onnx2torch import convert

inf = np.inf
line, ends = np.array([1, 2, 3], np.float32), np.array([-inf, 0, inf], np.float32)
found = np.array([[1, 0], [1, 1]], np.float32)
rows, slope = np.full([1, 2, 2], -1, np.float32), np.array([2, 3], np.float32)
cube = np.arange(8, dtype=np.float32).reshape([2, 2, 2])
axis = {"axis": np.array(0)}
for op, x, constants, attributes, text in (
        ("CumSum", line, axis, {"reverse": 0}, np.cumsum(line)),
        ("CumSum", line, axis, {}, np.cumsum(line)),
        ("IsInf", ends, {}, {"detect_negative": 0}, ends == inf),
        ("IsInf", ends, {}, {"detect_positive": 0}, ends == -inf),
        ("NonZero", found, {}, {}, np.array(np.nonzero(found))),
        ("PRelu", rows, {"slope": slope}, {}, rows * slope),
        ("ReduceMax", cube, {}, {"axes": [0, 2], "keepdims": 0}, cube.max(axis=(0, 2))),
        ("ReduceMax", cube, {}, {"axes": [0, -1], "keepdims": 0}, cube.max(axis=(0, 2)))):
    kind = helper.np_dtype_to_tensor_dtype(text.dtype)
    graph = helper.make_graph([helper.make_node(op, ["x", *constants], ["y"], **attributes)], "g",
                              [helper.make_tensor_value_info("x", T.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", kind, [None] * text.ndim)],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    right = session.run(None, {"x": x})[0]
    got = convert(model).eval()(torch.from_numpy(x)).detach().numpy()
    print(op, attributes, "ONNX Runtime is the text's", np.array_equal(right, text))
    for who, y in (("text", text), ("onnx2torch", got)):
        print(" ", who, np.array(y).tolist())
P
seen=$("$folder/venv/bin/python" -W ignore "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
CumSum {'reverse': 0} ONNX Runtime is the text's True
  text [1.0, 3.0, 6.0]
  onnx2torch [1.0, 3.0, 6.0]
CumSum {} ONNX Runtime is the text's True
  text [1.0, 3.0, 6.0]
  onnx2torch [6.0, 5.0, 3.0]
IsInf {'detect_negative': 0} ONNX Runtime is the text's True
  text [False, False, True]
  onnx2torch [True, False, True]
IsInf {'detect_positive': 0} ONNX Runtime is the text's True
  text [True, False, False]
  onnx2torch [True, False, True]
NonZero {} ONNX Runtime is the text's True
  text [[0, 1, 1], [0, 0, 1]]
  onnx2torch [[0, 0], [1, 0], [1, 1]]
PRelu {} ONNX Runtime is the text's True
  text [[[-2.0, -3.0], [-2.0, -3.0]]]
  onnx2torch [[[-2.0, -2.0], [-3.0, -3.0]]]
ReduceMax {'axes': [0, 2], 'keepdims': 0} ONNX Runtime is the text's True
  text [5.0, 7.0]
  onnx2torch [5.0, 7.0]
ReduceMax {'axes': [0, -1], 'keepdims': 0} ONNX Runtime is the text's True
  text [5.0, 7.0]
  onnx2torch [3.0, 7.0]
X
)
[ "$seen" = "$expected" ]
