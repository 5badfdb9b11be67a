#!/usr/bin/env bash
# onnxslim 0.1.98 (PyPI onnxslim): slim() takes two nodes of the same op, attributes and inputs for one, also where the
# op draws random numbers. Two RandomNormalLike or two Bernoulli of the same input become one node, so two noises that
# were independent are the same: their difference, which has a variance of 2 (or 0.5 with a probability of one half), is
# 0 everywhere. ONNX's text: without a seed the op makes one by itself, so each node has its own. With seeds that differ
# nothing is joined. ONNX Runtime 1.32.0 runs the models, its own optimisations off. Seen on 29 November 2026; fails
# when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnxslim==0.1.98 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxruntime
import onnxslim
from onnx import helper, TensorProto as T
from onnx.helper import make_node

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 4
x = np.full([100000], 0.5, np.float32)
for op, seeds in (("RandomNormalLike", [{}, {}]), ("RandomNormalLike", [{"seed": 1.0}, {"seed": 2.0}]),
                  ("Bernoulli", [{}, {}])):
    nodes = [make_node(op, ["x"], [name], **seed) for name, seed in zip("ab", seeds)]
    nodes.append(make_node("Sub", ["a", "b"], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", T.FLOAT, x.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    for who, m in (("as it was", model), ("slimmed", onnxslim.slim(model))):
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        y = session.run(None, {"x": x})[0].astype(np.float64)
        print(op, *seeds, who, len(m.graph.node), "nodes, variance", round(y.var(), 1), "zeros", (y == 0).all())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
RandomNormalLike {} {} as it was 3 nodes, variance 2.0 zeros False
RandomNormalLike {} {} slimmed 2 nodes, variance 0.0 zeros True
RandomNormalLike {'seed': 1.0} {'seed': 2.0} as it was 3 nodes, variance 2.0 zeros False
RandomNormalLike {'seed': 1.0} {'seed': 2.0} slimmed 3 nodes, variance 2.0 zeros False
Bernoulli {} {} as it was 3 nodes, variance 0.5 zeros False
Bernoulli {} {} slimmed 2 nodes, variance 0.0 zeros True
X
)
[ "$seen" = "$expected" ]
