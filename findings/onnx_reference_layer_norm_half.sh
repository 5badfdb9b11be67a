#!/usr/bin/env bash
# ONNX 1.23.2 (PyPI onnx): its reference evaluator computes LayerNormalization of float16 in float16, whatever
# stash_type says. ONNX's text: stash_type (1, float, by default) is the precision of stage one, mean and variance.
# Values of 300 have squares beyond float16's largest number, 65504: the variance becomes infinite, and all results are
# 0, where the formula gives 1, -1, 1, -1. ONNX Runtime 1.32.0 and PyTorch 2.15.0 give those. Seen on 27 November 2026;
# fails when that changes.
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


x = np.array([[300, -300, 300, -300]], np.float16)
y = run("LayerNormalization", [x, np.ones(4, np.float16)], stash_type=1)[0]
wide = x.astype(np.float64)
right = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
print(np.abs(y).ravel().tolist(), "by the formula", np.abs(right.round(3)).ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
[0.0, 0.0, 0.0, 0.0] by the formula [1.0, 1.0, 1.0, 1.0]
E
)
[ "$seen" = "$expected" ]
