#!/usr/bin/env bash
# onnxscript 0.7.2 (PyPI onnxscript): optimize() joins a Clip with the Relu or the Clip after it into one Clip with the
# larger minimum and the smaller maximum. Where the two ranges do not meet, that Clip's minimum is above its maximum,
# and ONNX's text makes everything the maximum then; computed one after the other everything is the nearest end of the
# second range. So Relu(Clip(x, -3, -1)) gives -1 instead of 0, and Clip(Clip(x, 0, 1), 2, 3) gives 1 instead of 2. The
# other way round, Clip(Relu(x), -3, -1), is -1 both times. ONNX Runtime 1.32.0 runs the models, its own optimisations
# off. Seen on 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnxscript==0.7.2 onnx-ir==1.1.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxruntime
import onnxscript.optimizer
from onnx import helper, numpy_helper, TensorProto as T
from onnx.helper import make_node

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 4
x = np.array([-5, -2, 0.5, 5], np.float32)
for bounds in ([(-3, -1), None], [None, (-3, -1)], [(0, 1), (2, 3)], [(0, 4), (2, 6)]):
    nodes, constants, by_hand = [], [], x
    for number, ends in enumerate(bounds):
        given, made = ("x", "t") if number == 0 else ("t", "y")
        if ends is None:
            nodes.append(make_node("Relu", [given], [made]))
            by_hand = np.maximum(by_hand, 0)
        else:
            names = [f"{which}_{number}" for which in ("minimum", "maximum")]
            constants += [numpy_helper.from_array(np.float32(end), name) for end, name in zip(ends, names)]
            nodes.append(make_node("Clip", [given, *names], [made]))
            by_hand = np.minimum(np.maximum(by_hand, ends[0]), ends[1])
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", T.FLOAT, x.shape)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    print(*("Relu" if ends is None else f"Clip {ends}" for ends in bounds), "by hand", *by_hand)
    for who, m in (("as it was", model), ("optimised", onnxscript.optimizer.optimize(model))):
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        print(" ", who, *session.run(None, {"x": x})[0], "by", *(node.op_type for node in m.graph.node))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
Clip (-3, -1) Relu by hand 0.0 0.0 0.0 0.0
  as it was 0.0 0.0 0.0 0.0 by Clip Relu
  optimised -1.0 -1.0 -1.0 -1.0 by Clip
Relu Clip (-3, -1) by hand -1.0 -1.0 -1.0 -1.0
  as it was -1.0 -1.0 -1.0 -1.0 by Relu Clip
  optimised -1.0 -1.0 -1.0 -1.0 by Clip
Clip (0, 1) Clip (2, 3) by hand 2.0 2.0 2.0 2.0
  as it was 2.0 2.0 2.0 2.0 by Clip Clip
  optimised 1.0 1.0 1.0 1.0 by Clip
Clip (0, 4) Clip (2, 6) by hand 2.0 2.0 2.0 4.0
  as it was 2.0 2.0 2.0 4.0 by Clip Clip
  optimised 2.0 2.0 2.0 4.0 by Clip
X
)
[ "$seen" = "$expected" ]
