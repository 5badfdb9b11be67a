#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime): what a Loop of no turns has collected. Each turn gives a row of [2, 3], so that
# t turns give [t, 2, 3]. Of no turns the rank and the dimensions are those that the body's output is *declared* with,
# which ONNX leaves optional and does not speak of here: [0, 2, 3] with its shape, [0, 0, 0] where its dimensions are
# names, and [0], of another rank, where no shape is declared and none can be inferred (of a carried value, say). So a
# model without annotations has a result of another rank, only for no turns. Seen on 28 November 2026; fails when that
# changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, TensorProto as T

value = helper.make_tensor_value_info
for declared in ([2, 3], ["p", "q"], None):
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_on"], ["goes_on"]), helper.make_node("Identity", ["a"], ["b"]),
         helper.make_node("Neg", ["a"], ["row"])], "body",
        [value("i", T.INT64, []), value("go_on", T.BOOL, []), value("a", T.FLOAT, None)],
        [value("goes_on", T.BOOL, []), value("b", T.FLOAT, None), value("row", T.FLOAT, declared)])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["turns", "", "x"], ["last", "y"], body=body)], "g",
        [value("x", T.FLOAT, ["p", "q"]), value("turns", T.INT64, [])], [value("y", T.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shapes = [session.run(None, {"x": np.zeros((2, 3), np.float32), "turns": np.array(t)})[0].shape for t in (0, 2)]
    print("declared", declared, "no turns", list(shapes[0]), "two turns", list(shapes[1]))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py")
printf '%s\n' "$seen"
expected=$(cat <<'E'
declared [2, 3] no turns [0, 2, 3] two turns [2, 2, 3]
declared ['p', 'q'] no turns [0, 0, 0] two turns [2, 2, 3]
declared None no turns [0] two turns [2, 2, 3]
E
)
[ "$seen" = "$expected" ]
