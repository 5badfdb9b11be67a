#!/usr/bin/env bash
# ONNX's reference evaluator (PyPI onnx 1.23.2): LpNormalization with p = 1 divides by the sum of the elements, not of
# their absolute values, so that numbers of both signs come out too large or with the other sign, and such as cancel
# become 0. The p-norm of a vector is (sum |x|^p)^(1/p); ONNX Runtime 1.32.0 computes that. With p = 2 squares hide the
# difference. Seen on 28 November 2026; fails when that changes.
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


for row in ([1, 3], [1, -3], [2, -2]):
    x = np.array([row], np.float32)
    (reference,), (runtime,) = both("LpNormalization", x, axis=1, p=1)
    print(row, "reference", reference.ravel().tolist(), "ONNX Runtime", runtime.ravel().tolist(), "by the rule",
          (x / np.abs(x).sum()).ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
[1, 3] reference [0.25, 0.75] ONNX Runtime [0.25, 0.75] by the rule [0.25, 0.75]
[1, -3] reference [-0.5, 1.5] ONNX Runtime [0.25, -0.75] by the rule [0.25, -0.75]
[2, -2] reference [0.0, 0.0] ONNX Runtime [0.5, -0.5] by the rule [0.5, -0.5]
E
)
[ "$seen" = "$expected" ]
