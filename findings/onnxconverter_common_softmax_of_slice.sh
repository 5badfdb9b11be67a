#!/usr/bin/env bash
# onnxconverter-common 1.16.0 (PyPI onnxconverter-common): optimize_onnx_model moves an activation behind the Reshape,
# Unsqueeze or Slice that follows it, and takes Softmax for one. A Softmax is no function of single numbers: it divides
# by a sum along an axis, and the node that is moved before it cuts, parts or renumbers that axis. The first of four
# equal places is 1/4 of their softmax; after, it is the softmax of itself, 1. Two rows of two made of the four are a
# half each, and with a dimension before them each is 1, as axis 1 is now the new one. No warning tells. A Sigmoid is
# moved rightly. ONNX Runtime 1.32.0 runs the models, its own optimisations off. Seen on 30 November 2026; fails when
# that changes.
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
x = np.zeros([1, 4], np.float32)
for activation, attributes, value in (("Sigmoid", {}, 0.5), ("Softmax", {"axis": 1}, 0.25)):
    for op, constants, shape in (("Slice", {"start": [0], "end": [1], "axes": [1]}, [1, 1]),
                                 ("Reshape", {"shape": [2, 2]}, [2, 2]), ("Unsqueeze", {"axes": [1]}, [1, 1, 4])):
        nodes = [make_node("Relu", ["x"], ["r"], "first"), make_node(activation, ["r"], ["q"], "act", **attributes),
                 make_node(op, ["q", *constants], ["t"], "moved"), make_node("Relu", ["t"], ["y"], "last")]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, x.shape)],
                                  [helper.make_tensor_value_info("y", T.FLOAT, shape)],
                                  [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        print(op, "of", activation, "text", *np.full(shape, value).ravel())
        for who, change in (("as it was", lambda m: m), ("optimised", optimize_onnx_model)):
            model = change(model)
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
            y = session.run(None, {"x": x})[0]
            print(" ", who, *y.ravel(), "by", *(node.op_type for node in model.graph.node))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
Slice of Sigmoid text 0.5
  as it was 0.5 by Relu Sigmoid Slice Relu
  optimised 0.5 by Relu Slice Sigmoid Relu
Reshape of Sigmoid text 0.5 0.5 0.5 0.5
  as it was 0.5 0.5 0.5 0.5 by Relu Sigmoid Reshape Relu
  optimised 0.5 0.5 0.5 0.5 by Relu Reshape Sigmoid Relu
Unsqueeze of Sigmoid text 0.5 0.5 0.5 0.5
  as it was 0.5 0.5 0.5 0.5 by Relu Sigmoid Unsqueeze Relu
  optimised 0.5 0.5 0.5 0.5 by Relu Unsqueeze Sigmoid Relu
Slice of Softmax text 0.25
  as it was 0.25 by Relu Softmax Slice Relu
  optimised 1.0 by Relu Slice Softmax Relu
Reshape of Softmax text 0.25 0.25 0.25 0.25
  as it was 0.25 0.25 0.25 0.25 by Relu Softmax Reshape Relu
  optimised 0.5 0.5 0.5 0.5 by Relu Reshape Softmax Relu
Unsqueeze of Softmax text 0.25 0.25 0.25 0.25
  as it was 0.25 0.25 0.25 0.25 by Relu Softmax Unsqueeze Relu
  optimised 1.0 1.0 1.0 1.0 by Relu Unsqueeze Softmax Relu
X
)
[ "$seen" = "$expected" ]
