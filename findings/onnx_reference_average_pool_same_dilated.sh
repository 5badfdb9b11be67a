#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx): its reference evaluator's AveragePool with auto_pad SAME_UPPER and dilations above 1 has
# zeros where windows reach the padding behind the image, and takes no account of padding before it. By the text padding
# is split between both sides, and is not counted (count_include_pad 0): with a kernel of 3 and dilations of 2 the mean
# at place 0 is that of elements 0 and 2. MaxPool of the same attributes is right. Seen on 27 November 2026; fails when
# that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
from onnx import helper, numpy_helper, TensorProto
from onnx.reference import ReferenceEvaluator


def run(op, inputs, outputs=1, opset=21, absent=(), **attributes):
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
    given = {n: x for n, x in zip(names, inputs) if n}
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
         for n, x in given.items()], [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return ReferenceEvaluator(model).run(None, given)


x = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5, 1) * np.ones((1, 1, 5, 5), np.float32)
y = run("AveragePool", [x], kernel_shape=[3, 3], dilations=[2, 2], auto_pad="SAME_UPPER")[0]
right = [np.mean([row for row in (i - 2, i, i + 2) if 0 <= row < 5]) + 1 for i in range(5)]
print("column 0", y[0, 0, :, 0].tolist(), "by the text", [float(v) for v in right])
print("column 4", y[0, 0, :, 4].tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
column 0 [3.0, 3.0, 3.0, 0.0, 0.0] by the text [2.0, 3.0, 3.0, 3.0, 4.0]
column 4 [0.0, 0.0, 0.0, 0.0, 0.0]
E
)
[ "$seen" = "$expected" ]
