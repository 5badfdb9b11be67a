#!/usr/bin/env bash
# ONNX Runtime 1.32.0 (PyPI onnxruntime, CPU): Cast of a float just beyond FLOAT8E5M2's largest number, 57344, with
# saturate 0 is nan. ONNX's table for Cast has infinity for E5M2 there, and so does ONNX Runtime for 1e6. From 61440 on
# a number rounds up to 65536, which is beyond the exponents that finite numbers have; it is then nan up to 65535, and
# infinity above. ONNX's reference evaluator has infinity for all of them. Seen on 27 November 2026; fails when that
# changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.3.5
cat >"$folder/seen.py" <<'P'
import numpy as np
import onnxruntime
from onnx import helper, TensorProto
from onnx.reference import ReferenceEvaluator

x = np.array([57344, 61439, 61440, 65535, 65536, 1e6], np.float32)
graph = helper.make_graph(
    [helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT8E5M2, saturate=0),
     helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT)], "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
print("given       ", x.tolist())
print("ONNX Runtime", session.run(None, {"x": x})[0].tolist())
print("reference   ", ReferenceEvaluator(model).run(None, {"x": x})[0].tolist())
P
seen=$("$folder/venv/bin/python" "$folder/seen.py" 2>/dev/null)
printf '%s\n' "$seen"
expected=$(cat <<'E'
given        [57344.0, 61439.0, 61440.0, 65535.0, 65536.0, 1000000.0]
ONNX Runtime [57344.0, 57344.0, nan, nan, inf, inf]
reference    [57344.0, 57344.0, inf, inf, inf, inf]
E
)
[ "$seen" = "$expected" ]
