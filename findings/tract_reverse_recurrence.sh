#!/usr/bin/env bash
# tract 0.23.9 (PyPI tract): its reader of ONNX takes RNN, LSTM and GRU with direction "reverse" for "forward". ONNX's
# text: "reverse" goes from the last step to the first, and Y holds each step's state at that step's place. Of a signal
# that is 1 at the first step and 0 after, the states of the later steps are 0 then; tract has those of a sequence read
# from the front. No error tells. "bidirectional" reads both ways. ONNX Runtime 1.32.0 runs the same files. Seen on 29
# November 2026; fails when that changes.
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

x = np.array([1, 0, 0], np.float32).reshape(3, 1, 1)
for op, gates in (("RNN", 1), ("LSTM", 4), ("GRU", 3)):
    for direction in ("forward", "reverse", "bidirectional"):
        n = 2 if direction == "bidirectional" else 1
        weights = [helper.make_tensor("w", T.FLOAT, [n, gates, 1], [1.0] * gates * n),
                   helper.make_tensor("r", T.FLOAT, [n, gates, 1], [0.5] * gates * n)]
        node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=1, direction=direction)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", T.FLOAT, [3, 1, 1])],
                                  [helper.make_tensor_value_info("y", T.FLOAT, [3, n, 1, 1])], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, sys.argv[1])
        session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
        right = session.run(None, {"x": x})[0]
        got = tract.onnx().load(sys.argv[1]).into_model().into_runnable().run([x])[0].to_numpy()
        for name, y in (("tract", got), ("ONNX Runtime", right)):
            print(op, direction, name, *(f"{v:.2f}" for v in y.ravel()))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" "$folder/model.onnx")
printf '%s\n' "$seen"
expected=$(cat <<'X'
RNN forward tract 0.76 0.36 0.18
RNN forward ONNX Runtime 0.76 0.36 0.18
RNN reverse tract 0.76 0.36 0.18
RNN reverse ONNX Runtime 0.76 0.00 0.00
RNN bidirectional tract 0.76 0.76 0.36 0.00 0.18 0.00
RNN bidirectional ONNX Runtime 0.76 0.76 0.36 0.00 0.18 0.00
LSTM forward tract 0.37 0.21 0.14
LSTM forward ONNX Runtime 0.37 0.21 0.14
LSTM reverse tract 0.37 0.21 0.14
LSTM reverse ONNX Runtime 0.37 0.00 0.00
LSTM bidirectional tract 0.37 0.37 0.21 0.00 0.14 0.00
LSTM bidirectional ONNX Runtime 0.37 0.37 0.21 0.00 0.14 0.00
GRU forward tract 0.20 0.13 0.09
GRU forward ONNX Runtime 0.20 0.13 0.09
GRU reverse tract 0.20 0.13 0.09
GRU reverse ONNX Runtime 0.20 0.00 0.00
GRU bidirectional tract 0.20 0.20 0.13 0.00 0.09 0.00
GRU bidirectional ONNX Runtime 0.20 0.20 0.13 0.00 0.09 0.00
X
)
[ "$seen" = "$expected" ]
