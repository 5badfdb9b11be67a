#!/usr/bin/env bash
# ONNX's reference evaluator (PyPI onnx 1.23.2): GlobalMaxPool of anything but two spatial dimensions reduces the wrong
# axes: numbers of axes are taken from the count of spatial ones, not from the third axis on. Of [2, 3, 4] it gives
# [2, 1], over channels and columns, and of [1, 2, 2, 2, 2] six dimensions. By ONNX's text all dimensions behind the
# first two become 1, which ONNX Runtime 1.32.0 gives, and the evaluator itself for GlobalAveragePool. Seen on 28
# November 2026; fails when that changes.
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


for shape in ((2, 3, 4), (1, 2, 2, 2), (1, 2, 2, 2, 2)):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (reference,), (runtime,) = both("GlobalMaxPool", x)
    print(list(shape), "reference", list(reference.shape), reference.ravel().tolist(),
          "ONNX Runtime", list(runtime.shape), runtime.ravel().tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
[2, 3, 4] reference [2, 1] [11.0, 23.0] ONNX Runtime [2, 3, 1] [3.0, 7.0, 11.0, 15.0, 19.0, 23.0]
[1, 2, 2, 2] reference [1, 2, 1, 1] [3.0, 7.0] ONNX Runtime [1, 2, 1, 1] [3.0, 7.0]
[1, 2, 2, 2, 2] reference [1, 2, 2, 1, 1, 1] [3.0, 7.0, 11.0, 15.0] ONNX Runtime [1, 2, 1, 1, 1] [7.0, 15.0]
E
)
[ "$seen" = "$expected" ]
