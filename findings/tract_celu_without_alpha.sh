#!/usr/bin/env bash
# tract 0.23.9 (PyPI tract): Celu of a negative x is exp(x / alpha) - 1, without the factor alpha before it. ONNX's
# text: max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), which is smooth at 0 for any alpha and goes down to -alpha.
# What is left has a kink there and goes down to -1. With alpha 1 both are one. No error tells. ONNX Runtime 1.32.0
# computes the text's. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install tract==0.23.9 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import sys

import numpy as np
import onnx
import onnxruntime
import tract
from onnx import helper, TensorProto as T

x = np.array([-8, -2, -1, 3], np.float32)
for alpha in (1.0, 2.0, 0.5):
    graph = helper.make_graph([helper.make_node("Celu", ["x"], ["y"], alpha=alpha)], "g",
                              [helper.make_tensor_value_info("x", T.FLOAT, [4])],
                              [helper.make_tensor_value_info("y", T.FLOAT, [4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, sys.argv[1])
    text = np.maximum(0, x) + np.minimum(0, alpha * (np.exp(x / alpha) - 1))
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    right = session.run(None, {"x": x})[0]
    got = tract.onnx().load(sys.argv[1]).into_model().into_runnable().run([x])[0].to_numpy()
    for name, y in (("text", text), ("tract", got), ("ONNX Runtime", right)):
        print("alpha", alpha, name, *(f"{v:.2f}" for v in y))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder/model.onnx")
printf '%s\n' "$seen"
expected=$(cat <<'X'
alpha 1.0 text -1.00 -0.86 -0.63 3.00
alpha 1.0 tract -1.00 -0.86 -0.63 3.00
alpha 1.0 ONNX Runtime -1.00 -0.86 -0.63 3.00
alpha 2.0 text -1.96 -1.26 -0.79 3.00
alpha 2.0 tract -0.98 -0.63 -0.39 3.00
alpha 2.0 ONNX Runtime -1.96 -1.26 -0.79 3.00
alpha 0.5 text -0.50 -0.49 -0.43 3.00
alpha 0.5 tract -1.00 -0.98 -0.86 3.00
alpha 0.5 ONNX Runtime -0.50 -0.49 -0.43 3.00
X
)
[ "$seen" = "$expected" ]
