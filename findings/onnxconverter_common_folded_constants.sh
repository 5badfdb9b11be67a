#!/usr/bin/env bash
# onnxconverter-common 1.16.0 (PyPI onnxconverter-common): optimize_onnx_model computes nodes of constants beforehand,
# three of them wrongly. A Slice along axis -1 slices nothing (ONNX's text: a negative axis counts from the end). A
# Gather that does not name its axis takes from the flattened constant; ONNX's default is axis 0. A Div of integers
# becomes a quotient of doubles, 3.5 of 7 / 2, where ONNX's text cuts towards zero, and a Cast behind it hides that the
# type is another. No warning tells. The same nodes with axis 1, with axis 0 and of floats are right. ONNX Runtime
# 1.32.0 runs the models, its own optimisations off. Seen on 30 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnxconverter-common==1.16.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, TensorProto as T
from onnx.helper import make_node
from onnxconverter_common.optimizer import optimize_onnx_model

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
x, table = np.zeros([1], np.float32), np.arange(6).reshape(2, 3)
sliced = {"k": table, "start": [1], "end": [2]}
for name, op, attributes, constants, text in (
        ("Slice along 1", "Slice", {}, {**sliced, "axes": [1]}, table[:, 1:2]),
        ("Slice along -1", "Slice", {}, {**sliced, "axes": [-1]}, table[:, 1:2]),
        ("Gather along 0", "Gather", {"axis": 0}, {"k": table, "at": [1]}, table[1:2]),
        ("Gather", "Gather", {}, {"k": table, "at": [1]}, table[1:2]),
        ("Div of floats", "Div", {}, {"a": [7.0, -7.0], "b": [2.0, 2.0]}, np.array([3.5, -3.5])),
        ("Div of integers", "Div", {}, {"a": [7, -7], "b": [2, 2]}, np.array([3, -3]))):
    nodes = [make_node(op, [*constants], ["t"], "folded", **attributes),
             make_node("Cast", ["t"], ["u"], "cast", to=T.FLOAT), make_node("Add", ["x", "u"], ["y"], "sum")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", T.FLOAT, [f"d{i}" for i in range(text.ndim)])],
                              [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    print(name, "text", list(text.shape), *text.astype(float).ravel())
    for who, change in (("as it was", lambda m: m), ("optimised", optimize_onnx_model)):
        model = change(model)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        y = session.run(None, {"x": x})[0]
        print(" ", who, list(y.shape), *y.ravel(), "by", *(node.op_type for node in model.graph.node))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
Slice along 1 text [2, 1] 1.0 4.0
  as it was [2, 1] 1.0 4.0 by Slice Cast Add
  optimised [2, 1] 1.0 4.0 by Add
Slice along -1 text [2, 1] 1.0 4.0
  as it was [2, 1] 1.0 4.0 by Slice Cast Add
  optimised [2, 3] 0.0 1.0 2.0 3.0 4.0 5.0 by Add
Gather along 0 text [1, 3] 3.0 4.0 5.0
  as it was [1, 3] 3.0 4.0 5.0 by Gather Cast Add
  optimised [1, 3] 3.0 4.0 5.0 by Add
Gather text [1, 3] 3.0 4.0 5.0
  as it was [1, 3] 3.0 4.0 5.0 by Gather Cast Add
  optimised [1] 1.0 by Add
Div of floats text [2] 3.5 -3.5
  as it was [2] 3.5 -3.5 by Div Cast Add
  optimised [2] 3.5 -3.5 by Add
Div of integers text [2] 3.0 -3.0
  as it was [2] 3.0 -3.0 by Div Cast Add
  optimised [2] 3.5 -3.5 by Add
X
)
[ "$seen" = "$expected" ]
