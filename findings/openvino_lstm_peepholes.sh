#!/usr/bin/env bash
# OpenVINO 2026.4.1 (PyPI openvino, CPU): its reader of ONNX takes an LSTM with peepholes (input P) and computes it
# without. ONNX's text: the gates i and f see the last cell times Pi and Pf, o the new cell times Po. No error tells,
# and the sums are those of the LSTM without P. ONNX Runtime 1.32.0 runs the same files. Seen on 29 November 2026; fails
# when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import helper, TensorProto as T


def compare(name, node, inputs, results, constants=(), opset=18):
    """Runs a model of one node in both runtimes and prints the results that `results` asks for."""
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", T.FLOAT, inputs.shape)],
        [helper.make_tensor_value_info(r, kind, shape) for r, kind, shape in results], list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, sys.argv[1])
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    compiled = openvino.Core().compile_model(sys.argv[1], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    run = compiled([inputs])
    right = session.run(None, {"x": inputs})
    for who, ys in (("OpenVINO", [run[o] for o in compiled.outputs]), ("ONNX Runtime", right)):
        for (r, _, _), y in zip(results, ys):
            print(name, who, r, list(y.shape), *(f"{v:.3g}" for v in np.array(y).ravel()))


x = np.ones([2, 1, 1], np.float32)
weights = [helper.make_tensor("w", T.FLOAT, [1, 4, 1], [1.0] * 4),
           helper.make_tensor("r", T.FLOAT, [1, 4, 1], [0.5] * 4),
           helper.make_tensor("p", T.FLOAT, [1, 3], [2.0] * 3)]
for name, more in (("without", []), ("with P", ["", "", "", "", "p"])):
    node = helper.make_node("LSTM", ["x", "w", "r"] + more, ["y"], hidden_size=1)
    compare(name, node, x, [("y", T.FLOAT, [2, 1, 1, 1])], weights if more else weights[:2])
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder/model.onnx")
printf '%s\n' "$seen"
expected=$(cat <<'X'
without OpenVINO y [2, 1, 1, 1] 0.37 0.602
without ONNX Runtime y [2, 1, 1, 1] 0.37 0.602
with P OpenVINO y [2, 1, 1, 1] 0.37 0.602
with P ONNX Runtime y [2, 1, 1, 1] 0.451 0.836
X
)
[ "$seen" = "$expected" ]
