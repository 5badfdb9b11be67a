#!/usr/bin/env bash
# ONNX's reference evaluator (PyPI onnx 1.23.2): the second result of MaxPool has positions within each channel's image.
# By ONNX's text they are those in the whole tensor made flat, in [0, N x C x D1 x ... x Dn), as ONNX Runtime 1.32.0
# gives them and MaxUnpool reads them. The evaluator itself has the right ones where dilations are above 1, which
# another path computes. Its own tests pool one image of one channel. Seen on 28 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator


def both(op, x, results=1, **attributes):
    """What the reference evaluator and ONNX Runtime make of one node."""
    names = [f"y{i}" for i in range(results)]
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], names, **attributes)], "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return ReferenceEvaluator(model).run(None, {"x": x}), session.run(None, {"x": x})


x = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)  # each element is its own position
for attributes in ({"kernel_shape": [2, 2]}, {"kernel_shape": [2, 2], "dilations": [1, 2]}):
    (values, positions), (_, runtime) = both("MaxPool", x, 2, **attributes)
    print(attributes, "values", values.ravel().astype(int).tolist(), "reference", positions.ravel().tolist(),
          "ONNX Runtime", runtime.ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
{'kernel_shape': [2, 2]} values [4, 5, 10, 11] reference [4, 5, 4, 5] ONNX Runtime [4, 5, 10, 11]
{'kernel_shape': [2, 2], 'dilations': [1, 2]} values [5, 11] reference [5, 11] ONNX Runtime [5, 11]
E
)
[ "$seen" = "$expected" ]
