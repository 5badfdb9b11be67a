#!/usr/bin/env bash
# onnxscript 0.7.2 (PyPI onnxscript): optimize() takes x + c, x - c, x * c and x / c for x where the scalar c is no more
# than 1e-8 from 0, or within 1e-5 of 1. So the 1e-9 that keeps a logarithm or a quotient finite is gone: log(x + 1e-9)
# of 0 becomes -inf, and 0 / (x + 1e-9) of 0 becomes NaN. A step of 2^-27 added to doubles is lost, and so is a factor
# of 1 + 2^-17, which float tells from 1 by 64 units in the last place. 1e-7 stays. PyTorch's exporter to ONNX (2.15.0,
# dynamo) calls optimize() unless told not to. ONNX Runtime 1.32.0 runs the models, its own optimisations off. Seen on
# 29 November 2026; fails when that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnxscript==0.7.2 onnx-ir==1.1.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnx
import onnxruntime
import onnxscript.optimizer
from onnx import helper, numpy_helper
from onnx.helper import make_node

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 4


def then(op, second):
    return [make_node(op, ["x", "c"], ["t"]), make_node(*second, ["y"])]


log = ("Log", ["t"])
for name, dtype, x, c, nodes in (
        ("log(x + 1e-7)", np.float32, [0, 1], 1e-7, then("Add", log)),
        ("log(x + 1e-9)", np.float32, [0, 1], 1e-9, then("Add", log)),
        ("x / (x + 1e-9)", np.float32, [0, 1], 1e-9, then("Add", ("Div", ["x", "t"]))),
        ("x - 2^-27, less x", np.float64, [0, 1], 2**-27, then("Sub", ("Sub", ["t", "x"]))),
        ("x * (1 + 2^-17), less x", np.float32, [0, 1], 1 + 2**-17, then("Mul", ("Sub", ["t", "x"]))),
        ("x / (1 + 2^-17), less x", np.float32, [0, 1], 1 + 2**-17, then("Div", ("Sub", ["t", "x"])))):
    x = np.array(x, dtype)
    values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [numpy_helper.from_array(np.array(c, dtype), "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    for who, m in (("as it was", model), ("optimised", onnxscript.optimizer.optimize(model))):
        session = onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])
        y = session.run(None, {"x": x})[0]
        print(name, who, *(f"{v:.3g}" for v in y), "by", *(node.op_type for node in m.graph.node))
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'X'
log(x + 1e-7) as it was -16.1 1.19e-07 by Add Log
log(x + 1e-7) optimised -16.1 1.19e-07 by Add Log
log(x + 1e-9) as it was -20.7 0 by Add Log
log(x + 1e-9) optimised -inf 0 by Log
x / (x + 1e-9) as it was 0 1 by Add Div
x / (x + 1e-9) optimised nan 1 by Div
x - 2^-27, less x as it was -7.45e-09 -7.45e-09 by Sub Sub
x - 2^-27, less x optimised 0 0 by Sub
x * (1 + 2^-17), less x as it was 0 7.63e-06 by Mul Sub
x * (1 + 2^-17), less x optimised 0 0 by Sub
x / (1 + 2^-17), less x as it was 0 -7.63e-06 by Div Sub
x / (1 + 2^-17), less x optimised 0 0 by Sub
X
)
[ "$seen" = "$expected" ]
