#!/usr/bin/env bash
# onnxoptimizer 0.4.2 (PyPI onnxoptimizer): its pass eliminate_consecutive_idempotent_ops, one of those that optimize()
# takes by default, lets the second of two Reshapes read the first one's input. ONNX's text: a 0 in the second one's
# shape copies that dimension from its input, which is the first one's result. Of [6, 4] to [2, 3, 4] and then by
# [0, -1] two rows of 12 come out; optimised it is six rows of 4. The expansion of GroupNormalization that ONNX gives
# has such a pair, and changes its numbers. Shapes without 0 are joined rightly. No warning tells. Seen on 29 November
# 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnxoptimizer==0.4.2 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxoptimizer
import onnxruntime
from onnx import helper, TensorProto as T

x = np.zeros([6, 4], np.float32)
for first, second in (([2, 3, 4], [2, -1]), ([2, 3, 4], [0, -1])):
    nodes = [helper.make_node("Reshape", ["x", "first"], ["t"]), helper.make_node("Reshape", ["t", "second"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", T.FLOAT, [2, 12])],
                              [helper.make_tensor("first", T.INT64, [len(first)], first),
                               helper.make_tensor("second", T.INT64, [len(second)], second)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    for name, m in (("as it was", model), ("optimised", onnxoptimizer.optimize(model))):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        print(first, second, name, list(session.run(None, {"x": x})[0].shape))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py")
printf '%s\n' "$seen"
expected=$(cat <<'X'
[2, 3, 4] [2, -1] as it was [2, 12]
[2, 3, 4] [2, -1] optimised [2, 12]
[2, 3, 4] [0, -1] as it was [2, 12]
[2, 3, 4] [0, -1] optimised [6, 4]
X
)
[ "$seen" = "$expected" ]
