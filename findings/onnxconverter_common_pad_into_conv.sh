#!/usr/bin/env bash
# onnxconverter-common 1.16.0 (PyPI onnxconverter-common): optimize_onnx_model makes a Pad before a Conv the Conv's own
# padding, and reads neither the Pad's mode nor its constant_value. ONNX's text: a Conv pads with zeros; "reflect" and
# "edge" pad with what lies inside, and "constant" with constant_value. Of a Conv with auto_pad SAME_UPPER, whose own
# padding comes on top of the Pad's, the Pad's alone is left, and the result is smaller. A kernel of ones over 1, 2, 3
# with one place on each side is 5, 6, 7 by "reflect" and 3, 6, 5 after. No warning tells. With zeros the result is
# right. ONNX Runtime 1.32.0 runs the models, its own optimisations off. Seen on 30 November 2026; fails when that
# changes.
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
x = np.array([1, 2, 3], np.float32).reshape(1, 1, 1, 3)
constants = {"w": np.ones([1, 1, 1, 3], np.float32), "p": np.array([0, 0, 0, 1, 0, 0, 0, 1]),
             "c": np.array(9, np.float32)}
for name, of_pad, of_conv, inputs, padding in (
        ("zeros", {}, {}, ["r", "p"], {"constant_values": 0}),
        ("reflect", {"mode": "reflect"}, {}, ["r", "p"], {"mode": "reflect"}),
        ("edge", {"mode": "edge"}, {}, ["r", "p"], {"mode": "edge"}),
        ("constant 9", {}, {}, ["r", "p", "c"], {"constant_values": 9}),
        ("zeros and SAME_UPPER", {}, {"auto_pad": "SAME_UPPER"}, ["r", "p"], {"constant_values": 0})):
    padded = np.pad(x[0, 0, 0], 1, **padding)
    text = np.convolve(padded, np.ones(3), "same" if of_conv else "valid")
    nodes = [make_node("Relu", ["x"], ["r"], "first"), make_node("Pad", inputs, ["q"], "pad", **of_pad),
             make_node("Conv", ["q", "w"], ["t"], "conv", **of_conv), make_node("Relu", ["t"], ["y"], "last")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", T.FLOAT, [1, 1, 1, text.size])],
                              [numpy_helper.from_array(v, k) for k, v in constants.items() if k in ("w", *inputs)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    print(name, "text", *text)
    for who, change in (("as it was", lambda m: m), ("optimised", optimize_onnx_model)):
        model = change(model)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        print(" ", who, *session.run(None, {"x": x})[0].ravel(), "by", *(node.op_type for node in model.graph.node))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
zeros text 3.0 6.0 5.0
  as it was 3.0 6.0 5.0 by Relu Pad Conv Relu
  optimised 3.0 6.0 5.0 by Relu Conv Relu
reflect text 5.0 6.0 7.0
  as it was 5.0 6.0 7.0 by Relu Pad Conv Relu
  optimised 3.0 6.0 5.0 by Relu Conv Relu
edge text 4.0 6.0 8.0
  as it was 4.0 6.0 8.0 by Relu Pad Conv Relu
  optimised 3.0 6.0 5.0 by Relu Conv Relu
constant 9 text 12.0 6.0 14.0
  as it was 12.0 6.0 14.0 by Relu Pad Conv Relu
  optimised 3.0 6.0 5.0 by Relu Conv Relu
zeros and SAME_UPPER text 1.0 3.0 6.0 5.0 3.0
  as it was 1.0 3.0 6.0 5.0 3.0 by Relu Pad Conv Relu
  optimised 3.0 6.0 5.0 by Relu Conv Relu
X
)
[ "$seen" = "$expected" ]
